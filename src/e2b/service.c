#include "e2b/service.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "e2b/service_inner.h"

const abx_e2b_dialect abx_e2b_plain = {.name = "e2b"};

/* --- which operations there are ----------------------------------------------------------------------------- */
typedef int (*control_op)(abx_e2b_service *s, abx_call *call, abx_error **err);

static control_op control_of(abx_op_id op)
{
    switch (op) {
    case ABX_OP_SANDBOX_CREATE: return abx__svc_create;
    case ABX_OP_SANDBOX_INFO: return abx__svc_info;
    case ABX_OP_SANDBOX_KILL: return abx__svc_kill;
    case ABX_OP_SANDBOX_CONNECT: return abx__svc_connect;
    case ABX_OP_SANDBOX_LIST: return abx__svc_list;
    case ABX_OP_SANDBOX_SET_TIMEOUT: return abx__svc_set_timeout;
    case ABX_OP_SANDBOX_PAUSE: return abx__svc_pause;
    case ABX_OP_SANDBOX_HOST: return abx__svc_host;
    case ABX_OP_SANDBOX_METRICS: return abx__svc_metrics;
    case ABX_OP_SANDBOX_LOGS: return abx__svc_logs;
    case ABX_OP_SANDBOX_SET_NETWORK: return abx__svc_set_network;
    case ABX_OP_SANDBOX_SNAPSHOT_CREATE: return abx__svc_snapshot_create;
    case ABX_OP_SANDBOX_SNAPSHOT_LIST: return abx__svc_snapshot_list;
    case ABX_OP_SANDBOX_SNAPSHOT_REMOVE: return abx__svc_snapshot_remove;
    case ABX_OP_SANDBOX_FORK: return abx__svc_fork;
    case ABX_OP_SANDBOX_TEMPLATE_LIST: return abx__svc_template_list;
    case ABX_OP_SANDBOX_TEMPLATE_INFO: return abx__svc_template_info;
    case ABX_OP_SANDBOX_TEMPLATE_REMOVE: return abx__svc_template_remove;
    default: return NULL;
    }
}

static bool is_inside(abx_op_id op)
{
    if (op == ABX_OP_CODE_INTERRUPT) /* the servers of strangers have no word for it */
        return false;
    if (op == ABX_OP_PROCESS_ATTACH) /* what comes from now on; what has been is not kept */
        return true;
    abx_feature feature = abx_op_row_of(op)->feature;
    return feature == ABX_FEATURE_PROCESS || feature == ABX_FEATURE_PROCESS_STDIN ||
           feature == ABX_FEATURE_FILESYSTEM || feature == ABX_FEATURE_FILESYSTEM_WATCH ||
           feature == ABX_FEATURE_PTY || feature == ABX_FEATURE_CODE ||
           feature == ABX_FEATURE_CODE_CONTEXTS;
}

bool abx_e2b_service_has(abx_op_id op)
{
    return control_of(op) || is_inside(op);
}

static bool feature_has_any(abx_feature feature)
{
    if (feature == ABX_FEATURE_PROCESS_REPLAY)
        return false;
    for (int op = 0; op < ABX_OP_COUNT; op++)
        if (abx_op_row_of((abx_op_id)op)->feature == feature && abx_e2b_service_has((abx_op_id)op))
            return true;
    return false;
}

static bool is_native(yyjson_mut_val *map, const char *name)
{
    return abx_str_eq(yyjson_mut_get_str(yyjson_mut_obj_get(map, name)), "native");
}

/* Take out what no service has: a feature of which nothing is there, or one operation. */
static void without(yyjson_mut_doc *d, yyjson_mut_val *map, const abx_op_row *row)
{
    const char *feature = abx_feature_name(row->feature);
    if (!feature_has_any(row->feature) && yyjson_mut_obj_get(map, feature)) {
        yyjson_mut_obj_remove_key(map, feature);
        abx_mut_str(d, map, feature, "unsupported");
    }
    if (abx_e2b_service_has(row->id))
        return;
    bool own = yyjson_mut_obj_get(map, row->method) != NULL;
    yyjson_mut_obj_remove_key(map, row->method);
    if (own || is_native(map, feature))
        abx_mut_str(d, map, row->method, "unsupported");
}

yyjson_doc *abx_e2b_service_features(yyjson_val *declared)
{
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *map = declared ? yyjson_val_mut_copy(d, declared) : yyjson_mut_obj(d);
    yyjson_mut_doc_set_root(d, map);
    for (int i = 0; i < ABX_OP_COUNT; i++)
        without(d, map, abx_op_row_of((abx_op_id)i));
    const char *range = abx_feature_name(ABX_FEATURE_FILESYSTEM_RANGE);
    if (is_native(map, abx_feature_name(ABX_FEATURE_FILESYSTEM)) || is_native(map, "fs.read")) {
        yyjson_mut_obj_remove_key(map, range); /* the client knows parts, and servers without */
        abx_mut_str(d, map, range, "native");
    }
    const char *attach = abx_op_row_of(ABX_OP_PROCESS_ATTACH)->method;
    if (is_native(map, abx_feature_name(ABX_FEATURE_PROCESS)) && !yyjson_mut_obj_get(map, attach))
        abx_mut_str(d, map, attach, "native");
    const char *signal =
        abx_op_row_of(ABX_OP_PROCESS_SIGNAL)->method; /* but KILL and TERM by a command */
    if (is_native(map, abx_feature_name(ABX_FEATURE_PROCESS)) && !yyjson_mut_obj_get(map, signal))
        abx_mut_str(d, map, signal, "emulated");
    return abx_json_freeze(d);
}

