/* After a create: a gateway may lead to a new sandbox only some seconds later. envd's /health is asked until it answers, within
 * the caller's time; a sandbox that cannot be reached is ended again. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "e2b/service_inner.h"

#define FIRST_MS  200 /* then twice as long each time */
#define LAST_MS   2000
#define SILENT_MS 20000 /* so long nobody at all may answer, not even a gateway */

static void ask(abx__svc_job *job, uint64_t delay_ms);

/* The gateway says that it cannot reach envd, or nobody says anything. What else comes is from the sandbox. */
static bool is_out_of_reach(const abx__ctl_answer *answer)
{
    return !answer || answer->status >= 500 || answer->status == 404;
}

static void on_health(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    uint64_t now = abx_now_mono_ms();
    uint64_t wait_ms = job->step < 4 ? (uint64_t)FIRST_MS << job->step : LAST_MS;
    job->step++;
    if (!err || !is_out_of_reach(answer)) {
        abx_error_free(err);
        abx__svc_job_end(job, ABX_TAKE(job->result));
    } else if (now + wait_ms < job->ready_until && (answer || now < job->silent_until)) {
        if (answer)
            job->silent_until = ABX_FOREVER;
        abx_error_free(err);
        ask(job, wait_ms);
    } else {
        abx_wrap(&err, "sandbox '%s' was made, but cannot be reached", job->sandbox);
        job->cancel = abx__svc_unwant;
        abx__svc_kill_unwanted(job, err);
    }
}

static void ask(abx__svc_job *job, uint64_t delay_ms)
{
    const abx_e2b_service *s = job->service;
    const abx__svc_box *box = abx__svc_box_find(job->service, job->sandbox);
    ABX_AUTO_FREE char *base =
        abx__svc_port_url(s, job->sandbox, box ? box->domain : NULL, ABX_E2B_ENVD_PORT);
    ABX_AUTO_FREE char *url = abx_format("%s/health", base);
    ABX_AUTO_FREE char *id = abx_format("E2b-Sandbox-Id: %s", job->sandbox);
    ABX_AUTO_FREE char *port = abx_format("E2b-Sandbox-Port: %d", ABX_E2B_ENVD_PORT);
    ABX_AUTO_FREE char *token =
        box && box->token ? abx_format("X-Access-Token: %s", box->token) : NULL;
    const char *const headers[] = {id, port, token, NULL};
    abx__svc_send send = {.method = "GET",
                          .path = abx_strdup("/health"),
                          .url = url,
                          .headers = headers,
                          .about = ABX__ABOUT_SERVICE,
                          .delay_ms = delay_ms,
                          .then = on_health};
    abx__svc_job_send(job, &send);
}

/* Not to be waited for any longer, nor for the pause before the next question. */
static void on_cancel(abx__svc_job *job)
{
    abx__ctl_cancel(ABX_TAKE(job->request));
    job->cancel = abx__svc_unwant;
    abx__svc_kill_unwanted(job, abx_error_new(ABX_ERR_CANCELLED, "the call was cancelled"));
}

void abx__svc_wait_ready(abx__svc_job *job, yyjson_mut_doc *result)
{
    uint64_t now = abx_now_mono_ms();
    job->result = result;
    job->ready_until =
        job->deadline != ABX_FOREVER ? job->deadline : now + abx__svc_timeout(job->service, true);
    job->silent_until = now + SILENT_MS;
    job->step = 0;
    job->cancel = on_cancel;
    ask(job, 0);
}
