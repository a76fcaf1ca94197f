/* All settings with their sources, for people and programs: no secret is shown whole. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "host/config_inner.h"
#include "host/manifest.h"

static const char *source_name(abx_source source)
{
    switch (source) {
    case ABX_SOURCE_DEFAULT: return "default";
    case ABX_SOURCE_SYSTEM: return "system";
    case ABX_SOURCE_USER: return "user";
    case ABX_SOURCE_PROJECT: return "project";
    case ABX_SOURCE_PROFILE: return "profile";
    case ABX_SOURCE_ENV: return "env";
    case ABX_SOURCE_FLAG: return "flag";
    }
    return "default";
}

typedef struct list {
    abx_config *config;
    yyjson_mut_doc *doc;
    yyjson_mut_val *settings;
} list;

static bool is_listed(const list *l, const char *key)
{
    size_t i, max;
    yyjson_mut_val *item;
    yyjson_mut_arr_foreach(l->settings, i, max, item)
    {
        if (yyjson_mut_equals_str(yyjson_mut_obj_get(item, "key"), key))
            return true;
    }
    return false;
}

/* A key without a value is listed only where `always`. */
static void add(list *l, const char *key, bool always)
{
    abx_source source;
    const char *where;
    const char *value = abx_config_get(l->config, key, &source, &where);
    const abx_setting_row *row = abx__config_any_row(l->config, key);
    if (!row || (!value && !always) || is_listed(l, key))
        return;
    ABX_AUTO_FREE char *shown = value ? abx_setting_shown(row, value) : NULL;
    yyjson_mut_val *item = yyjson_mut_arr_add_obj(l->doc, l->settings);
    abx_mut_str(l->doc, item, "key", key);
    if (shown)
        abx_mut_str(l->doc, item, "value", shown);
    else
        yyjson_mut_obj_add_null(l->doc, item, "value");
    abx_mut_str(l->doc, item, "source", source_name(source));
    abx_mut_str(l->doc, item, "where", where);
}

/* Keys of providers that a file or a flag sets, outside profiles or in the chosen one. */
static void add_values(list *l, const abx_config_values *values)
{
    for (size_t i = 0; i < values->count; i++) {
        const abx_config_value *v = &values->items[i];
        if (v->row->provider && (!v->profile || abx_str_eq(v->profile, l->config->profile)))
            add(l, v->key, false);
    }
}

yyjson_doc *abx_config_list(abx_config *c)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    list l = {c, d, abx_mut_arr(d, root, "settings")};
    size_t n;
    const abx_setting_row *rows = abx_settings(&n);
    const char *provider = abx_config_get(c, "provider", NULL, NULL);
    for (size_t i = 0; i < n; i++) {
        bool common = abx_str_eq(rows[i].provider, "");
        const char *id = common ? provider : rows[i].provider;
        ABX_AUTO_FREE char *key =
            id ? abx_format("providers.%s.%s", id, rows[i].key) : abx_strdup(rows[i].key);
        add(&l, key, !rows[i].provider);
    }
    const abx_config_plugin *plugin = provider ? abx__config_plugin(c, provider) : NULL;
    for (size_t i = 0; plugin && i < plugin->manifest->option_count; i++) {
        ABX_AUTO_FREE char *key = abx_format("providers.%s.%s", provider, plugin->rows[i].key);
        add(&l, key, false);
    }
    add_values(&l, &c->flags);
    add_values(&l, &c->files);
    return abx_json_freeze(d);
}
