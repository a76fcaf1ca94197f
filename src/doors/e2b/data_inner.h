/* What the files of the data plane share; nobody else includes it.
 *
 *   data.c        open, close, break; what a request waits for       data_call.c   calls of the host, and their errors
 *   data_proc.c   the processes: who follows them, their end         data_start.c  Start, Connect, and processes from before
 *   data_rpc.c    what else is asked of them                         data_input.c  their input
 *   data_fs.c     Stat, ListDir, MakeDir, Move, Remove               data_entry.c  file objects as EntryInfo
 *   data_watch.c  WatchDir    data_poll.c  polled watchers           data_info.c   /health, /metrics, /envs
 *   data_get.c    GET /files  data_put.c  POST /files                data_compose.c
 *   data_env.c    the variables that E2B sets
 *   data_code.c   the code interpreter
 *   data_port.c   ports of users: by a tunnel   data_port_url.c  by a URL   data_port_head.c  their heads
 *
 * Whatever waits for the host holds the plane (e2b_plane_hold): it is freed when all have let go. */
#ifndef ABX_DOORS_E2B_DATA_INNER_H
#define ABX_DOORS_E2B_DATA_INNER_H

#include "base/buf.h"
#include "base/id.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/e2b/data.h"
#include "e2b/server.h"
#include "net/http_client.h"

/* --- the plane of a box ----------------------------------------------------------------------------------- */
typedef struct e2b_data {
    e2b_box *box;
    e2b_door *door;
    abx_e2b_server *server;
    abx_link procs, watchers, ports; /* of data_proc.c, data_poll.c, data_port.c */
    abx_link runs;                   /* calls of the host that are under way: data_call.c */
    abx_link users;                  /* known ones: data.c */
    abx_link visits;                 /* who asks whether it is there: data_info.c */
    abx_http *http;                  /* to URLs of ports; NULL: not yet */
    size_t user_count, watcher_count;
    int64_t next_pid; /* for processes of a provider without numbers */
    size_t holds;
    bool server_open, closing;
    bool no_detach; /* the provider's processes end with their call */
    void (*closed)(void *data);
    void *closed_data;
} e2b_data;

void e2b_plane_hold(e2b_data *d);
void e2b_plane_release(e2b_data *d); /* d may be gone afterwards */
/* The folder of this user ("" for the default one) where relative paths begin; NULL: not asked yet. */
const char *e2b_plane_home(const e2b_data *d, const char *user);
void e2b_plane_know(e2b_data *d, const char *user, const char *home);
extern const abx_e2b_filling e2b_filling;

/* --- calls of the host (data_call.c) ------------------------------------------------------------------------- */
/* A unary call. cb runs once: with the result, or with err (borrowed both); when the call cannot be started, before this
 * returns. It runs also when the plane is closed meanwhile. params is taken over. */
typedef void (*e2b_run_cb)(void *arg, yyjson_val *result, const abx_error *err);
void e2b_run(e2b_data *d, abx_op_id op, yyjson_mut_doc *params, e2b_run_cb cb, void *arg);
void e2b_runs_cancel(e2b_data *d);
/* {"sandboxId"} and, where there is one, the user of the request. */
yyjson_mut_doc *e2b_params(const e2b_data *d, const abx_e2b_call *c, yyjson_mut_val **root);
/* Start a call of the caller's own: 0, or -1, *err, and the call is gone. */
int e2b_launch(e2b_data *d, abx_op_id op, yyjson_mut_doc *params, const abx_call_handlers *on,
               void *data, abx_call **out, abx_error **err);

/* What a failure is about: its words differ. */
typedef enum e2b_about {
    E2B_ABOUT_START,
    E2B_ABOUT_PROCESS,
    E2B_ABOUT_INPUT,
    E2B_ABOUT_FILE
} e2b_about;
abx_e2b_code e2b_code_of(e2b_about about, const abx_error *err);
/* The text for a client: the message, behind our code where E2B has no such failure. Owned. */
char *e2b_text_of(const abx_error *err);
/* End a call with an error of the host. When the sandbox is gone or paused its connection is reset instead, as the clients
 * expect. The call is over for the caller; its handlers must be gone (abx_e2b_call_handle with NULL). */
void e2b_fail(e2b_data *d, abx_e2b_call *c, e2b_about about, const abx_error *err);
/* The same for a plain route, and for one of the code interpreter. */
void e2b_refuse_call(e2b_data *d, abx_e2b_call *c, const abx_error *err);
int e2b_file_status(const abx_error *err);
/* May this error mean that the sandbox is gone? Then the door looks for it. */
bool e2b_is_gone(const abx_error *err);

