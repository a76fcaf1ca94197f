/* The default provider. Its backend is not part of this version: the id is known, and it answers as a provider
 * without credentials does. */
#include "adapters/builtin/builtin.h"

static int open_provider(const abx_connection *connection, abx_provider **out, abx_error **err)
{
    (void)out;
    abx_fail(err, ABX_ERR_API_KEY, "no API key for provider '%s'", connection->provider);
    return abx_hint(err,
                    "'--provider local' (or 'abx config set provider local') needs no account");
}

static int start(abx_provider *provider, abx_call *call, abx_error **err)
{
    (void)provider;
    return abx_fail(err, ABX_ERR_API_KEY, "no credentials for %s", abx_call_op(call)->method);
}

static void close_provider(abx_provider *provider, void (*cb)(void *data), void *data)
{
    (void)provider;
    cb(data);
}

static const char *const ids[] = {"alicloud-express", NULL};

const abx_adapter abx_adapter_alicloud_express = {
    .kind = "builtin",
    .builtin_ids = ids,
    .title = "Alibaba Cloud Express",
    .common_keys = 1u << ABX_CORE_API_KEY | 1u << ABX_CORE_API_URL | 1u << ABX_CORE_DOMAIN,
    .open = open_provider,
    .start = start,
    .close = close_provider,
};
