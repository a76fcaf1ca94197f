/* Standard input of a session: reader → process.stdin or pty.write. */
#include <unistd.h>

#include "doors/cli/session_inner.h"

static int on_bytes(const uint8_t *bytes, size_t n, void *data)
{
    abx_session *s = data;
    if (!s->input || s->detaching || s->detached)
        return 1;
    if (!s->options->plan.raw || s->keys.count == 0)
        return abx_call_write(s->input, bytes, n);
    abx_buf_reset(&s->typed);
    bool leave = abx_detach_keys_feed(&s->keys, bytes, n, &s->typed);
    int rc = s->typed.len > 0 ? abx_call_write(s->input, s->typed.data, s->typed.len) : 1;
    if (leave)
        abx__session_detach(s);
    return rc;
}

static void on_read_end(int error, void *data)
{
    (void)error; /* an input that breaks ends, as for any program behind a pipe */
    abx_session *s = data;
    abx_buf_reset(&s->typed);
    abx_detach_keys_flush(&s->keys, &s->typed);
    if (s->input && s->typed.len > 0)
        (void)abx_call_write(s->input, s->typed.data, s->typed.len);
    if (s->input)
        abx_call_write_end(s->input);
}

static void on_writable(abx_call *c, void *data)
{
    (void)c;
    abx_session *s = data;
    abx_stdin_reader_resume(&s->reader);
}

/* A process that closed its input, or ended, makes this fail: as a broken pipe would, it only ends the reading. */
static void on_input_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    (void)err;
    abx_session *s = data;
    s->input = NULL;
    abx_stdin_reader_close(&s->reader);
}

void abx__session_start_input(abx_session *s)
{
    bool pty = s->options->plan.pty;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_cli_params(s->options->sandbox, &root);
    abx_mut_str(params, root, pty ? "ptyId" : "processId", s->process);
    if (!pty)
        abx_mut_bool(params, root, "close", true);
    abx_call_handlers handlers = {.on_writable = on_writable, .on_end = on_input_end};
    abx_error *err = NULL;
    s->input = abx_cli_start(s->cli, pty ? ABX_OP_PTY_WRITE : ABX_OP_PROCESS_STDIN, params,
                             &handlers, s, &err);
    if (!s->input) {
        if (!s->err)
            s->err = err;
        else
            abx_error_free(err);
        abx_call_cancel(s->call);
        return;
    }
    s->reading = true;
    abx_stdin_reader_init(&s->reader, &s->cli->_loop, STDIN_FILENO, on_bytes, on_read_end, s);
    abx_stdin_reader_start(&s->reader);
}

void abx__session_stop_input(abx_session *s)
{
    if (!s->reading)
        return;
    abx_stdin_reader_close(&s->reader);
    if (s->input)
        abx_call_cancel(s->input);
    while (s->input)
        abx_cli_turn(s->cli);
    while (!abx_stdin_reader_is_closed(&s->reader))
        uv_run(&s->cli->_loop, UV_RUN_NOWAIT);
}
