/* The engine with its limits: one runtime, one context, one door. Every call into JavaScript goes through enter and leave; leaving the
 * outermost one runs what promises have queued. A runtime that ran out of memory, or whose code did not give way, is broken: it is
 * asked nothing more and its process ends. Threads: the loop's. */
#ifndef ABX_JSHOST_JS_H
#define ABX_JSHOST_JS_H

#include <quickjs.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "jshost/bundle.h"

#define ABX_JS_STACK_MAX ((size_t)4 << 20)
#define ABX_JS_RUN_MS    10000u /* that code may run without giving way, unless the owner says less */
#define ABX_JS_LOAD_MS   8000u /* the same while it is loaded: less than ABX_EPP_START_MS */
#define ABX_JS_SLICE_MS  10u   /* of queued work between two turns of the loop */
#define ABX_JS_NO_MEMORY "it ran out of memory"

typedef struct abx_js {
    uv_loop_t *loop;
    JSRuntime *rt;
    JSContext *ctx;
    JSContext *side; /* compiles while modules are imported (module.c); else NULL */
    const char *id;  /* of the provider; borrowed */
    const abx_js_bundle *bundle;
    unsigned depth;           /* of enter */
    uint64_t since_ms;        /* when the code that runs began; 0: none runs */
    uint64_t run_ms;          /* that code may run without giving way */
    bool interrupted;         /* it did not give way */
    char *broken;             /* why it is asked nothing more; or NULL */
    uv_idle_t idle;           /* while queued work is left */
    JSValue rejected;         /* array of promises that were rejected and not handled yet */
    JSValue internal;         /* what the runtime's own JavaScript is given: C functions by name */
    struct abx_js_lazy *lazy; /* jshost/lazy.h */
    struct abx_js_net *net;   /* jshost/turn.h */
    /* What may still call into JavaScript by itself: timers, transfers, sockets. At 0 a promise that is pending without queued work
     * stays so. */
    size_t open;
    size_t heap;       /* bytes that the engine has (jshost/heap.h) */
    bool starved;      /* the heap was full: the reserve is in use */
    size_t host_bytes; /* of buffers that abx_js_adopt handed over and that live */
    JSValue view_length,
        data_view
            [3]; /* getters: byteLength of typed arrays; buffer, byteOffset, byteLength of a DataView */
    /* After each outermost leave; may be NULL. */
    void (*on_leave)(struct abx_js *js, void *data);
    /* A rejection that nobody handles: promise's reason. */
    void (*on_rejection)(struct abx_js *js, JSValueConst reason, void *data);
    void *data;
} abx_js;

/* bundle, id: borrowed, must stay. The context has no eval. 0, or -1 and *err. */
int abx_js_open(abx_js *js, uv_loop_t *loop, const abx_js_bundle *bundle, const char *id,
                abx_error **err);
/* The engine goes, and no JavaScript runs any more. What is in flight ends and handles are closed on the loop: run it until it has nothing
 * left, then free with abx_js_free. */
void abx_js_close(abx_js *js);
void abx_js_free(abx_js *js);

void abx_js_enter(abx_js *js);
void abx_js_leave(abx_js *js);
/* Call a function of the runtime's own JavaScript; its result (freed by the caller), or JS_UNDEFINED after it failed: then the runtime is
 * broken. Frees argv's values. */
JSValue abx_js_call(abx_js *js, JSValueConst fn, int argc, JSValue *argv);
/* It cannot go on. why: for people. The first one stands. */
void abx_js_break(abx_js *js, const char *why);
/* Look at the pending exception of code that should not fail, drop it, and break. */
void abx_js_break_by_exception(abx_js *js);

/* Run a script that was compiled at build time. Its value. */
JSValue abx_js_run_compiled(abx_js *js, const uint8_t *code, size_t n);
/* Load a module of the bundle: a promise of its namespace, or an exception. */
JSValue abx_js_import(abx_js *js, const char *path);

/* Text of a value as UTF-8 without lone surrogates. Owned; NULL with an exception pending. */
char *abx_js_text(JSContext *ctx, JSValueConst v);
/* A string of these bytes; what is no UTF-8 becomes U+FFFD as the web's decoder does it. */
JSValue abx_js_string(JSContext *ctx, const void *bytes, size_t n);
/* The same, each byte one unit. */
JSValue abx_js_latin1(JSContext *ctx, const uint8_t *bytes, size_t n);
/* bytes.c: the one way to the memory of a value. The bytes of an ArrayBuffer or a view (typed array, DataView), clamped to what is there
 * now: the engine's own functions tell the length that a view had when it was made. A detached buffer has none. Valid until
 * JavaScript runs again: convert all other arguments first, take pointers last. 0, or -1 with an exception pending (TypeError: no
 * bytes). */
int abx_js_bytes(JSContext *ctx, JSValueConst v, const uint8_t **p, size_t *n);
/* The same, to be written to: an immutable buffer is refused. */
int abx_js_bytes_mut(JSContext *ctx, JSValueConst v, uint8_t **p, size_t *n);
/* A Uint8Array over these bytes of malloc, which it owns from here on (also when it cannot be made: then an exception). They count into
 * the limit of the heap: RangeError when both together are over it. */
JSValue abx_js_adopt(JSContext *ctx, uint8_t *bytes, size_t n);
/* JSON both ways. The value, or an exception; the document (owned), or NULL with an exception pending. */
JSValue abx_js_from_json(JSContext *ctx, yyjson_val *v);
yyjson_doc *abx_js_to_json(JSContext *ctx, JSValueConst v);

static inline abx_js *abx_js_of(JSContext *ctx)
{
    return (abx_js *)JS_GetRuntimeOpaque(JS_GetRuntime(ctx));
}

/* module.c, bytes.c */
void abx__js_modules_init(abx_js *js);
int abx__js_bytes_init(abx_js *js);
void abx__js_bytes_clear(abx_js *js);

#endif
