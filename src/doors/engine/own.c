/* Routes that are no operations of a sandbox: health, the list of providers, the end of the engine. */
#include <string.h>

#include "abx_build.h"
#include "base/mem.h"
#include "doors/engine/engine.h"
#include "host/emulate.h"
#include "host/providers.h"

static void health(engine *e, abx_exchange *x)
{
    abx_exchange_reply(x, 200, "application/json", e->health, strlen(e->health));
}

/* --- providers -------------------------------------------------------------------------------------------------------------- */
static const char *const shown[] = {"id", "name", "version", "kind", "trust", "problem"};

static void put_features(engine *e, const abx_providers *known, const char *id, yyjson_mut_doc *d,
                         yyjson_mut_val *o)
{
    ABX_AUTO_ERROR why = NULL;
    const abx_adapter *builtin = abx_builtin_adapter(e->adapters, id);
    ABX_AUTO_JSON declared = builtin && builtin->declared ? builtin->declared() : NULL;
    ABX_AUTO_JSON features =
        declared ? abx__features_with_emulated(yyjson_doc_get_root(declared)) : NULL;
    ABX_AUTO_MUT info =
        abx_providers_info(known, id, NULL, features ? yyjson_doc_get_root(features) : NULL, &why);
    if (!info) {
        abx_mut_str(d, o, "problem", abx_error_text(why));
        return;
    }
    yyjson_mut_val *root = yyjson_mut_doc_get_root(info);
    static const char *const more[] = {"features", "options"};
    for (size_t i = 0; i < ABX_COUNT(more); i++) {
        yyjson_mut_val *v = yyjson_mut_obj_get(root, more[i]);
        if (v)
            abx_mut_put(d, o, more[i], yyjson_mut_val_mut_copy(d, v));
    }
}

static void providers(engine *e, abx_exchange *x)
{
    abx_error *why = NULL;
    const abx_providers known = {
        .home = e->home, .adapters = e->adapters, .version = ABX_VERSION, .config = NULL};
    ABX_AUTO_MUT list = abx_providers_list(&known, &why);
    if (!list) {
        engine_refuse(x, why);
        abx_error_free(why);
        return;
    }
    yyjson_mut_val *root, *item;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *out = abx_mut_arr(d, root, "providers");
    size_t i, n;
    yyjson_mut_arr_foreach(yyjson_mut_obj_get(yyjson_mut_doc_get_root(list), "providers"), i, n,
                           item)
    {
        yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, out);
        for (size_t k = 0; k < ABX_COUNT(shown); k++)
            abx_mut_str(d, o, shown[k], yyjson_mut_get_str(yyjson_mut_obj_get(item, shown[k])));
        if (!yyjson_mut_obj_get(item, "problem"))
            put_features(e, &known, yyjson_mut_get_str(yyjson_mut_obj_get(item, "id")), d, o);
    }
    ABX_AUTO_JSON frozen = abx_json_freeze(d);
    engine_answer(x, 200, yyjson_doc_get_root(frozen));
}

static void shutdown_engine(engine *e, abx_exchange *x)
{
    static const char body[] = "{\"status\":\"stopping\"}";
    abx_exchange_reply(x, 200, "application/json", body, sizeof body - 1);
    engine_life_drain(e);
}

/* --- which ------------------------------------------------------------------------------------------------------------------- */
static const struct {
    const char *method, *path, *allow;
    void (*answer)(engine *e, abx_exchange *x);
} routes[] = {
    {"GET", "/v1/health", "Allow: GET", health},
    {"GET", "/v1/providers", "Allow: GET", providers},
    {"POST", "/v1/shutdown", "Allow: POST", shutdown_engine},
};

bool engine_own_route(engine *e, abx_exchange *x)
{
    const char *path = abx_exchange_path(x);
    for (size_t i = 0; i < ABX_COUNT(routes); i++) {
        if (strcmp(routes[i].path, path) != 0)
            continue;
        if (strcmp(routes[i].method, abx_exchange_method(x)) == 0) {
            routes[i].answer(e, x);
            return true;
        }
        ABX_AUTO_ERROR err =
            abx_error_new(ABX_ERR_USAGE, "'%s' does not take %s", path, abx_exchange_method(x));
        engine_refuse_as(x, 405, routes[i].allow, err);
        return true;
    }
    return false;
}
