/* Work of natives that must not run where it arises: handlers of the network run inside of curl. It runs from the loop's next turn, inside
 * of enter and leave, so that what has come together goes to JavaScript at once. And promises that C settles.
 * Threads: the loop's. */
#ifndef ABX_JSHOST_TURN_H
#define ABX_JSHOST_TURN_H

#include "jshost/js.h"
#include "net/http_client.h"

/* First member of what waits. */
typedef struct abx_js_due {
    struct abx_js_due *next;
    bool queued;
    void (*run)(struct abx_js_due *due); /* may free it */
} abx_js_due;

/* What the natives of the network share: made at their first use. */
typedef struct abx_js_net {
    abx_js *js;
    abx_http *pool; /* of fetch and WebSocket; opened at their first request */
    uv_idle_t turn;
    abx_js_due *due;
    struct abx_js_pin *pins;
    unsigned transfers, sockets; /* in flight */
    struct js_direct *direct;    /* kit_run.c: by operation; or NULL */
    JSClassID transfer_class, socket_class, service_class, run_class;
} abx_js_net;

abx_js_net *abx__js_net(abx_js *js);
/* Two halves of the end: before the engine goes, what keeps objects alive lets them go; behind it, the connections are closed on the loop. When
 * that has run out, abx__js_net_free. js->net may be NULL. */
void abx__js_net_release(abx_js *js);
void abx__js_net_close(abx_js *js);
void abx__js_net_free(abx_js *js);
/* NULL and *err: the client cannot be set up. */
abx_http *abx__js_pool(abx_js *js, abx_error **err);

/* Run it soon; again, or when the engine is gone: nothing more. */
void abx__js_due(abx_js *js, abx_js_due *due);
void abx__js_due_drop(abx_js *js, abx_js_due *due); /* it is about to be freed */

/* Keeps a native's object alive for the loop, whoever else forgot it: while a promise waits for what the network will bring. Zeroed: none. */
typedef struct abx_js_pin {
    struct abx_js_pin *next, **at;
    JSValue object;
} abx_js_pin;

/* Again: nothing more. */
void abx__js_pin(abx_js *js, abx_js_pin *pin, JSValueConst object);
/* The object may be gone afterwards, and the pin with it. */
void abx__js_unpin(abx_js *js, abx_js_pin *pin);

/* One promise at a time. While it waits its functions are kept: with the object that holds it pinned, what it leads to lives. */
typedef struct abx_js_waiter {
    bool waiting;
    JSValue functions[2];
} abx_js_waiter;

/* A new promise, or an exception (one waits already: TypeError). */
JSValue abx__js_wait(JSContext *ctx, abx_js_waiter *w);
/* Settle; value is freed. Nothing when nobody waits. */
void abx__js_resolve(JSContext *ctx, abx_js_waiter *w, JSValue value);
void abx__js_reject(JSContext *ctx, abx_js_waiter *w, JSValue reason);
/* In the finalizer and in gc_mark of the object that holds it. */
void abx__js_waiter_clear(JSRuntime *rt, abx_js_waiter *w);
void abx__js_waiter_mark(JSRuntime *rt, const abx_js_waiter *w, JS_MarkFunc *mark);

/* Error objects. code: a word, or NULL. */
JSValue abx__js_error(JSContext *ctx, const char *message, const char *code);
/* Throws a TypeError of any length. */
JSValue abx__js_throw(JSContext *ctx, const char *message);

#endif