int abx_e2b_service_start(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    const abx_op_row *row = abx_call_op(call);
    control_op op = control_of(row->id);
    if (s->closing)
        return abx_fail(err, ABX_ERR_CANCELLED, "the provider was closed");
    if (op)
        return op(s, call, err);
    if (is_inside(row->id))
        return abx__svc_box_start(s, call, err);
    return abx_fail(err, ABX_ERR_FEATURE_MISSING, "provider '%s' has no '%s'", s->provider,
                    row->method);
}

/* --- opening ------------------------------------------------------------------------------------------------- */
char *abx_e2b_domain_of(const char *url)
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    if (abx_has_prefix(host, "api."))
        host += 4;
    return abx_strndup(host, strcspn(host, "/?#"));
}

static int check_options(const abx_e2b_service_options *o, abx_error **err)
{
    const char *url = o->api_url ? o->api_url : "";
    if (!abx_has_prefix(url, "https://") && !abx_has_prefix(url, "http://"))
        return abx_fail(err, ABX_ERR_PROVIDER_CONFIG,
                        *url ? "provider '%s': its address '%s' does not begin with https:// or "
                               "http://"
                             : "provider '%s' has no address%s",
                        o->provider, url);
    if (o->domain && *o->domain && !abx__svc_is_domain(o->domain)) {
        ABX_AUTO_FREE char *shown = abx_printable(o->domain);
        return abx_fail(err, ABX_ERR_PROVIDER_CONFIG,
                        "provider '%s': its domain '%s' is no name of a host", o->provider, shown);
    }
    if (abx_has_control(url))
        return abx_fail(err, ABX_ERR_PROVIDER_CONFIG,
                        "provider '%s': its address has control characters", o->provider);
    if (abx_has_control(o->api_key))
        return abx_fail(err, ABX_ERR_API_KEY, "provider '%s': its key has control characters",
                        o->provider);
    if (!(o->api_key && *o->api_key) && !o->dialect->key_optional)
        return abx_fail(err, ABX_ERR_API_KEY, "no key for provider '%s'", o->provider);
    return 0;
}

static char *auth_line(const abx_e2b_dialect *d, const char *key)
{
    if (!key || !*key)
        return NULL;
    return abx_format("%s: %s%s%s", d->auth_header ? d->auth_header : "X-API-Key",
                      d->auth_scheme ? d->auth_scheme : "", d->auth_scheme ? " " : "", key);
}

int abx_e2b_service_open(const abx_e2b_service_options *o, abx_e2b_service **out, abx_error **err)
{
    if (check_options(o, err) < 0)
        return -1;
    abx_e2b_service *s = ABX_NEW(abx_e2b_service);
    const abx_e2b_dialect *d = s->dialect = o->dialect;
    size_t n = strlen(o->api_url);
    while (n > 0 && o->api_url[n - 1] == '/')
        n--;
    s->loop = o->loop;
    s->provider = abx_strdup(o->provider);
    s->api_url = abx_strndup(o->api_url, n);
    s->domain = o->domain && *o->domain ? abx_strdup(o->domain) : abx_e2b_domain_of(s->api_url);
    const char *template_name = o->template_name ? o->template_name : d->default_template;
    s->template_name = abx_strdup(template_name ? template_name : "base");
    s->user = abx_strdup(o->user ? o->user : d->default_user);
    s->auth = auth_line(d, o->api_key);
    s->key = o->api_key && *o->api_key ? abx_strdup(o->api_key) : NULL;
    s->call_timeout_ms = o->call_timeout_ms;
    s->create_v1 = d->v1_first;
    s->metadata = o->metadata ? abx_json_copy(o->metadata) : NULL;
    s->explain = o->explain;
    s->explain_data = o->explain_data;
    s->log = o->log;
    s->open = 1;
    *out = s;
    return 0;
}

uint64_t abx__svc_timeout(const abx_e2b_service *s, bool makes)
{
    if (s->call_timeout_ms)
        return s->call_timeout_ms;
    return makes ? ABX__SVC_MAKE_MS : ABX__SVC_REQUEST_MS;
}

/* --- closing --------------------------------------------------------------------------------------------------- */
void abx__svc_hold(abx_e2b_service *s)
{
    s->open++;
}

static void service_free(abx_e2b_service *s)
{
    free(s->provider);
    free(s->api_url);
    free(s->domain);
    free(s->template_name);
    free(s->user);
    if (s->auth)
        explicit_bzero(s->auth, strlen(s->auth));
    if (s->key)
        explicit_bzero(s->key, strlen(s->key));
    free(s->auth);
    free(s->key);
    yyjson_doc_free(s->metadata);
    free(s);
}

static void on_http_closed(void *data)
{
    abx__svc_drop(data);
}

void abx__svc_drop(abx_e2b_service *s)
{
    if (--s->open > 0)
        return;
    void (*cb)(void *) = s->close_cb;
    void *data = s->close_data;
    service_free(s);
    if (cb)
        cb(data);
}

void abx_e2b_service_close(abx_e2b_service *s, void (*cb)(void *data), void *data)
{
    ABX_CHECK(!s->closing);
    s->closing = true;
    s->close_cb = cb;
    s->close_data = data;
    abx__svc_jobs_close(s);
    while (s->boxes)
        abx__svc_box_forget(s->boxes, false);
    while (s->questions)
        abx__ctl_cancel(s->questions);
    if (s->http) {
        abx__svc_hold(s);
        abx_http_close(s->http, on_http_closed, s);
    }
    abx__svc_drop(s);
}
