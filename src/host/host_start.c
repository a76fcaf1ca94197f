/* The way of a call through the host: parameters, sandbox, provider, gate, ledger, adapter. */
#include <string.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/emulate.h"
#include "host/host_private.h"
#include "ops/call_host.h"

int abx__host_give(abx_host *host, abx_provider *provider, const char *provider_id, abx_call *call,
                   abx_error **err)
{
    int rc = 0;
    abx_call_enter_start(call);
    if (abx__is_emulated(provider->features, call))
        abx__emulate(host, provider_id, call);
    else
        rc = provider->adapter->start(provider, call, err);
    abx_call_leave_start(call);
    return rc;
}

int abx__host_dispatch(abx_host *host, const char *provider_id, abx_call *call, abx_error **err)
{
    abx_provider *provider;
    if (abx__host_provider(host, provider_id, &provider, err) < 0 ||
        abx__host_gate(provider, provider_id, call, err) < 0)
        return -1;
    if (!provider->opening)
        return abx__host_give(host, provider, provider_id, call, err);
    abx__host_hold(host, provider, provider_id, call);
    return 0;
}

/* The parameters with another sandboxId. */
static void set_sandbox(abx_call *call, const char *id)
{
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_val_mut_copy(d, abx_call_params(call));
    yyjson_mut_doc_set_root(d, root);
    abx_mut_str(d, root, "sandboxId", id);
    abx_call_set_params(call, abx_json_freeze(d));
}

/* --- whose is it? ------------------------------------------------------------------------------------ */

#define ID_MIN 12 /* characters; what is shorter is a name, or the beginning of an id */

