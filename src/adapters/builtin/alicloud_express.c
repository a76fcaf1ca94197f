/* The default provider, over src/e2b/service.h. docs/providers/alicloud-express.md describes it for people. */
#include "adapters/builtin/alicloud_express.h"

#include <string.h>

#include "adapters/builtin/builtin.h"
#include "adapters/over_service.h"
#include "base/mem.h"
#include "base/text.h"

typedef struct express_provider {
    abx_over_service over; /* first */
    abx_e2b_dialect dialect;
    express_place place;
    char *key;
    yyjson_doc *metadata;
} express_provider;

/* The old routes are there, the new ones are not; both are tried. */
const abx_e2b_dialect express_dialect = {
    .name = EXPRESS_ID,
    .v1_first = true,
    .connect = {ABX_E2B_CONNECT_V1, ABX_E2B_CONNECT_V2, ABX_E2B_RESUME},
    .default_template = "code-interpreter-v1",
    .no_auto_pause = true,
    .json_only = true,
    .camel_network = true,
    .upload = ABX_ENVD_UPLOAD_FORM,
    .ready_late = true,
};

/* --- what it can do ------------------------------------------------------------------------------------- */
/* Whether a plan or an account has pause and snapshots shows in the answer only. Snapshots are removed in a way of the service's
 * own, logs are always empty, a fork is not there. */
static yyjson_doc *declared(void)
{
    static const char *const native[] = {
        "sandbox",  "connect", "list",          "timeout",
        "pause",    "metrics", "ports",         "network",
        "process",  "pty",     "process.stdin", "filesystem",
        "snapshot", "code",    "code.contexts", "filesystem.watch"};
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    for (int f = 0; f < ABX_FEATURE_COUNT; f++) {
        const char *name = abx_feature_name((abx_feature)f);
        bool has = false;
        for (size_t i = 0; i < ABX_COUNT(native); i++)
            has = has || strcmp(native[i], name) == 0;
        abx_mut_str(d, root, name, has ? "native" : "unsupported");
    }
    abx_mut_str(d, root, "sandbox.snapshot_remove", "unsupported");
    ABX_AUTO_JSON all = abx_json_freeze(d);
    return abx_e2b_service_features(yyjson_doc_get_root(all));
}

/* --- opening -------------------------------------------------------------------------------------------- */
static express_wish wish_of(const abx_connection *c)
{
    return (express_wish){.region = abx_json_str(c->options, "region", NULL),
                          .family = abx_json_str(c->options, "family", NULL),
                          .api_url = c->api_url,
                          .domain = c->domain};
}

static char *endpoint(const abx_connection *c)
{
    express_wish wish = wish_of(c);
    express_place place;
    if (express_place_init(&place, &wish, NULL) < 0)
        return NULL;
    char *url = ABX_TAKE(place.api_url);
    express_place_clear(&place);
    return url;
}

static void explain(void *data, abx_op_id op, abx_error *err)
{
    const express_provider *p = data;
    express_explain(&p->place, p->key, op, err);
}

static void free_provider(abx_over_service *over)
{
    express_provider *p = (express_provider *)over;
    if (p->key)
        explicit_bzero(p->key, strlen(p->key));
    free(p->key);
    express_place_clear(&p->place);
    yyjson_doc_free(p->metadata);
    abx_over_service_clear(over);
    free(p);
}

static int open_service(express_provider *p, const abx_connection *c, abx_error **err)
{
    express_wish wish = wish_of(c);
    if (express_place_init(&p->place, &wish, err) < 0 ||
        express_metadata(c->options, &p->metadata, err) < 0)
        return -1;
    p->dialect = express_dialect;
    if (abx_has_prefix(p->place.api_url, "http://")) /* a gateway of the user's own */
        p->dialect.data_url = "http://{port}-{id}.{domain}";
    abx_e2b_service_options options = {
        .loop = c->loop,
        .provider = c->provider,
        .dialect = &p->dialect,
        .api_url = p->place.api_url,
        .domain = p->place.domain,
        .api_key = c->api_key,
        .template_name = abx_json_str(c->options, "template", NULL),
        .metadata = yyjson_doc_get_root(p->metadata),
        .explain = explain,
        .explain_data = p,
        .log = c->log,
    };
    return abx_e2b_service_open(&options, &p->over.service, err);
}

static int open_provider(const abx_connection *c, abx_provider **out, abx_error **err)
{
    if (!c->api_key || !*c->api_key) {
        abx_fail(err, ABX_ERR_API_KEY, "no API key for provider '%s'", c->provider);
        return abx_hint(err,
                        "'--provider local' (or 'abx config set provider local') needs no account");
    }
    express_provider *p = ABX_NEW(express_provider);
    p->over.base.adapter = &abx_adapter_alicloud_express;
    p->over.free = free_provider;
    p->key = abx_strdup(c->api_key);
    if (open_service(p, c, err) < 0) {
        free_provider(&p->over);
        return -1;
    }
    abx_over_service_ready(&p->over, declared(), out);
    return 0;
}

static const char *const ids[] = {EXPRESS_ID, NULL};

const abx_adapter abx_adapter_alicloud_express = {
    .kind = "builtin",
    .builtin_ids = ids,
    .title = "Alibaba Cloud Express",
    .common_keys = 1u << ABX_CORE_API_KEY | 1u << ABX_CORE_API_URL | 1u << ABX_CORE_DOMAIN,
    .id_giver = ABX_GIVER_SERVICE,
    .declared = declared,
    .endpoint = endpoint,
    .open = open_provider,
    .start = abx_over_service_start,
    .close = abx_over_service_close,
};
