/* Every kind of frame that breaks RFC 6455, to our server and to our client, cut at every position: each ends with its
 * close code, and with no other. */
#include "net_peer.h"

#include <openssl/evp.h>

#include "base/text.h"
#include "net/ws_client.h"
#include "wire/base64.h"
#include "wire/ws_guard.h"

#define MAX_MESSAGE 1000

typedef struct frame {
    uint8_t first; /* FIN, reserved bits, opcode */
    const char *payload;
    size_t n;
    int form;        /* bytes of the length behind the second byte; 0: its shortest form */
    uint64_t length; /* that the head names; 0: n */
    bool odd_mask;   /* a mask where none belongs, or none where one does */
} frame;

typedef struct row {
    const char *name;
    int code; /* of the close frame that answers */
    frame frames[3];
} row;

#define P(text) text, sizeof(text) - 1
#define A125                                                                                       \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"                              \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const row rows[] = {
    {"a ping in pieces", 1002, {{0x09, P("ab")}}},
    {"a close in pieces", 1002, {{0x08, P("\x03\xe8")}}},
    {"a ping of 126 bytes", 1002, {{0x89, P("a"), .form = 2, .length = 126}}},
    {"a ping of 2^32 bytes", 1002, {{0x89, P("a"), .form = 8, .length = 1ULL << 32}}},
    {"a pong over 125 bytes in a message", 1002, {{0x01, P("a")}, {0x8a, P("a"), .length = 200}}},
    {"reserved bit 1", 1002, {{0xc1, P("a")}}},
    {"reserved bit 2", 1002, {{0xa1, P("a")}}},
    {"reserved bit 3", 1002, {{0x92, P("a")}}},
    {"a reserved bit of a ping", 1002, {{0xc9, P("a")}}},
    {"a reserved bit of a second piece", 1002, {{0x01, P("a")}, {0xc0, P("b")}}},
    {"opcode 3", 1002, {{0x83, P("")}}},
    {"opcode 7", 1002, {{0x87, P("a")}}},
    {"opcode 11", 1002, {{0x8b, P("")}}},
    {"opcode 15", 1002, {{0x8f, P("a")}}},
    {"125 in two bytes", 1002, {{0x82, P("a"), .form = 2, .length = 125}}},
    {"1 in two bytes", 1002, {{0x82, P("a"), .form = 2}}},
    {"1 in eight bytes", 1002, {{0x82, P("a"), .form = 8}}},
    {"65535 in eight bytes", 1002, {{0x82, P("a"), .form = 8, .length = 65535}}},
    {"a length with its top bit", 1002, {{0x82, P("a"), .form = 8, .length = 1ULL << 63}}},
    {"a length of ones", 1002, {{0x82, P("a"), .form = 8, .length = UINT64_MAX}}},
    {"a wrong mask", 1002, {{0x81, P("Hi"), .odd_mask = true}}},
    {"a wrong mask of a ping", 1002, {{0x01, P("H")}, {0x89, P("Hi"), .odd_mask = true}}},
    {"goes on with nothing", 1002, {{0x80, P("a")}}},
    {"goes on after the end", 1002, {{0x82, P("a")}, {0x80, P("a")}}},
    {"a message in a message", 1002, {{0x01, P("a")}, {0x81, P("b")}}},
    {"no UTF-8", 1007, {{0x81, P("a\xc3(")}}},
    {"half a character at the end", 1007, {{0x81, P("a\xe2\x82")}}},
    {"no UTF-8 over two pieces", 1007, {{0x01, P("\xe2\x82")}, {0x80, P("(")}}},
    {"half a character at the end of two pieces", 1007, {{0x01, P("a")}, {0x80, P("\xe2\x82")}}},
    {"a surrogate", 1007, {{0x81, P("\xed\xa0\x80")}}},
    {"an overlong form", 1007, {{0x81, P("\xc0\xaf")}}},
    {"a ping between two halves of what is none",
     1007,
     {{0x01, P("\xf0\x9f")}, {0x89, P("p")}, {0x80, P("\x92(")}}},
    {"a reason that is no UTF-8",
     1007,
     {{0x88, P("\x03\xe8"
               "ok\xff")}}},
    {"half a character at the end of a reason",
     1007,
     {{0x88, P("\x03\xe8"
               "ok\xe2\x82")}}},
    {"2^62 bytes", 1009, {{0x82, P(""), .form = 8, .length = 1ULL << 62}}},
    {"2^63 - 1 bytes", 1009, {{0x81, P(""), .form = 8, .length = INT64_MAX}}},
    {"one byte too many", 1009, {{0x82, P(""), .form = 2, .length = MAX_MESSAGE + 1}}},
    {"too much in two pieces", 1009, {{0x02, P(A125)}, {0x80, P(""), .form = 2, .length = 876}}},
    {"2^63 - 1 bytes behind a piece",
     1009,
     {{0x02, P("a")}, {0x00, P(""), .form = 8, .length = INT64_MAX}}},
    {"a close of one byte", 1002, {{0x88, P("\x03")}}},
    {"code 0", 1002, {{0x88, P("\0\0")}}},
    {"code 999", 1002, {{0x88, P("\x03\xe7")}}},
    {"code 1004", 1002, {{0x88, P("\x03\xec")}}},
    {"code 1005", 1002, {{0x88, P("\x03\xed")}}},
    {"code 1006",
     1002,
     {{0x88, P("\x03\xee"
               "bye")}}},
    {"code 1015", 1002, {{0x88, P("\x03\xf7")}}},
    {"code 1016", 1002, {{0x88, P("\x03\xf8")}}},
    {"code 2999", 1002, {{0x88, P("\x0b\xb7")}}},
    {"code 5000", 1002, {{0x88, P("\x13\x88")}}},
    {"code 65535", 1002, {{0x88, P("\xff\xff")}}},
    /* What is right is taken however it is cut. */
    {"a reason of more bytes than characters",
     1000,
     {{0x88, P("\x03\xe8\xe2\x82\xac\xf0\x9f\x92\xa9")}}},
    {"a close without a code", 1005, {{0x88, P("")}}},
    {"code 4999", 4999, {{0x88, P("\x13\x87")}}},
    {"characters over two pieces",
     1001,
     {{0x01, P("\xf0\x9f")}, {0x80, P("\x92\xa9")}, {0x88, P("\x03\xe9")}}},
    {"an empty message", 1001, {{0x81, P("")}, {0x88, P("\x03\xe9")}}},
    {"a ping of 125 bytes", 1003, {{0x89, P(A125)}, {0x88, P("\x03\xeb")}}},
};
#define ROWS (sizeof rows / sizeof rows[0])

