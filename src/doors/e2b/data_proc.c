/* The processes of a box. The door follows each itself, by process.start, pty.open or process.attach, for as long as it
 * lives, and hands on what it says to whoever follows it here; when nobody does, that is dropped. */
#include "doors/e2b/data_inner.h"

#include <stdio.h>
#include <string.h>

#include "e2b/signal_words.h"

enum { KEEP_END_MS = 30 * 1000, MAX_ENDED = 4096 };

/* --- memory ------------------------------------------------------------------------------------------------ */
e2b_proc *e2b_proc_new(e2b_data *d)
{
    e2b_proc *p = ABX_NEW(e2b_proc);
    p->data = d;
    p->refs = 1;
    abx_link_init(&p->subs);
    abx_link_init(&p->inputs);
    abx_link_init(&p->waiters);
    abx_link_append(&d->procs, &p->node);
    e2b_plane_hold(d);
    return p;
}

void e2b_proc_ref(e2b_proc *p)
{
    p->refs++;
}

void e2b_proc_unref(e2b_proc *p)
{
    if (--p->refs > 0)
        return;
    e2b_data *d = p->data;
    free(p->id);
    free(p->tag);
    free(p->user);
    yyjson_doc_free(p->config);
    free(p);
    e2b_plane_release(d);
}

static void timer_gone(uv_handle_t *h)
{
    e2b_proc_unref(h->data);
}

void e2b_proc_leave(e2b_proc *p)
{
    if (p->node.next == &p->node)
        return;
    abx_link_remove(&p->node);
    if (p->has_timer) {
        p->has_timer = false;
        uv_close((uv_handle_t *)&p->timer, timer_gone);
    }
    e2b_proc_unref(p);
}

static void on_timer(uv_timer_t *t)
{
    e2b_proc_leave(t->data);
}

/* --- followers ----------------------------------------------------------------------------------------------- */
static void sub_leave(e2b_sub *s)
{
    e2b_proc *p = s->proc;
    abx_link_remove(&s->node);
    if (s->held && --p->held == 0 && p->call)
        abx_call_resume(p->call);
    free(s);
    e2b_proc_unref(p);
}

static void on_sub_close(abx_e2b_call *c, bool expired, void *data)
{
    (void)c;
    (void)expired;
    sub_leave(data);
}

static void on_sub_writable(abx_e2b_call *c, void *data)
{
    (void)c;
    e2b_sub *s = data;
    if (!s->held)
        return;
    s->held = false;
    if (--s->proc->held == 0 && s->proc->call)
        abx_call_resume(s->proc->call);
}

static const abx_e2b_call_handlers SUB = {.on_writable = on_sub_writable, .on_close = on_sub_close};

e2b_sub *e2b_sub_add(e2b_proc *p, abx_e2b_call *c)
{
    e2b_sub *s = ABX_NEW(e2b_sub);
    s->proc = p;
    s->call = c;
    e2b_proc_ref(p);
    abx_link_append(&p->subs, &s->node);
    abx_e2b_call_handle(c, &SUB, s);
    return s;
}

void e2b_sub_send_start(const e2b_sub *s)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *start = abx_mut_obj(d, abx_mut_obj(d, root, "event"), "start");
    abx_mut_int(d, start, "pid", s->proc->pid);
    (void)abx_e2b_send(s->call, root);
}

bool e2b_end_text(const e2b_proc *p, char out[64])
{
    if (p->exit_code >= 0) {
        (void)snprintf(out, 64, "exit status %lld", (long long)p->exit_code);
        return p->exit_code != 0;
    }
    const char *words = abx_e2b_signal_words(abx_e2b_signal_number(p->signal));
    (void)snprintf(out, 64, "signal: %s", words ? words : p->signal);
    return true;
}

static void send_end(e2b_sub *s)
{
    const e2b_proc *p = s->proc;
    abx_e2b_call *c = s->call;
    abx_e2b_call_handle(c, NULL, NULL);
    if (s->limited && p->timed_out) {
        abx_e2b_fail(c, ABX_E2B_CODE_DEADLINE_EXCEEDED, "context deadline exceeded");
        return;
    }
    char text[64];
    bool bad = e2b_end_text(p, text);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *end = abx_mut_obj(d, abx_mut_obj(d, root, "event"), "end");
    if (p->exit_code != 0)
        abx_mut_int(d, end, "exitCode", p->exit_code);
    if (p->exit_code >= 0)
        abx_mut_bool(d, end, "exited", true);
    abx_mut_str(d, end, "status", text);
    if (bad)
        abx_mut_str(d, end, "error", text);
    (void)abx_e2b_send(c, root);
    abx_e2b_end(c);
}

void e2b_sub_send_end(e2b_sub *s)
{
    send_end(s);
    sub_leave(s);
}

