/* What goes into initialize, and what its answer means. */
#include <string.h>

#include "adapters/program.h"
#include "base/mem.h"

yyjson_doc *abx_program_greeting(const abx_connection *connection)
{
    const char *keys[ABX_CORE_COUNT] = {
        [ABX_CORE_API_KEY] = connection->api_key,
        [ABX_CORE_API_URL] = connection->api_url,
        [ABX_CORE_DOMAIN] = connection->domain,
        [ABX_CORE_ACCESS_KEY_ID] = connection->access_key_id,
        [ABX_CORE_ACCESS_KEY_SECRET] = connection->access_key_secret,
    };
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT_WIPED d = abx_mut_new(&root);
    abx_mut_str(d, root, "id", connection->provider);
    if (connection->options)
        abx_mut_val(d, root, "options", connection->options);
    else
        abx_mut_obj(d, root, "options");
    yyjson_mut_val *core = abx_mut_obj(d, root, "core");
    for (int key = 0; key < ABX_CORE_COUNT; key++)
        abx_mut_str(d, core, abx_core_key_name((abx_core_key)key), keys[key]);
    yyjson_mut_val *names = abx_mut_arr(d, root, "secretKeys");
    for (size_t i = 0; connection->secret_keys && connection->secret_keys[i]; i++)
        yyjson_mut_arr_add_strcpy(d, names, connection->secret_keys[i]);
    return abx_json_freeze(d);
}

/* The state that the answer gives a name, or NULL when it does not say. */
static const char *said(yyjson_val *features, const char *name)
{
    if (yyjson_is_obj(features)) {
        const char *state = abx_json_str(features, name, NULL);
        bool known = state && (strcmp(state, "native") == 0 || strcmp(state, "emulated") == 0);
        return !state ? NULL : known ? state : "unsupported";
    }
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(features, i, n, item)
    {
        if (yyjson_is_str(item) && strcmp(yyjson_get_str(item), name) == 0)
            return "native";
    }
    return NULL;
}

static bool is_known(const char *name)
{
    for (int f = 0; f < ABX_FEATURE_COUNT; f++)
        if (strcmp(abx_feature_name((abx_feature)f), name) == 0)
            return true;
    return abx_op_find(name) != NULL;
}

static void tell_unknown(yyjson_val *features, void (*unknown)(const char *name, void *data),
                         void *data)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (yyjson_is_obj(features)) {
        yyjson_obj_foreach(features, i, n, key, value)
        {
            if (!is_known(yyjson_get_str(key)))
                unknown(yyjson_get_str(key), data);
        }
        return;
    }
    yyjson_arr_foreach(features, i, n, value)
    {
        if (!yyjson_is_str(value) || !is_known(yyjson_get_str(value)))
            unknown(yyjson_is_str(value) ? yyjson_get_str(value) : "(no text)", data);
    }
}

yyjson_doc *abx_program_features(const abx_manifest *manifest, yyjson_val *hello,
                                 void (*unknown)(const char *name, void *data), void *data)
{
    yyjson_val *features = yyjson_obj_get(hello, "features");
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    tell_unknown(features, unknown, data);
    for (int f = 0; f < ABX_FEATURE_COUNT; f++) {
        const char *name = abx_feature_name((abx_feature)f);
        const char *state = f == ABX_FEATURE_SANDBOX ? "native" : said(features, name);
        abx_mut_str(d, root, name, manifest->features[f] && state ? state : "unsupported");
    }
    /* operations that either side names by themselves */
    for (int op = 0; op < ABX_OP_COUNT; op++) {
        const abx_op_row *row = abx_op_row_of((abx_op_id)op);
        const char *own = said(features, row->method);
        const char *whole = row->feature == ABX_FEATURE_SANDBOX
                                ? "native"
                                : said(features, abx_feature_name(row->feature));
        const char *state = own ? own : whole ? whole : "unsupported";
        if (!abx_manifest_has_op(manifest, (abx_op_id)op))
            state = "unsupported";
        if (own || manifest->ops[op])
            abx_mut_str(d, root, row->method, state);
    }
    return abx_json_freeze(d);
}