/* Ids of our own and those that services give: long, of letters, digits and a few signs, with a digit in it. */
static bool looks_like_id(const char *word)
{
    static const char signs[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    return abx_is_id(word) || (strlen(word) >= ID_MIN && word[strspn(word, signs)] == 0 &&
                               strpbrk(word, "0123456789") != NULL);
}

/* The provider that the user named for a word that the ledger does not know, or whose entry is corrupt: the word is then taken as an
 * id, so that a lost ledger loses no sandbox. NULL: none was named, and a provider that is only the default is no answer. */
static const char *named(abx_host *host, const char *forced)
{
    abx_source source = ABX_SOURCE_DEFAULT;
    const char *chosen = abx_config_get(host->config, "provider", &source, NULL);
    return forced ? forced : source == ABX_SOURCE_DEFAULT ? NULL : chosen;
}

int abx_host_find(abx_host *host, const char *forced, const char *word, abx_host_found *found,
                  abx_error **err)
{
    *found = (abx_host_found){0};
    if (host->exact_ids && forced) {
        *found = (abx_host_found){.id = abx_strdup(word), .provider = abx_strdup(forced)};
        return 0;
    }
    abx_ledger_entry entry;
    abx_error *why = NULL;
    if (abx__host_entry(host, word, &entry, &why) == 0) {
        *found =
            (abx_host_found){ABX_TAKE(entry.id), ABX_TAKE(entry.provider), ABX_TAKE(entry.profile)};
        abx_ledger_entry_clear(&entry);
        return 0;
    }
    const char *whose = named(host, forced);
    bool unknown = why->id == ABX_ERR_SANDBOX_NOT_FOUND;
    bool lost = (unknown || why->id == ABX_ERR_LOCAL_STATE) && looks_like_id(word);
    if (lost && whose) {
        abx_error_free(why);
        *found = (abx_host_found){.id = abx_strdup(word), .provider = abx_strdup(whose)};
        return 0;
    }
    if (lost && unknown)
        abx_hint(&why, "'abx ls' lists the sandboxes of this machine; for one that was made "
                       "elsewhere name its provider (--provider ID, in a program provider=ID)");
    return abx_error_take(err, why);
}

void abx_host_found_clear(abx_host_found *found)
{
    free(found->id);
    free(found->provider);
    free(found->profile);
    *found = (abx_host_found){0};
}

static int start_on_sandbox(abx_host *host, const char *forced, const char *typed, abx_call *call,
                            abx_error **err)
{
    ABX_AUTO_FREE char *word = abx_strdup(typed); /* set_sandbox ends what it is in */
    __attribute__((cleanup(abx_host_found_clear))) abx_host_found found;
    if (abx_host_find(host, forced, word, &found, err) < 0)
        return -1;
    const char *id = found.id, *provider = found.provider;
    if (!abx_str_eq(id, word))
        set_sandbox(call, id);
    if (abx_call_op(call)->id == ABX_OP_SANDBOX_FORK) /* what it makes needs an entry of its own */
        return abx__host_create(host, provider, word, call, err);
    abx__host_watch_result(host, provider, id, word, call);
    abx_error *why = NULL;
    if (abx__host_dispatch(host, provider, call, &why) == 0)
        return 0;
    abx_call_refused(call, &why);
    return abx_error_take(err, why);
}

int abx_host_check(abx_host *host, const char *forced, const abx_call *call, char **provider,
                   char **sandbox, abx_error **err)
{
    const abx_op_row *row = abx_call_op(call);
    yyjson_val *params = abx_call_params(call);
    *provider = *sandbox = NULL;
    if (abx_op_check_params(row, params, err) < 0 ||
        (row->id == ABX_OP_SANDBOX_CREATE && abx__host_check_create(params, err) < 0))
        return -1;
    const char *word = abx_json_str(params, "sandboxId", NULL);
    if (word) {
        __attribute__((cleanup(abx_host_found_clear))) abx_host_found found;
        if (abx_host_find(host, forced, word, &found, err) < 0)
            return -1;
        *sandbox = ABX_TAKE(found.id);
        *provider = ABX_TAKE(found.provider);
    }
    if (!*provider)
        *provider = abx_strdup(forced ? forced : abx_host_provider(host, NULL));
    abx_provider *opened;
    if (abx__host_provider(host, *provider, &opened, err) == 0 &&
        abx__host_gate(opened, *provider, call, err) == 0)
        return 0;
    free(ABX_TAKE(*provider));
    free(ABX_TAKE(*sandbox));
    return -1;
}

static int start(abx_host *host, const char *forced, abx_call *call, abx_error **err)
{
    const abx_op_row *row = abx_call_op(call);
    yyjson_val *params = abx_call_params(call);
    if (abx_op_check_params(row, params, err) < 0)
        return -1;
    const char *word = abx_json_str(params, "sandboxId", NULL);
    if (word)
        return start_on_sandbox(host, forced, word, call, err);
    const char *provider = forced ? forced : abx_host_provider(host, NULL);
    if (row->id == ABX_OP_SANDBOX_CREATE)
        return abx__host_create(host, provider, NULL, call, err);
    if (row->id == ABX_OP_PROVIDER_GC)
        return abx__host_gc(host, provider, call, err);
    abx__host_watch_result(host, provider, NULL, NULL, call);
    abx_error *why = NULL;
    if (abx__host_dispatch(host, provider, call, &why) == 0)
        return 0;
    abx_call_refused(call, &why);
    return abx_error_take(err, why);
}

int abx_host_start(abx_host *host, abx_call *call, abx_error **err)
{
    return start(host, NULL, call, err);
}

int abx_host_start_at(abx_host *host, const char *provider, abx_call *call, abx_error **err)
{
    return start(host, provider, call, err);
}

/* --- calls of the host's own ------------------------------------------------------------------------- */
typedef struct question {
    abx__host_done_cb cb;
    void *data;
} question;

static void on_answer(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    question q = *(question *)data;
    free(data);
    q.cb(q.data, result, err);
}

void abx__host_ask(abx_host *host, const char *provider_id, abx_op_id op, yyjson_mut_doc *params,
                   abx__host_done_cb cb, void *data)
{
    /* What is refused at once is answered as what fails later. */
    static const abx_call_backend refused = {0};
    static const abx_call_handlers handlers = {.on_end = on_answer};
    question *q = ABX_NEW(question);
    *q = (question){cb, data};
    abx_call *call = abx_call_new(host->loop, op, abx_json_freeze(params), &handlers, q);
    yyjson_mut_doc_free(params);
    abx_error *why = NULL;
    if (host->closing) /* its providers are on their way out */
        abx_fail(&why, ABX_ERR_CANCELLED, "cancelled");
    if (why || abx__host_dispatch(host, provider_id, call, &why) < 0) {
        abx_call_accept(call, &refused, NULL);
        abx_call_fail(call, why);
    }
}
