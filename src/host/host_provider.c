/* Opening providers: which adapter serves an id, with what connection; and the feature gate. */
#include <string.h>

#include "base/mem.h"
#include "base/secrets.h"
#include "base/text.h"
#include "host/credentials.h"
#include "host/emulate.h"
#include "host/providers.h"
#include "host/store.h"
#include "host/unborn.h"

static const abx_adapter *kind_adapter(const abx_host *host, const abx_manifest *m, abx_error **err)
{
    for (const abx_adapter *const *a = host->adapters; *a; a++)
        if (!(*a)->builtin_ids && strcmp((*a)->kind, abx_kind_name(m->kind)) == 0)
            return *a;
    abx_fail(err, ABX_ERR_PROVIDER_KIND,
             "provider '%s' is of kind '%s', which this version of abx cannot run", m->id,
             abx_kind_name(m->kind));
    abx_hint(err, "it runs the kinds builtin, rest, exec and node");
    return NULL;
}

static void explain(const abx_host *host, const char *id, bool asked, abx_error *err)
{
    abx_providers known = {.home = host->home, .adapters = host->adapters, .config = host->config};
    abx_explain_error(&known, id, asked, err);
}

static abx_used_folder *find_folder(const abx_host *host, const char *id)
{
    for (abx_used_folder *f = host->folders; f; f = f->next)
        if (strcmp(f->id, id) == 0)
            return f;
    return NULL;
}

int abx_host_use_folder(abx_host *host, const char *folder, const char **id, abx_error **err)
{
    ABX_AUTO(abx_plugin, abx_plugin_free) plugin = NULL;
    if (abx_plugin_open_folder(folder, &plugin, err) < 0)
        return -1;
    abx_used_folder *f = find_folder(host, plugin->manifest->id);
    if (!f) {
        f = ABX_NEW(abx_used_folder);
        f->id = abx_strdup(plugin->manifest->id);
        f->next = host->folders;
        host->folders = f;
    }
    abx_plugin_free(f->plugin);
    f->plugin = ABX_TAKE(plugin);
    *id = f->id;
    return 0;
}

bool abx_host_has_provider(abx_host *host, const char *id)
{
    const abx_providers known = {.home = host->home, .adapters = host->adapters};
    return find_folder(host, id) || abx_providers_has(&known, id);
}

static int fail_unknown(abx_host *host, const char *id, abx_error **err)
{
    abx_providers known = {.home = host->home, .adapters = host->adapters};
    return abx_providers_unknown(&known, id, err);
}

/* Only what it takes: a program that forks a sandbox of `local` must not have loaded any secret. */
static int read_keys(abx_host *host, const abx_adapter *adapter, abx_open_provider *p,
                     abx_error **err)
{
    for (int key = 0; key < ABX_CORE_COUNT; key++) {
        if (p->plugin ? !p->plugin->consent[key] : !(adapter->common_keys & (1u << key)))
            continue;
        abx_error *why = NULL;
        p->keys[key] =
            abx_config_secret(host->config, p->id, abx_core_key_setting((abx_core_key)key), &why);
        if (why)
            return abx_error_take(err, why);
    }
    return 0;
}

/* The values that may not be shown, for those who blank them. */
static void collect_secrets(abx_open_provider *p)
{
    size_t n = 0, count = 0;
    p->secret_keys = p->plugin ? abx_plugin_secret_keys(p->plugin) : NULL;
    while (p->secret_keys && p->secret_keys[n])
        n++;
    p->secrets = abx_alloc_array(n + ABX_CORE_COUNT + 1, sizeof(char *));
    for (size_t i = 0; i < n; i++) {
        const char *value = abx_json_str(yyjson_doc_get_root(p->options), p->secret_keys[i], NULL);
        if (value)
            p->secrets[count++] = value;
    }
    for (int key = 0; key < ABX_CORE_COUNT; key++)
        if (p->keys[key] && abx_core_key_is_secret((abx_core_key)key))
            p->secrets[count++] = p->keys[key];
}

/* Options and keys, from wherever they are set. */
static int read_settings(abx_host *host, const abx_adapter *adapter, abx_open_provider *p,
                         abx_error **err)
{
    p->options = p->plugin ? abx_config_plugin_options(host->config, p->plugin->manifest, err)
                           : abx_config_provider_options(host->config, p->id, err);
    if (!p->options || read_keys(host, adapter, p, err) < 0)
        return -1;
    collect_secrets(p);
    return 0;
}

static int open_provider(abx_host *host, const abx_adapter *adapter, abx_open_provider *p,
                         abx_error **err)
{
    if (read_settings(host, adapter, p, err) < 0)
        return -1;
    if (p->secrets[0] && host->on_secret)
        host->on_secret();
    abx_connection connection = {
        .loop = host->loop,
        .provider = p->id,
        .home = host->home,
        .plugin = p->plugin,
        .options = yyjson_doc_get_root(p->options),
        .secret_keys = p->secret_keys,
        .secrets = p->secrets,
        .api_key = p->keys[ABX_CORE_API_KEY],
        .api_url = p->keys[ABX_CORE_API_URL],
        .domain = p->keys[ABX_CORE_DOMAIN],
        .access_key_id = p->keys[ABX_CORE_ACCESS_KEY_ID],
        .access_key_secret = p->keys[ABX_CORE_ACCESS_KEY_SECRET],
        .may_fork = host->may_fork,
        .strict = host->strict,
        .self = host->self,
        .keeper = host->keeper,
        .log = host->log,
    };
    return adapter->open(&connection, &p->provider, err);
}

