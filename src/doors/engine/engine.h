/* The engine: HTTP, SSE and WebSocket on 127.0.0.1 for clients in any language, over the calls of the host. This header is what its files
 * share; outside only serve.h is included. What goes over the wire is in docs/engine-api.md.
 *
 *   serve.c       its life: lock, file, listener, idle time, drain       auth.c     Host, Origin, token, proof
 *   connection.c  the header X-Abx-Connection → a session                sessions.c the sessions: a host each
 *   router.c      which request is which row of ops.def                  request.c  parameters of a request
 *   reach.c       whose sandbox is it?                                   made.c     what a connection has made
 *   bodies.c      room for JSON bodies, all connections together
 *   unary.c       rows that answer once                                  answer.c   answers and errors
 *   own.c         health, providers, shutdown
 *
 * The way of a request: dispatch (serve.c) → auth.c → router.c finds the row → connection.c finds the session → request.c gathers the
 * parameters (path, query, JSON body) and checks them → reach.c → the handler of the row's style. Which one that is says the table
 * `handlers` in router.c, one line a style; A STREAMING ROUTE PLUGS IN THERE: a handler gets a request whose parameters are complete and
 * whose sandbox may be reached. It sets its own handlers on r->x (abx_exchange_handle), starts its call by engine_request_start, answers as
 * it likes (SSE, raw bytes, WebSocket), and calls engine_request_end once, when the exchange has closed and the call has ended.
 * A row whose bytes come in the request's body (style BODY_IN) or that is upgraded has its parameters in the query; its body is still
 * unread and paused when the handler gets it (abx_exchange_resume).
 *
 * A session is a host (host/host.h) of its own with one provider, opened with what one connection header says: nothing of it, no key, no
 * address, no program, is shared with another connection.
 * Threads: all on the loop's. */
#ifndef ABX_DOORS_ENGINE_ENGINE_H
#define ABX_DOORS_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log.h"
#include "host/host.h"
#include "host/serving.h"
#include "net/http_server.h"
#include "ops/call.h"
#include "ops/ops.h"

#define ENGINE_PROTOCOL     "abx-engine/1"
#define ENGINE_TOKEN_BYTES  24
#define ENGINE_TOKEN_SIZE   32 /* characters */
#define ENGINE_SECRET_BYTES 32
#define ENGINE_DIGEST_BYTES 32
#define ENGINE_BODY_MAX     ((size_t)32 * 1024 * 1024) /* of a JSON body */

typedef struct engine engine;
typedef struct engine_session engine_session;
typedef struct engine_request engine_request;
typedef struct engine_router engine_router;
typedef struct engine_made engine_made;

/* One connection of a client's, as its header says; of sessions.c. */
struct engine_session {
    engine_session *next;
    engine *engine;
    uint8_t digest[ENGINE_DIGEST_BYTES]; /* of what the header says */
    uint8_t header[ENGINE_DIGEST_BYTES]; /* of the header's text that was seen last */
    char *provider;                      /* id */
    abx_config *config;
    abx_host *host;
    size_t uses;        /* requests that have it */
    uint64_t used_ms;   /* monotonic: the last of them ended */
    uint64_t opened_ms; /* monotonic */
};

/* Of bodies.c. */
typedef enum engine_body_kind {
    ENGINE_BODY_SMALL, /* at most 1 MiB, by a Content-Length */
    ENGINE_BODY_LARGE,
    ENGINE_BODY_KINDS
} engine_body_kind;

typedef struct engine_bodies {
    abx_link waiting[ENGINE_BODY_KINDS]; /* for room; in their order */
    abx_link coming[ENGINE_BODY_KINDS];  /* being read */
    size_t taken[ENGINE_BODY_KINDS];     /* bytes */
} engine_bodies;

typedef struct engine_body {
    abx_link node; /* of one of the lists above, or alone */
    engine_body_kind kind;
    bool admitted;   /* it holds room */
    size_t room;     /* bytes */
    uint64_t due_ms; /* monotonic: it is refused then */
} engine_body;

struct engine {
    uv_loop_t *loop;
    char *home, *self;
    const abx_adapter *const *adapters;
    const abx_log *log;
    bool tells_requests;
    abx_http_server *http;
    char token[ENGINE_TOKEN_SIZE + 1];
    uint8_t secret[ENGINE_SECRET_BYTES]; /* of digests; ends with the process */
    int port;
    char *health; /* body of its answer */
    engine_router *router;
    struct engine_streams *streams; /* stream.h */
    engine_session *sessions;
    size_t session_count;
    size_t closing_sessions; /* that are in nobody's list any more */
    uint64_t session_idle_ms;
    engine_made *made;
    engine_bodies bodies;
    abx_link all;         /* requests that live, also those whose client has gone */
    size_t requests;      /* how many */
    abx_serving *serving; /* of life */
    struct abx_serving_life *life;
    bool draining;
};

/* --- requests (request.c) ----------------------------------------------------------------------------------------- */
struct engine_request {
    engine *engine;
    abx_exchange *x; /* NULL: it has closed */
    const abx_op_row *row;
    engine_session *session;
    yyjson_mut_doc *params; /* complete when the handler gets it */
    yyjson_mut_val *root;   /* its object */
    uint64_t since_ms;      /* monotonic */
    uint64_t limit_ms;      /* of its call; 0: none */
    char *path;             /* for the log; NULL: nobody watches */
    int status;             /* that was answered; 0: none yet */
    bool asking;            /* reach.c waits for an answer of the provider */
    engine_body body;
    void (*ready)(engine_request *r);
    abx_link node; /* of the engine's list */
    /* The engine ends and cuts x off soon: say why. NULL: nothing. Of the handler. */
    void (*last_words)(engine_request *r, const abx_error *why);
    void *handler; /* what last_words needs */
};

