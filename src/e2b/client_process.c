/* process.start, process.attach and pty.open: one stream of process events each. */
#include "e2b/client_process.h"

#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#define OVERDUE_MS 2000 /* after its limit a process that still runs is killed from here */

static void follow_clear(abx__envd_job *job)
{
    abx__follow *f = job->state;
    free(f->id);
    free(f->input);
    abx_error_free(f->why);
    yyjson_mut_doc_free(f->exit);
}

/* --- events -------------------------------------------------------------------------------------------------- */
static yyjson_mut_doc *names(const abx__follow *f, yyjson_mut_val **root)
{
    yyjson_mut_doc *d = abx_mut_new(root);
    abx_mut_str(d, *root, "id", f->id);
    if (f->pid > 0)
        abx_mut_int(d, *root, "pid", f->pid);
    return d;
}

void abx__follow_let_go(abx__envd_job *job)
{
    abx__follow *f = job->state;
    yyjson_mut_val *root = NULL;
    abx__envd_stream_drop(job);
    abx__envd_job_end(job, f->background ? names(f, &root) : NULL);
}

/* Where this follower begins in each stream, if it is told. */
static void put_begin(yyjson_mut_doc *d, yyjson_mut_val *root, yyjson_val *start)
{
    static const struct {
        const char *field, *stream;
    } rows[] = {{"abxStdout", "stdout"}, {"abxStderr", "stderr"}, {"abxPty", "pty"}};
    yyjson_mut_val *offsets = NULL;
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        int64_t at = abx_json_int(start, rows[i].field, -1);
        if (at < 0)
            continue;
        offsets = offsets ? offsets : abx_mut_obj(d, root, "offsets");
        abx_mut_int(d, offsets, rows[i].stream, at);
    }
}

static int on_start(abx__envd_job *job, yyjson_val *start, abx_error **err)
{
    abx__follow *f = job->state;
    if (f->started)
        return abx_fail(err, ABX_ERR_BACKEND_ANSWER, "the process started twice");
    f->id = abx__envd_process_id(job->client, start);
    f->pid = abx_json_int(start, "pid", 0);
    if (!f->id)
        return abx_fail(err, ABX_ERR_BACKEND_ANSWER, "the id of the process does not fit");
    f->started = true;
    abx__envd_stream_kind(job, ABX__ENVD_PROCESS);
    if (f->stopping) {
        abx__follow_kill(job);
        return 0;
    }
    if (f->timeout_ms > 0 && !job->client->abx)
        abx__envd_job_after(job, f->timeout_ms + OVERDUE_MS, abx__follow_overdue);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = names(f, &root);
    if (f->attach)
        put_begin(d, root, start);
    (void)abx_call_event(job->call, "started", d);
    if (f->input)
        abx__follow_feed(job);
    else if (f->background || (f->no_follow && !job->client->abx))
        abx__follow_let_go(job);
    return 0;
}

void abx__follow_exit(abx__envd_job *job, yyjson_val *end, bool timed_out)
{
    abx__follow *f = job->state;
    yyjson_mut_val *root = NULL, *result = NULL;
    yyjson_mut_doc *event = abx_mut_new(&root);
    f->exit = f->attach ? abx_mut_new(&result) : names(f, &result);
    f->has_exit = true;
    if (end) {
        abx__envd_put_exit(event, root, end);
        abx__envd_put_exit(f->exit, result, end);
    }
    if (timed_out) {
        abx_mut_str(event, root, "signal", "SIGKILL");
        abx_mut_bool(event, root, "timedOut", true);
        abx_mut_str(f->exit, result, "signal", "SIGKILL");
        abx_mut_bool(f->exit, result, "timedOut", true);
    }
    (void)abx_call_event(job->call, "exit", event);
}

static bool is_stream(const char *name)
{
    return name &&
           (strcmp(name, "stdout") == 0 || strcmp(name, "stderr") == 0 || strcmp(name, "pty") == 0);
}

static int on_gap(abx__envd_job *job, yyjson_val *gap, abx_error **err)
{
    const char *stream = abx__envd_text(gap, "stream");
    int64_t bytes = abx_json_int(gap, "bytes", -1);
    if (!is_stream(stream) || bytes < 0)
        return abx_fail(err, ABX_ERR_BACKEND_ANSWER, "a gap does not fit");
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "stream", stream);
    abx_mut_int(d, root, "bytes", bytes);
    if (!abx_call_event(job->call, "gap", d) && job->main)
        abx_http_pause(job->main->transfer);
    return 0;
}

