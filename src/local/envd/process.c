/* The table of processes: from the exec to the moment its end is forgotten. */
#include "local/envd/inner.h"

#include "local/cgroup.h"
#include "local/envd/guard.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/id.h"
#include "e2b/signal_words.h"

enum { GRACE_MS = 100, KEEP_END_MS = 30 * 1000, MAX_RECORDS = 8192 };

/* --- names of ends ------------------------------------------------------------------------------------ */
const char *abx__signal_name(int sig, char out[16])
{
    const char *name = sigabbrev_np(sig);
    if (name)
        (void)snprintf(out, 16, "SIG%s", name);
    else
        (void)snprintf(out, 16, "SIG%d", sig);
    return out;
}

void abx__proc_put_end(const abx__proc *p, yyjson_mut_doc *d, yyjson_mut_val *end)
{
    char text[96], name[16];
    if (WIFEXITED(p->status)) {
        int code = WEXITSTATUS(p->status);
        (void)snprintf(text, sizeof(text), "exit status %d", code);
        if (code != 0)
            abx_mut_int(d, end, "exitCode", code);
        abx_mut_bool(d, end, "exited", true);
        abx_mut_str(d, end, "status", text);
        if (code != 0)
            abx_mut_str(d, end, "error", text);
    } else {
        int sig = WTERMSIG(p->status);
        const char *word = abx_e2b_signal_words(sig);
        const char *core = WCOREDUMP(p->status) ? " (core dumped)" : "";
        if (word)
            (void)snprintf(text, sizeof(text), "signal: %s%s", word, core);
        else
            (void)snprintf(text, sizeof(text), "signal: signal %d%s", sig, core);
        abx_mut_int(d, end, "exitCode", -1);
        abx_mut_str(d, end, "status", text);
        abx_mut_str(d, end, "error", text);
        if (p->abx)
            abx_mut_str(d, end, "abxSignal", abx__signal_name(sig, name));
    }
    if (p->abx && p->timed_out)
        abx_mut_bool(d, end, "abxTimedOut", true);
    if (p->abx)
        abx_mut_str(d, end, "abxLimit", p->limit);
}

/* --- memory ---------------------------------------------------------------------------------------------- */
/* After the last one memory goes back: many ended records may have lain on top. */
static void trim(const abx_envd *e)
{
    if (e->is_init && e->procs.next == &e->procs && e->left.next == &e->left)
        (void)malloc_trim(0);
}

static void proc_free(abx__proc *p)
{
    abx_envd *e = p->envd;
    abx_link_remove(&p->node);
    trim(e);
    for (size_t i = 0; i < ABX_COUNT(p->chans); i++) {
        abx_close_fd(&p->chans[i].fd);
        abx__store_free(p->chans[i].store);
    }
    abx_close_fd(&p->pidfd);
    yyjson_doc_free(p->config);
    free(p->tag);
    free(p);
    abx__envd_released(e);
}

void abx__proc_released(abx__proc *p)
{
    p->handles--;
    if (p->gone && p->handles == 0)
        proc_free(p);
}

static void handle_gone(uv_handle_t *h)
{
    abx__proc_released(h->data);
}

static void close_pidfd(abx__proc *p)
{
    if (p->pidfd < 0)
        return;
    (void)uv_poll_stop(&p->pidfd_poll);
    abx_close_fd(&p->pidfd);
    uv_close((uv_handle_t *)&p->pidfd_poll, handle_gone);
}

/* Leave the table. Output that somebody it left behind still holds is read on, into nothing: a closed pipe would
 * kill that one. */
static void proc_leave(abx__proc *p)
{
    if (p->gone)
        return;
    abx_envd *e = p->envd;
    p->gone = true;
    abx_link_remove(&p->node);
    abx_link_append(&e->left, &p->node);
    e->proc_count--;
    abx__chan_close(&p->chans[ABX_E2B_STDIN]);
    for (size_t i = 0; i < ABX_COUNT(p->chans); i++)
        abx__chan_update(&p->chans[i]);
    close_pidfd(p);
    uv_close((uv_handle_t *)&p->timer, handle_gone);
}

void abx__proc_forget(abx__proc *p)
{
    abx__subs_forget(p, ABX_E2B_CODE_ABORTED, "the process was forgotten");
    proc_leave(p);
}

/* Room for one more record: the oldest that has ended goes. */
static void make_room(abx_envd *e)
{
    for (abx_link *n = e->procs.next, *next; n != &e->procs && e->proc_count >= MAX_RECORDS;
         n = next) {
        next = n->next;
        abx__proc *p = ABX_OF(n, abx__proc, node);
        if (p->ended && p->subs.next == &p->subs)
            abx__proc_forget(p);
    }
}

/* --- the end --------------------------------------------------------------------------------------------- */
static void on_timer(uv_timer_t *t);