/* --- a request that waits for one call after the other -------------------------------------------------------- */
typedef struct e2b_task {
    e2b_data *data;
    abx_e2b_call *call;  /* NULL: its client is gone */
    yyjson_val *request; /* valid while call is */
    char *path, *other;  /* owned texts of the one who uses it */
    void *more;          /* as well; freed */
} e2b_task;
e2b_task *e2b_task_new(e2b_data *d, abx_e2b_call *c, yyjson_val *request);
void e2b_task_free(e2b_task *t);
/* End it, with the call if that is still there. */
void e2b_task_answer(e2b_task *t, yyjson_mut_val *tree);
void e2b_task_fail(e2b_task *t, e2b_about about, const abx_error *err);
void e2b_task_say(e2b_task *t, abx_e2b_code code, const char *fmt, ...) ABX_PRINTF(3, 4);

/* --- processes (data_proc.c) ------------------------------------------------------------------------------------ */
typedef struct e2b_proc {
    abx_link node;
    e2b_data *data;
    int refs;
    abx_call *call; /* that follows it; NULL: over */
    char *id;       /* the provider's; NULL until it has started */
    int64_t pid;
    char *tag;
    yyjson_doc *config; /* as it was sent */
    bool tty, has_stdin;
    bool started, ended;
    bool timed_out;
    bool asked_detach; /* by onDisconnect */
    bool own_call;     /* a cancel of call ends it */
    bool killed;       /* by such a cancel */
    /* As it was asked for. */
    char *user;          /* or NULL */
    uint64_t timeout_ms; /* ABX_FOREVER: none */
    int64_t cols, rows;  /* 0: not told */
    int64_t exit_code;   /* -1: a signal */
    char signal[24];     /* "SIGKILL" */
    size_t held;         /* followers that take no more now */
    abx_link subs, inputs, waiters;
    uv_timer_t timer; /* forgets it */
    bool has_timer;
} e2b_proc;

typedef struct e2b_sub {
    abx_link node;
    e2b_proc *proc;
    abx_e2b_call *call;
    bool held;
    bool limited; /* the call's time limit is the process's */
} e2b_sub;

e2b_proc *e2b_proc_new(e2b_data *d);
void e2b_proc_ref(e2b_proc *p);
void e2b_proc_unref(e2b_proc *p);
/* Out of the table. */
void e2b_proc_leave(e2b_proc *p);
e2b_sub *e2b_sub_add(e2b_proc *p, abx_e2b_call *c);
void e2b_sub_send_start(const e2b_sub *s);
/* Send an ended process's end to a follower, who is gone then. */
void e2b_sub_send_end(e2b_sub *s);
void e2b_subs_fail(e2b_proc *p, e2b_about about, const abx_error *err);
extern const abx_call_handlers e2b_proc_follow; /* of the call that follows it; data: the process */
void e2b_procs_close(e2b_data *d);
/* The running process of the table that the selector means (also an ended one: ended), or NULL. */
e2b_proc *e2b_proc_find(e2b_data *d, yyjson_val *selector, bool ended);
/* "exit status 1", "signal: killed"; returns false for an end without failure. */
bool e2b_end_text(const e2b_proc *p, char out[64]);

