/* The E2B door: a server that speaks E2B's protocol on the loopback and answers by calls of the host, so over any
 * provider. This header is what its files share; outside only serve.h is included.
 *
 *   serve.c      its life: lock, file, listener, idle time, drain       keys.c     its key and seed
 *   dispatch.c   which request goes where                               boxes.c    the table of sandboxes
 *   routes.c     the control plane's routes; control.h their request    box_file.c what survives a restart
 *   ask.c        a unary call of the host                               look.c     does a sandbox live?
 *   answer.c     answers and errors                                     expiry.c   the end of its life
 *   data.h       the data plane                                     secure.c   TLS; authority.c its certificates
 *
 * A box is a sandbox as the door knows it. It is in the table from its creation, or from the first time that it is seen, until
 * it is gone; then its data plane is broken off and closed, and the box is freed. Who keeps a box over a turn of the loop
 * takes a reference.
 * Threads: all on the loop's. */
#ifndef ABX_DOORS_E2B_DOOR_H
#define ABX_DOORS_E2B_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "e2b/client.h"
#include "host/host.h"
#include "host/serving.h"
#include "net/http_server.h"

#define E2B_ENVD_VERSION "0.6.13"
#define E2B_CLIENT_ID    "6532622b"
#define E2B_SEED_SIZE    32
#define E2B_KEY_SIZE     52 /* "e2b_" and 48 hexadecimal digits */
#define E2B_TOKEN_SIZE   64
#define E2B_BUCKETS      256

typedef struct e2b_door e2b_door;
typedef struct e2b_box e2b_box;

typedef enum e2b_state { E2B_RUNNING, E2B_PAUSED, E2B_GONE } e2b_state;

struct e2b_box {
    e2b_box *next; /* in its bucket */
    e2b_door *door;
    int refs;
    char *id;      /* at this door: ^[a-z0-9]{12,32}$ */
    char *host_id; /* at the provider: what calls of the host take as sandboxId */
    e2b_state state;
    char *token;         /* X-Access-Token that its data plane asks for; NULL: none is asked */
    char *traffic_token; /* E2b-Traffic-Access-Token that its other ports ask for; NULL: none */
    yyjson_doc *
        notes; /* what its creator said that the provider does not keep; see box_file.c. Never NULL */
    yyjson_val *env;    /* object: environment of all its processes; borrowed from notes; or NULL */
    int64_t started_ms; /* wall clock: the current run began; 0: not known */
    int64_t ends_ms;    /* wall clock: end of its life; 0: not known; INT64_MAX: none */
    yyjson_doc *seen;   /* the provider's last sandbox object, or NULL */
    struct e2b_data *data;           /* owned by data.h; NULL: not opened */
    struct e2b_samples *samples;     /* of metrics.c, or NULL */
    bool looked_at, break_wanted;    /* of boxes.c */
    bool ending;                     /* it is being killed: nobody is let in any more */
    struct e2b_waiter *lookers;      /* who waits for the answer about it (look.c), */
    struct e2b_waiter *next_lookers; /* and for the one after that */
    struct e2b_waiter *resumers;     /* who waits until it goes on (resume.c) */
};

struct e2b_door {
    uv_loop_t *loop;
    abx_host *host;
    char *home;
    char *provider;       /* id */
    yyjson_doc *defaults; /* parameters of sandbox.create for what a creator does not say */
    const abx_log *log;
    abx_http_server *http;
    char key[E2B_KEY_SIZE + 1];
    uint8_t seed[E2B_SEED_SIZE];
    int port;
    struct e2b_secure *secure; /* TLS: secure.h; NULL: none */
    int last_tls_port;         /* of a start with TLS; 0: none */
    e2b_box *boxes[E2B_BUCKETS];
    size_t box_count;
    size_t box_structs;             /* … and those that somebody still holds */
    struct e2b_question *questions; /* calls of ask.c that are under way */
    yyjson_doc *snapshots;          /* of snapshots.c, or NULL */
    size_t sampling;                /* calls of metrics.c that are under way */
    size_t holds;                   /* streams that are no exchanges: see e2b_door_hold */
    abx_serving *serving;           /* of life */
    struct abx_serving_life *life;
    uint64_t sampled_ms; /* monotonic: the last look at what sandboxes use */
    uv_timer_t expiry;   /* expiry.c */
    bool expiry_open;
    bool draining;
};

