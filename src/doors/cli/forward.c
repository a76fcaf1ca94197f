#include "doors/cli/forward.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

enum { PIECE = 64 * 1024, BACKLOG = 128, WINDOW = 256 * 1024, LOOK_MS = 2000 };

typedef struct forward {
    abx_cli *cli;
    const abx_forward_spec *spec;
    uv_tcp_t listener;
    uv_timer_t deadline;
    uv_timer_t look;   /* does the sandbox still live? Nobody may connect for hours */
    abx_call *looking; /* NULL: not now */
    struct peer *links;
    size_t open; /* handles that are not closed yet */
    abx_error *err;
    bool over;
    uint8_t bytes[PIECE]; /* what one read brings */
} forward;

/* One connection: the client on this machine, and the call to the sandbox. */
typedef struct peer {
    struct peer *next, **at;
    forward *forward;
    uv_tcp_t client;
    abx_call *call;   /* NULL once it has ended */
    bool client_open; /* its handle is not being closed */
    bool client_gone; /* … and it is closed: only the call is waited for */
    bool reading, paused;
    bool half, shut; /* no more bytes come for it; and all of them and that have been sent */
    uv_shutdown_t shutdown;
} peer;

typedef struct piece {
    uv_write_t request;
    peer *peer;
    uint8_t bytes[];
} piece;

/* --- the client's side -------------------------------------------------------------------------------- */
static void link_free(peer *l)
{
    *l->at = l->next;
    if (l->next)
        l->next->at = l->at;
    free(l);
}

static void on_client_closed(uv_handle_t *handle)
{
    peer *l = handle->data;
    l->forward->open--;
    l->client_gone = true;
    if (l->call)
        abx_call_cancel(l->call); /* its end frees */
    else
        link_free(l);
}

static void close_client(peer *l, bool reset)
{
    if (!l->client_open)
        return;
    l->client_open = false;
    if (!reset || uv_tcp_close_reset(&l->client, on_client_closed) < 0)
        uv_close((uv_handle_t *)&l->client, on_client_closed);
}

static void on_room(uv_handle_t *handle, size_t size, uv_buf_t *out)
{
    (void)size;
    peer *l = handle->data;
    *out = uv_buf_init((char *)l->forward->bytes, PIECE);
}

static void stop_reading(peer *l)
{
    l->reading = false;
    (void)uv_read_stop((uv_stream_t *)&l->client);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    peer *l = stream->data;
    if (n == UV_EOF) {
        stop_reading(l);
        if (l->call)
            abx_call_write_end(l->call);
    } else if (n < 0) {
        close_client(l, true);
    } else if (n > 0 && l->call && abx_call_write(l->call, buf->base, (size_t)n) == 0) {
        stop_reading(l);
    }
}

static void start_reading(peer *l)
{
    if (l->client_open && !l->reading &&
        uv_read_start((uv_stream_t *)&l->client, on_room, on_read) == 0)
        l->reading = true;
}

static void on_written(uv_write_t *request, int status)
{
    piece *p = (piece *)request;
    peer *l = p->peer;
    free(p);
    if (status < 0 && status != UV_ECANCELED)
        close_client(l, true);
    if (l->paused && l->call && l->client_open &&
        uv_stream_get_write_queue_size((uv_stream_t *)&l->client) < WINDOW / 4) {
        l->paused = false;
        abx_call_resume(l->call);
    }
}

/* All that was queued has gone out. */
static void on_shut(uv_shutdown_t *request, int status)
{
    peer *l = request->data;
    l->shut = true;
    if (!l->call)
        close_client(l, status < 0);
}

/* --- the sandbox's side ------------------------------------------------------------------------------- */
static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    (void)channel;
    peer *l = data;
    if (!l->client_open)
        return;
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)n);
    int sent = uv_try_write((uv_stream_t *)&l->client, &buf, 1);
    size_t done = sent > 0 ? (size_t)sent : 0;
    if (done == n)
        return;
    piece *p = abx_alloc(sizeof(*p) + n - done);
    p->peer = l;
    memcpy(p->bytes, bytes + done, n - done);
    buf = uv_buf_init((char *)p->bytes, (unsigned)(n - done));
    if (uv_write(&p->request, (uv_stream_t *)&l->client, &buf, 1, on_written) < 0) {
        free(p);
        close_client(l, true);
    } else if (!l->paused && uv_stream_get_write_queue_size((uv_stream_t *)&l->client) > WINDOW) {
        l->paused = true;
        abx_call_pause(c);
    }
}

