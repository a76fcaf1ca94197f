/* probe [-n [-x PATH]] [-g CALL]... NAME [ARG...]     -n in a naive sandbox, -x a file lies at PATH there,
 *                                                     -g CALL answers as if it had been granted
 * probe -l                                            all names */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe.h"

static const probe *const tables[] = {probes_file, probes_kernel, probes_mount, probes_ns,
                                      probes_pid1, probes_socket, probes_trick, probes_tty};

static const probe *find(const char *name)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const probe *p = tables[i]; p->name; p++)
            if (strcmp(p->name, name) == 0)
                return p;
    return NULL;
}

static int list(void)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const probe *p = tables[i]; p->name; p++)
            puts(p->name);
    return 0;
}

int main(int argc, char **argv)
{
    const char *at = NULL, *granted[8];
    int option, naive = 0, grants = 0;
    while ((option = getopt(argc, argv, "+nx:g:l")) > 0) {
        if (option == 'l')
            return list();
        naive |= option == 'n';
        if (option == 'x')
            at = optarg;
        if (option == 'g' && grants < 8)
            granted[grants++] = optarg;
    }
    const probe *p = argv[optind] ? find(argv[optind]) : NULL;
    if (!p) {
        (void)fprintf(stderr, "probe: no attack '%s'\n", argv[optind] ? argv[optind] : "");
        return 2;
    }
    if (naive)
        enter_naive(at);
    for (int i = 0; i < grants; i++)
        grant(granted[i]);
    errno = 0;
    long rc = p->attack(argv + optind + 1);
    if (rc >= 0)
        (void)printf("%s: worked\n", p->name);
    else
        (void)printf("%s: refused: %s\n", p->name, strerrorname_np(errno));
    return rc < 0;
}
