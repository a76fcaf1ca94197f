#include "adapters/rest/rest.h"

#include <string.h>

#include "base/mem.h"
#include "e2b/service.h"

typedef struct rest_provider {
    abx_provider base; /* first */
    rest_plan plan;
    abx_e2b_service *service;
    yyjson_doc *features;
    void (*close_cb)(void *data);
    void *close_data;
} rest_provider;

static void free_provider(rest_provider *p)
{
    rest_plan_clear(&p->plan);
    yyjson_doc_free(p->features);
    free(p);
}

static int open_service(rest_provider *p, const abx_connection *c, abx_error **err)
{
    abx_e2b_service_options options = {
        .loop = c->loop,
        .provider = c->provider,
        .dialect = &p->plan.dialect,
        .api_url = p->plan.api_url,
        .domain = p->plan.domain,
        .api_key = p->plan.api_key,
        .metadata = abx_json_get(yyjson_doc_get_root(c->plugin->manifest->rest), "metadata"),
        .call_timeout_ms = c->plugin->manifest->call_timeout_ms,
        .log = c->log,
    };
    return abx_e2b_service_open(&options, &p->service, err);
}

static int open_provider(const abx_connection *connection, abx_provider **out, abx_error **err)
{
    rest_provider *p = ABX_NEW(rest_provider);
    p->base.adapter = &abx_adapter_rest;
    p->base.flow = true;
    rest_plan_init(&p->plan, connection);
    if (rest_plan_check(&p->plan, connection, err) < 0 || open_service(p, connection, err) < 0) {
        free_provider(p);
        return -1;
    }
    ABX_AUTO_JSON declared = abx_manifest_features(connection->plugin->manifest);
    p->features = abx_e2b_service_features(yyjson_doc_get_root(declared));
    p->base.features = yyjson_doc_get_root(p->features);
    *out = &p->base;
    return 0;
}

static int start(abx_provider *provider, abx_call *call, abx_error **err)
{
    return abx_e2b_service_start(((rest_provider *)provider)->service, call, err);
}

static void on_closed(void *data)
{
    rest_provider *p = data;
    void (*cb)(void *) = p->close_cb;
    void *cb_data = p->close_data;
    free_provider(p);
    if (cb)
        cb(cb_data);
}

static void close_provider(abx_provider *provider, void (*cb)(void *data), void *data)
{
    rest_provider *p = (rest_provider *)provider;
    p->close_cb = cb;
    p->close_data = data;
    abx_e2b_service_close(p->service, on_closed, p);
}

const abx_adapter abx_adapter_rest = {
    .kind = "rest",
    .labels = true,
    .open = open_provider,
    .start = start,
    .close = close_provider,
};