void abx__host_free_provider(abx_open_provider *p)
{
    free(p->secrets);
    free(p->secret_keys);
    abx_json_wipe(p->options);
    for (int key = 0; key < ABX_CORE_COUNT; key++) {
        if (p->keys[key])
            explicit_bzero(p->keys[key], strlen(p->keys[key]));
        free(p->keys[key]);
    }
    abx_plugin_free(p->plugin);
    free(p->id);
    free(p);
}

/* Which adapter serves an id; a plugin is loaded into p. NULL and *err. */
static const abx_adapter *find_adapter(abx_host *host, abx_open_provider *p, abx_error **err)
{
    const abx_adapter *builtin = abx_builtin_adapter(host->adapters, p->id);
    if (builtin)
        return builtin;
    abx_used_folder *folder = find_folder(host, p->id);
    if (folder && folder->plugin) {
        p->plugin = ABX_TAKE(folder->plugin);
        return kind_adapter(host, p->plugin->manifest, err);
    }
    if (!abx_host_has_provider(host, p->id)) {
        fail_unknown(host, p->id, err);
        return NULL;
    }
    return abx_store_load(host->home, p->id, &p->plugin, err) < 0
               ? NULL
               : kind_adapter(host, p->plugin->manifest, err);
}

/* As JSON, what open_provider has read. */
static yyjson_doc *connection_json(const abx_open_provider *p)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "provider", p->id);
    abx_mut_val(d, root, "options", yyjson_doc_get_root(p->options));
    for (int key = 0; key < ABX_CORE_COUNT; key++)
        if (p->keys[key])
            abx_mut_str(d, root, abx_core_key_name((abx_core_key)key), p->keys[key]);
    return abx_json_freeze(d);
}

yyjson_doc *abx_host_connection(abx_host *host, const char *id, abx_error **err)
{
    abx_open_provider *p = ABX_NEW(abx_open_provider);
    abx_error *why = NULL;
    yyjson_doc *doc = NULL;
    p->id = abx_strdup(id);
    const abx_adapter *adapter = find_folder(host, id) ? NULL : find_adapter(host, p, &why);
    if (!adapter && !why)
        abx_fail(&why, ABX_ERR_USAGE, "provider '%s' is not installed: it is used in its folder",
                 id);
    if (adapter && read_settings(host, adapter, p, &why) == 0)
        doc = connection_json(p);
    else if (adapter)
        explain(host, id, true, why);
    abx__host_free_provider(p);
    if (why)
        abx_error_take(err, why);
    return doc;
}

static abx_open_provider *find_open(const abx_host *host, const char *id)
{
    for (abx_open_provider *p = host->providers; p; p = p->next)
        if (strcmp(p->id, id) == 0)
            return p;
    return NULL;
}

void abx__host_explain(const abx_host *host, const char *id, bool asked, abx_error *err)
{
    if (find_open(host, id)) /* else that it cannot be opened was explained already */
        explain(host, id, asked, err);
}

int abx__host_provider(abx_host *host, const char *id, abx_provider **out, abx_error **err)
{
    abx_open_provider *p = find_open(host, id);
    if (p) {
        *out = p->provider;
        return 0;
    }
    p = ABX_NEW(abx_open_provider);
    p->id = abx_strdup(id);
    abx_error *why = NULL;
    const abx_adapter *adapter = find_adapter(host, p, &why);
    if (!adapter || open_provider(host, adapter, p, &why) < 0) {
        if (why && !why->provider && adapter)
            why->provider = abx_strdup(id);
        if (why)
            explain(host, id, true, why);
        abx__host_free_provider(p);
        return abx_error_take(err, why);
    }
    p->next = host->providers;
    host->providers = p;
    *out = p->provider;
    return 0;
}

abx_id_giver abx__host_id_giver(const abx_host *host, const char *provider_id)
{
    const abx_open_provider *p = find_open(host, provider_id);
    if (!p || (p->plugin && p->plugin->manifest->no_labels))
        return ABX_GIVER_HOST;
    return p->provider->adapter->id_giver;
}

char *abx_host_blank(abx_host *host, const char *provider, const char *text)
{
    const abx_open_provider *p = find_open(host, provider);
    abx_secrets secrets;
    abx_secrets_init(&secrets, p ? p->secrets : NULL);
    char *blank = abx_secrets_blank(&secrets, text, strlen(text));
    abx_secrets_clear(&secrets);
    return blank;
}

int abx__host_gate(const abx_provider *provider, const char *id, const abx_call *call,
                   abx_error **err)
{
    const abx_op_row *row = abx_call_op(call);
    const abx_op_row *input = abx_op_row_of(ABX_OP_PROCESS_STDIN);
    if (abx__is_emulated(provider->features, call))
        return 0;
    if (!abx__features_have(provider->features, row))
        return abx_fail(err, ABX_ERR_FEATURE_MISSING, "provider '%s' has no '%s' (%s)", id,
                        abx_feature_name(row->feature), row->method);
    if (!abx__wants_stdin(call) || abx__features_have(provider->features, input))
        return 0;
    abx_fail(err, ABX_ERR_FEATURE_MISSING, "provider '%s' has no '%s': a process gets no input", id,
             abx_feature_name(input->feature));
    return abx_hint(err, "give it none: --no-stdin, or </dev/null");
}
