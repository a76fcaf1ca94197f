/* process.Process: what each request asks, and how refusals are worded. */
#include "local/envd/inner.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/base64.h"

/* --- List --------------------------------------------------------------------------------------------------- */
static void put_abx_info(const abx__proc *p, yyjson_mut_doc *d, yyjson_mut_val *o)
{
    char time[ABX_RFC3339_SIZE], name[16];
    abx_mut_str(d, o, "abxId", p->id);
    abx_format_rfc3339(p->started_ms, time);
    abx_mut_str(d, o, "abxStartedAt", time);
    abx_mut_bool(d, o, "abxBackground", p->background);
    abx_mut_str(d, o, "abxState", p->ended ? "exited" : "running");
    abx_mut_bool(d, o, "abxTty", p->tty);
    if (!p->ended)
        return;
    if (WIFEXITED(p->status))
        abx_mut_int(d, o, "abxExitCode", WEXITSTATUS(p->status));
    else
        abx_mut_str(d, o, "abxSignal", abx__signal_name(WTERMSIG(p->status), name));
    if (p->timed_out)
        abx_mut_bool(d, o, "abxTimedOut", true);
    abx_mut_str(d, o, "abxLimit", p->limit);
}

void abx__rpc_list(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    bool abx = abx_json_bool(q, "abx", false);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = NULL;
    for (abx_link *n = e->procs.next; n != &e->procs; n = n->next) {
        const abx__proc *p = ABX_OF(n, abx__proc, node);
        if (p->ended && !abx)
            continue;
        if (!list)
            list = abx_mut_arr(d, root, "processes");
        yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
        abx_mut_val(d, o, "config", yyjson_doc_get_root(p->config));
        abx_mut_int(d, o, "pid", p->pid);
        abx_mut_str(d, o, "tag", p->tag);
        if (abx)
            put_abx_info(p, d, o);
    }
    abx_e2b_answer(c, root);
}

/* --- Start --------------------------------------------------------------------------------------------------- */
/* The folder to start in; 0, -1: the call was failed. */
static int find_cwd(abx_envd *e, abx__start *st)
{
    const char *asked = NULL;
    yyjson_val *process = abx_json_get(st->request, "process");
    if (process && abx__path_member(st->call, process, "cwd", "chdir", &asked) < 0)
        return -1;
    st->cwd = abx__path_resolve(e, asked ? asked : "", &st->user);
    if (!st->cwd) {
        abx_e2b_fail(st->call, ABX_E2B_CODE_INVALID_ARGUMENT, ABX__NO_TILDE, st->user.name);
        return -1;
    }
    struct stat found;
    if (st->abx || stat(st->cwd, &found) == 0 || errno != ENOENT)
        return 0;
    abx_e2b_fail(st->call, ABX_E2B_CODE_INVALID_ARGUMENT, "cwd '%s' does not exist", st->cwd);
    return -1;
}

static void read_size(abx__start *st, yyjson_val *pty)
{
    yyjson_val *size = abx_json_get(pty, "size");
    st->cols = (unsigned)abx_json_int(size, "cols", 0) & 0xffff;
    st->rows = (unsigned)abx_json_int(size, "rows", 0) & 0xffff;
}

/* A NUL would cut a word off. */
static bool is_whole(yyjson_val *v)
{
    return !yyjson_is_str(v) || strlen(yyjson_get_str(v)) == yyjson_get_len(v);
}

static bool words_are_whole(yyjson_val *process)
{
    yyjson_val *args = abx_json_get(process, "args"), *envs = abx_json_get(process, "envs");
    bool whole = is_whole(abx_json_get(process, "cmd"));
    yyjson_arr_iter words = yyjson_arr_iter_with(args);
    for (yyjson_val *v; (v = yyjson_arr_iter_next(&words));)
        whole = whole && is_whole(v);
    yyjson_obj_iter pairs = yyjson_obj_iter_with(envs);
    for (yyjson_val *k; (k = yyjson_obj_iter_next(&pairs));)
        whole = whole && is_whole(k) && is_whole(yyjson_obj_iter_get_val(k));
    return whole;
}

void abx__rpc_start(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    abx__start st = {.request = q, .call = c};
    if (abx__user_of(e, c, &st.user) < 0)
        return;
    if (!words_are_whole(abx_json_get(q, "process"))) {
        abx_e2b_fail(c, ABX_E2B_CODE_INVALID_ARGUMENT,
                     "error starting process: a word of it holds a NUL");
        return;
    }
    st.abx = abx_json_bool(q, "abx", false);
    yyjson_val *pty = abx_json_get(q, "pty");
    st.tty = pty != NULL;
    read_size(&st, pty);
    yyjson_val *in = abx_json_get(q, "stdin");
    st.has_stdin = !in || yyjson_get_bool(in);
    st.timeout_ms = abx_e2b_call_timeout_ms(c);
    if (st.abx) {
        st.background = abx_json_bool(q, "abxBackground", false);
        st.tied = abx_json_bool(q, "abxTied", false);
        int64_t ms = abx_json_int(q, "abxTimeoutMs", 0);
        st.timeout_ms = ms > 0 ? (uint64_t)ms : ABX_FOREVER;
        st.input = abx_json_str(q, "abxInput", NULL);
        st.has_stdin = st.has_stdin || st.input;
    }
    if (find_cwd(e, &st) == 0)
        (void)abx__proc_start(e, &st);
    free(st.cwd);
}

