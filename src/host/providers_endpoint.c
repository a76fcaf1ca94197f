/* Which address a provider would speak to. */
#include "base/mem.h"
#include "host/credentials.h"
#include "host/host.h"

static char *builtin_endpoint(const abx_providers *p, const abx_adapter *adapter, const char *id)
{
    ABX_AUTO_JSON options = abx_config_provider_options(p->config, id, NULL);
    if (!options || !adapter->endpoint)
        return NULL;
    ABX_AUTO_FREE char *url_key = abx_format("providers.%s.api_url", id);
    ABX_AUTO_FREE char *domain_key = abx_format("providers.%s.domain", id);
    abx_connection connection = {
        .provider = id,
        .home = p->home,
        .options = yyjson_doc_get_root(options),
        .api_url = abx_config_get(p->config, url_key, NULL, NULL),
        .domain = abx_config_get(p->config, domain_key, NULL, NULL),
    };
    return adapter->endpoint(&connection);
}

/* The first of these settings that the plugin takes and that has a value. */
static const char *plugin_setting(const abx_providers *p, const abx_credentials *c)
{
    static const char *const names[] = {"api_url", "apiUrl", "baseUrl", "domain"};
    for (size_t i = 0; i < ABX_COUNT(names); i++) {
        ABX_AUTO_FREE char *key = abx_format("providers.%s.%s", c->provider, names[i]);
        const char *value =
            abx_credentials_takes(c, names[i]) ? abx_config_get(p->config, key, NULL, NULL) : NULL;
        if (value)
            return value;
    }
    return NULL;
}

char *abx_providers_endpoint(const abx_providers *p, const char *id)
{
    const abx_adapter *builtin = abx_builtin_adapter(p->adapters, id);
    if (!p->config)
        return NULL;
    if (builtin)
        return builtin_endpoint(p, builtin, id);
    ABX_AUTO_CREDENTIALS c;
    if (abx_credentials_open(p, id, &c, NULL) < 0)
        return NULL;
    const char *set = plugin_setting(p, &c);
    return abx_strdup(set ? set : c.address);
}
