/* What the runtime's own JavaScript (js/) is given by C. It checks what the module gave; here only types are looked at. */
#include <string.h>

#include "abx_build.h"
#include "base/clock.h"
#include "base/mem.h"
#include "jshost/lazy.h"
#include "jshost/session.h"
#include "jshost/utf8.h"
#include "ops/ops.h"

static js_session *session_of(JSContext *ctx)
{
    return (js_session *)abx_js_of(ctx);
}

static js_call *call_of(JSContext *ctx, JSValueConst id)
{
    int64_t n = 0;
    if (JS_ToInt64(ctx, &n, id) < 0)
        return NULL;
    return js_session_find(session_of(ctx), (uint64_t)n);
}

/* --- calls --------------------------------------------------------------------------------------------- */

/* event(id, type, members) */
static JSValue native_event(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    js_call *c = call_of(ctx, argv[0]);
    ABX_AUTO_FREE char *type = abx_js_text(ctx, argv[1]);
    (void)self;
    (void)argc;
    if (!type)
        return JS_EXCEPTION;
    yyjson_doc *d = abx_js_to_json(ctx, argv[2]);
    if (!d)
        return JS_EXCEPTION;
    if (c && !c->ended)
        js_call_event(session_of(ctx), c, type, yyjson_doc_mut_copy(d, NULL));
    yyjson_doc_free(d);
    return JS_UNDEFINED;
}

static int channel_number(const char *name)
{
    for (int i = 0; i < ABX_CH_COUNT; i++)
        if (strcmp(abx_channel_name((abx_channel)i), name) == 0)
            return i;
    return -1;
}

static JSValue send_bytes(JSContext *ctx, js_call *c, int channel, const void *bytes, size_t n)
{
    if (js_call_waiting(c) > c->waiting[channel].len)
        js_call_push(session_of(ctx), c);
    if (js_call_waiting(c) > c->waiting[channel].len)
        return JS_ThrowTypeError(ctx, "wait for the first channel before you write to another one");
    if (abx_buf_add(&c->waiting[channel], bytes, n) < 0)
        return JS_ThrowRangeError(ctx, "over 64 MiB wait: await what write() returns");
    js_call_push(session_of(ctx), c);
    return JS_NewBool(ctx, js_call_waiting(c) == 0);
}

/* write(id, channel, text or bytes): true: go on; false: wait for resume */
static JSValue native_write(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    js_call *c = call_of(ctx, argv[0]);
    ABX_AUTO_FREE char *name = abx_js_text(ctx, argv[1]);
    const uint8_t *bytes;
    size_t n;
    (void)self;
    (void)argc;
    int channel = name ? channel_number(name) : -1;
    if (!name)
        return JS_EXCEPTION;
    if (channel < 0)
        return JS_ThrowTypeError(ctx, "there is no channel '%.40s'", name);
    if (!c || c->ended)
        return JS_TRUE;
    if (JS_IsString(argv[2])) {
        const char *text = JS_ToCStringLen(ctx, &n, argv[2]);
        if (!text)
            return JS_EXCEPTION;
        ABX_AUTO_BUF copy = ABX_BUF(SIZE_MAX / 2);
        int rc = abx_buf_add(&copy, text, n);
        JS_FreeCString(ctx, text);
        if (rc < 0)
            return JS_ThrowOutOfMemory(ctx);
        abx_utf8_repair((char *)copy.data, copy.len);
        JSValue v = send_bytes(ctx, c, channel, copy.data, copy.len);
        return v;
    }
    if (abx_js_bytes(ctx, argv[2], &bytes, &n) < 0)
        return JS_EXCEPTION;
    return send_bytes(ctx, c, channel, bytes, n);
}

/* size(text or bytes): how many bytes it is */
static JSValue native_size(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const uint8_t *bytes;
    size_t n;
    (void)self;
    (void)argc;
    if (JS_IsString(argv[0])) {
        const char *text = JS_ToCStringLen(ctx, &n, argv[0]);
        JS_FreeCString(ctx, text);
        return text ? JS_NewInt64(ctx, (int64_t)n) : JS_EXCEPTION;
    }
    return abx_js_bytes(ctx, argv[0], &bytes, &n) < 0 ? JS_EXCEPTION : JS_NewInt64(ctx, (int64_t)n);
}

static char *member(JSContext *ctx, JSValueConst o, const char *key)
{
    JSValue v = JS_GetPropertyStr(ctx, o, key);
    char *text = JS_IsString(v) ? abx_js_text(ctx, v) : NULL;
    JS_FreeValue(ctx, v);
    return text;
}

