/* Calls to a provider that is not ready yet: kept until it is. Their deadlines run, they can be cancelled. */
#include "base/mem.h"
#include "host/host_private.h"
#include "ops/call_host.h"

typedef struct held {
    abx_host *host;
    abx_provider *provider;
    char *id;
    abx_call *call; /* NULL once it is gone */
} held;

static void on_gone(abx_call *c, void *data)
{
    (void)c;
    ((held *)data)->call = NULL;
}

static void fail(abx_call *call, abx_error *why)
{
    static const abx_call_backend refused = {0};
    abx_call_accept(call, &refused, NULL);
    abx_call_fail(call, why);
}

static void on_prepared(void *data, const abx_error *err)
{
    held *h = data;
    abx_call *call = h->call;
    abx_error *why = NULL;
    if (call) {
        abx_call_unhold(call);
        if (err)
            why = abx_error_copy(err);
        else if (abx__host_gate(h->provider, h->id, call, &why) == 0)
            (void)abx__host_give(h->host, h->provider, h->id, call, &why);
        if (why)
            fail(call, why);
    }
    free(h->id);
    free(h);
}

void abx__host_hold(abx_host *host, abx_provider *provider, const char *provider_id, abx_call *call)
{
    held *h = ABX_NEW(held);
    h->host = host;
    h->provider = provider;
    h->id = abx_strdup(provider_id);
    h->call = call;
    abx_call_hold(call, on_gone, h);
    provider->adapter->prepare(provider, on_prepared, h);
}
