/* What the parts of the client share; for src/e2b/client*.c only.
 *
 * Three floors: an exchange is one HTTP request with its answer; a job is one call with the exchanges it needs;
 * an operation (abx__envd_op) says what a job does. A job lives until the call let go of it, its exchanges have
 * ended and its timer is closed; whoever can still call back holds a reference. */
#ifndef ABX_E2B_CLIENT_INNER_H
#define ABX_E2B_CLIENT_INNER_H

#include "base/buf.h"
#include "base/json.h"
#include "e2b/client.h"
#include "net/http_client.h"

#define ABX__ENVD_MAX_HEAD    ((size_t)64 * 1024)
#define ABX__ENVD_MAX_MESSAGE ((size_t)4 * 1024 * 1024)
#define ABX__ENVD_MAX_LIST    ((size_t)64 * 1024 * 1024)
#define ABX__ENVD_MAX_ERROR                                                                        \
    ((size_t)64 * 1024) /* of a body that explains a failure; the rest is dropped */
#define ABX__ENVD_PIECE      ((size_t)64 * 1024)  /* of input, in a stream */
#define ABX__ENVD_CALL_PIECE ((size_t)256 * 1024) /* and in a call of its own */

#define ABX__ENVD_UNARY_MS    60000  /* a whole unary request */
#define ABX__ENVD_FIRST_MS    60000  /* until a stream's first message */
#define ABX__ENVD_PING_S      "50"   /* keepalives that we ask for */
#define ABX__ENVD_DEAD_MS     110000 /* a stream is dead after 2.2 missed ones */
#define ABX__ENVD_FILE_MS     60000  /* a download without a byte */
#define ABX__ENVD_HEALTH_MS   5000
#define ABX__ENVD_TRIES       3
#define ABX__ENVD_PATIENCE_MS 10000 /* the longest wait between two tries without a deadline */
#define ABX__ENVD_LINGER_MS   2000  /* for what is left of an exchange when all is said */

typedef struct abx__envd_exchange abx__envd_exchange;
typedef struct abx__envd_job abx__envd_job;

struct abx_envd_client {
    uv_loop_t *loop;
    char *base_url; /* without a slash at the end */
    char *code_url; /* likewise */
    char *sandbox_id;
    char *token, *traffic_token;
    char *default_user;
    unsigned version; /* as abx__envd_version */
    abx_envd_upload upload;
    bool stream_input, poll_watch;
    abx_e2b_codec codec;
    bool abx, local; /* local: reached by dial */
    int (*dial)(void *data, abx_error **err);
    int (*alive)(void *data);
    void (*explain)(void *data, abx_op_id op, abx_error *err);
    void *explain_data;
    void *dial_data;
    const abx_log *log;
    abx_http *http;
    void (*look)(void *data, abx_envd_client *client);
    void *look_data;
    bool looking;
    abx__envd_job *jobs;
    bool closing;
    void (*close_cb)(void *data);
    void *close_data;
};

/* --- versions and users (client_version.c) --------------------------------------------------------------- */
#define ABX__ENVD_V(major, minor, patch) ((major)*1000000u + (minor)*1000u + (patch))
#define ABX__ENVD_ANY                    999999999u /* nothing is known: all is there */
/* "0.5.7", with anything behind it, as a number that grows with it; ABX__ENVD_ANY when it is no version. */
unsigned abx__envd_version(const char *text);
/* Does the server have what came with this version? Our own envd has it all. */
bool abx__envd_has(const abx_envd_client *c, unsigned version);
/* 0, or -1 and FEATURE_MISSING: "WHAT needs version …". */
int abx__envd_need(const abx_envd_client *c, unsigned version, const char *what, abx_error **err);
/* The user that a request of this job names: the call's, else the client's; NULL: none. */
const char *abx__envd_user(const abx__envd_job *job);