/* The frames of a row as bytes; masked: as a client sends them. */
static size_t encode(const row *r, bool from_client, uint8_t *out)
{
    static const uint8_t key[4] = {0x37, 0xfa, 0x21, 0x3d};
    size_t n = 0;

    for (size_t i = 0; i < 3 && r->frames[i].payload; i++) {
        const frame *f = &r->frames[i];
        bool masked = from_client != f->odd_mask;
        uint64_t length = f->length ? f->length : f->n;
        int form = f->form ? f->form : length > 125 ? 2 : 0;
        out[n++] = f->first;
        out[n++] = (uint8_t)((masked ? 0x80 : 0) | (form == 8 ? 127 : form == 2 ? 126 : length));
        for (int b = form - 1; b >= 0; b--)
            out[n++] = (uint8_t)(length >> 8 * b);
        if (masked)
            memcpy(out + n, key, 4);
        n += masked ? 4 : 0;
        for (size_t k = 0; k < f->n; k++)
            out[n++] = (uint8_t)f->payload[k] ^ (masked ? key[k % 4] : 0);
    }
    return n;
}

/* --- the server --------------------------------------------------------------------------------- */

#define UPGRADE                                                                                    \
    "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"                 \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

/* The code of the close frame at the end of these frames of a server, all shorter than 126 bytes; -1: there is none, or
 * something comes behind it. */
