/* [rest] of a manifest as a dialect. The manifest's reader has checked names and types. */
#include <string.h>

#include "adapters/rest/rest.h"
#include "base/mem.h"

static const char *keep(rest_plan *plan, char *text)
{
    plan->texts = abx_realloc(plan->texts, (plan->text_count + 1) * sizeof(char *));
    return plan->texts[plan->text_count++] = text;
}

void rest_plan_clear(rest_plan *plan)
{
    for (size_t i = 0; i < plan->text_count; i++)
        free(plan->texts[i]);
    free(plan->texts);
}

static void take_routes(rest_plan *plan, yyjson_val *routes)
{
    yyjson_val *name, *route;
    size_t i, n;
    yyjson_obj_foreach(routes, i, n, name, route)
    {
        const abx_op_row *row = abx_op_find(yyjson_get_str(name));
        if (row)
            plan->routes[row->id] = yyjson_get_str(route);
    }
}

int rest_plan_init(rest_plan *plan, const abx_connection *connection, abx_error **err)
{
    yyjson_val *rest = yyjson_doc_get_root(connection->plugin->manifest->rest);
    abx_e2b_dialect *d = &plan->dialect;
    (void)err;
    *plan = (rest_plan){.dialect = {.name = connection->provider}};
    plan->api_url = abx_json_str(rest, "apiUrl", NULL);
    plan->domain = abx_json_str(rest, "domain", NULL);
    d->auth_header = abx_json_str(rest, "authHeader", NULL);
    d->default_template = abx_json_str(rest, "defaultTemplate", NULL);
    const char *host = abx_json_str(rest, "dataPlaneHost", NULL);
    if (host)
        d->data_url = keep(plan, abx_format("https://%s", host));
    take_routes(plan, abx_json_get(rest, "routes"));
    d->routes = plan->routes;
    return 0;
}
