#include "e2b/client_inner.h"

#include <string.h>

#include "base/mem.h"

static void job_free(abx__envd_job *job)
{
    if (job->at) {
        *job->at = job->next;
        if (job->next)
            job->next->at = job->at;
    }
    if (job->op->clear)
        job->op->clear(job);
    abx__envd_stream_free(job);
    abx_buf_clear(&job->command.words);
    for (size_t i = 0; i < ABX_COUNT(job->broken); i++)
        abx_error_free(job->broken[i].by);
    abx_error_free(job->doubtful);
    free(job->state);
    free(job);
}

void abx__envd_job_unref(abx__envd_job *job)
{
    if (--job->refs == 0)
        job_free(job);
}

static void on_timer_closed(uv_handle_t *h)
{
    abx__envd_job_unref(h->data);
}

/* Nothing is to be done any more: stop what still runs. */
static void finish(abx__envd_job *job)
{
    job->ended = true;
    abx__envd_exchange *const all[] = {job->main, job->side, job->probe};
    for (size_t i = 0; i < ABX_COUNT(all); i++)
        if (all[i])
            abx__envd_exchange_cancel(all[i]);
    if (job->op->stop)
        job->op->stop(job);
    uv_close((uv_handle_t *)&job->timer, on_timer_closed);
}

void abx__envd_job_end(abx__envd_job *job, yyjson_mut_doc *result)
{
    if (job->ended) {
        yyjson_mut_doc_free(result);
        return;
    }
    finish(job);
    abx_call_end(job->call, result);
}

void abx__envd_job_end_with(abx__envd_job *job, abx_error *err)
{
    if (job->ended) {
        abx_error_free(err);
        return;
    }
    if (!err->sandbox)
        err->sandbox = abx_strdup(job->client->sandbox_id);
    if (job->client->explain)
        job->client->explain(job->client->explain_data, abx_call_op(job->call)->id, err);
    finish(job);
    abx_call_fail(job->call, err);
}

static bool seems_gone(const abx_error *err)
{
    return err->id == ABX_ERR_SANDBOX_ENDED || err->id == ABX_ERR_SANDBOX_NOT_FOUND;
}

/* Ask before it is said that the sandbox is gone. True: the end comes later. */
static bool put_off(abx__envd_job *job, abx_error *err)
{
    abx_envd_client *c = job->client;
    if (!c->look || c->closing || job->cancelled || !seems_gone(err))
        return false;
    abx_error_free(job->doubtful);
    job->doubtful = err;
    if (!c->looking) {
        c->looking = true;
        c->look(c->look_data, c);
    }
    return true;
}

void abx__envd_job_settle(abx__envd_job *job, const abx_error *why)
{
    abx_error *err = ABX_TAKE(job->doubtful);
    if (err && why) {
        abx_error_free(err);
        err = abx_error_copy(why);
    }
    if (err)
        abx__envd_job_end_with(job, err);
}

void abx__envd_job_fail(abx__envd_job *job, abx_error *err)
{
    if (job->ended || !put_off(job, err))
        abx__envd_job_end_with(job, err);
}

void abx__envd_job_stop(abx__envd_job *job)
{
    abx__envd_job_fail(job, abx_error_new(ABX_ERR_CANCELLED, "the call was cancelled"));
}

/* --- the call's side ----------------------------------------------------------------------------------- */
static void on_cancel(abx_call *c, void *state)
{
    abx__envd_job *job = state;
    if (job->ended || job->cancelled)
        return;
    job->cancelled = true;
    if (job->op->cancel)
        job->op->cancel(job);
    else
        abx__envd_job_stop(job);
}

static int on_input(abx_call *c, const uint8_t *bytes, size_t n, void *state)
{
    abx__envd_job *job = state;
    if (job->ended || job->cancelled || !job->op->input)
        return 1;
    return job->op->input(job, bytes, n);
}

static void on_input_end(abx_call *c, void *state)
{
    abx__envd_job *job = state;
    if (!job->ended && !job->cancelled && job->op->input_end)
        job->op->input_end(job);
}

static void on_resume(abx_call *c, void *state)
{
    abx__envd_job *job = state;
    if (job->ended)
        return;
    if (job->op->resume)
        job->op->resume(job);
    else if (job->stream)
        abx__envd_stream_resume(job);
    else if (job->main && job->main->transfer)
        abx_http_resume(job->main->transfer);
}

static void on_release(abx_call *c, void *state)
{
    abx__envd_job *job = state;
    job->call = NULL;
    if (!job->ended)
        finish(job);
    abx__envd_job_unref(job);
}

static const abx_call_backend backend = {on_cancel, on_input, on_input_end, on_resume, on_release};

