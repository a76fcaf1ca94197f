/* sandbox.snapshot_* on `local`: pause and hold, copy, let go on. A sandbox that its user has paused stays so. */
#include <string.h>

#include "adapters/builtin/local.h"
#include "base/mem.h"

#define HOLD_MS  5000
#define RENEW_MS 1000

struct local_snapshot {
    local_provider *p;
    char *sandbox, *name;
    local_snapshot_options o;
    abx_local_job *job;
    uv_timer_t timer; /* renews the hold */
    bool held;        /* the pause is ours */
    bool is_cancelled;
    int asks; /* control requests that run */
    bool timer_closed;
    yyjson_doc *result; /* or error: how it ended */
    abx_error *error;
};

static void free_snapshot(local_snapshot *s)
{
    free(s->sandbox);
    free(s->name);
    yyjson_doc_free(s->result);
    abx_error_free(s->error);
    free(s);
}

/* All is over when no request runs and the timer is closed. */
static void finish(local_snapshot *s)
{
    if (s->asks > 0 || !s->timer_closed)
        return;
    s->o.on_done(s->o.data, s->error ? NULL : yyjson_doc_get_root(s->result), s->error);
    free_snapshot(s);
}

static void on_timer_closed(uv_handle_t *handle)
{
    local_snapshot *s = handle->data;
    s->timer_closed = true;
    finish(s);
}

static int ask(local_snapshot *s, const char *path, bool renew, bool held,
               void (*cb)(void *data, yyjson_val *answer, const abx_error *err), abx_error **err)
{
    local_box *box = local_box_get(s->p, s->sandbox, err);
    if (!box)
        return -1;
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (held) {
        abx_mut_bool(d, root, "held", true);
    } else {
        abx_mut_int(d, root, "holdMs", HOLD_MS);
        abx_mut_bool(d, root, "renew", renew);
    }
    ABX_AUTO_JSON body = abx_json_freeze(d);
    if (abx_envd_client_control(box->client, path, yyjson_doc_get_root(body), cb, s, err) < 0)
        return -1;
    s->asks++;
    return 0;
}

static void end(local_snapshot *s, abx_error *why)
{
    if (why && !s->error)
        s->error = why;
    else
        abx_error_free(why);
    if (!uv_is_closing((uv_handle_t *)&s->timer))
        uv_close((uv_handle_t *)&s->timer, on_timer_closed);
    finish(s);
}

static void on_resumed(void *data, yyjson_val *answer, const abx_error *err)
{
    local_snapshot *s = data;
    abx_error *why = NULL;
    s->asks--;
    if (err && err->id != ABX_ERR_SANDBOX_ENDED && err->id != ABX_ERR_SANDBOX_NOT_FOUND)
        why = abx_error_copy(err);
    else if (!err && !abx_json_bool(answer, "wasPaused", false) && !s->error)
        why = abx_error_new(ABX_ERR_CONFLICT, "sandbox '%s' went on before its files were copied",
                            s->sandbox);
    end(s, why);
}

static void on_copied(void *data, yyjson_val *result, const abx_error *err)
{
    local_snapshot *s = data;
    abx_error *why = NULL;
    s->job = NULL;
    s->error = abx_error_copy(err);
    s->result = err ? NULL : abx_json_copy(result);
    uv_timer_stop(&s->timer);
    if (!s->held || ask(s, "/abx/resume", false, true, on_resumed, &why) < 0)
        end(s, why);
}

static void on_renewed(void *data, yyjson_val *answer, const abx_error *err)
{
    local_snapshot *s = data;
    (void)answer;
    (void)err; /* the end of the hold is noticed at the end */
    s->asks--;
    finish(s);
}

static void on_timer(uv_timer_t *timer)
{
    local_snapshot *s = timer->data;
    (void)ask(s, "/abx/pause", true, false, on_renewed, NULL);
}

static void on_event(void *data, yyjson_val *event)
{
    local_snapshot *s = data;
    if (s->o.on_event)
        s->o.on_event(s->o.data, event);
}

