/* Calls that the control plane answers: a job is one call with the questions that it needs, one after the other. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "e2b/service_inner.h"

#define MAX_PAGES 1000

static void job_free(abx__svc_job *job)
{
    if (job->at)
        *job->at = job->next;
    if (job->next)
        job->next->at = job->at;
    free(job->sandbox);
    free(job->route_text);
    free(job->mark);
    yyjson_doc_free(job->body);
    yyjson_mut_doc_free(job->result);
    abx_error_free(job->why);
    free(job);
}

/* Two owners, the call and the work: the second to let go frees. */
static void settle(abx__svc_job *job)
{
    if (job->ended && !job->call && !job->request)
        job_free(job);
}

void abx__svc_job_end(abx__svc_job *job, yyjson_mut_doc *result)
{
    job->ended = true;
    if (job->call)
        abx_call_end(job->call, result);
    else
        yyjson_mut_doc_free(result);
    settle(job);
}

void abx__svc_job_fail(abx__svc_job *job, abx_error *err)
{
    const abx_e2b_service *s = job->service;
    job->ended = true;
    if (job->call && s->explain)
        s->explain(s->explain_data, abx_call_op(job->call)->id, err);
    if (job->call)
        abx_call_fail(job->call, err);
    else
        abx_error_free(err);
    settle(job);
}

static void stop(abx__svc_job *job)
{
    abx__ctl_cancel(ABX_TAKE(job->request));
    abx__svc_job_fail(job, abx_error_new(ABX_ERR_CANCELLED, "the call was cancelled"));
}

static void on_cancel(abx_call *c, void *state)
{
    abx__svc_job *job = state;
    (void)c;
    if (job->ended)
        return;
    if (job->cancel)
        job->cancel(job);
    else
        stop(job);
}

static void on_release(abx_call *c, void *state)
{
    abx__svc_job *job = state;
    (void)c;
    job->call = NULL;
    settle(job);
}

abx__svc_job *abx__svc_job_new(abx_e2b_service *s, abx_call *call)
{
    static const abx_call_backend backend = {.on_cancel = on_cancel, .on_release = on_release};
    abx__svc_job *job = ABX_NEW(abx__svc_job);
    job->service = s;
    job->call = call;
    job->sandbox = abx_strdup(abx_json_str(abx_call_params(call), "sandboxId", NULL));
    uint64_t left = abx_call_time_left(call);
    job->deadline = left == ABX_FOREVER ? ABX_FOREVER : abx_now_mono_ms() + left;
    job->next = s->jobs;
    if (job->next)
        job->next->at = &job->next;
    job->at = &s->jobs;
    s->jobs = job;
    abx_call_accept(call, &backend, job);
    return job;
}

/* Off the list: a job lives until its call lets go, and that may outlive the service. */
void abx__svc_jobs_close(abx_e2b_service *s)
{
    while (s->jobs) {
        abx__svc_job *job = s->jobs;
        s->jobs = job->next;
        if (job->next)
            job->next->at = &s->jobs;
        job->at = NULL;
        job->next = NULL;
        if (!job->ended)
            stop(job);
    }
}

/* --- questions --------------------------------------------------------------------------------------------------- */
static void on_answer(void *data, const abx__ctl_answer *answer, abx_error *err)
{
    abx__svc_job *job = data;
    job->request = NULL;
    job->then(job, answer, err);
}

void abx__svc_job_send(abx__svc_job *job, const abx__svc_send *send)
{
    ABX_CHECK(!job->request);
    ABX_AUTO_FREE char *path = send->path;
    abx__ctl_request r = {.method = send->method,
                          .path = path,
                          .url = send->url,
                          .headers = send->headers,
                          .body = send->body,
                          .repeat = send->repeat,
                          .about = send->about,
                          .subject = send->subject,
                          .deadline = job->deadline,
                          .timeout_ms = abx__svc_timeout(job->service, send->makes),
                          .delay_ms = send->delay_ms};
    free(job->route_text);
    job->route_text = abx_format("%s %.*s", send->method, (int)strcspn(path, "?"), path);
    job->route = job->route_text;
    job->then = send->then;
    job->request = abx__ctl_start(job->service, &r, on_answer, job);
}

const char *abx__svc_next_page(abx__svc_job *job, const abx__ctl_answer *answer, abx_error **err)
{
    if (*err || job->service->dialect->no_cursor || !answer->next || !*answer->next)
        return NULL;
    const char *next = answer->next;
    /* One that is kept, each time twice as far away, meets every circle. */
    if (abx_str_eq(next, job->mark) || ++job->step >= MAX_PAGES) {
        *err = abx__ctl_misfit(job->route, "it has no last page");
        return NULL;
    }
    if ((job->step & (job->step - 1)) == 0) {
        free(job->mark);
        job->mark = abx_strdup(next);
    }
    return next;
}

/* "/x/{id}/y" with the id in its place. */
static char *fill(const char *path, const char *id)
{
    const char *at = strstr(path, "{id}");
    if (!at)
        return abx_strdup(path);
    ABX_AUTO_FREE char *escaped = abx_percent_encode(id ? id : "", "");
    return abx_format("%.*s%s%s", (int)(at - path), path, escaped, at + 4);
}

char *abx__svc_route(const abx_e2b_service *s, abx_op_id op, const char *otherwise, const char *id,
                     const char **method)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
    const char *own = s->dialect->routes ? s->dialect->routes[op] : NULL;
    for (size_t i = 0; own && i < ABX_COUNT(methods); i++) {
        size_t n = strlen(methods[i]);
        if (strncmp(own, methods[i], n) == 0 && own[n] == ' ') {
            *method = methods[i];
            return fill(own + n + 1, id);
        }
    }
    return fill(own ? own : otherwise, id);
}
