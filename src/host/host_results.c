/* What the host does with results: the provider's id in sandbox objects, and the ledger kept true. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "host/emulate.h"
#include "host/unborn.h"
#include "ops/call_host.h"

typedef struct watch {
    abx_host *host;
    char *provider;
    char *sandbox;           /* NULL: a list */
    char *word;              /* that was typed for it */
    abx_ledger_entry *known; /* of a list: what the ledger held when it was asked */
    size_t known_count;
} watch;

static void free_watch(watch *w)
{
    free(w->provider);
    free(w->sandbox);
    free(w->word);
    abx_ledger_entries_free(w->known, w->known_count);
    free(w);
}

/* word: a key, or the id of a sandbox, whose entry may have another key */
static void forget(watch *w, const char *word)
{
    abx_ledger *ledger;
    abx_ledger_entry e = {0};
    abx_error *why = NULL;
    int rc = abx__host_ledger(w->host, &ledger, &why);
    if (rc == 0 && abx_ledger_find(ledger, word, &e, NULL) == 0 &&
        strcmp(e.provider, w->provider) == 0 &&
        (abx_str_eq(e.id, word) || strcmp(e.key, word) == 0)) /* no name, no beginning of an id */
        rc = abx_ledger_remove(ledger, e.key, &why);
    abx_ledger_entry_clear(&e);
    if (rc < 0)
        abx_logf(w->host->log, ABX_LOG_WARN, "ledger: %s", abx_error_text(why));
    abx_error_free(why);
}

/* Was this entry there before the list was made? What came later is not in it. Clocks tell nothing: they are set. */
static bool was_known(const watch *w, const abx_ledger_entry *e)
{
    for (size_t i = 0; i < w->known_count; i++)
        if (strcmp(w->known[i].key, e->key) == 0)
            return true;
    return false;
}

static void remember_known(watch *w)
{
    abx_ledger *ledger;
    char **bad = NULL;
    size_t bad_count = 0;
    if (abx__host_ledger(w->host, &ledger, NULL) < 0 ||
        abx_ledger_read(ledger, &w->known, &w->known_count, &bad, &bad_count, NULL) < 0)
        return;
    for (size_t i = 0; i < bad_count; i++)
        free(bad[i]); /* told when the list is there */
    free(bad);
}

static bool is_listed(yyjson_mut_val *list, const char *id)
{
    size_t i, n;
    yyjson_mut_val *box;
    yyjson_mut_arr_foreach(list, i, n, box)
    {
        const char *have = yyjson_mut_get_str(yyjson_mut_obj_get(box, "id"));
        if (have && strcmp(have, id) == 0)
            return true;
    }
    return false;
}

/* After a whole list: entries of this provider that are not in it are gone; unfinished ones that are in it were made
 * by a creator that died before it could say so. */
static void compare_ledger(watch *w, yyjson_mut_val *list)
{
    abx_ledger *ledger;
    abx_ledger_entry *entries = NULL;
    char **bad = NULL;
    size_t count = 0, bad_count = 0;
    abx_id_giver giver = abx__host_id_giver(w->host, w->provider);
    if (abx__host_ledger(w->host, &ledger, NULL) < 0 ||
        abx_ledger_read(ledger, &entries, &count, &bad, &bad_count, NULL) < 0)
        return;
    for (size_t i = 0; i < count; i++) {
        abx_ledger_entry *e = &entries[i];
        if (strcmp(e->provider, w->provider) != 0 || !was_known(w, e))
            continue;
        if (!e->complete && (giver == ABX_GIVER_SERVICE || abx__unborn_listed(list, e->key)))
            continue; /* its id is another: gc finds it */
        bool listed = is_listed(list, e->id ? e->id : e->key);
        if (!listed && (e->complete || !abx__host_creator_lives(e)))
            forget(w, e->key);
    }
    abx_ledger_entries_free(entries, count);
    for (size_t i = 0; i < bad_count; i++) {
        abx_logf(w->host->log, ABX_LOG_WARN, "ledger: %s", bad[i]);
        free(bad[i]);
    }
    free(bad);
}