static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    (void)c;
    (void)event;
    peer *l = data;
    if (strcmp(type, "end") != 0 || !l->client_open || l->half)
        return;
    l->half = true;
    l->shutdown.data = l;
    (void)uv_shutdown(&l->shutdown, (uv_stream_t *)&l->client, on_shut);
}

static void on_writable(abx_call *c, void *data)
{
    (void)c;
    start_reading(data);
}

/* Nothing to forward to any more: then the whole verb ends. */
static bool is_final(const abx_error *e)
{
    return e->id == ABX_ERR_SANDBOX_NOT_FOUND || e->id == ABX_ERR_SANDBOX_ENDED ||
           e->id == ABX_ERR_TIMEOUT;
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    peer *l = data;
    forward *f = l->forward;
    l->call = NULL;
    if (err && !f->over && is_final(err)) {
        f->over = true;
        f->err = abx_error_copy(err);
    } else if (err && !f->over && err->id != ABX_ERR_CANCELLED) {
        abx_cli_note(f->cli, "abx: %s", err->message);
    }
    if (l->client_gone)
        link_free(l);
    else if (err || !l->half || l->shut)
        close_client(l, err != NULL);
}

static void on_connection(uv_stream_t *listener, int status)
{
    static const abx_call_handlers handlers = {
        .on_event = on_event, .on_chunk = on_chunk, .on_writable = on_writable, .on_end = on_end};
    forward *f = listener->data;
    if (status < 0 || f->over)
        return;
    peer *l = ABX_NEW(peer);
    l->forward = f;
    l->client.data = l;
    (void)uv_tcp_init(listener->loop, &l->client);
    f->open++;
    l->client_open = true;
    l->next = f->links;
    l->at = &f->links;
    if (l->next)
        l->next->at = &l->next;
    f->links = l;
    if (uv_accept(listener, (uv_stream_t *)&l->client) < 0) {
        close_client(l, false);
        return;
    }
    (void)uv_tcp_nodelay(&l->client, 1);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_cli_params(f->spec->sandbox, &root);
    abx_mut_int(params, root, "port", f->spec->port);
    ABX_AUTO_ERROR err = NULL;
    l->call = abx_cli_start(f->cli, ABX_OP_SANDBOX_TUNNEL, params, &handlers, l, &err);
    if (l->call) {
        start_reading(l);
        return;
    }
    if (is_final(err)) {
        f->over = true;
        f->err = ABX_TAKE(err);
    } else {
        abx_cli_note(f->cli, "abx: %s", err->message);
    }
    close_client(l, true);
}

/* --- the address ------------------------------------------------------------------------------------------ */
static bool is_loopback(const struct sockaddr_storage *a)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
    if (a->ss_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

static int parse_host(const char *host, int port, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof(*out));
    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (uv_ip4_addr(host, port, (struct sockaddr_in *)out) == 0)
        return 0;
    return uv_ip6_addr(host, port, (struct sockaddr_in6 *)out);
}

int abx_forward_parse(const char *text, struct sockaddr_storage *out, abx_error **err)
{
    uint64_t port = 0;
    const char *colon = text ? strrchr(text, ':') : NULL;
    const char *number = !text ? "0" : colon ? colon + 1 : text;
    ABX_AUTO_FREE char *host =
        colon ? abx_strndup(text, (size_t)(colon - text)) : abx_strdup("127.0.0.1");
    size_t n = strlen(host);
    if (host[0] == '[' && host[n - 1] == ']') { /* [::1] */
        memmove(host, host + 1, n - 2);
        host[n - 2] = 0;
    }
    if (abx_parse_uint(number, 65535, &port) < 0 || parse_host(host, (int)port, out) < 0) {
        abx_fail(err, ABX_ERR_USAGE, "'%s' is no address on this machine", text);
        return abx_hint(err, "for example 8080 or 127.0.0.1:8080");
    }
    if (is_loopback(out))
        return 0;
    abx_fail(err, ABX_ERR_USAGE, "'%s' is not on the loopback of this machine", host);
    return abx_hint(err, "others could reach the sandbox there: use 127.0.0.1 or [::1]");
}

