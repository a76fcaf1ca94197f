/* What comes before the filling: token, users, routes, the Connect protocol and its edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/mem.h"
#include "e2b/server.h"
#include "envd_fixture.h"

static char TOKEN[] = FIXTURE_TOKEN;

static int set_up(void **state)
{
    envd_fixture *f = ABX_NEW(envd_fixture);
    fixture_open(f, NULL);
    *state = f;
    return 0;
}

static int set_up_token(void **state)
{
    envd_fixture *f = ABX_NEW(envd_fixture);
    f->token = TOKEN;
    fixture_open(f, NULL);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture_close(*state);
    free(*state);
    return 0;
}

#define BUF(name) ABX_AUTO_BUF name = ABX_BUF(SIZE_MAX / 2)

static void assert_has(const abx_buf *body, const char *text)
{
    if (memmem(abx_buf_cstr(body), body->len, text, strlen(text)))
        return;
    (void)fprintf(stderr, "'%s' is not in:\n%s\n", text, abx_buf_cstr(body));
    fail();
}

/* Bytes as they are; out: the answer's bytes. */
static int ask(envd_fixture *f, const char *text, size_t n, abx_buf *out)
{
    int fd = fixture_connect(f);
    abx_buf_reset(out);
    int status = fixture_ask(f, fd, text, n, out, 10000);
    close(fd);
    return status;
}

static int ask_text(envd_fixture *f, const char *text, abx_buf *out)
{
    return ask(f, text, strlen(text), out);
}

