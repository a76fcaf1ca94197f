/* Shared by the files of this folder: what a context, a provider and a call are made of, and the one way into a context.
 *
 * One mutex a context guards everything in it, its loop too. The thread that has the seat drives the loop; it lets go of the mutex while it
 * polls and while a callback of the caller runs, so others can start and stop calls meanwhile. */
#ifndef ABX_CAPI_INNER_H
#define ABX_CAPI_INNER_H

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <uv.h>

#include "doors/capi/capi.h"
#include "host/host.h"
#include "net/keeper.h"

#define CAPI_WAITING_MAX ((size_t)1024 * 1024) /* bytes that wait in a call */
#define CAPI_SEND_MAX    ((size_t)16 * 1024 * 1024)

typedef struct capi_item {
    struct capi_item *next;
    int kind;
    const char *name; /* in bytes, or NULL */
    size_t length;
    abx_error *error;
    char bytes[]; /* data, 0, name, 0 */
} capi_item;

/* A thread that waits while another one drives. On its stack; in the context's list. */
typedef struct capi_waiter {
    struct capi_waiter *next;
    capi_call *call; /* whose event it waits for; or NULL */
    sem_t sem;
    bool woken;
} capi_waiter;

struct capi_context {
    pid_t pid; /* of the process that made it */
    pthread_mutex_t lock;
    uv_loop_t loop;
    uv_prepare_t alive; /* a loop with nothing in it would not let anybody sleep */
    abx_keeper *keeper; /* its thread starts children */
    char *home, *config_file, *profile, *program;
    bool reads_config;
    abx_log log;
    void (*log_write)(int level, const char *line, void *user);
    void *log_user;

    int wake_fd;                      /* ends the poll of the driver */
    int outer_fd, notify_fd, time_fd; /* of capi_context_fd; -1 until it is asked for */
    uint64_t armed;                   /* when time_fd fires; ABX_FOREVER: not */
    int woken;                        /* atomic: capi_context_wake was called */

    bool driven; /* the seat is taken */
    pthread_t driver;
    capi_waiter *waiters;
    pthread_cond_t delivered; /* a callback has returned */

    capi_provider *providers;
    capi_call *calls;
    capi_call *ready, *ready_last;     /* pulled calls with events that nobody was told of */
    capi_call *to_give, *to_give_last; /* calls with a callback and events for it */
    uint64_t happened;                 /* events delivered so far */
};

struct capi_provider {
    capi_provider *next;
    capi_context *ctx;
    char *id;
    bool forced; /* the connection names it */
    abx_config *config;
    char **env; /* the configuration's copy of the environment; or NULL */
    abx_host *host;
    bool closing, closed;
};

struct capi_call {
    capi_call *next, *prev;
    capi_context *ctx;
    capi_provider *provider; /* NULL once it is closed */
    abx_call *inner;         /* NULL after its end */
    void (*on_event)(void);
    void *user;
    capi_item *head, *tail, *current;
    size_t waiting;
    bool paused;    /* the inner call is held back */
    bool held_back; /* by the caller */
    bool listed;    /* in `ready` or `to_give` */
    capi_call *list_next;
    bool ended, end_given;
    bool full, wants_room; /* input */
    bool in_callback, freed;
    int pins;        /* functions that wait on it, in which a callback may free it */
    pthread_t giver; /* the thread of in_callback */
};

/* --- the way in (section.c) ---------------------------------------------------------------------------- */

/* What a thread holds while it is inside. */
typedef struct capi_section {
    capi_context *ctx;
    sigset_t mask; /* the thread's own */
    bool pipe_pending;
} capi_section;

/* Take the lock, with SIGPIPE kept from this thread until it leaves. -1 and FORKED in another process than the one that made the
 * context. */
int capi_enter(capi_section *s, capi_context *ctx, abx_error **err);
void capi_leave(capi_section *s);
bool capi_is_inherited(const capi_context *ctx);
/* 0, or -1 and FORKED. For functions that need no lock. */
int capi_check_process(const capi_context *ctx, abx_error **err);
/* Out of the context for a callback, and back. */
void capi_step_out(capi_section *s);
void capi_step_in(capi_section *s);

/* --- driving (drive.c) ---------------------------------------------------------------------------------- */

/* Drive, or wait for who drives, until done(data), at most timeout_ms (-1: no limit). call: whose events it waits for, or NULL. runs: the
 * caller looks after ready calls itself. 1: done; 0. */
int capi_wait(capi_section *s, bool (*done)(void *data), void *data, capi_call *call, bool runs,
              int timeout_ms);
/* Something was begun outside of the driver's turn: whoever drives must see to it. */
void capi_poke(capi_context *ctx);
/* A call has got an event. */
void capi_announce(capi_call *call);

/* --- calls (queue.c) ------------------------------------------------------------------------------------ */
extern const abx_call_handlers capi_call_handlers;
/* Take the first item that waits; lets the inner call go on when there is room again. NULL: none. */
capi_item *capi_queue_take(capi_call *call);
void capi_item_free(capi_item *item);
void capi_item_show(const capi_item *item, capi_event *out);
void capi_call_unlist(capi_call *call);  /* out of `ready` or `to_give` */
void capi_call_discard(capi_call *call); /* not while it is pinned */
/* capi_call_start for a provider id other than that of p; NULL: as p chooses. call.c */
capi_call *capi_call_start_at(capi_provider *p, const char *id, const char *method,
                              const char *params, int64_t timeout_ms, void (*on_event)(void),
                              void *user, abx_error **err);
/* Wait for the end of a call and free it: its result (owned), or NULL and *err. call NULL: NULL. call.c */
char *capi_call_finish(capi_call *call, abx_error **err);

const abx_adapter *const *capi_adapters(void); /* adapters.c */

/* --- providers (connection.c) --------------------------------------------------------------------------- */
/* Fill config, id and forced of a provider from a connection object. folder: the plugin's that was named; owned; or NULL. */
int capi_connection_read(capi_provider *p, const char *connection, char **folder, abx_error **err);
/* A configuration as this context reads it; profile: NULL for the context's own. */
int capi_config_open(capi_context *ctx, bool reads, const char *profile, char ***env,
                     abx_config **out, abx_error **err);
void capi_env_free(char **env);
/* An object from outside: NULL text is {}. Members that are not in known (NULL at the end): USAGE. */
yyjson_doc *capi_object(const char *text, const char *what, const char *const *known,
                        abx_error **err);

#endif