static int tell_address(forward *f,
                        int (*told)(abx_cli *cli, const char *address, void *data, abx_error **err),
                        void *data, abx_error **err)
{
    struct sockaddr_storage a;
    int n = sizeof(a);
    char host[INET6_ADDRSTRLEN];
    if (uv_tcp_getsockname(&f->listener, (struct sockaddr *)&a, &n) < 0)
        return abx_fail(err, ABX_ERR_NETWORK, "cannot tell the port that was taken");
    bool v4 = a.ss_family == AF_INET;
    int port =
        ntohs(v4 ? ((struct sockaddr_in *)&a)->sin_port : ((struct sockaddr_in6 *)&a)->sin6_port);
    if (v4)
        (void)uv_ip4_name((const struct sockaddr_in *)&a, host, sizeof(host));
    else
        (void)uv_ip6_name((const struct sockaddr_in6 *)&a, host, sizeof(host));
    ABX_AUTO_FREE char *address = abx_format(v4 ? "%s:%d" : "[%s]:%d", host, port);
    return told(f->cli, address, data, err);
}

/* --- the whole -------------------------------------------------------------------------------------------- */
static void on_deadline(uv_timer_t *timer)
{
    forward *f = timer->data;
    if (f->over)
        return;
    f->over = true;
    f->err = abx_error_new(ABX_ERR_TIMEOUT, "the time limit passed");
}

static void on_looked(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    forward *f = data;
    f->looking = NULL;
    if (!err || f->over || !is_final(err))
        return;
    f->over = true;
    f->err = err->id == ABX_ERR_TIMEOUT
                 ? abx_error_copy(err)
                 : abx_error_new(ABX_ERR_SANDBOX_ENDED, "sandbox '%s' has ended", f->spec->sandbox);
}

static void on_look(uv_timer_t *timer)
{
    static const abx_call_handlers handlers = {.on_end = on_looked};
    forward *f = timer->data;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_ERROR err = NULL;
    if (f->over || f->looking)
        return;
    f->looking = abx_cli_start(f->cli, ABX_OP_SANDBOX_INFO, abx_cli_params(f->spec->sandbox, &root),
                               &handlers, f, &err);
    if (!f->looking)
        on_looked(NULL, NULL, err, f);
}

static void on_own_closed(uv_handle_t *handle)
{
    ((forward *)handle->data)->open--;
}

static int open_listener(forward *f, abx_error **err)
{
    const struct sockaddr *a = (const struct sockaddr *)&f->spec->local;
    f->listener.data = f;
    int rc = uv_tcp_bind(&f->listener, a, 0);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&f->listener, BACKLOG, on_connection);
    if (rc == UV_EADDRINUSE)
        return abx_fail(err, ABX_ERR_CONFLICT, "the port is in use on this machine");
    return rc < 0 ? abx_fail_errno(err, ABX_ERR_NETWORK, -rc, "cannot listen") : 0;
}

static void end_all(forward *f)
{
    f->over = true;
    uv_close((uv_handle_t *)&f->listener, on_own_closed);
    uv_close((uv_handle_t *)&f->deadline, on_own_closed);
    uv_close((uv_handle_t *)&f->look, on_own_closed);
    abx_cli_begin_cleanup(f->cli);
    if (f->looking)
        abx_call_cancel(f->looking);
    for (peer *l = f->links, *next; l; l = next) {
        next = l->next;
        if (l->client_open)
            close_client(l, true);
    }
    while (f->open > 0 || f->links || f->looking)
        abx_cli_turn(f->cli);
}

int abx_forward_run(abx_cli *cli, const abx_forward_spec *spec,
                    int (*told)(abx_cli *cli, const char *address, void *data, abx_error **err),
                    void *data, abx_error **err)
{
    if (abx_cli_open(cli, err) < 0)
        return -1;
    forward *f = ABX_NEW(forward);
    f->cli = cli;
    f->spec = spec;
    f->open = 3;
    (void)uv_tcp_init(&cli->_loop, &f->listener);
    (void)uv_timer_init(&cli->_loop, &f->deadline);
    (void)uv_timer_init(&cli->_loop, &f->look);
    f->listener.data = f->deadline.data = f->look.data = f;
    (void)uv_timer_start(&f->look, on_look, LOOK_MS, LOOK_MS);
    if (cli->deadline != ABX_FOREVER)
        (void)uv_timer_start(&f->deadline, on_deadline,
                             abx_cli_time_for(cli, ABX_OP_SANDBOX_TUNNEL), 0);
    int rc = open_listener(f, err);
    if (rc == 0)
        rc = tell_address(f, told, data, err);
    while (rc == 0 && !f->over && !abx_cli_interrupted(cli))
        abx_cli_turn(cli);
    end_all(f);
    if (rc == 0 && f->err)
        rc = abx_error_take(err, ABX_TAKE(f->err));
    else if (rc == 0)
        rc = 128 + abx_cli_interrupted(cli);
    abx_error_free(f->err);
    free(f);
    return rc;
}