/* {code, message, hint, retryable} as an error. Owned. */
static abx_error *error_of(JSContext *ctx, JSValueConst o)
{
    ABX_AUTO_FREE char *code = member(ctx, o, "code");
    ABX_AUTO_FREE char *message = member(ctx, o, "message");
    abx_err_id id = ABX_ERR_PROVIDER_MODULE;
    if (code && !abx_err_find(code, &id))
        id = ABX_ERR_PROVIDER_MODULE;
    abx_error *e = abx_error_new(id, "%s", message && *message ? message : "it names no cause");
    e->hint = member(ctx, o, "hint");
    JSValue retry = JS_GetPropertyStr(ctx, o, "retryable");
    if (JS_IsBool(retry))
        e->retryable = JS_ToBool(ctx, retry) ? ABX_RETRY_YES : ABX_RETRY_NO;
    JS_FreeValue(ctx, retry);
    return e;
}

/* end(id, result) */
static JSValue native_end(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    js_call *c = call_of(ctx, argv[0]);
    (void)self;
    (void)argc;
    yyjson_doc *d = abx_js_to_json(ctx, argv[1]);
    if (!d)
        return JS_EXCEPTION;
    if (c && !c->ended) {
        c->ended = true;
        c->result = yyjson_doc_mut_copy(d, NULL);
        js_call_push(session_of(ctx), c);
    }
    yyjson_doc_free(d);
    return JS_UNDEFINED;
}

/* fail(id, error) */
static JSValue native_fail(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    js_call *c = call_of(ctx, argv[0]);
    (void)self;
    (void)argc;
    if (c && !c->error) {
        c->ended = true;
        c->error = error_of(ctx, argv[1]);
        js_call_push(session_of(ctx), c);
    }
    return JS_UNDEFINED;
}

/* taken(id, n) */
static JSValue native_taken(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    js_call *c = call_of(ctx, argv[0]);
    int64_t n = 0;
    (void)self;
    (void)argc;
    if (JS_ToInt64(ctx, &n, argv[1]) < 0)
        return JS_EXCEPTION;
    if (c && n > 0)
        abx_epp_taken(c->request, (size_t)n);
    return JS_UNDEFINED;
}

/* --- the session --------------------------------------------------------------------------------------- */

/* greeted(features) */
static JSValue native_greeted(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    js_session *s = session_of(ctx);
    (void)self;
    (void)argc;
    if (!s->loading)
        return JS_UNDEFINED;
    yyjson_doc *d = abx_js_to_json(ctx, argv[0]);
    if (!d)
        return JS_EXCEPTION;
    s->loading = false;
    s->greeted = true;
    s->js.run_ms = s->call_run_ms;
    abx_epp_greeted(s->epp, yyjson_doc_mut_copy(d, NULL), NULL);
    yyjson_doc_free(d);
    return JS_UNDEFINED;
}

/* refused(error) */
static JSValue native_refused(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    js_session *s = session_of(ctx);
    (void)self;
    (void)argc;
    if (!s->loading)
        return JS_UNDEFINED;
    s->loading = false;
    ABX_AUTO_ERROR e = error_of(ctx, argv[0]);
    abx_epp_greeted(s->epp, NULL, e);
    return JS_UNDEFINED;
}

/* log(level, text): line by line */
static JSValue native_log(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    ABX_AUTO_FREE char *level = abx_js_text(ctx, argv[0]);
    ABX_AUTO_FREE char *text = level ? abx_js_text(ctx, argv[1]) : NULL;
    (void)self;
    (void)argc;
    if (!text)
        return JS_EXCEPTION;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));)
        abx_epp_log(session_of(ctx)->epp, level, line);
    return JS_UNDEFINED;
}

/* --- time ---------------------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *t)
{
    js_session *s = t->data;
    s->timer_armed = false;
    s->js.open--;
    abx_js_enter(&s->js);
    JSValue tick = abx_js_need_member(&s->js, "timers", "tick");
    if (JS_IsException(tick))
        abx_js_break_by_exception(&s->js);
    else
        JS_FreeValue(s->js.ctx, abx_js_call(&s->js, tick, 0, NULL));
    JS_FreeValue(s->js.ctx, tick);
    abx_js_leave(&s->js);
}

/* wake(ms): call tick of js/timers.js then; negative: never */
static JSValue native_wake(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    js_session *s = session_of(ctx);
    double ms = -1;
    (void)self;
    (void)argc;
    if (JS_ToFloat64(ctx, &ms, argv[0]) < 0)
        return JS_EXCEPTION;
    s->js.open += (ms >= 0) - (size_t)s->timer_armed;
    s->timer_armed = ms >= 0;
    if (ms >= 0) {
        uv_update_time(s->js.loop);
        uv_timer_start(&s->timer, on_timer, ms > 4e9 ? 4000000000u : (uint64_t)ms, 0);
    } else {
        uv_timer_stop(&s->timer);
    }
    return JS_UNDEFINED;
}

static JSValue native_now(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)self;
    (void)argc;
    (void)argv;
    return JS_NewInt64(ctx, (int64_t)abx_now_mono_ms());
}

/* --- tables -------------------------------------------------------------------------------------------- */

