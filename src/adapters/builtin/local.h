/* Inside of the `local` provider: shared between its files. */
#ifndef ABX_ADAPTERS_BUILTIN_LOCAL_H
#define ABX_ADAPTERS_BUILTIN_LOCAL_H

#include "e2b/client.h"
#include "host/adapter.h"
#include "local/local.h"

typedef struct local_provider local_provider;

/* One sandbox that this process talks to: the client of its envd. */
typedef struct local_box {
    struct local_box *next;
    local_provider *owner;
    char *id;
    char *token;
    int first_fd;    /* a connection not yet used; -1 */
    int lifeline_fd; /* tied sandboxes end when this and its twins are closed; -1 */
    abx_envd_client *client;
} local_box;

struct local_provider {
    abx_provider base; /* first */
    uv_loop_t *loop;
    abx_local *local;
    bool may_fork;       /* see local/local.h */
    bool id_range;       /* option ids = "range" */
    bool disk_in_memory; /* option disk = "memory" */
    yyjson_doc *features;
    local_box *boxes;
    const abx_log *log;
    int closing;
    void (*close_cb)(void *data);
    void *close_data;
};

/* The box of a living sandbox: connects when there is none yet. Borrowed. NULL and *err. */
local_box *local_box_get(local_provider *p, const char *id, abx_error **err);
/* The box of a sandbox that is being made: its client is set up while the sandbox comes up. Does nothing where its token
 * is not known yet. */
void local_box_prepare(local_provider *p, const char *id);
/* The box of a sandbox that was just made; first_fd is taken over (-1: connect later). */
int local_box_adopt(local_provider *p, const char *id, int first_fd, bool tied, abx_error **err);
/* Close one box, or all; cb (or NULL) once, later. */
void local_box_close(local_box *box, void (*cb)(void *data), void *data);
local_box *local_box_find(local_provider *p, const char *id);

/* The first member of what belongs to a call and to the work that will end it (local_wait.c): two owners, the second to let go
 * frees. Until it is accepted it is its maker's alone. */
typedef struct local_wait {
    abx_call *call; /* NULL once it was let go */
    /* The call was cancelled while the work goes on; NULL: the work is short, its end is waited for. */
    void (*cancel)(struct local_wait *w);
    void (*free)(struct local_wait *w);
    bool _finished, _released;
} local_wait;
/* Accept the call. */
void local_wait_accept(local_wait *w, abx_call *call);
/* The work is over: w may be gone. */
void local_wait_finish(local_wait *w);
/* The same, and the call, if it is there, ends with a copy of the result (NULL: {}) or of the error. */
void local_wait_end(local_wait *w, yyjson_val *result, const abx_error *err);

/* sandbox.* (local_sandbox.c, local_create.c) and the upkeep; each as an adapter's start. */
int local_create(local_provider *p, abx_call *call, abx_error **err);
int local_sandbox(local_provider *p, abx_call *call, abx_error **err);

/* sandbox.snapshot_* (local_snapshots.c). */
int local_snapshots(local_provider *p, abx_call *call, abx_error **err);
/* One snapshot that is being taken: the sandbox is paused and held, its files are copied, it goes on. on_event and on_done as of a
 * job (local/local.h). */
typedef struct local_snapshot local_snapshot;
typedef struct local_snapshot_options {
    const char *sandbox, *name; /* name: or NULL; borrowed during the call */
    void (*on_event)(void *data, yyjson_val *event);
    void (*on_done)(void *data, yyjson_val *result, const abx_error *err);
    void *data;
} local_snapshot_options;
int local_snapshot_start(local_provider *p, const local_snapshot_options *options,
                         local_snapshot **out, abx_error **err);
void local_snapshot_cancel(local_snapshot *s); /* on_done still comes */

/* sandbox.template_* (local_templates.c). */
int local_templates(local_provider *p, abx_call *call, abx_error **err);
/* Run a job (local/local.h) and end the call as it ends; params: its parameters. */
int local_job(local_provider *p, abx_call *call, const char *job, yyjson_val *params,
              abx_error **err);

/* End the call with a frozen document (taken over). */
void local_end(abx_call *call, yyjson_doc *result);
/* An answer that is there at once: accept the call and end it so (taken over). NULL: -1, nothing happens. */
int local_answer(abx_call *call, yyjson_doc *result);

#endif
