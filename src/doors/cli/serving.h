/* Doors that run as servers of their own: started, found and stopped by verbs. Which doors there are is said by main. */
#ifndef ABX_CLI_SERVING_H
#define ABX_CLI_SERVING_H

#include "doors/cli/cli.h"
#include "host/serving.h"

/* What lives now. */
typedef struct abx_served {
    pid_t pid;
    yyjson_doc *info; /* the server's file */
} abx_served;
void abx_served_clear(abx_served *s);

/* The living server. 0 and *out, 1: none, -1 and *err. One that is about to write its file is waited for. */
int abx_serving_look(abx_cli *cli, const char *name, abx_served *out, abx_error **err);
/* How to serve; see abx_serve_options. */
typedef struct abx_serve_wish {
    int port, tls_port;
    const char *tls_domain;
    uint64_t idle_ms, session_idle_ms;
} abx_serve_wish;

/* Serve until a signal or the server itself ends it. background: in a process of its own; then, and when another one serves
 * already, *out tells of it (else it is empty) and 0 is returned at once. on_ready (or NULL) runs when it serves in the foreground:
 * 0, or -1 and *err. */
int abx_serving_run(abx_cli *cli, const abx_server_door *door, bool background,
                    const abx_serve_wish *wish,
                    int (*on_ready)(abx_cli *cli, const abx_served *own, abx_error **err),
                    abx_served *out, abx_error **err);
/* 0 if this program speaks what the living server says in its file; else -1 and *err, which names both. */
int abx_serving_check_protocol(const abx_server_door *door, const abx_served *s, abx_error **err);
/* End the living server: TERM, and after a while KILL. 0, 1: there was none, -1 and *err. */
int abx_serving_stop(abx_cli *cli, const char *name, abx_error **err);

#endif