/* --- boxes (boxes.c) ------------------------------------------------------------------------------------- */
/* The box with this id, or NULL. Borrowed. */
e2b_box *e2b_door_box(e2b_door *door, const char *id);
/* The box of a sandbox of the provider's, or NULL. */
e2b_box *e2b_door_box_of(e2b_door *door, const char *host_id);
/* The id that this door gives to a sandbox: its own where that fits, else one that is made from it. Owned. */
char *e2b_id_of(const e2b_door *door, const char *host_id);
/* Put a sandbox into the table. notes is taken over; NULL: it was not made by this door. */
e2b_box *e2b_box_add(e2b_door *door, const char *host_id, yyjson_doc *notes);
void e2b_box_ref(e2b_box *box);
void e2b_box_unref(e2b_box *box);
/* It is gone: its connections are reset, its notes removed, it leaves the table. */
void e2b_box_forget(e2b_box *box);
/* Its processes stand still: its connections are reset, requests answered with 502 until it goes on. */
void e2b_box_paused(e2b_box *box);
/* What the provider says of it now: a sandbox object of the table of operations. */
void e2b_box_see(e2b_box *box, yyjson_val *object);
/* The token of this door for a text: 64 hexadecimal digits of HMAC-SHA256(seed, text). */
void e2b_token(const e2b_door *door, const char *text, char out[E2B_TOKEN_SIZE + 1]);

/* --- is it there? (look.c) --------------------------------------------------------------------------------- */
/* Ask the provider about a box, then cb once, later: the box lives (running or paused, see its state), or it is gone (E2B_GONE: it
 * was forgotten; a reference is held during cb), or the provider did not say (err, borrowed). The question begins after
 * this call; several at once are one. cb may be NULL. */
typedef void (*e2b_look_cb)(void *data, e2b_box *box, const abx_error *err);
void e2b_box_look(e2b_box *box, e2b_look_cb cb, void *data);
/* A call on the box failed as if it were gone (SANDBOX_NOT_FOUND, SANDBOX_ENDED, …): look, and forget it if it is. */
void e2b_box_suspect(e2b_box *box);

/* --- calls (ask.c) ------------------------------------------------------------------------------------------- */
/* Start a call at the door's provider; as abx_host_start. sandboxId is a box's host_id. */
int e2b_start(e2b_door *door, abx_call *call, abx_error **err);
/* One unary call, then cb once, later, with result or error (borrowed). params is taken over. */
typedef void (*e2b_answer_cb)(void *data, yyjson_val *result, const abx_error *err);
void e2b_ask(e2b_door *door, abx_op_id op, yyjson_mut_doc *params, e2b_answer_cb cb, void *data);
/* {"sandboxId": host_id} */
yyjson_mut_doc *e2b_box_params(const e2b_box *box, yyjson_mut_val **root);

/* Is this the door's key? In constant time; NULL: no. keys.c */
bool e2b_key_fits(const e2b_door *door, const char *key);

/* --- life ------------------------------------------------------------------------------------------------------ */
/* Something is going on that is no exchange of the HTTP server (a connection that left it): no idle end meanwhile. */
void e2b_door_hold(e2b_door *door);
void e2b_door_release(e2b_door *door);

/* --- answers (answer.c) ------------------------------------------------------------------------------------------ */
/* {"code": status, "message": text} as E2B's control plane does, with CORS headers. */
void e2b_refuse(abx_exchange *x, int status, const char *fmt, ...) ABX_PRINTF(3, 4);
/* An error of the host in that shape: its status, its message and code. */
void e2b_refuse_error(abx_exchange *x, const abx_error *err);
/* The data plane's answer for a sandbox that is not there (502), and for a port where nobody listens. */
void e2b_data_not_found(abx_exchange *x, const char *id);
void e2b_data_closed_port(abx_exchange *x, const char *id, int port);
/* Such an answer with another status and text; port 0: none is named. And its body alone. */
void e2b_data_refuse(abx_exchange *x, int status, const char *id, int port, const char *text);
yyjson_mut_val *e2b_data_refusal(yyjson_mut_doc *d, int status, const char *id, int port,
                                 const char *text);

#endif