static int on_time(abx__envd_job *job, yyjson_val *told, abx_error **err)
{
    const char *stream = abx__envd_text(told, "stream");
    const char *time = abx__envd_text(told, "time");
    int64_t ms;
    char text[ABX_RFC3339_SIZE];
    if (!is_stream(stream) || !time || abx_parse_rfc3339(time, &ms) < 0)
        return abx_fail(err, ABX_ERR_BACKEND_ANSWER, "a time of output does not fit");
    abx_format_rfc3339(ms, text);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "stream", stream);
    abx_mut_str(d, root, "time", text);
    if (!abx_call_event(job->call, "time", d) && job->main)
        abx_http_pause(job->main->transfer);
    return 0;
}

static int on_message(abx__envd_job *job, yyjson_val *message, abx_error **err)
{
    abx__follow *f = job->state;
    yyjson_val *event = yyjson_obj_get(message, "event");
    yyjson_val *start = yyjson_obj_get(event, "start"), *end = yyjson_obj_get(event, "end");
    yyjson_val *gap = yyjson_obj_get(event, "abxGap"), *time = yyjson_obj_get(event, "abxTime");
    if (start)
        return on_start(job, start, err);
    if (!end && !gap && !time)
        return abx__envd_stream_idle(job, err); /* a keepalive, or an event of a later version */
    if (!f->started || f->has_exit)
        return abx_fail(err, ABX_ERR_BACKEND_ANSWER, "an event of the process came out of order");
    if (gap)
        return on_gap(job, gap, err);
    if (time)
        return on_time(job, time, err);
    abx__follow_exit(job, end, false);
    return 0;
}

static int on_data(abx__envd_job *job, abx_e2b_channel channel, const uint8_t *bytes, size_t n)
{
    static const abx_channel channels[] = {ABX_CH_STDOUT, ABX_CH_STDERR, ABX_CH_PTY, ABX_CH_STDOUT};
    abx__follow *f = job->state;
    if (!f->started || f->has_exit || f->stopping)
        return 1;
    return abx_call_chunk(job->call, channels[channel], bytes, n);
}

static void on_end(abx__envd_job *job, abx_error *err, const char *code)
{
    abx__follow *f = job->state;
    /* E2B's answer to the limit of a process: no end event, the child is killed */
    if (err && !f->has_exit && f->started && !f->attach && f->timeout_ms > 0 && !job->client->abx &&
        strcmp(code, "deadline_exceeded") == 0)
        abx__follow_exit(job, NULL, true);
    if (f->has_exit && (!err || job->client->abx || *code)) {
        /* our own envd may be gone with its last process; an end that is told stands, whatever follows */
        abx_error_free(err);
        abx__envd_job_end(job, ABX_TAKE(f->exit));
    } else if (err) {
        abx__envd_job_fail(job, err);
    } else if (f->no_follow && f->started) {
        abx__envd_job_end(job, NULL);
    } else {
        abx__envd_job_fail(job,
                           abx__envd_bad_answer(job->client, "the process ended without a result"));
    }
}

/* --- start ------------------------------------------------------------------------------------------------------------- */
static const abx__envd_stream_spec start_spec = {
    .path = "/process.Process/Start",
    .request = ABX_E2B_START_REQUEST,
    .answer = ABX_E2B_START_RESPONSE,
    .has_user = true,
    .data = on_data,
    .message = on_message,
    .end = on_end,
    .kind = ABX__ENVD_START,
};

static const abx__envd_stream_spec connect_spec = {
    .path = "/process.Process/Connect",
    .request = ABX_E2B_CONNECT_REQUEST,
    .answer = ABX_E2B_CONNECT_RESPONSE,
    .data = on_data,
    .message = on_message,
    .end = on_end,
    .kind = ABX__ENVD_PROCESS,
};

static bool param_is(const abx__envd_job *job, const char *name, const char *value)
{
    const char *v = abx__envd_param(job, name);
    return v && strcmp(v, value) == 0;
}