static void test_token(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    assert_int_equal(ask_text(f, "GET /envs HTTP/1.1\r\nHost: x\r\n\r\n", &b), 401);
    assert_has(&b, "\"code\":401");
    assert_int_equal(ask_text(f, "GET /envs HTTP/1.1\r\nHost: x\r\nX-Access-Token: no\r\n\r\n", &b),
                     401);
    assert_int_equal(ask_text(f, "GET /nosuch HTTP/1.1\r\nHost: x\r\n\r\n", &b), 401);
    assert_int_equal(ask_text(f, "HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n", &b), 401);
    assert_int_equal(
        ask_text(f, "POST /abx/timeout HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", &b),
        401);
    assert_int_equal(ask_text(f, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n", &b), 204);
    assert_int_equal(ask_text(f, "GET /files?path=x HTTP/1.1\r\nHost: x\r\n\r\n", &b), 401);
    assert_has(&b, "missing signature");
    b.len = 0;
    assert_int_equal(fixture_call(f, "GET", "/envs", "", NULL, 0, &b), 200);
    assert_has(&b, "{\"G\":\"1\"}");
}

static void test_signed_urls(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    ABX_AUTO_FREE char *good = abx_e2b_sign("none.txt", "read", "", TOKEN, NULL);
    ABX_AUTO_FREE char *old = abx_e2b_sign("none.txt", "read", "", TOKEN, "1700000000");
    char text[512], escaped[256];
    const char *const signatures[] = {good, old};
    for (int i = 0; i < 2; i++) {
        size_t at = 0;
        for (const char *p = signatures[i]; *p; p++)
            at += (size_t)snprintf(escaped + at, sizeof(escaped) - at,
                                   strchr("+/", *p) ? "%%%02X" : "%c", *p);
        (void)snprintf(text, sizeof(text),
                       "GET /files?path=none.txt&signature=%s%s HTTP/1.1\r\nHost: x\r\n\r\n",
                       escaped, i ? "&signature_expiration=1700000000" : "");
        assert_int_equal(ask_text(f, text, &b), i ? 401 : 404);
    }
    assert_has(&b, "already expired");
    assert_int_equal(
        ask_text(f, "GET /files?path=x&signature=v1_a HTTP/1.1\r\nHost: x\r\n\r\n", &b), 401);
    assert_has(&b, "invalid signature");
    assert_int_equal(
        ask_text(f, "GET /files?path=x&signature_expiration=abc HTTP/1.1\r\nHost: x\r\n\r\n", &b),
        400);
}

static void test_signature_vectors(void **state)
{
    (void)state;
    char token[65];
    for (int i = 0; i < 64; i += 2)
        memcpy(token + i, "ab", 3);
    ABX_AUTO_FREE char *a =
        abx_e2b_sign("hello.txt", "read", "user", "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0", NULL);
    assert_string_equal(a, "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
    ABX_AUTO_FREE char *b = abx_e2b_sign("a.txt", "write", "root", token, "1700000000");
    assert_string_equal(b, "v1_LqNgX68f7oZCmY04mYa7VDiwdM/jed3S9kvSn6eMBJ0");
}

static void test_routes(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    assert_int_equal(ask_text(f, "GET /nosuch HTTP/1.1\r\nHost: x\r\n\r\n", &b), 404);
    assert_has(&b, "404 page not found");
    assert_int_equal(ask_text(f, "DELETE /files HTTP/1.1\r\nHost: x\r\n\r\n", &b), 405);
    assert_has(&b, "Allow: GET");
    assert_has(&b, "Allow: POST");
    assert_int_equal(ask_text(f, "GET /process.Process/List HTTP/1.1\r\nHost: x\r\n\r\n", &b), 405);
    assert_int_equal(ask_text(f, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", &b), 200);
    assert_has(&b, "\"mem_total\":");
}

static void test_cross_origin(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    assert_int_equal(ask_text(f,
                              "OPTIONS /files HTTP/1.1\r\nHost: x\r\nOrigin: http://a\r\n"
                              "Access-Control-Request-Method: POST\r\n\r\n",
                              &b),
                     204);
    assert_has(&b, "Access-Control-Allow-Methods: POST");
    assert_int_equal(ask_text(f, "GET /health HTTP/1.1\r\nHost: x\r\nOrigin: http://a\r\n\r\n", &b),
                     204);
    assert_has(&b, "Access-Control-Allow-Origin: *");
}

static void test_users(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    assert_int_equal(ask_text(f,
                              "GET /health HTTP/1.1\r\nHost: x\r\nAuthorization: Basic "
                              "bm9ib2R5aGVyZTo=\r\n\r\n",
                              &b),
                     401);
    assert_has(&b, "invalid username: 'nobodyhere'");
    assert_int_equal(ask_text(f,
                              "POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nContent-Type: "
                              "application/connect+json\r\nAuthorization: Basic "
                              "bm9ib2R5aGVyZTo=\r\nContent-Length: 0\r\n\r\n",
                              &b),
                     200);
    assert_has(&b, "unauthenticated");
    assert_int_equal(
        ask_text(f, "GET /health HTTP/1.1\r\nHost: x\r\nAuthorization: Basic ***\r\n\r\n", &b),
        204);
}

/* Long names, and names that are no text, come back in errors without harm. */
static void test_long_and_broken_names(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    BUF(text);
    assert_int_equal(
        abx_buf_add_str(&text, "GET /health HTTP/1.1\r\nHost: x\r\nAuthorization: Basic "), 0);
    for (int i = 0; i < 14000; i++)
        assert_int_equal(abx_buf_add_str(&text, "AQEB"), 0); /* bytes 1 1 1 */
    assert_int_equal(abx_buf_add_str(&text, "Og==\r\n\r\n"), 0);
    assert_int_equal(ask(f, (const char *)text.data, text.len, &b), 401);
    b.len = 0;
    assert_int_equal(fixture_call(f, "POST", "/files?path=%ff%fe&username=%ff",
                                  "Content-Type: application/octet-stream\r\n", "x", 1, &b),
                     401);
    b.len = 0;
    assert_int_equal(fixture_call(f, "POST", "/files?path=%ff%fe",
                                  "Content-Type: application/octet-stream\r\n", "x", 1, &b),
                     200);
    assert_has(&b, "xff");
    b.len = 0;
    assert_int_equal(fixture_call(f, "GET", "/files?path=%ff%fe", "", NULL, 0, &b), 200);
    b.len = 0;
    assert_int_equal(fixture_call(f, "GET", "/files?path=%ff%fd", "", NULL, 0, &b), 404);
}

/* One request to an RPC: type, further headers, body. */
static int rpc(envd_fixture *f, const char *path, const char *type, const char *headers,
               const void *body, size_t n, abx_buf *out)
{
    BUF(raw);
    ABX_AUTO_FREE char *all = abx_format("Content-Type: %s\r\n%s", type, headers);
    int status = fixture_call(f, "POST", path, all, body, n, &raw);
    abx_buf_reset(out);
    fixture_body(&raw, out);
    return status;
}

#define LIST  "/process.Process/List"
#define START "/process.Process/Start"
#define JSON  "application/json"
#define CJSON "application/connect+json"

static void test_unary_edges(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    assert_int_equal(rpc(f, LIST, JSON, "", "{}", 2, &b), 200);
    assert_int_equal(rpc(f, LIST, JSON "; charset=utf-8", "", "{}", 2, &b), 200);
    assert_int_equal(rpc(f, LIST, "text/plain", "", "{}", 2, &b), 415);
    assert_int_equal(rpc(f, LIST, CJSON, "", "{}", 2, &b), 415);
    assert_int_equal(rpc(f, LIST, JSON, "", "", 0, &b), 400);
    assert_int_equal(rpc(f, LIST, JSON, "", "{", 1, &b), 400);
    assert_int_equal(rpc(f, LIST, JSON, "", "[]", 2, &b), 400);
    assert_int_equal(rpc(f, LIST, "application/proto", "", "", 0, &b), 200);
    assert_int_equal(rpc(f, LIST, "application/proto", "", "\xff", 1, &b), 400);
    assert_int_equal(rpc(f, LIST, JSON, "Connect-Protocol-Version: 2\r\n", "{}", 2, &b), 400);
    assert_int_equal(rpc(f, LIST, JSON, "Connect-Timeout-Ms: 0\r\n", "{}", 2, &b), 504);
    assert_int_equal(rpc(f, LIST, JSON, "Connect-Timeout-Ms: abc\r\n", "{}", 2, &b), 400);
    assert_int_equal(rpc(f, LIST, JSON, "Connect-Timeout-Ms: 12345678901\r\n", "{}", 2, &b), 400);
    assert_int_equal(rpc(f, LIST, JSON, "Content-Encoding: zstd\r\n", "{}", 2, &b), 501);
    assert_int_equal(rpc(f, LIST, JSON, "Content-Encoding: gzip\r\n", "{}", 2, &b), 400);
}

static void test_broken_streams(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    assert_int_equal(rpc(f, START, JSON, "", "{}", 2, &b), 415);
    assert_int_equal(rpc(f, START, CJSON, "", "", 0, &b), 200);
    assert_has(&b, "unary request has zero messages");
    assert_int_equal(rpc(f, START, CJSON, "", "\0\0\0\0\2{}\0\0\0\0\2{}", 14, &b), 200);
    assert_has(&b, "unary request has multiple messages");
    assert_int_equal(rpc(f, START, CJSON, "", "\0\0\0\0\x37{}", 7, &b), 200);
    assert_has(&b, "promised 55 bytes in enveloped message, got 2 bytes");
    assert_int_equal(rpc(f, START, CJSON, "", "\0\0", 2, &b), 200);
    assert_has(&b, "invalid_argument");
    assert_int_equal(rpc(f, START, CJSON, "", "\1\0\0\0\2{}", 7, &b), 200);
    assert_has(&b, "sent compressed message without compression support");
    assert_int_equal(rpc(f, START, CJSON, "", "\0\0\0\0\1{", 6, &b), 200);
    assert_has(&b, "unmarshal message");
    assert_int_equal(
        rpc(f, START, CJSON, "Connect-Content-Encoding: br\r\n", "\0\0\0\0\2{}", 7, &b), 200);
    assert_has(&b, "unknown compression");
    assert_int_equal(
        rpc(f, "/process.Process/StreamInput", CJSON, "", "\0\xff\xff\xff\xff{}", 7, &b), 200);
    assert_has(&b, "resource_exhausted");
    assert_int_equal(rpc(f, "/process.Process/StreamInput", CJSON, "", "\0\0\0\0\2{}", 7, &b), 200);
    assert_has(&b, "invalid event type");
    assert_int_equal(rpc(f, "/process.Process/StreamInput", CJSON, "", "", 0, &b), 200);
    assert_has(&b, "{}");
}

static size_t pack(const char *text, size_t n, uint8_t *out, size_t room)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)text;
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t len = room - z.avail_out;
    (void)deflateEnd(&z);
    return len;
}

static void test_gzip_of_requests(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    uint8_t packed[512];
    size_t n = pack("{}", 2, packed, sizeof(packed));
    assert_int_equal(rpc(f, LIST, JSON, "Content-Encoding: gzip\r\n", packed, n, &b), 200);
    static const char start[] =
        "{\"process\":{\"cmd\":\"echo\",\"args\":[\"hi\"]},\"stdin\":false}";
    n = pack(start, sizeof(start) - 1, packed + 5, sizeof(packed) - 5);
    packed[0] = 1;
    packed[1] = packed[2] = packed[3] = 0;
    packed[4] = (uint8_t)n;
    assert_int_equal(rpc(f, START, CJSON, "Connect-Content-Encoding: gzip\r\n", packed, n + 5, &b),
                     200);
    assert_has(&b, "aGkK");
    n = pack("zipped", 6, packed, sizeof(packed));
    BUF(raw);
    assert_int_equal(
        fixture_call(f, "POST", "/files?path=g",
                     "Content-Type: application/octet-stream\r\nContent-Encoding: gzip\r\n", packed,
                     n, &raw),
        200);
    raw.len = 0;
    assert_int_equal(fixture_call(f, "GET", "/files?path=g", "", NULL, 0, &raw), 200);
    assert_has(&raw, "zipped");
    raw.len = 0;
    assert_int_equal(
        fixture_call(f, "POST", "/files?path=g",
                     "Content-Type: application/octet-stream\r\nContent-Encoding: gzip\r\n", packed,
                     n - 3, &raw),
        400);
}

/* The same request cut at every byte gives the same answer. */
static void test_request_byte_by_byte(void **state)
{
    envd_fixture *f = *state;
    static const char text[] = "POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nContent-Type: "
                               "application/connect+json\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n"
                               "3e\r\n\0\0\0\0\x39{\"process\":{\"cmd\":\"echo\",\"args\":["
                               "\"abcde\"]},\"stdin\":false}\r\n0\r\n\r\n";
    BUF(whole);
    assert_int_equal(ask(f, text, sizeof(text) - 1, &whole), 200);
    assert_has(&whole, "YWJjZGUK");
    int fd = fixture_connect(f);
    BUF(b);
    for (size_t i = 0; i + 1 < sizeof(text) - 1; i++) {
        assert_int_equal(write(fd, text + i, 1), 1);
        (void)uv_run(&f->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(fixture_ask(f, fd, text + sizeof(text) - 2, 1, &b, 10000), 200);
    assert_has(&b, "YWJjZGUK");
    close(fd);
}

static void test_keepalive_messages(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    static const char json[] =
        "{\"process\":{\"cmd\":\"sleep\",\"args\":[\"1.5\"]},\"stdin\":false}";
    char text[128] = {0};
    text[4] = sizeof(json) - 1;
    memcpy(text + 5, json, sizeof(json));
    assert_int_equal(
        rpc(f, START, CJSON, "Keepalive-Ping-Interval: 1\r\n", text, sizeof(json) - 1 + 5, &b),
        200);
    assert_has(&b, "{\"event\":{\"keepalive\":{}}}");
    assert_int_equal(
        rpc(f, START, CJSON, "Keepalive-Ping-Interval: 0\r\n", text, sizeof(json) - 1 + 5, &b),
        200);
    assert_null(fixture_frame_with(&b, "keepalive"));
}

static void test_time_limit_of_the_sandbox(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    assert_int_equal(rpc(f, "/abx/timeout", JSON, "", "{\"timeoutMs\":60000}", 19, &b), 200);
    assert_has(&b, "expiresAtMs");
    BUF(info);
    assert_int_equal(fixture_call(f, "GET", "/abx/info", "", NULL, 0, &info), 200);
    assert_has(&info, "timeoutLeftMs");
    assert_int_equal(rpc(f, "/abx/timeout", JSON, "", "{\"timeoutMs\":0}", 15, &b), 200);
    assert_null(strstr(abx_buf_cstr(&b), "expiresAtMs"));
    assert_int_equal(rpc(f, "/abx/timeout", JSON, "", "{}", 2, &b), 400);
    assert_int_equal(rpc(f, "/abx/timeout", JSON, "", "[", 1, &b), 400);
    assert_false(f->ended);
    assert_int_equal(rpc(f, "/abx/timeout", JSON, "", "{\"timeoutMs\":20}", 16, &b), 200);
    for (int i = 0; i < 500 && !f->ended; i++)
        fixture_turn(f, -1, NULL, 10);
    assert_true(f->ended);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define S(name) cmocka_unit_test_setup_teardown(name, set_up_token, tear_down)
    const struct CMUnitTest tests[] = {
        S(test_token),
        S(test_signed_urls),
        T(test_signature_vectors),
        T(test_routes),
        T(test_cross_origin),
        T(test_users),
        T(test_long_and_broken_names),
        T(test_unary_edges),
        T(test_broken_streams),
        T(test_gzip_of_requests),
        T(test_request_byte_by_byte),
        T(test_keepalive_messages),
        T(test_time_limit_of_the_sandbox),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
