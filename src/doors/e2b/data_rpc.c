/* List, Update, SendSignal. */
#include "doors/e2b/data_inner.h"

#include <string.h>

/* --- List -------------------------------------------------------------------------------------------------------- */
static void put_process(yyjson_mut_doc *d, yyjson_mut_val *list, yyjson_val *config, int64_t pid,
                        const char *tag)
{
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
    abx_mut_val(d, o, "config", config);
    abx_mut_int(d, o, "pid", pid);
    abx_mut_str(d, o, "tag", tag);
}

static e2b_proc *known(const e2b_data *d, const char *id)
{
    for (abx_link *n = d->procs.next; n != &d->procs; n = n->next)
        if (abx_str_eq(ABX_OF(n, e2b_proc, node)->id, id))
            return ABX_OF(n, e2b_proc, node);
    return NULL;
}

/* Those of this door, and those that run from before. */
static void on_list(void *arg, yyjson_val *result, const abx_error *err)
{
    e2b_task *t = arg;
    const e2b_data *data = t->data;
    if (err && err->id != ABX_ERR_FEATURE_MISSING) {
        e2b_task_fail(t, E2B_ABOUT_PROCESS, err);
        return;
    }
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = yyjson_mut_arr(d);
    for (abx_link *n = data->procs.next; n != &data->procs; n = n->next) {
        const e2b_proc *p = ABX_OF(n, e2b_proc, node);
        if (p->started && !p->ended)
            put_process(d, list, yyjson_doc_get_root(p->config), p->pid, p->tag);
    }
    size_t i = 0, n = 0;
    yyjson_val *process = NULL;
    yyjson_arr_foreach(abx_json_get(result, "processes"), i, n, process)
    {
        int64_t pid = e2b_pid_of(process);
        if (pid <= 0 || known(data, abx_json_str(process, "id", "")) ||
            strcmp(abx_json_str(process, "state", ""), "running") != 0)
            continue;
        ABX_AUTO_JSON config = e2b_config_of(process);
        put_process(d, list, yyjson_doc_get_root(config), pid, NULL);
    }
    if (yyjson_mut_arr_size(list) > 0)
        abx_mut_put(d, root, "processes", list);
    e2b_task_answer(t, root);
}

void e2b_rpc_list(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    yyjson_mut_val *root = NULL;
    e2b_task *t = e2b_task_new(d, c, q);
    e2b_run(d, ABX_OP_PROCESS_LIST, e2b_params(d, NULL, &root), on_list, t);
}

/* --- Update ------------------------------------------------------------------------------------------------------ */
static void on_done(void *arg, yyjson_val *result, const abx_error *err)
{
    (void)result;
    if (err)
        e2b_task_fail(arg, E2B_ABOUT_PROCESS, err);
    else
        e2b_task_answer(arg, NULL);
}

static void update(e2b_data *d, abx_e2b_call *c, yyjson_val *q, e2b_proc *p)
{
    yyjson_val *pty = abx_json_get(q, "pty"), *size = abx_json_get(pty, "size");
    if (!pty) {
        abx_e2b_answer(c, NULL);
        return;
    }
    if (!p->tty) {
        abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL, "error resizing tty: tty not assigned to process");
        return;
    }
    e2b_task *t = e2b_task_new(d, c, q);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = e2b_params(d, NULL, &root);
    abx_mut_str(params, root, "ptyId", p->id);
    abx_mut_int(params, root, "cols", abx_json_int(size, "cols", 0) & 0xffff);
    abx_mut_int(params, root, "rows", abx_json_int(size, "rows", 0) & 0xffff);
    e2b_run(d, ABX_OP_PTY_RESIZE, params, on_done, t);
}

void e2b_rpc_update(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    e2b_select(d, c, q, false, update);
}

/* --- SendSignal ---------------------------------------------------------------------------------------------------- */
/* A provider without process.signal ends a process with the call that runs it: KILL is made of that. */
static void on_signalled(void *arg, yyjson_val *result, const abx_error *err)
{
    e2b_task *t = arg;
    bool missing = err && err->id == ABX_ERR_FEATURE_MISSING;
    e2b_proc *p = missing && t->path ? known(t->data, t->path) : NULL;
    if (!p || !p->call) {
        on_done(t, result, err);
        return;
    }
    p->killed = true;
    abx_call_cancel(p->call);
    e2b_task_answer(t, NULL);
}

static void send_signal(e2b_data *d, abx_e2b_call *c, yyjson_val *q, e2b_proc *p)
{
    yyjson_val *asked = abx_json_get(q, "signal");
    const char *name = yyjson_get_str(asked);
    const char *signal = abx_str_eq(name, "SIGNAL_SIGKILL")   ? "SIGKILL"
                         : abx_str_eq(name, "SIGNAL_SIGTERM") ? "SIGTERM"
                                                              : NULL;
    if (!signal && yyjson_is_int(asked) && yyjson_get_sint(asked) != 0) {
        abx_e2b_fail(c, ABX_E2B_CODE_UNIMPLEMENTED, "invalid signal: %lld",
                     (long long)yyjson_get_sint(asked));
        return;
    }
    if (!signal) {
        abx_e2b_fail(c, ABX_E2B_CODE_UNIMPLEMENTED, "invalid signal: SIGNAL_UNSPECIFIED");
        return;
    }
    e2b_task *t = e2b_task_new(d, c, q);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = e2b_params(d, NULL, &root);
    abx_mut_str(params, root, "processId", p->id);
    abx_mut_str(params, root, "signal", signal);
    if (p->own_call && strcmp(signal, "SIGKILL") == 0)
        t->path = abx_strdup(p->id);
    e2b_run(d, ABX_OP_PROCESS_SIGNAL, params, on_signalled, t);
}

void e2b_rpc_send_signal(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    e2b_select(d, c, q, false, send_signal);
}
