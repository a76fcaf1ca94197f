/* HTTP requests for js/fetch.js: internal.http(method, url, headers, body) → Transfer, one request without redirects. Bodies stay here until they
 * are asked for; a Transfer that nobody holds gives up its connection. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "jshost/http.h"
#include "jshost/turn.h"

enum {
    IN_HIGH = 256 * 1024, /* bytes of an answer that wait before it is paused */
    IN_FIRST = 64 * 1024,
    TRANSFERS_MAX = 2048
};

typedef struct js_transfer {
    abx_js_due due; /* first */
    abx_js *js;
    abx_http_transfer *t; /* NULL: ended */
    bool owned;           /* its object lives */
    bool head_done, ended, paused, writable, full;
    bool whole; /* the reader wants all of it at once */
    int status;
    char *reason;
    abx_http_headers headers; /* until they are asked for */
    uint8_t *in;              /* memory of the engine, so that it counts */
    size_t len, cap;
    char *error, code[40];
    JSValue aborted; /* why, or JS_UNDEFINED */
    abx_js_pin pin;  /* while a promise waits */
    abx_js_waiter head, read, drain;
} js_transfer;

/* --- what an exchange brings --------------------------------------------------------------------------- */

static void free_transfer(js_transfer *x)
{
    abx__js_due_drop(x->js, &x->due);
    abx_http_headers_clear(&x->headers);
    if (x->in) /* else the engine may be gone */
        js_free_rt(x->js->rt, x->in);
    free(x->reason);
    free(x->error);
    free(x);
}

static void on_head(abx_http_transfer *t, int status, const abx_http_headers *headers, void *data)
{
    js_transfer *x = data;
    x->status = status;
    x->reason = abx_strdup(abx_http_reason(t));
    for (size_t i = 0; i < headers->count; i++) {
        const abx_http_header *h = &headers->items[i];
        abx_http_headers_add(&x->headers, h->name, strlen(h->name), h->value, strlen(h->value));
    }
    x->head_done = true;
    abx__js_due(x->js, &x->due);
}

static bool make_room(js_transfer *x, size_t n)
{
    size_t cap = x->cap ? x->cap : IN_FIRST;
    while (cap - x->len < n)
        cap *= 2;
    if (cap == x->cap)
        return true;
    uint8_t *more = js_realloc_rt(x->js->rt, x->in, cap);
    if (!more)
        return false;
    x->in = more;
    x->cap = cap;
    return true;
}

static void on_body(abx_http_transfer *t, const uint8_t *bytes, size_t n, void *data)
{
    js_transfer *x = data;
    if (!x->owned || x->full)
        return;
    if (!make_room(x, n)) {
        x->full = true;
        abx_http_cancel(t);
        return;
    }
    memcpy(x->in + x->len, bytes, n);
    x->len += n;
    if (!x->whole && x->len >= IN_HIGH) {
        x->paused = true;
        abx_http_pause(t);
    }
    if (!x->whole)
        abx__js_due(x->js, &x->due);
}

static void on_writable(abx_http_transfer *t, void *data)
{
    js_transfer *x = data;
    (void)t;
    x->writable = true;
    abx__js_due(x->js, &x->due);
}

static const char *word_of(abx_http_fault fault, int number, const char **system)
{
    *system = NULL;
    switch (fault) {
    case ABX_HTTP_FAULT_NAME: return "ENOTFOUND";
    case ABX_HTTP_FAULT_CONNECT:
        *system = number ? strerrorname_np(number) : NULL;
        return "ECONNREFUSED";
    case ABX_HTTP_FAULT_CONNECT_TIME: return "UND_ERR_CONNECT_TIMEOUT";
    case ABX_HTTP_FAULT_TRUST: return "ERR_TLS_CERT_UNTRUSTED";
    case ABX_HTTP_FAULT_TLS: return "ERR_SSL_HANDSHAKE";
    case ABX_HTTP_FAULT_ANSWER: return "HPE_INVALID_CONSTANT";
    default: return "UND_ERR_SOCKET";
    }
}

static void on_end(abx_http_transfer *t, const abx_error *err, void *data)
{
    js_transfer *x = data;
    int number = 0;
    const char *system, *word = word_of(abx_http_fault_of(t, &number), number, &system);
    if (err && err->id == ABX_ERR_TOO_LARGE)
        word = "UND_ERR_HEADERS_OVERFLOW";
    x->t = NULL;
    x->js->net->transfers--;
    if (!x->owned) {
        x->js->open -= !x->ended;
        free_transfer(x);
        return;
    }
    if (err) {
        x->error = x->full ? abx_strdup("out of memory") : abx_strdup(abx_error_text(err));
        snprintf(x->code, sizeof x->code, "%s", system ? system : word);
    }
    abx__js_due(x->js, &x->due);
}