static void set_timer(abx__proc *p, int what, uint64_t in_ms)
{
    p->timer_is = what;
    ABX_CHECK(uv_timer_start(&p->timer, on_timer, in_ms, 0) == 0);
}

static void proc_end(abx__proc *p)
{
    abx__output_drain(p);
    p->ended = true;
    p->ended_boot_ms = (int64_t)abx_now_boot_ms();
    abx__input_fail(p, EPIPE);
    abx__chan_close(&p->chans[ABX_E2B_STDIN]);
    abx__subs_end(p);
    if (p->background)
        (void)uv_timer_stop(&p->timer);
    else
        set_timer(p, ABX__TIMER_EXPIRY, KEEP_END_MS);
}

void abx__proc_check_end(abx__proc *p)
{
    if (p->ended || !p->reaped || p->gone)
        return;
    if (abx__output_all_eof(p) || p->no_wait)
        proc_end(p);
    else if (p->abx && p->timer_is != ABX__TIMER_GRACE)
        set_timer(p, ABX__TIMER_GRACE, GRACE_MS);
}

/* A failure, while the kernel killed somebody in here for memory: that is why, as far as one can tell. */
static void note_limit(abx__proc *p)
{
    int fd = p->envd->events_fd;
    bool failed = !WIFEXITED(p->status) || WEXITSTATUS(p->status) != 0;
    if (!failed)
        p->limit = NULL; /* somebody else of it was killed, and it did not mind */
    if (!p->limit && failed && !p->timed_out && fd >= 0 && abx_cgroup_kills(fd) > p->kills)
        p->limit = "memory";
}

void abx__proc_reaped(abx__proc *p, int status)
{
    p->reaped = true;
    p->status = status;
    note_limit(p);
    close_pidfd(p);
    abx__proc_check_end(p);
}

void abx__proc_kill_all(abx__proc *p)
{
    if (!p->reaped)
        (void)kill(p->pid, SIGKILL);
    abx__hunt_start(p->envd, p->mark, p->reaped ? 0 : p->pid);
}

/* E2B's deadline: the direct child is KILLed, the stream of Start gets an error and no end. */
static void e2b_deadline(abx__proc *p)
{
    p->no_wait = true;
    for (abx_link *n = p->subs.next; n != &p->subs; n = n->next) {
        abx__sub *s = ABX_OF(n, abx__sub, node);
        if (!s->limited)
            continue;
        abx_e2b_call *call = s->call;
        abx_link_remove(&s->node);
        free(s);
        abx_e2b_fail(call, ABX_E2B_CODE_DEADLINE_EXCEEDED, "context deadline exceeded");
        break;
    }
    if (!p->reaped)
        (void)kill(p->pid, SIGKILL);
    abx__proc_check_end(p);
}

static void on_timer(uv_timer_t *t)
{
    abx__proc *p = t->data;
    int what = p->timer_is;
    p->timer_is = ABX__TIMER_NONE;
    if (what == ABX__TIMER_EXPIRY) {
        proc_leave(p);
    } else if (what == ABX__TIMER_GRACE) {
        proc_end(p);
    } else if (what == ABX__TIMER_DEADLINE && p->abx) {
        p->timed_out = !p->reaped;
        abx__proc_kill_all(p);
    } else if (what == ABX__TIMER_DEADLINE) {
        e2b_deadline(p);
    }
}

static void on_pidfd(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    abx__proc *p = poll->data;
    int wait_status = 0;
    if (waitpid(p->pid, &wait_status, WNOHANG) == p->pid)
        abx__proc_reaped(p, wait_status);
}

void abx__procs_hold(abx_envd *e, bool on)
{
    for (abx_link *n = e->procs.next; n != &e->procs; n = n->next) {
        abx__proc *p = ABX_OF(n, abx__proc, node);
        if (p->timer_is != ABX__TIMER_DEADLINE)
            continue;
        if (on) {
            p->held_ms = uv_timer_get_due_in(&p->timer);
            (void)uv_timer_stop(&p->timer);
        } else {
            set_timer(p, ABX__TIMER_DEADLINE, p->held_ms);
        }
    }
}

/* --- finding ------------------------------------------------------------------------------------------------ */
/* The newest first: who ends has mostly begun a moment ago, and thousands may lie before it that have ended. */
abx__proc *abx__proc_by_pid(abx_envd *e, pid_t pid)
{
    for (abx_link *n = e->procs.prev; n != &e->procs; n = n->prev) {
        abx__proc *p = ABX_OF(n, abx__proc, node);
        if (p->pid == pid && !p->reaped)
            return p;
    }
    return NULL;
}

/* Live ones win over ended ones, and the newest wins. */
static abx__proc *find(abx_envd *e, const char *tag, const char *id, int64_t pid, bool ended)
{
    abx__proc *best = NULL;
    for (abx_link *n = e->procs.prev; n != &e->procs; n = n->prev) {
        abx__proc *p = ABX_OF(n, abx__proc, node);
        bool fits = tag ? abx_str_eq(p->tag, tag) : id ? strcmp(p->id, id) == 0 : p->pid == pid;
        if (!fits || (p->ended && !ended))
            continue;
        if (!p->ended)
            return p;
        if (!best)
            best = p;
    }
    return best;
}

