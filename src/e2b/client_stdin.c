/* process.stdin, pty.write and process.close_stdin. Our envd, and others that are known for it, take one stream; else
 * each piece is a call of its own, the next one when it was answered: that keeps the order, and is the backpressure. */
#include "e2b/client_inner.h"

#include <string.h>

#include "base/mem.h"

typedef struct input {
    const char *id;
    abx_e2b_channel channel;
    bool streams; /* by StreamInput */
    bool close_after, ended, sending;
    abx_buf waiting; /* for the next call */
} input;

/* What the call may hold back at once: it gives all that it has after a hold. */
#define MAX_WAITING ((size_t)64 * 1024 * 1024)

static void input_clear(abx__envd_job *job)
{
    input *in = job->state;
    abx_buf_clear(&in->waiting);
}

/* --- the close ---------------------------------------------------------------------------------------------- */
static void on_closed(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    if (err)
        abx__envd_job_fail(job, err);
    else
        abx__envd_job_end(job, NULL);
}

/* After the last bytes: a process that has read them and ended has no input left to close. */
static void on_closed_after(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    if (err && err->id == ABX_ERR_PROCESS_NOT_FOUND) {
        abx_error_free(err);
        err = NULL;
    }
    on_closed(job, answer, err);
}

static int close_stdin(abx__envd_job *job, const char *id,
                       void (*done)(abx__envd_job *job, yyjson_val *answer, abx_error *err),
                       abx_error **err)
{
    static const abx__envd_unary unary = {
        .path = "/process.Process/CloseStdin",
        .request = ABX_E2B_CLOSE_STDIN_REQUEST,
        .answer = ABX_E2B_CLOSE_STDIN_RESPONSE,
        .kind = ABX__ENVD_INPUT,
        .timeout_ms = ABX__ENVD_UNARY_MS,
        .safe = true,
    };
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (abx__envd_put_selector(job->client, d, root, id, err) < 0)
        return -1;
    if (job->client->abx)
        abx_mut_bool(d, root, "abx", true);
    return abx__envd_unary_start(job, &unary, ABX_TAKE(d), done, err);
}

static int need_close(const abx_envd_client *c, abx_error **err)
{
    return abx__envd_need(c, ABX__ENVD_V(0, 5, 2), "closing the input of a process", err);
}

static int close_start(abx__envd_job *job, abx_error **err)
{
    if (need_close(job->client, err) < 0)
        return -1;
    return close_stdin(job, abx__envd_param(job, "processId"), on_closed, err);
}

static void all_sent(abx__envd_job *job)
{
    input *in = job->state;
    abx_error *err = NULL;
    if (!in->close_after)
        abx__envd_job_end(job, NULL);
    else if (close_stdin(job, in->id, on_closed_after, &err) < 0)
        abx__envd_job_fail(job, err);
}

/* --- by calls --------------------------------------------------------------------------------------------------- */
static void send_next(abx__envd_job *job);

static void on_sent(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    input *in = job->state;
    in->sending = false;
    if (err) {
        abx__envd_job_fail(job, err);
        return;
    }
    send_next(job);
    if (!in->sending && !job->ended)
        abx_call_want_input(job->call);
}

static void send_next(abx__envd_job *job)
{
    static const abx__envd_unary unary = {
        .path = "/process.Process/SendInput",
        .request = ABX_E2B_SEND_INPUT_REQUEST,
        .answer = ABX_E2B_SEND_INPUT_RESPONSE,
        .kind = ABX__ENVD_INPUT,
    };
    input *in = job->state;
    if (in->sending || job->ended)
        return;
    if (in->waiting.len == 0) {
        if (in->ended)
            all_sent(job);
        return;
    }
    size_t n = in->waiting.len < ABX__ENVD_CALL_PIECE ? in->waiting.len : ABX__ENVD_CALL_PIECE;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_error *err = NULL;
    if (abx__envd_put_selector(job->client, d, root, in->id, &err) < 0) {
        abx__envd_job_fail(job, err);
        return;
    }
    abx__envd_put_input(d, root, in->channel == ABX_E2B_PTY ? "pty" : "stdin", in->waiting.data, n);
    abx_buf_drop(&in->waiting, n);
    in->sending = true;
    if (abx__envd_unary_start(job, &unary, ABX_TAKE(d), on_sent, &err) < 0)
        abx__envd_job_fail(job, err);
}