/* The input of our envd travels in the request when it is short; else, and for others, behind the start. */
static int take_input(abx__envd_job *job, yyjson_mut_doc *d, yyjson_mut_val *root, abx_error **err)
{
    abx__follow *f = job->state;
    yyjson_val *input = abx_json_get(abx_call_params(job->call), "input");
    if (input) {
        f->input = abx__envd_bytes(input, &f->input_len, err);
        if (!f->input)
            return -1;
    }
    if (f->input && job->client->abx && f->input_len <= ABX__ENVD_MAX_MESSAGE / 4) {
        abx__envd_put_bytes(d, root, "abxInput", f->input, f->input_len);
        free(ABX_TAKE(f->input));
    }
    if (f->input && f->input_len == 0)
        free(ABX_TAKE(f->input));
    return 0;
}

/* An old envd always gives a process an open input, and cannot close it: then a shell in front of the program ends it,
 * at once or behind the bytes that come. */
static void put_stdin(abx__envd_job *job, yyjson_mut_doc *d, yyjson_mut_val *root)
{
    static const char closed[] = "exec \"$@\" </dev/null";
    abx__follow *f = job->state;
    bool can_omit = abx__envd_has(job->client, ABX__ENVD_V(0, 3, 0));
    bool can_close = abx__envd_has(job->client, ABX__ENVD_V(0, 5, 2));
    bool open = f->input || param_is(job, "stdin", "stream");
    yyjson_mut_val *config = yyjson_mut_obj_get(root, "process");
    if (can_omit)
        abx_mut_bool(d, root, "stdin", open);
    if (!open && !can_omit)
        abx__envd_put_in_front(d, config, "/bin/sh", closed);
    if (!f->input || can_close)
        return;
    ABX_AUTO_FREE char *script =
        abx_format("exec 3<&0; exec \"$@\" < <(exec head -c %zu <&3 3<&-) 3<&-", f->input_len);
    abx__envd_put_in_front(d, config, "/bin/bash", script);
    f->no_close = true;
}

static int begin(abx__envd_job *job, yyjson_mut_doc *doc, yyjson_mut_val *root, abx_error **err)
{
    abx__follow *f = job->state;
    ABX_AUTO_MUT d = doc;
    f->timeout_ms = (uint64_t)abx__envd_param_int(job, "timeoutMs", 0);
    f->kill = !f->background && !param_is(job, "onDisconnect", "detach");
    if (abx__envd_put_process(job, d, root, err) < 0)
        return -1;
    if (abx_call_op(job->call)->id == ABX_OP_PROCESS_START)
        put_stdin(job, d, root);
    if (!job->client->abx)
        return abx__envd_stream_start(job, &start_spec, ABX_TAKE(d), f->timeout_ms, err);
    abx_mut_bool(d, root, "abx", true);
    if (f->background)
        abx_mut_bool(d, root, "abxBackground", true);
    if (f->kill)
        abx_mut_bool(d, root, "abxTied", true);
    if (f->timeout_ms > 0)
        abx_mut_int(d, root, "abxTimeoutMs", (int64_t)f->timeout_ms);
    return abx__envd_stream_start(job, &start_spec, ABX_TAKE(d), 0, err);
}

static int process_start(abx__envd_job *job, abx_error **err)
{
    abx__follow *f = job->state;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    f->background = abx_json_bool(abx_call_params(job->call), "background", false);
    if (abx_json_get(abx_call_params(job->call), "input") && param_is(job, "stdin", "stream"))
        return abx_fail(err, ABX_ERR_USAGE,
                        "'input' is the whole input: it excludes stdin 'stream'");
    if (take_input(job, d, root, err) < 0)
        return -1;
    return begin(job, ABX_TAKE(d), root, err);
}

static int pty_open(abx__envd_job *job, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *size = abx_mut_obj(d, abx_mut_obj(d, root, "pty"), "size");
    abx_mut_int(d, size, "cols", abx__envd_param_int(job, "cols", 80));
    abx_mut_int(d, size, "rows", abx__envd_param_int(job, "rows", 24));
    return begin(job, ABX_TAKE(d), root, err);
}

