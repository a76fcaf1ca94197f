#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "net/http_server_inner.h"

enum { ACCEPT_BATCH = 64, ACCEPT_RETRY_MS = 100 };

struct abx__listener {
    abx_http_server *server;
    abx__listener *next;
    uv_poll_t poll;
    const abx_tls *tls; /* NULL: plain */
    int fd;
};

/* --- time limits -------------------------------------------------------------------------------- */

static uint64_t wait_length(const abx_http_server *s, abx__wait wait)
{
    switch (wait) {
    case ABX__WAIT_IDLE: return s->options.idle_timeout_ms;
    case ABX__WAIT_HEAD: return s->options.head_timeout_ms;
    case ABX__WAIT_STALL:
        return s->options.stall_timeout_ms ? s->options.stall_timeout_ms : ABX_FOREVER;
    case ABX__WAIT_LINGER: return ABX__LINGER_MS;
    default: return ABX_FOREVER;
    }
}

static void on_timer(uv_timer_t *t);

/* Fire at the nearest deadline. A later deadline at the head of a list does not touch a timer that is
 * already running: it fires once for nothing and is set again. */
static void timer_arm(abx_http_server *s)
{
    uint64_t next = s->accept_held ? uv_now(s->loop) + ACCEPT_RETRY_MS : ABX_FOREVER;

    for (int w = ABX__WAIT_NONE + 1; w < ABX__WAIT_COUNT; w++) {
        if (abx_link_alone(&s->waits[w]))
            continue;
        abx__conn *c = ABX_OF(s->waits[w].next, abx__conn, wait_link);
        if (c->deadline < next)
            next = c->deadline;
    }
    if (next == ABX_FOREVER || s->close_rest)
        return;
    uint64_t now = uv_now(s->loop);
    uv_timer_start(&s->timer, on_timer, next > now ? next - now : 0, 0);
}

void abx__wait_set(abx__conn *c, abx__wait wait)
{
    abx_http_server *s = c->server;
    uint64_t length = wait_length(s, wait);

    abx_link_remove(&c->wait_link);
    c->wait = (uint8_t)wait;
    if (length == ABX_FOREVER)
        return;
    c->deadline = uv_now(s->loop) + length;
    abx_link_append(&s->waits[wait], &c->wait_link);
    if (!uv_is_active((uv_handle_t *)&s->timer) ||
        uv_now(s->loop) + uv_timer_get_due_in(&s->timer) > c->deadline)
        timer_arm(s);
}

static void wait_over(abx__conn *c)
{
    abx__wait wait = (abx__wait)c->wait;

    abx_link_remove(&c->wait_link);
    c->wait = ABX__WAIT_NONE;
    if (wait == ABX__WAIT_HEAD && !abx__tls_is_shaking(c))
        abx__answer_refuse(c, 408);
    else
        abx__conn_kill(c, wait == ABX__WAIT_STALL);
    abx__conn_settle(c);
}

static void listeners_watch(abx_http_server *s);

static void on_timer(uv_timer_t *t)
{
    abx_http_server *s = t->data;
    uint64_t now = uv_now(s->loop);

    if (s->accept_held) {
        s->accept_held = false;
        uv_unref((uv_handle_t *)&s->timer);
        listeners_watch(s);
    }
    for (int w = ABX__WAIT_NONE + 1; w < ABX__WAIT_COUNT; w++) {
        while (!abx_link_alone(&s->waits[w])) {
            abx__conn *c = ABX_OF(s->waits[w].next, abx__conn, wait_link);
            if (c->deadline > now)
                break;
            wait_over(c);
        }
    }
    timer_arm(s);
}

/* --- listeners ---------------------------------------------------------------------------------- */

static void refuse_busy(int fd, bool tls)
{
    static const char text[] = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
                               "Content-Length: 0\r\n\r\n";
    if (!tls) /* a courtesy: the connection ends either way */
        (void)!send(fd, text, sizeof text - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    close(fd);
}

static void on_acceptable(uv_poll_t *p, int status, int events)
{
    abx__listener *l = p->data;
    abx_http_server *s = l->server;

    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                abx_logf(s->options.log, ABX_LOG_WARN, "cannot accept: %s", strerror(errno));
                s->accept_held = true;
                uv_ref((uv_handle_t *)&s->timer);
                for (abx__listener *each = s->listeners; each; each = each->next)
                    uv_poll_stop(&each->poll);
                timer_arm(s);
                return;
            }
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            return;
        }
        if (s->conn_count >= s->options.max_connections) {
            refuse_busy(fd, l->tls != NULL);
            continue;
        }
        ABX_AUTO_ERROR err = NULL;
        if (abx__conn_open(s, fd, l->tls, NULL, NULL, &err) < 0)
            abx_logf(s->options.log, ABX_LOG_WARN, "%s", abx_error_text(err));
    }
}

static void listeners_watch(abx_http_server *s)
{
    for (abx__listener *l = s->listeners; l; l = l->next)
        uv_poll_start(&l->poll, UV_READABLE, on_acceptable);
}

