/* sandbox.snapshot_*, sandbox.fork: saved states. What makes something is sent once. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "e2b/service_inner.h"

/* A snapshot of the service as ours. 0; -1 and *err. */
static int put_snapshot(const char *route, yyjson_mut_doc *d, yyjson_mut_val *root, yyjson_val *v,
                        abx_error **err)
{
    yyjson_val *id = yyjson_obj_get(v, "snapshotID");
    if (!yyjson_is_str(id) || yyjson_get_len(id) == 0)
        return abx_error_take(err, abx__ctl_misfit(route, "'snapshotID' is missing"));
    abx_mut_val(d, root, "id", id);
    yyjson_val *name = yyjson_arr_get_first(abx_json_get(v, "names"));
    if (yyjson_is_str(name))
        abx_mut_val(d, root, "name", name);
    return 0;
}

/* --- create ----------------------------------------------------------------------------------------------------- */
static void on_made(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (!err)
        (void)put_snapshot(job->route, d, root, answer->root, &err);
    if (err) {
        abx__svc_job_fail(job, err);
        return;
    }
    abx_mut_str(d, root, "sandbox", job->sandbox);
    abx__svc_job_end(job, ABX_TAKE(d));
}

int abx__svc_snapshot_create(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    (void)err;
    yyjson_mut_val *body;
    ABX_AUTO_MUT d = abx_mut_new(&body);
    abx_mut_str(d, body, "name", abx_json_str(abx_call_params(call), "name", NULL));
    abx__svc_job *job = abx__svc_job_new(s, call);
    abx_call_event(call, "started", NULL);
    abx__svc_ask(job, ABX_OP_SANDBOX_SNAPSHOT_CREATE, "POST", "/sandboxes/{id}/snapshots", d, false,
                 on_made);
    return 0;
}

/* --- list -------------------------------------------------------------------------------------------------------- */
static void send_page(abx__svc_job *job, const char *cursor);

static int take_page(abx__svc_job *job, yyjson_val *page, abx_error **err)
{
    yyjson_val *item;
    size_t i, n;
    if (!yyjson_is_arr(page))
        return abx_error_take(err, abx__ctl_misfit(job->route, "it is not a list"));
    yyjson_arr_foreach(page, i, n, item)
    {
        yyjson_mut_val *one = yyjson_mut_arr_add_obj(job->result, job->items);
        if (put_snapshot(job->route, job->result, one, item, err) < 0)
            return -1;
    }
    return 0;
}

static void on_page(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    if (!err)
        (void)take_page(job, answer->root, &err);
    const char *next = abx__svc_next_page(job, answer, &err);
    if (err)
        abx__svc_job_fail(job, err);
    else if (next)
        send_page(job, next);
    else
        abx__svc_job_end(job, ABX_TAKE(job->result));
}

static void send_page(abx__svc_job *job, const char *cursor)
{
    const char *method = "GET";
    ABX_AUTO_FREE char *from = cursor ? abx_percent_encode(cursor, "") : NULL;
    ABX_AUTO_FREE char *route =
        abx__svc_route(job->service, ABX_OP_SANDBOX_SNAPSHOT_LIST, "/snapshots", NULL, &method);
    char *path = abx_format("%s%slimit=100%s%s", route, strchr(route, '?') ? "&" : "?",
                            from ? "&nextToken=" : "", from ? from : "");
    abx__svc_send send = {.method = method, .path = path, .repeat = true, .then = on_page};
    abx__svc_job_send(job, &send);
}

int abx__svc_snapshot_list(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    (void)err;
    abx__svc_job *job = abx__svc_job_new(s, call);
    yyjson_mut_val *root;
    job->result = abx_mut_new(&root);
    job->items = abx_mut_arr(job->result, root, "snapshots");
    send_page(job, NULL);
    return 0;
}

/* --- remove ------------------------------------------------------------------------------------------------------- */
static void on_removed(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    if (err && err->id == ABX_ERR_SNAPSHOT_NOT_FOUND && answer && answer->again)
        abx_error_free(ABX_TAKE(err));
    if (err)
        abx__svc_job_fail(job, err);
    else
        abx__svc_job_end(job, NULL);
}

int abx__svc_snapshot_remove(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    (void)err;
    const char *id = abx_json_str(abx_call_params(call), "snapshotId", "");
    const char *method = "DELETE";
    abx__svc_job *job = abx__svc_job_new(s, call);
    char *path = abx__svc_route(s, ABX_OP_SANDBOX_SNAPSHOT_REMOVE, "/templates/{id}", id, &method);
    abx__svc_send send = {.method = method,
                          .path = path,
                          .repeat = true,
                          .about = ABX__ABOUT_SNAPSHOT,
                          .subject = id,
                          .then = on_removed};
    abx__svc_job_send(job, &send);
    return 0;
}

/* --- fork ---------------------------------------------------------------------------------------------------------- */
static void on_forked(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    yyjson_val *first = err ? NULL : yyjson_arr_get_first(answer->root);
    yyjson_val *made = abx_json_get(first, "sandbox"), *failed = abx_json_get(first, "error");
    if (!err && !first)
        err = abx__ctl_misfit(job->route, "it is not a list of forks");
    else if (!err && !made && failed)
        err = abx_error_new(ABX_ERR_BACKEND, "%s", abx_json_str(failed, "message", "no reason"));
    else if (!err)
        (void)abx__svc_check_sandbox(job->route, made, &err);
    if (err) {
        abx__svc_job_fail(job, err);
        return;
    }
    abx__svc_box_learn(job->service, made);
    if (job->unwanted || (job->call && abx_call_is_cancelled(job->call))) {
        free(job->sandbox);
        job->sandbox = abx_strdup(abx_json_str(made, "sandboxID", ""));
        abx__svc_kill_unwanted(job, abx_error_new(ABX_ERR_CANCELLED, "the call was cancelled"));
        return;
    }
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx__svc_put_sandbox(d, root, made);
    abx__svc_job_end(job, d);
}

int abx__svc_fork(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    static const char *const kept[] = {"metadata", "env", "network"};
    yyjson_val *params = abx_call_params(call);
    yyjson_mut_val *body;
    ABX_AUTO_MUT d = abx_mut_new(&body);
    for (size_t i = 0; i < ABX_COUNT(kept); i++)
        if (abx_json_get(params, kept[i]))
            return abx_fail(err, ABX_ERR_FEATURE_MISSING,
                            "provider '%s' has no '%s' of a fork: it has what its source has",
                            s->provider, kept[i]);
    int64_t timeout = abx_json_int(params, "timeoutMs", 300000);
    if (abx__svc_put_timeout(s, d, body, timeout, err) < 0)
        return -1;
    abx_mut_int(d, body, "count", 1);
    abx__svc_job *job = abx__svc_job_new(s, call);
    job->cancel = abx__svc_unwant;
    abx__svc_ask(job, ABX_OP_SANDBOX_FORK, "POST", "/sandboxes/{id}/fork", d, false, on_forked);
    return 0;
}
