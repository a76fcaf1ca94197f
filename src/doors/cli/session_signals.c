/* Signals of a session. The first is passed on; a second one within two seconds kills and leaves. What has not started yet
 * is cancelled. On a terminal in raw mode Ctrl-C is a byte and does not come here. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "doors/cli/session_inner.h"
#include "doors/cli/signals.h"
#include "doors/cli/terminal.h"

#define AGAIN_MS 2000 /* a second signal within this kills */
#define SIDE_MS  5000 /* a signal or a size that does not arrive holds up nothing */
#define LEAVE_MS 3000 /* after KILL: leave, whatever the backend says */

static void on_detach_end(abx_session *s, const abx_error *err)
{
    s->detaching = false;
    if (s->ended)
        return;
    if (err) {
        abx_cli_warn(s->cli, "abx: cannot detach: %s", abx_error_text(err));
        return;
    }
    s->detached = true;
    if (s->call)
        abx_call_cancel(s->call);
}

static void send_signal(abx_session *s, const char *name);

/* A sandbox that can only be asked to end or to kill gets the former for all that ask for an end; where no signal can be sent, the
 * command is left. */
static void on_signal_end(abx_session *s, const abx_error *err)
{
    if (!err || err->id != ABX_ERR_FEATURE_MISSING || s->ended)
        return;
    if (s->softened) {
        abx_cli_interrupt(s->cli, s->signal);
        if (s->call)
            abx_call_cancel(s->call);
        return;
    }
    s->softened = true;
    send_signal(s, "TERM");
}

static void on_side_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)result; /* err: the process may have ended meanwhile */
    abx_session *s = data;
    s->side_calls--;
    if (abx_call_op(c)->id == ABX_OP_PROCESS_DETACH)
        on_detach_end(s, err);
    if (abx_call_op(c)->id == ABX_OP_PROCESS_SIGNAL)
        on_signal_end(s, err);
    if (abx_call_op(c)->id != ABX_OP_PTY_RESIZE)
        return;
    s->resizing = false;
    if (s->resize_again && !s->ended)
        abx__session_resize(s);
}

/* A small call beside the session. params is taken over. */
static bool start_side(abx_session *s, abx_op_id op, yyjson_mut_doc *params)
{
    abx_call_handlers handlers = {.on_end = on_side_end};
    abx_error *err = NULL;
    abx_call *c = abx_cli_start(s->cli, op, params, &handlers, s, &err);
    if (!c) {
        if (op == ABX_OP_PROCESS_SIGNAL)
            on_signal_end(s, err);
        abx_error_free(err);
        return false;
    }
    abx_call_set_deadline(c, SIDE_MS);
    s->side_calls++;
    return true;
}

void abx__session_resize(abx_session *s)
{
    int cols, rows;
    if (!s->process || s->ended || abx_terminal_size(STDOUT_FILENO, &cols, &rows) < 0)
        return;
    if (s->resizing) {
        s->resize_again = true;
        return;
    }
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_cli_params(s->options->sandbox, &root);
    abx_mut_str(params, root, "ptyId", s->process);
    abx_mut_int(params, root, "cols", cols);
    abx_mut_int(params, root, "rows", rows);
    s->resize_again = false;
    s->resizing = start_side(s, ABX_OP_PTY_RESIZE, params);
}

void abx__session_detach(abx_session *s)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_cli_params(s->options->sandbox, &root);
    abx_mut_str(params, root, "processId", s->process);
    s->detaching = start_side(s, ABX_OP_PROCESS_DETACH, params);
}

static void send_signal(abx_session *s, const char *name)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_cli_params(s->options->sandbox, &root);
    abx_mut_str(params, root, "processId", s->process);
    abx_mut_str(params, root, "signal", name);
    start_side(s, ABX_OP_PROCESS_SIGNAL, params);
}

static void on_timer(uv_timer_t *timer);

static void arm(abx_session *s, uint64_t ms)
{
    if (!s->timer_open) {
        uv_timer_init(&s->cli->_loop, &s->timer);
        s->timer.data = s;
        s->timer_open = true;
    }
    uv_timer_start(&s->timer, on_timer, ms, 0);
}

static void kill_all(abx_session *s)
{
    s->killed = true;
    if (s->options->plan.pty) {
        yyjson_mut_val *root = NULL;
        yyjson_mut_doc *params = abx_cli_params(s->options->sandbox, &root);
        abx_mut_str(params, root, "ptyId", s->process);
        start_side(s, ABX_OP_PTY_CLOSE, params);
    } else {
        send_signal(s, "KILL");
    }
    arm(s, LEAVE_MS);
}

static void on_timer(uv_timer_t *timer)
{
    abx_session *s = timer->data;
    if (s->ended)
        return;
    if (!s->killed)
        kill_all(s);
    else if (s->call)
        abx_call_cancel(s->call);
}

static void pass_on(abx_session *s, int sig)
{
    uint64_t now = abx_now_mono_ms();
    bool again = s->last_signal_ms && now - s->last_signal_ms < AGAIN_MS;
    s->last_signal_ms = now;
    s->signal = sig;
    if (s->killed) {
        if (s->call)
            abx_call_cancel(s->call);
        return;
    }
    if (again) {
        kill_all(s);
        return;
    }
    send_signal(s, abx_signal_name(sig));
    /* Our terminal is gone, or somebody wants us gone; an interactive shell inside ignores TERM. */
    if (s->options->plan.pty && sig != SIGINT)
        arm(s, AGAIN_MS);
}

void abx__session_on_signal(abx_cli *cli, int sig, void *data)
{
    abx_session *s = data;
    if (sig == SIGWINCH) {
        if (s->options->plan.pty)
            abx__session_resize(s);
        return;
    }
    if (s->ended || !s->process || s->options->leave) {
        abx_cli_interrupt(cli, sig);
        if (s->call)
            abx_call_cancel(s->call);
        return;
    }
    pass_on(s, sig);
}

static void on_timer_closed(uv_handle_t *handle)
{
    ((abx_session *)handle->data)->timer_open = false;
}

void abx__session_stop_signals(abx_session *s)
{
    while (s->side_calls > 0)
        abx_cli_turn(s->cli);
    if (s->timer_open)
        uv_close((uv_handle_t *)&s->timer, on_timer_closed);
    while (s->timer_open)
        uv_run(&s->cli->_loop, UV_RUN_NOWAIT);
}
