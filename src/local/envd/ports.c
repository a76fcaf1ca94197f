/* Who listens in the sandbox: /proc/net/tcp and tcp6 of pid 1's own net namespace. */
#include "local/envd/inner.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LISTENING = 10, MAX_PORTS = 4096 };

typedef struct listener {
    unsigned port;
    char address[INET6_ADDRSTRLEN];
} listener;

/* "0100007F" or 32 digits: words of the host's byte order. */
static int read_address(const char *hex, char out[INET6_ADDRSTRLEN])
{
    uint32_t words[4];
    size_t n = strlen(hex) / 8;
    if ((n != 1 && n != 4) || strlen(hex) != 8 * n)
        return -1;
    for (size_t i = 0; i < n; i++) {
        char word[9] = {0};
        memcpy(word, hex + 8 * i, 8);
        words[i] = (uint32_t)strtoul(word, NULL, 16);
    }
    return inet_ntop(n == 1 ? AF_INET : AF_INET6, words, out, INET6_ADDRSTRLEN) ? 0 : -1;
}

static size_t read_table(const char *path, listener *list, size_t count)
{
    char line[512], local[40];
    FILE *f = fopen(path, "re");
    while (f && count < MAX_PORTS && fgets(line, sizeof(line), f)) {
        unsigned port = 0, state = 0;
        if (sscanf(line, " %*d: %39[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", local, &port, &state) ==
                3 &&
            state == LISTENING && read_address(local, list[count].address) == 0)
            list[count++].port = port;
    }
    if (f)
        fclose(f);
    return count;
}

static int by_port(const void *a, const void *b)
{
    const listener *x = a, *y = b;
    int order = (x->port > y->port) - (x->port < y->port);
    return order ? order : strcmp(x->address, y->address);
}

void abx__rpc_abx_ports(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    (void)e;
    (void)q;
    listener *list = abx_alloc_array(MAX_PORTS, sizeof(*list));
    size_t n = read_table("/proc/net/tcp", list, 0);
    n = read_table("/proc/net/tcp6", list, n);
    qsort(list, n, sizeof(*list), by_port);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *ports = abx_mut_arr(d, root, "ports");
    for (size_t i = 0; i < n; i++) {
        /* SO_REUSEPORT: several of one kind */
        if (i > 0 && by_port(&list[i - 1], &list[i]) == 0)
            continue;
        yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, ports);
        abx_mut_int(d, o, "port", list[i].port);
        abx_mut_str(d, o, "address", list[i].address);
    }
    free(list);
    abx_e2b_answer(c, root);
}
