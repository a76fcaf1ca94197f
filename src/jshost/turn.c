#include "jshost/turn.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "jshost/kit.h"

enum {
    CONNECTIONS = 160, /* the process may have 256 descriptors */
    CONNECT_MS = 10000
};

abx_js_net *abx__js_net(abx_js *js)
{
    if (!js->net) {
        js->net = ABX_NEW(abx_js_net);
        js->net->js = js;
        ABX_CHECK(uv_idle_init(js->loop, &js->net->turn) == 0);
        js->net->turn.data = js->net;
    }
    return js->net;
}

void abx__js_net_release(abx_js *js)
{
    while (js->net && js->net->pins)
        abx__js_unpin(js, js->net->pins);
    if (js->net)
        abx__js_run_release(js);
}

void abx__js_net_close(abx_js *js)
{
    if (!js->net)
        return;
    uv_close((uv_handle_t *)&js->net->turn, NULL);
    if (js->net->pool)
        abx_http_close(ABX_TAKE(js->net->pool), NULL, NULL);
}

void abx__js_net_free(abx_js *js)
{
    free(ABX_TAKE(js->net));
}

abx_http *abx__js_pool(abx_js *js, abx_error **err)
{
    abx_js_net *net = abx__js_net(js);
    const abx_http_options options = {.connect_timeout_ms = CONNECT_MS,
                                      .max_connections = CONNECTIONS,
                                      .max_head_bytes = 128 * 1024};
    if (!net->pool && abx_http_open(js->loop, &options, &net->pool, err) < 0)
        return NULL;
    return net->pool;
}

/* --- the next turn ------------------------------------------------------------------------------------- */

static void on_turn(uv_idle_t *idle)
{
    abx_js_net *net = idle->data;
    abx_js_due *list = NULL;
    for (abx_js_due *d = ABX_TAKE(net->due), *next; d; d = next) { /* as they came */
        next = d->next;
        d->next = list;
        list = d;
    }
    abx_js_enter(net->js);
    net->due = list;
    while (net->due && !net->js->broken) {
        abx_js_due *d = net->due;
        net->due = d->next;
        d->queued = false;
        d->run(d);
    }
    abx_js_leave(net->js);
    if (!net->due)
        uv_idle_stop(idle);
}

void abx__js_due(abx_js *js, abx_js_due *due)
{
    abx_js_net *net = abx__js_net(js);
    if (due->queued || !js->rt)
        return;
    due->queued = true;
    due->next = net->due;
    net->due = due;
    uv_idle_start(&net->turn, on_turn);
}

void abx__js_due_drop(abx_js *js, abx_js_due *due)
{
    abx_js_due **at = &js->net->due;
    if (!due->queued)
        return;
    while (*at != due)
        at = &(*at)->next;
    *at = due->next;
    due->queued = false;
}

/* --- what the loop needs --------------------------------------------------------------------------------- */

void abx__js_pin(abx_js *js, abx_js_pin *pin, JSValueConst object)
{
    abx_js_net *net = abx__js_net(js);
    if (pin->at)
        return;
    pin->object = JS_DupValue(js->ctx, object);
    pin->at = &net->pins;
    pin->next = net->pins;
    if (pin->next)
        pin->next->at = &pin->next;
    net->pins = pin;
}

void abx__js_unpin(abx_js *js, abx_js_pin *pin)
{
    if (!pin->at)
        return;
    *pin->at = pin->next;
    if (pin->next)
        pin->next->at = pin->at;
    pin->at = NULL;
    JS_FreeValueRT(js->rt, pin->object);
}

/* --- promises ------------------------------------------------------------------------------------------ */

JSValue abx__js_wait(JSContext *ctx, abx_js_waiter *w)
{
    if (w->waiting)
        return JS_ThrowTypeError(ctx, "it is waited for already");
    JSValue promise = JS_NewPromiseCapability(ctx, w->functions);
    w->waiting = !JS_IsException(promise);
    return promise;
}

static void settle(JSContext *ctx, abx_js_waiter *w, int which, JSValue value)
{
    if (w->waiting) {
        const JSValue resolve = w->functions[0], reject = w->functions[1];
        JSValueConst argv[] = {value};
        w->waiting = false;
        JSValue v = JS_Call(ctx, which ? reject : resolve, JS_UNDEFINED, 1, argv);
        if (JS_IsException(v))
            abx_js_break_by_exception(abx_js_of(ctx));
        JS_FreeValue(ctx, v);
        JS_FreeValue(ctx, resolve);
        JS_FreeValue(ctx, reject);
    }
    JS_FreeValue(ctx, value);
}

void abx__js_resolve(JSContext *ctx, abx_js_waiter *w, JSValue value)
{
    if (JS_IsException(value)) { /* it could not be made */
        abx__js_reject(ctx, w, JS_GetException(ctx));
        return;
    }
    settle(ctx, w, 0, value);
}

void abx__js_reject(JSContext *ctx, abx_js_waiter *w, JSValue reason)
{
    settle(ctx, w, 1, reason);
}

void abx__js_waiter_clear(JSRuntime *rt, abx_js_waiter *w)
{
    if (w->waiting) {
        JS_FreeValueRT(rt, w->functions[0]);
        JS_FreeValueRT(rt, w->functions[1]);
    }
    w->waiting = false;
}

void abx__js_waiter_mark(JSRuntime *rt, const abx_js_waiter *w, JS_MarkFunc *mark)
{
    for (size_t i = 0; w->waiting && i < ABX_COUNT(w->functions); i++)
        JS_MarkValue(rt, w->functions[i], mark);
}

/* --- errors -------------------------------------------------------------------------------------------- */

JSValue abx__js_error(JSContext *ctx, const char *message, const char *code)
{
    JSValue e = JS_NewError(ctx);
    JS_DefinePropertyValueStr(ctx, e, "message", abx_js_string(ctx, message, strlen(message)),
                              JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    if (code)
        JS_DefinePropertyValueStr(ctx, e, "code", JS_NewString(ctx, code), JS_PROP_C_W_E);
    return e;
}

JSValue abx__js_throw(JSContext *ctx, const char *message)
{
    return JS_ThrowTypeError(ctx, "%s", message);
}