static int last_close(const uint8_t *p, size_t n)
{
    while (n >= 2 && n >= 2U + p[1]) {
        size_t all = 2U + p[1];
        if (p[0] == 0x88)
            return n != all ? -1 : p[1] ? p[2] << 8 | p[3] : 1005;
        p += all;
        n -= all;
    }
    return -1;
}

static void send_bytes(int fd, const uint8_t *bytes, size_t n)
{
    if (n) /* a peer that has said close may be gone */
        assert_true(send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n || errno == EPIPE ||
                    errno == ECONNRESET);
}

static int to_server(const uint8_t *bytes, size_t n, size_t cut)
{
    app a;

    app_open(&a, NULL);
    a.ws_max = MAX_MESSAGE;
    peer p = connect_pair(&a);
    say(&p, UPGRADE);
    expect(&p, "\r\n\r\n");
    forget(&p);
    send_bytes(p.fd, bytes, cut);
    turns(&p, 2);
    send_bytes(p.fd, bytes + cut, n - cut);
    for (int i = 0; i < 3000 && last_close((uint8_t *)p.got, p.len) < 0; i++) {
        turns(&p, 1);
        if (i > 100)
            usleep(1000);
    }
    expect_end(&p); /* nothing is heard or said behind it */
    int code = last_close((uint8_t *)p.got, p.len);
    peer_close(&p);
    while (!a.gone)
        app_turn(&a);
    app_close(&a);
    return code;
}

static void test_server(void **state)
{
    (void)state;
    uint8_t bytes[2048];

    for (size_t i = 0; i < ROWS; i++) {
        size_t n = encode(&rows[i], true, bytes);
        for (size_t cut = 0; cut < n; cut++) {
            int code = to_server(bytes, n, cut);
            if (code != rows[i].code)
                fail_msg("%s, cut at %zu of %zu: close %d", rows[i].name, cut, n, code);
        }
    }
}

/* --- the client --------------------------------------------------------------------------------- */

typedef struct talk {
    app a;
    abx_http *http;
    int far, closes, code, http_closed; /* far: the server's end of the connection */
    bool opened, failed;
} talk;

static int dial(void *data, abx_error **err)
{
    int pair[2];

    (void)err;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    ((talk *)data)->far = pair[0];
    return pair[1];
}

static void on_open(abx_ws *ws, void *data)
{
    (void)ws;
    ((talk *)data)->opened = true;
}

static void on_message(abx_ws *ws, bool text, const uint8_t *bytes, size_t n, void *data)
{
    (void)ws;
    (void)text;
    (void)bytes;
    (void)data;
    assert_true(n <= MAX_MESSAGE);
}

static void on_close(abx_ws *ws, int code, const abx_error *err, void *data)
{
    talk *t = data;

    (void)ws;
    t->closes++;
    t->code = code;
    t->failed = err;
}

static void http_closed(void *data)
{
    ((talk *)data)->http_closed++;
}

/* Answer the request of the client by hand. */
static void accept_by_hand(talk *t)
{
    char head[4096] = "";
    size_t len = 0;
    unsigned char digest[EVP_MAX_MD_SIZE];

    while (!strstr(head, "\r\n\r\n")) {
        app_turn(&t->a);
        ssize_t n = t->far < 0 ? 0 : read(t->far, head + len, sizeof head - 1 - len);
        len += n > 0 ? (size_t)n : 0;
        head[len] = 0;
    }
    char *key = strstr(head, "Sec-WebSocket-Key: ");
    assert_non_null(key);
    key += 19;
    ABX_AUTO_FREE char *text =
        abx_format("%.*s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", (int)strcspn(key, "\r"), key);
    assert_int_equal(EVP_Digest(text, strlen(text), digest, NULL, EVP_sha1(), NULL), 1);
    ABX_AUTO_FREE char *accept = abx_base64_text(digest, 20, ABX_BASE64_STANDARD, true);
    ABX_AUTO_FREE char *answer = abx_format(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: %s\r\n\r\n",
        accept);
    send_bytes(t->far, (uint8_t *)answer, strlen(answer));
    while (!t->opened)
        app_turn(&t->a);
}

