/* The ends of pipes and terminals that pid 1 holds, and who listens.
 *
 * A foreground process writes to its subscribers: one that does not take more stops the reading of the pipe, so
 * the process waits and nothing is lost. A background process writes to its stores, and each subscriber reads from
 * there at its own pace; reading stops only when one of them is LAG behind. */
#include "local/envd/inner.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const uint64_t LAG = (uint64_t)64 * 1024 * 1024;
static const uint64_t MISSED_MAX = 64 * 1024; /* of what nobody heard is told to who asks for it */
static const char *const STREAMS[] = {"stdout", "stderr", "pty"};
enum { E2B_CHUNK = 32 * 1024, READS_A_TURN = 4, DRAIN_READS = 64 };

void abx__chunk_hold(abx_envd *e)
{
    if (e->open_chans++ == 0)
        e->chunk = abx_alloc(ABX__CHUNK);
}

void abx__chunk_drop(abx_envd *e)
{
    if (--e->open_chans == 0)
        free(ABX_TAKE(e->chunk));
}

/* --- polling ------------------------------------------------------------------------------------------ */
static void chan_gone(uv_handle_t *h)
{
    abx__chan *c = h->data;
    c->has_handle = false;
    abx_close_fd(&c->fd);
    abx__proc_released(c->proc);
}

void abx__chan_close(abx__chan *c)
{
    abx_envd *e = c->proc->envd;
    if (c->fd < 0)
        return;
    abx__chunk_drop(e);
    if (!c->has_handle) {
        abx_close_fd(&c->fd);
        return;
    }
    if (uv_is_closing((uv_handle_t *)&c->poll))
        return;
    /* the descriptor must go now: the process waits for its end of file */
    (void)uv_poll_stop(&c->poll);
    abx_close_fd(&c->fd);
    uv_close((uv_handle_t *)&c->poll, chan_gone);
}

static void on_poll(uv_poll_t *poll, int status, int events);

static bool wants_reading(const abx__chan *c)
{
    if (!c->reading)
        return false;
    const abx__proc *p = c->proc;
    for (abx_link *n = p->subs.next; n != &p->subs; n = n->next) {
        const abx__sub *s = ABX_OF(n, abx__sub, node);
        if (s->pull ? c->total > s->at[c->channel] + LAG : s->held)
            return false;
    }
    return true;
}

void abx__chan_update(abx__chan *c)
{
    if (c->fd < 0)
        return;
    int mask = (wants_reading(c) ? UV_READABLE : 0) | (c->writing ? UV_WRITABLE : 0);
    if (mask == c->mask)
        return;
    if (!c->has_handle) {
        if (uv_poll_init(c->proc->envd->loop, &c->poll, c->fd) != 0)
            return;
        c->poll.data = c;
        c->has_handle = true;
        c->proc->handles++;
    }
    c->mask = mask;
    if (mask == 0)
        (void)uv_poll_stop(&c->poll);
    else
        (void)uv_poll_start(&c->poll, mask, on_poll);
}

static void update_all(abx__proc *p)
{
    for (size_t i = 0; i < ABX_COUNT(p->chans); i++)
        abx__chan_update(&p->chans[i]);
}

void abx__chan_open(abx__proc *p, abx_e2b_channel channel, int fd)
{
    abx__chan *c = &p->chans[channel];
    c->fd = fd;
    c->reading = channel != ABX_E2B_STDIN;
    if (p->background && c->reading)
        c->store = abx__store_new(p, c->total);
    abx__chunk_hold(p->envd);
}

/* --- reading -------------------------------------------------------------------------------------------- */
/* What follows of this stream was written then; said when it differs from what was said last. */
static void send_time(abx__sub *s, size_t channel, int64_t ms)
{
    char time[ABX_RFC3339_SIZE];
    if (ms <= s->told_ms[channel])
        return;
    s->told_ms[channel] = ms;
    abx_format_rfc3339(ms, time);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *told = abx_mut_obj(d, abx_mut_obj(d, root, "event"), "abxTime");
    abx_mut_str(d, told, "stream", STREAMS[channel]);
    abx_mut_str(d, told, "time", time);
    if (abx_e2b_send(s->call, root) == 0)
        s->held = true;
}

static void deliver(abx__chan *c, const uint8_t *bytes, size_t n)
{
    abx__proc *p = c->proc;
    if (p->ended)
        return; /* somebody it left behind still writes: nobody is told any more */
    c->total += n;
    if (c->store)
        abx__store_add(c->store, bytes, n);
    for (abx_link *node = p->subs.next, *next; node != &p->subs; node = next) {
        next = node->next;
        abx__sub *s = ABX_OF(node, abx__sub, node);
        if (s->pull) {
            abx__sub_pump(s);
            continue;
        }
        if (s->times)
            send_time(s, c->channel, abx_now_wall_ms());
        if (abx_e2b_send_data(s->call, c->channel, bytes, n) == 0)
            s->held = true;
    }
}

