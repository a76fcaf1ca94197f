/* The HTTP server, spoken to by hand over a socket pair: what it makes of requests. */
#include "net_peer.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simple),         cmocka_unit_test(test_request_parts),
        cmocka_unit_test(test_bodies),         cmocka_unit_test(test_pipelining),
        cmocka_unit_test(test_many_pipelined), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_head_limits),    cmocka_unit_test(test_old_http),
        cmocka_unit_test(test_continue),       cmocka_unit_test(test_unread_body),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
