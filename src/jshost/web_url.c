/* URLs for js/url.js, by ada; and lists of names and values as forms write them. */
#include <ada_c.h>
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "jshost/js.h"
#include "jshost/utf8.h"

static JSClassID url_class;

/* Text of a value as UTF-8, U+FFFD for lone surrogates; may hold 0 bytes. Freed by js_free; NULL with an exception pending. */
static char *utf8_of(JSContext *ctx, JSValueConst v, size_t *n)
{
    const char *text = JS_ToCStringLen(ctx, n, v);
    if (!text)
        return NULL;
    char *out = js_malloc(ctx, *n + 1);
    if (out) {
        memcpy(out, text, *n + 1);
        abx_utf8_repair(out, *n);
    }
    JS_FreeCString(ctx, text);
    return out;
}

static JSValue string_of(JSContext *ctx, ada_string s)
{
    return JS_NewStringLen(ctx, s.data ? s.data : "", s.length);
}

/* --- URL ------------------------------------------------------------------------------------------------ */

static void finalize_url(JSRuntime *rt, JSValueConst v)
{
    ada_url url = JS_GetOpaque(v, url_class);
    (void)rt;
    if (url)
        ada_free(url);
}

static const JSClassDef url_def = {"URLRecord", .finalizer = finalize_url};

/* What ada computes before main, in the released program only: most runs of it have no URL (cmake/lazy/tables.ld). */
typedef void computation(void);
extern computation *const abx__ada_begin[] __attribute__((weak, visibility("hidden")));
extern computation *const abx__ada_end[] __attribute__((weak, visibility("hidden")));
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void compute(void)
{
    for (computation *const *f = abx__ada_begin; f < abx__ada_end; f++)
        (*f)();
}

static ada_url parse(JSContext *ctx, JSValueConst text, JSValueConst base)
{
    size_t n, base_n = 0;
    char *input = utf8_of(ctx, text, &n), *under = NULL;
    if (!input)
        return NULL;
    if (!JS_IsUndefined(base) && !(under = utf8_of(ctx, base, &base_n))) {
        js_free(ctx, input);
        return NULL;
    }
    (void)pthread_once(&once, compute);
    ada_url url = under ? ada_parse_with_base(input, n, under, base_n) : ada_parse(input, n);
    js_free(ctx, input);
    js_free(ctx, under);
    if (url && !ada_is_valid(url)) {
        ada_free(url);
        url = NULL;
    }
    return url;
}

/* urlParse(text, base): a record, or undefined: it is no URL */
static JSValue native_url_parse(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)self;
    (void)argc;
    ada_url url = parse(ctx, argv[0], argv[1]);
    if (!url)
        return JS_HasException(ctx) ? JS_EXCEPTION : JS_UNDEFINED;
    JSValue v = JS_NewObjectClass(ctx, url_class);
    if (JS_IsException(v))
        ada_free(url);
    else
        JS_SetOpaque(v, url);
    return v;
}

/* The same numbers in js/url.js. */
enum { HREF, ORIGIN, PROTOCOL, USERNAME, PASSWORD, HOST, HOSTNAME, PORT, PATHNAME, SEARCH, HASH };

static JSValue origin_of(JSContext *ctx, ada_url url)
{
    ada_owned_string s = ada_get_origin(url);
    JSValue v = JS_NewStringLen(ctx, s.data ? s.data : "", s.length);
    ada_free_owned_string(s);
    return v;
}

/* urlGet(record, part) */
static JSValue native_url_get(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    static ada_string (*const get[])(ada_url) = {
        ada_get_href,     NULL,           ada_get_protocol, ada_get_username,
        ada_get_password, ada_get_host,   ada_get_hostname, ada_get_port,
        ada_get_pathname, ada_get_search, ada_get_hash};
    int32_t part = 0;
    (void)self;
    (void)argc;
    ada_url url = JS_GetOpaque2(ctx, argv[0], url_class);
    if (!url || JS_ToInt32(ctx, &part, argv[1]) < 0)
        return JS_EXCEPTION;
    if (part < 0 || (size_t)part >= ABX_COUNT(get))
        return JS_UNDEFINED;
    return get[part] ? string_of(ctx, get[part](url)) : origin_of(ctx, url);
}

static bool set_search(ada_url url, const char *text, size_t n)
{
    ada_set_search(url, text, n);
    return true;
}

static bool set_hash(ada_url url, const char *text, size_t n)
{
    ada_set_hash(url, text, n);
    return true;
}