static void on_paused(void *data, yyjson_val *answer, const abx_error *err)
{
    local_snapshot *s = data;
    abx_error *why = NULL;
    yyjson_mut_val *root;
    s->asks--;
    s->held = !err && abx_json_bool(answer, "held", false);
    if (err || s->is_cancelled) {
        why = err ? abx_error_copy(err) : abx_error_new(ABX_ERR_CANCELLED, "cancelled");
        if (!s->held) {
            end(s, why);
            return;
        }
        s->error = why;
        why = NULL;
        if (ask(s, "/abx/resume", false, true, on_resumed, &why) < 0)
            end(s, why);
        return;
    }
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "sandboxId", s->sandbox);
    abx_mut_str(d, root, "name", s->name);
    ABX_AUTO_JSON params = abx_json_freeze(d);
    abx_local_job_options options = {
        .job = "snapshot_create",
        .params = yyjson_doc_get_root(params),
        .with_root = s->p->id_range,
        .on_event = on_event,
        .on_done = on_copied,
        .data = s,
    };
    if (s->held)
        uv_timer_start(&s->timer, on_timer, RENEW_MS, RENEW_MS);
    if (abx_local_job_start(s->p->local, &options, &s->job, &why) < 0) {
        on_copied(s, NULL, why);
        abx_error_free(why);
    }
}

int local_snapshot_start(local_provider *p, const local_snapshot_options *o, local_snapshot **out,
                         abx_error **err)
{
    local_snapshot *s = ABX_NEW(local_snapshot);
    s->p = p;
    s->o = *o;
    s->sandbox = abx_strdup(o->sandbox);
    s->name = abx_strdup(o->name);
    if (ask(s, "/abx/pause", false, false, on_paused, err) < 0) {
        free_snapshot(s);
        return -1;
    }
    uv_timer_init(p->loop, &s->timer);
    s->timer.data = s;
    *out = s;
    return 0;
}

void local_snapshot_cancel(local_snapshot *s)
{
    s->is_cancelled = true;
    if (s->job)
        abx_local_job_cancel(s->job);
}

/* --- calls ---------------------------------------------------------------------------------------------- */

typedef struct taking {
    local_wait wait; /* first */
    local_snapshot *snapshot;
} taking;

static void free_taking(local_wait *w)
{
    free(w);
}

static void on_progress(void *data, yyjson_val *event)
{
    taking *t = data;
    if (!t->wait.call)
        return;
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_int(d, root, "bytes", abx_json_int(event, "bytes", 0));
    (void)abx_call_event(t->wait.call, "progress", d);
}

static void on_done(void *data, yyjson_val *result, const abx_error *err)
{
    local_wait_end(data, result, err);
}

static void on_cancel(local_wait *w)
{
    local_snapshot_cancel(((taking *)w)->snapshot);
}

static int create(local_provider *p, abx_call *call, abx_error **err)
{
    yyjson_val *params = abx_call_params(call);
    taking *t = ABX_NEW(taking);
    t->wait.cancel = on_cancel;
    t->wait.free = free_taking;
    local_snapshot_options o = {
        .sandbox = abx_json_str(params, "sandboxId", ""),
        .name = abx_json_str(params, "name", NULL),
        .on_event = on_progress,
        .on_done = on_done,
        .data = t,
    };
    if (local_snapshot_start(p, &o, &t->snapshot, err) < 0) {
        free(t);
        return -1;
    }
    local_wait_accept(&t->wait, call);
    (void)abx_call_event(call, "started", NULL);
    return 0;
}

int local_snapshots(local_provider *p, abx_call *call, abx_error **err)
{
    switch (abx_call_op(call)->id) {
    case ABX_OP_SANDBOX_SNAPSHOT_CREATE: return create(p, call, err);
    case ABX_OP_SANDBOX_SNAPSHOT_REMOVE:
        return local_job(p, call, "snapshot_remove", abx_call_params(call), err);
    default: return local_answer(call, abx_local_snapshot_list(p->local, err));
    }
}