/* --- to JavaScript ------------------------------------------------------------------------------------- */

/* Bytes as they came. */
static JSValue latin1(JSContext *ctx, const char *text)
{
    return abx_js_latin1(ctx, (const uint8_t *)text, strlen(text));
}

/* {status, statusText, headers: [name, value, …]} */
static JSValue head_value(js_transfer *x)
{
    JSContext *ctx = x->js->ctx;
    JSValue o = JS_NewObject(ctx), list = JS_NewArray(ctx);
    for (size_t i = 0; i < x->headers.count; i++) {
        JS_SetPropertyUint32(ctx, list, 2 * (uint32_t)i, latin1(ctx, x->headers.items[i].name));
        JS_SetPropertyUint32(ctx, list, 2 * (uint32_t)i + 1,
                             latin1(ctx, x->headers.items[i].value));
    }
    JS_SetPropertyStr(ctx, o, "status", JS_NewInt32(ctx, x->status));
    JS_SetPropertyStr(ctx, o, "statusText", latin1(ctx, x->reason));
    JS_SetPropertyStr(ctx, o, "headers", list);
    return o;
}

static void *change_size(JSRuntime *rt, void *opaque, void *p, size_t size)
{
    (void)opaque;
    if (size)
        return js_realloc_rt(rt, p, size);
    js_free_rt(rt, p);
    return NULL;
}

/* What has come, as a Uint8Array over the same memory. */
static JSValue take_bytes(js_transfer *x)
{
    JSContext *ctx = x->js->ctx;
    if (x->len == 0)
        return JS_NewUint8ArrayCopy(ctx, (const uint8_t *)"", 0);
    uint8_t *fit = x->len < x->cap / 4 * 3 ? js_realloc_rt(x->js->rt, x->in, x->len) : NULL;
    JSValue v = JS_NewUint8Array(ctx, fit ? fit : x->in, x->len, change_size, NULL, false);
    x->in = NULL;
    x->len = x->cap = 0;
    if (x->paused && x->t) {
        x->paused = false;
        abx_http_resume(x->t);
    }
    return v;
}

static JSValue error_value(js_transfer *x)
{
    if (!JS_IsUndefined(x->aborted))
        return JS_DupValue(x->js->ctx, x->aborted);
    return abx__js_error(x->js->ctx, x->error ? x->error : "cancelled", x->error ? x->code : NULL);
}

static bool failed(const js_transfer *x)
{
    return !JS_IsUndefined(x->aborted) || (!x->t && x->error);
}

static void answer(js_transfer *x)
{
    JSContext *ctx = x->js->ctx;
    if (x->head.waiting && x->head_done && JS_IsUndefined(x->aborted))
        abx__js_resolve(ctx, &x->head, head_value(x));
    else if (x->head.waiting && failed(x))
        abx__js_reject(ctx, &x->head, error_value(x));
    if (x->drain.waiting && (!x->t || x->writable || failed(x)))
        abx__js_resolve(ctx, &x->drain, JS_NewBool(ctx, x->t && !failed(x)));
    if (!x->read.waiting)
        return;
    if (failed(x) && (x->whole || x->len == 0 || !JS_IsUndefined(x->aborted)))
        abx__js_reject(ctx, &x->read, error_value(x));
    else if (x->whole ? !x->t : x->len > 0)
        abx__js_resolve(ctx, &x->read, take_bytes(x));
    else if (!x->t)
        abx__js_resolve(ctx, &x->read, JS_UNDEFINED);
}

/* Settle what can be; x may be gone afterwards. */
static void settle(js_transfer *x)
{
    answer(x);
    if (!x->head.waiting && !x->read.waiting && !x->drain.waiting)
        abx__js_unpin(x->js, &x->pin);
}

static void run_due(abx_js_due *due)
{
    js_transfer *x = (js_transfer *)due;
    if (!x->t && !x->ended) {
        x->ended = true;
        x->js->open--;
    }
    settle(x);
}

/* --- what JavaScript calls ----------------------------------------------------------------------------- */

static js_transfer *of(JSContext *ctx, JSValueConst self)
{
    return JS_GetOpaque2(ctx, self, abx_js_of(ctx)->net->transfer_class);
}

/* head(), read(), collect(): promises */
enum { HEAD, READ, COLLECT };
static JSValue transfer_wait(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv,
                             int what)
{
    js_transfer *x = of(ctx, self);
    (void)argc;
    (void)argv;
    if (!x)
        return JS_EXCEPTION;
    JSValue promise = abx__js_wait(ctx, what == HEAD ? &x->head : &x->read);
    if (JS_IsException(promise))
        return promise;
    abx__js_pin(x->js, &x->pin, self);
    if (what == COLLECT && !x->whole) {
        x->whole = true;
        if (x->paused && x->t) {
            x->paused = false;
            abx_http_resume(x->t);
        }
    }
    settle(x);
    return promise;
}

