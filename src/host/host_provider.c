/* Opening providers: which adapter serves an id, with what connection; and the feature gate. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "host/emulate.h"
#include "host/host_private.h"

static const abx_adapter *find_adapter(abx_host *host, const char *id)
{
    for (const abx_adapter *const *a = host->adapters; *a; a++)
        for (const char *const *known = (*a)->builtin_ids; known && *known; known++)
            if (strcmp(*known, id) == 0)
                return *a;
    return NULL;
}

static int fail_unknown(abx_host *host, const char *id, abx_error **err)
{
    size_t n = 0;
    while (host->ids[n])
        n++;
    abx_fail(err, ABX_ERR_PROVIDER_NOT_FOUND, "there is no provider '%s'", id);
    const char *near = abx_nearest(id, host->ids, n);
    if (near)
        return abx_hint(err, "did you mean '%s'?", near);
    abx_buf list = ABX_BUF(4096);
    for (size_t i = 0; i < n; i++)
        if (abx_buf_addf(&list, "%s%s", i ? ", " : "", host->ids[i]) < 0)
            break;
    abx_hint(err, "known providers: %s", abx_buf_cstr(&list));
    abx_buf_clear(&list);
    return -1;
}

static int read_secrets(abx_host *host, abx_open_provider *p, abx_error **err)
{
    const struct {
        const char *key;
        char **to;
    } keys[] = {{"api_key", &p->api_key},
                {"api_url", &p->api_url},
                {"domain", &p->domain},
                {"access_key_id", &p->access_key_id},
                {"access_key_secret", &p->access_key_secret}};
    /* `local` has no keys, and a program that forks a sandbox must not have loaded any. */
    if (strcmp(p->id, "local") == 0)
        return 0;
    for (size_t i = 0; i < ABX_COUNT(keys); i++) {
        abx_error *why = NULL;
        *keys[i].to = abx_config_secret(host->config, p->id, keys[i].key, &why);
        if (why)
            return abx_error_take(err, why);
    }
    return 0;
}

static int open_provider(abx_host *host, const abx_adapter *adapter, abx_open_provider *p,
                         abx_error **err)
{
    p->options = abx_config_provider_options(host->config, p->id, err);
    if (!p->options || read_secrets(host, p, err) < 0)
        return -1;
    abx_connection connection = {
        .loop = host->loop,
        .provider = p->id,
        .home = host->home,
        .options = yyjson_doc_get_root(p->options),
        .api_key = p->api_key,
        .api_url = p->api_url,
        .domain = p->domain,
        .access_key_id = p->access_key_id,
        .access_key_secret = p->access_key_secret,
        .may_fork = host->may_fork,
        .self = host->self,
        .log = host->log,
    };
    return adapter->open(&connection, &p->provider, err);
}

int abx__host_provider(abx_host *host, const char *id, abx_provider **out, abx_error **err)
{
    for (abx_open_provider *p = host->providers; p; p = p->next) {
        if (strcmp(p->id, id) == 0) {
            *out = p->provider;
            return 0;
        }
    }
    const abx_adapter *adapter = find_adapter(host, id);
    if (!adapter)
        return fail_unknown(host, id, err);
    abx_open_provider *p = ABX_NEW(abx_open_provider);
    p->id = abx_strdup(id);
    abx_error *why = NULL;
    if (open_provider(host, adapter, p, &why) < 0) {
        if (why && !why->provider)
            why->provider = abx_strdup(id);
        yyjson_doc_free(p->options);
        free(p->api_key);
        free(p->api_url);
        free(p->domain);
        free(p->access_key_id);
        free(p->access_key_secret);
        free(p->id);
        free(p);
        return abx_error_take(err, why);
    }
    p->next = host->providers;
    host->providers = p;
    *out = p->provider;
    return 0;
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
