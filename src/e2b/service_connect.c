/* sandbox.connect: the ways of the dialect in its order, until the service knows one; that one is used from then on. A sandbox that is
 * on its way to sleep is waited for where the dialect says so. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "e2b/service_inner.h"

#define STATE_EVERY_MS 500
#define DEFAULT_S      300

static const abx_e2b_way usual[] = {ABX_E2B_CONNECT_V2, ABX_E2B_CONNECT_V1, ABX_E2B_WAY_END};

static const abx_e2b_way *ways(const abx_e2b_service *s)
{
    return s->dialect->connect[0] ? s->dialect->connect : usual;
}

static abx_e2b_way way_of(const abx__svc_job *job)
{
    const abx_e2b_service *s = job->service;
    return s->way ? s->way : ways(s)[job->step];
}

static void send_way(abx__svc_job *job, uint64_t delay_ms);

/* --- the end ---------------------------------------------------------------------------------------------------- */
static void tell(abx__svc_job *job, yyjson_val *sandbox)
{
    if (job->reached) {
        job->reached(job, sandbox);
        return;
    }
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx__svc_put_sandbox(d, root, sandbox);
    abx__svc_job_end(job, d);
}

static void ask_state(abx__svc_job *job, uint64_t delay_ms);

static void on_state(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    if (!err)
        (void)abx__svc_check_sandbox(job->route, answer->root, &err);
    if (err) {
        abx__svc_job_fail(job, err);
        return;
    }
    abx__svc_box_learn(job->service, answer->root);
    const char *state = abx_json_str(answer->root, "state", "running");
    if (job->service->dialect->connect_lies && strcmp(state, "running") != 0) {
        if (job->deadline == ABX_FOREVER) /* somebody must end it */
            job->deadline = abx_now_mono_ms() + abx__svc_timeout(job->service, true);
        if (abx_now_mono_ms() + STATE_EVERY_MS < job->deadline)
            ask_state(job, STATE_EVERY_MS);
        else
            abx__svc_job_fail(job, abx_error_new(ABX_ERR_TIMEOUT,
                                                 "sandbox '%s' did not go on in time: it is '%s'",
                                                 job->sandbox, state));
        return;
    }
    tell(job, answer->root);
}

static void ask_state(abx__svc_job *job, uint64_t delay_ms)
{
    const char *method = "GET";
    char *path =
        abx__svc_route(job->service, ABX_OP_SANDBOX_INFO, "/sandboxes/{id}", job->sandbox, &method);
    abx__svc_send send = {.method = method,
                          .path = path,
                          .repeat = true,
                          .about = ABX__ABOUT_SANDBOX,
                          .subject = job->sandbox,
                          .delay_ms = delay_ms,
                          .then = on_state};
    abx__svc_job_send(job, &send);
}

static void on_connected(abx__svc_job *job, const abx__ctl_answer *answer)
{
    /* resume may say nothing, and tells of no token then */
    if (!answer->root || job->service->dialect->connect_lies) {
        if (answer->root && abx__svc_check_sandbox(job->route, answer->root, NULL) == 0)
            abx__svc_box_learn(job->service, answer->root);
        ask_state(job, 0);
        return;
    }
    ABX_AUTO_ERROR err = NULL;
    if (abx__svc_check_sandbox(job->route, answer->root, &err) < 0) {
        abx__svc_job_fail(job, ABX_TAKE(err));
        return;
    }
    abx__svc_box_learn(job->service, answer->root);
    if (job->reached || abx_json_get(answer->root, "endAt"))
        tell(job, answer->root);
    else
        ask_state(job, 0);
}

/* --- failures that are none --------------------------------------------------------------------------------------- */
/* Not yet: it is on its way to sleep or awake. */
static bool is_in_transition(const abx__ctl_answer *answer, const abx_error *err)
{
    if (answer->status == 409 || answer->status == 503)
        return true;
    return answer->status == 400 &&
           (strcasestr(err->message, "not resumable") || strcasestr(err->message, "pausing") ||
            strcasestr(err->message, "failed to resume"));
}

static bool try_later(abx__svc_job *job, const abx__ctl_answer *answer, const abx_error *err)
{
    uint32_t wait_ms = job->service->dialect->connect_again_ms;
    if (!answer || !wait_ms || !is_in_transition(answer, err))
        return false;
    uint64_t wait = answer->after_ms != ABX_FOREVER ? answer->after_ms : wait_ms;
    if (job->deadline == ABX_FOREVER)
        job->deadline = abx_now_mono_ms() + abx__svc_timeout(job->service, true);
    if (abx_now_mono_ms() + wait >= job->deadline)
        return false;
    send_way(job, wait);
    return true;
}

static bool try_next_way(abx__svc_job *job, const abx__ctl_answer *answer)
{
    const abx_e2b_service *s = job->service;
    bool own = s->dialect->routes && s->dialect->routes[ABX_OP_SANDBOX_CONNECT];
    if (!answer || !answer->no_route || s->way || own || !ways(s)[job->step + 1])
        return false;
    job->step++;
    send_way(job, 0);
    return true;
}

static void on_answer(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    abx_e2b_way way = way_of(job);
    ABX_CHECK(err || answer);
    bool runs = err && answer && way == ABX_E2B_RESUME && answer->status == 409;
    if (answer && !answer->no_route && answer->status != 401 && answer->status != 403)
        job->service->way = way;
    if (runs) {
        abx_error_free(err);
        ask_state(job, 0);
    } else if (!err) {
        on_connected(job, answer);
    } else if (try_next_way(job, answer) || try_later(job, answer, err)) {
        abx_error_free(err);
    } else {
        abx__svc_job_fail(job, err);
    }
}

static void send_way(abx__svc_job *job, uint64_t delay_ms)
{
    static const char *const paths[] = {
        [ABX_E2B_CONNECT_V2] = "/v2/sandboxes/{id}/connect",
        [ABX_E2B_CONNECT_V1] = "/sandboxes/{id}/connect",
        [ABX_E2B_RESUME] = "/sandboxes/{id}/resume",
    };
    const char *method = "POST";
    char *path = abx__svc_route(job->service, ABX_OP_SANDBOX_CONNECT, paths[way_of(job)],
                                job->sandbox, &method);
    ABX_AUTO_MUT body = yyjson_doc_mut_copy(job->body, NULL);
    abx__svc_send send = {.method = method,
                          .path = path,
                          .body = body,
                          .repeat = true,
                          .makes = true,
                          .about = ABX__ABOUT_SANDBOX,
                          .subject = job->sandbox,
                          .delay_ms = delay_ms,
                          .then = on_answer};
    abx__svc_job_send(job, &send);
}

void abx__svc_reach(abx__svc_job *job, int64_t seconds)
{
    yyjson_mut_val *body;
    ABX_AUTO_MUT d = abx_mut_new(&body);
    abx_mut_int(d, body, "timeout", seconds);
    yyjson_doc_free(job->body);
    job->body = abx_json_freeze(d);
    job->step = 0;
    send_way(job, 0);
}

int abx__svc_connect(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    int64_t ms = abx_json_int(abx_call_params(call), "timeoutMs", -1);
    uint32_t otherwise = s->dialect->default_s ? s->dialect->default_s : DEFAULT_S;
    int64_t seconds = ms < 0 ? otherwise : ms == 0 ? -1 : abx__svc_seconds(ms);
    if (seconds < 0 && !s->dialect->endless)
        return abx_fail(err, ABX_ERR_FEATURE_MISSING,
                        "provider '%s' has no sandboxes without a time limit", s->provider);
    abx__svc_reach(abx__svc_job_new(s, call), seconds);
    return 0;
}
