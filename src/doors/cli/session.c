#include "doors/cli/session.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/session_inner.h"
#include "doors/cli/signals.h"
#include "doors/cli/terminal.h"

int abx_process_code(yyjson_val *result)
{
    if (abx_json_bool(result, "timedOut", false))
        return 124;
    const char *sig = abx_json_str(result, "signal", NULL);
    if (sig) {
        int number = abx_signal_number(sig);
        return number > 0 ? 128 + number : 137;
    }
    if (!yyjson_obj_get(result, "exitCode"))
        return -1;
    int64_t code = abx_json_int(result, "exitCode", -1);
    return code < 0 ? 255 : (int)(code & 0xff); /* below 0: an end without a name, no success */
}

/* --- output -------------------------------------------------------------------------------------------- */

static void check_writer(abx_session *s, const abx_out_writer *w, int fd)
{
    if (!abx_out_error(w) || s->output_error)
        return;
    s->output_error = abx_out_error(w);
    s->output_fd = fd;
    if (s->call)
        abx_call_cancel(s->call); /* nobody reads: end what writes */
}

static void hold_or_go(abx_session *s)
{
    bool wait = abx_out_is_waiting(&s->out) || abx_out_is_waiting(&s->err_out);
    if (!s->call || wait == s->paused)
        return;
    s->paused = wait;
    if (wait)
        abx_call_pause(s->call);
    else
        abx_call_resume(s->call);
}

static void on_drain(void *data)
{
    abx_session *s = data;
    check_writer(s, &s->out, STDOUT_FILENO);
    check_writer(s, &s->err_out, STDERR_FILENO);
    hold_or_go(s);
}

static void write_out(abx_session *s, bool to_stderr, const void *bytes, size_t n)
{
    abx_out_writer *w = to_stderr ? &s->err_out : &s->out;
    abx_out_write(w, bytes, n);
    check_writer(s, w, to_stderr ? STDERR_FILENO : STDOUT_FILENO);
    hold_or_go(s);
}

static void flush_lines(abx_session *s)
{
    if (s->lines.len == 0)
        return;
    write_out(s, false, s->lines.data, s->lines.len);
    abx_buf_reset(&s->lines);
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    (void)c;
    abx_session *s = data;
    s->had_output = true;
    if (!s->json) {
        write_out(s, channel == ABX_CH_STDERR, bytes, n);
        return;
    }
    abx_event_bytes(&s->lines, abx_channel_name(channel), bytes, n, &s->tails[channel]);
    flush_lines(s);
}

/* --- events ------------------------------------------------------------------------------------------- */

static void add_sandbox(yyjson_mut_doc *d, yyjson_mut_val *o, void *data)
{
    abx_mut_str(d, o, "sandbox", ((abx_session *)data)->options->sandbox);
}

static void on_started(abx_session *s, yyjson_val *event)
{
    free(s->process);
    s->process = abx_strdup(abx_json_str(event, "id", ""));
    abx_error *err = NULL;
    if (s->options->plan.raw && abx_terminal_raw(STDIN_FILENO, &err) < 0) {
        abx_error_free(err); /* the terminal is gone: the process still runs */
    }
    if (s->options->plan.pty)
        abx__session_resize(s); /* it may have changed on the way */
    if (s->options->plan.forward)
        abx__session_start_input(s);
}

static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    (void)c;
    abx_session *s = data;
    bool started = strcmp(type, "started") == 0;
    if (s->json && strcmp(type, "exit") != 0) {
        abx_event_object(&s->lines, type, event, started ? add_sandbox : NULL, s);
        flush_lines(s);
    } else if (strcmp(type, "gap") == 0 && !s->options->plan.pty) {
        abx_cli_note(s->cli, "abx: %lld bytes of %s are no longer kept",
                     (long long)abx_json_int(event, "bytes", 0),
                     abx_json_str(event, "stream", "output"));
    }
    if (started && !s->ended)
        on_started(s, event);
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    abx_session *s = data;
    s->call = NULL;
    s->ended = true;
    if (err)
        s->err = abx_error_copy(err);
    else
        s->result = abx_json_copy(result);
}

/* --- the end -------------------------------------------------------------------------------------------- */

void abx_add_exit(yyjson_mut_doc *d, yyjson_mut_val *o, void *data)
{
    yyjson_val *r = data;
    const char *sig = abx_json_str(r, "signal", NULL);
    bool timed_out = abx_json_bool(r, "timedOut", false);
    if (timed_out)
        abx_mut_int(d, o, "exitCode", 124);
    else if (!sig)
        abx_mut_int(d, o, "exitCode", abx_json_int(r, "exitCode", 0));
    abx_mut_str(d, o, "signal", sig);
    if (timed_out)
        abx_mut_bool(d, o, "timedOut", true);
    abx_mut_str(d, o, "limit", abx_json_str(r, "limit", NULL));
    abx_mut_str(d, o, "source", timed_out ? "abx" : "process");
}