/* --- Connect ---------------------------------------------------------------------------------------------------- */
/* Where this subscriber begins. */
static void set_offset(abx__sub *s, yyjson_val *q, const char *key, size_t i)
{
    const abx__chan *c = &s->proc->chans[i];
    int64_t from = abx_json_int(q, key, -1);
    if (from >= 0 && c->reading && (uint64_t)from < c->total)
        s->at[i] = (uint64_t)from;
}

void abx__rpc_connect(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    abx__proc *p = abx__proc_select(e, c, abx_json_get(q, "process"), true);
    if (!p)
        return;
    abx__sub *s = abx__sub_add(p, c);
    s->no_follow = abx_json_bool(q, "abxNoFollow", false);
    s->tied = abx_json_bool(q, "abxTied", false);
    s->times = abx_json_bool(q, "abxTimes", false);
    if (abx_json_bool(q, "abxMissed", false))
        abx__sub_missed(s);
    set_offset(s, q, "abxFromStdout", ABX_E2B_STDOUT);
    set_offset(s, q, "abxFromStderr", ABX_E2B_STDERR);
    set_offset(s, q, "abxFromPty", ABX_E2B_PTY);
    abx__send_start(p, s);
    abx__sub_catch_up(s);
    for (size_t i = 0; i < ABX_COUNT(p->chans); i++)
        abx__chan_update(&p->chans[i]);
}

/* --- Update ------------------------------------------------------------------------------------------------------ */
void abx__rpc_update(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    abx__proc *p = abx__proc_select(e, c, abx_json_get(q, "process"), false);
    if (!p)
        return;
    yyjson_val *pty = abx_json_get(q, "pty");
    char text[96];
    if (pty && !p->tty) {
        abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL, "error resizing tty: tty not assigned to process");
        return;
    }
    if (abx_json_bool(q, "abxDetach", false)) {
        abx__proc_detach(p);
        e->kept = true;
    }
    abx__start st = {0};
    read_size(&st, pty);
    struct winsize size = {.ws_col = (unsigned short)st.cols, .ws_row = (unsigned short)st.rows};
    if (pty && ioctl(p->chans[ABX_E2B_PTY].fd, TIOCSWINSZ, &size) < 0)
        abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL, "error resizing tty: %s",
                     abx__errno_text(errno, text));
    else
        abx_e2b_answer(c, NULL);
}

/* --- SendInput, StreamInput, CloseStdin -------------------------------------------------------------------- */
/* The peer of a unary SendInput went away: what it sent is written all the same. */
static void input_closed(abx_e2b_call *c, bool expired, void *data)
{
    (void)expired;
    abx__proc *p = data;
    for (abx_link *n = p->inputs.next; n != &p->inputs; n = n->next) {
        abx__input *i = ABX_OF(n, abx__input, node);
        if (i->call == c)
            i->call = NULL;
    }
}

static const abx_e2b_call_handlers INPUT_HANDLERS = {.on_close = input_closed};

void abx__rpc_send_input(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    abx__proc *p = abx__proc_select(e, c, abx_json_get(q, "process"), false);
    if (!p)
        return;
    yyjson_val *input = abx_json_get(q, "input");
    const char *in = abx_json_str(input, "stdin", NULL);
    const char *typed = abx_json_str(input, "pty", NULL);
    if (!in && !typed) {
        abx_e2b_fail(c, ABX_E2B_CODE_UNIMPLEMENTED, "invalid input type <nil>");
        return;
    }
    const char *refusal = abx__input_refusal(p, typed ? ABX_E2B_PTY : ABX_E2B_STDIN);
    if (refusal) {
        abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL, "%s", refusal);
        return;
    }
    const char *text = typed ? typed : in;
    size_t n = 0;
    uint8_t *bytes = abx_base64_bytes(text, strlen(text), ABX_BASE64_STANDARD, &n);
    abx_e2b_call_handle(c, &INPUT_HANDLERS, p);
    abx__input_add(p, bytes, n, c, false);
}

/* One StreamInput call. */
typedef struct typing {
    abx_envd *envd;
    char id[24];
    bool started;
} typing;

static abx__proc *typing_proc(const typing *t)
{
    for (abx_link *n = t->envd->procs.next; n != &t->envd->procs; n = n->next) {
        abx__proc *p = ABX_OF(n, abx__proc, node);
        if (strcmp(p->id, t->id) == 0 && !p->ended)
            return p;
    }
    return NULL;
}

