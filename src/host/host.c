#include "host/host.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "host/emulate_inner.h"
#include "host/store.h"
#include "host/providers.h"

static void add_id(abx_host *host, size_t *n, const char *id)
{
    host->ids = abx_realloc(host->ids, (*n + 2) * sizeof *host->ids);
    host->ids[(*n)++] = abx_strdup(id);
    host->ids[*n] = NULL;
}

static void free_ids(abx_host *host)
{
    for (char **id = host->ids; id && *id; id++)
        free(*id);
    free(host->ids);
    host->ids = NULL;
}

/* Builtin ids, then those of the store. */
static void collect_ids(abx_host *host)
{
    size_t n = 0, count = 0;
    abx_store_entry *entries = NULL;
    free_ids(host);
    for (const abx_adapter *const *a = host->adapters; *a; a++)
        for (const char *const *id = (*a)->builtin_ids; id && *id; id++)
            add_id(host, &n, *id);
    ABX_AUTO_ERROR failed = NULL;
    if (abx_store_list(host->home, &entries, &count, &failed) < 0)
        abx_logf(host->log, ABX_LOG_WARN, "store: %s", abx_error_text(failed));
    for (size_t i = 0; i < count; i++)
        if (!entries[i].problem)
            add_id(host, &n, entries[i].id);
    abx_store_entries_free(entries, count);
}

int abx_host_open(const abx_host_options *options, abx_host **out, abx_error **err)
{
    (void)err;
    abx_host *host = ABX_NEW(abx_host);
    host->loop = options->loop;
    host->home = abx_strdup(options->home);
    host->config = options->config;
    host->adapters = options->adapters;
    host->may_fork = options->may_fork;
    host->strict = options->strict;
    host->exact_ids = options->exact_ids;
    host->on_secret = options->on_secret;
    host->self = abx_strdup(options->self);
    host->keeper = options->keeper;
    host->log = options->log;
    *out = host;
    return 0;
}

static void free_used(abx_host *host)
{
    for (char **u = host->used; u && *u; u++)
        free(*u);
    free(host->used);
    host->used = NULL;
}

static void free_host(abx_host *host)
{
    while (host->providers) {
        abx_open_provider *p = host->providers;
        host->providers = p->next;
        abx__host_free_provider(p);
    }
    while (host->folders) {
        abx_used_folder *f = host->folders;
        host->folders = f->next;
        abx_plugin_free(f->plugin);
        free(f->id);
        free(f);
    }
    abx_ledger_free(host->ledger);
    free_used(host);
    free_ids(host);
    free(host->home);
    free(host->self);
    abx__file_inputs_free(host);
    free(host);
}

static void on_closed(uv_handle_t *closer)
{
    abx_host *host = closer->data;
    void (*cb)(void *) = host->close_cb;
    void *cb_data = host->close_data;
    free_host(host);
    if (cb)
        cb(cb_data);
}

static void on_provider_closed(void *data)
{
    abx_host *host = data;
    if (--host->closing == 0)
        uv_close((uv_handle_t *)&host->closer, on_closed);
}

static void on_turn(uv_timer_t *closer)
{
    on_provider_closed(closer->data);
}

void abx_host_close(abx_host *host, void (*cb)(void *data), void *data)
{
    host->close_cb = cb;
    host->close_data = data;
    host->closing = 1;
    uv_timer_init(host->loop, &host->closer);
    host->closer.data = host;
    uv_timer_start(&host->closer, on_turn, 0, 0);
    for (abx_open_provider *p = host->providers; p; p = p->next)
        host->closing++;
    for (abx_open_provider *p = host->providers, *next; p; p = next) {
        next = p->next;
        p->provider->adapter->close(p->provider, on_provider_closed, host);
    }
}

int abx__host_ledger(abx_host *host, abx_ledger **out, abx_error **err)
{
    if (!host->ledger && abx_ledger_open(host->home, &host->ledger, err) < 0)
        return -1;
    *out = host->ledger;
    return 0;
}

