/* Connections from outside to a port inside: pid 1 lives in the sandbox's net namespace and connects to its loopback,
 * whatever network the sandbox has. Bytes go both ways as they come; what one side does not take is kept (at most one read)
 * and the other is read no further; an end of file is passed on as one. */
#include "local/envd/inner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_TUNNELS = 512, READS_AT_ONCE = 8 };

typedef struct tunnel tunnel;

typedef struct side {
    tunnel *tunnel;
    struct side *other;
    uv_poll_t polls[2]; /* one for each address that is tried */
    uv_poll_t *poll;    /* the one in use, or NULL */
    int fd;
    int mask;     /* what is polled */
    bool half;    /* it sends no more, perhaps with bytes still unread */
    bool urgent;  /* urgent data is there that nobody reads: not to be asked for again */
    bool ended;   /* nothing more comes from it */
    bool closed;  /* it was told that nothing more comes from the other */
    uint8_t *out; /* bytes that it did not take yet: [at, len) */
    size_t at, len;
} side;

struct tunnel {
    abx_link node;
    abx_envd *envd;
    abx_e2b_tunnel *request;
    side client, inside;
    bool connecting, over;
    int port;
    int tries; /* addresses that refused */
    int first_error;
    size_t handles;
};

static void on_poll(uv_poll_t *poll, int status, int events);

/* --- life ------------------------------------------------------------------------------------------------ */
static void tunnel_free(tunnel *t)
{
    abx_envd *e = t->envd;
    free(t->client.out);
    free(t->inside.out);
    free(t);
    abx__envd_released(e);
}

static void handle_gone(uv_handle_t *handle)
{
    tunnel *t = ((side *)handle->data)->tunnel;
    if (--t->handles == 0)
        tunnel_free(t);
}

static void side_close(side *s)
{
    if (s->poll) {
        (void)uv_poll_stop(s->poll);
        uv_close((uv_handle_t *)ABX_TAKE(s->poll), handle_gone);
    }
    abx_close_fd(&s->fd);
}

/* reset: one side broke, the other must not take it for a good end. */
static void tunnel_end(tunnel *t, bool reset)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (t->over)
        return;
    t->over = true;
    t->envd->tunnels--;
    abx__chunk_drop(t->envd);
    abx_link_remove(&t->node);
    if (reset && t->inside.fd >= 0)
        (void)setsockopt(t->inside.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    t->handles++;
    side_close(&t->client);
    side_close(&t->inside);
    if (--t->handles == 0)
        tunnel_free(t);
}

/* Of one that was accepted. */
static void finish(tunnel *t, bool reset)
{
    if (!t->over)
        abx_e2b_tunnel_end(t->request);
    tunnel_end(t, reset);
}

/* --- bytes ------------------------------------------------------------------------------------------------ */
/* A client that hangs up reads no more. The other side may have, with bytes that are still to be read. */
static bool is_gone(const side *s)
{
    struct pollfd p = {.fd = s->fd};
    short bad = POLLERR | POLLNVAL;
    if (s == &s->tunnel->client)
        bad |= POLLHUP;
    return poll(&p, 1, 0) > 0 && (p.revents & bad);
}

