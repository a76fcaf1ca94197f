#include "host/credentials.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "host/config_keys.h"
#include "host/store.h"

static void add_setting(abx_credentials *c, const char *name)
{
    size_t n = 0;
    while (c->settings && c->settings[n])
        n++;
    c->settings = abx_realloc(c->settings, (n + 2) * sizeof *c->settings);
    c->settings[n] = abx_strdup(name);
    c->settings[n + 1] = NULL;
}

static void add_secret(abx_credentials *c, const char *name, bool required)
{
    c->secrets = abx_realloc(c->secrets, (c->secret_count + 1) * sizeof *c->secrets);
    c->secrets[c->secret_count++] = (abx_credential){abx_strdup(name), required};
}

static void add_common(abx_credentials *c, abx_core_key key)
{
    const char *name = abx_core_key_setting(key);
    add_setting(c, name);
    if (abx_core_key_is_secret(key))
        add_secret(c, name, c->builtin);
}

static void open_builtin(const abx_adapter *adapter, abx_credentials *c)
{
    c->builtin = true;
    for (int key = 0; key < ABX_CORE_COUNT; key++)
        if (adapter->common_keys & (1u << key))
            add_common(c, (abx_core_key)key);
    size_t n;
    const abx_setting_row *rows = abx_settings(&n);
    for (size_t i = 0; i < n; i++)
        if (abx_str_eq(rows[i].provider, c->provider))
            add_setting(c, rows[i].key);
}

static void open_plugin(const abx_manifest *m, const bool *consent, abx_credentials *c)
{
    for (int key = 0; key < ABX_CORE_COUNT; key++)
        if (m->inherit[key] && consent[key])
            add_common(c, (abx_core_key)key);
    c->address =
        m->rest ? abx_strdup(abx_json_str(yyjson_doc_get_root(m->rest), "apiUrl", NULL)) : NULL;
    c->key_withheld = m->inherit[ABX_CORE_API_KEY] && !consent[ABX_CORE_API_KEY];
    for (size_t i = 0; i < m->option_count; i++) {
        add_setting(c, m->options[i].name);
        if (m->options[i].secret)
            add_secret(c, m->options[i].name, m->options[i].required);
    }
}

int abx_credentials_open(const abx_providers *known, const char *id, abx_credentials *out,
                         abx_error **err)
{
    const abx_adapter *builtin = abx_builtin_adapter(known->adapters, id);
    *out = (abx_credentials){.provider = abx_strdup(id)};
    if (builtin) {
        open_builtin(builtin, out);
        return 0;
    }
    abx_store_entry entry = {0};
    abx_manifest *m = NULL;
    int rc = -1;
    if (!abx_providers_has(known, id))
        abx_providers_unknown(known, id, err);
    else if (abx_store_look_up(known->home, id, &entry, err) == 0)
        m = abx_providers_folder_manifest(entry.folder, err);
    if (m) {
        open_plugin(m, entry.consent, out);
        rc = 0;
    }
    abx_manifest_free(m);
    abx_store_entry_clear(&entry);
    if (rc < 0)
        abx_credentials_clear(out);
    return rc;
}

void abx_credentials_clear(abx_credentials *c)
{
    for (size_t i = 0; i < c->secret_count; i++)
        free(c->secrets[i].name);
    for (char **s = c->settings; s && *s; s++)
        free(*s);
    free(c->secrets);
    free(c->settings);
    free(c->provider);
    free(c->address);
    *c = (abx_credentials){0};
}

bool abx_credentials_takes(const abx_credentials *c, const char *name)
{
    for (char **s = c->settings; s && *s; s++)
        if (strcmp(*s, name) == 0)
            return true;
    return false;
}

const abx_credential *abx_credentials_secret(const abx_credentials *c, const char *name)
{
    for (size_t i = 0; i < c->secret_count; i++)
        if (strcmp(c->secrets[i].name, name) == 0)
            return &c->secrets[i];
    return NULL;
}
