#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "net/http_server_inner.h"

enum { READS_AT_ONCE = 4, GONE_MS = 10000 };

static void on_poll(uv_poll_t *p, int status, int events);

int abx__conn_open(abx_http_server *s, int fd, const abx_tls *tls, void (*on_gone)(void *data),
                   void *data, abx_error **err)
{
    abx__conn *c = ABX_NEW(abx__conn);
    int rc = uv_poll_init(s->loop, &c->poll, fd);

    if (rc < 0) {
        close(fd);
        free(c);
        return abx_fail_errno(err, ABX_ERR_NETWORK, -rc, "cannot use this connection");
    }
    c->server = s;
    c->fd = fd;
    c->mask = -1;
    c->poll.data = c;
    c->keep = true;
    c->on_gone = on_gone;
    c->gone_data = data;
    llhttp_init(&c->parser, HTTP_REQUEST, &abx__parse_settings);
    c->parser.data = c;
    abx_link_append(&s->conns, &c->link);
    abx_link_init(&c->pending);
    abx_link_init(&c->wait_link);
    s->conn_count++;
    c->mask = UV_READABLE;
    uv_poll_start(&c->poll, c->mask, on_poll);
    if (tls)
        abx__tls_begin(c, tls);
    abx__wait_set(c, tls ? ABX__WAIT_HEAD : ABX__WAIT_IDLE);
    return 0;
}

void abx__conn_kill(abx__conn *c, bool reset)
{
    if (c->finished)
        return;
    c->dead = true;
    c->reset = c->reset || reset;
    abx__conn_pend(c);
}

void abx__conn_pend(abx__conn *c)
{
    if (!c->finished && abx_link_alone(&c->pending))
        abx_link_append(&c->server->pending, &c->pending);
}

static void on_closed(uv_handle_t *h)
{
    abx__conn *c = h->data;
    abx_http_server *s = c->server;
    void (*on_gone)(void *) = c->on_gone;
    void *data = c->gone_data;

    free(c);
    abx__server_conn_gone(s);
    if (on_gone)
        on_gone(data);
}

/* Bytes that were read and kept. */
static void free_read(const abx__conn *c, uint8_t *bytes, size_t n)
{
    if (c->server->options.wipe && bytes)
        explicit_bzero(bytes, n);
    free(bytes);
}

/* The end of the connection; an exchange that is still open ends first. */
static void conn_finish(abx__conn *c)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};

    c->finished = true;
    uv_poll_stop(&c->poll);
    if (c->reset)
        (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    else
        abx__tls_bye(c);
    abx__tls_end(c);
    close(c->fd);
    c->fd = -1;
    abx_link_remove(&c->pending);
    abx_link_remove(&c->wait_link);
    abx_link_remove(&c->link);
    free(ABX_TAKE(c->out));
    free_read(c, ABX_TAKE(c->carry), c->carry_len);
    c->out_len = c->out_at = c->carry_len = c->carry_at = 0;
    if (c->x)
        abx__exchange_close(c->x, false);
    uv_close((uv_handle_t *)&c->poll, on_closed);
}

/* --- sending ------------------------------------------------------------------------------------ */

void abx__conn_queue(abx__conn *c, const void *bytes, size_t n)
{
    if (n == 0 || c->finished)
        return;
    if (c->out_at && c->out_len + n > c->out_cap) {
        c->out_len -= c->out_at;
        memmove(c->out, c->out + c->out_at, c->out_len);
        c->out_at = 0;
    }
    if (c->out_len + n > c->out_cap) {
        size_t cap = c->out_cap ? c->out_cap : 512;
        while (cap < c->out_len + n)
            cap *= 2;
        c->out = abx_realloc(c->out, cap);
        c->out_cap = cap;
    }
    memcpy(c->out + c->out_len, bytes, n);
    c->out_len += n;
    abx__conn_pend(c);
}

