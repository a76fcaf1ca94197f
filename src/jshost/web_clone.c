/* classOf(value): what an object is, by the engine, whatever its prototype says. For js/clone.js. */
#include "base/mem.h"
#include "jshost/js.h"

/* The same numbers in js/clone.js. */
enum {
    KIND_NONE,
    KIND_OBJECT,
    KIND_ARRAY,
    KIND_DATE,
    KIND_REGEXP,
    KIND_MAP,
    KIND_SET,
    KIND_ERROR,
    KIND_BUFFER,
    KIND_TYPED,
    KIND_VIEW,
    KIND_WRAPPER, /* of a boolean, a number, a string or a bigint */
    KIND_DOM_EXCEPTION,
};

typedef struct clone_classes {
    JSClassID object, wrappers[4], dom_exception;
} clone_classes;

static clone_classes known;

static JSClassID class_of(JSContext *ctx, JSValue v)
{
    JSClassID id = JS_IsObject(v) ? JS_GetClassID(v) : 0;
    JS_FreeValue(ctx, v);
    return id;
}

static JSClassID class_of_wrapper(JSContext *ctx, JSValue primitive)
{
    JSValue v = JS_ToObject(ctx, primitive);
    JS_FreeValue(ctx, primitive);
    return class_of(ctx, v);
}

static JSClassID class_of_exception(JSContext *ctx)
{
    JS_ThrowDOMException(ctx, "AbortError", "none");
    return class_of(ctx, JS_GetException(ctx));
}

static int kind_by_class(JSClassID id)
{
    if (id == known.object)
        return KIND_OBJECT;
    for (size_t i = 0; i < ABX_COUNT(known.wrappers); i++)
        if (id == known.wrappers[i])
            return KIND_WRAPPER;
    return id == known.dom_exception ? KIND_DOM_EXCEPTION : KIND_NONE;
}

static int kind_of(JSContext *ctx, JSValueConst v)
{
    if (!JS_IsObject(v) || JS_IsFunction(ctx, v) || JS_IsProxy(v))
        return KIND_NONE;
    JSClassID id = JS_GetClassID(v);
    if (id == known.dom_exception) /* an error, too */
        return KIND_DOM_EXCEPTION;
    return JS_IsArray(v)                  ? KIND_ARRAY
           : JS_IsDate(v)                 ? KIND_DATE
           : JS_IsRegExp(v)               ? KIND_REGEXP
           : JS_IsMap(v)                  ? KIND_MAP
           : JS_IsSet(v)                  ? KIND_SET
           : JS_IsError(v)                ? KIND_ERROR
           : JS_IsArrayBuffer(v)          ? KIND_BUFFER
           : JS_GetTypedArrayType(v) >= 0 ? KIND_TYPED
           : JS_IsDataView(v)             ? KIND_VIEW
                                          : kind_by_class(id);
}

static JSValue native_class_of(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)self;
    (void)argc;
    return JS_NewInt32(ctx, kind_of(ctx, argv[0]));
}

/* detach(buffer) */
static JSValue native_detach(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)self;
    (void)argc;
    if (JS_IsArrayBuffer(argv[0]) && JS_IsImmutableArrayBuffer(argv[0]) != 1)
        JS_DetachArrayBuffer(ctx, argv[0]);
    return JS_UNDEFINED;
}

static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_DEF("classOf", 1, native_class_of),
    JS_CFUNC_DEF("detach", 1, native_detach),
};

void abx__js_natives_clone(abx_js *js, JSValueConst internal);
void abx__js_natives_clone(abx_js *js, JSValueConst internal)
{
    JSContext *ctx = js->ctx;
    known = (clone_classes){
        .object = class_of(ctx, JS_NewObject(ctx)),
        .wrappers = {class_of_wrapper(ctx, JS_TRUE), class_of_wrapper(ctx, JS_NewInt32(ctx, 1)),
                     class_of_wrapper(ctx, JS_NewString(ctx, "")),
                     class_of_wrapper(ctx, JS_NewBigInt64(ctx, 1))},
        .dom_exception = class_of_exception(ctx),
    };
    JS_SetPropertyFunctionList(ctx, internal, functions, (int)ABX_COUNT(functions));
}
