#include "host/providers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "host/config_keys.h"
#include "host/emulate.h"
#include "host/plugin.h"
#include "host/store.h"

/* --- which there are -------------------------------------------------------------------------------------- */

const abx_adapter *abx_builtin_adapter(const abx_adapter *const *adapters, const char *id)
{
    for (const abx_adapter *const *a = adapters; a && *a; a++)
        for (const char *const *known = (*a)->builtin_ids; known && *known; known++)
            if (strcmp(*known, id) == 0)
                return *a;
    return NULL;
}

bool abx_providers_is_builtin(const abx_providers *p, const char *id)
{
    return abx_builtin_adapter(p->adapters, id) != NULL;
}

static yyjson_mut_val *builtin_row(const abx_providers *p, yyjson_mut_doc *d, const char *id)
{
    yyjson_mut_val *o = yyjson_mut_obj(d);
    abx_mut_str(d, o, "id", id);
    abx_mut_str(d, o, "name", abx_builtin_adapter(p->adapters, id)->title);
    abx_mut_str(d, o, "version", p->version);
    abx_mut_str(d, o, "kind", "builtin");
    abx_mut_str(d, o, "trust", "builtin");
    return o;
}

static const char *chosen(const abx_providers *p)
{
    return p->config ? abx_config_get(p->config, "provider", NULL, NULL) : NULL;
}

int abx_providers_unknown(const abx_providers *p, const char *id, abx_error **err)
{
    ABX_AUTO_FREE char *shown = abx_printable(id);
    abx_fail(err, ABX_ERR_PROVIDER_NOT_FOUND, "there is no provider '%s'", shown);
    ABX_AUTO_MUT d = abx_providers_list(p, NULL);
    yyjson_mut_val *list = d ? yyjson_mut_obj_get(yyjson_mut_doc_get_root(d), "providers") : NULL;
    size_t count = yyjson_mut_arr_size(list), i, n;
    ABX_AUTO_FREE const char **ids = abx_alloc_array(count + 1, sizeof *ids);
    ABX_AUTO_BUF names = ABX_BUF(2000);
    yyjson_mut_val *o;
    yyjson_mut_arr_foreach(list, i, n, o)
    {
        ids[i] = yyjson_mut_get_str(yyjson_mut_obj_get(o, "id"));
        (void)!abx_buf_addf(&names, "%s%s", i ? ", " : "", ids[i]);
    }
    const char *near = count ? abx_nearest(id, ids, count) : NULL;
    return near ? abx_hint(err, "did you mean '%s'?", near)
                : abx_hint(err, "known providers: %s", abx_buf_cstr(&names));
}

static yyjson_mut_val *entry_row(yyjson_mut_doc *d, const abx_store_entry *e)
{
    yyjson_mut_val *o = yyjson_mut_obj(d);
    abx_mut_str(d, o, "id", e->id);
    if (e->problem) {
        abx_mut_str(d, o, "problem", abx_error_text(e->problem));
        return o;
    }
    abx_mut_str(d, o, "name", e->name);
    abx_mut_str(d, o, "version", e->version);
    abx_mut_str(d, o, "kind", abx_kind_name(e->kind));
    abx_mut_str(d, o, "trust", abx_trust_name(e->trust));
    return o;
}

static int add_installed(const abx_providers *p, yyjson_mut_doc *d, yyjson_mut_val *list,
                         abx_error **err)
{
    abx_store_entry *entries = NULL;
    size_t count = 0;
    if (!p->home)
        return 0;
    if (abx_store_list(p->home, &entries, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        yyjson_mut_arr_append(list, entry_row(d, &entries[i]));
    abx_store_entries_free(entries, count);
    return 0;
}

yyjson_mut_doc *abx_providers_list(const abx_providers *p, abx_error **err)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, "providers");
    for (const abx_adapter *const *a = p->adapters; a && *a; a++)
        for (const char *const *id = (*a)->builtin_ids; id && *id; id++)
            yyjson_mut_arr_append(list, builtin_row(p, d, *id));
    if (add_installed(p, d, list, err) < 0) {
        yyjson_mut_doc_free(d);
        return NULL;
    }
    const char *now = chosen(p);
    size_t i, n;
    yyjson_mut_val *o;
    yyjson_mut_arr_foreach(list, i, n, o)
    {
        abx_mut_bool(d, o, "chosen", yyjson_mut_equals_str(yyjson_mut_obj_get(o, "id"), now));
    }
    return d;
}

bool abx_providers_has(const abx_providers *p, const char *id)
{
    return abx_providers_is_builtin(p, id) || (p->home && abx_store_has(p->home, id));
}