const char *abx_host_provider(abx_host *host, const char **source)
{
    return abx_config_get(host->config, "provider", NULL, source);
}

const char *const *abx_host_providers(abx_host *host)
{
    collect_ids(host);
    return (const char *const *)host->ids;
}

static bool add_used(char **list, size_t *n, const char *id)
{
    for (size_t i = 0; i < *n; i++)
        if (strcmp(list[i], id) == 0)
            return false;
    list[(*n)++] = abx_strdup(id);
    return true;
}

int abx_host_used_providers(abx_host *host, const char *const **ids, abx_error **err)
{
    abx_ledger *ledger;
    abx_ledger_entry *entries = NULL;
    char **bad = NULL;
    size_t count = 0, bad_count = 0, n = 0;
    if (abx__host_ledger(host, &ledger, err) < 0 ||
        abx_ledger_read(ledger, &entries, &count, &bad, &bad_count, err) < 0)
        return -1;
    free_used(host);
    host->used = abx_alloc_array(count + 2, sizeof(char *));
    abx_source source = ABX_SOURCE_DEFAULT;
    const char *chosen = abx_config_get(host->config, "provider", &source, NULL);
    if (source != ABX_SOURCE_DEFAULT)
        add_used(host->used, &n, chosen);
    for (size_t i = 0; i < count; i++)
        add_used(host->used, &n, entries[i].provider);
    abx_ledger_entries_free(entries, count);
    for (size_t i = 0; i < bad_count; i++) {
        abx_logf(host->log, ABX_LOG_WARN, "ledger: %s", bad[i]);
        free(bad[i]);
    }
    free(bad);
    *ids = (const char *const *)host->used;
    return 0;
}

int abx__host_entry(abx_host *host, const char *word, abx_ledger_entry *entry, abx_error **err)
{
    abx_ledger *ledger;
    memset(entry, 0, sizeof(*entry));
    if (abx__host_ledger(host, &ledger, err) < 0 || abx_ledger_find(ledger, word, entry, err) < 0)
        return -1;
    if (!entry->id && abx__host_creator_lives(entry)) {
        abx_fail(err, ABX_ERR_CONFLICT, "sandbox '%s' is still being made", word);
        abx_ledger_entry_clear(entry);
        return -1;
    }
    /* Its maker died before it noted the id: the key is the id that we asked for. */
    if (!entry->id)
        entry->id = ABX_TAKE(entry->key);
    return 0;
}

int abx_host_resolve(abx_host *host, const char *word, char **id, char **provider, abx_error **err)
{
    abx_ledger_entry entry;
    if (abx__host_entry(host, word, &entry, err) < 0)
        return -1;
    *id = ABX_TAKE(entry.id);
    *provider = ABX_TAKE(entry.provider);
    abx_ledger_entry_clear(&entry);
    return 0;
}

/* Without keys too. */
static yyjson_doc *describe_declared(const abx_adapter *adapter, const char *id)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    ABX_AUTO_JSON declared = adapter->declared();
    ABX_AUTO_JSON features = abx__features_with_emulated(yyjson_doc_get_root(declared));
    abx_mut_str(d, root, "id", id);
    abx_mut_str(d, root, "kind", adapter->kind);
    abx_mut_val(d, root, "features", yyjson_doc_get_root(features));
    abx_mut_bool(d, root, "flow", true);
    return abx_json_freeze(d);
}

yyjson_doc *abx_host_describe(abx_host *host, const char *provider, abx_error **err)
{
    const abx_adapter *builtin = abx_builtin_adapter(host->adapters, provider);
    if (builtin && builtin->declared)
        return describe_declared(builtin, provider);
    abx_provider *p;
    if (abx__host_provider(host, provider, &p, err) < 0)
        return NULL;
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "id", provider);
    abx_mut_str(d, root, "kind", p->adapter->kind);
    ABX_AUTO_JSON features = abx__features_with_emulated(p->features);
    abx_mut_val(d, root, "features", yyjson_doc_get_root(features));
    abx_mut_bool(d, root, "flow", p->flow);
    return abx_json_freeze(d);
}