/* Returns the count that went out, 0 when the socket is full or broken. */
static size_t send_now(abx__conn *c, struct iovec *pieces, int count)
{
    struct msghdr m = {.msg_iov = pieces, .msg_iovlen = (size_t)count};
    ssize_t n;

    if (c->tls)
        return abx__tls_send(c, pieces, count);
    do
        n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n >= 0) {
        c->sent = true;
        return (size_t)n;
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS)
        abx__conn_kill(c, false);
    return 0;
}

void abx__conn_send(abx__conn *c, const struct iovec *pieces, int count)
{
    struct iovec all[6];
    int used = 0;
    size_t total = 0, queued = abx__conn_backlog(c);

    if (c->dead || c->finished)
        return;
    ABX_CHECK(count <= 5);
    if (queued)
        all[used++] = (struct iovec){c->out + c->out_at, queued};
    for (int i = 0; i < count; i++) {
        all[used++] = pieces[i];
        total += pieces[i].iov_len;
    }
    /* What waits for the peer already is not tried again for each small write: poll tells. */
    size_t sent = (c->mask & UV_WRITABLE) ? 0 : send_now(c, all, used);
    if (sent >= queued + total) {
        c->out_len = c->out_at = 0;
        return;
    }
    size_t of_queue = sent < queued ? sent : queued;
    c->out_at += of_queue;
    sent -= of_queue;
    for (int i = 0; i < count; i++) {
        size_t skip = sent < pieces[i].iov_len ? sent : pieces[i].iov_len;
        abx__conn_queue(c, (const uint8_t *)pieces[i].iov_base + skip, pieces[i].iov_len - skip);
        sent -= skip;
    }
}

/* Small pieces that one turn of the loop makes go out together, right before it waits: one system call and one
 * wake-up of the peer instead of one each. */
void abx__conn_send_soon(abx__conn *c, const struct iovec *pieces, int count)
{
    size_t total = abx__conn_backlog(c);
    for (int i = 0; i < count; i++)
        total += pieces[i].iov_len;
    if (total > ABX__SMALL_WRITE) {
        abx__conn_send(c, pieces, count);
        return;
    }
    for (int i = 0; i < count && !c->dead; i++)
        abx__conn_queue(c, pieces[i].iov_base, pieces[i].iov_len);
}

void abx__conn_flush(abx__conn *c)
{
    size_t n = abx__conn_backlog(c);

    if (n == 0 || c->dead)
        return;
    struct iovec all = {c->out + c->out_at, n};
    c->out_at += send_now(c, &all, 1);
    if (c->out_at == c->out_len)
        c->out_at = c->out_len = 0;
}

/* --- reading ------------------------------------------------------------------------------------ */

/* Epoll says that something is wrong, or the peer has closed its side: is anybody there at all? A full
 * close of a Unix socket shows as a hang-up at once; of TCP only by the reset that answers a write. */
static bool peer_gone(const abx__conn *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLPRI};

    /* Nobody sends urgent data over HTTP, and it would wake us for ever. */
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP | POLLNVAL | POLLPRI));
}

/* With a full window nothing that is written tells whether the peer is there: the kernel asks, and gives up after a while. */
static void limit_waiting(const abx__conn *c)
{
    uint64_t ms = c->server->options.gone_timeout_ms;
    unsigned most = (unsigned)(ms ? ms : GONE_MS);
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most,
                     sizeof most); /* no TCP: refused */
}

/* The peer has closed its sending side. After a whole request that is allowed, but it may also be gone. */
static void conn_half(abx__conn *c)
{
    if (!c->half)
        limit_waiting(c);
    c->half = true;
    if (c->linger || peer_gone(c))
        abx__conn_kill(c, false);
}

static bool wants_read(const abx__conn *c)
{
    const abx_exchange *x = c->x;

    if (c->linger)
        return true;
    if (!x || !x->dispatched)
        return c->carry_len == 0;
    if (x->ws)
        return abx__ws_wants_read(c);
    if (x->raw && x->body_done)
        return !x->paused && c->carry_len == 0;
    if (!x->body_done)
        return !x->paused && c->carry_len == 0;
    return c->carry_len == 0; /* to see the peer go; what it sends ahead is carried */
}

