/* internal.socket(url, [name, value, …]) → Socket, one WebSocket connection for js/websocket.js: next() gives what comes in, in order. What waits for
 * JavaScript holds up the server. */
#include <string.h>

#include "base/mem.h"
#include "jshost/http.h"
#include "jshost/turn.h"
#include "jshost/utf8.h"
#include "net/ws_client.h"

#define MESSAGE_MAX ((size_t)16 << 20)
#define IN_HIGH     ((size_t)1 << 20) /* bytes of messages that wait before the connection is paused */
enum { SOCKETS_MAX = 128, ITEM_WEIGHT = 256 };

typedef enum kind { OPEN, TEXT, BINARY, CLOSED } kind;

typedef struct item {
    struct item *next;
    kind kind;
    int code;    /* of CLOSED */
    bool proper; /* the peer said close */
    size_t len;
    char bytes[]; /* a message, a protocol, a reason */
} item;

typedef struct js_socket {
    abx_js_due due; /* first */
    abx_js *js;
    abx_ws *ws;  /* NULL: ended */
    bool owned;  /* its object lives */
    bool paused; /* too much waits */
    item *first, **last;
    size_t waiting;
    abx_js_waiter next;
    abx_js_pin pin; /* while that waits and something may come */
} js_socket;

static void free_socket(js_socket *s)
{
    abx__js_due_drop(s->js, &s->due);
    for (item *i = s->first, *next; i; i = next) {
        next = i->next;
        free(i);
    }
    free(s);
}

static item *add(js_socket *s, kind what, const void *bytes, size_t n)
{
    item *i = abx_alloc(sizeof(*i) + n + 1);
    *i = (item){.kind = what, .len = n};
    memcpy(i->bytes, bytes, n);
    i->bytes[n] = 0;
    *s->last = i;
    s->last = &i->next;
    s->waiting += n + ITEM_WEIGHT;
    abx__js_due(s->js, &s->due);
    return i;
}

static void on_open(abx_ws *ws, void *data)
{
    const char *protocol = abx_ws_client_protocol(ws);
    js_socket *s = data;
    if (s->owned)
        add(s, OPEN, protocol ? protocol : "", protocol ? strlen(protocol) : 0);
}

static void on_message(abx_ws *ws, bool text, const uint8_t *bytes, size_t n, void *data)
{
    js_socket *s = data;
    if (!s->owned)
        return;
    add(s, text ? TEXT : BINARY, bytes, n);
    if (s->waiting >= IN_HIGH && !s->paused) {
        s->paused = true;
        abx_ws_client_pause(ws);
    }
}

static void on_close(abx_ws *ws, int code, const abx_error *err, void *data)
{
    js_socket *s = data;
    const char *words = err ? abx_error_text(err) : abx_ws_client_reason(ws);
    s->ws = NULL;
    s->js->net->sockets--;
    if (!s->owned) {
        s->js->open--;
        free_socket(s);
        return;
    }
    item *i = add(s, CLOSED, words, strlen(words));
    i->proper = !err;
    i->code = err ? (err->id == ABX_ERR_TOO_LARGE ? 1009 : 1006) : code;
}

/* --- to JavaScript ------------------------------------------------------------------------------------- */

/* {kind, data | protocol, code, clean, reason} */
static JSValue item_value(JSContext *ctx, const item *i)
{
    static const char *const kinds[] = {"open", "text", "binary", "close"};
    JSValue o = JS_NewObject(ctx);
    JS_SetPropertyStr(ctx, o, "kind", JS_NewString(ctx, kinds[i->kind]));
    JS_SetPropertyStr(ctx, o, "data",
                      i->kind == BINARY
                          ? JS_NewUint8ArrayCopy(ctx, (const uint8_t *)i->bytes, i->len)
                          : abx_js_string(ctx, i->bytes, i->len));
    if (i->kind == CLOSED) {
        JS_SetPropertyStr(ctx, o, "code", JS_NewInt32(ctx, i->code));
        JS_SetPropertyStr(ctx, o, "clean", JS_NewBool(ctx, i->proper));
    }
    return o;
}

static void answer(js_socket *s)
{
    item *i = s->first;
    if (!s->next.waiting || !i)
        return;
    s->first = i->next;
    if (!s->first)
        s->last = &s->first;
    s->waiting -= i->len + ITEM_WEIGHT;
    if (i->kind == CLOSED)
        s->js->open--;
    if (s->paused && s->ws && s->waiting < IN_HIGH / 2) {
        s->paused = false;
        abx_ws_client_resume(s->ws);
    }
    abx__js_resolve(s->js->ctx, &s->next, item_value(s->js->ctx, i));
    free(i);
}

/* s may be gone afterwards. */
static void settle(js_socket *s)
{
    answer(s);
    if (!s->next.waiting)
        abx__js_unpin(s->js, &s->pin);
}

static void run_due(abx_js_due *due)
{
    settle((js_socket *)due);
}

static js_socket *of(JSContext *ctx, JSValueConst self)
{
    return JS_GetOpaque2(ctx, self, abx_js_of(ctx)->net->socket_class);
}

static JSValue socket_next(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    js_socket *s = of(ctx, self);
    (void)argc;
    (void)argv;
    if (!s)
        return JS_EXCEPTION;
    JSValue promise = abx__js_wait(ctx, &s->next);
    if (JS_IsException(promise))
        return promise;
    if (s->ws)
        abx__js_pin(s->js, &s->pin, self);
    settle(s);
    return promise;
}

