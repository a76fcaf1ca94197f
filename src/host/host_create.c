/* sandbox.create: the ledger entry comes first, then the request, then the entry is completed. A name or an
 * idempotency key that an entry holds is looked at: its sandbox may be gone. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/unborn.h"
#include "ops/call_host.h"

typedef struct creation {
    abx_host *host;
    abx_call *call; /* NULL once it is gone */
    char *provider;
    char *word;            /* that was typed for the one that is forked, or NULL */
    bool tied;             /* it ends with the caller */
    char *key;             /* of the entry that we write; also the id that we propose */
    char *holder;          /* key of the entry that stands in the way */
    char *holder_provider; /* … and its provider */
    bool holder_same_key;  /* it holds our idempotency key */
    bool holder_reused;    /* it holds our name, which may be reused */
    bool unfinished;       /* its maker died before it could complete the entry */
    bool resumed;          /* the holder was paused and has been connected to */
    int rounds;
} creation;

/* --- who makes it -------------------------------------------------------------------------------------- */

/* Field 22 of /proc/PID/stat: start time in clock ticks; 0 when there is no such process or it is a zombie. */
static uint64_t start_time(int pid)
{
    ABX_AUTO_FREE char *path = abx_format("/proc/%d/stat", pid);
    abx_buf text = ABX_BUF(0);
    if (abx_read_file(path, 4096, &text, NULL) != 0)
        return 0;
    uint64_t start = 0;
    char state = 'Z';
    const char *after = strrchr(abx_buf_cstr(&text), ')');
    if (after && sscanf(after + 1,
                        " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                        "%*s %lu",
                        &state, &start) != 2)
        start = 0;
    abx_buf_clear(&text);
    return state == 'Z' ? 0 : start;
}

bool abx__host_creator_lives(const abx_ledger_entry *entry)
{
    return entry->creator_pid > 0 && entry->creator_start > 0 &&
           start_time(entry->creator_pid) == entry->creator_start;
}

void abx__host_self_identity(abx_ledger_entry *entry)
{
    entry->creator_pid = (int)getpid();
    entry->creator_start = start_time(entry->creator_pid);
}

/* --- the end of a create ------------------------------------------------------------------------------- */
static void free_creation(creation *k)
{
    free(k->provider);
    free(k->word);
    free(k->key);
    free(k->holder);
    free(k->holder_provider);
    free(k);
}

/* True if the request may have made a sandbox although the call failed: the entry stays for gc. */
static bool may_exist(const abx_error *e)
{
    return e->id == ABX_ERR_TIMEOUT || e->id == ABX_ERR_CANCELLED || e->id == ABX_ERR_NETWORK ||
           e->id == ABX_ERR_BACKEND_ANSWER || e->id == ABX_ERR_PROVIDER_CRASHED;
}

static void on_created(abx_call *c, yyjson_mut_doc **result, abx_error **err, void *data)
{
    creation *k = data;
    abx_ledger *ledger;
    abx_error *why = NULL;
    int rc = abx__host_ledger(k->host, &ledger, &why);
    if (*err) {
        abx__host_explain(k->host, k->provider, true, *err);
        if (!(*err)->provider)
            (*err)->provider = abx_strdup(k->provider);
        if (k->word)
            abx__host_tell_word(*err, abx_json_str(abx_call_params(c), "sandboxId", ""), k->word);
        if (rc == 0)
            rc = may_exist(*err) ? abx_ledger_give_up(ledger, k->key, &why)
                                 : abx_ledger_remove(ledger, k->key, &why);
    } else if (*result) {
        yyjson_mut_val *root = yyjson_mut_doc_get_root(*result);
        const char *id = yyjson_mut_get_str(yyjson_mut_obj_get(root, "id"));
        /* A tied sandbox ends with this process: its entry, written with the id, is as good as complete. */
        if (rc == 0 && id && !(k->tied && strcmp(id, k->key) == 0))
            rc = abx_ledger_complete(ledger, k->key, id, NULL, &why);
        abx_mut_str(*result, root, "provider", k->provider);
        if (abx__host_id_giver(k->host, k->provider) != ABX_GIVER_HOST)
            abx__unborn_hide(root);
    }
    if (rc < 0)
        abx_logf(k->host->log, ABX_LOG_WARN, "ledger: %s", abx_error_text(why));
    abx_error_free(why);
    free_creation(k);
}

/* --- the request --------------------------------------------------------------------------------------- */
static int write_entry(creation *k, abx_error **err)
{
    abx_ledger *ledger;
    if (abx__host_ledger(k->host, &ledger, err) < 0)
        return -1;
    yyjson_val *p = abx_call_params(k->call);
    ABX_AUTO_FREE char *name = abx_strdup(abx_json_str(p, "name", NULL));
    ABX_AUTO_FREE char *idem = abx_strdup(abx_json_str(p, "idempotencyKey", NULL));
    ABX_AUTO_FREE char *profile =
        abx_strdup(abx_config_get(k->host->config, "profile", NULL, NULL));
    abx_ledger_entry e = {.key = k->key,
                          .id = k->tied ? k->key : NULL,
                          .name = name,
                          .provider = k->provider,
                          .profile = profile,
                          .idempotency_key = idem,
                          .created_wall_ms = abx_now_wall_ms()};
    abx__host_self_identity(&e);
    free(k->holder);
    k->holder = NULL;
    return abx_ledger_begin(ledger, &e, &k->holder, err);
}

