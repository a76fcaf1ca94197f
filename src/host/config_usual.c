/* Variables that a provider's users have already: the service's own documentation names them. They come after ABX_…, and only where they are about
 * this service: E2B's names are used by many, and a key of one must not go to another. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "host/config_inner.h"

typedef struct usual {
    const char *provider, *suffix; /* of the hosts that are the service */
    const char *key, *name;
} usual;

static const usual rows[] = {
#define ABX_USUAL(provider, suffix, key, name) {provider, suffix, key, name},
#include "host/settings.def"
};

/* Whether a URL or a domain names a host below the suffix. */
static bool is_at(const char *address, const char *suffix)
{
    if (!address)
        return false;
    const char *host = strstr(address, "://");
    host = host ? host + 3 : address;
    ABX_AUTO_FREE char *name = abx_strndup(host, strcspn(host, "/?#:"));
    return abx_has_suffix(name, suffix);
}

/* All that tell an address must be the service's, and one must tell it. */
static bool is_meant(const abx_config *c, const usual *of)
{
    bool any = false;
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        if (strcmp(rows[i].provider, of->provider) != 0 || strcmp(rows[i].key, "api_key") == 0)
            continue;
        const char *address = abx__config_env(c, rows[i].name);
        if (address && !is_at(address, of->suffix))
            return false;
        any = any || address;
    }
    return any;
}

static const usual *find(const char *provider, const char *key)
{
    for (size_t i = 0; i < ABX_COUNT(rows); i++)
        if (strcmp(rows[i].provider, provider) == 0 && strcmp(rows[i].key, key) == 0)
            return &rows[i];
    return NULL;
}

const char *abx__config_usual(const abx_config *c, const char *key, const char **name)
{
    ABX_AUTO_FREE char *provider = abx_setting_provider(key);
    const usual *u = provider ? find(provider, strrchr(key, '.') + 1) : NULL;
    const char *value = u ? abx__config_env(c, u->name) : NULL;
    if (!value || !is_meant(c, u))
        return NULL;
    *name = u->name;
    return value;
}

const char *abx__config_usual_name(const char *provider, const char *key, const char **suffix)
{
    const usual *u = find(provider, key);
    *suffix = u ? u->suffix : NULL;
    return u ? u->name : NULL;
}
