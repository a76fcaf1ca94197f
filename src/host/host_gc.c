/* provider.gc: sandboxes whose maker died before it could tell their id are ended, entries of sandboxes that are gone
 * are forgotten, then the backend clears its own left-overs. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "host/emulate.h"
#include "host/host_private.h"
#include "ops/call_host.h"

/* An atomic write takes some milliseconds. */
#define WRITER_IS_DEAD_S 60

typedef struct suspect {
    char *key;
    char *id;      /* or NULL: its maker did not hear it */
    bool complete; /* its maker told the id: only ask whether it lives */
} suspect;

typedef struct sweep {
    abx_host *host;
    abx_call *call; /* NULL once it is gone */
    char *provider;
    bool dry;
    bool labels; /* see abx_adapter */
    bool upkeep; /* the backend has something to clear, too */
    char **ids;  /* of the present suspect, found by its label; NULL at the end, or NULL */
    size_t id_next;
    bool left; /* one of them could not be ended: the entry stays */
    suspect *suspects;
    size_t count, next;
    yyjson_mut_doc *found; /* {"removed":[…]} of ours */
    yyjson_mut_val *removed;
} sweep;

static void free_ids(sweep *s)
{
    for (char **id = s->ids; id && *id; id++)
        free(*id);
    free(ABX_TAKE(s->ids));
    s->id_next = 0;
}

static void free_sweep(sweep *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->suspects[i].key);
        free(s->suspects[i].id);
    }
    free(s->suspects);
    free_ids(s);
    free(s->provider);
    yyjson_mut_doc_free(s->found);
    free(s);
}

/* Put what we removed in front of what the backend says. */
static void on_backend_done(abx_call *c, yyjson_mut_doc **result, abx_error **err, void *data)
{
    (void)c;
    sweep *s = data;
    if (!*err) {
        if (!*result)
            *result = abx_mut_new(NULL);
        yyjson_mut_val *root = yyjson_mut_doc_get_root(*result);
        yyjson_mut_val *list = yyjson_mut_obj_get(root, "removed");
        if (!yyjson_mut_is_arr(list))
            list = abx_mut_arr(*result, root, "removed");
        size_t i, n;
        yyjson_mut_val *item;
        yyjson_mut_arr_foreach(s->removed, i, n, item)
            yyjson_mut_arr_append(list, yyjson_mut_val_mut_copy(*result, item));
        yyjson_mut_arr_foreach(list, i, n, item) if (yyjson_mut_is_obj(item))
            abx_mut_str(*result, item, "provider", s->provider);
    }
    free_sweep(s);
}

static void on_cancel(abx_call *c, void *state)
{
    ((sweep *)state)->call = NULL;
    abx_call_fail(c, abx_error_new(ABX_ERR_CANCELLED, "cancelled"));
}

/* No on_release: s may be gone before the end that we gave is delivered. */
static const abx_call_backend sweeping = {.on_cancel = on_cancel};

static void step(sweep *s);

static void forget(sweep *s, const char *key)
{
    abx_ledger *ledger;
    if (abx__host_ledger(s->host, &ledger, NULL) == 0)
        abx_ledger_remove(ledger, key, NULL);
}

static void note(sweep *s, const char *key, const char *what)
{
    yyjson_mut_val *item = yyjson_mut_arr_add_obj(s->found, s->removed);
    abx_mut_str(s->found, item, "id", key);
    abx_mut_str(s->found, item, "what", what);
}

/* The provider's answer about a suspect: to the wish to end it, or to the question whether it lives. */
static void settle(sweep *s, const suspect *one, const abx_error *err)
{
    bool gone = err && err->id == ABX_ERR_SANDBOX_NOT_FOUND;
    if (err && !gone)
        abx_logf(s->host->log, ABX_LOG_WARN, "cannot %s sandbox '%s': %s",
                 one->complete ? "reach" : "end", one->key, err->message);
    if (!err && !one->complete)
        note(s, one->key, "sandbox that its maker never saw");
    if (gone)
        note(s, one->key, "entry of a sandbox that is gone");
    if (!s->dry && (gone || (!err && !one->complete)))
        forget(s, one->key);
}

static void on_answer(void *data, yyjson_val *result, const abx_error *err)
{
    (void)result;
    sweep *s = data;
    if (!s->call) { /* cancelled; the host may be closing */
        free_sweep(s);
        return;
    }
    settle(s, &s->suspects[s->next++], err);
    step(s);
}

/* --- sandboxes that have no id of ours: found by their label -------------------------------------------------- */
static void next_labelled(sweep *s);

static void on_labelled_killed(void *data, yyjson_val *result, const abx_error *err)
{
    (void)result;
    sweep *s = data;
    if (!s->call) {
        free_sweep(s);
        return;
    }
    const char *id = s->ids[s->id_next++];
    if (!err) {
        note(s, id, "sandbox that its maker never saw");
    } else if (err->id != ABX_ERR_SANDBOX_NOT_FOUND) {
        abx_logf(s->host->log, ABX_LOG_WARN, "cannot end sandbox '%s': %s", id, err->message);
        s->left = true;
    }
    next_labelled(s);
}

