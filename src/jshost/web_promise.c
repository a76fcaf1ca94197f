/* Promises for the runtime's own JavaScript, by the engine's functions: what a module makes of Promise and its `then` does not matter. */
#include "base/mem.h"
#include "jshost/js.h"

/* deferred(): {promise, resolve, reject} */
static JSValue native_deferred(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    static const char *names[] = {"promise", "resolve", "reject"};
    JSValue values[3];
    (void)self;
    (void)argc;
    (void)argv;
    values[0] = JS_NewPromiseCapability(ctx, values + 1);
    if (JS_IsException(values[0]))
        return values[0];
    return JS_NewObjectFromStr(ctx, ABX_COUNT(names), names, values);
}

/* then(promise, onFulfilled, onRejected): a promise */
static JSValue native_then(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)self;
    return JS_PromiseThen(ctx, argv[0], argv[1], argc > 2 ? argv[2] : JS_UNDEFINED);
}

/* resolved(value): a new promise that follows it */
static JSValue native_resolved(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    JSValue f[2];
    (void)self;
    (void)argc;
    if (!JS_IsObject(argv[0]))
        return JS_NewSettledPromise(ctx, false, argv[0]);
    JSValue promise = JS_NewPromiseCapability(ctx, f);
    if (JS_IsException(promise))
        return promise;
    JSValue done = JS_Call(ctx, f[0], JS_UNDEFINED, 1, argv);
    JS_FreeValue(ctx, f[0]);
    JS_FreeValue(ctx, f[1]);
    if (JS_IsException(done)) {
        JS_FreeValue(ctx, promise);
        return done;
    }
    JS_FreeValue(ctx, done);
    return promise;
}

/* rejected(reason) */
static JSValue native_rejected(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)self;
    (void)argc;
    return JS_NewSettledPromise(ctx, true, argv[0]);
}

static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_DEF("deferred", 0, native_deferred),
    JS_CFUNC_DEF("then", 3, native_then),
    JS_CFUNC_DEF("resolved", 1, native_resolved),
    JS_CFUNC_DEF("rejected", 1, native_rejected),
};

void abx__js_natives_promise(abx_js *js, JSValueConst internal);
void abx__js_natives_promise(abx_js *js, JSValueConst internal)
{
    JS_SetPropertyFunctionList(js->ctx, internal, functions, (int)ABX_COUNT(functions));
}
