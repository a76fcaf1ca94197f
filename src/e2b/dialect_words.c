/* A dialect by the words that manifests and modules describe it with. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "e2b/dialect.h"

static void take_routes(abx_e2b_dialect *d, yyjson_val *words, const char *routes[ABX_OP_COUNT])
{
    yyjson_val *name, *route;
    size_t i, n;
    d->routes = routes;
    if (!words)
        return;
    yyjson_obj_foreach(words, i, n, name, route)
    {
        const abx_op_row *row = abx_op_find(yyjson_get_str(name));
        if (row && yyjson_is_str(route))
            routes[row->id] = yyjson_get_str(route);
    }
}

static abx_e2b_way way_of(const char *name)
{
    return abx_str_eq(name, "v2")   ? ABX_E2B_CONNECT_V2
           : abx_str_eq(name, "v1") ? ABX_E2B_CONNECT_V1
                                    : ABX_E2B_RESUME;
}

static void take_control(abx_e2b_dialect *d, yyjson_val *words)
{
    yyjson_val *ways = abx_json_get(words, "connectRoutes"), *way;
    size_t i, n;
    d->auth_header = abx_json_str(words, "authHeader", NULL);
    d->auth_scheme = abx_json_str(words, "authScheme", NULL);
    d->key_optional = !abx_json_bool(words, "needsKey", true);
    d->v1_first = abx_str_eq(abx_json_str(words, "createRoute", NULL), "v1");
    if (ways)
        yyjson_arr_foreach(ways, i, n, way) if (i < ABX_E2B_WAYS) d->connect[i] =
            way_of(yyjson_get_str(way));
    d->connect_again_ms = (uint32_t)abx_json_int(words, "connectRetryMs", 0);
    d->connect_lies = abx_json_bool(words, "checkConnect", false);
    d->default_s = (uint32_t)abx_json_int(words, "defaultTimeoutS", 0);
    d->idle_timeout = abx_json_bool(words, "idleTimeout", false);
    d->endless = abx_json_bool(words, "unlimited", false);
    d->no_auto_pause = !abx_json_bool(words, "autoPause", true);
    d->no_network_rules = !abx_json_bool(words, "networkRules", true);
    d->camel_network = abx_json_bool(words, "camelNetwork", false);
    d->no_cursor = !abx_json_bool(words, "listPages", true);
    d->no_filter = !abx_json_bool(words, "listFilter", true);
}

static void take_data(abx_e2b_dialect *d, yyjson_val *words)
{
    const char *upload = abx_json_str(words, "upload", "auto");
    d->own_domain = abx_json_bool(words, "fixedDomain", false);
    d->json_only = abx_str_eq(abx_json_str(words, "codec", NULL), "json");
    d->upload = strcmp(upload, "octets") == 0 ? ABX_ENVD_UPLOAD_OCTETS
                : strcmp(upload, "form") == 0 ? ABX_ENVD_UPLOAD_FORM
                                              : ABX_ENVD_UPLOAD_BY_VERSION;
    d->distrust_version = !abx_json_bool(words, "trustVersion", true);
    d->poll_watch = abx_json_bool(words, "pollWatch", false);
    d->token_on_ports = abx_json_bool(words, "tokenOnPorts", false);
    d->ready_late = abx_json_bool(words, "lateReady", false);
}

void abx_e2b_dialect_take(abx_e2b_dialect *d, yyjson_val *words, const char *routes[ABX_OP_COUNT])
{
    take_control(d, words);
    take_routes(d, abx_json_get(words, "routes"), routes);
    take_data(d, words);
}
