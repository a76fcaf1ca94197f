/* The HTTP server and its connections: how many, how long, peers that leave or do not read, long streams. */
#include "net_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>

static peer connect_tcp(app *a, int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return (peer){.a = a, .fd = fd, .got = abx_alloc(1)};
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

/* A peer that has closed its sending side and takes nothing looks as one that is gone: the server cannot write to find out. */
static void test_tcp_peer_takes_nothing(void **state)
{
    (void)state;
    app a;
    int port = 0;
    ABX_AUTO_ERROR err = NULL;

    app_open(&a, &(abx_http_server_options){.gone_timeout_ms = 200});
    assert_int_equal(abx_http_server_listen_tcp(a.server, "127.0.0.1", 0, &port, &err), 0);
    peer p = connect_tcp(&a, port);
    say(&p, GET("/stream?n=30000000"));
    for (size_t before = 1; before != a.streamed;) {
        before = a.streamed;
        for (int i = 0; i < 50; i++, usleep(200))
            app_turn(&a);
    }
    assert_int_equal(a.closed, 0);
    assert_int_equal(shutdown(p.fd, SHUT_WR), 0);
    for (int i = 0; i < 20000 && !a.closed; i++) {
        app_turn(&a);
        usleep(1000);
    }
    assert_int_equal(a.closed, 1);
    assert_int_equal(a.complete, 0);
    peer_close(&p);
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

typedef struct drain {
    peer *p;
    size_t got;
} drain;

static void read_all(void *data)
{
    drain *d = data;
    peer_read(d->p);
    d->got += d->p->len;
    forget(d->p);
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
    drain d = {&p, 0};
    a.full_data = &d;
    say(&p, "GET /stream?n=50000000 HTTP/1.0\r\n\r\n");
    for (int i = 0; i < 1000 && !p.eof; i++) {
        turns(&p, 1);
        read_all(&d); /* what it kept would be copied whenever it grows */
    }
    assert_true(p.eof);
    assert_true(d.got > 50000000);
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
        cmocka_unit_test(test_connection_limit),
        cmocka_unit_test(test_no_descriptors),
        cmocka_unit_test(test_timeouts),
        cmocka_unit_test(test_peer_dies),
        cmocka_unit_test(test_half_close),
        cmocka_unit_test(test_no_busy_waiting),
        cmocka_unit_test(test_tcp_peer_gone),
        cmocka_unit_test(test_tcp_peer_takes_nothing),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_sse),
        cmocka_unit_test(test_stream_backpressure),
        cmocka_unit_test(test_room_in_the_same_turn),
        cmocka_unit_test(test_upload_backpressure),
        cmocka_unit_test(test_close_in_the_middle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
