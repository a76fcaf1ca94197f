/* What is written to a process. Pieces by SendInput go one after the other; a StreamInput is one call of the host. */
#include "doors/e2b/data_inner.h"

#include <string.h>

#include "wire/base64.h"

typedef struct input {
    abx_link node; /* of its process, while it waits or runs */
    e2b_proc *proc;
    abx_e2b_call *call; /* NULL: its client is gone, it is written all the same */
    abx_call *run;      /* NULL: it waits for its turn */
    uint8_t *bytes;     /* NULL: a close */
    size_t len;
} input;

/* Why this process takes no such input; NULL: it does. */
static const char *refusal(const e2b_proc *p, abx_e2b_channel channel)
{
    if (channel == ABX_E2B_PTY)
        return p->tty
                   ? NULL
                   : "error writing to tty: tty not assigned to process \xe2\x80\x94 input should "
                     "be written to the stdin, not the tty";
    if (p->tty)
        return "error writing to stdin: tty assigned to process \xe2\x80\x94 input should be "
               "written to the pty, not the stdin";
    return p->has_stdin ? NULL : "error writing to stdin: stdin not enabled or closed";
}

static void input_free(input *in)
{
    e2b_proc *p = in->proc;
    abx_link_remove(&in->node);
    free(in->bytes);
    free(in);
    e2b_proc_unref(p);
}

static void next(e2b_proc *p);

static void input_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    input *in = data;
    e2b_proc *p = in->proc;
    abx_e2b_call *call = in->call;
    /* a second close finds nothing to close */
    bool idle = !in->bytes && err && err->id == ABX_ERR_CONFLICT;
    e2b_proc_ref(p);
    input_free(in);
    if (call) {
        abx_e2b_call_handle(call, NULL, NULL);
        if (err && !idle)
            e2b_fail(p->data, call, E2B_ABOUT_INPUT, err);
        else
            abx_e2b_answer(call, NULL);
    }
    next(p);
    e2b_proc_unref(p);
}

static yyjson_mut_doc *params_of(const e2b_proc *p)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = e2b_params(p->data, NULL, &root);
    abx_mut_str(d, root, p->tty ? "ptyId" : "processId", p->id);
    return d;
}

static void next(e2b_proc *p)
{
    static const abx_call_handlers on = {.on_end = input_end};
    while (p->inputs.next != &p->inputs) {
        input *in = ABX_OF(p->inputs.next, input, node);
        /* counted references: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        if (in->run)
            return;
        ABX_AUTO_ERROR err = NULL;
        abx_op_id op = !in->bytes ? ABX_OP_PROCESS_CLOSE_STDIN
                       : p->tty   ? ABX_OP_PTY_WRITE
                                  : ABX_OP_PROCESS_STDIN;
        if (e2b_launch(p->data, op, params_of(p), &on, in, &in->run, &err) == 0) {
            if (in->bytes) {
                (void)abx_call_write(in->run, in->bytes, in->len);
                abx_call_write_end(in->run);
            }
            return;
        }
        abx_e2b_call *call = in->call;
        input_free(in);
        if (!call)
            continue;
        abx_e2b_call_handle(call, NULL, NULL);
        e2b_fail(p->data, call, E2B_ABOUT_INPUT, err);
    }
}

static void input_gone(abx_e2b_call *c, bool expired, void *data)
{
    (void)c;
    (void)expired;
    ((input *)data)->call = NULL;
}

static void add(e2b_proc *p, abx_e2b_call *c, uint8_t *bytes, size_t n)
{
    static const abx_e2b_call_handlers on = {.on_close = input_gone};
    input *in = ABX_NEW(input);
    in->proc = p;
    in->call = c;
    in->bytes = bytes;
    in->len = n;
    e2b_proc_ref(p);
    abx_link_append(&p->inputs, &in->node);
    abx_e2b_call_handle(c, &on, in);
    e2b_proc_ref(p);
    next(p);
    e2b_proc_unref(p);
}

/* Those that wait for their turn; the one that runs is ended by the host. */
void e2b_inputs_fail(e2b_proc *p)
{
    for (abx_link *n = p->inputs.next, *after; n != &p->inputs; n = after) {
        after = n->next;
        input *in = ABX_OF(n, input, node);
        if (in->run) {
            if (p->data->closing)
                abx_call_cancel(in->run);
            continue;
        }
        abx_e2b_call *call = in->call;
        abx_link_remove(&in->node);
        free(in->bytes);
        free(in);
        if (call) {
            abx_e2b_call_handle(call, NULL, NULL);
            abx_e2b_fail(call, ABX_E2B_CODE_INTERNAL, "error writing to stdin: process has ended");
        }
        e2b_proc_unref(p); /* never the last: the caller has one */
    }
}

/* --- SendInput, CloseStdin --------------------------------------------------------------------------------------- */
static void send_input(e2b_data *d, abx_e2b_call *c, yyjson_val *q, e2b_proc *p)
{
    (void)d;
    yyjson_val *given = abx_json_get(q, "input");
    const char *in = abx_json_str(given, "stdin", NULL), *typed = abx_json_str(given, "pty", NULL);
    if (!in && !typed) {
        abx_e2b_fail(c, ABX_E2B_CODE_UNIMPLEMENTED, "invalid input type <nil>");
        return;
    }
    const char *why = refusal(p, typed ? ABX_E2B_PTY : ABX_E2B_STDIN);
    if (why) {
        abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL, "%s", why);
        return;
    }
    const char *text = typed ? typed : in;
    size_t n = 0;
    uint8_t *bytes = abx_base64_bytes(text, strlen(text), ABX_BASE64_STANDARD, &n);
    if (bytes && n > 0) {
        add(p, c, bytes, n);
        return;
    }
    free(bytes);
    abx_e2b_answer(c, NULL);
}

void e2b_rpc_send_input(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    e2b_select(d, c, q, false, send_input);
}

static void close_stdin(e2b_data *d, abx_e2b_call *c, yyjson_val *q, e2b_proc *p)
{
    (void)d;
    (void)q;
    if (p->tty) {
        abx_e2b_fail(c, ABX_E2B_CODE_UNKNOWN,
                     "error closing stdin: cannot close stdin for PTY process \xe2\x80\x94 send "
                     "Ctrl+D (0x04) instead");
        return;
    }
    if (!p->has_stdin) {
        abx_e2b_answer(c, NULL);
        return;
    }
    p->has_stdin = false;
    add(p, c, NULL, 0);
}

void e2b_rpc_close_stdin(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    e2b_select(d, c, q, false, close_stdin);
}

/* --- StreamInput ---------------------------------------------------------------------------------------------------- */
typedef struct typing {
    e2b_data *data;
    abx_e2b_call *call; /* NULL: over */
    e2b_proc *proc;     /* NULL: not started */
    abx_call *run;      /* NULL: nothing was written yet, or it is over */
} typing;

static void typing_try_free(typing *t)
{
    if (t->call || t->run)
        return;
    e2b_data *d = t->data;
    if (t->proc)
        e2b_proc_unref(t->proc);
    free(t);
    e2b_plane_release(d);
}

/* The client's call is over for us. */
static abx_e2b_call *typing_take(typing *t)
{
    abx_e2b_call *c = ABX_TAKE(t->call);
    abx_e2b_call_handle(c, NULL, NULL);
    return c;
}

static void typing_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    typing *t = data;
    t->run = NULL;
    if (t->call && err)
        e2b_fail(t->data, typing_take(t), E2B_ABOUT_INPUT, err);
    else if (t->call)
        abx_e2b_answer(typing_take(t), NULL);
    typing_try_free(t);
}

