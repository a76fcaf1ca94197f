/* Text as bytes and back, and random bytes: for js/text.js and js/crypto.js. */
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"
#include "jshost/js.h"
#include "jshost/utf8.h"

static JSValue native_encode(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t n;
    const char *text = JS_ToCStringLen(ctx, &n, argv[0]);
    (void)self;
    (void)argc;
    if (!text)
        return JS_EXCEPTION;
    JSValue v = JS_NewUint8ArrayCopy(ctx, (const uint8_t *)text, n);
    JS_FreeCString(ctx, text);
    const uint8_t *bytes;
    if (!JS_IsException(v) && abx_js_bytes(ctx, v, &bytes, &n) == 0)
        abx_utf8_repair((char *)(uintptr_t)bytes, n); /* ours alone */
    return v;
}

/* decode(bytes, state, last): state: an array of five numbers, changed; state[5] = whether something was wrong */
static JSValue native_decode(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    uint32_t state[5];
    const uint8_t *bytes;
    size_t n;
    (void)self;
    (void)argc;
    for (uint32_t i = 0; i < 5; i++) {
        JSValue v = JS_GetPropertyUint32(ctx, argv[1], i);
        int rc = JS_ToUint32(ctx, &state[i], v);
        JS_FreeValue(ctx, v);
        if (rc < 0)
            return JS_EXCEPTION;
    }
    abx_utf8_decoder d = {.point = state[0],
                          .needed = (uint8_t)(state[1] & 3),
                          .seen = (uint8_t)(state[2] & 3),
                          .lower = (uint8_t)state[3],
                          .upper = (uint8_t)state[4]};
    if (abx_js_bytes(ctx, argv[0], &bytes, &n) < 0)
        return JS_EXCEPTION;
    uint16_t *units = js_malloc(ctx, (n + 2) * sizeof(*units));
    if (!units)
        return JS_EXCEPTION;
    size_t len = abx_utf8_decode(&d, bytes, n, JS_ToBool(ctx, argv[2]) == 1, units);
    JSValue text = JS_NewStringUTF16(ctx, units, len);
    js_free(ctx, units);
    const uint32_t after[] = {d.point, d.needed, d.seen, d.lower, d.upper, d.wrong};
    for (uint32_t i = 0; i < ABX_COUNT(after); i++)
        JS_SetPropertyUint32(ctx, argv[1], i, JS_NewUint32(ctx, after[i]));
    return text;
}

/* random(n): n bytes, at most 65,536 */
static JSValue native_random(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    uint8_t bytes[65536];
    int32_t n = 0;
    (void)self;
    (void)argc;
    if (JS_ToInt32(ctx, &n, argv[0]) < 0)
        return JS_EXCEPTION;
    if (n < 0 || (size_t)n > sizeof(bytes))
        return JS_ThrowRangeError(ctx, "too many random bytes");
    for (size_t at = 0; at < (size_t)n;) {
        ssize_t got = getrandom(bytes + at, (size_t)n - at, 0);
        ABX_CHECK(got > 0);
        at += (size_t)got;
    }
    return JS_NewUint8ArrayCopy(ctx, bytes, (size_t)n);
}

static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_DEF("encode", 1, native_encode),
    JS_CFUNC_DEF("decode", 3, native_decode),
    JS_CFUNC_DEF("random", 1, native_random),
};

void abx__js_natives_bytes(abx_js *js, JSValueConst internal);
void abx__js_natives_bytes(abx_js *js, JSValueConst internal)
{
    JS_SetPropertyFunctionList(js->ctx, internal, functions, (int)ABX_COUNT(functions));
}
