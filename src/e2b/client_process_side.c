/* What goes on beside the stream of a process: its input, for a server that takes it by calls, and its kill. */
#include "e2b/client_process.h"

#include "base/mem.h"

/* --- input for a server that takes it by calls --------------------------------------------------------------- */
/* Input that did not arrive, or whose end did not: the process would wait for it for ever. */
static bool is_lost(const abx__envd_job *job, const abx_error *err)
{
    const abx__follow *f = job->state;
    return err && !job->client->abx && !f->stopping && !f->has_exit &&
           err->id != ABX_ERR_PROCESS_NOT_FOUND && err->id != ABX_ERR_CONFLICT;
}

static void on_input_closed(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    abx__follow *f = job->state;
    if (is_lost(job, err)) {
        f->why = err;
        f->stopping = true;
        abx__follow_kill(job);
        return;
    }
    abx_error_free(err); /* the process has ended or closed it: its end says the rest */
    if (f->stopping)
        abx__follow_kill(job);
    else if (f->background)
        abx__follow_let_go(job);
}

static void close_input(abx__envd_job *job)
{
    static const abx__envd_unary unary = {
        .path = "/process.Process/CloseStdin",
        .request = ABX_E2B_CLOSE_STDIN_REQUEST,
        .answer = ABX_E2B_CLOSE_STDIN_RESPONSE,
        .kind = ABX__ENVD_INPUT,
        .timeout_ms = ABX__ENVD_UNARY_MS,
        .side = true,
        .safe = true,
    };
    abx__follow *f = job->state;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (job->client->abx)
        abx_mut_bool(d, root, "abx", true);
    if (f->no_close)
        on_input_closed(job, NULL, NULL);
    else if (abx__envd_put_selector(job->client, d, root, f->id, NULL) == 0)
        (void)abx__envd_unary_start(job, &unary, ABX_TAKE(d), on_input_closed, NULL);
}

static void on_input_sent(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    abx__follow *f = job->state;
    if (err || f->stopping) /* nobody reads it any more */
        on_input_closed(job, NULL, err);
    else if (f->input_sent < f->input_len)
        abx__follow_feed(job);
    else
        close_input(job);
}

void abx__follow_feed(abx__envd_job *job)
{
    static const abx__envd_unary unary = {
        .path = "/process.Process/SendInput",
        .request = ABX_E2B_SEND_INPUT_REQUEST,
        .answer = ABX_E2B_SEND_INPUT_RESPONSE,
        .kind = ABX__ENVD_INPUT,
        .side = true,
    };
    abx__follow *f = job->state;
    size_t n = f->input_len - f->input_sent;
    n = n < ABX__ENVD_CALL_PIECE ? n : ABX__ENVD_CALL_PIECE;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (job->client->abx)
        abx_mut_bool(d, root, "abx", true);
    if (job->side || abx__envd_put_selector(job->client, d, root, f->id, NULL) < 0)
        return;
    abx__envd_put_input(d, root, "stdin", f->input + f->input_sent, n);
    f->input_sent += n;
    (void)abx__envd_unary_start(job, &unary, ABX_TAKE(d), on_input_sent, NULL);
}

/* --- cancel ---------------------------------------------------------------------------------------------------------- */
static void on_killed(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    abx__follow *f = job->state;
    abx_error_free(err);
    if (f->why) {
        abx__envd_job_fail(job, ABX_TAKE(f->why));
        return;
    }
    if (!f->overdue) {
        abx__envd_job_stop(job);
        return;
    }
    if (!f->has_exit)
        abx__follow_exit(job, NULL, true);
    abx__envd_job_end(job, ABX_TAKE(f->exit));
}

/* Our envd ends a tied process with its stream; another one must be told. */
void abx__follow_kill(abx__envd_job *job)
{
    static const abx__envd_unary unary = {
        .path = "/process.Process/SendSignal",
        .request = ABX_E2B_SEND_SIGNAL_REQUEST,
        .answer = ABX_E2B_SEND_SIGNAL_RESPONSE,
        .kind = ABX__ENVD_PROCESS,
        .timeout_ms = ABX__ENVD_LINGER_MS,
        .side = true,
    };
    abx__follow *f = job->state;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    bool wanted = f->overdue || f->kill || f->why;
    if (!wanted || !f->started || f->has_exit || job->client->abx ||
        abx__envd_put_selector(job->client, d, root, f->id, NULL) < 0) {
        on_killed(job, NULL, NULL);
        return;
    }
    abx_mut_str(d, root, "signal", "SIGNAL_SIGKILL");
    if (abx__envd_unary_start(job, &unary, ABX_TAKE(d), on_killed, NULL) < 0)
        on_killed(job, NULL, NULL);
}

void abx__follow_overdue(abx__envd_job *job)
{
    abx__follow *f = job->state;
    if (f->stopping)
        return;
    f->overdue = true;
    f->stopping = true;
    if (!job->unary_done)
        abx__follow_kill(job);
    else if (job->side) /* as with a cancel */
        abx__envd_exchange_cancel(job->side);
}

void abx__follow_cancel(abx__envd_job *job)
{
    abx__follow *f = job->state;
    f->stopping = true;
    if (job->unary_done) { /* input that waits for its reader; the kill comes when it has let go */
        if (job->side)
            abx__envd_exchange_cancel(job->side);
    } else if (f->kill && !f->started && !job->client->abx && job->main) {
        /* it may be running already, and only its start event says under which number */
        abx__envd_job_after(job, ABX__ENVD_LINGER_MS, abx__envd_job_stop);
    } else {
        abx__follow_kill(job);
    }
}
