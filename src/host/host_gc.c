/* provider.gc: sandboxes whose maker died before it could tell their id are ended, entries of sandboxes that are gone
 * are forgotten, then the backend clears its own left-overs. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "host/emulate.h"
#include "host/unborn.h"
#include "ops/call_host.h"

/* An atomic write takes some milliseconds. */
#define WRITER_IS_DEAD_S 60
/* Longer than a create takes: by then what a service was asked for is there, or never will be. */
#define STILL_COMING_MS  (15 * 60 * 1000)

typedef struct suspect {
    char *key;
    char *id;      /* or NULL: its maker did not hear it */
    bool complete; /* its maker told the id: only ask whether it lives */
    bool young;    /* it was asked for a short while ago */
} suspect;

typedef struct sweep {
    abx_host *host;
    abx_call *call; /* NULL once it is gone */
    char *provider;
    bool dry;
    abx_id_giver giver;
    bool upkeep; /* the backend has something to clear, too */
    suspect *suspects;
    size_t count, next;
    yyjson_mut_doc *found; /* {"removed":[…]} of ours */
    yyjson_mut_val *removed;
} sweep;

static void free_sweep(sweep *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->suspects[i].key);
        free(s->suspects[i].id);
    }
    free(s->suspects);
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
static void ask(sweep *s);

static void on_labelled(void *data, char *const *ids, const abx_error *err)
{
    sweep *s = data;
    if (!s->call) {
        free_sweep(s);
        return;
    }
    const suspect *one = &s->suspects[s->next];
    for (char *const *id = ids; *id; id++)
        note(s, *id, "sandbox that its maker never saw");
    bool unlisted = err && err->id == ABX_ERR_FEATURE_MISSING;
    if (!err && !*ids &&
        one->young) { /* it may come to life yet: the entry leads to it the next time */
        s->next++;
        step(s);
        return;
    }
    if (s->giver == ABX_GIVER_EITHER && !*ids && (!err || unlisted)) {
        ask(s);
        return;
    }
    if (err) /* the entry stays: it is all that is known */
        abx_logf(s->host->log, ABX_LOG_WARN, "cannot look for what '%s' may be: %s", one->key,
                 err->message);
    if (!err && !s->dry)
        forget(s, one->key);
    s->next++;
    step(s);
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
    if (s->giver != ABX_GIVER_HOST && !one->complete)
        abx__unborn_end(s->host, s->provider, one->key, s->dry, on_labelled, s);
    else
        ask(s);
}

/* By its id, or the one that was proposed for it: does it live? What its maker never saw is ended. */
static void ask(sweep *s)
{
    const suspect *one = &s->suspects[s->next];
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
    int64_t now = abx_now_wall_ms();
    if (abx__host_ledger(s->host, &ledger, err) < 0 ||
        abx_ledger_read(ledger, &entries, &count, &bad, &bad_count, err) < 0)
        return -1;
    s->suspects = abx_alloc_array(count + 1, sizeof(*s->suspects));
    for (size_t i = 0; i < count; i++) {
        abx_ledger_entry *e = &entries[i];
        int64_t age = now - e->created_wall_ms;
        if (strcmp(e->provider, s->provider) == 0 && (e->complete || !abx__host_creator_lives(e)))
            s->suspects[s->count++] = (suspect){abx_strdup(e->key), abx_strdup(e->id), e->complete,
                                                age >= 0 && age < STILL_COMING_MS};
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
    abx_id_giver giver = abx__host_id_giver(host, provider_id);
    bool upkeep = abx__features_have(provider->features, abx_call_op(call));
    if (giver == ABX_GIVER_HOST && abx__host_gate(provider, provider_id, call, err) < 0)
        return -1;
    sweep *s = ABX_NEW(sweep);
    s->host = host;
    s->call = call;
    s->provider = abx_strdup(provider_id);
    s->giver = giver;
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
