#include "jshost/js.h"

#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/mem.h"
#include "jshost/heap.h"
#include "jshost/lazy.h"
#include "jshost/turn.h"

#define FIRST_GC ((size_t)4 << 20) /* bytes of the heap: what is made at the start stays */

/* --- limits -------------------------------------------------------------------------------------------- */

static int on_interrupt(JSRuntime *rt, void *opaque)
{
    abx_js *js = opaque;
    (void)rt;
    if (js->since_ms && abx_now_mono_ms() - js->since_ms > js->run_ms)
        js->interrupted = true;
    return js->interrupted || js->broken;
}

static size_t stack_size(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_STACK, &r) == 0 && r.rlim_cur != RLIM_INFINITY &&
        r.rlim_cur / 2 < ABX_JS_STACK_MAX)
        return (size_t)r.rlim_cur / 2;
    return ABX_JS_STACK_MAX;
}

void abx_js_break(abx_js *js, const char *why)
{
    if (js->broken)
        return;
    js->broken = abx_strdup(why);
}

/* "name: message" of an error, without running code of the module. Owned. */
static char *brief(abx_js *js, JSValueConst e)
{
    if (!JS_IsError(e))
        return abx_strdup("an error without a text");
    const char *text = JS_ToCString(js->ctx, e);
    char *out = abx_strdup(text ? text : "an error without a text");
    JS_FreeCString(js->ctx, text);
    if (!text)
        JS_FreeValue(js->ctx, JS_GetException(js->ctx));
    return out;
}

/* Where an error was made: " at FUNCTION (FILE:LINE:COLUMN)", or "". Owned. */
static char *place(abx_js *js, JSValueConst e)
{
    JSValue stack = JS_IsError(e) ? JS_GetPropertyStr(js->ctx, e, "stack") : JS_UNDEFINED;
    const char *text = JS_IsString(stack) ? JS_ToCString(js->ctx, stack) : NULL;
    const char *at = text ? strstr(text, "at ") : NULL;
    char *out = at ? abx_format(" %.*s", (int)strcspn(at, "\n"), at) : abx_strdup("");
    JS_FreeCString(js->ctx, text);
    JS_FreeValue(js->ctx, stack);
    if (JS_HasException(js->ctx))
        JS_FreeValue(js->ctx, JS_GetException(js->ctx));
    return out;
}

void abx_js_break_by_exception(abx_js *js)
{
    JSValue e = JS_GetException(js->ctx);
    if (js->interrupted) {
        ABX_AUTO_FREE char *where = place(js, e);
        char time[32];
        abx_format_duration(js->run_ms, time);
        ABX_AUTO_FREE char *why =
            abx_format("its code ran for %s without giving way%s", time, where);
        abx_js_break(js, why);
    } else if (JS_IsNull(e) || js->starved) {
        abx_js_break(js, ABX_JS_NO_MEMORY);
    } else {
        ABX_AUTO_FREE char *what = brief(js, e);
        bool memory = strstr(what, "out of memory") != NULL;
        ABX_AUTO_FREE char *why = abx_format("it cannot go on: %s", what);
        abx_js_break(js, memory ? ABX_JS_NO_MEMORY : why);
    }
    JS_FreeValue(js->ctx, e);
}

/* --- queued work --------------------------------------------------------------------------------------- */

static void on_idle(uv_idle_t *idle)
{
    abx_js *js = idle->data;
    abx_js_enter(js);
    abx_js_leave(js);
}

static void tell_rejections(abx_js *js)
{
    JSValue list = js->rejected;
    int64_t n = 0;
    js->rejected = JS_NewArray(js->ctx);
    if (JS_GetLength(js->ctx, list, &n) == 0)
        for (int64_t i = 0; i < n && !js->broken; i++) {
            JSValue promise = JS_GetPropertyInt64(js->ctx, list, i);
            if (JS_IsPromise(promise)) {
                JSValue reason = JS_PromiseResult(js->ctx, promise);
                js->on_rejection(js, reason, js->data);
                JS_FreeValue(js->ctx, reason);
            }
            JS_FreeValue(js->ctx, promise);
        }
    JS_FreeValue(js->ctx, list);
}

