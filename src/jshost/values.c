/* Values from and to the engine: text and JSON. */
#include <string.h>

#include "base/mem.h"
#include "jshost/js.h"
#include "jshost/utf8.h"

char *abx_js_text(JSContext *ctx, JSValueConst v)
{
    size_t n;
    const char *text = JS_ToCStringLen(ctx, &n, v);
    if (!text)
        return NULL;
    char *out = abx_strndup(text, n);
    JS_FreeCString(ctx, text);
    abx_utf8_repair(out, strlen(out));
    return out;
}

JSValue abx_js_string(JSContext *ctx, const void *bytes, size_t n)
{
    abx_utf8_decoder d = {0};
    uint16_t *units = js_malloc(ctx, (n + 1) * sizeof(*units));
    if (!units)
        return JS_EXCEPTION;
    size_t len = abx_utf8_decode(&d, bytes, n, true, units);
    JSValue v = JS_NewStringUTF16(ctx, units, len);
    js_free(ctx, units);
    return v;
}

JSValue abx_js_latin1(JSContext *ctx, const uint8_t *bytes, size_t n)
{
    uint16_t *units = js_malloc(ctx, (n + 1) * sizeof(*units));
    if (!units)
        return JS_EXCEPTION;
    for (size_t i = 0; i < n; i++)
        units[i] = bytes[i];
    JSValue v = JS_NewStringUTF16(ctx, units, n);
    js_free(ctx, units);
    return v;
}

JSValue abx_js_from_json(JSContext *ctx, yyjson_val *v)
{
    ABX_AUTO_FREE char *text = abx_json_text(v);
    return JS_ParseJSON(ctx, text, strlen(text), "<json>");
}

yyjson_doc *abx_js_to_json(JSContext *ctx, JSValueConst v)
{
    if (JS_IsUndefined(v) || JS_IsNull(v))
        return abx_json_copy(NULL);
    JSValue s = JS_JSONStringify(ctx, v, JS_UNDEFINED, JS_UNDEFINED);
    if (JS_IsException(s))
        return NULL;
    size_t n;
    const char *text = JS_ToCStringLen(ctx, &n, s);
    JS_FreeValue(ctx, s);
    if (!text)
        return NULL;
    ABX_AUTO_ERROR why = NULL;
    yyjson_doc *d = abx_json_parse(text, n, ABX_ERR_PROVIDER_PROTOCOL, "the result", &why);
    JS_FreeCString(ctx, text);
    if (!d)
        JS_ThrowTypeError(ctx, "%s", why->message);
    else if (!yyjson_is_obj(yyjson_doc_get_root(d)) && !yyjson_is_arr(yyjson_doc_get_root(d))) {
        yyjson_doc_free(d);
        d = NULL;
        JS_ThrowTypeError(ctx, "an object is expected");
    }
    return d;
}