/* 1: bytes came; 0: none now; -1: there will be no more. */
static int read_once(abx__chan *c)
{
    abx_envd *e = c->proc->envd;
    size_t want = c->proc->abx ? ABX__CHUNK : E2B_CHUNK;
    ssize_t n = read(c->fd, e->chunk, want);
    if (n > 0) {
        deliver(c, e->chunk, (size_t)n);
        return 1;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return -1; /* end of file; EIO is a terminal's */
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    abx__chan *c = poll->data;
    abx__proc *p = c->proc;
    if (c->writing && (status < 0 || (events & UV_WRITABLE)))
        abx__input_pump(p);
    if (c->fd < 0 || !c->reading || (status == 0 && !(events & (UV_READABLE | UV_DISCONNECT))))
        return;
    for (int i = 0; i < READS_A_TURN && c->fd >= 0 && wants_reading(c); i++) {
        int rc = read_once(c);
        if (rc < 0) {
            if (p->tty)
                abx__input_fail(p, EIO);
            abx__chan_close(c);
            abx__proc_check_end(p);
            return;
        }
        if (rc == 0)
            break;
    }
    update_all(p);
}

void abx__output_drain(abx__proc *p)
{
    for (size_t i = 0; i < ABX_COUNT(p->chans); i++) {
        abx__chan *c = &p->chans[i];
        if (!c->reading)
            continue;
        int rc = 1;
        for (int k = 0; k < DRAIN_READS && rc == 1 && c->fd >= 0; k++)
            rc = read_once(c);
        if (rc < 0)
            abx__chan_close(c);
    }
}

bool abx__output_all_eof(const abx__proc *p)
{
    for (size_t i = 0; i < ABX_COUNT(p->chans); i++)
        if (p->chans[i].reading && p->chans[i].fd >= 0)
            return false;
    return true;
}

/* --- subscribers ------------------------------------------------------------------------------------------ */
static void sub_free(abx__sub *s)
{
    abx_link_remove(&s->node);
    free(s);
}

static void sub_writable(abx_e2b_call *call, void *data)
{
    (void)call;
    abx__sub *s = data;
    abx__proc *p = s->proc;
    s->held = false;
    if (s->pull)
        abx__sub_pump(s);
    update_all(p);
}

static void sub_closed(abx_e2b_call *call, bool expired, void *data)
{
    (void)call;
    (void)expired;
    abx__sub *s = data;
    abx__proc *p = s->proc;
    bool tied = s->tied;
    for (size_t i = 0; i < 3; i++)
        p->heard[i] = s->pull ? s->at[i] : p->chans[i].total;
    sub_free(s);
    if (tied && !p->reaped)
        abx__proc_kill_all(p);
    update_all(p);
}

static const abx_e2b_call_handlers SUB_HANDLERS = {.on_writable = sub_writable,
                                                   .on_close = sub_closed};

abx__sub *abx__sub_add(abx__proc *p, abx_e2b_call *call)
{
    abx__sub *s = ABX_NEW(abx__sub);
    s->proc = p;
    s->call = call;
    s->pull = p->background;
    for (size_t i = 0; i < 3; i++)
        s->at[i] = p->chans[i].total;
    abx_link_append(&p->subs, &s->node);
    abx_e2b_call_handle(call, &SUB_HANDLERS, s);
    return s;
}

void abx__sub_missed(abx__sub *s)
{
    const abx__proc *p = s->proc;
    for (size_t i = 0; i < 3; i++) {
        const abx__chan *c = &p->chans[i];
        bool alone = p->subs.next == &s->node && s->node.next == &p->subs;
        uint64_t from = alone && c->store ? p->heard[i] : c->total;
        s->at[i] = c->total - from > MISSED_MAX ? c->total - MISSED_MAX : from;
        if (c->store && s->at[i] < abx__store_first(c->store))
            s->at[i] = abx__store_first(c->store);
    }
}

void abx__proc_detach(abx__proc *p)
{
    p->background = true;
    for (size_t i = 0; i < ABX_COUNT(p->chans); i++)
        if (p->chans[i].reading && !p->chans[i].store)
            p->chans[i].store = abx__store_new(p, p->chans[i].total);
    for (abx_link *n = p->subs.next; n != &p->subs; n = n->next)
        ABX_OF(n, abx__sub, node)->tied = false;
}

void abx__send_start(abx__proc *p, abx__sub *s)
{
    static const char *const NAMES[] = {"abxStdout", "abxStderr", "abxPty"};
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *start = abx_mut_obj(d, abx_mut_obj(d, root, "event"), "start");
    abx_mut_int(d, start, "pid", p->pid);
    if (p->abx) {
        abx_mut_str(d, start, "abxId", p->id);
        for (size_t i = 0; i < 3; i++)
            if (p->chans[i].reading)
                abx_mut_int(d, start, NAMES[i], (int64_t)s->at[i]);
    }
    if (abx_e2b_send(s->call, root) == 0)
        s->held = true;
}

static void send_gap(abx__sub *s, size_t channel, uint64_t bytes)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *gap = abx_mut_obj(d, abx_mut_obj(d, root, "event"), "abxGap");
    abx_mut_str(d, gap, "stream", STREAMS[channel]);
    abx_mut_int(d, gap, "bytes", (int64_t)bytes);
    if (abx_e2b_send(s->call, root) == 0)
        s->held = true;
    s->at[channel] += bytes;
}