/* A request for a row: path parameters are filled in, then query or body is read and checked, the sandbox asked for, and then `handler` has it. What
 * fails is answered. Everything is freed when the exchange closes before. */
void engine_request_begin(engine *e, abx_exchange *x, const abx_op_row *row, yyjson_mut_doc *params,
                          void (*handler)(engine_request *r));
/* Make the call of the request and start it in its session; NULL: it was refused and that was answered (the exchange still closes by
 * itself). Takes r->params. */
abx_call *engine_request_start(engine_request *r, const abx_call_handlers *handlers, void *data);
/* It is over: no exchange, no call. */
void engine_request_end(engine_request *r);

/* --- room for bodies (bodies.c) ------------------------------------------------------------------------------------- */
void engine_bodies_init(engine_bodies *b);
/* Refuse those that are late; some times a second. */
void engine_bodies_tick(engine_bodies *b, uint64_t now_ms);
/* The JSON body of r is about to be read: it is, or r->x is paused until there is room, or answered after a while. */
void engine_body_begin(engine_request *r);
/* It is whole, and has no time limit any more. */
void engine_body_came(engine_request *r);
/* Nothing of it is held here any more. Again, and without a body: nothing. */
void engine_body_end(engine_request *r);

/* --- the table of routes (router.c) ----------------------------------------------------------------------------------- */
engine_router *engine_router_new(void);
void engine_router_free(engine_router *router);
/* Give the request to its route, or answer 404 or 405. */
void engine_route(engine *e, abx_exchange *x);

/* --- handlers, one a style; see above ---------------------------------------------------------------------------------- */
void engine_unary(engine_request *r);

/* --- own routes (own.c) --------------------------------------------------------------------------------------------------- */
/* True if it was one of these: answered. */
bool engine_own_route(engine *e, abx_exchange *x);

/* --- who may ask (auth.c) -------------------------------------------------------------------------------------------------- */
void engine_token_make(engine *e);
/* True: it may. Else it was answered. */
bool engine_admits(engine *e, abx_exchange *x);
/* The value of a header that may be there once. NULL: it is not; *count tells how often. */
const char *engine_header(const abx_exchange *x, const char *name, size_t *count);
/* HMAC-SHA256 with the secret of this process. */
void engine_digest(const engine *e, const void *a, size_t a_len, const void *b, size_t b_len,
                   uint8_t out[ENGINE_DIGEST_BYTES]);

/* --- sessions ----------------------------------------------------------------------------------------------------------------- */
/* The session that the header of the request means, opened when it is new; in use until engine_session_release. NULL and *err. connection.c */
engine_session *engine_connect(engine *e, const abx_exchange *x, abx_error **err);
/* sessions.c: found, in use; or NULL. By the text of the header; by what it says. */
engine_session *engine_session_by_header(engine *e, const uint8_t header[ENGINE_DIGEST_BYTES]);
engine_session *engine_session_by_digest(engine *e, const uint8_t digest[ENGINE_DIGEST_BYTES],
                                         const uint8_t header[ENGINE_DIGEST_BYTES]);
/* A new one, in use; config is taken over. NULL and *err. */
engine_session *engine_session_open(engine *e, const char *provider, abx_config *config,
                                    const uint8_t digest[ENGINE_DIGEST_BYTES],
                                    const uint8_t header[ENGINE_DIGEST_BYTES], abx_error **err);
void engine_session_release(engine_session *s);
/* Close those that nobody has used for long. */
void engine_sessions_tick(engine *e, uint64_t now_ms);
/* Close all. engine_life_part_gone is called when the last one has gone. */
void engine_sessions_close(engine *e);

/* --- whose sandbox? ------------------------------------------------------------------------------------------------------------ */
/* May this connection reach the sandbox of r? Yes if it made it, else its own provider is asked. Then r->ready, or the answer. */
void engine_reach(engine_request *r);
/* A call of this connection has made the sandbox, or has ended it. */
void engine_reach_made(engine_session *s, const char *id);
void engine_reach_gone(engine_session *s, const char *id);
/* made.c: a set of keys of 16 bytes. */
engine_made *engine_made_new(void);
void engine_made_free(engine_made *m);
bool engine_made_has(const engine_made *m, const uint8_t key[16]);
void engine_made_add(engine_made *m, const uint8_t key[16]);
void engine_made_remove(engine_made *m, const uint8_t key[16]);

/* --- answers (answer.c) ---------------------------------------------------------------------------------------------------------- */
/* A JSON body; value NULL: {}. */
void engine_answer(abx_exchange *x, int status, yyjson_val *value);
/* {"error": …} with the status of its row; or with another one. */
void engine_refuse(abx_exchange *x, const abx_error *err);
void engine_refuse_as(abx_exchange *x, int status, const char *header, const abx_error *err);
/* The same for a request, without the secrets of its session; remembers the status. r->x may be NULL. */
void engine_fail(engine_request *r, const abx_error *err);
/* The body of an error as an object of d, without the secrets of the session (NULL: none). */
/* A line of the log for a request, if somebody watches. */
void engine_tell(const engine *e, const char *method, const char *path, int status,
                 uint64_t since_ms);
/* What the HTTP server answers by itself, in that shape (net/http_server.h). */
size_t engine_refusal(int status, const char *reason, char *out, size_t room);
yyjson_mut_val *engine_error_body(yyjson_mut_doc *d, engine_session *s, const abx_error *err);

/* --- life (serve.c) ---------------------------------------------------------------------------------------------------------------- */
void engine_life_touch(engine *e);
void engine_life_drain(engine *e);
void engine_life_part_gone(engine *e);

#endif