/* --- errors (client_errors.c) ------------------------------------------------------------------------- */
/* What was asked for: it decides what "not found" or "internal" means. */
typedef enum abx__envd_kind {
    ABX__ENVD_START,   /* a process before its start */
    ABX__ENVD_PROCESS, /* a process that should exist */
    ABX__ENVD_INPUT,   /* its input or its terminal */
    ABX__ENVD_FILE,
    ABX__ENVD_CONTROL
} abx__envd_kind;

/* {"code":"not_found","message":"…"} as an error of ours. v may be anything. */
abx_error *abx__envd_connect_error(const abx_envd_client *c, abx__envd_kind kind, yyjson_val *v);
/* Why an answer is not the one that was expected: by status, type and collected body. */
abx_error *abx__envd_answer_error(const abx_envd_client *c, abx__envd_kind kind,
                                  const abx__envd_exchange *x);
/* The server said something that does not fit. */
abx_error *abx__envd_bad_answer(const abx_envd_client *c, const char *fmt, ...) ABX_PRINTF(2, 3);
/* Put the sandbox and the answer's request id into an error; returns it. x may be NULL. */
abx_error *abx__envd_stamp(const abx_envd_client *c, const abx__envd_exchange *x, abx_error *err);

/* --- exchange (client_exchange.c) --------------------------------------------------------------------- */
typedef struct abx__envd_request {
    const char *method;
    const char *path;         /* with query */
    const char *content_type; /* of the body, or NULL */
    const char *answer_type;  /* a 200 with another type is no good answer; NULL: any */
    const char *user;         /* Basic user, or NULL */
    const char *const *more;  /* header lines besides ours */
    size_t more_count;
    const char *part; /* a 206 is good if its Content-Range begins so; NULL: it is not */
    const void *body;
    size_t body_len;
    bool body_stream;
    int64_t body_size;
    bool code;                   /* goes to the code interpreter */
    bool connect;                /* Connect protocol: its version header */
    bool keepalive;              /* ask for keepalives */
    uint64_t connect_timeout_ms; /* 0: no header */
    uint64_t timeout_ms, idle_ms;
    size_t max_body; /* of a collected good answer */
    /* A request to a stranger is sent up to ABX__ENVD_TRIES times: when no byte of it left, when the server asks for it (429 with
     * Retry-After), and, if it is safe, when the connection broke before the answer or a proxy had nobody to ask (502, 503). */
    bool safe;        /* a repeat does no harm */
    bool lasts;       /* a stream that is no question: it gets a connection of its own */
    bool single;      /* once, whatever happens */
    uint64_t left_ms; /* of the call */
} abx__envd_request;

typedef struct abx__envd_hooks {
    /* Bytes of a good answer. NULL: they are collected in x->body. */
    void (*body)(abx__envd_exchange *x, const uint8_t *bytes, size_t n);
    void (*head)(abx__envd_exchange *x); /* NULL allowed */
    void (*writable)(abx__envd_exchange *x);
    /* Once; err (borrowed) as in on_end of net/http_client.h. x is freed afterwards. */
    void (*end)(abx__envd_exchange *x, const abx_error *err);
} abx__envd_hooks;

struct abx__envd_exchange {
    abx_envd_client *client;
    abx_http_transfer *transfer;
    const abx__envd_hooks *hooks;
    void *data;
    char *answer_type, *part;
    int status;     /* 0: no answer yet */
    bool good;      /* 200 (or the part), the expected type, not encoded */
    bool is_page;   /* a page for people */
    bool too_large; /* a good answer over its limit */
    bool no_length; /* its Content-Length cannot be read: end() gets an error */
    bool safe, lasts, delivered, cancelled;
    struct abx__envd_again *again; /* what another try needs, or NULL */
    bool cut; /* another answer whose body we ended at its limit: end() gets no error */
    char *content_type, *request_id, *encoding, *retry_after;
    abx_buf body; /* collected */
};

/* Returns the exchange, or NULL and *err. hooks is borrowed (static). */
abx__envd_exchange *abx__envd_exchange_start(abx_envd_client *c, const abx__envd_request *r,
                                             const abx__envd_hooks *hooks, void *data,
                                             abx_error **err);