/* urlSet(record, part, text): whether it could be set */
static JSValue native_url_set(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    static bool (*const set[])(ada_url, const char *, size_t) = {
        ada_set_href,     NULL,         ada_set_protocol, ada_set_username,
        ada_set_password, ada_set_host, ada_set_hostname, ada_set_port,
        ada_set_pathname, set_search,   set_hash};
    int32_t part = 0;
    size_t n;
    (void)self;
    (void)argc;
    if (JS_ToInt32(ctx, &part, argv[1]) < 0)
        return JS_EXCEPTION;
    char *text = utf8_of(ctx, argv[2], &n);
    ada_url url = text ? JS_GetOpaque2(ctx, argv[0], url_class) : NULL;
    bool done =
        url && part >= 0 && (size_t)part < ABX_COUNT(set) && set[part] && set[part](url, text, n);
    js_free(ctx, text);
    return url ? JS_NewBool(ctx, done) : JS_EXCEPTION;
}

/* --- forms: application/x-www-form-urlencoded -------------------------------------------------------------- */

static int hex_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* In place; the new length. */
static size_t unescape(char *s, size_t n)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '%' && i + 2 < n && hex_of(s[i + 1]) >= 0 && hex_of(s[i + 2]) >= 0) {
            s[len++] = (char)(hex_of(s[i + 1]) << 4 | hex_of(s[i + 2]));
            i += 2;
        } else {
            s[len++] = s[i] == '+' ? ' ' : s[i];
        }
    }
    return len;
}

static int add_text(JSContext *ctx, JSValueConst list, uint32_t *count, char *s, size_t n)
{
    JSValue text = abx_js_string(ctx, s, unescape(s, n));
    return JS_IsException(text)
               ? -1
               : JS_DefinePropertyValueUint32(ctx, list, (*count)++, text, JS_PROP_C_W_E);
}

/* formParse(text): [name, value, name, value …] */
static JSValue native_form_parse(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t n;
    uint32_t count = 0;
    (void)self;
    (void)argc;
    char *text = utf8_of(ctx, argv[0], &n);
    if (!text)
        return JS_EXCEPTION;
    JSValue list = JS_NewArray(ctx);
    int rc = JS_IsException(list) ? -1 : 0;
    for (char *at = text, *end = text + n; at < end && rc >= 0;) {
        char *stop = memchr(at, '&', (size_t)(end - at));
        stop = stop ? stop : end;
        char *equals = memchr(at, '=', (size_t)(stop - at));
        char *name_end = equals ? equals : stop, *value = equals ? equals + 1 : stop;
        if (stop > at && ((rc = add_text(ctx, list, &count, at, (size_t)(name_end - at))) >= 0))
            rc = add_text(ctx, list, &count, value, (size_t)(stop - value));
        at = stop + 1;
    }
    js_free(ctx, text);
    if (rc < 0) {
        JS_FreeValue(ctx, list);
        return JS_EXCEPTION;
    }
    return list;
}

/* formEscape(text): as a name or a value */
static JSValue native_form_escape(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n, len = 0;
    (void)self;
    (void)argc;
    char *text = utf8_of(ctx, argv[0], &n);
    char *out = text ? js_malloc(ctx, n * 3 + 1) : NULL;
    for (size_t i = 0; out && i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                     c == '*' || c == '-' || c == '.' || c == '_';
        if (plain || c == ' ') {
            out[len++] = c == ' ' ? '+' : (char)c;
        } else {
            out[len++] = '%';
            out[len++] = digits[c >> 4];
            out[len++] = digits[c & 15];
        }
    }
    JSValue v = out ? JS_NewStringLen(ctx, out, len) : JS_EXCEPTION;
    js_free(ctx, text);
    js_free(ctx, out);
    return v;
}

static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_DEF("urlParse", 2, native_url_parse),
    JS_CFUNC_DEF("urlGet", 2, native_url_get),
    JS_CFUNC_DEF("urlSet", 3, native_url_set),
    JS_CFUNC_DEF("formParse", 1, native_form_parse),
    JS_CFUNC_DEF("formEscape", 1, native_form_escape),
};

void abx__js_natives_url(abx_js *js, JSValueConst internal);
void abx__js_natives_url(abx_js *js, JSValueConst internal)
{
    url_class = 0; /* of this runtime */
    JS_NewClassID(js->rt, &url_class);
    JS_NewClass(js->rt, url_class, &url_def);
    JS_SetPropertyFunctionList(js->ctx, internal, functions, (int)ABX_COUNT(functions));
}
