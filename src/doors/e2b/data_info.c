/* /health, /metrics, /envs. */
#include "doors/e2b/data_inner.h"

#include <string.h>

/* --- /health: is the sandbox there? ------------------------------------------------------------------------------ */
typedef struct visit {
    abx_link node;
    e2b_data *data;
    abx_e2b_call *call; /* NULL: it was answered, or its client is gone */
} visit;

static void say_gone(const e2b_data *data, abx_e2b_call *c)
{
    ABX_AUTO_MUT d = abx_mut_new(NULL);
    abx_e2b_call_handle(c, NULL, NULL);
    abx_e2b_answer_status(c, 502,
                          e2b_data_refusal(d, 502, data->box->id, 0, "The sandbox was not found"));
}

/* The question is this one: who asks it is never cut off. */
void e2b_health_gone(e2b_data *d)
{
    for (abx_link *n = d->visits.next; n != &d->visits; n = n->next) {
        visit *v = ABX_OF(n, visit, node);
        if (v->call)
            say_gone(d, ABX_TAKE(v->call));
    }
}

static void on_looked(void *data, e2b_box *box, const abx_error *err)
{
    (void)err;
    visit *v = data;
    e2b_data *d = v->data;
    abx_e2b_call *c = ABX_TAKE(v->call);
    if (c && box->state == E2B_RUNNING) {
        abx_e2b_call_handle(c, NULL, NULL);
        abx_e2b_answer(c, NULL);
    } else if (c) {
        say_gone(d, c);
    }
    abx_link_remove(&v->node);
    free(v);
    e2b_plane_release(d);
}

static void visit_gone(abx_e2b_call *c, bool expired, void *data)
{
    (void)c;
    (void)expired;
    ((visit *)data)->call = NULL;
}

void e2b_rpc_health(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    static const abx_e2b_call_handlers on = {.on_close = visit_gone};
    (void)q;
    visit *v = ABX_NEW(visit);
    v->data = d;
    v->call = c;
    abx_link_append(&d->visits, &v->node);
    e2b_plane_hold(d);
    abx_e2b_call_handle(c, &on, v);
    e2b_box_look(d->box, on_looked, v);
}

/* --- /metrics ------------------------------------------------------------------------------------------------------ */
static void on_metrics(void *arg, yyjson_val *m, const abx_error *err)
{
    e2b_task *t = arg;
    if (!t->call || err) {
        if (t->call) {
            abx_e2b_call_handle(t->call, NULL, NULL);
            e2b_refuse_call(t->data, ABX_TAKE(t->call), err);
        }
        e2b_task_free(t);
        return;
    }
    int64_t total = abx_json_int(m, "memTotal", 0), used = abx_json_int(m, "memUsed", 0);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_int(d, root, "ts", abx_now_wall_ms() / 1000);
    abx_mut_int(d, root, "cpu_count", abx_json_int(m, "cpuCount", 0));
    (void)yyjson_mut_obj_add_real(d, root, "cpu_used_pct",
                                  yyjson_get_num(abx_json_get(m, "cpuUsedPct")));
    abx_mut_int(d, root, "mem_total_mib", total >> 20);
    abx_mut_int(d, root, "mem_used_mib", used >> 20);
    abx_mut_int(d, root, "mem_total", total);
    abx_mut_int(d, root, "mem_used", used);
    abx_mut_int(d, root, "mem_cache", abx_json_int(m, "memCache", 0));
    abx_mut_int(d, root, "disk_used", abx_json_int(m, "diskUsed", 0));
    abx_mut_int(d, root, "disk_total", abx_json_int(m, "diskTotal", 0));
    e2b_task_answer(t, root);
}

void e2b_rpc_metrics(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    yyjson_mut_val *root = NULL;
    e2b_run(d, ABX_OP_SANDBOX_METRICS, e2b_params(d, NULL, &root), on_metrics,
            e2b_task_new(d, c, q));
}

/* --- /envs -------------------------------------------------------------------------------------------------------- */
void e2b_rpc_envs(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    (void)q;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT out = abx_mut_new(&root);
    yyjson_obj_iter it = yyjson_obj_iter_with(d->box->env);
    for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
        abx_mut_val(out, root, yyjson_get_str(k), yyjson_obj_iter_get_val(k));
    e2b_env_put(d, out, root);
    abx_e2b_answer(c, root);
}
