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

enum { KIND_UTF8, KIND_UTF16LE, KIND_UTF16BE, KIND_1252 };

/* encodeInto(text, bytes): as many whole characters as there is room for; {read, written} */
static JSValue native_encode_into(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    static const char *names[] = {"read", "written"};
    size_t n, room, read = 0, written = 0;
    uint8_t *to;
    (void)self;
    (void)argc;
    const uint16_t *units = JS_ToCStringLenUTF16(ctx, &n, argv[0]);
    if (!units)
        return JS_EXCEPTION;
    if (abx_js_bytes_mut(ctx, argv[1], &to, &room) < 0) {
        JS_FreeCStringUTF16(ctx, units);
        return JS_EXCEPTION;
    }
    while (read < n) {
        uint8_t c[4];
        size_t taken, len = abx_utf8_encode_one(units + read, n - read, &taken, c);
        if (len > room - written)
            break;
        memcpy(to + written, c, len);
        written += len;
        read += taken;
    }
    JS_FreeCStringUTF16(ctx, units);
    JSValue values[] = {JS_NewInt64(ctx, (int64_t)read), JS_NewInt64(ctx, (int64_t)written)};
    return JS_NewObjectFromStr(ctx, ABX_COUNT(names), names, values);
}

/* state: point = an odd byte + 1; lower | upper << 8 | needed: a high surrogate that waits */
static size_t decode_utf16(abx_utf8_decoder *d, const uint8_t *bytes, size_t n, bool big, bool last,
                           uint16_t *out)
{
    size_t len = 0;
    uint16_t high = (uint16_t)(d->lower | d->upper << 8);
    for (size_t i = 0; i < n; i++) {
        if (!d->point) {
            d->point = bytes[i] + 1u;
            continue;
        }
        uint8_t first = (uint8_t)(d->point - 1);
        uint16_t unit = (uint16_t)(big ? first << 8 | bytes[i] : bytes[i] << 8 | first);
        bool low = unit >= 0xDC00 && unit <= 0xDFFF;
        d->point = 0;
        if (high) {
            out[len++] = low ? high : 0xFFFD;
            d->wrong |= !low;
        }
        if (low && !high) {
            unit = 0xFFFD;
            d->wrong = true;
        }
        high = unit >= 0xD800 && unit <= 0xDBFF ? unit : 0;
        if (!high)
            out[len++] = unit;
    }
    if (last && (high || d->point)) {
        out[len++] = 0xFFFD;
        d->wrong = true;
        d->point = high = 0;
    }
    d->lower = (uint8_t)high;
    d->upper = (uint8_t)(high >> 8);
    return len;
}

static size_t decode_1252(const uint8_t *bytes, size_t n, uint16_t *out)
{
    static const uint16_t upper[32] = {
        0x20AC, 0x0081, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
        0x2039, 0x0152, 0x008D, 0x017D, 0x008F, 0x0090, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
        0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x009D, 0x017E, 0x0178};
    for (size_t i = 0; i < n; i++)
        out[i] = bytes[i] >= 0x80 && bytes[i] < 0xA0 ? upper[bytes[i] - 0x80] : bytes[i];
    return n;
}

static int read_state(JSContext *ctx, JSValueConst list, abx_utf8_decoder *d)
{
    uint32_t state[5];
    for (uint32_t i = 0; i < ABX_COUNT(state); i++) {
        JSValue v = JS_GetPropertyUint32(ctx, list, i);
        int rc = JS_ToUint32(ctx, &state[i], v);
        JS_FreeValue(ctx, v);
        if (rc < 0)
            return -1;
    }
    *d = (abx_utf8_decoder){.point = state[0],
                            .needed = (uint8_t)(state[1] & 3),
                            .seen = (uint8_t)(state[2] & 3),
                            .lower = (uint8_t)state[3],
                            .upper = (uint8_t)state[4]};
    return 0;
}

static bool is_ascii(const uint8_t *bytes, size_t n)
{
    size_t i = 0;
    for (uint64_t word; i + 8 <= n; i += 8) {
        memcpy(&word, bytes + i, 8);
        if (word & 0x8080808080808080u)
            return false;
    }
    for (; i < n; i++)
        if (bytes[i] & 0x80)
            return false;
    return true;
}

/* decode(bytes, state, last, kind): state: an array of five numbers, changed; state[5] = whether something was wrong */
static JSValue native_decode(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const uint8_t *bytes;
    abx_utf8_decoder d;
    int32_t kind = 0;
    size_t n;
    (void)self;
    (void)argc;
    if (JS_ToInt32(ctx, &kind, argv[3]) < 0 || read_state(ctx, argv[1], &d) < 0)
        return JS_EXCEPTION;
    bool last = JS_ToBool(ctx, argv[2]) == 1;
    if (abx_js_bytes(ctx, argv[0], &bytes, &n) < 0)
        return JS_EXCEPTION;
    if ((kind == KIND_UTF8 && !d.needed && is_ascii(bytes, n))) {
        JS_SetPropertyUint32(ctx, argv[1], 5, JS_FALSE);
        return JS_NewStringLen(ctx, (const char *)bytes, n);
    }
    uint16_t *units = js_malloc(ctx, (n + 2) * sizeof(*units));
    if (!units)
        return JS_EXCEPTION;
    size_t len = kind == KIND_UTF8 ? abx_utf8_decode(&d, bytes, n, last, units)
                 : kind == KIND_1252
                     ? decode_1252(bytes, n, units)
                     : decode_utf16(&d, bytes, n, kind == KIND_UTF16BE, last, units);
    JSValue text = JS_NewStringUTF16(ctx, units, len);
    js_free(ctx, units);
    const uint32_t after[] = {d.point, d.needed, d.seen, d.lower, d.upper, d.wrong};
    for (uint32_t i = 0; i < ABX_COUNT(after); i++)
        JS_SetPropertyUint32(ctx, argv[1], i, JS_NewUint32(ctx, after[i]));
    return text;
}

/* latin1(bytes): a string with a unit for each byte */
static JSValue native_latin1(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const uint8_t *bytes;
    size_t n;
    (void)self;
    (void)argc;
    if (abx_js_bytes(ctx, argv[0], &bytes, &n) < 0)
        return JS_EXCEPTION;
    return abx_js_latin1(ctx, bytes, n);
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
    JS_CFUNC_DEF("encode", 1, native_encode), JS_CFUNC_DEF("encodeInto", 2, native_encode_into),
    JS_CFUNC_DEF("decode", 4, native_decode), JS_CFUNC_DEF("latin1", 1, native_latin1),
    JS_CFUNC_DEF("random", 1, native_random),
};

void abx__js_natives_bytes(abx_js *js, JSValueConst internal);
void abx__js_natives_bytes(abx_js *js, JSValueConst internal)
{
    JS_SetPropertyFunctionList(js->ctx, internal, functions, (int)ABX_COUNT(functions));
}
