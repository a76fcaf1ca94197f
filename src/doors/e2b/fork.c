/* POST /sandboxes/{id}/fork: some new sandboxes with the files of one, made one after the other. */
#include "base/clock.h"
#include "base/mem.h"
#include "doors/e2b/control.h"

#define COUNT_MOST 100
#define TIMEOUT    15

typedef struct forking {
    yyjson_mut_doc *answer;
    int64_t left, timeout_s;
} forking;

static void free_forking(void *state)
{
    forking *k = state;
    yyjson_mut_doc_free(k->answer);
    free(k);
}

static void fork_one(e2b_request *r);

/* It is to its callers as its source is. NULL and *err: it must not be, and is killed. */
static e2b_box *adopt(e2b_request *r, yyjson_val *result, abx_error **err)
{
    const forking *k = r->state;
    yyjson_mut_val *root;
    const char *id = abx_json_str(result, "id", "");
    e2b_box *box = e2b_door_box_of(r->door, id); /* a list may have met it meanwhile */
    if (!box)
        box = e2b_box_add(r->door, id, NULL);
    yyjson_mut_doc *notes = e2b_notes_copy(r->box, &root);
    static const char *const own[] = {"startedAtMs", "timeoutS", "cold"};
    for (size_t i = 0; i < ABX_COUNT(own); i++)
        yyjson_mut_obj_remove_key(root, own[i]);
    abx_mut_int(notes, root, "startedAtMs", abx_now_wall_ms());
    abx_mut_int(notes, root, "timeoutS", k->timeout_s);
    if (e2b_box_note(box, notes, err) < 0) {
        e2b_box_undo(box);
        return NULL;
    }
    e2b_box_see(box, result);
    e2b_samples_watch(box);
    return box;
}

static void on_forked(void *data, yyjson_val *result, const abx_error *err)
{
    e2b_request *r = data;
    forking *k = r->state;
    yyjson_mut_val *list = yyjson_mut_doc_get_root(k->answer);
    if (err && err->id == ABX_ERR_FEATURE_MISSING) {
        e2b_reply_error(r, err);
        return;
    }
    yyjson_mut_val *entry = yyjson_mut_arr_add_obj(k->answer, list);
    ABX_AUTO_ERROR why = NULL;
    e2b_box *box = err || !abx_json_str(result, "id", NULL) ? NULL : adopt(r, result, &why);
    err = err ? err : why;
    if (!box) {
        yyjson_mut_val *o = abx_mut_obj(k->answer, entry, "error");
        abx_mut_int(k->answer, o, "code", err ? e2b_status_of(err) : 500);
        abx_mut_str(k->answer, o, "message", err ? abx_error_text(err) : "the provider told no id");
    } else {
        abx_mut_put(k->answer, entry, "sandbox", e2b_view_sandbox(k->answer, box));
        yyjson_mut_doc_set_root(k->answer, list);
    }
    if (--k->left > 0)
        fork_one(r);
    else
        e2b_reply(r, 201, list);
}

static void fork_one(e2b_request *r)
{
    const forking *k = r->state;
    yyjson_mut_val *root;
    yyjson_mut_doc *params = e2b_box_params(r->box, &root);
    abx_mut_int(params, root, "timeoutMs", k->timeout_s * 1000);
    if (yyjson_obj_size(e2b_box_metadata(r->box)) > 0)
        abx_mut_val(params, root, "metadata", e2b_box_metadata(r->box));
    if (r->box->env)
        abx_mut_val(params, root, "env", r->box->env);
    e2b_request_ask(r, ABX_OP_SANDBOX_FORK, params, on_forked);
}

static void fork_box(e2b_request *r)
{
    int64_t count = 1, seconds = TIMEOUT;
    if (e2b_body_int(r, "count", 1, COUNT_MOST, &count) < 0 ||
        e2b_body_int(r, "timeout", 1, INT32_MAX, &seconds) < 0)
        return;
    if (r->box->state == E2B_PAUSED) {
        e2b_reply_refuse(r, 409, "Sandbox is paused");
        return;
    }
    forking *k = ABX_NEW(forking);
    k->answer = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(k->answer, yyjson_mut_arr(k->answer));
    k->left = count;
    k->timeout_s = seconds;
    r->state = k;
    r->free_state = free_forking;
    fork_one(r);
}

void e2b_do_fork(e2b_request *r)
{
    e2b_with_box(r, true, fork_box);
}