/* --- manifests --------------------------------------------------------------------------------------------- */

abx_manifest *abx_providers_folder_manifest(const char *folder, abx_error **err)
{
    ABX_AUTO_FD fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        abx_fail_errno(err, ABX_ERR_PROVIDER_NOT_FOUND, errno, "cannot open the folder '%s'",
                       folder);
        return NULL;
    }
    ABX_AUTO_PROBLEMS problems = ABX_PROBLEMS;
    abx_manifest *m = abx_manifest_read(fd, folder, &problems);
    if (!m)
        abx_problems_to_error(&problems, err);
    return m;
}

/* --- one of them ------------------------------------------------------------------------------------------- */

static yyjson_mut_val *typed(yyjson_mut_doc *d, const abx_option *o, const char *text)
{
    if (o->type == ABX_OPTION_INT)
        return yyjson_mut_sint(d, strtoll(text, NULL, 10));
    if (o->type == ABX_OPTION_BOOL)
        return yyjson_mut_bool(d, strcmp(text, "true") == 0);
    return yyjson_mut_strcpy(d, text);
}

static void put_texts(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, char *const *texts)
{
    if (!texts)
        return;
    yyjson_mut_val *list = abx_mut_arr(d, o, key);
    for (; *texts; texts++)
        yyjson_mut_arr_add_strcpy(d, list, *texts);
}

/* The present value and where it comes from; only of what is installed. */
static void put_value(const abx_providers *p, const char *id, yyjson_mut_doc *d, yyjson_mut_val *o,
                      const char *name)
{
    abx_source source;
    const char *where;
    ABX_AUTO_FREE char *key = abx_format("providers.%s.%s", id, name);
    const char *value = abx_config_get(p->config, key, &source, &where);
    const abx_setting_row *row = abx_config_row(p->config, key, ABX_ERR_CONFIG, NULL);
    if (!value || !row || source == ABX_SOURCE_DEFAULT)
        return;
    ABX_AUTO_FREE char *shown = abx_setting_shown(row, value);
    abx_mut_str(d, o, "value", shown);
    abx_mut_str(d, o, "set", where);
}

static void put_option(const abx_providers *p, const char *id, yyjson_mut_doc *d,
                       yyjson_mut_val *list, const abx_option *option)
{
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
    abx_mut_str(d, o, "name", option->name);
    abx_mut_str(d, o, "type", abx_option_type_name(option->type));
    abx_mut_str(d, o, "description", option->description);
    abx_mut_bool(d, o, "required", option->required);
    abx_mut_bool(d, o, "secret", option->secret);
    if (option->otherwise)
        abx_mut_put(d, o, "default", typed(d, option, option->otherwise));
    put_texts(d, o, "choices", option->choices);
    if (option->has_min)
        abx_mut_int(d, o, "min", option->min);
    if (option->has_max)
        abx_mut_int(d, o, "max", option->max);
    put_texts(d, o, "env", option->env);
    if (p->config && id)
        put_value(p, id, d, o, option->name);
}

/* The options of a builtin provider stand in the table of settings. */
static void put_builtin_option(const abx_providers *p, const char *id, yyjson_mut_doc *d,
                               yyjson_mut_val *list, const abx_setting_row *row)
{
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
    abx_mut_str(d, o, "name", row->key);
    abx_mut_str(d, o, "type", row->type == ABX_SETTING_ENUM ? "enum" : "string");
    abx_mut_str(d, o, "description", row->text);
    abx_mut_bool(d, o, "required", false);
    abx_mut_bool(d, o, "secret", row->secret);
    abx_mut_str(d, o, "default", row->otherwise);
    if (row->type == ABX_SETTING_ENUM) {
        yyjson_mut_val *choices = abx_mut_arr(d, o, "choices");
        for (const char *c = row->choices; *c;) {
            size_t n = strcspn(c, "|");
            yyjson_mut_arr_add_strncpy(d, choices, c, n);
            c += n + (c[n] == '|');
        }
    }
    if (p->config)
        put_value(p, id, d, o, row->key);
}

static void put_builtin(const abx_providers *p, const char *id, yyjson_mut_doc *d,
                        yyjson_mut_val *root)
{
    yyjson_mut_val *options = abx_mut_arr(d, root, "options");
    size_t n;
    const abx_setting_row *rows = abx_settings(&n);
    for (size_t i = 0; i < n; i++)
        if (abx_str_eq(rows[i].provider, id))
            put_builtin_option(p, id, d, options, &rows[i]);
}