static void propose_id(creation *k)
{
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_val_mut_copy(d, abx_call_params(k->call));
    yyjson_mut_doc_set_root(d, root);
    yyjson_mut_obj_remove_key(root, "reuse"); /* answered here, no adapter knows it */
    abx_mut_str(d, root, "id", k->key);
    if (abx_call_op(k->call)->id == ABX_OP_SANDBOX_CREATE && /* a fork has what its source has */
        abx__host_id_giver(k->host, k->provider) != ABX_GIVER_HOST)
        abx__unborn_mark(d, root, k->key);
    abx_call_set_params(k->call, abx_json_freeze(d));
}

static int ask_holder(creation *k, abx_error **err);

/* One round: 0 when the call is on its way (k is owned by its end), -1 and *err (k is still the caller's). */
static int try_create(creation *k, abx_error **err)
{
    abx_error *why = NULL;
    if (write_entry(k, &why) < 0) {
        if (why->id == ABX_ERR_CONFLICT && k->holder && k->rounds++ < 3) {
            abx_error_free(why);
            return ask_holder(k, err);
        }
        return abx_error_take(err, why);
    }
    propose_id(k);
    abx_call_intercept(k->call, on_created, k);
    if (abx__host_dispatch(k->host, k->provider, k->call, &why) == 0)
        return 0;
    abx_call_refused(k->call, &why);
    abx_error_take(err, why);
    return -2; /* k is freed */
}

/* --- an entry stands in the way ------------------------------------------------------------------------- */
static void on_wait_cancel(abx_call *c, void *state)
{
    ((creation *)state)->call = NULL;
    abx_call_fail(c, abx_error_new(ABX_ERR_CANCELLED, "cancelled"));
}

/* No on_release: k may be gone before the end that we gave is delivered. */
static const abx_call_backend waiting = {.on_cancel = on_wait_cancel};

static void conflict(creation *k, yyjson_val *holder)
{
    const char *id = abx_json_str(holder, "id", k->holder);
    const char *name = abx_json_str(abx_call_params(k->call), "name", "");
    abx_error *e =
        abx_error_new(ABX_ERR_CONFLICT, "a sandbox named '%s' lives already: %s", name, id);
    e->hint = abx_format("'abx kill %s' ends it, --reuse takes it; or choose another name", id);
    e->sandbox = abx_strdup(id);
    abx_call_fail(k->call, e);
}

static void on_holder(void *data, yyjson_val *info, const abx_error *err);

/* The one that is wanted lives. A paused one is resumed first: create answers with one that takes commands. True if k was
 * kept for that. */
static bool end_with_holder(creation *k, yyjson_val *info)
{
    if (!k->holder_same_key && strcmp(k->holder_provider, k->provider) != 0) {
        const char *id = abx_json_str(info, "id", k->holder);
        abx_error *e =
            abx_error_new(ABX_ERR_CONFLICT, "sandbox '%s' has this name, at provider '%s'", id,
                          k->holder_provider);
        e->hint = abx_format("'abx kill %s' ends it; or choose another name", id);
        e->sandbox = abx_strdup(id);
        abx_call_fail(k->call, e);
        return false;
    }
    if (!k->resumed && abx_str_eq(abx_json_str(info, "state", NULL), "paused")) {
        yyjson_mut_val *params_root;
        yyjson_mut_doc *params = abx_mut_new(&params_root);
        abx_mut_str(params, params_root, "sandboxId", abx_json_str(info, "id", k->holder));
        k->resumed = true;
        abx__host_ask(k->host, k->holder_provider, ABX_OP_SANDBOX_CONNECT, params, on_holder, k);
        return true;
    }
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_val_mut_copy(d, info);
    yyjson_mut_doc_set_root(d, root);
    abx_mut_str(d, root, "provider", k->holder_provider);
    abx_call_end(k->call, d);
    return false;
}

/* The holder is gone: its entry too, and then once more. k is owned by others, or gone. */
static void take_its_place(creation *k)
{
    abx_ledger *ledger;
    abx_error *why = NULL;
    int rc = abx__host_ledger(k->host, &ledger, &why);
    if (rc == 0)
        rc = abx_ledger_remove(ledger, k->holder, &why);
    abx_call *call = k->call;
    if (rc == 0)
        rc = try_create(k, &why);
    if (rc == 0)
        return;
    abx_call_fail(call, why);
    if (rc != -2)
        free_creation(k);
}

/* Whatever the answer: one that cannot be ended while it is made ends by itself, since its maker is dead. */
static void on_unborn_ended(void *data, yyjson_val *result, const abx_error *err)
{
    (void)result;
    (void)err;
    creation *k = data;
    if (k->call)
        take_its_place(k);
    else
        free_creation(k);
}