/* Send to s. How many were taken; -1: it is broken. */
static ssize_t give(side *s, const uint8_t *bytes, size_t n)
{
    ssize_t sent;
    do
        sent = send(s->fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? 0 : -1;
    return sent;
}

static int flush(side *s)
{
    if (s->len == 0)
        return 0;
    ssize_t n = give(s, s->out + s->at, s->len - s->at);
    if (n < 0)
        return -1;
    s->at += (size_t)n;
    if (s->at == s->len) {
        free(ABX_TAKE(s->out));
        s->at = s->len = 0;
    }
    return 0;
}

static int keep(side *s, const uint8_t *bytes, size_t n)
{
    if (n == 0)
        return 0;
    s->out = abx_alloc(n);
    memcpy(s->out, bytes, n);
    s->at = 0;
    s->len = n;
    return 0;
}

/* From s to the other side. 0, or -1: one of them is broken. */
static int pump(side *s)
{
    uint8_t *bytes = s->tunnel->envd->chunk;
    for (int i = 0; i < READS_AT_ONCE && !s->ended && s->other->len == 0; i++) {
        ssize_t n = recv(s->fd, bytes, ABX__CHUNK, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
        if (n == 0) {
            s->ended = true;
            return 0;
        }
        ssize_t sent = give(s->other, bytes, (size_t)n);
        if (sent < 0 || keep(s->other, bytes + sent, (size_t)(n - sent)) < 0)
            return -1;
    }
    return 0;
}

/* Pass on an end of file when all before it has been. */
static void pass_end(side *s)
{
    if (!s->ended || s->other->closed || s->other->len > 0)
        return;
    s->other->closed = true;
    (void)shutdown(s->other->fd, SHUT_WR);
}

static void set_mask(side *s)
{
    int mask = 0;
    if (!s->ended && s->other->len == 0)
        mask |= UV_READABLE;
    else if (!s->ended && !s->half)
        mask |= UV_DISCONNECT;
    if (s->len > 0)
        mask |= UV_WRITABLE;
    if (mask == 0 && !s->urgent)
        mask = UV_PRIORITIZED; /* hang-ups and errors are told of whatever is watched */
    if (mask == s->mask)
        return;
    s->mask = mask;
    if (mask)
        (void)uv_poll_start(s->poll, mask, on_poll);
    else
        (void)uv_poll_stop(s->poll);
}

static void settle(tunnel *t)
{
    pass_end(&t->client);
    pass_end(&t->inside);
    if (t->client.closed && t->inside.closed) {
        finish(t, false);
        return;
    }
    set_mask(&t->client);
    set_mask(&t->inside);
}

/* --- connecting ---------------------------------------------------------------------------------------------- */
static int watch(side *s, int mask)
{
    uv_poll_t *poll = &s->polls[s->tunnel->connecting ? s->tunnel->tries : 0];
    if (uv_poll_init(s->tunnel->envd->loop, poll, s->fd) < 0)
        return -1;
    poll->data = s;
    s->poll = poll;
    s->tunnel->handles++;
    s->mask = mask;
    return uv_poll_start(poll, mask, on_poll);
}

static void refuse(tunnel *t, int err)
{
    abx_e2b_tunnel *request = t->request;
    int port = t->port;
    char text[96];
    tunnel_end(t, false);
    if (err == ECONNREFUSED)
        abx_e2b_tunnel_refuse(request, 502, "nothing listens on port %d", port);
    else
        abx_e2b_tunnel_refuse(request, 502, "port %d: %s", port, abx__errno_text(err, text));
}

static void on_connected(tunnel *t)
{
    t->connecting = false;
    t->client.fd = abx_e2b_tunnel_accept(t->request);
    if (t->client.fd < 0) {
        refuse(t, errno);
        return;
    }
    abx_e2b_tunnel_watch(t->request, NULL, NULL);
    if (watch(&t->client, UV_READABLE) < 0)
        finish(t, true);
    else
        settle(t);
}

/* The loopback's addresses in turn: a server may listen on one of them only. 0: under way; -1 with errno. */
static int try_connect(tunnel *t)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)t->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons((uint16_t)t->port),
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool first = t->tries == 0;
    int one = 1;
    side_close(&t->inside);
    t->inside.fd =
        socket(first ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (t->inside.fd < 0)
        return -1;
    (void)setsockopt(t->inside.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    int rc = first ? connect(t->inside.fd, (const struct sockaddr *)&v4, sizeof(v4))
                   : connect(t->inside.fd, (const struct sockaddr *)&v6, sizeof(v6));
    if (rc < 0 && errno != EINPROGRESS)
        return -1;
    return watch(&t->inside, UV_WRITABLE);
}

/* The first answer counts: there may be no IPv6 here. */
static void next_address(tunnel *t, int err)
{
    if (t->tries++ > 0 || try_connect(t) < 0)
        refuse(t, t->first_error ? t->first_error : err);
    else
        t->first_error = err;
}

static void on_connect_poll(tunnel *t)
{
    int err = 0;
    socklen_t n = sizeof(err);
    if (getsockopt(t->inside.fd, SOL_SOCKET, SO_ERROR, &err, &n) < 0)
        err = errno;
    if (err == 0)
        on_connected(t);
    else
        next_address(t, err);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    side *s = poll->data;
    tunnel *t = s->tunnel;
    if (t->over)
        return;
    if (t->connecting) {
        on_connect_poll(t);
        return;
    }
    s->half = s->half || (events & UV_DISCONNECT);
    s->urgent = s->urgent || (events & UV_PRIORITIZED);
    if (status < 0 || ((events & (UV_DISCONNECT | UV_PRIORITIZED)) && is_gone(s)))
        finish(t, true);
    else if (((events & UV_WRITABLE) && (flush(s) < 0 || pump(s->other) < 0)) ||
             ((events & UV_READABLE) && pump(s) < 0))
        finish(t, true);
    else
        settle(t);
}

static void on_client_gone(void *data)
{
    tunnel_end(data, true);
}

void abx__tunnel_open(void *data, abx_e2b_tunnel *request, int port)
{
    abx_envd *e = data;
    if (e->pause_state != ABX__RUNNING) {
        abx_e2b_tunnel_refuse(request, 409, ABX__IS_PAUSED, e->id);
        return;
    }
    if (e->tunnels >= MAX_TUNNELS) {
        abx_e2b_tunnel_refuse(request, 429, "%d connections to ports are open already",
                              MAX_TUNNELS);
        return;
    }
    tunnel *t = ABX_NEW(tunnel);
    t->envd = e;
    t->request = request;
    t->port = port;
    t->client = (side){.tunnel = t, .other = &t->inside, .fd = -1};
    t->inside = (side){.tunnel = t, .other = &t->client, .fd = -1};
    e->tunnels++;
    e->handles++;
    abx__chunk_hold(e);
    abx_link_append(&e->tunnel_list, &t->node);
    abx_e2b_tunnel_watch(request, on_client_gone, t);
    t->connecting = true;
    if (try_connect(t) < 0)
        next_address(t, errno);
}

void abx__tunnels_close(abx_envd *e)
{
    while (e->tunnel_list.next != &e->tunnel_list) {
        tunnel *t = ABX_OF(e->tunnel_list.next, tunnel, node);
        if (t->connecting) /* NOLINT(clang-analyzer-unix.Malloc): freed ones have left the list */
            tunnel_end(t, true);
        else
            finish(t, true);
    }
}