static void put_inherit(yyjson_mut_doc *d, yyjson_mut_val *root, const char *key, const bool *which)
{
    yyjson_mut_val *list = abx_mut_arr(d, root, key);
    for (int i = 0; i < ABX_CORE_COUNT; i++)
        if (which[i])
            yyjson_mut_arr_add_str(d, list, abx_core_key_name((abx_core_key)i));
}

/* What the manifest says; id: of what is installed, else NULL. */
static void put_manifest(const abx_providers *p, const char *id, const abx_manifest *m,
                         yyjson_mut_doc *d, yyjson_mut_val *root)
{
    abx_mut_str(d, root, "protocol", m->protocol);
    abx_mut_str(d, root, "description", m->description);
    put_texts(d, root, "command", m->command);
    abx_mut_str(d, root, "entry", m->entry);
    put_texts(d, root, "env", m->env);
    put_inherit(d, root, "inherit", m->inherit);
    yyjson_mut_val *options = abx_mut_arr(d, root, "options");
    for (size_t i = 0; i < m->option_count; i++)
        put_option(p, id, d, options, &m->options[i]);
    if (m->rest)
        abx_mut_val(d, root, "rest", yyjson_doc_get_root(m->rest));
    if (m->call_timeout_ms)
        abx_mut_int(d, root, "callTimeoutMs", (int64_t)m->call_timeout_ms);
    ABX_AUTO_JSON declared = abx_manifest_features(m);
    ABX_AUTO_JSON features = abx__features_with_emulated(yyjson_doc_get_root(declared));
    abx_mut_val(d, root, "features", yyjson_doc_get_root(features));
}

/* Required options without a value: nothing runs before they have one. */
static void put_missing(const abx_providers *p, const abx_manifest *m, yyjson_mut_doc *d,
                        yyjson_mut_val *root)
{
    yyjson_mut_val *list = NULL;
    for (size_t i = 0; p->config && i < m->option_count; i++) {
        ABX_AUTO_FREE char *key = abx_format("providers.%s.%s", m->id, m->options[i].name);
        if (!m->options[i].required || abx_config_get(p->config, key, NULL, NULL))
            continue;
        list = list ? list : abx_mut_arr(d, root, "missing");
        yyjson_mut_arr_add_strcpy(d, list, m->options[i].name);
    }
}

static yyjson_mut_doc *folder_info(const abx_providers *p, const abx_manifest *m)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "id", m->id);
    abx_mut_str(d, root, "name", m->name);
    abx_mut_str(d, root, "version", m->version);
    abx_mut_str(d, root, "kind", abx_kind_name(m->kind));
    abx_mut_str(d, root, "trust", abx_trust_name(ABX_TRUST_FOLDER));
    put_manifest(p, NULL, m, d, root);
    return d;
}

static yyjson_mut_doc *builtin_info(const abx_providers *p, const char *id, yyjson_val *features)
{
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = builtin_row(p, d, id);
    yyjson_mut_doc_set_root(d, root);
    abx_mut_bool(d, root, "chosen", abx_str_eq(chosen(p), id));
    put_builtin(p, id, d, root);
    abx_mut_val(d, root, "features", features);
    return d;
}

static yyjson_mut_doc *installed_info(const abx_providers *p, const abx_store_entry *e,
                                      abx_error **err)
{
    ABX_AUTO(abx_manifest, abx_manifest_free) m = abx_providers_folder_manifest(e->folder, err);
    if (!m)
        return NULL;
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = entry_row(d, e);
    yyjson_mut_doc_set_root(d, root);
    abx_mut_bool(d, root, "chosen", abx_str_eq(chosen(p), e->id));
    abx_mut_str(d, root, "source", e->source);
    abx_mut_str(d, root, "installedAt", e->installed_at);
    abx_mut_str(d, root, "treeSha256", e->tree_sha256);
    abx_mut_str(d, root, "folder", e->folder);
    put_inherit(d, root, "consent", e->consent);
    put_manifest(p, e->id, m, d, root);
    put_missing(p, m, d, root);
    return d;
}

yyjson_mut_doc *abx_providers_info(const abx_providers *p, const char *id,
                                   const abx_manifest *manifest, yyjson_val *features,
                                   abx_error **err)
{
    if (manifest)
        return folder_info(p, manifest);
    if (abx_providers_is_builtin(p, id))
        return builtin_info(p, id, features);
    if (!abx_providers_has(p, id)) {
        abx_providers_unknown(p, id, err);
        return NULL;
    }
    abx_store_entry entry = {0};
    if (abx_store_look_up(p->home, id, &entry, err) < 0)
        return NULL;
    yyjson_mut_doc *d = installed_info(p, &entry, err);
    abx_store_entry_clear(&entry);
    return d;
}
