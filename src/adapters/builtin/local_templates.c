/* sandbox.template_* on `local`. Looking is answered at once; adding and removing are work in a process of its own. */
#include <string.h>

#include "adapters/builtin/local.h"
#include "base/mem.h"

typedef struct task {
    local_wait wait; /* first */
    abx_local_job *job;
} task;

static void free_task(local_wait *w)
{
    free(w);
}

static void on_event(void *data, yyjson_val *event)
{
    task *t = data;
    if (!t->wait.call || abx_call_op(t->wait.call)->style != ABX_STYLE_STREAM)
        return;
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(d, yyjson_val_mut_copy(d, event));
    (void)abx_call_event(t->wait.call, "progress",
                         d); /* a slow reader misses nothing that it needs */
}

static void on_done(void *data, yyjson_val *result, const abx_error *err)
{
    local_wait_end(data, result, err);
}

static void on_cancel(local_wait *w)
{
    abx_local_job_cancel(((task *)w)->job);
}

int local_job(local_provider *p, abx_call *call, const char *job, yyjson_val *params,
              abx_error **err)
{
    task *t = ABX_NEW(task);
    t->wait.cancel = on_cancel;
    t->wait.free = free_task;
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
    local_wait_accept(&t->wait, call);
    if (abx_call_op(call)->style == ABX_STYLE_STREAM)
        (void)abx_call_event(call, "started", NULL);
    return 0;
}

int local_templates(local_provider *p, abx_call *call, abx_error **err)
{
    yyjson_val *params = abx_call_params(call);
    switch (abx_call_op(call)->id) {
    case ABX_OP_SANDBOX_TEMPLATE_LIST:
        return local_answer(call, abx_local_template_list(p->local, err));
    case ABX_OP_SANDBOX_TEMPLATE_INFO:
        return local_answer(
            call, abx_local_template_info(p->local, abx_json_str(params, "template", ""), err));
    case ABX_OP_SANDBOX_TEMPLATE_ADD: return local_job(p, call, "template_add", params, err);
    case ABX_OP_SANDBOX_TEMPLATE_REMOVE: return local_job(p, call, "template_remove", params, err);
    default:
        return abx_fail(err, ABX_ERR_INTERNAL, "local does not know %s", abx_call_op(call)->method);
    }
}