/* It may have come to life under the proposed id all the same, known to nobody. */
static void end_unborn(creation *k)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *params = abx_mut_new(&root);
    abx_mut_str(params, root, "sandboxId", k->holder);
    abx__host_ask(k->host, k->holder_provider, ABX_OP_SANDBOX_KILL, params, on_unborn_ended, k);
}

/* The entry is all that leads to one that could not be ended: it is not given up. */
static void on_labelled_ended(void *data, char *const *ids, const abx_error *err)
{
    creation *k = data;
    if (k->call && (!err || err->id == ABX_ERR_FEATURE_MISSING)) {
        if (*ids)
            take_its_place(k);
        else
            end_unborn(k);
        return;
    }
    if (k->call)
        abx_call_fail(k->call, abx_error_copy(err));
    free_creation(k);
}

static void on_holder(void *data, yyjson_val *info, const abx_error *err)
{
    creation *k = data;
    if (!k->call) {
        free_creation(k);
        return;
    }
    if (err && err->id == ABX_ERR_SANDBOX_NOT_FOUND && k->unfinished) {
        if (abx__host_id_giver(k->host, k->holder_provider) == ABX_GIVER_HOST)
            end_unborn(k);
        else
            abx__unborn_end(k->host, k->holder_provider, k->holder, false, on_labelled_ended, k);
        return;
    }
    if (err && err->id == ABX_ERR_SANDBOX_NOT_FOUND) {
        take_its_place(k);
        return;
    }
    if (err) {
        abx_call_fail(k->call, abx_error_copy(err));
    } else if (k->holder_same_key || k->holder_reused) {
        if (end_with_holder(k, info))
            return;
    } else {
        conflict(k, info);
    }
    free_creation(k);
}

/* Find the entry that stands in the way and ask its provider whether the sandbox lives. Returns as try_create. */
static int ask_holder(creation *k, abx_error **err)
{
    abx_ledger *ledger;
    abx_ledger_entry e = {0};
    abx_error *why = NULL;
    if (abx__host_ledger(k->host, &ledger, err) < 0)
        return -1;
    if (abx_ledger_find(ledger, k->holder, &e, &why) < 0) {
        if (why->id != ABX_ERR_SANDBOX_NOT_FOUND)
            return abx_error_take(err, why);
        abx_error_free(why); /* it went away just now */
        return try_create(k, err);
    }
    yyjson_val *asked = abx_call_params(k->call);
    const char *idem = abx_json_str(asked, "idempotencyKey", NULL);
    k->holder_same_key = abx_str_eq(idem, e.idempotency_key);
    k->holder_reused = abx_json_bool(asked, "reuse", false) &&
                       abx_str_eq(abx_json_str(asked, "name", NULL), e.name);
    k->unfinished = !e.complete;
    bool busy = k->unfinished && abx__host_creator_lives(&e);
    yyjson_mut_val *root;
    yyjson_mut_doc *params = abx_mut_new(&root);
    abx_mut_str(params, root, "sandboxId", e.id ? e.id : e.key);
    free(k->holder_provider);
    k->holder_provider = abx_strdup(e.provider);
    abx_ledger_entry_clear(&e);
    if (busy) {
        yyjson_mut_doc_free(params);
        abx_fail(err, ABX_ERR_CONFLICT, "a sandbox with this name or key is being made right now");
        return abx_hint(err, "try again when it is there");
    }
    abx__host_ask(k->host, k->holder_provider, ABX_OP_SANDBOX_INFO, params, on_holder, k);
    abx_call_accept(k->call, &waiting, k);
    return 0;
}

int abx__host_check_create(yyjson_val *params, abx_error **err)
{
    const char *name = abx_json_str(params, "name", NULL);
    if (!name && abx_json_bool(params, "reuse", false))
        return abx_fail(err, ABX_ERR_USAGE, "'reuse' needs a name");
    if (!name || abx_is_name(name))
        return 0;
    abx_fail(err, ABX_ERR_USAGE, "'%s' is no sandbox name", name);
    return abx_hint(err, "use up to 63 of a-z, 0-9 and '-', beginning with a letter or a digit");
}

int abx__host_create(abx_host *host, const char *provider_id, const char *word, abx_call *call,
                     abx_error **err)
{
    abx_provider *provider;
    if (abx__host_check_create(abx_call_params(call), err) < 0 ||
        abx__host_provider(host, provider_id, &provider, err) < 0 ||
        abx__host_gate(provider, provider_id, call, err) < 0)
        return -1;
    creation *k = ABX_NEW(creation);
    k->host = host;
    k->call = call;
    k->provider = abx_strdup(provider_id);
    k->word = abx_strdup(word);
    k->tied = provider->adapter->ties && abx_json_bool(abx_call_params(call), "tied", false);
    k->key = abx_alloc(ABX_ID_LEN + 1);
    abx_random_id(k->key, ABX_ID_LEN);
    int rc = try_create(k, err);
    if (rc == -1)
        free_creation(k);
    return rc < 0 ? -1 : 0;
}
