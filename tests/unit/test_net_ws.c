/* WebSockets: our client with our server, and the server with a peer that speaks by hand. */
#include "net_app.h"

#include "net/ws_client.h"

typedef struct world {
    app a;
    abx_http *http;
    int port;
    int http_closed;
} world;

typedef struct talk {
    world *w;
    abx_ws *ws;
    int opens, closes, code, messages;
    abx_error *err;
    uint64_t bytes;
    char last[64];
    bool last_text, pause, paused;
    uint64_t to_send, sent;
} talk;

static int dial(void *data, abx_error **err)
{
    world *w = data;
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    assert_int_equal(abx_http_server_adopt(w->a.server, pair[0], NULL, NULL, err), 0);
    return pair[1];
}

static void http_closed(void *data)
{
    ((world *)data)->http_closed++;
}

static void world_open(world *w, bool dialled)
{
    abx_http_options options = {.dial = dialled ? dial : NULL, .dial_data = w};
    ABX_AUTO_ERROR err = NULL;

    memset(w, 0, sizeof *w);
    app_open(&w->a, NULL);
    if (!dialled)
        assert_int_equal(abx_http_server_listen_tcp(w->a.server, "127.0.0.1", 0, &w->port, &err),
                         0);
    assert_int_equal(abx_http_open(&w->a.loop, &options, &w->http, &err), 0);
}

static void world_close(world *w)
{
    abx_http_close(w->http, http_closed, w);
    app_close(&w->a);
    assert_int_equal(w->http_closed, 1);
}

static void on_open(abx_ws *ws, void *data)
{
    (void)ws;
    ((talk *)data)->opens++;
}

static void on_message(abx_ws *ws, bool text, const uint8_t *bytes, size_t n, void *data)
{
    talk *t = data;

    for (size_t i = 0; t->to_send && i < n; i++)
        assert_int_equal(bytes[i], app_byte(t->bytes + i));
    t->messages++;
    t->bytes += n;
    t->last_text = text;
    snprintf(t->last, sizeof t->last, "%.*s", (int)(n < 63 ? n : 63), (const char *)bytes);
    if (t->pause && !t->paused) {
        t->paused = true;
        abx_ws_client_pause(ws);
    }
}

static void send_more(abx_ws *ws, void *data)
{
    talk *t = data;
    uint8_t chunk[10000];

    while (t->sent < t->to_send) {
        for (size_t i = 0; i < sizeof chunk; i++)
            chunk[i] = app_byte(t->sent + i);
        t->sent += sizeof chunk;
        if (!abx_ws_client_send(ws, false, chunk, sizeof chunk))
            return;
    }
}

static void on_close(abx_ws *ws, int code, const abx_error *err, void *data)
{
    talk *t = data;

    assert_ptr_equal(ws, t->ws);
    t->closes++;
    t->code = code;
    t->err = err ? abx_error_copy(err) : NULL;
    t->ws = NULL;
}

static const abx_ws_client_handlers handlers = {on_open, on_message, send_more, on_close};

static void talk_open(talk *t, world *w, const char *path, size_t max)
{
    ABX_AUTO_ERROR err = NULL;
    char url[128];

    memset(t, 0, sizeof *t);
    t->w = w;
    if (w->port)
        snprintf(url, sizeof url, "ws://127.0.0.1:%d%s", w->port, path);
    else
        snprintf(url, sizeof url, "http://sandbox.invalid%s", path);
    if (abx_ws_open(w->http, url, NULL, 0, max, &handlers, t, &t->ws, &err) < 0)
        fail_msg("%s", err->message);
    assert_int_equal(t->opens + t->closes, 0);
}

#define TURN_UNTIL(t, condition)                                                                   \
    do {                                                                                           \
        while (!(condition))                                                                       \
            uv_run(&(t)->w->a.loop, UV_RUN_ONCE);                                                  \
    } while (0)