static bool has_rejections(abx_js *js)
{
    int64_t n = 0;
    return js->on_rejection && JS_GetLength(js->ctx, js->rejected, &n) == 0 && n > 0;
}

/* Run what promises have queued, for a slice of time. */
static void drain(abx_js *js)
{
    uint64_t until = abx_now_mono_ms() + ABX_JS_SLICE_MS;
    JSContext *ctx;
    unsigned done = 0;
    while (!js->broken && JS_IsJobPending(js->rt)) {
        if (JS_ExecutePendingJob(js->rt, &ctx) < 0)
            abx_js_break_by_exception(js);
        if (js->interrupted && !js->broken)
            abx_js_break_by_exception(js);
        js->since_ms = abx_now_mono_ms();
        if (++done % 16 == 0 && js->since_ms >= until)
            break;
    }
    bool left = !js->broken && JS_IsJobPending(js->rt);
    if (left && !uv_is_active((uv_handle_t *)&js->idle))
        uv_idle_start(&js->idle, on_idle);
    else if (!left)
        uv_idle_stop(&js->idle);
    if (!left && has_rejections(js))
        tell_rejections(js);
}

void abx_js_enter(abx_js *js)
{
    if (js->depth++ == 0)
        js->since_ms = abx_now_mono_ms();
}

void abx_js_leave(abx_js *js)
{
    if (js->depth > 1) {
        js->depth--;
        return;
    }
    drain(js);
    if (!js->broken && abx__js_heap_is_full(js))
        abx_js_break(js, ABX_JS_NO_MEMORY);
    js->depth = 0;
    js->since_ms = 0;
    if (js->on_leave)
        js->on_leave(js, js->data);
}

JSValue abx_js_call(abx_js *js, JSValueConst fn, int argc, JSValue *argv)
{
    JSValue v = JS_UNDEFINED;
    abx_js_enter(js);
    if (!js->broken)
        v = JS_Call(js->ctx, fn, JS_UNDEFINED, argc, (JSValueConst *)argv);
    for (int i = 0; i < argc; i++)
        JS_FreeValue(js->ctx, argv[i]);
    if (JS_IsException(v)) {
        abx_js_break_by_exception(js);
        v = JS_UNDEFINED;
    }
    abx_js_leave(js);
    return v;
}

/* A rejection is first told as not handled, and as handled later in the same turn. */
static void on_tracked(JSContext *ctx, JSValueConst promise, JSValueConst reason, bool handled,
                       void *opaque)
{
    abx_js *js = opaque;
    int64_t n = 0;
    (void)reason;
    if (JS_GetLength(ctx, js->rejected, &n) < 0)
        return;
    if (!handled) {
        if (n < 100)
            JS_DefinePropertyValueUint32(ctx, js->rejected, (uint32_t)n, JS_DupValue(ctx, promise),
                                         JS_PROP_C_W_E);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        JSValue other = JS_GetPropertyInt64(ctx, js->rejected, i);
        if (JS_IsStrictEqual(ctx, other, promise))
            JS_DefinePropertyValueUint32(ctx, js->rejected, (uint32_t)i, JS_NULL, JS_PROP_C_W_E);
        JS_FreeValue(ctx, other);
    }
}

/* --- birth and end ------------------------------------------------------------------------------------- */