static void conn_read(abx__conn *c)
{
    uint8_t *scratch = c->server->scratch;

    if (abx__tls_is_shaking(c) && !abx__tls_shake(c))
        return;
    for (int i = 0; i < READS_AT_ONCE && !c->dead && !c->eof && wants_read(c); i++) {
        ssize_t n = c->tls && !c->linger ? abx__tls_recv(c, scratch, ABX__SCRATCH_SIZE)
                                         : recv(c->fd, scratch, ABX__SCRATCH_SIZE, MSG_DONTWAIT);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            if (errno != EAGAIN && errno != EWOULDBLOCK)
                abx__conn_kill(c, false);
            return;
        }
        if (n == 0) {
            c->eof = true;
            conn_half(c);
            return;
        }
        c->received = true;
        if (!c->linger)
            abx__conn_feed(c, scratch, (size_t)n);
        if (c->server->options.wipe)
            explicit_bzero(scratch, (size_t)n);
        if (n < ABX__SCRATCH_SIZE)
            return;
    }
}

static void on_poll(uv_poll_t *p, int status, int events)
{
    abx__conn *c = p->data;

    if ((status < 0 || (events & UV_PRIORITIZED)) && (status < 0 || peer_gone(c))) {
        abx__conn_kill(c, false);
    } else {
        if (events & UV_WRITABLE)
            abx__conn_flush(c);
        if ((events & UV_READABLE) || ((events & UV_WRITABLE) && abx__tls_wants_room(c)))
            conn_read(c);
        else if (events & UV_DISCONNECT)
            conn_half(c);
    }
    abx__conn_settle(c);
}

/* --- settling ----------------------------------------------------------------------------------- */

static void start_linger(abx__conn *c)
{
    abx__tls_bye(c);
    c->linger = true;
    free_read(c, ABX_TAKE(c->carry), c->carry_len);
    c->carry_len = c->carry_at = 0;
    if (c->eof || shutdown(c->fd, SHUT_WR) < 0)
        c->dead = true;
}

/* The answer is out: close the exchange if its request is finished too. */
static bool exchange_is_over(const abx__conn *c)
{
    const abx_exchange *x = c->x;

    return x && x->ended && abx__conn_backlog(c) == 0 && (x->body_done || !c->keep);
}

static bool is_writer_held(const abx__conn *c)
{
    return c->x && (c->x->ws ? abx__ws_is_held(c) : c->x->over_high);
}

static void tell_writable(abx__conn *c)
{
    abx_exchange *x = c->x;

    if (!x || x->ws || !x->over_high || abx__conn_backlog(c) > ABX__LOW_MARK)
        return;
    x->over_high = false;
    if (!x->ended && x->on.on_writable)
        x->on.on_writable(x, x->data);
}

static void tell_eof(abx__conn *c)
{
    abx_exchange *x = c->x;

    if (!c->half || !x || !x->dispatched || x->eof_told || x->ended)
        return;
    if (x->raw && (!c->eof || c->carry_len > 0)) /* what it sent before comes first */
        return;
    x->eof_told = true;
    if (x->is_sse)
        abx__sse_peer_eof(x);
    if (x->on.on_peer_eof)
        x->on.on_peer_eof(x, x->data);
}

static void feed_carry(abx__conn *c)
{
    uint8_t *bytes = ABX_TAKE(c->carry);
    size_t at = c->carry_at, len = c->carry_len;

    c->carry_at = c->carry_len = 0;
    c->kick = false;
    abx__conn_feed(c, bytes ? bytes + at : (const uint8_t *)"", len - at);
    free_read(c, bytes, len);
}