/* write(bytes): a promise of whether it goes on */
static JSValue transfer_write(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    js_transfer *x = of(ctx, self);
    const uint8_t *bytes;
    size_t n;
    (void)argc;
    if (!x)
        return JS_EXCEPTION;
    JSValue promise = abx__js_wait(ctx, &x->drain);
    if (JS_IsException(promise))
        return promise;
    abx__js_pin(x->js, &x->pin, self);
    if (abx_js_bytes(ctx, argv[0], &bytes, &n) < 0) {
        abx__js_reject(ctx, &x->drain, JS_GetException(ctx));
        settle(x);
        return promise;
    }
    x->writable = !x->t || abx_http_write(x->t, bytes, n) == 1;
    settle(x);
    return promise;
}

static JSValue transfer_end(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    js_transfer *x = of(ctx, self);
    (void)argc;
    (void)argv;
    if (!x)
        return JS_EXCEPTION;
    if (x->t)
        abx_http_write_end(x->t);
    return JS_UNDEFINED;
}

/* abort(reason): what waits and what is asked for later fails with it; undefined: it is not wanted any more */
static JSValue transfer_abort(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    js_transfer *x = of(ctx, self);
    (void)argc;
    if (!x)
        return JS_EXCEPTION;
    if (JS_IsUndefined(x->aborted))
        x->aborted = JS_DupValue(ctx, argv[0]);
    if (x->t)
        abx_http_cancel(x->t);
    abx__js_due(x->js, &x->due);
    return JS_UNDEFINED;
}

/* ended(): whether the exchange is over */
static JSValue transfer_ended(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    js_transfer *x = of(ctx, self);
    (void)argc;
    (void)argv;
    return x ? JS_NewBool(ctx, !x->t) : JS_EXCEPTION;
}

static void transfer_finalize(JSRuntime *rt, JSValueConst v)
{
    const abx_js *js = JS_GetRuntimeOpaque(rt);
    js_transfer *x = JS_GetOpaque(v, js->net->transfer_class);
    if (!x)
        return;
    abx__js_waiter_clear(rt, &x->head);
    abx__js_waiter_clear(rt, &x->read);
    abx__js_waiter_clear(rt, &x->drain);
    JS_FreeValueRT(rt, x->aborted);
    x->aborted = JS_UNDEFINED;
    js_free_rt(rt, x->in);
    x->in = NULL;
    x->owned = false;
    if (x->t) {
        abx_http_cancel(x->t); /* frees it at its end */
        return;
    }
    x->js->open -= !x->ended;
    free_transfer(x);
}

static void transfer_mark(JSRuntime *rt, JSValueConst v, JS_MarkFunc *mark)
{
    const abx_js *js = JS_GetRuntimeOpaque(rt);
    const js_transfer *x = JS_GetOpaque(v, js->net->transfer_class);
    if (!x)
        return;
    JS_MarkValue(rt, x->aborted, mark);
    abx__js_waiter_mark(rt, &x->head, mark);
    abx__js_waiter_mark(rt, &x->read, mark);
    abx__js_waiter_mark(rt, &x->drain, mark);
}

/* --- making one ---------------------------------------------------------------------------------------- */

/* Units as bytes: headers are Latin-1 on the wire. NULL with an exception pending: a unit over 255. */
static char *bytes_of_text(JSContext *ctx, JSValueConst v)
{
    ABX_AUTO_FREE char *text = abx_js_text(ctx, v);
    if (!text)
        return NULL;
    char *out = abx_alloc(strlen(text) + 1);
    size_t n = 0;
    for (const uint8_t *p = (const uint8_t *)text; *p; p++) {
        if (*p >= 0xC4) {
            free(out);
            JS_ThrowTypeError(ctx, "a header has a character that does not fit into a byte");
            return NULL;
        }
        if (*p >= 0xC2) {
            out[n++] = (char)(p[0] << 6 | (p[1] & 0x3F));
            p++;
        } else {
            out[n++] = (char)*p;
        }
    }
    out[n] = 0;
    return out;
}

