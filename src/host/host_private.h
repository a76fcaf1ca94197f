/* Inside of the host: shared between its files, not for others. */
#ifndef ABX_HOST_HOST_PRIVATE_H
#define ABX_HOST_HOST_PRIVATE_H

#include "host/host.h"
#include "host/ledger.h"
#include "host/plugin.h"

/* A provider that was opened, with everything that its connection borrows. */
typedef struct abx_open_provider {
    struct abx_open_provider *next;
    char *id;
    abx_provider *provider;
    abx_plugin *plugin; /* NULL: builtin */
    yyjson_doc *options;
    const char **secret_keys;   /* names; or NULL */
    const char **secrets;       /* values, borrowed from options and keys; or NULL */
    char *keys[ABX_CORE_COUNT]; /* common keys */
} abx_open_provider;

/* A folder that is used as it is. */
typedef struct abx_used_folder {
    struct abx_used_folder *next;
    char *id;
    abx_plugin *plugin; /* NULL once it was opened */
} abx_used_folder;

struct abx_host {
    uv_loop_t *loop;
    char *home;
    abx_config *config;
    const abx_adapter *const *adapters;
    bool may_fork, strict, exact_ids;
    void (*on_secret)(void);
    abx_used_folder *folders;
    char *self;
    struct abx_keeper *keeper;
    const abx_log *log;
    abx_ledger *ledger; /* opened when first needed */
    abx_open_provider *providers;
    struct abx__file_input *file_inputs; /* of emulate_input.c */
    char **ids;                          /* last answer of abx_host_providers */
    char **used;                         /* last answer of abx_host_used_providers */
    int closing;
    uv_timer_t closer; /* only while closing: the end comes from the loop */
    void (*close_cb)(void *data);
    void *close_data;
};

int abx__host_ledger(abx_host *host, abx_ledger **out, abx_error **err);
/* The entry that a word means, complete or with a dead maker; its id is set. 0 and *entry (abx_ledger_entry_clear), or -1. */
int abx__host_entry(abx_host *host, const char *word, abx_ledger_entry *entry, abx_error **err);
/* The opened provider with this id; opens it when needed. Borrowed. */
int abx__host_provider(abx_host *host, const char *id, abx_provider **out, abx_error **err);
/* E8004 unless the provider has what the call needs, or the host can emulate it. */
int abx__host_gate(const abx_provider *provider, const char *id, const abx_call *call,
                   abx_error **err);
/* Complete an error of a provider: abx_explain_error (host/credentials.h). */
void abx__host_explain(const abx_host *host, const char *id, bool asked, abx_error *err);
/* In an error about a sandbox: the word that the user typed for it where its id is named. The id is told once behind it. */
void abx__host_tell_word(abx_error *err, const char *id, const char *word);
void abx__host_free_provider(abx_open_provider *p);
/* Give a call that passed the gate to a provider that is ready, or emulate it. As an adapter's start. */
int abx__host_give(abx_host *host, abx_provider *provider, const char *provider_id, abx_call *call,
                   abx_error **err);
/* Keep the call until the provider is ready, then ask the gate again and start it, or fail it. */
void abx__host_hold(abx_host *host, abx_provider *provider, const char *provider_id,
                    abx_call *call);
/* Start a call that passed parameters and gate. */
int abx__host_dispatch(abx_host *host, const char *provider_id, abx_call *call, abx_error **err);

/* A call of the host's own: cb once, later, with result or error (borrowed). params is taken over. */
typedef void (*abx__host_done_cb)(void *data, yyjson_val *result, const abx_error *err);
void abx__host_ask(abx_host *host, const char *provider_id, abx_op_id op, yyjson_mut_doc *params,
                   abx__host_done_cb cb, void *data);

/* Special rows (host_create.c, host_results.c, host_gc.c). Each returns as abx_host_start. */
/* What sandbox.create asks of its parameters beyond their types. 0, or -1 and *err. */
int abx__host_check_create(yyjson_val *params, abx_error **err);
/* word: what was typed for the sandbox that is forked, or NULL. */
int abx__host_create(abx_host *host, const char *provider_id, const char *word, abx_call *call,
                     abx_error **err);
int abx__host_gc(abx_host *host, const char *provider_id, abx_call *call, abx_error **err);
/* Watch the result of a call on a sandbox or of a list (id and word NULL): ledger upkeep, the provider's id in the answer, what was typed
 * for the sandbox in its error. */
void abx__host_watch_result(abx_host *host, const char *provider_id, const char *sandbox_id,
                            const char *word, abx_call *call);

/* Is the process that made this entry still there? */
bool abx__host_creator_lives(const abx_ledger_entry *entry);
void abx__host_self_identity(abx_ledger_entry *entry);

#endif
