/* sandbox.info, kill, set_timeout, pause: one question each. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "e2b/service_inner.h"

void abx__svc_ask(abx__svc_job *job, abx_op_id op, const char *method, const char *path,
                  yyjson_mut_doc *body, bool repeat,
                  void (*then)(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err))
{
    const char *query = strchr(path, '?');
    ABX_AUTO_FREE char *usual = abx_strndup(path, strcspn(path, "?"));
    ABX_AUTO_FREE char *route = abx__svc_route(job->service, op, usual, job->sandbox, &method);
    char *full = abx_format("%s%s", route, query ? query : "");
    abx__svc_send send = {.method = method,
                          .path = full,
                          .body = body,
                          .repeat = repeat,
                          .makes = !repeat,
                          .about = ABX__ABOUT_SANDBOX,
                          .subject = job->sandbox,
                          .then = then};
    abx__svc_job_send(job, &send);
}

/* --- info -------------------------------------------------------------------------------------------------------- */
static void on_info(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    if (!err)
        (void)abx__svc_check_sandbox(job->route, answer->root, &err);
    if (err) {
        abx__svc_job_fail(job, err);
        return;
    }
    abx__svc_box_learn(job->service, answer->root);
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx__svc_put_sandbox(d, root, answer->root);
    abx__svc_job_end(job, d);
}

int abx__svc_info(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    (void)err;
    abx__svc_job *job = abx__svc_job_new(s, call);
    abx__svc_ask(job, ABX_OP_SANDBOX_INFO, "GET", "/sandboxes/{id}", NULL, true, on_info);
    return 0;
}

/* --- kill -------------------------------------------------------------------------------------------------------- */
static void on_killed(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    bool gone = err && err->id == ABX_ERR_SANDBOX_NOT_FOUND;
    if (err && !gone) {
        abx__svc_job_fail(job, err);
        return;
    }
    if (gone && answer && answer->again) /* by the first sending, whose answer was lost */
        abx_error_free(ABX_TAKE(err));
    abx__svc_box_forget(abx__svc_box_find(job->service, job->sandbox), true);
    if (err)
        abx__svc_job_fail(job, err);
    else
        abx__svc_job_end(job, NULL);
}

int abx__svc_kill(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    (void)err;
    abx__svc_job *job = abx__svc_job_new(s, call);
    abx__svc_ask(job, ABX_OP_SANDBOX_KILL, "DELETE", "/sandboxes/{id}", NULL, true, on_killed);
    return 0;
}

/* --- set_timeout -------------------------------------------------------------------------------------------------- */
static void on_timeout_set(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    (void)answer;
    if (err) {
        abx__svc_job_fail(job, err);
        return;
    }
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    int64_t seconds = abx_json_int(yyjson_doc_get_root(job->body), "timeout", 0);
    if (seconds > 0) {
        char text[ABX_RFC3339_SIZE];
        abx_format_rfc3339(abx_now_wall_ms() + seconds * 1000, text);
        abx_mut_str(d, root, "expiresAt", text);
    }
    abx__svc_job_end(job, d);
}

int abx__svc_set_timeout(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    yyjson_mut_val *body;
    ABX_AUTO_MUT d = abx_mut_new(&body);
    int64_t ms = abx_json_int(abx_call_params(call), "timeoutMs", 0);
    if (abx__svc_put_timeout(s, d, body, ms, err) < 0)
        return -1;
    abx__svc_job *job = abx__svc_job_new(s, call);
    job->body = abx_json_freeze(d);
    abx__svc_ask(job, ABX_OP_SANDBOX_SET_TIMEOUT, "POST", "/sandboxes/{id}/timeout", d, true,
                 on_timeout_set);
    return 0;
}

/* --- pause ---------------------------------------------------------------------------------------------------------- */
static void on_paused(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    bool was = err && answer && answer->status == 409;
    if (err && !was) {
        abx__svc_job_fail(job, err);
        return;
    }
    abx_error_free(err);
    abx__svc_box *box = abx__svc_box_find(job->service, job->sandbox);
    if (box)
        box->paused = true; /* what runs in it is not cut from here: it may go on later */
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_bool(d, root, "paused", !was || answer->again);
    abx__svc_job_end(job, d);
}

int abx__svc_pause(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    (void)err;
    yyjson_mut_val *body;
    ABX_AUTO_MUT d = abx_mut_new(&body);
    abx__svc_job *job = abx__svc_job_new(s, call);
    abx__svc_ask(job, ABX_OP_SANDBOX_PAUSE, "POST", "/sandboxes/{id}/pause", d, true, on_paused);
    return 0;
}
