/* A door that runs as a server of its own, one at a time in a home: the lock that the living one holds, the file that tells
 * others of it, and what the command line needs to run one.
 *
 * HOME/NAME.lock (0600) is held by the one living server, by a lock of the kernel that ends with its process. HOME/NAME.json
 * (0600) tells where it is; without the lock's holder it means nothing. */
#ifndef ABX_HOST_SERVING_H
#define ABX_HOST_SERVING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "host/host.h"

/* --- the lock and the file --------------------------------------------------------------------------------- */
typedef struct abx_serving abx_serving;

/* Become the one server of this name in this home. 0 and *out; 1: another one is (no error); -1 and *err. */
int abx_serving_begin(const char *home, const char *name, abx_serving **out, abx_error **err);
/* Write the file: what others may know. doc: an object; pid, version and startedAt are put into it. */
int abx_serving_publish(abx_serving *s, yyjson_mut_doc *doc, abx_error **err);
/* Remove the file and keep the lock: it ends, and is not for new clients. */
void abx_serving_retire(abx_serving *s);
/* Remove the file, let go of the lock. NULL allowed. */
void abx_serving_end(abx_serving *s);
/* Who serves now: 0 and *pid, and *info (owned: the file; NULL while it has not written it yet, pass NULL to drop it); 1: nobody; -1
 * and *err: the file can be read by others, or is broken. Not for the process that serves itself. */
int abx_serving_find(const char *home, const char *name, pid_t *pid, yyjson_doc **info,
                     abx_error **err);

/* --- a door as a server ---------------------------------------------------------------------------------------- */
typedef struct abx_serve_options {
    uv_loop_t *loop;
    abx_host *host; /* borrowed until close's cb; NULL for a door with hosts of its own */
    const char *home;
    const char *provider; /* id; NULL for a door with hosts of its own */
    const abx_adapter *const *adapters;
    const char *self; /* as abx_host_options */
    yyjson_val *
        defaults; /* parameters of sandbox.create for what a sandbox's creator does not say: an object; copied */
    int port;               /* 0: the one of last time if it is free, else any */
    const char *tls_domain; /* serve https under this domain, too; NULL: no TLS */
    int tls_port;           /* as port */
    uint64_t idle_ms;       /* end after so long without requests; ABX_FOREVER: never */
    uint64_t
        session_idle_ms; /* a door with hosts of its own closes one that is not used for so long */
    bool tells_requests; /* somebody watches the log: a line for each request */
    const abx_log *log;
    void (*on_end)(void *data); /* it wants to be closed: idle, or drained. From the loop */
    void *data;
} abx_serve_options;

typedef struct abx_server_door {
    const char *name;   /* of its lock and its file */
    const char *domain; /* of TLS, where none is asked for */
    /* It opens hosts by itself, of what its clients send: no configuration of the user's is read for it. */
    bool own_hosts;
    const char
        *protocol; /* what its file must name for this program to speak to it; NULL: not asked */
    /* 0 and *door; 1: another one serves; -1 and *err. */
    int (*open)(const abx_serve_options *options, void **door, abx_error **err);
    /* Take no more requests, let those that run end for a while, then on_end. */
    void (*drain)(void *door);
    /* Cut off what is left, free, then cb(data) on the loop. */
    void (*close)(void *door, void (*cb)(void *data), void *data);
    /* The variables that its clients read, as members of root; for another process than the server's. info: its file.
     * by_names: the names below its domain lead to this machine. 0, or -1 and *err. NULL: there are none. */
    int (*variables)(const char *home, yyjson_val *info, bool by_names, yyjson_mut_doc *d,
                     yyjson_mut_val *root, abx_error **err);
} abx_server_door;

#endif
