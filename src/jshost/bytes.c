/* The memory of values: who may look at it, and how much of it there is. */
#include <stdlib.h>

#include "base/mem.h"
#include "jshost/heap.h"

/* --- the engine's getters, taken before the module runs ------------------------------------------------- */

static JSValue getter(JSContext *ctx, JSValueConst proto, const char *name)
{
    JSPropertyDescriptor d;
    JSAtom atom = JS_NewAtom(ctx, name);
    int there = JS_GetOwnProperty(ctx, &d, proto, atom);
    JS_FreeAtom(ctx, atom);
    if (there <= 0)
        return JS_UNDEFINED;
    JS_FreeValue(ctx, d.value);
    JS_FreeValue(ctx, d.setter);
    return d.getter;
}

static JSValue prototype_of(JSContext *ctx, const char *name)
{
    JSValue global = JS_GetGlobalObject(ctx), class = JS_GetPropertyStr(ctx, global, name);
    JSValue proto = JS_GetPropertyStr(ctx, class, "prototype");
    JS_FreeValue(ctx, class);
    JS_FreeValue(ctx, global);
    return proto;
}

int abx__js_bytes_init(abx_js *js)
{
    static const char *const names[] = {"buffer", "byteOffset", "byteLength"};
    JSValue view = prototype_of(js->ctx, "DataView");
    JSValue uint8 = prototype_of(js->ctx, "Uint8Array");
    JSValue typed = JS_GetPrototype(js->ctx, uint8);
    int rc = 0;
    js->view_length = getter(js->ctx, typed, "byteLength");
    for (size_t i = 0; i < ABX_COUNT(names); i++) {
        js->data_view[i] = getter(js->ctx, view, names[i]);
        rc |= JS_IsFunction(js->ctx, js->data_view[i]) ? 0 : -1;
    }
    JS_FreeValue(js->ctx, view);
    JS_FreeValue(js->ctx, uint8);
    JS_FreeValue(js->ctx, typed);
    return JS_IsFunction(js->ctx, js->view_length) ? rc : -1;
}

void abx__js_bytes_clear(abx_js *js)
{
    JS_FreeValue(js->ctx, js->view_length);
    for (size_t i = 0; i < ABX_COUNT(js->data_view); i++)
        JS_FreeValue(js->ctx, js->data_view[i]);
}

/* --- looking -------------------------------------------------------------------------------------------- */

static int number_of(JSContext *ctx, JSValueConst fn, JSValueConst v, size_t *n)
{
    int64_t i = 0;
    JSValue number = JS_Call(ctx, fn, v, 0, NULL);
    *n = 0;
    if (JS_IsException(
            number)) /* of a DataView that its buffer has no longer room for: as of a typed array, 0 */
        JS_FreeValue(ctx, JS_GetException(ctx));
    else if (JS_ToInt64(ctx, &i, number) < 0 || i < 0)
        return -1;
    *n = (size_t)i;
    return 0;
}

/* A view's buffer, and its place as the view tells it. */
static int view_place(JSContext *ctx, JSValueConst v, JSValue *buffer, size_t *offset, size_t *len)
{
    const abx_js *js = abx_js_of(ctx);
    if (JS_GetTypedArrayType(v) >= 0) {
        if (number_of(ctx, js->view_length, v, len) < 0)
            return -1;
        *buffer = JS_GetTypedArrayBuffer(ctx, v, offset, NULL, NULL);
        if (JS_IsException(*buffer)) { /* its buffer was taken or shrank: it has no bytes */
            JS_FreeValue(ctx, JS_GetException(ctx));
            *buffer = JS_UNDEFINED;
        }
        return 0;
    }
    if (!JS_IsDataView(v))
        return JS_ThrowTypeError(ctx, "an ArrayBuffer or a view of one is needed"), -1;
    if (number_of(ctx, js->data_view[1], v, offset) < 0 ||
        number_of(ctx, js->data_view[2], v, len) < 0)
        return -1;
    *buffer = JS_Call(ctx, js->data_view[0], v, 0, NULL);
    return JS_IsException(*buffer) ? -1 : 0;
}

static int look(JSContext *ctx, JSValueConst v, uint8_t **p, size_t *n, bool *fixed)
{
    static uint8_t nothing[1];
    size_t offset = 0, len = SIZE_MAX, size = 0;
    JSValue buffer;
    if (JS_IsArrayBuffer(v))
        buffer = JS_DupValue(ctx, v);
    else if (view_place(ctx, v, &buffer, &offset, &len) < 0)
        return -1;
    *p = JS_GetArrayBuffer(ctx, &size, buffer);
    *fixed = JS_IsImmutableArrayBuffer(buffer) == 1;
    JS_FreeValue(ctx, buffer); /* v keeps it */
    if (!*p && JS_HasException(ctx))
        JS_FreeValue(ctx, JS_GetException(ctx)); /* detached */
    if (!*p || offset > size) {
        *p = nothing;
        *n = 0;
        return 0;
    }
    *p += offset;
    *n = len < size - offset ? len : size - offset;
    return 0;
}

int abx_js_bytes(JSContext *ctx, JSValueConst v, const uint8_t **p, size_t *n)
{
    uint8_t *bytes;
    bool fixed;
    if (look(ctx, v, &bytes, n, &fixed) < 0)
        return -1;
    *p = bytes;
    return 0;
}

int abx_js_bytes_mut(JSContext *ctx, JSValueConst v, uint8_t **p, size_t *n)
{
    bool fixed;
    if (look(ctx, v, p, n, &fixed) < 0)
        return -1;
    if (fixed)
        return JS_ThrowTypeError(ctx, "the buffer is immutable"), -1;
    return 0;
}

/* --- handing over --------------------------------------------------------------------------------------- */

/* Each block has its size in front: the engine does not say how large the one is that it gives back. */
typedef struct host_block {
    size_t size;
} host_block;

/* opaque: a host_block */
static void *on_resize(JSRuntime *rt, void *opaque, void *bytes, size_t size)
{
    abx_js *js = JS_GetRuntimeOpaque(rt);
    host_block *block = opaque;
    if (size > 0) {
        if (size > block->size && js->heap + js->host_bytes + size - block->size > ABX_JS_HEAP_MAX)
            return NULL;
        void *grown = realloc(bytes, size);
        if (!grown)
            return NULL;
        js->host_bytes += size - block->size;
        block->size = size;
        return grown;
    }
    js->host_bytes -= block->size;
    free(block);
    free(bytes);
    return NULL;
}

JSValue abx_js_adopt(JSContext *ctx, uint8_t *bytes, size_t n)
{
    abx_js *js = abx_js_of(ctx);
    if (n == 0) {
        free(bytes);
        return JS_NewUint8ArrayCopy(ctx, (const uint8_t *)"", 0);
    }
    if (!abx__js_heap_room(js, n)) {
        free(bytes);
        return JS_ThrowRangeError(ctx, "out of memory");
    }
    host_block *block = ABX_NEW(host_block);
    block->size = n;
    js->host_bytes += n;
    JSValue buffer = JS_NewArrayBuffer(ctx, bytes, n, 0, on_resize, block, false);
    if (JS_IsException(buffer)) {
        on_resize(js->rt, block, bytes, 0);
        return buffer;
    }
    JSValueConst argv[] = {buffer};
    JSValue v = JS_NewTypedArray(ctx, 1, argv, JS_TYPED_ARRAY_UINT8);
    JS_FreeValue(ctx, buffer);
    return v;
}
