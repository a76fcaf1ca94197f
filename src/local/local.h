/* The local backend: sandboxes on this Linux machine, made of namespaces, without a daemon. This header is
 * all that the adapter sees: create, list, info, kill, deadline, reach, clear up, try out.
 *
 * pid 1 of each sandbox is our own envd, forked from this program (never exec'ed anew). Its control does not
 * depend on any process of ours: identity is a lock that pid 1 holds, a pidfd checked with start time and
 * boot id, and a socket in the sandbox's folder.
 *
 * Files, below HOME/local (HOME: abx_home_open):
 *   sandboxes/ID/   state.json  lock  s (socket)  up wk (layers)
 *   skeleton/DIGEST lower layer of every sandbox of template "host"
 *   layers/ templates/ snapshots/   see template/store.h
 *   pool/           folders prepared for the next sandboxes
 *   trash/          what is being removed
 * Root's id slots are one register for the machine: /run/abx/slots/K.
 *
 * The end of a tied sandbox is answered when it is sure, not when the last file is gone: a process in the
 * background waits for it and clears its folder. */
#ifndef ABX_LOCAL_LOCAL_H
#define ABX_LOCAL_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"

#define ABX_LOCAL_TIMEOUT_MS (60ULL * 60 * 1000) /* default life: 1 h */

typedef struct abx_local abx_local; /* the backend, opened for one home */

typedef struct abx_local_options {
    uv_loop_t *loop;
    const char *home; /* absolute; copied */
    /* True only in a one-shot program that has loaded no secret and runs no thread: pid 1 is forked from
     * this process. False: the program `starter` is started for it, scrubbed (see local/starter.h). */
    bool may_fork;
    struct abx_keeper *keeper; /* whose thread starts children; or NULL */
    const char *starter; /* command line of abx for may_fork = false; NULL: found as design says */
    const abx_log *log;
} abx_local_options;

int abx_local_open(const abx_local_options *options, abx_local **out, abx_error **err);
void abx_local_close(abx_local *local); /* frees; sandboxes live on */

/* Sizes of a sandbox; 0: none, or the default. */
typedef struct abx_local_sizes {
    uint64_t memory_bytes;
    uint64_t disk_bytes;
    uint32_t cpu_millis; /* 1000: one processor */
    uint32_t processes;
    uint32_t open_files; /* of each process */
    bool disk_in_memory; /* its private layer lies in memory: then the size of the disk is exact */
} abx_local_sizes;

/* What a sandbox is made from. Strings are borrowed during the call. */
typedef struct abx_local_spec {
    const char *id;              /* chosen by the caller (ledger), abx_is_id */
    const char *name;            /* or NULL */
    const char *idempotency_key; /* or NULL */
    yyjson_val *metadata;        /* object of strings or NULL */
    yyjson_val *env;             /* object of strings or NULL: for every process */
    uint64_t timeout_ms;         /* ABX_FOREVER: none */
    uint64_t idle_ms;            /* 0: none */
    bool pause_on_limit;         /* at the end of either: pause instead of ending */
    const char *template_name; /* name or id of a template; NULL or "host": the host's own system */
    const char *snapshot;      /* id or name of a snapshot; NULL: none. At most one of the two */
    const char *network;       /* "none" (NULL is too) or "internet" */
    bool with_root;            /* an id range is wanted (ordinary user: newuidmap) */
    const char *const *weaker; /* layers that may be missing: "proc", "net", "seccomp", … */
    size_t weaker_count;
    bool tied; /* ends with the creator: pid 1 exits when the first connection ends */
    abx_local_sizes sizes;
} abx_local_spec;

/* The result: runs once, on the loop, after abx_local_create returned 0. On success `info` (borrowed) is the
 * sandbox object, and first_fd is a connection to its envd that the callee takes over (-1 when the sandbox
 * was made by the starter and is not tied). On failure everything is cleared and err (borrowed) names the first step that
 * the kernel refused. */
typedef void (*abx_local_created_cb)(void *data, yyjson_val *info, int first_fd,
                                     const abx_error *err);
/* The memory of *spec must live until cb. */
int abx_local_create(abx_local *local, const abx_local_spec *spec, abx_local_created_cb cb,
                     void *data, abx_error **err);

/* The sandbox object of design section 3 and more: id, name, state, template, createdAt, expiresAt, metadata,
 * features, pid, isolation (which layers hold, which were weakened), limits. NULL and SANDBOX_NOT_FOUND when it
 * is not alive. */
