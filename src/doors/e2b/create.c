/* POST /sandboxes and /v2/sandboxes: what is asked for becomes parameters of sandbox.create, and notes of the door. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/e2b/control.h"
#include "doors/e2b/network.h"
#include "doors/e2b/templates.h"

#define TIMEOUT_V1 15
#define TIMEOUT_V2 300

typedef struct creation {
    e2b_wish wish; /* what it is made from */
    yyjson_mut_doc *params;
    yyjson_mut_doc *notes;
    int64_t timeout_s;
    bool tried_snapshot;
} creation;

static void free_creation(void *state)
{
    creation *k = state;
    e2b_wish_clear(&k->wish);
    yyjson_mut_doc_free(k->params);
    yyjson_mut_doc_free(k->notes);
    free(k);
}

/* --- what is asked for ------------------------------------------------------------------------------------------ */
static bool read_life(e2b_request *r, creation *k)
{
    bool auto_pause = false, memory = true, resume = false;
    k->timeout_s = r->v2 ? TIMEOUT_V2 : TIMEOUT_V1;
    int64_t given;
    int has = e2b_body_int(r, "timeout", INT32_MIN, INT32_MAX, &given);
    if (has < 0 || e2b_body_bool(r, "autoPause", &auto_pause) < 0 ||
        e2b_body_bool(r, "autoPauseMemory", &memory) < 0)
        return false;
    if (has && given <= 0) {
        e2b_reply_refuse(r, 400, "Timeout must be greater than 0");
        return false;
    }
    k->timeout_s = has ? given : k->timeout_s;
    yyjson_val *auto_resume = abx_json_get(r->body, "autoResume");
    resume = abx_json_bool(auto_resume, "enabled", false);
    if (!memory && (!auto_pause || resume)) {
        e2b_reply_refuse(
            r, 400,
            "validation error: 'autoPauseMemory' is false: it needs 'autoPause', and no "
            "'autoResume'");
        return false;
    }
    yyjson_mut_val *params = yyjson_mut_doc_get_root(k->params),
                   *notes = yyjson_mut_doc_get_root(k->notes);
    abx_mut_int(k->params, params, "timeoutMs", k->timeout_s * 1000);
    if (auto_pause)
        abx_mut_str(k->params, params, "onTimeout", "pause");
    abx_mut_bool(k->notes, notes, "autoPause", auto_pause);
    abx_mut_bool(k->notes, notes, "autoResume", resume);
    abx_mut_int(k->notes, notes, "timeoutS", k->timeout_s);
    if (!memory)
        abx_mut_bool(k->notes, notes, "coldAuto", true);
    return true;
}

static bool read_maps(e2b_request *r, creation *k)
{
    yyjson_val *metadata = NULL, *env = NULL;
    yyjson_mut_val *params = yyjson_mut_doc_get_root(k->params),
                   *notes = yyjson_mut_doc_get_root(k->notes);
    if (e2b_body_map(r, "metadata", &metadata) < 0 || e2b_body_map(r, "envVars", &env) < 0)
        return false;
    if (yyjson_obj_size(metadata) > 0)
        abx_mut_val(k->params, params, "metadata", metadata);
    if (yyjson_obj_size(env) > 0) {
        abx_mut_val(k->params, params, "env", env);
        abx_mut_val(k->notes, notes, "env", env);
    }
    return true;
}

static bool read_secure(e2b_request *r, creation *k)
{
    bool secure = r->v2;
    if (!r->v2 && e2b_body_bool(r, "secure", &secure) < 0)
        return false;
    abx_mut_bool(k->notes, yyjson_mut_doc_get_root(k->notes), "secure", secure);
    if (!secure && !abx_json_bool(abx_json_get(r->body, "network"), "allowPublicTraffic", true)) {
        e2b_reply_refuse(
            r, 400,
            "validation error: 'allowPublicTraffic' can be false only for a secure sandbox");
        return false;
    }
    return true;
}

/* What E2B has and this door does not. */
static bool refuse_extras(e2b_request *r)
{
    yyjson_val *mounts = abx_json_get(r->body, "volumeMounts");
    if (yyjson_arr_size(mounts) > 0)
        e2b_reply_refuse(r, 400, "volumes are not enabled");
    else if (abx_json_get(r->body, "iam"))
        e2b_reply_refuse(r, 400, "identity tokens are not enabled");
    else
        return true;
    return false;
}

