/* internal.e2bService({provider, apiUrl, domain, apiKey, template, user, metadata, callTimeoutMs, dialect}) → Service: run(method, params, call),
 * and internal.e2bFeatures(declared): the states of features at such a service. */
#include "jshost/kit.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

typedef struct js_service {
    abx_e2b_service *service;
    abx_e2b_dialect dialect;
    const char *routes[ABX_OP_COUNT];
    yyjson_doc *words; /* that the dialect points into */
} js_service;

static void free_service(void *data)
{
    js_service *s = data;
    yyjson_doc_free(s->words);
    free(s);
}

static void service_finalize(JSRuntime *rt, JSValueConst v)
{
    const abx_js *js = JS_GetRuntimeOpaque(rt);
    js_service *s = JS_GetOpaque(v, js->net->service_class);
    if (s)
        abx_e2b_service_close(s->service, free_service, s);
}

/* They become heads of requests. */
static bool is_one_line(yyjson_val *v)
{
    yyjson_val *key, *member;
    size_t i, n;
    if (yyjson_is_str(v)) {
        const char *text = yyjson_get_str(v);
        return strlen(text) == yyjson_get_len(v) && !strpbrk(text, "\r\n");
    }
    if (yyjson_is_obj(v))
        yyjson_obj_foreach(v, i, n, key, member) if (!is_one_line(member)) return false;
    if (yyjson_is_arr(v))
        yyjson_arr_foreach(v, i, n, member) if (!is_one_line(member)) return false;
    return true;
}

/* The whole of a dialect: here no text holds an option's name. */
static void take_dialect(js_service *s, yyjson_val *root)
{
    static const abx_e2b_way all[] = {ABX_E2B_CONNECT_V2, ABX_E2B_CONNECT_V1, ABX_E2B_RESUME};
    yyjson_val *words = abx_json_get(root, "dialect");
    abx_e2b_dialect *d = &s->dialect;
    d->name = abx_json_str(root, "provider", "e2b");
    abx_e2b_dialect_take(d, words, s->routes);
    if (!d->connect[0])
        memcpy(d->connect, all, sizeof all);
    d->data_url = abx_json_str(words, "dataPlaneUrl", NULL);
    d->connect_to = abx_json_str(words, "connectTo", NULL);
    d->default_user = abx_json_str(words, "defaultUser", NULL);
    d->default_template = abx_json_str(words, "defaultTemplate", NULL);
    if (abx_str_eq(d->default_template, "none"))
        d->default_template = "";
    d->auth_header = abx_json_str(root, "authHeader", NULL);
    d->auth_scheme = abx_json_str(root, "authScheme", NULL);
    d->key_optional = !abx_json_str(root, "apiKey", NULL);
}

static int open_service(abx_js *js, js_service *s, abx_error **err)
{
    yyjson_val *root = yyjson_doc_get_root(s->words);
    int64_t timeout_ms = abx_json_int(root, "callTimeoutMs", 0);
    take_dialect(s, root);
    const abx_e2b_service_options options = {
        .loop = js->loop,
        .provider = js->id,
        .dialect = &s->dialect,
        .api_url = abx_json_str(root, "apiUrl", NULL),
        .domain = abx_json_str(root, "domain", NULL),
        .api_key = abx_json_str(root, "apiKey", NULL),
        .template_name = abx_json_str(root, "template", NULL),
        .user = abx_json_str(root, "user", NULL),
        .metadata = abx_json_get(root, "metadata"),
        .call_timeout_ms = timeout_ms > 0 ? (uint64_t)timeout_ms : 0,
    };
    if (!is_one_line(root))
        return abx_fail(err, ABX_ERR_PROVIDER_CONFIG,
                        "what describes the service holds a line break");
    return abx_e2b_service_open(&options, &s->service, err);
}

static JSValue native_service(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    abx_js *js = abx_js_of(ctx);
    ABX_AUTO_ERROR err = NULL;
    (void)self;
    (void)argc;
    yyjson_doc *words = abx_js_to_json(ctx, argv[0]);
    if (!words)
        return JS_EXCEPTION;
    JSValue object = JS_NewObjectClass(ctx, js->net->service_class);
    js_service *s = ABX_NEW(js_service);
    s->words = words;
    if (JS_IsException(object) || open_service(js, s, &err) < 0) {
        free_service(s);
        JS_FreeValue(ctx, object);
        return err ? JS_Throw(ctx, abx__js_kit_error(ctx, err)) : JS_EXCEPTION;
    }
    JS_SetOpaque(object, s);
    return object;
}

static JSValue service_run(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const js_service *s = JS_GetOpaque2(ctx, self, abx_js_of(ctx)->net->service_class);
    (void)argc;
    return s ? abx__js_run_start(ctx, self, s->service, argv) : JS_EXCEPTION;
}

/* direct(method): the host's calls of it go to this service, past JavaScript */
static JSValue service_direct(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    abx_js *js = abx_js_of(ctx);
    const js_service *s = JS_GetOpaque2(ctx, self, js->net->service_class);
    ABX_AUTO_FREE char *method = s ? abx_js_text(ctx, argv[0]) : NULL;
    const abx_op_row *row = method ? abx_op_find(method) : NULL;
    (void)argc;
    if (!method)
        return JS_EXCEPTION;
    if (row)
        abx__js_run_direct(js, row, self, s->service);
    return JS_UNDEFINED;
}

static JSValue native_features(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    ABX_AUTO_JSON declared = abx_js_to_json(ctx, argv[0]);
    (void)self;
    (void)argc;
    if (!declared)
        return JS_EXCEPTION;
    ABX_AUTO_JSON map = abx_e2b_service_features(yyjson_doc_get_root(declared));
    return abx_js_from_json(ctx, yyjson_doc_get_root(map));
}

/* e2bHas(method) */
static JSValue native_has(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    ABX_AUTO_FREE char *method = abx_js_text(ctx, argv[0]);
    const abx_op_row *row = method ? abx_op_find(method) : NULL;
    (void)self;
    (void)argc;
    return method ? JS_NewBool(ctx, row && abx_e2b_service_has(row->id)) : JS_EXCEPTION;
}

void abx__js_natives_kit(abx_js *js, JSValueConst internal);
void abx__js_natives_kit(abx_js *js, JSValueConst internal)
{
    static const JSClassDef class = {"Service", .finalizer = service_finalize};
    static const JSCFunctionListEntry methods[] = {JS_CFUNC_DEF("run", 3, service_run),
                                                   JS_CFUNC_DEF("direct", 1, service_direct)};
    static const JSCFunctionListEntry functions[] = {
        JS_CFUNC_DEF("e2bService", 1, native_service),
        JS_CFUNC_DEF("e2bFeatures", 1, native_features),
        JS_CFUNC_DEF("e2bHas", 1, native_has),
    };
    abx_js_net *net = abx__js_net(js);
    JS_NewClassID(js->rt, &net->service_class);
    ABX_CHECK(JS_NewClass(js->rt, net->service_class, &class) == 0);
    JSValue proto = JS_NewObject(js->ctx);
    JS_SetPropertyFunctionList(js->ctx, proto, methods, (int)ABX_COUNT(methods));
    JS_SetClassProto(js->ctx, net->service_class, proto);
    JS_SetPropertyFunctionList(js->ctx, internal, functions, (int)ABX_COUNT(functions));
    abx__js_run_init(js);
}