static void see_list(watch *w, abx_call *c, yyjson_mut_doc *result)
{
    yyjson_mut_val *list = yyjson_mut_obj_get(yyjson_mut_doc_get_root(result), "sandboxes");
    size_t i, n;
    yyjson_mut_val *box;
    yyjson_mut_arr_foreach(list, i, n, box) if (yyjson_mut_is_obj(box))
        abx_mut_str(result, box, "provider", w->provider);
    if (!abx_json_get(abx_call_params(c), "metadata"))
        compare_ledger(w, list);
    if (abx__host_id_giver(w->host, w->provider) == ABX_GIVER_HOST)
        return;
    yyjson_mut_arr_foreach(list, i, n, box) abx__unborn_hide(box);
}

/* Its creator will go and it stays: an entry that was never finished would look like a leftover. */
static void keep(watch *w)
{
    abx_ledger *ledger;
    abx_ledger_entry e = {0};
    abx_error *why = NULL;
    int rc = abx__host_ledger(w->host, &ledger, &why);
    if (rc == 0 && abx_ledger_find(ledger, w->sandbox, &e, NULL) == 0 && !e.complete)
        rc = abx_ledger_complete(ledger, e.key, e.id, NULL, &why);
    abx_ledger_entry_clear(&e);
    if (rc < 0)
        abx_logf(w->host->log, ABX_LOG_WARN, "ledger: %s", abx_error_text(why));
    abx_error_free(why);
}

/* What a sandbox can do is what its provider can, and what the host makes of that. */
static void tell_provider(const watch *w, yyjson_mut_doc *result)
{
    yyjson_mut_val *box = yyjson_mut_doc_get_root(result);
    abx_provider *provider;
    if (abx__host_id_giver(w->host, w->provider) != ABX_GIVER_HOST)
        abx__unborn_hide(box);
    abx_mut_str(result, box, "provider", w->provider);
    if (abx__host_provider(w->host, w->provider, &provider, NULL) < 0)
        return;
    ABX_AUTO_JSON features = abx__features_with_emulated(provider->features);
    yyjson_mut_obj_remove_key(box, "features");
    abx_mut_val(result, box, "features", yyjson_doc_get_root(features));
}

static void on_result(abx_call *c, yyjson_mut_doc **result, abx_error **err, void *data)
{
    watch *w = data;
    abx_op_id op = abx_call_op(c)->id;
    if (*err)
        abx__host_explain(w->host, w->provider, abx_has_prefix(abx_call_op(c)->method, "sandbox."),
                          *err);
    bool gone = *err && (*err)->id == ABX_ERR_SANDBOX_NOT_FOUND;
    if (*err && !(*err)->provider)
        (*err)->provider = abx_strdup(w->provider);
    if (*err && w->sandbox && !(*err)->sandbox)
        (*err)->sandbox = abx_strdup(w->sandbox);
    if (*err && w->sandbox)
        abx__host_tell_word(*err, w->sandbox, w->word);
    if (w->sandbox && (gone || (!*err && op == ABX_OP_SANDBOX_KILL)))
        forget(w, w->sandbox);
    if (w->sandbox && !*err && op == ABX_OP_PROCESS_DETACH)
        keep(w);
    if (!*err && *result && op == ABX_OP_SANDBOX_LIST)
        see_list(w, c, *result);
    if (!*err && *result && (op == ABX_OP_SANDBOX_INFO || op == ABX_OP_SANDBOX_CONNECT))
        tell_provider(w, *result);
    free_watch(w);
}

void abx__host_watch_result(abx_host *host, const char *provider_id, const char *sandbox_id,
                            const char *word, abx_call *call)
{
    watch *w = ABX_NEW(watch);
    w->host = host;
    w->provider = abx_strdup(provider_id);
    w->sandbox = abx_strdup(sandbox_id);
    w->word = abx_strdup(word);
    if (abx_call_op(call)->id == ABX_OP_SANDBOX_LIST)
        remember_known(w);
    abx_call_intercept(call, on_result, w);
}