static void echo(bool dialled)
{
    world w;
    talk t;

    world_open(&w, dialled);
    talk_open(&t, &w, "/ws", 1 << 20);
    TURN_UNTIL(&t, t.opens || t.closes);
    if (t.err)
        fail_msg("%s", t.err->message);
    assert_int_equal(t.opens, 1);
    abx_ws_client_send(t.ws, true, "h\xc3\xa9llo", 6);
    TURN_UNTIL(&t, t.messages == 1);
    assert_true(t.last_text);
    assert_string_equal(t.last, "h\xc3\xa9llo");
    abx_ws_client_send(t.ws, false, "\xff\x01", 2);
    abx_ws_client_send(t.ws, false, "", 0);
    TURN_UNTIL(&t, t.messages == 3);
    assert_false(t.last_text);
    assert_int_equal(t.bytes, 8);
    abx_ws_client_close(t.ws, 1000, "done");
    TURN_UNTIL(&t, t.closes);
    assert_null(t.err);
    assert_int_equal(t.code, 1000);
    TURN_UNTIL(&t, w.a.closed == 1);
    assert_int_equal(w.a.ws_code, 1000);
    talk_open(&t, &w, "/ws", 1 << 20); /* the server closes */
    TURN_UNTIL(&t, t.opens);
    abx_ws_client_send(t.ws, true, "bye", 3);
    TURN_UNTIL(&t, t.closes);
    assert_null(t.err);
    assert_int_equal(t.code, 4001);
    world_close(&w);
}

static void test_echo(void **state)
{
    (void)state;
    echo(false);
    echo(true);
}

static void test_big_echo(void **state)
{
    (void)state;
    world w;
    talk t;

    world_open(&w, false);
    talk_open(&t, &w, "/ws", 1 << 20);
    TURN_UNTIL(&t, t.opens);
    t.pause = true;
    t.to_send = 20000000;
    send_more(t.ws, &t);
    assert_true(t.sent < 1000000);
    for (int i = 0; i < 1000; i++)
        uv_run(&w.a.loop, UV_RUN_NOWAIT);
    assert_true(t.paused && t.sent < 15000000); /* a reader that sleeps stops everybody */
    abx_ws_client_resume(t.ws);
    TURN_UNTIL(&t, t.bytes == t.to_send || t.closes);
    assert_int_equal(t.bytes, t.to_send);
    abx_ws_client_close(t.ws, 1000, NULL);
    TURN_UNTIL(&t, t.closes);
    assert_null(t.err);
    world_close(&w);
}

static void test_limits(void **state)
{
    (void)state;
    world w;
    talk t;
    char big[2000] = {0};

    world_open(&w, true);
    w.a.ws_max = 1000;
    talk_open(&t, &w, "/ws", 1 << 20); /* the server's limit */
    TURN_UNTIL(&t, t.opens);
    abx_ws_client_send(t.ws, false, big, 1000);
    abx_ws_client_send(t.ws, false, big, 1001);
    TURN_UNTIL(&t, t.closes);
    assert_int_equal(t.messages, 1);
    assert_int_equal(t.code, 1009);
    w.a.ws_max = 0;
    talk_open(&t, &w, "/ws", 1000); /* the client's */
    TURN_UNTIL(&t, t.opens);
    abx_ws_client_send(t.ws, false, big, 1001);
    TURN_UNTIL(&t, t.closes);
    assert_int_equal(t.err->id, ABX_ERR_TOO_LARGE);
    abx_error_free(t.err);
    TURN_UNTIL(&t, w.a.closed == 2);
    world_close(&w);
}

static void test_refused(void **state)
{
    (void)state;
    world w;
    talk t;

    world_open(&w, true);
    static const char *const paths[] = {"/hello", "/nothing", "/abort"};
    static const abx_err_id ids[] = {ABX_ERR_BACKEND, ABX_ERR_BACKEND, ABX_ERR_BACKEND};
    for (int i = 0; i < 3; i++) {
        talk_open(&t, &w, paths[i], 1000);
        TURN_UNTIL(&t, t.closes);
        assert_int_equal(t.opens, 0);
        assert_int_equal(t.code, 1006);
        assert_int_equal(t.err->id, ids[i]);
        abx_error_free(t.err);
    }
    ABX_AUTO_ERROR err = NULL;
    assert_int_equal(abx_ws_open(w.http, "ftp://x", NULL, 0, 1, &handlers, &t, &t.ws, &err), -1);
    world_close(&w);
}

static void test_ends_in_the_middle(void **state)
{
    (void)state;
    for (int who = 0; who < 3; who++) {
        world w;
        talk t;
        world_open(&w, true);
        talk_open(&t, &w, "/ws", 1000);
        if (who > 0)
            TURN_UNTIL(&t, t.opens);
        if (who == 1)
            abx_ws_client_send(t.ws, true, "x", 1);
        if (who == 2) { /* the server goes first */
            abx_http_server_close(ABX_TAKE(w.a.server), NULL, NULL);
            TURN_UNTIL(&t, t.closes);
            assert_int_equal(t.err->id, ABX_ERR_NETWORK);
        }
        world_close(&w);
        assert_int_equal(t.closes, 1);
        assert_non_null(t.err);
        abx_error_free(t.err);
    }
}

