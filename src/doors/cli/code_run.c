#include "doors/cli/code_run.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "doors/cli/event_lines.h"
#include "doors/cli/out_writer.h"
#include "doors/cli/params.h"

typedef struct running {
    abx_cli *cli;
    const abx_code_options *options;
    bool json;
    abx_call *call; /* until its end */
    abx_out_writer out, err_out;
    abx_buf lines;
    abx_utf8_tail tails[ABX_CH_COUNT];
    bool paused, ended;
    bool failed; /* the code raised */
    int chosen;  /* the exit code that it chose, or -1 */
    unsigned interrupts;
    unsigned side_calls; /* interrupts on their way */
    int output_error;    /* errno of a writer that failed */
    yyjson_doc *result;
    abx_error *err;
    abx_error *own; /* a failure of ours while it ran: a result that could not be kept */
} running;

/* --- output ------------------------------------------------------------------------------------------------ */
static void check_writer(running *r, const abx_out_writer *w)
{
    if (!abx_out_error(w) || r->output_error)
        return;
    r->output_error = abx_out_error(w);
    if (r->call)
        abx_call_cancel(r->call); /* nobody reads: end what writes */
}

static void hold_or_go(running *r)
{
    bool wait = abx_out_is_waiting(&r->out) || abx_out_is_waiting(&r->err_out);
    if (!r->call || wait == r->paused)
        return;
    r->paused = wait;
    if (wait)
        abx_call_pause(r->call);
    else
        abx_call_resume(r->call);
}

static void on_drain(void *data)
{
    running *r = data;
    check_writer(r, &r->out);
    check_writer(r, &r->err_out);
    hold_or_go(r);
}

static void write_out(running *r, abx_out_writer *w, const void *bytes, size_t n)
{
    if (n == 0)
        return;
    abx_out_write(w, bytes, n);
    check_writer(r, w);
    hold_or_go(r);
}

static void flush_lines(running *r)
{
    write_out(r, &r->out, r->lines.data, r->lines.len);
    abx_buf_reset(&r->lines);
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    (void)c;
    running *r = data;
    if (!r->json) {
        write_out(r, channel == ABX_CH_STDERR ? &r->err_out : &r->out, bytes, n);
        return;
    }
    abx_event_bytes(&r->lines, abx_channel_name(channel), bytes, n, &r->tails[channel]);
    flush_lines(r);
}

/* --- events ------------------------------------------------------------------------------------------------- */
static void add_file(yyjson_mut_doc *d, yyjson_mut_val *o, void *data)
{
    abx_mut_str(d, o, "file", data);
}

static void on_result(running *r, yyjson_val *event)
{
    ABX_AUTO_BUF out = ABX_BUF(SIZE_MAX / 2);
    ABX_AUTO_BUF notes = ABX_BUF(SIZE_MAX / 2);
    ABX_AUTO_FREE char *saved = NULL;
    if (abx_code_show(r->options->files, event, &out, &notes, &saved, r->own ? NULL : &r->own) <
        0) {
        if (r->call)
            abx_call_cancel(r->call);
        return;
    }
    if (r->json) {
        abx_event_object(&r->lines, "result", event, saved ? add_file : NULL, saved);
        flush_lines(r);
        return;
    }
    write_out(r, &r->out, out.data, out.len);
    if (!r->cli->quiet)
        write_out(r, &r->err_out, notes.data, notes.len);
}

static void on_error(running *r, yyjson_val *event)
{
    r->failed = true;
    r->chosen = (int)abx_json_int(event, "exitCode", r->chosen);
    if (r->json) {
        abx_event_object(&r->lines, "error", event, NULL, NULL);
        flush_lines(r);
        return;
    }
    const char *trace = abx_json_str(event, "traceback", "");
    size_t n = strlen(trace);
    bool whole = n > 0 && trace[n - 1] == '\n';
    const char *name = abx_json_str(event, "name", ""), *value = abx_json_str(event, "value", "");
    ABX_AUTO_FREE char *text =
        n > 0 ? abx_format("%s%s", trace, whole ? "" : "\n")
              : abx_format("%s%s%s\n", *name ? name : "Error", *value ? ": " : "", value);
    write_out(r, &r->err_out, text, strlen(text));
}

static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    (void)c;
    running *r = data;
    if (strcmp(type, "started") == 0 && r->json) {
        abx_event_object(&r->lines, type, event, NULL, NULL);
        flush_lines(r);
    } else if (strcmp(type, "result") == 0) {
        on_result(r, event);
    } else if (strcmp(type, "error") == 0) {
        on_error(r, event);
    }
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    running *r = data;
    r->call = NULL;
    r->ended = true;
    if (err)
        r->err = abx_error_copy(err);
    else
        r->result = abx_json_copy(result);
}

/* --- signals --------------------------------------------------------------------------------------------------- */
static void on_side_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    running *r = data;
    r->side_calls--;
    if (err && r->call) /* it cannot be interrupted but by leaving */
        abx_call_cancel(r->call);
}

static void interrupt(running *r)
{
    const abx_code_options *o = r->options;
    const char *id = o->context ? o->context : o->language ? o->language : "python";
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_cli_params(o->sandbox, &root);
    abx_mut_str(params, root, "contextId", id);
    abx_call_handlers handlers = {.on_end = on_side_end};
    ABX_AUTO_ERROR err = NULL;
    r->side_calls++;
    if (abx_cli_start(r->cli, ABX_OP_CODE_INTERRUPT, params, &handlers, r, &err))
        return;
    r->side_calls--;
    if (r->call)
        abx_call_cancel(r->call);
}