/* Let what waits go out; a signal gives that up. */
static void drain(abx_session *s)
{
    if (s->json) {
        for (int i = 0; i < ABX_CH_COUNT; i++)
            abx_event_tail(&s->lines, abx_channel_name((abx_channel)i), &s->tails[i]);
        if (s->result && abx_process_code(yyjson_doc_get_root(s->result)) >= 0)
            abx_event_object(&s->lines, "exit", NULL, abx_add_exit, yyjson_doc_get_root(s->result));
        flush_lines(s);
    }
    while ((abx_out_is_waiting(&s->out) || abx_out_is_waiting(&s->err_out)) &&
           !abx_cli_interrupted(s->cli))
        abx_cli_turn(s->cli);
    check_writer(s, &s->out, STDOUT_FILENO);
    check_writer(s, &s->err_out, STDERR_FILENO);
}

static void close_all(abx_session *s)
{
    abx__session_stop_input(s);
    abx__session_stop_signals(s);
    abx_terminal_restore();
    abx_out_close(&s->out);
    abx_out_close(&s->err_out);
    while (!abx_out_is_closed(&s->out) || !abx_out_is_closed(&s->err_out))
        uv_run(&s->cli->_loop, UV_RUN_NOWAIT);
    abx_buf_clear(&s->lines);
    abx_buf_clear(&s->typed);
    free(s->process);
    yyjson_doc_free(s->result);
    abx_error_free(s->err);
}

/* Why it failed, when that was a limit of the sandbox. */
static void tell_limit(const abx_session *s)
{
    yyjson_val *result = yyjson_doc_get_root(s->result);
    const char *limit = abx_json_str(result, "limit", NULL);
    if (abx_json_bool(result, "timedOut", false))
        abx_cli_note_timeout(s->cli, "the command");
    if (abx_str_eq(limit, "memory"))
        abx_cli_warn(
            s->cli, "abx: out of memory: the sandbox was at its limit, a process in it was killed");
    else if (abx_str_eq(limit, "disk"))
        abx_cli_warn(s->cli,
                     "abx: disk full: the sandbox was at its limit, a process in it was killed");
}

static int take_result(abx_session *s, abx_session_result *out, abx_error **err)
{
    out->had_output = s->had_output;
    if (s->detached && s->err && s->err->id == ABX_ERR_CANCELLED) {
        out->detached = ABX_TAKE(s->process);
        return 0;
    }
    if (!s->json)
        tell_limit(s);
    if (s->output_error == EPIPE) {
        s->cli->output_closed = true;
        out->code = 141;
        return 0;
    }
    if (s->output_error)
        return abx_fail_errno(err, ABX_ERR_FILE, s->output_error, "cannot write to %s",
                              s->output_fd == STDOUT_FILENO ? "standard output" : "standard error");
    if (s->err && s->killed && s->err->id == ABX_ERR_CANCELLED) {
        out->code = 137; /* the second signal: KILL went out, and nobody waited for the answer */
        return 0;
    }
    if (s->err)
        return abx_error_take(err, ABX_TAKE(s->err));
    int code = abx_process_code(yyjson_doc_get_root(s->result));
    out->code = code < 0 ? 0 : code;
    return 0;
}

int abx_session_run(abx_cli *cli, const abx_session_options *options, abx_session_result *out,
                    abx_error **err)
{
    memset(out, 0, sizeof *out);
    abx_session s = {.cli = cli, .options = options, .json = abx_cli_json(cli)};
    s.keys = options->detach_keys;
    abx_buf_init(&s.lines, SIZE_MAX / 2);
    abx_buf_init(&s.typed, SIZE_MAX / 2);
    abx_call_handlers handlers = {.on_event = on_event, .on_chunk = on_chunk, .on_end = on_end};
    s.call = abx_cli_start(cli, options->op, options->params, &handlers, &s, err);
    if (!s.call) {
        abx_buf_clear(&s.lines);
        return -1;
    }
    abx_out_writer_init(&s.out, &cli->_loop, STDOUT_FILENO, on_drain, &s);
    abx_out_writer_init(&s.err_out, &cli->_loop, STDERR_FILENO, on_drain, &s);
    uint64_t begin = abx_now_mono_ms();
    void *former_data = NULL;
    abx_cli_signal_cb former = abx_cli_take_signals(cli, abx__session_on_signal, &s, &former_data);
    while (!s.ended)
        abx_cli_turn(cli);
    out->took_ms = abx_now_mono_ms() - begin;
    abx_cli_log_end(cli, options->op, begin, s.result, s.err);
    drain(&s);
    int rc = take_result(&s, out, err);
    close_all(&s);
    abx_cli_take_signals(cli, former, former_data, NULL);
    return rc;
}
