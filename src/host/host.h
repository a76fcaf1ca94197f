/* What every door calls. The host turns a call into a call of the right provider: it finds the sandbox in the
 * ledger, chooses and opens the provider, checks parameters and features (the gate), keeps the ledger, and hands
 * the call to the adapter. Threads: the loop's. */
#ifndef ABX_HOST_HOST_H
#define ABX_HOST_HOST_H

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "host/adapter.h"
#include "host/config.h"
#include "ops/call.h"

typedef struct abx_host abx_host;

typedef struct abx_host_options {
    uv_loop_t *loop;
    const char *home;                   /* from abx_home_open; copied */
    abx_config *config;                 /* borrowed until close */
    const abx_adapter *const *adapters; /* NULL at the end; borrowed (static) */
    bool may_fork;                      /* a one-shot program without threads and secrets */
    const char *self;                   /* command line that starts this program again, or NULL */
    struct abx_keeper *keeper;          /* see abx_connection */
    const abx_log *log;
    bool strict; /* see abx_connection */
    /* sandboxId is always the provider's own whole id, never a name or the beginning of one: for servers, whose callers got it from
     * the provider. With abx_host_start_at the ledger is not asked. */
    bool exact_ids;
    /* A provider is being opened with secrets: they are in this process's memory now. NULL allowed. */
    void (*on_secret)(void);
} abx_host_options;

int abx_host_open(const abx_host_options *options, abx_host **out, abx_error **err);
/* Close all providers, then cb(data) on the loop. Calls must have ended or are cancelled. */
void abx_host_close(abx_host *host, void (*cb)(void *data), void *data);

/* Use the plugin in a folder that is not installed, for as long as this host is open: its id (borrowed) is then known like any other, and
 * comes before what is installed. 0, or -1 and *err: no such folder, a bad manifest, a reserved id. */
int abx_host_use_folder(abx_host *host, const char *folder, const char **id, abx_error **err);
/* Whether this id is builtin, in a folder that is used, or installed (be it broken). */
bool abx_host_has_provider(abx_host *host, const char *id);
/* A text without the secrets that a provider was given. Owned. */
char *abx_host_blank(abx_host *host, const char *provider, const char *text);

/* Start a call (made by abx_call_new). 0: its on_end will come. -1: *err; the call was not started and is
 * still the caller's (abx_call_discard). A sandboxId may be an id, a name or a prefix of an id of 4 characters or
 * more; sandbox.create takes the provider from the configuration, everything else from the ledger; operations
 * without a sandbox (list, gc, doctor) from `provider` below, else the configuration. */
int abx_host_start(abx_host *host, abx_call *call, abx_error **err);
/* The same for a given provider id (list over all providers). */
int abx_host_start_at(abx_host *host, const char *provider, abx_call *call, abx_error **err);

/* All that abx_host_start asks before anything leaves: parameters, sandbox, provider, features. 0 and *provider, *sandbox (owned;
 * the latter NULL without one), or -1 and *err. The call is not started. forced: a provider id, or NULL. */
int abx_host_check(abx_host *host, const char *forced, const abx_call *call, char **provider,
                   char **sandbox, abx_error **err);

/* The id of the provider that the next create would use, and where that choice comes from. */
const char *abx_host_provider(abx_host *host, const char **source);
/* The provider ids that can be used: builtin ones, then what is installed; NULL at the end; borrowed until the next call. */
const char *const *abx_host_providers(abx_host *host);
/* The providers that a plain listing asks: the chosen one (if flag, environment or a file chose it) and those of the
 * ledger's entries. NULL at the end; borrowed until the next call. 0, or -1 and *err. */
int abx_host_used_providers(abx_host *host, const char *const **ids, abx_error **err);
/* A sandbox as a person knows it: what its id is and whose it is. All owned; profile NULL: none, or not known. */
typedef struct abx_host_found {
    char *id, *provider, *profile;
} abx_host_found;

/* The sandbox that a word means: an id, a name or the beginning of an id of the ledger; else, when a provider was named (forced, or by flag,
 * environment or file), a word that looks like an id is taken as one of it. 0 and *found (abx_host_found_clear), or -1 and
 * SANDBOX_NOT_FOUND, CONFLICT. Nothing is opened. */
int abx_host_find(abx_host *host, const char *forced, const char *word, abx_host_found *found,
                  abx_error **err);
void abx_host_found_clear(abx_host_found *found);
/* Full id for an id, a name or a prefix: 0 and *id, *provider (owned by the caller, provider may be NULL), or -1
 * and SANDBOX_NOT_FOUND, or CONFLICT (ambiguous, with the candidates). */
int abx_host_resolve(abx_host *host, const char *word, char **id, char **provider, abx_error **err);
/* {"provider", "options", "apiKey", …}: the connection of a provider as configuration and environment have it, of the common keys those that it is
 * given. It holds secrets. Nothing is opened. NULL and *err, also for one that is used in its folder. */
yyjson_doc *abx_host_connection(abx_host *host, const char *provider, abx_error **err);
/* {"id", "features": {…}, …} of a provider, without opening a connection. */
yyjson_doc *abx_host_describe(abx_host *host, const char *provider, abx_error **err);

#endif