static void typing_writable(abx_call *c, void *data)
{
    (void)c;
    const typing *t = data;
    if (t->call)
        abx_e2b_call_resume(t->call);
}

static void typing_say(typing *t, abx_e2b_code code, const char *text)
{
    if (t->run)
        abx_call_write_end(t->run);
    abx_e2b_fail(typing_take(t), code, "%s", text);
    typing_try_free(t);
}

static void typing_bytes(abx_e2b_call *c, abx_e2b_channel channel, const uint8_t *bytes, size_t n,
                         void *data)
{
    static const abx_call_handlers on = {.on_writable = typing_writable, .on_end = typing_end};
    typing *t = data;
    const char *why = t->proc ? refusal(t->proc, channel) : NULL;
    if (t->proc && t->proc->ended)
        why = "error writing to stdin: process has ended";
    if (!t->proc || why) {
        typing_say(t, t->proc ? ABX_E2B_CODE_INTERNAL : ABX_E2B_CODE_UNIMPLEMENTED,
                   why ? why : "the first message must be start");
        return;
    }
    ABX_AUTO_ERROR err = NULL;
    abx_op_id op = t->proc->tty ? ABX_OP_PTY_WRITE : ABX_OP_PROCESS_STDIN;
    if (!t->run && e2b_launch(t->data, op, params_of(t->proc), &on, t, &t->run, &err) < 0) {
        e2b_fail(t->data, typing_take(t), E2B_ABOUT_INPUT, err);
        typing_try_free(t);
        return;
    }
    if (n > 0 && !abx_call_write(t->run, bytes, n))
        abx_e2b_call_pause(c);
}

static void typing_half_closed(abx_e2b_call *c, void *data)
{
    (void)c;
    typing *t = data;
    if (t->run) {
        abx_call_write_end(t->run);
        return;
    }
    abx_e2b_answer(typing_take(t), NULL);
    typing_try_free(t);
}

static void typing_closed(abx_e2b_call *c, bool expired, void *data)
{
    (void)c;
    (void)expired;
    typing *t = data;
    t->call = NULL;
    if (t->run)
        abx_call_write_end(t->run);
    typing_try_free(t);
}

static void typing_message(abx_e2b_call *c, yyjson_val *m, void *data);
static const abx_e2b_call_handlers TYPING = {.on_message = typing_message,
                                             .on_input = typing_bytes,
                                             .on_half_close = typing_half_closed,
                                             .on_close = typing_closed};

static void typing_new(e2b_data *d, abx_e2b_call *c, yyjson_val *q, e2b_proc *p)
{
    (void)q;
    typing *t = ABX_NEW(typing);
    t->data = d;
    t->call = c;
    t->proc = p;
    if (p)
        e2b_proc_ref(p);
    e2b_plane_hold(d);
    abx_e2b_call_handle(c, &TYPING, t);
    abx_e2b_call_resume(c);
}

static void typing_message(abx_e2b_call *c, yyjson_val *m, void *data)
{
    typing *t = data;
    yyjson_val *start = abx_json_get(m, "start");
    if (!start) {
        if (!abx_json_get(m, "keepalive"))
            typing_say(t, ABX_E2B_CODE_UNIMPLEMENTED,
                       abx_json_get(m, "data") ? "invalid input type <nil>"
                                               : "invalid event type <nil>");
        return;
    }
    /* what comes meanwhile waits in the server */
    abx_e2b_call_pause(c);
    if (t->run)
        abx_call_write_end(t->run);
    (void)typing_take(t);
    e2b_select_doc(t->data, c, abx_json_copy(start), typing_new);
    typing_try_free(t);
}

void e2b_rpc_stream_input(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    typing_new(d, c, q, NULL);
}