static JSValue errors_table(JSContext *ctx)
{
    JSValue list = JS_NewArray(ctx);
    for (uint32_t i = 0; i < ABX_ERR_COUNT; i++) {
        const abx_err_row *row = abx_err_row_of((abx_err_id)i);
        JSValue o = JS_NewObject(ctx);
        JS_SetPropertyStr(ctx, o, "code", JS_NewString(ctx, row->code));
        JS_SetPropertyStr(ctx, o, "type", JS_NewString(ctx, row->type));
        JS_SetPropertyStr(ctx, o, "status", JS_NewInt32(ctx, row->http_status));
        if (row->retryable != ABX_RETRY_UNKNOWN)
            JS_SetPropertyStr(ctx, o, "retryable",
                              JS_NewBool(ctx, row->retryable == ABX_RETRY_YES));
        JS_SetPropertyStr(ctx, o, "hint", row->hint ? JS_NewString(ctx, row->hint) : JS_UNDEFINED);
        JS_SetPropertyUint32(ctx, list, i, o);
    }
    return list;
}

/* The names of its events, or of those of them alone that are channels of bytes. */
static JSValue events_of(JSContext *ctx, abx_op_id op, bool channels)
{
    size_t n;
    uint32_t count = 0;
    const abx_op_field *rows = abx_op_events(&n);
    JSValue list = JS_NewArray(ctx);
    for (size_t i = 0; i < n; i++)
        if (rows[i].op == op && (!channels || channel_number(rows[i].name) >= 0))
            JS_SetPropertyUint32(ctx, list, count++, JS_NewString(ctx, rows[i].name));
    return list;
}

static bool names_sandbox(abx_op_id op)
{
    size_t n;
    const abx_op_field *rows = abx_op_params(&n);
    for (size_t i = 0; i < n; i++)
        if (rows[i].op == op && strcmp(rows[i].name, "sandboxId") == 0)
            return true;
    return false;
}

/* Where a module has the method of an operation: group and name, "fs.make_dir" is filesystem and makeDir. */
static void add_place(JSContext *ctx, JSValueConst o, const char *method)
{
    char name[64];
    size_t n = 0;
    const char *dot = strchr(method, '.');
    for (const char *at = dot + 1; *at && n + 1 < sizeof(name); at++) {
        bool big = *at == '_' && at[1];
        at += big;
        name[n++] = (char)(big ? *at - 'a' + 'A' : *at);
    }
    bool is_fs = strncmp(method, "fs.", 3) == 0;
    JS_SetPropertyStr(ctx, o, "group",
                      is_fs ? JS_NewString(ctx, "filesystem")
                            : JS_NewStringLen(ctx, method, (size_t)(dot - method)));
    JS_SetPropertyStr(ctx, o, "name", JS_NewStringLen(ctx, name, n));
}

static JSValue ops_table(JSContext *ctx)
{
    JSValue list = JS_NewArray(ctx);
    for (uint32_t i = 0; i < ABX_OP_COUNT; i++) {
        const abx_op_row *row = abx_op_row_of((abx_op_id)i);
        JSValue o = JS_NewObject(ctx);
        JS_SetPropertyStr(ctx, o, "method", JS_NewString(ctx, row->method));
        JS_SetPropertyStr(ctx, o, "feature", JS_NewString(ctx, abx_feature_name(row->feature)));
        JS_SetPropertyStr(ctx, o, "style", JS_NewString(ctx, abx_style_name(row->style)));
        JS_SetPropertyStr(ctx, o, "events", events_of(ctx, row->id, false));
        JS_SetPropertyStr(ctx, o, "channels", events_of(ctx, row->id, true));
        add_place(ctx, o, row->method);
        JS_SetPropertyStr(ctx, o, "sandbox", JS_NewBool(ctx, names_sandbox(row->id)));
        JS_SetPropertyUint32(ctx, list, i, o);
    }
    return list;
}

static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_DEF("size", 1, native_size),       JS_CFUNC_DEF("event", 3, native_event),
    JS_CFUNC_DEF("write", 3, native_write),     JS_CFUNC_DEF("end", 2, native_end),
    JS_CFUNC_DEF("fail", 2, native_fail),       JS_CFUNC_DEF("taken", 2, native_taken),
    JS_CFUNC_DEF("greeted", 1, native_greeted), JS_CFUNC_DEF("refused", 1, native_refused),
    JS_CFUNC_DEF("log", 2, native_log),         JS_CFUNC_DEF("wake", 1, native_wake),
    JS_CFUNC_DEF("now", 0, native_now),
};

void js_natives(js_session *s)
{
    JSContext *ctx = s->js.ctx;
    JSValue internal = s->js.internal;
    JS_SetPropertyFunctionList(ctx, internal, functions, (int)ABX_COUNT(functions));
    JS_SetPropertyStr(ctx, internal, "version", JS_NewString(ctx, ABX_VERSION));
    JS_SetPropertyStr(ctx, internal, "errors", errors_table(ctx));
    JS_SetPropertyStr(ctx, internal, "ops", ops_table(ctx));
    JS_SetPropertyStr(ctx, internal, "head",
                      abx_js_from_json(ctx, yyjson_doc_get_root(s->bundle->head)));
}
