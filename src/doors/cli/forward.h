/* A port of this machine's loopback whose connections go to a port of a sandbox. */
#ifndef ABX_CLI_FORWARD_H
#define ABX_CLI_FORWARD_H

#include "doors/cli/cli.h"

typedef struct abx_forward_spec {
    const char *sandbox;
    int port;                      /* inside */
    struct sockaddr_storage local; /* port 0: any free one */
} abx_forward_spec;

/* "8080", "127.0.0.1:8080", "[::1]:8080", "localhost:0" as an address of the loopback. NULL: 127.0.0.1, any free port.
 * 0, or -1 and USAGE. */
int abx_forward_parse(const char *text, struct sockaddr_storage *out, abx_error **err);

/* Listen, tell `told` the address ("127.0.0.1:8080"), and serve until a signal comes (128 + its number) or the sandbox has
 * gone (-1 and *err). */
int abx_forward_run(abx_cli *cli, const abx_forward_spec *spec,
                    int (*told)(abx_cli *cli, const char *address, void *data, abx_error **err),
                    void *data, abx_error **err);

#endif
