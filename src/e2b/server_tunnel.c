/* GET /abx/tunnel?port=N with "Upgrade: abx-tunnel": after the answer 101 the connection carries the bytes of a TCP
 * connection inside, both ways, and each side's end of file. */
#include "e2b/server_inner.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct abx_e2b_tunnel {
    abx_e2b_server *server;
    abx_exchange *x; /* NULL once it is answered */
    abx__seat seat;
    void (*on_gone)(void *data);
    void *data;
};

static const char SWITCH[] = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                             "Upgrade: abx-tunnel\r\n\r\n";

static void on_close(abx_exchange *x, bool complete, void *data)
{
    (void)x;
    (void)complete;
    abx_e2b_tunnel *t = data;
    abx__use_end(t->server);
    if (t->x && t->on_gone)
        t->on_gone(t->data);
    abx__seat_leave(&t->seat);
    abx__seat_free(&t->seat);
    free(t);
}

void abx_e2b_tunnel_watch(abx_e2b_tunnel *t, void (*on_gone)(void *data), void *data)
{
    t->on_gone = on_gone;
    t->data = data;
}

int abx_e2b_tunnel_accept(abx_e2b_tunnel *t)
{
    int fd = abx_exchange_detach(t->x);
    if (fd < 0)
        return -1;
    t->x = NULL;
    abx__seat_leave(&t->seat);
    /* the first bytes on this socket: they fit; where the peer is gone, reading will tell */
    (void)!send(fd, SWITCH, sizeof(SWITCH) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    return fd;
}

void abx_e2b_tunnel_end(abx_e2b_tunnel *t)
{
    abx__use_end(t->server);
    abx__seat_free(&t->seat);
    free(t);
}

void abx_e2b_tunnel_refuse(abx_e2b_tunnel *t, int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    ABX_AUTO_FREE char *text = abx_vformat(fmt, ap);
    va_end(ap);
    abx_exchange *x = ABX_TAKE(t->x); /* t goes with the exchange */
    abx__reply_status(x, status, text);
}

void abx__tunnel_start(abx_e2b_server *s, abx_exchange *x)
{
    uint64_t port = 0;
    const abx_http_headers *h = abx_exchange_headers(x);
    ABX_AUTO_FREE char *text = abx_exchange_query_get(x, "port");
    if (!abx_http_headers_has(h, "Connection", "upgrade") ||
        !abx_http_headers_has(h, "Upgrade", "abx-tunnel")) {
        abx__reply_status(x, 426, "this route needs 'Upgrade: abx-tunnel'");
    } else if (!text || abx_parse_uint(text, 65535, &port) < 0 || port == 0) {
        abx__reply_status(x, 400, "port must be a number from 1 to 65535");
    } else if (!s->filling->tunnel) {
        abx__reply_status(x, 501, "there are no ports here");
    } else {
        abx_e2b_tunnel *t = ABX_NEW(abx_e2b_tunnel);
        t->server = s;
        t->x = x;
        abx__use_begin(s);
        abx__seat_take(s, &t->seat, x);
        abx_exchange_handlers handlers = {.on_close = on_close};
        abx_exchange_handle(x, &handlers, t);
        s->filling->tunnel(s->data, t, (int)port);
    }
}