static void on_signal(abx_cli *cli, int sig, void *data)
{
    running *r = data;
    if (sig == SIGWINCH || r->ended)
        return;
    if (sig == SIGINT && ++r->interrupts <= 2) {
        interrupt(r);
        return;
    }
    abx_cli_interrupt(cli, sig);
    if (r->call)
        abx_call_cancel(r->call);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */
static int exit_code(const running *r, bool *ours)
{
    *ours = false;
    if (abx_json_bool(yyjson_doc_get_root(r->result), "timedOut", false)) {
        *ours = true;
        return 124;
    }
    if (r->failed && r->interrupts > 0)
        return 130;
    if (r->chosen >= 0)
        return r->chosen & 0xff;
    return r->failed ? 1 : 0;
}

static void add_end(yyjson_mut_doc *d, yyjson_mut_val *o, void *data)
{
    bool ours = false;
    abx_mut_int(d, o, "exitCode", exit_code(data, &ours));
    abx_mut_str(d, o, "source", ours ? "abx" : "process");
}

static void tell_kernel(const running *r)
{
    yyjson_val *result = yyjson_doc_get_root(r->result);
    const char *fresh = abx_json_str(result, "fresh", NULL);
    if (abx_json_bool(result, "timedOut", false))
        abx_cli_note_timeout(r->cli, "the code");
    if (fresh)
        abx_cli_note(r->cli, "note: this ran in a fresh kernel: %s", fresh);
    if (abx_json_bool(result, "stateLost", false) && !r->failed && r->options->notebook)
        abx_cli_note(r->cli, "note: the kernel ended; the next run starts a fresh one");
}

static void drain(running *r)
{
    if (r->json) {
        for (int i = 0; i < ABX_CH_COUNT; i++)
            abx_event_tail(&r->lines, abx_channel_name((abx_channel)i), &r->tails[i]);
        if (r->result)
            abx_event_object(&r->lines, "end", yyjson_doc_get_root(r->result), add_end, r);
        flush_lines(r);
    }
    while ((abx_out_is_waiting(&r->out) || abx_out_is_waiting(&r->err_out)) &&
           !abx_cli_interrupted(r->cli))
        abx_cli_turn(r->cli);
    check_writer(r, &r->out);
    check_writer(r, &r->err_out);
    if (r->result && !r->json)
        tell_kernel(r);
}

static int take_result(running *r, int *code, abx_error **err)
{
    bool ours = false;
    if (r->output_error == EPIPE) {
        r->cli->output_closed = true;
        *code = 141;
        return 0;
    }
    if (r->own)
        return abx_error_take(err, ABX_TAKE(r->own));
    if (r->output_error)
        return abx_fail_errno(err, ABX_ERR_FILE, r->output_error, "cannot write the output");
    if (r->err)
        return abx_error_take(err, ABX_TAKE(r->err));
    *code = exit_code(r, &ours);
    return 0;
}

static void close_all(running *r)
{
    while (r->side_calls > 0)
        abx_cli_turn(r->cli);
    abx_out_close(&r->out);
    abx_out_close(&r->err_out);
    while (!abx_out_is_closed(&r->out) || !abx_out_is_closed(&r->err_out))
        uv_run(&r->cli->_loop, UV_RUN_NOWAIT);
    abx_buf_clear(&r->lines);
    yyjson_doc_free(r->result);
    abx_error_free(r->err);
    abx_error_free(r->own);
}

static yyjson_mut_doc *make_params(abx_cli *cli, const abx_code_options *o, const char *text,
                                   size_t n, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_cli_params(o->sandbox, &root);
    abx_mut_strn(d, root, "code", text, n);
    abx_mut_str(d, root, "language", o->language);
    abx_mut_str(d, root, "contextId", o->context);
    if (o->timeout_ms != ABX_FOREVER)
        abx_mut_int(d, root, "timeoutMs", (int64_t)o->timeout_ms);
    if (o->with_env && abx_params_env(cli, d, root, err) < 0)
        return NULL;
    return ABX_TAKE(d);
}

int abx_code_run(abx_cli *cli, const abx_code_options *options, const char *text, size_t n,
                 int *code, abx_error **err)
{
    running r = {.cli = cli, .options = options, .json = abx_cli_json(cli), .chosen = -1};
    yyjson_mut_doc *params = make_params(cli, options, text, n, err);
    if (!params)
        return -1;
    abx_buf_init(&r.lines, SIZE_MAX / 2);
    abx_call_handlers handlers = {.on_event = on_event, .on_chunk = on_chunk, .on_end = on_end};
    r.call = abx_cli_start(cli, ABX_OP_CODE_RUN, params, &handlers, &r, err);
    if (!r.call)
        return -1;
    abx_out_writer_init(&r.out, &cli->_loop, STDOUT_FILENO, on_drain, &r);
    abx_out_writer_init(&r.err_out, &cli->_loop, STDERR_FILENO, on_drain, &r);
    void *former_data = NULL;
    abx_cli_signal_cb former = abx_cli_take_signals(cli, on_signal, &r, &former_data);
    while (!r.ended)
        abx_cli_turn(cli);
    drain(&r);
    int rc = take_result(&r, code, err);
    close_all(&r);
    abx_cli_take_signals(cli, former, former_data, NULL);
    return rc;
}