static int listen_fd(abx_http_server *s, int fd, int backlog, const abx_tls *tls, abx_error **err)
{
    ABX_AUTO_FD own = fd;
    int listening = 0, one = 1;
    socklen_t len = sizeof listening;

    ABX_CHECK(!s->closing);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) < 0)
        return abx_fail_errno(err, ABX_ERR_NETWORK, errno, "cannot listen");
    if (!listening && listen(fd, backlog > 0 ? backlog : SOMAXCONN) < 0)
        return abx_fail_errno(err, ABX_ERR_NETWORK, errno, "cannot listen");
    /* What is accepted inherits it; it means nothing to a Unix socket. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    abx__listener *l = ABX_NEW(abx__listener);
    int rc = uv_poll_init(s->loop, &l->poll, fd);
    if (rc < 0) {
        free(l);
        return abx_fail_errno(err, ABX_ERR_NETWORK, -rc, "cannot listen");
    }
    l->server = s;
    l->tls = tls;
    l->poll.data = l;
    l->fd = abx_take_fd(&own);
    l->next = s->listeners;
    s->listeners = l;
    s->open_handles++;
    uv_poll_start(&l->poll, UV_READABLE, on_acceptable);
    return 0;
}

int abx_http_server_listen_fd(abx_http_server *s, int fd, int backlog, abx_error **err)
{
    return listen_fd(s, fd, backlog, NULL, err);
}

typedef union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} address;

int abx_http_server_listen_tcp(abx_http_server *s, const char *ip, int port, int *bound_port,
                               abx_error **err)
{
    return abx_http_server_listen_tls(s, ip, port, NULL, bound_port, err);
}

int abx_http_server_listen_tls(abx_http_server *s, const char *ip, int port, const abx_tls *tls,
                               int *bound_port, abx_error **err)
{
    address at = {0};
    socklen_t len = sizeof at.v4;
    int one = 1;

    if (uv_ip4_addr(ip, port, &at.v4) != 0) {
        if (uv_ip6_addr(ip, port, &at.v6) != 0)
            return abx_fail(err, ABX_ERR_USAGE, "'%s' is no address", ip);
        len = sizeof at.v6;
    }
    ABX_AUTO_FD fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return abx_fail_errno(err, ABX_ERR_NETWORK, errno, "cannot make a socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, &at.any, len) < 0)
        return abx_fail_errno(err, ABX_ERR_NETWORK, errno, "cannot listen on '%s' port %d", ip,
                              port);
    if (bound_port) {
        if (getsockname(fd, &at.any, &len) < 0)
            return abx_fail_errno(err, ABX_ERR_NETWORK, errno, "cannot listen on '%s'", ip);
        *bound_port = ntohs(at.any.sa_family == AF_INET6 ? at.v6.sin6_port : at.v4.sin_port);
    }
    return listen_fd(s, abx_take_fd(&fd), 0, tls, err);
}

int abx_http_server_adopt(abx_http_server *s, int fd, void (*on_gone)(void *data), void *data,
                          abx_error **err)
{
    int one = 1;

    ABX_CHECK(!s->closing);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return abx__conn_open(s, fd, NULL, on_gone, data, err);
}

/* --- opening and closing ------------------------------------------------------------------------ */

static void maybe_closed(abx_http_server *s);

static void settle_all(abx_http_server *s)
{
    abx_link work;

    abx_link_init(&work);
    while (!abx_link_alone(&s->pending)) {
        abx_link *l = s->pending.next;
        abx_link_remove(l);
        abx_link_append(&work, l);
    }
    while (!abx_link_alone(&work)) {
        abx__conn *c = ABX_OF(work.next, abx__conn, pending);
        abx_link_remove(&c->pending);
        abx__conn_turn(c);
    }
}

static void run_pending(abx_http_server *s)
{
    /* Handlers may add to the list. Some rounds are enough for all but two exchanges that feed each other
     * without end; those must not keep the loop from its events. */
    for (int round = 0; round < 16 && !abx_link_alone(&s->pending); round++)
        settle_all(s);
    if (!abx_link_alone(&s->pending) && !s->close_rest)
        uv_timer_start(&s->timer, on_timer, 0, 0);
    maybe_closed(s);
}

static void on_turn(uv_idle_t *turn)
{
    abx_http_server *s = turn->data;

    if (abx__awake_expects(&s->awake) && abx__awake_stays(&s->awake, uv_hrtime()))
        (void)sched_yield(); /* whoever wants the processor, perhaps the client, has it first */
    else
        uv_idle_stop(turn);
}

static void on_prepare(uv_prepare_t *p)
{
    abx_http_server *s = p->data;

    if (abx__awake_expects(&s->awake) && !s->closing)
        uv_idle_start(&s->turn, on_turn);
    if (abx_link_alone(&s->pending) && !s->closing)
        return;
    /* Whoever turns the loop until a handler has run must not be caught in a wait. */
    uv_idle_start(&s->turn, on_turn);
    run_pending(s);
}