yyjson_doc *abx_local_info(abx_local *local, const char *id, abx_error **err);
/* {"sandboxes":[…]} of all that live; the dead are cleared on the way. */
yyjson_doc *abx_local_list(abx_local *local, abx_error **err);
/* End it and remove what it had: cb once, later. Not alive: cleared too, cb with SANDBOX_NOT_FOUND. out: until cb, for
 * abx_local_kill_leave; or NULL. */
typedef struct abx_local_killing abx_local_killing;
int abx_local_kill(abx_local *local, const char *id, void (*cb)(void *data, const abx_error *err),
                   void *data, abx_local_killing **out, abx_error **err);
/* It ends all the same, but what is not removed yet stays for a later command or gc; so cb comes soon. */
void abx_local_kill_leave(abx_local_killing *k);
/* A connected socket to the sandbox's envd; the peer was checked to be the pid 1 that the state names.
 * Also the access token in *token (owned) when token is not NULL. Never waits. -1 and *err otherwise; RATE_LIMIT: it
 * lives, but more clients wait than its queue holds (1024). */
int abx_local_dial(abx_local *local, const char *id, char **token, abx_error **err);

/* The access token of a sandbox's envd; owned by the caller. NULL and *err. Never logged or shown. */
char *abx_local_token(abx_local *local, const char *id, abx_error **err);

/* Put what the sandbox's control groups count into `metrics`, the answer of its envd. Without groups: nothing. */
void abx_local_add_metrics(abx_local *local, const char *id, yyjson_mut_doc *d,
                           yyjson_mut_val *metrics);

/* --- templates and snapshots --------------------------------------------------------------------------- */
/* {"templates":[…]}, the object of one (name or id), {"snapshots":[…]}. NULL and *err (TEMPLATE_NOT_FOUND). */
yyjson_doc *abx_local_template_list(abx_local *local, abx_error **err);
yyjson_doc *abx_local_template_info(abx_local *local, const char *word, abx_error **err);
yyjson_doc *abx_local_snapshot_list(abx_local *local, abx_error **err);
/* Must the template be prepared for sandboxes of this caller first (job "template_prepare")? 1, 0, -1 and *err. */
int abx_local_template_missing(abx_local *local, const char *word, bool with_root, abx_error **err);

/* Work that takes its time, in a process of its own (template/work.h). */
typedef struct abx_local_job abx_local_job;
typedef struct abx_local_job_options {
    /* "template_add" {name, source}, "template_prepare" {template}, "template_remove" {template}, "snapshot_create" {sandboxId,
     * name}, "snapshot_remove" {snapshotId}, "doctor" {}: abx_local_doctor for a program that may not fork */
    const char *job;
    yyjson_val *params; /* copied */
    bool with_root;     /* an id range is wanted */
    /* {"layer","layers","bytes"} now and then; NULL allowed. */
    void (*on_event)(void *data, yyjson_val *event);
    /* The end, once, on the loop: exactly one of result and err is not NULL, both borrowed. */
    void (*on_done)(void *data, yyjson_val *result, const abx_error *err);
    void *data;
} abx_local_job_options;
int abx_local_job_start(abx_local *local, const abx_local_job_options *options, abx_local_job **out,
                        abx_error **err);
void abx_local_job_cancel(
    abx_local_job *job); /* on_done still comes, with CANCELLED, or with what was done */

/* Clear what dead sandboxes and killed commands left. {"removed":[{"id","what"}…]}; dry: only say. */
yyjson_doc *abx_local_gc(abx_local *local, bool dry, abx_error **err);
/* Cheap form of the same for the start of any command: at most some milliseconds. Errors are only logged. */
void abx_local_tidy(abx_local *local);

/* Try each layer, in a child that is forked from this process: {"layers":[{"name","ok","detail","fix"}…],"caller":"root"|"user",…}. */
yyjson_doc *abx_local_doctor(abx_local *local, abx_error **err);

/* The features of this backend as a map name → "native" | "emulated" | "unsupported" (added to obj). */
void abx_local_features(yyjson_mut_doc *d, yyjson_mut_val *obj);

/* Entry of the hidden verb that starts a sandbox for another program (descriptor 3 is the socket pair).
 * Returns the process's exit code. */
int abx_local_starter_main(void);

#endif