/* A wish, as abx_http_cancel; its end comes later. */
void abx__envd_exchange_cancel(abx__envd_exchange *x);

/* "application/proto", "application/connect+json", … */
const char *abx__envd_unary_type(const abx_envd_client *c);
const char *abx__envd_stream_type(const abx_envd_client *c);

/* --- job (client_job.c) ----------------------------------------------------------------------------------- */
typedef struct abx__envd_op {
    size_t state_size; /* of job->state, zeroed */
    /* 0: the job will end; -1: *err, nothing is under way. */
    int (*start)(abx__envd_job *job, abx_error **err);
    int (*input)(abx__envd_job *job, const uint8_t *bytes, size_t n); /* 1: go on, 0: hold */
    void (*input_end)(abx__envd_job *job);
    /* The caller wants the end. NULL: all exchanges are cancelled, the job fails. */
    void (*cancel)(abx__envd_job *job);
    void (*clear)(abx__envd_job *job); /* releases what the state holds */
    /* The caller takes chunks and events again. NULL: the main exchange goes on. */
    void (*resume)(abx__envd_job *job);
    void (*stop)(abx__envd_job *job); /* the job is over: let go of a connection of its own */
} abx__envd_op;

typedef struct abx__envd_stream abx__envd_stream;

struct abx__envd_job {
    abx_envd_client *client; /* NULL after its close: the job has ended then */
    abx__envd_job *next, **at;
    abx_call *call; /* NULL when it let go */
    const abx__envd_op *op;
    void *state;
    unsigned refs;
    bool ended, cancelled;
    abx_error *doubtful;       /* the sandbox seems gone: the end waits until somebody has looked */
    abx__envd_exchange *main;  /* the request that matters */
    abx__envd_exchange *side;  /* one beside it: a kill, input */
    abx__envd_exchange *probe; /* the question whether the sandbox lives */
    abx__envd_stream *stream;  /* what reads main, or NULL */
    uv_timer_t timer;
    void (*on_timer)(abx__envd_job *job);

    /* of the unary request that runs */
    abx_e2b_msg answer_msg;
    abx__envd_kind kind;
    void (*unary_done)(abx__envd_job *job, yyjson_val *answer, abx_error *err);
    const char *as_user; /* instead of the call's user, or NULL */
    /* of the command that runs (client_command.c) */
    struct {
        abx_buf words; /* on its standard error */
        int64_t exit;  /* its code, -1 before its end, 255 after a signal */
        void (*done)(abx__envd_job *job, int64_t exit, abx_error *err);
    } command;
    /* of the question whether the sandbox lives */
    struct {
        void (*done)(abx__envd_job *job, abx_error *err);
        abx_error *by;
    } broken[2]; /* main and side may wait for it at once */
};

int abx__envd_job_run(abx_envd_client *c, abx_call *call, const abx__envd_op *op, abx_error **err);
/* The end of the call, the first one counts; result and err are taken over. */
void abx__envd_job_end(abx__envd_job *job, yyjson_mut_doc *result);
/* Somebody has looked after the sandbox: a job whose end waits for that ends with `why`, or as it was about to. */
void abx__envd_job_settle(abx__envd_job *job, const abx_error *why);
void abx__envd_job_end_with(abx__envd_job *job, abx_error *err); /* at once, whatever it is */
void abx__envd_job_fail(abx__envd_job *job, abx_error *err);
/* The call is cancelled: stop what runs, fail. */
void abx__envd_job_stop(abx__envd_job *job);
/* Start an exchange in *slot (job->main, side or probe). 0 or -1. hooks.end must set the slot to NULL by calling
 * abx__envd_job_left and end with abx__envd_job_unref. x->data is the job. */
int abx__envd_job_exchange(abx__envd_job *job, abx__envd_exchange **slot,
                           const abx__envd_request *r, const abx__envd_hooks *hooks,
                           abx_error **err);