/* --- by a stream --------------------------------------------------------------------------------------------------- */
static int on_message(abx__envd_job *job, yyjson_val *message, abx_error **err)
{
    return 0; /* the empty answer */
}

static void on_end(abx__envd_job *job, abx_error *err, const char *code)
{
    input *in = job->state;
    if (err)
        abx__envd_job_fail(job, err);
    else if (!in->ended)
        abx__envd_job_fail(
            job, abx__envd_bad_answer(job->client, "the input was answered before it had ended"));
    else
        all_sent(job);
}

static void on_writable(abx__envd_job *job)
{
    abx_call_want_input(job->call);
}

static const abx__envd_stream_spec stream_spec = {
    .path = "/process.Process/StreamInput",
    .request = ABX_E2B_STREAM_INPUT_REQUEST,
    .answer = ABX_E2B_STREAM_INPUT_RESPONSE,
    .input = true,
    .message = on_message,
    .end = on_end,
    .writable = on_writable,
    .kind = ABX__ENVD_INPUT,
};

static int input_start(abx__envd_job *job, const char *id, abx_e2b_channel channel,
                       bool close_after, abx_error **err)
{
    input *in = job->state;
    in->id = id;
    in->channel = channel;
    in->close_after = close_after;
    in->streams = job->client->stream_input;
    if (close_after && need_close(job->client, err) < 0)
        return -1;
    abx_buf_init(&in->waiting, MAX_WAITING);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *start = abx_mut_obj(d, root, "start");
    if (abx__envd_put_selector(job->client, d, start, id, err) < 0)
        return -1;
    if (!in->streams)
        return 0;
    if (job->client->abx)
        abx_mut_bool(d, start, "abx", true);
    return abx__envd_stream_start(job, &stream_spec, ABX_TAKE(d), 0, err);
}

static int stdin_start(abx__envd_job *job, abx_error **err)
{
    return input_start(job, abx__envd_param(job, "processId"), ABX_E2B_STDIN,
                       abx_json_bool(abx_call_params(job->call), "close", false), err);
}

static int pty_start(abx__envd_job *job, abx_error **err)
{
    return input_start(job, abx__envd_param(job, "ptyId"), ABX_E2B_PTY, false, err);
}

static int on_input(abx__envd_job *job, const uint8_t *bytes, size_t n)
{
    input *in = job->state;
    if (in->streams)
        return abx__envd_stream_send(job, in->channel, bytes, n);
    if (abx_buf_add(&in->waiting, bytes, n) < 0)
        abx__envd_job_fail(
            job, abx_error_new(ABX_ERR_TOO_LARGE, "over %zu bytes of input wait", MAX_WAITING));
    else
        send_next(job);
    return !in->sending;
}

static void on_input_end(abx__envd_job *job)
{
    input *in = job->state;
    in->ended = true;
    if (in->streams)
        abx__envd_stream_send_end(job);
    else
        send_next(job);
}

const abx__envd_op abx__envd_process_stdin = {.state_size = sizeof(input),
                                              .start = stdin_start,
                                              .input = on_input,
                                              .input_end = on_input_end,
                                              .clear = input_clear};
const abx__envd_op abx__envd_pty_write = {.state_size = sizeof(input),
                                          .start = pty_start,
                                          .input = on_input,
                                          .input_end = on_input_end,
                                          .clear = input_clear};
const abx__envd_op abx__envd_process_close_stdin = {.start = close_start};