static int put_offsets(abx__envd_job *job, yyjson_mut_doc *d, yyjson_mut_val *root, abx_error **err)
{
    static const struct {
        const char *stream, *field;
    } rows[] = {{"stdout", "abxFromStdout"}, {"stderr", "abxFromStderr"}, {"pty", "abxFromPty"}};
    yyjson_val *from = abx_json_get(abx_call_params(job->call), "fromOffset");
    if (from && !job->client->abx)
        return abx_fail(err, ABX_ERR_FEATURE_MISSING, "the sandbox keeps no output of processes");
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        yyjson_val *v = abx_json_get(from, rows[i].stream);
        if (v && (!yyjson_is_int(v) || abx_json_int(from, rows[i].stream, -1) < 0))
            return abx_fail(err, ABX_ERR_USAGE, "the offset of '%s' is not a number of bytes",
                            rows[i].stream);
        if (v)
            abx_mut_int(d, root, rows[i].field, abx_json_int(from, rows[i].stream, 0));
    }
    return 0;
}

static int attach_start(abx__envd_job *job, abx_error **err)
{
    abx__follow *f = job->state;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    f->attach = true;
    f->no_follow = !abx_json_bool(abx_call_params(job->call), "follow", true);
    if (abx__envd_put_selector(job->client, d, root, abx__envd_param(job, "processId"), err) < 0 ||
        put_offsets(job, d, root, err) < 0)
        return -1;
    bool times = abx_json_bool(abx_call_params(job->call), "timestamps", false);
    if (times && !job->client->abx)
        return abx_fail(err, ABX_ERR_FEATURE_MISSING, "the sandbox keeps no times of output");
    if (job->client->abx) {
        abx_mut_bool(d, root, "abx", true);
        if (times)
            abx_mut_bool(d, root, "abxTimes", true);
        if (abx_json_bool(abx_call_params(job->call), "missed", false))
            abx_mut_bool(d, root, "abxMissed", true);
        if (f->no_follow)
            abx_mut_bool(d, root, "abxNoFollow", true);
    }
    return abx__envd_stream_start(job, &connect_spec, ABX_TAKE(d), 0, err);
}

/* --- detach --------------------------------------------------------------------------------------------------------- */
static void on_detached(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    if (err)
        abx__envd_job_fail(job, err);
    else
        abx__envd_job_end(job, NULL);
}

static void detached_here(abx__envd_job *job)
{
    abx__envd_job_end(job, NULL);
}

/* Another envd ties no process to a stream: it was we who would have killed it. */
static int detach_here(abx__envd_job *job, const char *id)
{
    for (abx__envd_job *other = job->client->jobs; other; other = other->next) {
        abx__follow *f = other->state;
        if ((other->op == &abx__envd_process_start || other->op == &abx__envd_pty_open) &&
            abx_str_eq(f->id, id))
            f->kill = false;
    }
    abx__envd_job_after(job, 0, detached_here);
    return 0;
}

static int detach_start(abx__envd_job *job, abx_error **err)
{
    static const abx__envd_unary unary = {
        .path = "/process.Process/Update",
        .request = ABX_E2B_UPDATE_REQUEST,
        .answer = ABX_E2B_UPDATE_RESPONSE,
        .kind = ABX__ENVD_PROCESS,
        .timeout_ms = ABX__ENVD_UNARY_MS,
    };
    const char *id = abx__envd_param(job, "processId");
    if (!job->client->abx)
        return detach_here(job, id);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_bool(d, root, "abx", true);
    abx_mut_bool(d, root, "abxDetach", true);
    if (abx__envd_put_selector(job->client, d, root, id, err) < 0)
        return -1;
    return abx__envd_unary_start(job, &unary, ABX_TAKE(d), on_detached, err);
}

const abx__envd_op abx__envd_process_detach = {.start = detach_start};
const abx__envd_op abx__envd_process_start = {.state_size = sizeof(abx__follow),
                                              .start = process_start,
                                              .cancel = abx__follow_cancel,
                                              .clear = follow_clear};
const abx__envd_op abx__envd_pty_open = {.state_size = sizeof(abx__follow),
                                         .start = pty_open,
                                         .cancel = abx__follow_cancel,
                                         .clear = follow_clear};
const abx__envd_op abx__envd_process_attach = {.state_size = sizeof(abx__follow),
                                               .start = attach_start,
                                               .cancel = abx__follow_cancel,
                                               .clear = follow_clear};