/* End the next one, or go on with the next suspect. */
static void next_labelled(sweep *s)
{
    for (; s->dry && s->ids[s->id_next]; s->id_next++)
        note(s, s->ids[s->id_next], "sandbox that its maker never saw");
    const char *id = s->ids[s->id_next];
    if (id) {
        yyjson_mut_val *root;
        yyjson_mut_doc *params = abx_mut_new(&root);
        abx_mut_str(params, root, "sandboxId", id);
        abx__host_ask(s->host, s->provider, ABX_OP_SANDBOX_KILL, params, on_labelled_killed, s);
        return;
    }
    if (!s->dry && !s->left)
        forget(s, s->suspects[s->next].key);
    s->left = false;
    free_ids(s);
    s->next++;
    step(s);
}

static void on_labelled(void *data, yyjson_val *result, const abx_error *err)
{
    sweep *s = data;
    if (!s->call) {
        free_sweep(s);
        return;
    }
    if (err) { /* the entry stays: it is all that is known */
        abx_logf(s->host->log, ABX_LOG_WARN, "cannot look for '%s': %s", s->suspects[s->next].key,
                 err->message);
        s->next++;
        step(s);
        return;
    }
    yyjson_val *list = abx_json_get(result, "sandboxes"), *box;
    size_t i, n, count = 0;
    s->ids = abx_alloc_array(yyjson_arr_size(list) + 1, sizeof *s->ids);
    yyjson_arr_foreach(list, i, n, box)
    {
        const char *id = abx_json_str(box, "id", NULL);
        if (id)
            s->ids[count++] = abx_strdup(id);
    }
    next_labelled(s);
}

static void look_for_label(sweep *s, const char *key)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *params = abx_mut_new(&root);
    yyjson_mut_val *labels = abx_mut_obj(params, root, "metadata");
    abx_mut_str(params, labels, ABX_KEY_LABEL, key);
    abx__host_ask(s->host, s->provider, ABX_OP_SANDBOX_LIST, params, on_labelled, s);
}

/* --- one after the other ---------------------------------------------------------------------------------------- */
static void end(sweep *s)
{
    abx_call *call = s->call;
    abx_call_intercept(call, on_backend_done, s);
    if (!s->upkeep) {
        abx_call_end(call, NULL);
        return;
    }
    abx_error *why = NULL;
    if (abx__host_dispatch(s->host, s->provider, call, &why) < 0)
        abx_call_fail(call, why);
}

static void step(sweep *s)
{
    if (s->next == s->count) {
        end(s);
        return;
    }
    const suspect *one = &s->suspects[s->next];
    if (s->labels && !one->complete) {
        look_for_label(s, one->key);
        return;
    }
    yyjson_mut_val *root;
    yyjson_mut_doc *params = abx_mut_new(&root);
    abx_mut_str(params, root, "sandboxId", one->id ? one->id : one->key);
    bool only_ask = one->complete || s->dry;
    abx__host_ask(s->host, s->provider, only_ask ? ABX_OP_SANDBOX_INFO : ABX_OP_SANDBOX_KILL,
                  params, on_answer, s);
}

/* All entries of this provider but those that are being made right now. */
static int find_suspects(sweep *s, abx_error **err)
{
    abx_ledger *ledger;
    abx_ledger_entry *entries = NULL;
    char **bad = NULL;
    size_t count = 0, bad_count = 0;
    if (abx__host_ledger(s->host, &ledger, err) < 0 ||
        abx_ledger_read(ledger, &entries, &count, &bad, &bad_count, err) < 0)
        return -1;
    s->suspects = abx_alloc_array(count + 1, sizeof(*s->suspects));
    for (size_t i = 0; i < count; i++) {
        abx_ledger_entry *e = &entries[i];
        if (strcmp(e->provider, s->provider) == 0 && (e->complete || !abx__host_creator_lives(e)))
            s->suspects[s->count++] = (suspect){abx_strdup(e->key), abx_strdup(e->id), e->complete};
    }
    abx_ledger_entries_free(entries, count);
    for (size_t i = 0; i < bad_count; i++) {
        abx_logf(s->host->log, ABX_LOG_WARN, "ledger: %s", bad[i]);
        free(bad[i]);
    }
    free(bad);
    return 0;
}

/* What atomic writes left whose writer was killed in the middle. */
static void sweep_temporaries(const abx_host *host)
{
    ABX_AUTO_FD home = open(host->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FD ledger = home < 0 ? -1 : openat(home, "ledger", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (home >= 0)
        (void)abx_sweep_temporaries(home, WRITER_IS_DEAD_S);
    if (ledger >= 0)
        (void)abx_sweep_temporaries(ledger, WRITER_IS_DEAD_S);
}

int abx__host_gc(abx_host *host, const char *provider_id, abx_call *call, abx_error **err)
{
    abx_provider *provider;
    if (abx__host_provider(host, provider_id, &provider, err) < 0)
        return -1;
    bool labels = provider->adapter->labels;
    bool upkeep = abx__features_have(provider->features, abx_call_op(call));
    if (!labels && abx__host_gate(provider, provider_id, call, err) < 0)
        return -1;
    sweep *s = ABX_NEW(sweep);
    s->host = host;
    s->call = call;
    s->provider = abx_strdup(provider_id);
    s->labels = labels;
    s->upkeep = upkeep;
    s->dry = abx_json_bool(abx_call_params(call), "dryRun", false);
    yyjson_mut_val *root;
    s->found = abx_mut_new(&root);
    s->removed = abx_mut_arr(s->found, root, "removed");
    if (find_suspects(s, err) < 0) {
        free_sweep(s);
        return -1;
    }
    if (!s->dry)
        sweep_temporaries(host);
    abx_call_accept(call, &sweeping, s);
    step(s);
    return 0;
}