abx__proc *abx__proc_select(abx_envd *e, abx_e2b_call *c, yyjson_val *selector, bool ended)
{
    const char *tag = abx_json_str(selector, "tag", NULL);
    const char *id = abx_json_str(selector, "abxId", NULL);
    int64_t pid = abx_json_int(selector, "pid", -1);
    if (!tag && !id && pid < 0) {
        abx_e2b_fail(c, ABX_E2B_CODE_UNIMPLEMENTED, "invalid input type *process.ProcessSelector");
        return NULL;
    }
    abx__proc *p = find(e, tag, id, pid, ended);
    if (p)
        return p;
    if (tag)
        abx_e2b_fail(c, ABX_E2B_CODE_NOT_FOUND, "process with tag %s not found", tag);
    else if (id)
        abx_e2b_fail(c, ABX_E2B_CODE_NOT_FOUND, "process '%s' not found", id);
    else
        abx_e2b_fail(c, ABX_E2B_CODE_NOT_FOUND, "process with pid %lld not found", (long long)pid);
    return NULL;
}

/* A server that is not pid 1 sees processes of others, which may be those of another server: its numbers are its own. */
static uint64_t first_mark(const abx_envd *e)
{
    uint32_t random = 0;
    if (!e->is_init)
        abx_random_bytes(&random, sizeof(random));
    return ((uint64_t)1 << 40) + ((uint64_t)(random >> 8) << 36);
}

/* --- the start ---------------------------------------------------------------------------------------------- */
abx__proc *abx__proc_new(abx_envd *e, abx__start *st)
{
    make_room(e);
    abx__proc *p = ABX_NEW(abx__proc);
    p->envd = e;
    if (e->next_id == 0)
        e->first_mark = first_mark(e);
    p->mark = e->first_mark + ++e->next_id;
    (void)snprintf(p->id, sizeof(p->id), "p%llu", (unsigned long long)e->next_id);
    p->abx = st->abx;
    p->background = st->background;
    p->tty = st->tty;
    p->pidfd = -1;
    p->tag = abx_strdup(abx_json_str(st->request, "tag", NULL));
    p->config = abx_json_copy(abx_json_get(st->request, "process"));
    p->started_ms = abx_now_wall_ms();
    if (e->events_fd >= 0)
        p->kills = abx_cgroup_kills(e->events_fd);
    abx_link_init(&p->subs);
    abx_link_init(&p->inputs);
    for (size_t i = 0; i < ABX_COUNT(p->chans); i++) {
        p->chans[i].proc = p;
        p->chans[i].channel = (abx_e2b_channel)i;
        p->chans[i].fd = -1;
    }
    abx_link_append(&e->procs, &p->node);
    e->proc_count++;
    e->handles++; /* the record itself: proc_free tells */
    ABX_CHECK(uv_timer_init(e->loop, &p->timer) == 0);
    p->timer.data = p;
    p->handles++;
    return p;
}

void abx__proc_drop(abx__proc *p)
{
    proc_leave(p);
}

void abx__proc_began(abx__proc *p, uint64_t timeout_ms)
{
    if (!p->envd->is_init) {
        p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
        if (p->pidfd >= 0) {
            ABX_CHECK(uv_poll_init(p->envd->loop, &p->pidfd_poll, p->pidfd) == 0);
            p->pidfd_poll.data = p;
            p->handles++;
            ABX_CHECK(uv_poll_start(&p->pidfd_poll, UV_READABLE, on_pidfd) == 0);
        }
    }
    abx__guard_started(p->envd);
    if (timeout_ms != ABX_FOREVER)
        set_timer(p, ABX__TIMER_DEADLINE, timeout_ms);
}

void abx__procs_close(abx_envd *e)
{
    for (abx_link *n = e->procs.next, *next; n != &e->procs; n = next) {
        next = n->next;
        abx__proc *p = ABX_OF(n, abx__proc, node);
        abx__subs_forget(p, ABX_E2B_CODE_ABORTED, "the server is closing");
        abx__input_fail(p, EPIPE);
        if (!p->reaped) {
            abx__hunt_start(e, p->mark, p->pid);
            (void)kill(p->pid, SIGKILL);
            (void)waitpid(p->pid, NULL, 0);
            p->reaped = true;
        }
        proc_leave(p);
    }
    for (abx_link *n = e->left.next; n != &e->left; n = n->next) {
        abx__proc *p = ABX_OF(n, abx__proc, node);
        for (size_t i = 0; i < ABX_COUNT(p->chans); i++)
            abx__chan_close(&p->chans[i]);
    }
}
