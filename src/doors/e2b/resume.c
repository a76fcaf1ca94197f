/* Letting a paused sandbox go on. A pause that was to keep only files is made of one that keeps all: before anybody reaches the
 * sandbox again, what ran in it is ended, and its contexts of code begin anew. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/e2b/control.h"

#define ROUND_MS 10
#define ROUNDS   500 /* some seconds */

typedef struct resuming {
    e2b_box *box; /* referenced */
    bool cold;
    size_t waiting; /* for ends of processes and contexts */
    yyjson_doc *object;
    abx_error *err;
    int alive, rounds; /* of processes that are to end */
    uv_timer_t timer;
} resuming;

static void on_timer_closed(uv_handle_t *timer)
{
    resuming *k = timer->data;
    e2b_box *box = k->box;
    free(k);
    e2b_box_unref(box);
}

/* The end for all who wait. */
static void finish(resuming *k)
{
    e2b_box *box = k->box;
    if (k->object) {
        yyjson_mut_val *root;
        yyjson_mut_doc *notes = e2b_notes_copy(box, &root);
        yyjson_mut_obj_remove_key(root, "startedAtMs");
        yyjson_mut_obj_remove_key(root, "cold");
        abx_mut_int(notes, root, "startedAtMs", abx_now_wall_ms());
        (void)e2b_box_note(box, notes, NULL); /* the file of before says as much about its ports */
        e2b_box_see(box, yyjson_doc_get_root(k->object));
    } else if (k->err->id == ABX_ERR_SANDBOX_NOT_FOUND) {
        e2b_box_forget(box);
    }
    e2b_wait_over(&box->resumers, box, k->err);
    yyjson_doc_free(k->object);
    abx_error_free(k->err);
    uv_close((uv_handle_t *)&k->timer, on_timer_closed);
}

/* --- a cold start --------------------------------------------------------------------------------------------------- */
static void end_processes(uv_timer_t *timer);

/* Who was killed is gone a moment later: it is asked for again until nothing runs. */
static void step(resuming *k)
{
    if (--k->waiting > 0)
        return;
    if (k->alive > 0 && k->rounds++ < ROUNDS)
        uv_timer_start(&k->timer, end_processes, ROUND_MS, 0);
    else
        finish(k);
}

static void on_step(void *data, yyjson_val *result, const abx_error *err)
{
    resuming *k = data;
    (void)result;
    if (err && err->id != ABX_ERR_PROCESS_NOT_FOUND && err->id != ABX_ERR_FEATURE_MISSING)
        abx_logf(k->box->door->log, ABX_LOG_WARN, "e2b: cold start of '%s': %s", k->box->id,
                 abx_error_text(err));
    step(k);
}

static void on_killed(void *data, yyjson_val *result, const abx_error *err)
{
    resuming *k = data;
    if (err && err->id != ABX_ERR_PROCESS_NOT_FOUND)
        k->rounds = ROUNDS; /* once more would end no other way */
    on_step(k, result, err);
}

static void ask(resuming *k, abx_op_id op, const char *name, const char *value, e2b_answer_cb cb)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *params = e2b_box_params(k->box, &root);
    if (name)
        abx_mut_str(params, root, name, value);
    if (op == ABX_OP_PROCESS_SIGNAL)
        abx_mut_str(params, root, "signal", "KILL");
    k->waiting++;
    e2b_ask(k->box->door, op, params, cb, k);
}

static void on_processes(void *data, yyjson_val *result, const abx_error *err)
{
    resuming *k = data;
    yyjson_val *list = abx_json_get(result, "processes"), *p;
    size_t i, n;
    yyjson_arr_foreach(list, i, n, p)
    {
        const char *id = abx_json_str(p, "id", NULL);
        if (!id || abx_json_get(p, "exitCode") || abx_json_get(p, "signal") ||
            !abx_str_eq(abx_json_str(p, "state", "running"), "running"))
            continue;
        k->alive++;
        ask(k, ABX_OP_PROCESS_SIGNAL, "processId", id, on_killed);
    }
    on_step(k, result, err);
}

static void end_processes(uv_timer_t *timer)
{
    resuming *k = timer->data;
    k->alive = 0;
    ask(k, ABX_OP_PROCESS_LIST, NULL, NULL, on_processes);
}

static void on_contexts(void *data, yyjson_val *result, const abx_error *err)
{
    resuming *k = data;
    yyjson_val *list = abx_json_get(result, "contexts"), *c;
    size_t i, n;
    yyjson_arr_foreach(list, i, n, c)
    {
        const char *id = abx_json_str(c, "id", NULL);
        if (id)
            ask(k, ABX_OP_CODE_CONTEXT_RESTART, "contextId", id, on_step);
    }
    on_step(k, result, err);
}

static void on_connected(void *data, yyjson_val *result, const abx_error *err)
{
    resuming *k = data;
    if (err)
        k->err = abx_error_copy(err);
    else
        k->object = abx_json_copy(result);
    k->waiting = 1;
    if (!err && k->cold) {
        ask(k, ABX_OP_PROCESS_LIST, NULL, NULL, on_processes);
        ask(k, ABX_OP_CODE_CONTEXT_LIST, NULL, NULL, on_contexts);
    }
    step(k);
}

void e2b_resume(e2b_box *box, int64_t timeout_s, bool cold, e2b_look_cb cb, void *data)
{
    yyjson_val *notes = yyjson_doc_get_root(box->notes);
    if (!e2b_wait(&box->resumers, cb, data))
        return;
    resuming *k = ABX_NEW(resuming);
    k->box = box;
    ABX_CHECK(uv_timer_init(box->door->loop, &k->timer) == 0);
    k->timer.data = k;
    k->cold = cold || abx_json_bool(notes, "cold", abx_json_bool(notes, "coldAuto", false));
    e2b_box_ref(box);
    if (timeout_s == 0)
        timeout_s = abx_json_int(notes, "timeoutS", 0);
    yyjson_mut_val *root;
    yyjson_mut_doc *params = e2b_box_params(box, &root);
    if (timeout_s > 0)
        abx_mut_int(params, root, "timeoutMs", timeout_s * 1000);
    e2b_ask(box->door, ABX_OP_SANDBOX_CONNECT, params, on_connected, k);
}