/* send(text or bytes) */
static JSValue socket_send(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    js_socket *s = of(ctx, self);
    const uint8_t *bytes;
    size_t n;
    (void)argc;
    if (!s)
        return JS_EXCEPTION;
    if (JS_IsString(argv[0])) {
        ABX_AUTO_FREE char *text = NULL;
        const char *units = JS_ToCStringLen(ctx, &n, argv[0]);
        if (!units)
            return JS_EXCEPTION;
        text = abx_alloc(n + 1);
        memcpy(text, units, n);
        JS_FreeCString(ctx, units);
        abx_utf8_repair(text, n);
        if (s->ws)
            abx_ws_client_send(s->ws, true, text, n);
        return JS_UNDEFINED;
    }
    if (abx_js_bytes(ctx, argv[0], &bytes, &n) < 0)
        return JS_EXCEPTION;
    if (s->ws)
        abx_ws_client_send(s->ws, false, bytes, n);
    return JS_UNDEFINED;
}

/* waiting(): bytes that have not left */
static JSValue socket_waiting(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const js_socket *s = of(ctx, self);
    (void)argc;
    (void)argv;
    if (!s)
        return JS_EXCEPTION;
    return JS_NewInt64(ctx, s->ws ? (int64_t)abx_ws_client_waiting(s->ws) : 0);
}

/* close(code, reason) */
static JSValue socket_close(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const js_socket *s = of(ctx, self);
    int32_t code = 0;
    (void)argc;
    if (!s || JS_ToInt32(ctx, &code, argv[0]) < 0)
        return JS_EXCEPTION;
    ABX_AUTO_FREE char *reason = abx_js_text(ctx, argv[1]);
    if (!reason)
        return JS_EXCEPTION;
    if (s->ws)
        abx_ws_client_close(s->ws, code, reason);
    return JS_UNDEFINED;
}

static JSValue socket_break(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const js_socket *s = of(ctx, self);
    (void)argc;
    (void)argv;
    if (!s)
        return JS_EXCEPTION;
    if (s->ws)
        abx_ws_client_break(s->ws);
    return JS_UNDEFINED;
}

static void socket_finalize(JSRuntime *rt, JSValueConst v)
{
    const abx_js *js = JS_GetRuntimeOpaque(rt);
    js_socket *s = JS_GetOpaque(v, js->net->socket_class);
    if (!s)
        return;
    abx__js_waiter_clear(rt, &s->next);
    s->owned = false;
    if (s->ws) {
        abx_ws_client_break(s->ws); /* frees it at its end */
        return;
    }
    for (const item *i = s->first; i; i = i->next)
        if (i->kind == CLOSED)
            s->js->open--;
    free_socket(s);
}

static void socket_mark(JSRuntime *rt, JSValueConst v, JS_MarkFunc *mark)
{
    const abx_js *js = JS_GetRuntimeOpaque(rt);
    const js_socket *s = JS_GetOpaque(v, js->net->socket_class);
    if (s)
        abx__js_waiter_mark(rt, &s->next, mark);
}

/* --- making one ---------------------------------------------------------------------------------------- */

static JSValue native_socket(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    static const abx_ws_client_handlers handlers = {
        .on_open = on_open, .on_message = on_message, .on_close = on_close};
    abx_js *js = abx_js_of(ctx);
    ABX_AUTO_ERROR err = NULL;
    size_t count = 0;
    (void)self;
    (void)argc;
    if (js->net->sockets >= SOCKETS_MAX)
        return JS_ThrowTypeError(ctx, "over %d WebSockets were opened at once", SOCKETS_MAX);
    ABX_AUTO_FREE char *url = abx_js_text(ctx, argv[0]);
    char **lines = url ? abx__js_header_lines(ctx, argv[1], &count) : NULL;
    if (!lines)
        return JS_EXCEPTION;
    JSValue object = JS_NewObjectClass(ctx, js->net->socket_class);
    js_socket *s = ABX_NEW(js_socket);
    s->js = js;
    s->due.run = run_due;
    s->last = &s->first;
    s->owned = true;
    abx_http *pool = JS_IsException(object) ? NULL : abx__js_pool(js, &err);
    int rc = pool ? abx_ws_open(pool, url, (const char *const *)lines, count, MESSAGE_MAX,
                                &handlers, s, &s->ws, &err)
                  : -1;
    abx__js_lines_free(lines, count);
    if (rc < 0) {
        free_socket(s);
        JS_FreeValue(ctx, object);
        return err ? abx__js_throw(ctx, abx_error_text(err)) : JS_EXCEPTION;
    }
    js->open++;
    js->net->sockets++;
    JS_SetOpaque(object, s);
    return object;
}

void abx__js_natives_websocket(abx_js *js, JSValueConst internal);
void abx__js_natives_websocket(abx_js *js, JSValueConst internal)
{
    static const JSClassDef class = {"Socket", .finalizer = socket_finalize,
                                     .gc_mark = socket_mark};
    static const JSCFunctionListEntry methods[] = {
        JS_CFUNC_DEF("next", 0, socket_next),       JS_CFUNC_DEF("send", 1, socket_send),
        JS_CFUNC_DEF("waiting", 0, socket_waiting), JS_CFUNC_DEF("close", 2, socket_close),
        JS_CFUNC_DEF("break", 0, socket_break),
    };
    abx_js_net *net = abx__js_net(js);
    JS_NewClassID(js->rt, &net->socket_class);
    ABX_CHECK(JS_NewClass(js->rt, net->socket_class, &class) == 0);
    JSValue proto = JS_NewObject(js->ctx);
    JS_SetPropertyFunctionList(js->ctx, proto, methods, (int)ABX_COUNT(methods));
    JS_SetClassProto(js->ctx, net->socket_class, proto);
    JS_SetPropertyStr(js->ctx, internal, "socket",
                      JS_NewCFunction(js->ctx, native_socket, "socket", 2));
}
