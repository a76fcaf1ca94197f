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
    const char *const *secrets; /* the values of these, NULL at the end; or NULL */
    /* Common keys: of a plugin only those that the user lets it see. */
    const char *api_key, *api_url, *domain, *access_key_id, *access_key_secret; /* or NULL */
    bool may_fork; /* see local/local.h */
    bool strict;   /* a plugin's small faults are faults, too: it is being tested */
    /* The thread that starts children (net/keeper.h), of a program whose threads come and go; or NULL. */
    struct abx_keeper *keeper;
    const char *self; /* command line that starts this program again, or NULL */
    const abx_log *log;
} abx_connection;

typedef struct abx_provider {
    const struct abx_adapter *adapter;
    /* Map name → "native" | "emulated" | "unsupported"; an operation's name may override its feature. Owned by
     * the adapter, constant until close or, with `prepare`, until it is not ready any more. */
    yyjson_val *features;
    /* It must be made ready before it can take a call; until then features are those that it declares. May become true
     * again: its program has died. */
    bool opening;
    bool flow; /* a slow reader of one call holds up no other one */
} abx_provider;

/* A new sandbox of a provider that may give ids itself bears the ledger's key as this label, which the host puts there and hides again
 * (host/unborn.h): what a create made whose maker died before it heard the id is found by it. */
#define ABX_KEY_LABEL "abx-key"

/* Who gives a new sandbox its id. */
typedef enum abx_id_giver {
    ABX_GIVER_HOST,    /* the one that the host proposes is taken */
    ABX_GIVER_SERVICE, /* another one */
    ABX_GIVER_EITHER   /* not known */
} abx_id_giver;

typedef struct abx_adapter {
    const char *kind; /* "builtin", "rest", "exec", "node" */
    /* The ids that this adapter serves without a manifest (builtin), NULL at the end; or NULL. */
    const char *const *builtin_ids;
    const char *title;    /* builtin: its name for people */
    unsigned common_keys; /* builtin: which common keys it is given, 1u << ABX_CORE_… each */
    abx_id_giver id_giver;
    bool ties; /* a sandbox that is made with `tied` ends with this process by itself */
    /* builtin: what it can do as far as that is known before it is opened; owned by the caller. NULL: it must be opened. */
    yyjson_doc *(*declared)(void);
    /* The address that it would speak to with these options and addresses (it is given no secrets), owned; NULL: they tell none. May be
     * NULL. */
    char *(*endpoint)(const abx_connection *connection);
    int (*open)(const abx_connection *connection, abx_provider **out, abx_error **err);
    /* Make a provider that is `opening` ready: cb once, later, on the loop, with an error (borrowed) when it cannot be. May be asked
     * several times at once. NULL: never opening. */
    void (*prepare)(abx_provider *provider, void (*cb)(void *data, const abx_error *err),
                    void *data);
    /* Start a call that passed the gate. 0: the adapter accepted it and will end it; -1: *err, never started. */
    int (*start)(abx_provider *provider, abx_call *call, abx_error **err);
    /* Cancel what runs, free, then cb(data) on the loop. */
    void (*close)(abx_provider *provider, void (*cb)(void *data), void *data);
} abx_adapter;

#endif