static void on_check(uv_check_t *p)
{
    run_pending(p->data);
}

static bool has_processors(void)
{
    cpu_set_t may;

    return sched_getaffinity(0, sizeof may, &may) < 0 || CPU_COUNT(&may) > 1;
}

int abx_http_server_open(uv_loop_t *loop, const abx_http_server_options *options,
                         abx_on_request on_request, void *data, abx_http_server **out,
                         abx_error **err)
{
    (void)err;
    abx_http_server *s = ABX_NEW(abx_http_server);
    s->loop = loop;
    if (options)
        s->options = *options;
    if (!s->options.max_head_bytes)
        s->options.max_head_bytes = 64 * 1024;
    if (!s->options.max_headers)
        s->options.max_headers = 128;
    if (!s->options.max_connections)
        s->options.max_connections = 4096;
    if (!s->options.head_timeout_ms)
        s->options.head_timeout_ms = 30 * 1000;
    if (!s->options.idle_timeout_ms)
        s->options.idle_timeout_ms = 640 * 1000;
    s->options.awake = s->options.awake && has_processors();
    abx__awake_init(&s->awake);
    s->server_line = s->options.server_name ? abx_format("Server: %s\r\n", s->options.server_name)
                                            : abx_strdup("");
    s->options.server_name = NULL;
    s->on_request = on_request;
    s->data = data;
    s->scratch = malloc(ABX__SCRATCH_SIZE); /* not zeroed: a small request touches one page of it */
    ABX_CHECK(s->scratch != NULL);
    abx_link_init(&s->conns);
    abx_link_init(&s->pending);
    for (int w = 0; w < ABX__WAIT_COUNT; w++)
        abx_link_init(&s->waits[w]);
    uv_timer_init(loop, &s->timer);
    uv_prepare_init(loop, &s->prepare);
    uv_check_init(loop, &s->check);
    uv_idle_init(loop, &s->turn);
    s->timer.data = s->prepare.data = s->check.data = s->turn.data = s;
    uv_prepare_start(&s->prepare, on_prepare);
    uv_check_start(&s->check, on_check);
    /* Sockets keep the loop alive, these do not. */
    uv_unref((uv_handle_t *)&s->check);
    uv_unref((uv_handle_t *)&s->prepare);
    uv_unref((uv_handle_t *)&s->timer);
    s->open_handles = 4;
    *out = s;
    return 0;
}

static void on_rest_closed(uv_handle_t *h)
{
    abx_http_server *s = h->data;

    if (--s->open_handles > 0)
        return;
    void (*closed)(void *) = s->closed;
    void *data = s->closed_data;
    if (s->spare)
        abx__exchange_free(s->spare);
    free(s->scratch);
    free(s->record);
    free(s->server_line);
    free(s);
    if (closed)
        closed(data);
}

static void maybe_closed(abx_http_server *s)
{
    if (!s->closing || s->close_rest || s->conn_count || s->open_handles > 4)
        return;
    s->close_rest = true;
    uv_close((uv_handle_t *)&s->timer, on_rest_closed);
    uv_close((uv_handle_t *)&s->prepare, on_rest_closed);
    uv_close((uv_handle_t *)&s->check, on_rest_closed);
    uv_close((uv_handle_t *)&s->turn, on_rest_closed);
}

static void on_listener_closed(uv_handle_t *h)
{
    abx__listener *l = h->data;
    abx_http_server *s = l->server;

    free(l);
    s->open_handles--;
    maybe_closed(s);
}

void abx_http_server_stop(abx_http_server *s)
{
    while (s->listeners) {
        abx__listener *l = s->listeners;
        s->listeners = l->next;
        uv_poll_stop(&l->poll);
        close(l->fd);
        uv_close((uv_handle_t *)&l->poll, on_listener_closed);
    }
}

void abx_http_server_close(abx_http_server *s, void (*cb)(void *data), void *data)
{
    ABX_CHECK(!s->closing);
    abx_http_server_stop(s);
    s->closing = true;
    s->closed = cb;
    s->closed_data = data;
    for (abx_link *l = s->conns.next; l != &s->conns; l = l->next)
        abx__conn_kill(ABX_OF(l, abx__conn, link), true);
    /* The rest is done by the pending list, so that nobody's handler runs inside this call. */
    uv_ref((uv_handle_t *)&s->prepare);
}

void abx__server_conn_gone(abx_http_server *s)
{
    s->conn_count--;
    maybe_closed(s);
}

size_t abx_http_server_connections(const abx_http_server *s)
{
    return s->conn_count;
}

size_t abx_http_server_exchanges(const abx_http_server *s)
{
    return s->exchange_count;
}

const char *abx__server_date(abx_http_server *s)
{
    struct timespec now;
    struct tm tm;

    if (s->options.no_date)
        return "";
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec != s->date_second) {
        s->date_second = now.tv_sec;
        ABX_CHECK(abx_utc(now.tv_sec, &tm) == 0);
        strftime(s->date, sizeof s->date, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
    }
    return s->date;
}