/* The exchange is over: empty its slot. True when the job has ended, so that nothing else is to be done. */
bool abx__envd_job_left(abx__envd_job *job, abx__envd_exchange *x);
void abx__envd_job_unref(abx__envd_job *job);
void abx__envd_job_after(abx__envd_job *job, uint64_t ms, void (*cb)(abx__envd_job *job));
/* Text and numbers of the call's parameters. */
const char *abx__envd_param(const abx__envd_job *job, const char *name);
int64_t abx__envd_param_int(const abx__envd_job *job, const char *name, int64_t otherwise);
/* An exchange broke: find out whether the sandbox is gone, then done(job, error). by is copied. */
void abx__envd_job_broken(abx__envd_job *job, const abx_error *by,
                          void (*done)(abx__envd_job *job, abx_error *err));

/* --- unary calls (client_unary.c) ----------------------------------------------------------------------- */
typedef struct abx__envd_unary {
    const char *path;
    abx_e2b_msg request, answer;
    abx__envd_kind kind;
    bool has_user;       /* the parameter "user" counts */
    uint64_t timeout_ms; /* 0: none */
    size_t max_body;
    bool side; /* beside the main exchange */
    bool safe; /* a repeat does no harm */
} abx__envd_unary;

/* Encode doc's root (doc is taken over), send, decode. done runs once, later, with the answer (borrowed) or
 * an error (owned by done). Returns 0 or -1. */
int abx__envd_unary_start(abx__envd_job *job, const abx__envd_unary *u, yyjson_mut_doc *doc,
                          void (*done)(abx__envd_job *job, yyjson_val *answer, abx_error *err),
                          abx_error **err);

/* --- streams (client_stream.c) ------------------------------------------------------------------------------ */
typedef struct abx__envd_stream_spec {
    const char *path;
    abx_e2b_msg request, answer;
    bool
        input; /* client stream: data follows by abx__envd_stream_send; no limit on the first message */
    bool has_user;
    /* Bytes of a data event. NULL: such events go to message. 1, or 0: hold (the stream is paused then). */
    int (*data)(abx__envd_job *job, abx_e2b_channel channel, const uint8_t *bytes, size_t n);
    /* A message. 0; -1: stop, *err says why. */
    int (*message)(abx__envd_job *job, yyjson_val *message, abx_error **err);
    /* Once. NULL: the end frame came and was clean. code: the Connect code of an error frame, "" otherwise. err is
     * owned by end. */
    void (*end)(abx__envd_job *job, abx_error *err, const char *code);
    void (*writable)(abx__envd_job *job); /* of a client stream */
    abx__envd_kind kind;
    uint64_t first_ms; /* until the first message; 0: ABX__ENVD_FIRST_MS */
} abx__envd_stream_spec;

/* spec is borrowed (static). doc is taken over. connect_timeout_ms: the server's own limit, 0: none. */
int abx__envd_stream_start(abx__envd_job *job, const abx__envd_stream_spec *spec,
                           yyjson_mut_doc *doc, uint64_t connect_timeout_ms, abx_error **err);
/* From now on errors mean a process that runs. */
void abx__envd_stream_kind(abx__envd_job *job, abx__envd_kind kind);
/* A message said nothing (a keepalive, an event of a later version). 0; -1 and *err when too many do. */
int abx__envd_stream_idle(abx__envd_job *job, abx_error **err);
/* Leave the stream: its connection is closed; end does not run any more. */
void abx__envd_stream_drop(abx__envd_job *job);
void abx__envd_stream_resume(abx__envd_job *job);
/* Client streams: input bytes as envelopes; 1, or 0: hold until writable. Half-close. */
int abx__envd_stream_send(abx__envd_job *job, abx_e2b_channel channel, const uint8_t *bytes,
                          size_t n);
void abx__envd_stream_send_end(abx__envd_job *job);
void abx__envd_stream_free(abx__envd_job *job);

/* --- commands (client_command.c) -------------------------------------------------------------------------------------- */
/* Run a script by /bin/sh in the sandbox, with word as "$1". done once, later, with its exit code (255: a signal) or an error
 * (owned by done); its words are in job->command.words. Takes the main exchange. 0 or -1. */