/* --- by hand ------------------------------------------------------------------------------------ */

#define UPGRADE                                                                                    \
    "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n"     \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

/* Send these bytes behind an upgrade and return what comes back behind the head of the 101. */
static size_t by_hand(const char *frames, size_t n, char *got, size_t room, app *a)
{
    int pair[2];
    ABX_AUTO_ERROR err = NULL;
    size_t len = 0;

    app_open(a, NULL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(abx_http_server_adopt(a->server, pair[0], app_gone, a, &err), 0);
    assert_int_equal(write(pair[1], UPGRADE, sizeof UPGRADE - 1), sizeof UPGRADE - 1);
    /* in one go with the upgrade: these bytes belong to the next protocol already */
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(write(pair[1], frames + i, 1), 1);
        if (i % 2)
            app_turn(a);
    }
    for (int i = 0; i < 20; i++) {
        app_turn(a);
        ssize_t r = read(pair[1], got + len, room - len);
        if (r > 0)
            len += (size_t)r;
    }
    got[len] = 0;
    close(pair[1]);
    while (!a->gone)
        app_turn(a);
    app_close(a);
    char *end = strstr(got, "\r\n\r\n");
    assert_non_null(end);
    assert_non_null(strstr(got, "101 Switching Protocols"));
    assert_non_null(strstr(got, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    len -= (size_t)(end + 4 - got);
    memmove(got, end + 4, len);
    return len;
}

static void expect(const char *frames, size_t n, const char *answer, size_t answer_len, int code)
{
    char got[4096];
    app a;
    size_t len = by_hand(frames, n, got, sizeof got - 1, &a);

    assert_int_equal(len, answer_len);
    assert_memory_equal(got, answer, len);
    assert_int_equal(a.ws_code, code);
}

#define EXPECT(frames, answer, code)                                                               \
    expect(frames, sizeof(frames) - 1, answer, sizeof(answer) - 1, code)

static void test_frames(void **state)
{
    (void)state;
    /* "Hi" in one piece, masked with zeroes, and in two with a ping between them */
    EXPECT("\x81\x82\0\0\0\0Hi", "\x81\x02Hi", 1006);
    EXPECT("\x01\x81\0\0\0\0H\x89\x82\0\0\0\0pp\x80\x81\1\1\1\1h", "\x8a\x02pp\x81\x02Hi", 1006);
    EXPECT("\x88\x82\0\0\0\0\x03\xe9", "\x88\x02\x03\xe9", 1001);
    EXPECT("\x88\x80\0\0\0\0", "\x88\0", 1005);
}

static void test_broken_frames(void **state)
{
    (void)state;
    EXPECT("\x81\x02Hi", "\x88\x02\x03\xea", 1006);               /* not masked */
    EXPECT("\x81\x82\0\0\0\0\xc3\x28", "\x88\x02\x03\xef", 1006); /* not UTF-8 */
    EXPECT("\x83\x80\0\0\0\0", "\x88\x02\x03\xea", 1006);         /* unknown opcode */
    EXPECT("\xc1\x80\0\0\0\0", "\x88\x02\x03\xea", 1006);         /* a reserved bit */
    EXPECT("\x80\x80\0\0\0\0", "\x88\x02\x03\xea", 1006);         /* goes on with nothing */
    EXPECT("\x82\xff\0\0\0\1\0\0\0\0\0\0\0\0\0\0", "\x88\x02\x03\xf1", 1006); /* 4 GiB */
}

static void test_not_an_upgrade(void **state)
{
    (void)state;
    app a;
    int pair[2];
    char got[1024];
    ABX_AUTO_ERROR err = NULL;
    static const char request[] =
        "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade"
        "\r\nSec-WebSocket-Version: 8\r\nSec-WebSocket-Key: abc\r\n\r\n";

    app_open(&a, NULL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(abx_http_server_adopt(a.server, pair[0], NULL, NULL, &err), 0);
    assert_true(write(pair[1], request, sizeof request - 1) > 0);
    for (int i = 0; i < 5; i++)
        app_turn(&a);
    ssize_t n = read(pair[1], got, sizeof got - 1);
    got[n > 0 ? n : 0] = 0;
    assert_non_null(strstr(got, "400 Bad Request"));
    close(pair[1]);
    app_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo),
        cmocka_unit_test(test_big_echo),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_ends_in_the_middle),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_broken_frames),
        cmocka_unit_test(test_not_an_upgrade),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
