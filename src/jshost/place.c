/* internal.place(text, base): an http address, resolved: {href, origin, credentials}. */
#include <curl/curl.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "jshost/turn.h"

static char *part(CURLU *u, CURLUPart what, unsigned flags)
{
    char *text = NULL, *out = NULL;
    if (curl_url_get(u, what, &text, flags) == CURLUE_OK)
        out = abx_strdup(text);
    curl_free(text);
    return out;
}

static JSValue describe(JSContext *ctx, CURLU *u)
{
    ABX_AUTO_FREE char *scheme = part(u, CURLUPART_SCHEME, 0);
    ABX_AUTO_FREE char *host = part(u, CURLUPART_HOST, 0);
    ABX_AUTO_FREE char *port = part(u, CURLUPART_PORT, CURLU_DEFAULT_PORT);
    ABX_AUTO_FREE char *user = part(u, CURLUPART_USER, 0);
    ABX_AUTO_FREE char *password = part(u, CURLUPART_PASSWORD, 0);
    curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0);
    ABX_AUTO_FREE char *href = part(u, CURLUPART_URL, CURLU_NO_DEFAULT_PORT);
    if (!scheme || !host || !port || !href)
        return JS_ThrowTypeError(ctx, "it has no host");
    if (strcasecmp(scheme, "http") != 0 && strcasecmp(scheme, "https") != 0)
        return JS_ThrowTypeError(ctx, "'%.40s' is neither http nor https", scheme);
    ABX_AUTO_FREE char *origin = abx_format("%s://%s:%s", scheme, host, port);
    JSValue o = JS_NewObject(ctx);
    JS_SetPropertyStr(ctx, o, "href", abx_js_string(ctx, href, strlen(href)));
    JS_SetPropertyStr(ctx, o, "origin", abx_js_string(ctx, origin, strlen(origin)));
    JS_SetPropertyStr(ctx, o, "credentials", JS_NewBool(ctx, user || password));
    return o;
}

static JSValue native_place(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)self;
    (void)argc;
    ABX_AUTO_FREE char *base = JS_IsUndefined(argv[1]) ? abx_strdup("") : abx_js_text(ctx, argv[1]);
    ABX_AUTO_FREE char *text = base ? abx_js_text(ctx, argv[0]) : NULL;
    if (!text)
        return JS_EXCEPTION;
    CURLU *u = curl_url();
    ABX_CHECK(u);
    const unsigned flags = CURLU_URLENCODE | CURLU_ALLOW_SPACE | CURLU_NON_SUPPORT_SCHEME;
    CURLUcode rc = *base ? curl_url_set(u, CURLUPART_URL, base, flags) : CURLUE_OK;
    if (rc == CURLUE_OK)
        rc = curl_url_set(u, CURLUPART_URL, text, flags);
    JSValue v = rc == CURLUE_OK ? describe(ctx, u)
                                : JS_ThrowTypeError(ctx, "it is no URL: %s", curl_url_strerror(rc));
    curl_url_cleanup(u);
    return v;
}

void abx__js_natives_place(abx_js *js, JSValueConst internal);
void abx__js_natives_place(abx_js *js, JSValueConst internal)
{
    JS_SetPropertyStr(js->ctx, internal, "place",
                      JS_NewCFunction(js->ctx, native_place, "place", 2));
}