static void set_clock(abx__conn *c)
{
    const abx_exchange *x = c->x;
    abx__wait wait = ABX__WAIT_NONE;

    if (c->linger)
        wait = ABX__WAIT_LINGER;
    else if (abx__conn_backlog(c))
        wait = ABX__WAIT_STALL;
    else if (abx__tls_is_shaking(c))
        wait = ABX__WAIT_HEAD;
    else if (!x)
        wait = ABX__WAIT_IDLE;
    else if (!x->dispatched)
        wait = ABX__WAIT_HEAD;
    else if (!x->ws && !x->body_done && !x->paused)
        wait = ABX__WAIT_STALL;
    /* A peer that sends but takes nothing stalls as well. */
    bool moved = abx__conn_backlog(c) ? c->sent : c->received;
    if (wait != c->wait || (moved && (wait == ABX__WAIT_STALL || wait == ABX__WAIT_IDLE)))
        abx__wait_set(c, wait);
    c->sent = c->received = false;
}

static void set_mask(abx__conn *c)
{
    int mask = 0;

    if (abx__conn_backlog(c) || abx__tls_wants_room(c))
        mask |= UV_WRITABLE;
    if (!c->eof && wants_read(c))
        mask |= UV_READABLE;
    else if (!c->half)
        mask |= UV_DISCONNECT;
    /* Epoll reports hang-ups and errors of whatever it watches, so it must always watch something. */
    if (!(mask & UV_READABLE))
        mask |= UV_PRIORITIZED;
    if (mask == c->mask)
        return;
    c->mask = mask;
    uv_poll_start(&c->poll, mask, on_poll);
}

/* One step; true if another may be due. */
static bool settle_step(abx__conn *c)
{
    abx_exchange *x = c->x;

    if (x && x->ws)
        abx__ws_settle(c);
    else
        tell_writable(c);
    tell_eof(c);
    if (c->dead)
        return false;
    if (abx__conn_backlog(c) && !(c->mask & UV_WRITABLE)) {
        abx__conn_flush(c);
        if (c->dead)
            return false;
        /* The peer has just made room: with nothing left to send no event would tell the writer. */
        if (abx__conn_backlog(c) <= ABX__LOW_MARK && is_writer_held(c))
            return true;
    }
    if (x && exchange_is_over(c)) {
        /* Closing on unread bytes would reset the connection and could cost the peer the answer. */
        bool linger = !c->keep && (!x->body_done || c->carry_len || (x->ws && abx__ws_may_push(x)));
        abx__exchange_close(x, true);
        if (linger)
            start_linger(c);
        else if (!c->keep)
            c->dead = true;
        return !c->dead && !c->linger;
    }
    if (x && x->body_done && !x->end_told && !x->paused && !x->ended && !x->ws && !x->raw &&
        (x->collect_cb || x->on.on_body_end)) {
        abx__exchange_body_end(x);
        return true;
    }
    if (!c->linger && (c->carry_len || c->kick) && abx__conn_can_parse(c)) {
        feed_carry(c);
        return !c->dead;
    }
    if (!x && c->fail_status == 0 && c->eof && !c->linger && !abx__conn_backlog(c))
        c->dead = true;
    if (!x && c->fail_status && !c->linger && !abx__conn_backlog(c))
        start_linger(c);
    return false;
}

void abx__conn_settle(abx__conn *c)
{
    if (c->finished)
        return;
    while (!c->dead && settle_step(c))
        ;
    if (c->eof && c->x && (c->x->ws || (!c->x->body_done && !c->carry_len)))
        c->dead = true; /* ended in the middle of a request */
    if (c->dead) {
        conn_finish(c);
        return;
    }
    abx_link_remove(&c->pending);
    if (abx__conn_backlog(c) == 0 && c->out && (!c->x || c->out_cap > ABX__KEEP_OUT)) {
        free(ABX_TAKE(c->out));
        c->out_at = c->out_len = c->out_cap = 0;
    }
    set_clock(c);
    set_mask(c);
    if (abx__tls_has_more(c) && !c->eof && wants_read(c))
        abx__conn_pend(c);
}

void abx__conn_turn(abx__conn *c)
{
    if (abx__tls_has_more(c) && !c->eof && !c->dead && !c->finished && wants_read(c))
        conn_read(c);
    abx__conn_settle(c);
}