char **abx__js_header_lines(JSContext *ctx, JSValueConst list, size_t *count)
{
    int64_t n = 0;
    *count = 0;
    if (JS_GetLength(ctx, list, &n) < 0)
        return NULL;
    if (n > 2 * ABX_JS_HEADERS_MAX) {
        JS_ThrowTypeError(ctx, "over %d headers", ABX_JS_HEADERS_MAX);
        return NULL;
    }
    char **lines = abx_alloc_array((size_t)n / 2 + 1, sizeof(char *));
    for (int64_t i = 0; i + 1 < n; i += 2) {
        JSValue name = JS_GetPropertyInt64(ctx, list, i),
                value = JS_GetPropertyInt64(ctx, list, i + 1);
        ABX_AUTO_FREE char *a = bytes_of_text(ctx, name);
        ABX_AUTO_FREE char *b = a ? bytes_of_text(ctx, value) : NULL;
        JS_FreeValue(ctx, name);
        JS_FreeValue(ctx, value);
        if (!b) {
            abx__js_lines_free(lines, *count);
            return NULL;
        }
        lines[(*count)++] = abx_format("%s: %s", a, b);
    }
    return lines;
}

void abx__js_lines_free(char **lines, size_t count)
{
    for (size_t i = 0; lines && i < count; i++)
        free(lines[i]);
    free(lines);
}

static int start(JSContext *ctx, js_transfer *x, abx_http_request *r, JSValueConst body)
{
    static const abx_http_handlers handlers = {on_head, on_body, on_writable, on_end};
    ABX_AUTO_ERROR err = NULL;
    const uint8_t *bytes = NULL;
    abx_http *pool = abx__js_pool(x->js, &err);
    if (JS_IsBool(body)) {
        r->body_stream = r->once = true;
        r->body_size = -1;
    } else if (!JS_IsUndefined(body)) {
        if (abx_js_bytes(ctx, body, &bytes, &r->body_len) < 0)
            return -1;
        r->body = bytes;
    }
    if (!pool || abx_http_start(pool, r, &handlers, x, &x->t, &err) < 0)
        return abx__js_throw(ctx, abx_error_text(err)), -1;
    x->js->net->transfers++;
    x->js->open++;
    return 0;
}

/* http(method, url, [name, value, …], undefined | bytes | true: a stream) */
static JSValue native_http(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    abx_js *js = abx_js_of(ctx);
    size_t count = 0;
    (void)self;
    (void)argc;
    if (js->net->transfers >= TRANSFERS_MAX)
        return JS_ThrowTypeError(ctx, "over %d requests are open", TRANSFERS_MAX);
    ABX_AUTO_FREE char *method = abx_js_text(ctx, argv[0]);
    ABX_AUTO_FREE char *url = method ? abx_js_text(ctx, argv[1]) : NULL;
    char **lines = url ? abx__js_header_lines(ctx, argv[2], &count) : NULL;
    if (!lines)
        return JS_EXCEPTION;
    JSValue object = JS_NewObjectClass(ctx, js->net->transfer_class);
    js_transfer *x = ABX_NEW(js_transfer);
    x->js = js;
    x->due.run = run_due;
    x->owned = true;
    x->aborted = JS_UNDEFINED;
    abx_http_request r = {
        .method = method, .url = url, .headers = (const char *const *)lines, .header_count = count};
    int rc = JS_IsException(object) ? -1 : start(ctx, x, &r, argv[3]);
    abx__js_lines_free(lines, count);
    if (rc < 0) {
        free_transfer(x);
        JS_FreeValue(ctx, object);
        return JS_EXCEPTION;
    }
    JS_SetOpaque(object, x);
    return object;
}

void abx__js_natives_http(abx_js *js, JSValueConst internal);
void abx__js_natives_http(abx_js *js, JSValueConst internal)
{
    static const JSClassDef class = {"Transfer", .finalizer = transfer_finalize,
                                     .gc_mark = transfer_mark};
    static const JSCFunctionListEntry methods[] = {
        JS_CFUNC_MAGIC_DEF("head", 0, transfer_wait, HEAD),
        JS_CFUNC_MAGIC_DEF("read", 0, transfer_wait, READ),
        JS_CFUNC_MAGIC_DEF("collect", 0, transfer_wait, COLLECT),
        JS_CFUNC_DEF("write", 1, transfer_write),
        JS_CFUNC_DEF("end", 0, transfer_end),
        JS_CFUNC_DEF("abort", 1, transfer_abort),
        JS_CFUNC_DEF("ended", 0, transfer_ended),
    };
    JSContext *ctx = js->ctx;
    abx_js_net *net = abx__js_net(js);
    JS_NewClassID(js->rt, &net->transfer_class);
    ABX_CHECK(JS_NewClass(js->rt, net->transfer_class, &class) == 0);
    JSValue proto = JS_NewObject(ctx);
    JS_SetPropertyFunctionList(ctx, proto, methods, (int)ABX_COUNT(methods));
    JS_SetClassProto(ctx, net->transfer_class, proto);
    JS_SetPropertyStr(ctx, internal, "http", JS_NewCFunction(ctx, native_http, "http", 4));
}