int abx__envd_command(abx__envd_job *job, const char *script, const char *word,
                      void (*done)(abx__envd_job *job, int64_t exit, abx_error *err),
                      abx_error **err);

/* --- shared pieces of operations ------------------------------------------------------------------------------ */
/* Put {"process":{"pid"|"abxId"}} for an id of ours into obj. 0 or -1 and PROCESS_NOT_FOUND. */
int abx__envd_put_selector(const abx_envd_client *c, yyjson_mut_doc *d, yyjson_mut_val *obj,
                           const char *id, abx_error **err);
/* Basic auth carries the user, so that a colon or a control character would make it another one. NULL is fine. */
int abx__envd_check_user(const char *user, abx_error **err);
/* id of a start event or a list entry: the server's own, or the pid as text. Owned; NULL: unfit. */
char *abx__envd_process_id(const abx_envd_client *c, yyjson_val *with_pid);
/* The limit of the sandbox at which a process failed. */
void abx__envd_put_limit(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *limit);
/* Put exitCode or signal, timedOut and limit, of an end event into obj. */
void abx__envd_put_exit(yyjson_mut_doc *d, yyjson_mut_val *obj, yyjson_val *end_event);
/* "SIGKILL" for 9. */
void abx__envd_signal_name(int number, char out[16]);
/* An EntryInfo as file object, made in d. NULL and *err when it does not fit; listed: it comes from a list, so that
 * its path must not lead elsewhere. */
yyjson_mut_val *abx__envd_file(const abx_envd_client *c, yyjson_mut_doc *d, yyjson_val *entry,
                               bool listed, abx_error **err);
/* Is this text a name that cannot lead elsewhere: relative, no "..", no NUL. */
bool abx__envd_is_inside(yyjson_val *text);
/* A text without NUL, or NULL. */
const char *abx__envd_text(yyjson_val *obj, const char *key);
/* BYTES parameter {"text"} or {"base64"}: owned bytes. NULL and *err. */
uint8_t *abx__envd_bytes(yyjson_val *v, size_t *n, abx_error **err);

/* Append "/files?path=…[&username=…]". 0, or -1 and *err. */
int abx__envd_file_query(const abx__envd_job *job, const char *path, abx_buf *out, abx_error **err);

/* Put bytes as a member in base64; {"input":{CHANNEL:bytes}}, channel "stdin" or "pty". */
void abx__envd_put_bytes(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key, const void *bytes,
                         size_t n);
void abx__envd_put_input(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *channel,
                         const void *bytes, size_t n);

/* StartRequest of process.start and pty.open: program, cwd, env, user, limit. */
int abx__envd_put_process(abx__envd_job *job, yyjson_mut_doc *d, yyjson_mut_val *root,
                          abx_error **err);

/* Let a shell run SCRIPT with the program as "$@". */
void abx__envd_put_in_front(yyjson_mut_doc *d, yyjson_mut_val *config, const char *shell,
                            const char *script);

extern const abx__envd_op abx__envd_process_start, abx__envd_process_attach,
    abx__envd_process_detach, abx__envd_process_signal, abx__envd_process_list,
    abx__envd_process_stdin, abx__envd_process_close_stdin, abx__envd_pty_open, abx__envd_pty_write,
    abx__envd_pty_resize, abx__envd_pty_close, abx__envd_fs_read, abx__envd_fs_write,
    abx__envd_fs_stat, abx__envd_fs_list, abx__envd_fs_make_dir, abx__envd_fs_rename,
    abx__envd_fs_remove, abx__envd_fs_watch, abx__envd_code_run, abx__envd_code_interrupt,
    abx__envd_context_create, abx__envd_context_list, abx__envd_context_restart,
    abx__envd_context_remove, abx__envd_tunnel, abx__envd_metrics;

/* Why the code interpreter refused (client_contexts.c). */
abx_error *abx__envd_code_error(const abx__envd_job *job, const abx__envd_exchange *x);

#endif