static void typing_message(abx_e2b_call *c, yyjson_val *m, void *data)
{
    typing *t = data;
    yyjson_val *start = abx_json_get(m, "start");
    if (start) {
        abx__proc *p = abx__proc_select(t->envd, c, abx_json_get(start, "process"), false);
        if (!p) {
            free(t);
            return;
        }
        memcpy(t->id, p->id, sizeof(t->id));
        t->started = true;
    } else if (!abx_json_get(m, "keepalive")) {
        abx_e2b_fail(c, ABX_E2B_CODE_UNIMPLEMENTED,
                     abx_json_get(m, "data") ? "invalid input type <nil>"
                                             : "invalid event type <nil>");
        free(t);
    }
}

static void typing_bytes(abx_e2b_call *c, abx_e2b_channel channel, const uint8_t *bytes, size_t n,
                         void *data)
{
    typing *t = data;
    abx__proc *p = t->started ? typing_proc(t) : NULL;
    const char *refusal = p            ? abx__input_refusal(p, channel)
                          : t->started ? "error writing to stdin: process has ended"
                                       : NULL;
    if (!p || refusal) {
        abx_e2b_fail(c, t->started ? ABX_E2B_CODE_INTERNAL : ABX_E2B_CODE_UNIMPLEMENTED, "%s",
                     refusal ? refusal : "the first message must be start");
        free(t);
        return;
    }
    uint8_t *copy = abx_alloc(n ? n : 1);
    memcpy(copy, bytes, n);
    abx__input_add_stream(p, copy, n, c, t);
}

static void typing_half_closed(abx_e2b_call *c, void *data)
{
    free(data);
    abx_e2b_answer(c, NULL);
}

static void typing_closed(abx_e2b_call *c, bool expired, void *data)
{
    typing *t = data;
    abx__proc *p = t->started ? typing_proc(t) : NULL;
    if (p)
        input_closed(c, expired, p);
    free(t);
}

static const abx_e2b_call_handlers TYPING = {.on_message = typing_message,
                                             .on_input = typing_bytes,
                                             .on_half_close = typing_half_closed,
                                             .on_close = typing_closed};

void abx__rpc_stream_input(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    (void)q;
    typing *t = ABX_NEW(typing);
    t->envd = e;
    abx_e2b_call_handle(c, &TYPING, t);
}

void abx__rpc_close_stdin(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    abx__proc *p = abx__proc_select(e, c, abx_json_get(q, "process"), false);
    if (!p)
        return;
    if (p->tty) {
        abx_e2b_fail(c, ABX_E2B_CODE_UNKNOWN,
                     "error closing stdin: cannot close stdin for PTY process \xe2\x80\x94 send "
                     "Ctrl+D (0x04) instead");
        return;
    }
    abx__input_close(p);
    abx_e2b_answer(c, NULL);
}

/* --- SendSignal ------------------------------------------------------------------------------------------------- */
void abx__rpc_send_signal(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    abx__proc *p = abx__proc_select(e, c, abx_json_get(q, "process"), false);
    if (!p)
        return;
    int64_t ours = abx_json_int(q, "abxSignal", -1);
    char text[96];
    if (ours >= 0) {
        if (ours >= NSIG) {
            abx_e2b_fail(c, ABX_E2B_CODE_INVALID_ARGUMENT, "invalid signal: %lld", (long long)ours);
            return;
        }
        if (ours == SIGKILL) {
            abx__proc_kill_all(p);
        } else if (!p->reaped && kill(-p->pid, (int)ours) < 0 && kill(p->pid, (int)ours) < 0) {
            abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL, "error sending signal: %s",
                         abx__errno_text(errno, text));
            return;
        }
        abx_e2b_answer(c, NULL);
        return;
    }
    yyjson_val *asked = abx_json_get(q, "signal");
    const char *name = yyjson_get_str(asked);
    int sig = abx_str_eq(name, "SIGNAL_SIGKILL")   ? SIGKILL
              : abx_str_eq(name, "SIGNAL_SIGTERM") ? SIGTERM
                                                   : 0;
    if (sig == 0) {
        if (yyjson_is_int(asked) && yyjson_get_sint(asked) != 0)
            abx_e2b_fail(c, ABX_E2B_CODE_UNIMPLEMENTED, "invalid signal: %lld",
                         (long long)yyjson_get_sint(asked));
        else
            abx_e2b_fail(c, ABX_E2B_CODE_UNIMPLEMENTED, "invalid signal: SIGNAL_UNSPECIFIED");
        return;
    }
    if (!p->abx)
        p->no_wait = true;
    if (!p->reaped && kill(p->pid, sig) < 0) {
        abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL, "error sending signal: %s",
                     abx__errno_text(errno, text));
        return;
    }
    abx_e2b_answer(c, NULL);
    abx__proc_check_end(p);
}