void e2b_subs_fail(e2b_proc *p, e2b_about about, const abx_error *err)
{
    e2b_proc_ref(p);
    while (p->subs.next != &p->subs) {
        e2b_sub *s = ABX_OF(p->subs.next, e2b_sub, node);
        /* counted references: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        abx_e2b_call *c = s->call;
        abx_e2b_call_handle(c, NULL, NULL);
        sub_leave(s);
        e2b_fail(p->data, c, about, err);
    }
    e2b_proc_unref(p);
}

/* --- what the provider says -------------------------------------------------------------------------------------- */
/* An ended process of the same number or label is forgotten. */
static void replace(const e2b_proc *p)
{
    e2b_data *d = p->data;
    size_t ended = 0;
    for (abx_link *n = d->procs.prev, *next; n != &d->procs; n = next) {
        next = n->prev;
        e2b_proc *other = ABX_OF(n, e2b_proc, node);
        if (other == p || !other->ended)
            continue;
        if (other->pid == p->pid || (p->tag && abx_str_eq(other->tag, p->tag)) ||
            ++ended > MAX_ENDED)
            e2b_proc_leave(other);
    }
}

static void on_started(e2b_proc *p, yyjson_val *event)
{
    const char *id = abx_json_str(event, "id", NULL);
    int64_t pid = abx_json_int(event, "pid", 0);
    uint64_t number = 0;
    if (p->started || !id)
        return;
    if (pid <= 0 && abx_parse_uint(id, UINT32_MAX, &number) == 0)
        pid = (int64_t)number;
    free(p->id);
    p->id = abx_strdup(id);
    if (p->pid <= 0)
        p->pid = pid > 0 && pid <= UINT32_MAX ? pid : p->data->next_pid++;
    p->started = true;
    replace(p);
    for (abx_link *n = p->subs.next; n != &p->subs; n = n->next)
        e2b_sub_send_start(ABX_OF(n, e2b_sub, node));
    e2b_adopted(p, NULL);
}

static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    (void)c;
    if (strcmp(type, "started") == 0)
        on_started(data, event);
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    static const abx_e2b_channel channels[] = {ABX_E2B_STDOUT, ABX_E2B_STDERR, ABX_E2B_PTY,
                                               ABX_E2B_STDOUT};
    e2b_proc *p = data;
    for (abx_link *at = p->subs.next; at != &p->subs; at = at->next) {
        e2b_sub *s = ABX_OF(at, e2b_sub, node);
        if (!abx_e2b_send_data(s->call, channels[channel], bytes, n) && !s->held) {
            s->held = true;
            p->held++;
        }
    }
    if (p->held > 0)
        abx_call_pause(c);
}

static void set_end(e2b_proc *p, yyjson_val *result)
{
    const char *signal = result ? abx_json_str(result, "signal", NULL) : "SIGKILL";
    p->ended = true;
    p->timed_out = abx_json_bool(result, "timedOut", false);
    p->exit_code = signal ? -1 : abx_json_int(result, "exitCode", 0);
    (void)snprintf(p->signal, sizeof(p->signal), "%s", signal ? signal : "");
    while (p->subs.next != &p->subs)
        /* counted references: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        e2b_sub_send_end(ABX_OF(p->subs.next, e2b_sub, node));
    e2b_inputs_fail(p);
    if (p->node.next == &p->node || p->data->closing) {
        e2b_proc_leave(p);
        return;
    }
    ABX_CHECK(uv_timer_init(p->data->door->loop, &p->timer) == 0);
    p->timer.data = p;
    p->has_timer = true;
    e2b_proc_ref(p);
    ABX_CHECK(uv_timer_start(&p->timer, on_timer, KEEP_END_MS, 0) == 0);
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    e2b_proc *p = data;
    p->call = NULL;
    if (!err && !p->started)
        on_started(p, result);
    if (!err || (p->killed && err->id == ABX_ERR_CANCELLED)) {
        set_end(p, result);
    } else if (!e2b_start_again(p, err)) {
        bool began = p->started;
        e2b_adopted(p, err);
        e2b_inputs_fail(p);
        e2b_proc_leave(p); /* where it still runs, who asks for it finds it again */
        if (began)
            /* counted references: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
            e2b_subs_fail(p, E2B_ABOUT_PROCESS, err);
        else
            /* counted references: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
            e2b_start_failed(p, err);
    }
    /* counted references: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    e2b_proc_unref(p);
}

const abx_call_handlers e2b_proc_follow = {
    .on_event = on_event, .on_chunk = on_chunk, .on_end = on_end};

void e2b_procs_close(e2b_data *d)
{
    while (d->procs.next != &d->procs) {
        e2b_proc *p = ABX_OF(d->procs.next, e2b_proc, node);
        /* counted references: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        e2b_inputs_fail(p);
        if (p->call)
            abx_call_cancel(p->call);
        e2b_proc_leave(p);
    }
}

/* --- finding -------------------------------------------------------------------------------------------------------- */
e2b_proc *e2b_proc_find(e2b_data *d, yyjson_val *selector, bool ended)
{
    const char *tag = abx_json_str(selector, "tag", NULL);
    int64_t pid = abx_json_int(selector, "pid", -1);
    e2b_proc *best = NULL;
    for (abx_link *n = d->procs.prev; n != &d->procs; n = n->prev) {
        e2b_proc *p = ABX_OF(n, e2b_proc, node);
        bool fits = p->started && (tag ? abx_str_eq(p->tag, tag) : p->pid == pid);
        if (!fits || (p->ended && !ended))
            continue;
        if (!p->ended)
            return p;
        if (!best)
            best = p;
    }
    return best;
}