/* Send the end event and finish the stream. */
static void sub_end(abx__sub *s)
{
    abx__proc *p = s->proc;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx__proc_put_end(p, d, abx_mut_obj(d, abx_mut_obj(d, root, "event"), "end"));
    abx_e2b_call *call = s->call;
    sub_free(s);
    (void)abx_e2b_send(call, root);
    abx_e2b_end(call);
}

/* Send the next piece of a stream, at most so far. */
static void pump_once(abx__sub *s, size_t i, uint64_t until)
{
    abx__store *store = s->proc->chans[i].store;
    uint64_t first = abx__store_first(store);
    uint8_t bytes[16 * 1024];
    if (s->at[i] < first) {
        send_gap(s, i, first - s->at[i]);
        return;
    }
    size_t want = until - s->at[i] < sizeof(bytes) ? (size_t)(until - s->at[i]) : sizeof(bytes);
    ssize_t n = abx__store_read(store, s->at[i], bytes, want);
    if (n <= 0) {
        send_gap(s, i, abx__store_end(store) - s->at[i]);
        return;
    }
    s->at[i] += (uint64_t)n;
    if (abx_e2b_send_data(s->call, s->proc->chans[i].channel, bytes, (size_t)n) == 0)
        s->held = true;
}

/* Streams together, in the order of the times at which they were written. */
static void pump_timed(abx__sub *s)
{
    abx__proc *p = s->proc;
    while (!s->held) {
        size_t next = 3;
        int64_t next_ms = 0;
        uint64_t next_until = 0;
        for (size_t i = 0; i < 3; i++) {
            abx__store *store = p->chans[i].store;
            uint64_t until;
            if (!store || s->at[i] >= abx__store_end(store))
                continue;
            int64_t ms = abx__store_time(store, s->at[i], &until);
            if (next == 3 || ms < next_ms) {
                next = i;
                next_ms = ms;
                next_until = until;
            }
        }
        if (next == 3)
            return;
        send_time(s, next, next_ms);
        pump_once(s, next, next_until);
    }
}

void abx__sub_pump(abx__sub *s)
{
    abx__proc *p = s->proc;
    if (s->times)
        pump_timed(s);
    for (size_t i = 0; i < 3 && !s->times; i++) {
        abx__store *store = p->chans[i].store;
        while (store && !s->held && s->at[i] < abx__store_end(store))
            pump_once(s, i, UINT64_MAX);
    }
    if (s->held && p->background)
        return;
    if (p->ended) {
        sub_end(s);
    } else if (s->no_follow) {
        abx_e2b_call *call = s->call;
        sub_free(s);
        abx_e2b_end(call);
    }
}

void abx__sub_catch_up(abx__sub *s)
{
    abx__proc *p = s->proc;
    for (size_t i = 0; i < 3; i++) /* a foreground process keeps nothing */
        if (!p->chans[i].store && s->at[i] < p->chans[i].total)
            send_gap(s, i, p->chans[i].total - s->at[i]);
    if (p->ended || s->no_follow)
        s->pull = true;
    if (s->pull)
        abx__sub_pump(s);
}

void abx__subs_end(abx__proc *p)
{
    for (abx_link *n = p->subs.next, *next; n != &p->subs; n = next) {
        next = n->next;
        abx__sub *s = ABX_OF(n, abx__sub, node);
        if (s->pull)
            abx__sub_pump(s);
        else
            sub_end(s);
    }
}

void abx__subs_forget(abx__proc *p, abx_e2b_code code, const char *text)
{
    while (p->subs.next != &p->subs) {
        abx__sub *s = ABX_OF(p->subs.next, abx__sub, node);
        /* the list lets go of what is freed: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        abx_e2b_call *call = s->call;
        sub_free(s);
        abx_e2b_fail(call, code, "%s", text);
    }
}
