#include "adapters/rest/rest.h"

#include <string.h>

#include "adapters/over_service.h"
#include "base/mem.h"

typedef struct rest_provider {
    abx_over_service over; /* first */
    rest_plan plan;
} rest_provider;

static void free_provider(abx_over_service *over)
{
    rest_provider *p = (rest_provider *)over;
    rest_plan_clear(&p->plan);
    abx_over_service_clear(over);
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
    return abx_e2b_service_open(&options, &p->over.service, err);
}

static int open_provider(const abx_connection *connection, abx_provider **out, abx_error **err)
{
    rest_provider *p = ABX_NEW(rest_provider);
    p->over.base.adapter = &abx_adapter_rest;
    p->over.free = free_provider;
    rest_plan_init(&p->plan, connection);
    if (rest_plan_check(&p->plan, connection, err) < 0 || open_service(p, connection, err) < 0) {
        free_provider(&p->over);
        return -1;
    }
    ABX_AUTO_JSON declared = abx_manifest_features(connection->plugin->manifest);
    abx_over_service_ready(&p->over, abx_e2b_service_features(yyjson_doc_get_root(declared)), out);
    return 0;
}

const abx_adapter abx_adapter_rest = {
    .kind = "rest",
    .id_giver = ABX_GIVER_SERVICE,
    .open = open_provider,
    .start = abx_over_service_start,
    .close = abx_over_service_close,
};
