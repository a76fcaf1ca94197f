/* sandbox.template_* on `local`. Looking is answered at once; adding and removing are work in a process of its own. */
#include <string.h>

#include "adapters/builtin/local.h"
#include "base/mem.h"

typedef struct task {
    abx_call *call; /* NULL once it was let go */
    abx_local_job *job;
    bool finished, released; /* two owners: the job and the call; the second to let go frees */
} task;

static void on_event(void *data, yyjson_val *event)
{
    task *t = data;
    if (!t->call || abx_call_op(t->call)->style != ABX_STYLE_STREAM)
        return;
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(d, yyjson_val_mut_copy(d, event));
    (void)abx_call_event(t->call, "progress", d); /* a slow reader misses nothing that it needs */
}

static void on_done(void *data, yyjson_val *result, const abx_error *err)
{
    task *t = data;
    t->job = NULL;
    t->finished = true;
    if (t->call && err)
        abx_call_fail(t->call, abx_error_copy(err));
    else if (t->call)
        local_end(t->call, abx_json_copy(result));
    if (t->released)
        free(t);
}

static void on_cancel(abx_call *c, void *state)
{
    task *t = state;
    (void)c;
    if (t->job)
        abx_local_job_cancel(t->job);
}

static void on_release(abx_call *c, void *state)
{
    task *t = state;
    (void)c;
    t->call = NULL;
    t->released = true;
    if (t->finished)
        free(t);
}

int local_job(local_provider *p, abx_call *call, const char *job, yyjson_val *params,
              abx_error **err)
{
    static const abx_call_backend backend = {.on_cancel = on_cancel, .on_release = on_release};
    task *t = ABX_NEW(task);
    abx_local_job_options options = {
        .job = job,
        .params = params,
        .with_root = p->id_range,
        .on_event = on_event,
        .on_done = on_done,
        .data = t,
    };
    if (abx_local_job_start(p->local, &options, &t->job, err) < 0) {
        free(t);
        return -1;
    }
    t->call = call;
    abx_call_accept(call, &backend, t);
    if (abx_call_op(call)->style == ABX_STYLE_STREAM)
        (void)abx_call_event(call, "started", NULL);
    return 0;
}

static int answer(abx_call *call, yyjson_doc *result)
{
    static const abx_call_backend at_once = {0};
    if (!result)
        return -1;
    abx_call_accept(call, &at_once, NULL);
    local_end(call, result);
    return 0;
}

int local_templates(local_provider *p, abx_call *call, abx_error **err)
{
    yyjson_val *params = abx_call_params(call);
    switch (abx_call_op(call)->id) {
    case ABX_OP_SANDBOX_TEMPLATE_LIST: return answer(call, abx_local_template_list(p->local, err));
    case ABX_OP_SANDBOX_TEMPLATE_INFO:
        return answer(call,
                      abx_local_template_info(p->local, abx_json_str(params, "template", ""), err));
    case ABX_OP_SANDBOX_TEMPLATE_ADD: return local_job(p, call, "template_add", params, err);
    case ABX_OP_SANDBOX_TEMPLATE_REMOVE: return local_job(p, call, "template_remove", params, err);
    default:
        return abx_fail(err, ABX_ERR_INTERNAL, "local does not know %s", abx_call_op(call)->method);
    }
}
