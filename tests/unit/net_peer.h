/* The other end of a connection to the app of net_app.h, spoken to by hand: shared by the tests of the server. */
#ifndef TESTS_NET_PEER_H
#define TESTS_NET_PEER_H

#include "net_app.h"

typedef struct peer {
    app *a;
    int fd;
    int server_fd; /* the server's end of a pair */
    char *got;
    size_t len;
    bool eof, reset;
} peer;

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

static peer connect_pair(app *a)
{
    int pair[2];
    ABX_AUTO_ERROR err = NULL;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(abx_http_server_adopt(a->server, pair[0], app_gone, a, &err), 0);
    return (peer){.a = a, .fd = pair[1], .server_fd = pair[0], .got = abx_alloc(1)};
}

static void peer_close(peer *p)
{
    if (p->fd >= 0)
        close(p->fd);
    free(p->got);
    p->fd = -1;
    p->got = NULL;
}

static void peer_read(peer *p)
{
    char buf[65536];

    while (!p->eof && !p->reset) {
        ssize_t n = recv(p->fd, buf, sizeof buf, MSG_DONTWAIT);
        if (n < 0) {
            p->reset = errno != EAGAIN;
            return;
        }
        p->eof = n == 0;
        p->got = abx_realloc(p->got, p->len + (size_t)n + 1);
        memcpy(p->got + p->len, buf, (size_t)n);
        p->len += (size_t)n;
        p->got[p->len] = 0;
    }
}

static void turns(peer *p, int n)
{
    for (int i = 0; i < n; i++) {
        app_turn(p->a);
        peer_read(p);
    }
}

static void say(peer *p, const char *text)
{
    size_t n = strlen(text), at = 0;

    for (int tries = 0; at < n; tries++) {
        assert_true(tries < 100000);
        ssize_t sent = send(p->fd, text + at, n - at, MSG_NOSIGNAL);
        if (sent > 0)
            at += (size_t)sent;
        else
            turns(p, 1);
    }
}

/* Turn the loop until the text shows up (or give up after a while). */
static void expect(peer *p, const char *text)
{
    for (int i = 0; i < 3000; i++) {
        turns(p, 1);
        if (p->got && strstr(p->got, text))
            return;
        if (i > 100)
            usleep(1000);
    }
    fail_msg("no '%s' in '%s'", text, p->got);
}

static inline void expect_end(peer *p)
{
    for (int i = 0; i < 3000 && !p->eof && !p->reset; i++) {
        turns(p, 1);
        if (i > 100)
            usleep(1000);
    }
    assert_true(p->eof || p->reset);
}

static void forget(peer *p)
{
    p->len = 0;
    p->got[0] = 0;
}

#endif