/* The same of the frames of a client, whose mask is taken off in place. */
static int last_masked_close(uint8_t *p, size_t n)
{
    while (n >= 6 && n >= 6U + (p[1] & 0x7f)) {
        size_t len = p[1] & 0x7f;
        if (p[0] == 0x88)
            return n != 6 + len ? -1 : len ? (p[6] ^ p[2]) << 8 | (p[7] ^ p[3]) : 1005;
        p += 6 + len;
        n -= 6 + len;
    }
    return -1;
}

static int to_client(const uint8_t *bytes, size_t n, size_t cut, bool *failed)
{
    static const abx_ws_client_handlers handlers = {on_open, on_message, NULL, on_close};
    ABX_AUTO_ERROR err = NULL;
    talk t = {.far = -1};
    abx_http_options options = {.dial = dial, .dial_data = &t};
    abx_ws *ws;
    uint8_t got[4096];
    size_t len = 0;

    app_open(&t.a, NULL);
    assert_int_equal(abx_http_open(&t.a.loop, &options, &t.http, &err), 0);
    assert_int_equal(
        abx_ws_open(t.http, "http://x.invalid/ws", NULL, 0, MAX_MESSAGE, &handlers, &t, &ws, &err),
        0);
    accept_by_hand(&t);
    send_bytes(t.far, bytes, cut);
    app_turn(&t.a);
    app_turn(&t.a);
    send_bytes(t.far, bytes + cut, n - cut);
    for (int i = 0; i < 3000 && last_masked_close(got, len) < 0; i++) {
        app_turn(&t.a);
        ssize_t r = read(t.far, got + len, sizeof got - len);
        len += r > 0 ? (size_t)r : 0;
        if (i > 100)
            usleep(1000);
    }
    close(t.far);
    while (!t.closes)
        uv_run(&t.a.loop, UV_RUN_ONCE);
    abx_http_close(t.http, http_closed, &t);
    app_close(&t.a);
    assert_int_equal(t.closes + t.http_closed, 2);
    *failed = t.failed;
    return last_masked_close(got, len);
}

static void test_client(void **state)
{
    (void)state;
    uint8_t bytes[2048];

    for (size_t i = 0; i < ROWS; i++) {
        size_t n = encode(&rows[i], false, bytes);
        bool right = rows[i].code < 1002 || rows[i].code == 1003 || rows[i].code == 1005 ||
                     rows[i].code > 4000;
        for (size_t cut = 0; cut<n; cut += n> 40 ? 9 : 1) {
            bool failed;
            int code = to_client(bytes, n, cut, &failed);
            if (code != rows[i].code || failed == right)
                fail_msg("%s, cut at %zu of %zu: close %d", rows[i].name, cut, n, code);
        }
    }
}

/* --- the guard alone ---------------------------------------------------------------------------- */

/* Length of the longest beginning that still passes; all of it comes out as it went in. */
static size_t passes(const uint8_t *bytes, size_t n, size_t step, int *fault)
{
    abx_ws_guard g;
    uint8_t out[ABX_WS_GUARD_PIECE];
    size_t given = 0;

    abx_ws_guard_init(&g, true, MAX_MESSAGE);
    for (size_t at = 0; at < n; at += step) {
        const uint8_t *in = bytes + at;
        size_t left = n - at < step ? n - at : step, got;
        while ((got = abx_ws_guard_next(&g, &in, &left, out, sizeof out))) {
            assert_memory_equal(out, bytes + given, got);
            given += got;
        }
        assert_true(g.fault || left == 0);
    }
    *fault = g.fault;
    return given;
}

static void test_guard(void **state)
{
    (void)state;
    uint8_t bytes[2048];

    for (size_t i = 0; i < ROWS; i++) {
        size_t n = encode(&rows[i], true, bytes);
        int whole, pieces;
        size_t given = passes(bytes, n, n, &whole);
        for (size_t step = 1; step < n; step++) {
            assert_int_equal(passes(bytes, n, step, &pieces), given);
            assert_int_equal(pieces, whole);
        }
        if (whole == 0)
            assert_int_equal(given, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guard),
        cmocka_unit_test(test_server),
        cmocka_unit_test(test_client),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
