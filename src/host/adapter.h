/* What an adapter is: three functions. The host owns the list; doors never see it. */
#ifndef ABX_HOST_ADAPTER_H
#define ABX_HOST_ADAPTER_H

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "host/plugin.h"
#include "ops/call.h"

/* What a provider is opened with. All borrowed; valid until close's cb. */
typedef struct abx_connection {
    uv_loop_t *loop;
    const char *provider;     /* id */
    const char *home;         /* the home of all state */
    const abx_plugin *plugin; /* what is run; NULL: builtin */
    yyjson_val
        *options; /* object of the provider's own options: checked, of the types that it declares */
    /* Names of what is secret among options and common keys ("token", "apiKey"), NULL at the end; or NULL. */
    const char *const *secret_keys;
    /* Common keys: of a plugin only those that the user lets it see. */
    const char *api_key, *api_url, *domain, *access_key_id, *access_key_secret; /* or NULL */
    bool may_fork;    /* see local/local.h */
    const char *self; /* command line that starts this program again, or NULL */
    const abx_log *log;
} abx_connection;

typedef struct abx_provider {
    const struct abx_adapter *adapter;
    /* Map name → "native" | "emulated" | "unsupported"; an operation's name may override its feature. Owned by
     * the adapter, constant until close. */
    yyjson_val *features;
} abx_provider;

typedef struct abx_adapter {
    const char *kind; /* "builtin", "rest", "exec", "node" */
    /* The ids that this adapter serves without a manifest (builtin), NULL at the end; or NULL. */
    const char *const *builtin_ids;
    const char *title; /* builtin: its name for people */
    int (*open)(const abx_connection *connection, abx_provider **out, abx_error **err);
    /* Start a call that passed the gate. 0: the adapter accepted it and will end it; -1: *err, never started. */
    int (*start)(abx_provider *provider, abx_call *call, abx_error **err);
    /* Cancel what runs, free, then cb(data) on the loop. */
    void (*close)(abx_provider *provider, void (*cb)(void *data), void *data);
} abx_adapter;

#endif