static int add_intrinsics(JSContext *ctx)
{
    int rc = JS_AddIntrinsicBaseObjects(ctx);
    rc |= JS_AddIntrinsicDate(ctx);
    JS_AddIntrinsicRegExpCompiler(ctx);
    rc |= JS_AddIntrinsicRegExp(ctx);
    rc |= JS_AddIntrinsicJSON(ctx);
    rc |= JS_AddIntrinsicProxy(ctx);
    rc |= JS_AddIntrinsicMapSet(ctx);
    rc |= JS_AddIntrinsicTypedArrays(ctx);
    rc |= JS_AddIntrinsicPromise(ctx);
    rc |= JS_AddIntrinsicBigInt(ctx);
    rc |= JS_AddIntrinsicWeakRef(ctx);
    rc |= JS_AddIntrinsicDOMException(ctx);
    rc |= JS_AddIntrinsicAToB(ctx);
    rc |= JS_AddPerformance(ctx);
    return rc;
}

/* Memory that several threads could share: there is one thread. */
static void drop_shared_memory(JSContext *ctx)
{
    static const char *const names[] = {"SharedArrayBuffer", "Atomics"};
    JSValue global = JS_GetGlobalObject(ctx);
    for (size_t i = 0; i < ABX_COUNT(names); i++) {
        JSAtom atom = JS_NewAtom(ctx, names[i]);
        JS_DeleteProperty(ctx, global, atom, 0);
        JS_FreeAtom(ctx, atom);
    }
    JS_DefinePropertyValueStr(ctx, global, "self", JS_DupValue(ctx, global),
                              JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    JS_FreeValue(ctx, global);
}

int abx_js_open(abx_js *js, uv_loop_t *loop, const abx_js_bundle *bundle, const char *id,
                abx_error **err)
{
    memset(js, 0, sizeof *js);
    js->loop = loop;
    js->bundle = bundle;
    js->id = id;
    js->run_ms = ABX_JS_RUN_MS;
    js->rejected = js->internal = js->view_length = JS_UNDEFINED;
    for (size_t i = 0; i < ABX_COUNT(js->data_view); i++)
        js->data_view[i] = JS_UNDEFINED;
    js->rt = abx__js_heap_runtime(js);
    if (js->rt)
        js->ctx = JS_NewContextRaw(js->rt);
    if (js->rt)
        JS_SetRuntimeOpaque(js->rt, js);
    if (!js->ctx || add_intrinsics(js->ctx) != 0 || abx__js_bytes_init(js) < 0 ||
        abx__js_lazy_open(js) < 0) {
        abx_js_close(js);
        abx_js_free(js);
        return abx_fail(err, ABX_ERR_PROVIDER_START, "the JavaScript engine does not start");
    }
    JS_SetGCThreshold(js->rt, FIRST_GC);
    JS_SetMaxStackSize(js->rt, stack_size());
    JS_SetCanBlock(js->rt, false);
    JS_SetInterruptHandler(js->rt, on_interrupt, js);
    JS_SetHostPromiseRejectionTracker(js->rt, on_tracked, js);
    drop_shared_memory(js->ctx);
    abx__js_modules_init(js);
    js->rejected = JS_NewArray(js->ctx);
    ABX_CHECK(uv_idle_init(loop, &js->idle) == 0);
    js->idle.data = js;
    return 0;
}

void abx_js_close(abx_js *js)
{
    abx_js_break(js, "its session is over");
    if (js->ctx) {
        abx__js_net_release(js);
        JS_FreeValue(js->ctx, js->rejected);
        abx__js_lazy_close(js);
        abx__js_bytes_clear(js);
        JS_FreeContext(js->ctx);
    }
    if (js->rt)
        JS_FreeRuntime(js->rt);
    if (js->loop && js->idle.data)
        uv_close((uv_handle_t *)&js->idle, NULL);
    js->ctx = NULL;
    js->rt = NULL;
    abx__js_net_close(js);
}

void abx_js_free(abx_js *js)
{
    abx__js_net_free(js);
    free(ABX_TAKE(js->broken));
}

JSValue abx_js_run_compiled(abx_js *js, const uint8_t *code, size_t n)
{
    JSValue fn = JS_ReadObject(js->ctx, code, n, JS_READ_OBJ_BYTECODE);
    return JS_IsException(fn) ? fn : JS_EvalFunction(js->ctx, fn);
}