int abx__envd_job_run(abx_envd_client *c, abx_call *call, const abx__envd_op *op, abx_error **err)
{
    abx__envd_job *job = ABX_NEW(abx__envd_job);
    job->client = c;
    job->call = call;
    job->op = op;
    job->state = op->state_size ? abx_alloc(op->state_size) : NULL;
    job->refs = 2; /* the call, the timer */
    uv_timer_init(c->loop, &job->timer);
    job->timer.data = job;
    job->next = c->jobs;
    if (job->next)
        job->next->at = &job->next;
    job->at = &c->jobs;
    c->jobs = job;
    if (op->start(job, err) == 0) {
        abx_call_accept(call, &backend, job);
        return 0;
    }
    job->call = NULL;
    finish(job);
    abx__envd_job_unref(job);
    return -1;
}

/* --- exchanges and time ------------------------------------------------------------------------------------ */
int abx__envd_job_exchange(abx__envd_job *job, abx__envd_exchange **slot,
                           const abx__envd_request *r, const abx__envd_hooks *hooks,
                           abx_error **err)
{
    ABX_CHECK(!*slot && job->client);
    abx__envd_request timed = *r;
    timed.left_ms = job->call ? abx_call_time_left(job->call) : 0;
    abx__envd_exchange *x = abx__envd_exchange_start(job->client, &timed, hooks, job, err);
    if (!x)
        return -1;
    *slot = x;
    job->refs++;
    return 0;
}

bool abx__envd_job_left(abx__envd_job *job, abx__envd_exchange *x)
{
    if (job->main == x)
        job->main = NULL;
    if (job->side == x)
        job->side = NULL;
    if (job->probe == x)
        job->probe = NULL;
    return job->ended;
}

static void on_timer(uv_timer_t *t)
{
    abx__envd_job *job = t->data;
    void (*cb)(abx__envd_job *) = job->on_timer;
    job->on_timer = NULL;
    if (cb && !job->ended)
        cb(job);
}

void abx__envd_job_after(abx__envd_job *job, uint64_t ms, void (*cb)(abx__envd_job *job))
{
    if (job->ended)
        return;
    job->on_timer = cb;
    if (cb)
        uv_timer_start(&job->timer, on_timer, ms, 0);
    else
        uv_timer_stop(&job->timer);
}

/* --- is the sandbox gone? ----------------------------------------------------------------------------------- */
static void tell_one(abx__envd_job *job, bool gone, abx_error *by,
                     void (*done)(abx__envd_job *job, abx_error *err))
{
    if (gone) {
        abx_error_free(by);
        by = abx_error_new(ABX_ERR_SANDBOX_ENDED, "sandbox '%s' ended while the call ran",
                           job->client->sandbox_id);
    }
    done(job, by);
}

static void tell_broken(abx__envd_job *job, bool gone)
{
    for (size_t i = 0; i < ABX_COUNT(job->broken) && !job->ended; i++)
        if (job->broken[i].by)
            tell_one(job, gone, ABX_TAKE(job->broken[i].by), job->broken[i].done);
}

static void on_health(abx__envd_exchange *x, const abx_error *err)
{
    abx__envd_job *job = x->data;
    if (!abx__envd_job_left(job, x)) {
        const abx_envd_client *c = job->client;
        tell_broken(job, c->alive ? err && c->alive(c->dial_data) == 0 : !err && x->status == 502);
    }
    abx__envd_job_unref(job);
}

void abx__envd_job_broken(abx__envd_job *job, const abx_error *by,
                          void (*done)(abx__envd_job *job, abx_error *err))
{
    static const abx__envd_hooks hooks = {.end = on_health};
    abx_envd_client *c = job->client;
    /* also an answer that was cut short, and silence: a sandbox that dies can look like each of them */
    bool ask =
        by->id == ABX_ERR_NETWORK || by->id == ABX_ERR_BACKEND_ANSWER || by->id == ABX_ERR_TIMEOUT;
    bool gone = ask && c->alive && c->alive(c->dial_data) == 0;
    /* One that ends loses its connections one after the other: while others still stand it looks alive. So it has to answer, too. */
    if (!ask || gone || (c->alive && by->id == ABX_ERR_TIMEOUT)) {
        tell_one(job, gone, abx_error_copy(by), done);
        return;
    }
    size_t i = job->broken[0].by ? 1 : 0;
    ABX_CHECK(!job->broken[i].by);
    job->broken[i].by = abx_error_copy(by);
    job->broken[i].done = done;
    abx__envd_request r = {.method = "GET",
                           .path = "/health",
                           .timeout_ms = ABX__ENVD_HEALTH_MS,
                           .safe = true,
                           .single = true};
    if (!job->probe && abx__envd_job_exchange(job, &job->probe, &r, &hooks, NULL) < 0)
        tell_broken(job, false);
}

/* --- parameters ------------------------------------------------------------------------------------------------ */
const char *abx__envd_param(const abx__envd_job *job, const char *name)
{
    return abx_json_str(abx_call_params(job->call), name, NULL);
}

int64_t abx__envd_param_int(const abx__envd_job *job, const char *name, int64_t otherwise)
{
    return abx_json_int(abx_call_params(job->call), name, otherwise);
}