/* data_start.c */
void e2b_rpc_start(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_rpc_connect(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
/* Find the process that a request is about, also one from before this door, then go on: cb(data, c, q, p). Else c is failed. */
typedef void (*e2b_proc_cb)(e2b_data *d, abx_e2b_call *c, yyjson_val *q, e2b_proc *p);
void e2b_select(e2b_data *d, abx_e2b_call *c, yyjson_val *q, bool ended, e2b_proc_cb cb);
/* The same for a running one; q is taken over. */
void e2b_select_doc(e2b_data *d, abx_e2b_call *c, yyjson_doc *q, e2b_proc_cb cb);
void e2b_adopted(e2b_proc *p, const abx_error *err); /* its call has begun, or failed */
/* A start that failed: its followers are told, as E2B words it. */
/* The provider refused its start for a parameter that it did not need: it is tried without. False: it is not. */
bool e2b_start_again(e2b_proc *p, const abx_error *err);
void e2b_start_failed(e2b_proc *p, const abx_error *err);
/* ProcessConfig and number (0: none) of a process object of the host. */
yyjson_doc *e2b_config_of(yyjson_val *process);
int64_t e2b_pid_of(yyjson_val *process);

/* data_rpc.c */
void e2b_rpc_list(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_rpc_update(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_rpc_send_signal(e2b_data *d, abx_e2b_call *c, yyjson_val *q);

/* data_input.c */
void e2b_rpc_send_input(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_rpc_stream_input(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_rpc_close_stdin(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_inputs_fail(e2b_proc *p);

/* --- files --------------------------------------------------------------------------------------------------------- */
/* data_entry.c: a file object of the host as EntryInfo. */
void e2b_entry_put(yyjson_mut_doc *d, yyjson_mut_val *obj, yyjson_val *file);
/* data_fs.c */
void e2b_rpc_stat(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_rpc_list_dir(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_rpc_make_dir(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_rpc_move(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_rpc_remove(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
/* data_watch.c */
typedef struct e2b_watch e2b_watch;
typedef struct e2b_watch_handlers {
    void (*started)(void *data);
    /* FilesystemEvent; taken over. 1: go on; 0: hold until e2b_watch_resume. */
    int (*event)(void *data, yyjson_mut_doc *event);
    void (*end)(void *data,
                const abx_error *err); /* the watch is gone; err NULL: it ended by itself */
} e2b_watch_handlers;
/* Watch the folder of the request. 0, or -1 and *err. */
int e2b_watch_open(e2b_data *d, const abx_e2b_call *c, yyjson_val *q, const e2b_watch_handlers *on,
                   void *data, e2b_watch **out, abx_error **err);
void e2b_watch_resume(e2b_watch *w);
void e2b_watch_close(e2b_watch *w); /* no handler runs any more */
void e2b_rpc_watch_dir(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
/* data_poll.c */
void e2b_rpc_create_watcher(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_rpc_get_watcher_events(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_rpc_remove_watcher(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_watchers_close(e2b_data *d);
/* data_get.c, data_put.c */
void e2b_get_open(void *data, abx_e2b_get *g, const char *path, const char *user, bool live);
void e2b_get_send(void *file, int64_t offset, int64_t length);
void e2b_get_more(void *file);
void e2b_get_close(void *file);
void *e2b_put_open(void *data, const char *path, const abx_e2b_put_options *o, abx_e2b_fault *f);
int e2b_put_write(void *file, const uint8_t *bytes, size_t n);
void e2b_put_close(void *file, bool whole, abx_e2b_put_done done, void *arg);
/* data_compose.c */
void e2b_rpc_compose(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
/* data_info.c */
void e2b_rpc_health(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_health_gone(e2b_data *d); /* answer those that are under way: it is not there */
void e2b_rpc_metrics(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
/* Add E2B_SANDBOX and its like to an environment, unless it or the sandbox's creator has the name. */
void e2b_env_put(const e2b_data *data, yyjson_mut_doc *d, yyjson_mut_val *env);
void e2b_rpc_envs(e2b_data *d, abx_e2b_call *c, yyjson_val *q);

/* --- code (data_code.c) --------------------------------------------------------------------------------------------- */
void e2b_rpc_execute(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_rpc_context_list(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_rpc_context_new(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_rpc_context_restart(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
void e2b_rpc_context_remove(e2b_data *d, abx_e2b_call *c, yyjson_val *q);

/* --- ports ----------------------------------------------------------------------------------------------------------- */
/* data_port.c: a request for a port that somebody in the sandbox opened. */
typedef struct e2b_link {
    abx_link node;
    e2b_data *data;
    abx_exchange *x; /* NULL: its client is gone */
    int port;
    bool upgrade;   /* it wants to leave HTTP */
    bool head_only; /* HEAD: the answer has no body */
    bool answered;  /* the head went out */
    bool raw;       /* the connection has left HTTP */
    abx_call *call; /* sandbox.tunnel; NULL: over, or by a URL */
    struct e2b_answer_parser *parser;
    abx_http_transfer *transfer; /* by a URL; NULL: over */
} e2b_link;
void e2b_port_handle(e2b_data *d, int port, abx_exchange *x);
void e2b_ports_reset(e2b_data *d);
void e2b_link_close(
    e2b_link *l); /* both sides are over: free it, with the client's connection if it is there */
void e2b_link_refuse(e2b_link *l, const abx_error *err); /* no answer will come */

/* data_port_url.c: the same by sandbox.host, where there is no tunnel. */
void e2b_port_by_url(e2b_link *l);

/* Header lines that are made one by one; those that frame a message are left out. */
typedef struct e2b_lines {
    char **items;
    size_t count;
} e2b_lines;
void e2b_lines_add(e2b_lines *l, const char *name, const char *value);
void e2b_lines_clear(e2b_lines *l);
/* May a service see this header? Not what belongs to one connection or to this door, nor the door's key, nor the sandbox's token. */
bool e2b_port_passes(const e2b_box *box, const char *name, const char *value);

/* data_port_head.c: heads as text. The request line and the headers that the service gets; NULL: too long. Owned. */
char *e2b_port_head(const e2b_box *box, const abx_exchange *x, const char *host, size_t *len);
/* The answer of a service, byte by byte. */
typedef struct e2b_answer_handlers {
    /* The final head (also 101). lines: "Name: value" without those that frame the message; length -1: chunked or until the end. */
    void (*head)(void *data, int status, const char *const *lines, size_t count, int64_t length);
    void (*body)(void *data, const uint8_t *bytes, size_t n);
    void (*end)(void *data); /* the answer is whole */
} e2b_answer_handlers;
typedef struct e2b_answer_parser e2b_answer_parser;
e2b_answer_parser *e2b_answer_new(const e2b_answer_handlers *on, void *data, bool head_only);
void e2b_answer_free(e2b_answer_parser *p);
/* 0; -1: this is no HTTP answer. After the end, or after the head of a 101, bytes are not taken: the count of those that were. */
ssize_t e2b_answer_feed(e2b_answer_parser *p, const uint8_t *bytes, size_t n);
/* The connection has ended. 0: that is a fine end of the answer; -1: it is cut off. */
int e2b_answer_eof(e2b_answer_parser *p);

#endif
