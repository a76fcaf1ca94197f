/* The HTTP server, spoken to by hand over a socket pair. */
#include "net_app.h"

#include <netinet/in.h>
#include <arpa/inet.h>
#include <poll.h>
#include <sys/resource.h>

typedef struct peer {
    app *a;
    int fd;
    int server_fd; /* the server's end of a pair */
    char *got;
    size_t len;
    bool eof, reset;
} peer;

static peer connect_pair(app *a)
{
    int pair[2];
    ABX_AUTO_ERROR err = NULL;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(abx_http_server_adopt(a->server, pair[0], app_gone, a, &err), 0);
    return (peer){.a = a, .fd = pair[1], .server_fd = pair[0], .got = abx_alloc(1)};
}

static peer connect_tcp(app *a, int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return (peer){.a = a, .fd = fd, .got = abx_alloc(1)};
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

static void expect_end(peer *p)
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

static void stop_loop(uv_timer_t *t)
{
    uv_stop(t->loop);
}

/* Turns of the loop while nothing happens for a while. */
static uint64_t idle_turns(app *a)
{
    uv_metrics_t before, after;
    uv_timer_t t;

    uv_timer_init(&a->loop, &t);
    uv_timer_start(&t, stop_loop, 50, 0);
    uv_metrics_info(&a->loop, &before);
    uv_run(&a->loop, UV_RUN_DEFAULT);
    uv_metrics_info(&a->loop, &after);
    uv_close((uv_handle_t *)&t, NULL);
    app_turn(a); /* t leaves the loop */
    return after.loop_count - before.loop_count;
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

/* One request on a fresh connection; the text must be in what comes back. */
static void check(const char *request, const char *answer)
{
    app a;

    app_open(&a, NULL);
    peer p = connect_pair(&a);
    say(&p, request);
    expect(&p, answer);
    peer_close(&p);
    app_close(&a);
}

/* The same request cut at each byte and byte by byte gives the same answer. */
static void check_in_pieces(const char *request, const char *answer)
{
    size_t n = strlen(request);

    for (size_t cut = 0; cut < n; cut++) {
        app a;
        app_open(&a, &(abx_http_server_options){.no_date = true});
        peer p = connect_pair(&a);
        char first[2048];
        snprintf(first, sizeof first, "%.*s", (int)cut, request);
        say(&p, first);
        turns(&p, 2);
        say(&p, request + cut);
        expect(&p, answer);
        peer_close(&p);
        app_close(&a);
    }
    app a;
    app_open(&a, &(abx_http_server_options){.no_date = true});
    peer p = connect_pair(&a);
    for (size_t i = 0; i < n; i++) {
        char one[2] = {request[i], 0};
        say(&p, one);
        turns(&p, 1);
    }
    expect(&p, answer);
    peer_close(&p);
    app_close(&a);
}

static void test_simple(void **state)
{
    (void)state;
    app a;

    app_open(&a, &(abx_http_server_options){.server_name = "test"});
    peer p = connect_pair(&a);
    say(&p, GET("/hello"));
    expect(&p, "\r\n\r\nhello");
    assert_non_null(strstr(p.got, "HTTP/1.1 200 OK\r\nServer: test\r\nDate: "));
    assert_non_null(strstr(p.got, "\r\nContent-Length: 5\r\n"));
    assert_int_equal(a.complete, 1);
    assert_int_equal(abx_http_server_connections(a.server), 1);
    assert_int_equal(abx_http_server_exchanges(a.server), 0);
    forget(&p);
    say(&p, GET("/nothing"));
    expect(&p, "HTTP/1.1 404 Not Found\r\n");
    peer_close(&p);
    turns(&(peer){.a = &a, .fd = -1, .eof = true}, 3);
    assert_int_equal(abx_http_server_connections(a.server), 0);
    assert_int_equal(a.gone, 1);
    app_close(&a);
}

static void test_request_parts(void **state)
{
    (void)state;
    check("GET /header HTTP/1.1\r\nHost: x\r\nX-Test: \t one two \t \r\n\r\n", "\r\n\r\none two");
    check("GET /header HTTP/1.1\r\nHost: x\r\nX-Test:\r\n\r\n", "200 OK");
    check("GET /header HTTP/1.1\r\nHost: x\r\nX-Other:1\r\n\r\n", "404 Not Found");
    check(GET("/query?a=1&k=b+c%20%C3%A9&k=2"), "\r\n\r\nb c \xc3\xa9");
    check(GET("/query?a=1&k=%zz"), "400 Bad Request");
    check(GET("/query?k=%4"), "400 Bad Request");
    check(GET("/query?k=a%00b"), "400 Bad Request");
    check(GET("/query?kk=1"), "400 Bad Request");
    check("HEAD /hello HTTP/1.1\r\nHost: x\r\n\r\n" GET("/empty"),
          "Content-Length: 5\r\n\r\nHTTP/1.1 204");
    check("GET http://other.host/hello HTTP/1.1\r\nHost: x\r\n\r\n", "hello");
    check("GET http://other.host?k=v HTTP/1.1\r\nHost: x\r\n\r\n", "404");
    check(GET("/parts"), "Content-Length: 6\r\n\r\nabcdef");
    check("HEAD /stream?n=10 HTTP/1.1\r\nHost: x\r\n\r\n" GET("/hello"),
          "chunked\r\n\r\nHTTP/1.1 200");
}

static void test_bodies(void **state)
{
    (void)state;
    check_in_pieces("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nhello world",
                    "\r\n\r\nhello world");
    check_in_pieces("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nT: v\r\n\r\n" GET("/hello"),
                    "\r\n\r\nhello worldHTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                    "Content-Length: 5\r\n\r\nhello");
    check("POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody" GET("/empty"),
          "hello");
}

static void test_pipelining(void **state)
{
    (void)state;
    app a;

    app_open(&a, NULL);
    peer p = connect_pair(&a);
    say(&p, GET("/hold")
                GET("/hello") "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi" GET(
                    "/empty"));
    turns(&p, 5);
    assert_string_equal(a.log, "GET /hold;");
    assert_int_equal(p.len, 0);
    abx_exchange_reply(a.held, 200, NULL, "held", 4);
    expect(&p, "204 No Content");
    assert_string_equal(a.log, "GET /hold;GET /hello;POST /echo;GET /empty;");
    char *held = strstr(p.got, "held"), *hello = strstr(p.got, "hello"),
         *hi = strstr(p.got, "\nhi");
    assert_true(held && hello > held && hi > hello);
    assert_int_equal(a.complete, 4);
    peer_close(&p);
    app_close(&a);
}

static void test_many_pipelined(void **state)
{
    (void)state;
    app a;

    app_open(&a, NULL);
    peer p = connect_pair(&a);
    for (int i = 0; i < 5000; i++)
        say(&p, GET("/hello"));
    for (int i = 0; i < 20000 && a.complete < 5000; i++)
        turns(&p, 1);
    assert_int_equal(a.complete, 5000);
    peer_close(&p);
    app_close(&a);
}

static void refused(const char *request, const char *status)
{
    app a;

    app_open(&a, NULL);
    peer p = connect_pair(&a);
    say(&p, request);
    expect(&p, status);
    assert_non_null(strstr(p.got, "Connection: close"));
    expect_end(&p);
    /* one answer only: nothing that was smuggled behind it runs */
    assert_null(strstr(p.got + 1, "HTTP/1.1"));
    assert_null(strstr(a.log, "/hello"));
    peer_close(&p);
    app_close(&a);
}

static void test_refusals(void **state)
{
    (void)state;
    refused("nonsense\r\n\r\n" GET("/hello"), "400 Bad Request");
    refused("GET /x HTTP/1.1\r\n\r\n", "400 Bad Request");
    refused("GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400 Bad Request");
    refused("GET /x HTTP/2.0\r\nHost: a\r\n\r\n", "505 HTTP Version Not Supported");
    refused("GET /x HTTP/1.1\r\nHost: a\r\nBad Name: b\r\n\r\n", "400");
    refused("GET /x HTTP/1.1\nHost: a\n\n" GET("/hello"), "400");
    refused("GET /x HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n", "400");
    refused("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
            "400");
    refused("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n"
            "\r\n0\r\n\r\n" GET("/hello"),
            "400");
    refused("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n"
            "\r\n0\r\n\r\n" GET("/hello"),
            "400");
    refused("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "501 Not Implemented");
    refused("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
            "400");
    refused("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", "400");
    refused("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n",
            "400");
    refused("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc", "400");
    refused("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
            "400");
    refused("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            "fffffffffffffffff\r\na",
            "400");
    refused("POST /x HTTP/1.1\r\nHost: a\r\nExpect: the-best\r\nContent-Length: 1\r\n\r\n", "417");
    refused("POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n01234567890", "413");
    refused("POST /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890",
            "413");
    refused("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n", "413");
}

static void test_head_limits(void **state)
{
    (void)state;
    app a;
    char *line = abx_alloc(3000);

    memset(line, 'a', 2999);
    app_open(&a, &(abx_http_server_options){.max_head_bytes = 2000, .max_headers = 5});
    ABX_AUTO_FREE char *by_target = abx_format("GET /%s HTTP/1.1\r\nHost: x\r\n\r\n", line);
    ABX_AUTO_FREE char *by_name = abx_format("GET / HTTP/1.1\r\nHost: x\r\n%s: 1\r\n\r\n", line);
    ABX_AUTO_FREE char *by_value = abx_format("GET / HTTP/1.1\r\nHost: x\r\nA: %s\r\n\r\n", line);
    const char *by_count =
        "GET / HTTP/1.1\r\nHost: x\r\na: 1\r\nb: 1\r\nc: 1\r\nd: 1\r\ne: 1\r\n\r\n";
    const char *each[] = {by_target, by_name, by_value, by_count};
    for (size_t i = 0; i < 4; i++) {
        peer p = connect_pair(&a);
        say(&p, each[i]);
        expect(&p, "HTTP/1.1 431 ");
        expect_end(&p);
        peer_close(&p);
    }
    free(line);
    peer p = connect_pair(&a);
    say(&p, "GET /hello HTTP/1.1\r\nHost: x\r\na: 1\r\nb: 1\r\nc: 1\r\nd: 1\r\n\r\n");
    expect(&p, "200 OK");
    peer_close(&p);
    app_close(&a);
}

static void test_connection_limit(void **state)
{
    (void)state;
    app a;
    int port = 0;
    ABX_AUTO_ERROR err = NULL;

    app_open(&a, &(abx_http_server_options){.max_connections = 2});
    assert_int_equal(abx_http_server_listen_tcp(a.server, "127.0.0.1", 0, &port, &err), 0);
    peer one = connect_tcp(&a, port), two = connect_tcp(&a, port);
    turns(&one, 3);
    peer three = connect_tcp(&a, port);
    expect(&three, "503 Service Unavailable");
    expect_end(&three);
    peer_close(&one);
    turns(&two, 3);
    peer four = connect_tcp(&a, port);
    say(&four, GET("/hello"));
    expect(&four, "200 OK");
    abx_http_server_stop(a.server);
    say(&two, GET("/hello"));
    expect(&two, "200 OK");
    peer_close(&two);
    peer_close(&three);
    peer_close(&four);
    app_close(&a);
}

/* Out of descriptors the server waits, without turning in circles, and goes on when there are some again. */
static void test_no_descriptors(void **state)
{
    (void)state;
    app a;
    int port = 0, taken[2000], count = 0;
    struct rlimit before, few;
    ABX_AUTO_ERROR err = NULL;

    app_open(&a, NULL);
    assert_int_equal(abx_http_server_listen_tcp(a.server, "127.0.0.1", 0, &port, &err), 0);
    peer p = connect_tcp(&a, port);
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = 200;
    setrlimit(RLIMIT_NOFILE, &few);
    while (count < 2000 && (taken[count] = dup(0)) >= 0)
        count++;
    assert_true(idle_turns(&a) < 10);
    assert_int_equal(abx_http_server_connections(a.server), 0);
    while (count > 0)
        close(taken[--count]);
    setrlimit(RLIMIT_NOFILE, &before);
    say(&p, GET("/hello"));
    expect(&p, "hello");
    peer_close(&p);
    app_close(&a);
}

static void test_timeouts(void **state)
{
    (void)state;
    app a;

    app_open(&a, &(abx_http_server_options){
                     .head_timeout_ms = 30, .idle_timeout_ms = 60, .stall_timeout_ms = 30});
    peer slow = connect_pair(&a);
    say(&slow, "GET /hello HT");
    expect(&slow, "408 Request Timeout");
    expect_end(&slow);
    peer idle = connect_pair(&a);
    say(&idle, GET("/hello"));
    expect(&idle, "200 OK");
    expect_end(&idle);
    peer body = connect_pair(&a);
    say(&body, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n");
    expect_end(&body);
    peer reader = connect_pair(&a); /* takes nothing of a large answer */
    say(&reader, GET("/stream?n=3000000"));
    for (int i = 0; i < 3000 && a.closed < 3; i++) {
        app_turn(&a);
        usleep(1000);
    }
    assert_int_equal(a.closed, 3);
    assert_int_equal(a.complete, 1);
    peer_close(&slow);
    peer_close(&idle);
    peer_close(&body);
    peer_close(&reader);
    app_close(&a);
}

static void test_old_http(void **state)
{
    (void)state;
    app a;

    app_open(&a, NULL);
    peer p = connect_pair(&a);
    say(&p, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    expect(&p, "Connection: keep-alive\r\n\r\nhello");
    say(&p, "GET /stream?n=5 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    expect_end(&p);
    assert_null(strstr(p.got, "chunked"));
    peer q = connect_pair(&a);
    say(&q, "GET /hello HTTP/1.0\r\n\r\n");
    expect(&q, "Connection: close\r\n\r\nhello");
    expect_end(&q);
    peer r = connect_pair(&a);
    say(&r, "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    expect(&r, "Connection: close\r\n\r\nhello");
    expect_end(&r);
    assert_true(r.eof);
    peer_close(&p);
    peer_close(&q);
    peer_close(&r);
    app_close(&a);
}

static void test_continue(void **state)
{
    (void)state;
    app a;

    app_open(&a, NULL);
    peer p = connect_pair(&a);
    say(&p, "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    expect(&p, "HTTP/1.1 100 Continue\r\n\r\n");
    say(&p, "ok");
    expect(&p, "\r\n\r\nok");
    forget(&p);
    say(&p, "POST /hello HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    expect(&p, "hello");
    assert_null(strstr(p.got, "100 Continue"));
    assert_non_null(strstr(p.got, "Connection: close"));
    expect_end(&p);
    peer_close(&p);
    app_close(&a);
}

static void test_peer_dies(void **state)
{
    (void)state;
    static const char *const at[] = {
        "GET /he",
        GET("/hold"),
        GET("/sse"),
        GET("/stream?n=90000000"),
        "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n",
        "POST /hold-body HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"};

    for (size_t i = 0; i < ABX_COUNT(at); i++) {
        app a;
        app_open(&a, NULL);
        peer p = connect_pair(&a);
        say(&p, at[i]);
        for (int turn = 0; turn < 5; turn++)
            app_turn(&a);
        peer_close(&p);
        for (int turn = 0; turn < 100 && !a.gone; turn++)
            app_turn(&a);
        assert_int_equal(a.gone, 1);
        assert_int_equal(a.complete, 0);
        assert_int_equal(a.closed, i ? 1 : 0);
        assert_int_equal(abx_http_server_exchanges(a.server), 0);
        app_close(&a);
    }
}

static void test_half_close(void **state)
{
    (void)state;
    app a;
    int port = 0;
    ABX_AUTO_ERROR err = NULL;

    app_open(&a, NULL);
    assert_int_equal(abx_http_server_listen_tcp(a.server, "127.0.0.1", 0, &port, &err), 0);
    for (int tcp = 0; tcp < 2; tcp++) {
        peer p = tcp ? connect_tcp(&a, port) : connect_pair(&a);
        say(&p, GET("/hello") GET("/hold"));
        shutdown(p.fd, SHUT_WR);
        for (int i = 0; i < 1000 && a.peer_eofs <= tcp; i++)
            turns(&p, 1);
        assert_int_equal(a.peer_eofs, tcp + 1);
        abx_exchange_reply(a.held, 200, NULL, "held", 4);
        expect(&p, "held");
        expect_end(&p);
        assert_true(p.eof);
        peer_close(&p);
    }
    peer cut = connect_pair(&a); /* half closed inside the body: nobody waits for that */
    say(&cut, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc");
    shutdown(cut.fd, SHUT_WR);
    expect_end(&cut);
    peer_close(&cut);
    app_close(&a);
}

/* Level-triggered events of a peer that we cannot or do not want to read must not keep the loop busy. */
static void test_no_busy_waiting(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool half;
    } cases[] = {
        {GET("/hello"), false},
        {GET("/hold"), true},
        {GET("/hold") GET("/hello"), false},
        {GET("/hold") GET("/hello"), true},
        {"POST /hold-body HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123456789", false},
        {"POST /hold-body HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123456789", true},
        {GET("/sse"), false},
        {GET("/sse"), true},
        {GET("/stream?n=9000000"), false},
        {GET("/stream?n=9000000"), true},
    };

    for (int tcp = 0; tcp < 2; tcp++) {
        for (size_t i = 0; i < ABX_COUNT(cases); i++) {
            app a;
            int port = 0;
            ABX_AUTO_ERROR err = NULL;
            app_open(&a, NULL);
            assert_int_equal(abx_http_server_listen_tcp(a.server, "127.0.0.1", 0, &port, &err), 0);
            peer p = tcp ? connect_tcp(&a, port) : connect_pair(&a);
            say(&p, cases[i].text);
            if (cases[i].half)
                shutdown(p.fd, SHUT_WR);
            for (int turn = 0; turn < 10; turn++)
                app_turn(&a);
            if (tcp)
                usleep(1000);
            for (int turn = 0; turn < 10; turn++)
                app_turn(&a);
            if (idle_turns(&a) > 10)
                fail_msg("case %d %d", tcp, (int)i);
            peer_close(&p);
            app_close(&a);
        }
    }
}

/* Over TCP a peer that closed looks half closed; an event stream finds out by a comment. */
static void test_tcp_peer_gone(void **state)
{
    (void)state;
    app a;
    int port = 0;
    ABX_AUTO_ERROR err = NULL;

    app_open(&a, NULL);
    assert_int_equal(abx_http_server_listen_tcp(a.server, "127.0.0.1", 0, &port, &err), 0);
    peer p = connect_tcp(&a, port);
    say(&p, GET("/sse"));
    expect(&p, "still here");
    peer_close(&p);
    for (int i = 0; i < 1000 && !a.closed; i++) {
        app_turn(&a);
        usleep(100);
    }
    assert_int_equal(a.closed, 1);
    assert_int_equal(a.complete, 0);
    app_close(&a);
}

static void test_abort(void **state)
{
    (void)state;
    app a;
    int port = 0;
    ABX_AUTO_ERROR err = NULL;

    app_open(&a, NULL);
    assert_int_equal(abx_http_server_listen_tcp(a.server, "127.0.0.1", 0, &port, &err), 0);
    static const char *const paths[] = {GET("/abort"), GET("/short")};
    for (int i = 0; i < 2; i++) {
        peer p = connect_tcp(&a, port);
        say(&p, paths[i]);
        expect_end(&p);
        assert_true(p.reset);
        peer_close(&p);
    }
    assert_int_equal(a.closed, 2);
    assert_int_equal(a.complete, 0);
    app_close(&a);
}

static void test_sse(void **state)
{
    (void)state;
    app a;

    app_open(&a, NULL);
    peer p = connect_pair(&a);
    say(&p, GET("/sse"));
    expect(&p, "event: one\nid: 7\ndata: first\ndata: second\n\n");
    expect(&p, ":still here\n\n");
    assert_non_null(strstr(p.got, "Content-Type: text/event-stream\r\n"));
    abx_exchange_end(a.held);
    expect(&p, "\r\n0\r\n\r\n");
    peer_close(&p);
    app_close(&a);
}

/* 50 MB to a reader that sleeps: the writer holds, memory stays small, not a byte is lost. */
static void test_stream_backpressure(void **state)
{
    (void)state;
    app a;

    app_open(&a, NULL);
    peer p = connect_pair(&a);
    say(&p, "GET /stream?n=50000000 HTTP/1.0\r\n\r\n");
    for (int i = 0; i < 100; i++)
        app_turn(&a);
    assert_true(a.streamed < 2000000);
    uint64_t got = 0;
    size_t head = 0;
    while (!p.eof) {
        turns(&p, 1);
        if (!head && p.len) {
            head = (size_t)(strstr(p.got, "\r\n\r\n") + 4 - p.got);
            memmove(p.got, p.got + head, p.len - head);
            p.len -= head;
        }
        for (size_t i = 0; i < p.len; i++, got++)
            assert_int_equal((uint8_t)p.got[i], app_byte(got));
        forget(&p);
    }
    assert_int_equal(got, 50000000);
    assert_true(a.most_pending < 400 * 1024);
    peer_close(&p);
    app_close(&a);
}

static void read_all(void *data)
{
    peer_read(data);
}

/* The peer makes room right after the writer was told to hold: all that waits goes out at once, and the writer must be
 * told although no event of the socket will come. */
static void test_room_in_the_same_turn(void **state)
{
    (void)state;
    app a;
    const int room = 4 * 1024 * 1024;

    app_open(&a, NULL);
    peer p = connect_pair(&a);
    assert_int_equal(setsockopt(p.server_fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
    a.on_full = read_all;
    a.full_data = &p;
    say(&p, "GET /stream?n=50000000 HTTP/1.0\r\n\r\n");
    for (int i = 0; i < 1000 && !p.eof; i++)
        turns(&p, 1);
    assert_true(p.eof);
    assert_true(p.len > 50000000);
    peer_close(&p);
    app_close(&a);
}

/* 50 MB to a handler that pauses: the bytes wait in the socket. */
static void test_upload_backpressure(void **state)
{
    (void)state;
    app a;
    uint64_t sent = 0, total = 50000000;
    uint8_t chunk[50000];

    app_open(&a, NULL);
    peer p = connect_pair(&a);
    say(&p, "POST /hold-body HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n");
    for (int idle = 0; sent < total;) {
        size_t want = total - sent < sizeof chunk ? (size_t)(total - sent) : sizeof chunk;
        for (size_t i = 0; i < want; i++)
            chunk[i] = app_byte(sent + i);
        ssize_t n = send(p.fd, chunk, want, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0)
            sent += (uint64_t)n;
        else
            idle++;
        app_turn(&a);
        if (idle < 50)
            assert_true(a.uploaded == 0 && sent < 2000000);
        if (idle >= 50 && a.held) {
            /* in short steps: each resume lets through what one read took */
            abx_exchange_resume(a.held);
            app_turn(&a);
            if (sent < total / 2 && a.held)
                abx_exchange_pause(a.held);
        }
    }
    expect(&p, "\r\n\r\n50000000");
    assert_int_equal(a.uploaded, total);
    peer_close(&p);
    app_close(&a);
}

static void test_unread_body(void **state)
{
    (void)state;
    app a;
    char *body = abx_alloc(60001);

    memset(body, 'x', 60000);
    app_open(&a, NULL);
    peer p = connect_pair(&a);
    say(&p, "POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n");
    expect(&p, "hello"); /* answered before the body came */
    forget(&p);
    say(&p, body);
    say(&p, GET("/hello"));
    expect(&p, "hello"); /* dropped, and the connection goes on */
    forget(&p);
    say(&p, "POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 600000\r\n\r\n");
    say(&p, body);
    expect(&p, "Connection: close\r\n\r\nhello"); /* too much for that */
    say(&p, body);
    expect_end(&p);
    assert_true(p.eof);
    free(body);
    peer_close(&p);
    app_close(&a);
}

static void test_close_in_the_middle(void **state)
{
    (void)state;
    static const char *const at[] = {
        "",           "GET /he",
        GET("/hold"), GET("/stream?n=90000000"),
        GET("/sse"),  "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"};

    for (size_t i = 0; i < ABX_COUNT(at); i++) {
        app a;
        app_open(&a, NULL);
        peer p = connect_pair(&a);
        say(&p, at[i]);
        for (int turn = 0; turn < 5; turn++)
            app_turn(&a);
        app_close(&a);
        assert_int_equal(a.gone, 1);
        assert_int_equal(a.closed, i >= 2);
        peer_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simple),
        cmocka_unit_test(test_request_parts),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_pipelining),
        cmocka_unit_test(test_many_pipelined),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_head_limits),
        cmocka_unit_test(test_connection_limit),
        cmocka_unit_test(test_no_descriptors),
        cmocka_unit_test(test_timeouts),
        cmocka_unit_test(test_old_http),
        cmocka_unit_test(test_continue),
        cmocka_unit_test(test_peer_dies),
        cmocka_unit_test(test_half_close),
        cmocka_unit_test(test_no_busy_waiting),
        cmocka_unit_test(test_tcp_peer_gone),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_sse),
        cmocka_unit_test(test_stream_backpressure),
        cmocka_unit_test(test_room_in_the_same_turn),
        cmocka_unit_test(test_upload_backpressure),
        cmocka_unit_test(test_unread_body),
        cmocka_unit_test(test_close_in_the_middle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