static bool read_idempotency(e2b_request *r, creation *k)
{
    const char *key = r->x ? abx_exchange_header(r->x, "Idempotency-Key") : NULL;
    if (!key)
        return true;
    size_t n = strlen(key);
    if (n < 1 || n > 255 || strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789-") != n) {
        e2b_reply_refuse(r, 400, "validation error: Idempotency-Key is 1 to 255 of a-z, 0-9 and -");
        return false;
    }
    /* Keys of this door's callers do not meet those of others. */
    ABX_AUTO_FREE char *own = abx_format("e2b:%s", key);
    abx_mut_str(k->params, yyjson_mut_doc_get_root(k->params), "idempotencyKey", own);
    return true;
}

/* --- the call ------------------------------------------------------------------------------------------------------ */
static void request_it(e2b_request *r);

static void fail(e2b_request *r, const creation *k, const abx_error *err)
{
    if (err->id == ABX_ERR_TEMPLATE_NOT_FOUND || err->id == ABX_ERR_SNAPSHOT_NOT_FOUND) {
        ABX_AUTO_FREE char *shown = abx_printable(k->wish.given);
        e2b_reply_refuse(r, 404, "template '%s' not found", shown);
    } else {
        e2b_reply_error(r, err);
    }
}

static void on_created(void *data, yyjson_val *result, const abx_error *err)
{
    e2b_request *r = data;
    creation *k = r->state;
    if (err && err->id == ABX_ERR_TEMPLATE_NOT_FOUND && !k->wish.is_snapshot &&
        !k->tried_snapshot) {
        k->tried_snapshot = k->wish.is_snapshot =
            true; /* perhaps the command line made a snapshot of this name */
        request_it(r);
        return;
    }
    const char *id = abx_json_str(result, "id", NULL);
    if (err) {
        fail(r, k, err);
        return;
    }
    if (!id) {
        e2b_reply_refuse(r, 500, "the provider told no id");
        return;
    }
    e2b_box *box = e2b_door_box_of(r->door, id); /* a list may have met it meanwhile */
    if (!box)
        box = e2b_box_add(r->door, id, NULL);
    if (!e2b_box_is_noted(box)) { /* else an idempotency key was used again */
        yyjson_mut_val *notes = yyjson_mut_doc_get_root(k->notes);
        abx_mut_int(k->notes, notes, "startedAtMs", abx_now_wall_ms());
        if (!abx_json_get(result, "metadata")) /* the provider keeps none */
            abx_mut_val(k->notes, notes, "metadata", abx_json_get(r->body, "metadata"));
        ABX_AUTO_ERROR why = NULL;
        if (e2b_box_note(box, ABX_TAKE(k->notes), &why) < 0) {
            e2b_box_undo(box);
            e2b_reply_error(r, why);
            return;
        }
    }
    e2b_box_see(box, result);
    e2b_samples_watch(box);
    e2b_reply_sandbox(r, 201, box);
}

static void request_it(e2b_request *r)
{
    creation *k = r->state;
    yyjson_mut_val *root;
    yyjson_mut_doc *params = yyjson_mut_doc_mut_copy(k->params, NULL);
    root = yyjson_mut_doc_get_root(params);
    if (k->wish.name)
        abx_mut_str(params, root, k->wish.is_snapshot ? "snapshot" : "template", k->wish.name);
    e2b_request_ask(r, ABX_OP_SANDBOX_CREATE, params, on_created);
}

void e2b_do_create(e2b_request *r)
{
    creation *k = ABX_NEW(creation);
    yyjson_mut_val *params, *notes;
    k->params = yyjson_doc_mut_copy(r->door->defaults, NULL);
    params = yyjson_mut_doc_get_root(k->params);
    yyjson_mut_obj_remove_key(params, "timeoutMs"); /* it is always said */
    k->notes = abx_mut_new(&notes);
    r->state = k;
    r->free_state = free_creation;
    const char *template = abx_json_str(r->body, "templateID", NULL);
    if (!template || !*template) {
        e2b_reply_refuse(r, 400, "validation error: 'templateID' is missing");
        return;
    }
    abx_mut_str(k->notes, notes, "template", template);
    e2b_wish_read(r->door, template, &k->wish);
    if (read_life(r, k) && read_maps(r, k) && read_secure(r, k) && refuse_extras(r) &&
        read_idempotency(r, k) && e2b_network_read(r, k->params, k->notes))
        request_it(r);
}
