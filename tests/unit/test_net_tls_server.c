/* The HTTP server over TLS, spoken to by OpenSSL's client. */
#include "net_app.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>

#include "tls_kit.h"

static EVP_PKEY *key, *other_key;
static char *cert_pem, *key_pem, *wild_pem, *other_key_pem;

typedef struct client {
    app *a;
    int fd;
    SSL_CTX *ctx;
    SSL *ssl;
    char *got;
    size_t len, cap;
    bool eof, broken;
} client;

static int set_up(void **state)
{
    (void)state;
    key = EVP_EC_gen("P-256");
    other_key = EVP_EC_gen("P-256");
    X509 *first = kit_cert(key, &(kit_wish){.name = "first", .alt = "DNS:first.test"});
    X509 *wild =
        kit_cert(other_key, &(kit_wish){.name = "wild", .alt = "DNS:wild.test,DNS:*.wild.test"});
    cert_pem = kit_cert_pem(first);
    wild_pem = kit_cert_pem(wild);
    key_pem = kit_key_pem(key, NULL);
    other_key_pem = kit_key_pem(other_key, NULL);
    X509_free(first);
    X509_free(wild);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(cert_pem);
    free(wild_pem);
    free(key_pem);
    free(other_key_pem);
    EVP_PKEY_free(key);
    EVP_PKEY_free(other_key);
    return 0;
}

/* --- the server ----------------------------------------------------------------------------------- */

typedef struct site {
    app a;
    abx_tls *tls;
    int port;
} site;

static void site_open(site *s, const abx_http_server_options *options)
{
    ABX_AUTO_ERROR err = NULL;

    app_open(&s->a, options);
    s->tls = abx_tls_new();
    assert_int_equal(
        abx_tls_add(s->tls, cert_pem, strlen(cert_pem), key_pem, strlen(key_pem), &err), 0);
    assert_int_equal(
        abx_tls_add(s->tls, wild_pem, strlen(wild_pem), other_key_pem, strlen(other_key_pem), &err),
        0);
    assert_int_equal(
        abx_http_server_listen_tls(s->a.server, "127.0.0.1", 0, s->tls, &s->port, &err), 0);
}

static void site_close(site *s)
{
    app_close(&s->a);
    abx_tls_free(s->tls);
}

/* --- the client ----------------------------------------------------------------------------------- */

static client dial(site *s)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->port)};
    client c = {.a = &s->a, .got = abx_alloc(1)};

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c.got[0] = 0;
    c.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(c.fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(fcntl(c.fd, F_SETFL, O_NONBLOCK), 0);
    c.ctx = SSL_CTX_new(TLS_client_method());
    c.ssl = SSL_new(c.ctx);
    SSL_set_fd(c.ssl, c.fd);
    SSL_set_connect_state(c.ssl);
    return c;
}

static void hang_up(client *c)
{
    SSL_free(c->ssl);
    SSL_CTX_free(c->ctx);
    if (c->fd >= 0)
        close(c->fd);
    free(c->got);
}

static void turn(client *c, int i)
{
    app_turn(c->a);
    if (i > 100)
        usleep(1000);
}

static bool would_wait(client *c, int rc)
{
    int e = SSL_get_error(c->ssl, rc);
    return e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE;
}

/* True: the handshake succeeded. */
static bool shake(client *c)
{
    for (int i = 0; i < 3000; i++) {
        ERR_clear_error();
        int rc = SSL_do_handshake(c->ssl);
        if (rc == 1)
            return true;
        if (!would_wait(c, rc))
            return false;
        turn(c, i);
    }
    fail_msg("the handshake does not end");
    return false;
}

static client meet(site *s)
{
    client c = dial(s);
    assert_true(shake(&c));
    return c;
}

static void take(client *c)
{
    char buf[20000];

    while (!c->eof && !c->broken) {
        ERR_clear_error();
        int n = SSL_read(c->ssl, buf, sizeof buf);
        if (n <= 0) {
            c->eof = SSL_get_error(c->ssl, n) == SSL_ERROR_ZERO_RETURN;
            c->broken = !c->eof && !would_wait(c, n);
            return;
        }
        if (c->len + (size_t)n + 1 > c->cap)
            c->got = abx_realloc(c->got, c->cap = 2 * (c->len + (size_t)n + 1));
        memcpy(c->got + c->len, buf, (size_t)n);
        c->len += (size_t)n;
        c->got[c->len] = 0;
    }
}

static void tell(client *c, const void *bytes, size_t n)
{
    for (int i = 0;; i++) {
        ERR_clear_error();
        int rc = SSL_write(c->ssl, bytes, (int)n);
        if (rc > 0)
            return;
        assert_true(would_wait(c, rc) && i < 20000);
        turn(c, i);
    }
}

static void ask(client *c, const char *text)
{
    tell(c, text, strlen(text));
}

static void expect(client *c, const char *text)
{
    for (int i = 0; i < 3000; i++) {
        turn(c, i);
        take(c);
        if (strstr(c->got, text))
            return;
    }
    fail_msg("no '%s' in '%s'", text, c->got);
}

static void expect_end(client *c)
{
    for (int i = 0; i < 5000 && !c->eof && !c->broken; i++) {
        turn(c, i);
        take(c);
    }
    assert_true(c->eof || c->broken);
}

static void forget(client *c)
{
    c->len = 0;
    c->got[0] = 0;
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

/* --- handshakes ----------------------------------------------------------------------------------- */

static void test_versions(void **state)
{
    (void)state;
    site s;
    site_open(&s, NULL);
    static const int versions[] = {TLS1_3_VERSION, TLS1_2_VERSION};

    for (int i = 0; i < 2; i++) {
        client c = dial(&s);
        SSL_set_min_proto_version(c.ssl, versions[i]);
        SSL_set_max_proto_version(c.ssl, versions[i]);
        assert_true(shake(&c));
        assert_int_equal(SSL_version(c.ssl), versions[i]);
        ask(&c, GET("/hello"));
        expect(&c, "hello");
        forget(&c);
        ask(&c, GET("/hello") GET("/hello"));
        expect(&c, "hello");
        hang_up(&c);
    }
    client old = dial(&s);
    SSL_set_security_level(old.ssl, 0);
    SSL_set_max_proto_version(old.ssl, TLS1_1_VERSION);
    assert_false(shake(&old));
    hang_up(&old);
    site_close(&s);
}

static bool offer(site *s, const char *protocols, char chosen[16])
{
    const unsigned char *name;
    unsigned int n;
    client c = dial(s);

    SSL_set_alpn_protos(c.ssl, (const unsigned char *)protocols, (unsigned)strlen(protocols));
    bool met = shake(&c);
    SSL_get0_alpn_selected(c.ssl, &name, &n);
    snprintf(chosen, 16, "%.*s", (int)n, n ? (const char *)name : "");
    hang_up(&c);
    return met;
}

static void test_protocols(void **state)
{
    (void)state;
    site s;
    char chosen[16];

    site_open(&s, NULL);
    assert_true(offer(&s, "\x02h2\x08http/1.1", chosen));
    assert_string_equal(chosen, "http/1.1");
    assert_false(offer(&s, "\x02h2", chosen));
    site_close(&s);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"first.test", "first"},    {"wild.test", "wild"},      {"8080-abc.wild.test", "wild"},
        {"a.b.wild.test", "first"}, {"stranger.test", "first"}, {NULL, "first"}};
    site s;

    site_open(&s, NULL);
    for (size_t i = 0; i < ABX_COUNT(cases); i++) {
        char name[64];
        client c = dial(&s);
        if (cases[i][0])
            SSL_set_tlsext_host_name(c.ssl, cases[i][0]);
        assert_true(shake(&c));
        X509 *x = SSL_get0_peer_certificate(c.ssl);
        X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, name, sizeof name);
        assert_string_equal(name, cases[i][1]);
        ask(&c, GET("/hello"));
        expect(&c, "hello");
        hang_up(&c);
    }
    site_close(&s);
}

static void test_tickets(void **state)
{
    (void)state;
    site s;

    site_open(&s, NULL);
    client c = meet(&s);
    ask(&c, GET("/hello"));
    expect(&c, "hello");
    SSL_SESSION *kept = SSL_get1_session(c.ssl);
    SSL_shutdown(c.ssl); /* OpenSSL forgets the session of a connection that ended without */
    hang_up(&c);
    client again = dial(&s);
    SSL_set_session(again.ssl, kept);
    assert_true(shake(&again));
    assert_int_equal(SSL_session_reused(again.ssl), 1);
    ask(&again, GET("/hello"));
    expect(&again, "hello");
    hang_up(&again);
    SSL_SESSION_free(kept);
    site_close(&s);
}

/* Keys may change in the middle (TLS 1.3), but nothing is negotiated anew (TLS 1.2). */
static void test_in_the_middle(void **state)
{
    (void)state;
    site s;

    site_open(&s, NULL);
    client c = meet(&s);
    for (int i = 0; i < 3; i++) {
        SSL_key_update(c.ssl, SSL_KEY_UPDATE_REQUESTED);
        ask(&c, GET("/hello"));
        expect(&c, "hello");
        forget(&c);
    }
    hang_up(&c);
    client old = dial(&s);
    SSL_set_max_proto_version(old.ssl, TLS1_2_VERSION);
    assert_true(shake(&old));
    SSL_renegotiate(old.ssl);
    assert_false(shake(&old));
    hang_up(&old);
    site_close(&s);
}

/* Who does not finish a handshake is cut off in time, whatever it sent. */
static void test_slow_handshakes(void **state)
{
    (void)state;
    abx_http_server_options options = {.head_timeout_ms = 100};
    site s;

    site_open(&s, &options);
    client silent = dial(&s), started = dial(&s), quick = meet(&s);
    assert_int_equal(send(started.fd, "\x16\x03\x01\x01\x00\x01", 6, 0), 6);
    char byte;
    for (int i = 0; i < 3000 && abx_http_server_connections(s.a.server) != 1; i++)
        turn(&quick, i);
    assert_int_equal(recv(silent.fd, &byte, 1, 0), 0);
    assert_int_equal(recv(started.fd, &byte, 1, 0), 0);
    ask(&quick,
        GET("/hello")); /* its handshake is over: only the head of a request has that limit */
    expect(&quick, "hello");
    hang_up(&silent);
    hang_up(&started);
    hang_up(&quick);
    site_close(&s);
}

static size_t raw(site *s, const char *send_this, char *answer, size_t room)
{
    client c = dial(s);
    size_t got = 0;

    assert_true(send(c.fd, send_this, strlen(send_this), MSG_NOSIGNAL) > 0);
    for (int i = 0; i < 3000; i++) {
        turn(&c, i);
        ssize_t n = recv(c.fd, answer + got, room - 1 - got, 0);
        if (n > 0)
            got += (size_t)n;
        else if (n == 0 || errno != EAGAIN)
            break;
    }
    answer[got] = 0;
    hang_up(&c);
    return got;
}

static void test_not_tls(void **state)
{
    (void)state;
    abx_http_server_options options = {.head_timeout_ms =
                                           300}; /* of a record that never gets whole */
    site s;
    char answer[1000];

    site_open(&s, &options);
    assert_true(raw(&s, GET("/hello"), answer, sizeof answer) > 0);
    assert_non_null(strstr(answer, "HTTP/1.1 400 Bad Request\r\n"));
    assert_non_null(strstr(answer, "this port speaks https"));
    assert_true(raw(&s, "POST", answer, sizeof answer) > 0); /* also in pieces */
    assert_non_null(strstr(answer, "this port speaks https"));
    raw(&s, "\x80\x2e\x01\x03\x01 rubbish of all kinds", answer, sizeof answer);
    assert_null(strstr(answer, "HTTP"));
    raw(&s, "\x16\x03\x01 rubbish that begins as TLS does, and goes on for a while", answer,
        sizeof answer);
    assert_null(strstr(answer, "HTTP"));
    for (int i = 0; i < 3000 && abx_http_server_connections(s.a.server); i++) {
        app_turn(&s.a);
        usleep(1000);
    }
    assert_int_equal(abx_http_server_connections(s.a.server), 0);
    assert_string_equal(s.a.log, ""); /* no request was seen */
    site_close(&s);
}

/* --- bytes ---------------------------------------------------------------------------------------- */

/* All that the client sends comes byte by byte. */
static void test_byte_by_byte(void **state)
{
    (void)state;
    site s;

    site_open(&s, NULL);
    client c = dial(&s);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(in, -1);
    SSL_set_bio(c.ssl, in, out);
    bool asked = false;
    for (int i = 0; i < 20000 && !strstr(c.got, "hello"); i++) {
        char buf[4096];
        ERR_clear_error();
        if (SSL_is_init_finished(c.ssl) && !asked)
            asked = SSL_write(c.ssl, GET("/hello"), sizeof GET("/hello") - 1) > 0;
        else if (!asked)
            (void)SSL_do_handshake(c.ssl);
        if (BIO_read(out, buf, 1) == 1)
            assert_int_equal(send(c.fd, buf, 1, MSG_NOSIGNAL), 1);
        turn(&c, BIO_pending(out) > 0 ? 0 : i); /* an answer may take a while */
        ssize_t n = recv(c.fd, buf, sizeof buf, 0);
        if (n > 0)
            BIO_write(in, buf, (int)n);
        if (asked)
            take(&c);
    }
    assert_non_null(strstr(c.got, "hello"));
    hang_up(&c);
    site_close(&s);
}

static void test_many_pipelined(void **state)
{
    (void)state;
    site s;
    char all[12000] = "";
    size_t count = 0;

    site_open(&s, NULL);
    client c = meet(&s);
    while (strlen(all) + sizeof GET("/hello") < sizeof all) {
        strcat(all, GET("/hello"));
        count++;
    }
    for (int i = 0; i < 4; i++)
        ask(&c, all); /* several records, each of many requests */
    ask(&c, "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    expect_end(&c);
    assert_true(c.eof); /* with a goodbye */
    size_t answers = 0;
    for (char *at = c.got; (at = strstr(at, "\r\n\r\nhello")); at++)
        answers++;
    assert_int_equal(answers, 4 * count + 1);
    hang_up(&c);
    site_close(&s);
}

static size_t body_at(const client *c)
{
    const char *end = strstr(c->got, "\r\n\r\n");
    return end ? (size_t)(end - c->got) + 4 : 0;
}

/* The bytes of a chunked body, checked against what the app writes. */
static size_t check_chunks(client *c)
{
    size_t at = body_at(c), seen = 0;

    for (;;) {
        char *end;
        size_t n = strtoul(c->got + at, &end, 16);
        at = (size_t)(end - c->got) + 2;
        if (n == 0)
            return seen;
        for (size_t i = 0; i < n; i++)
            if ((uint8_t)c->got[at + i] != app_byte(seen + i))
                fail_msg("byte %zu is wrong", seen + i);
        seen += n;
        at += n + 2;
    }
}

static void test_stream_backpressure(void **state)
{
    (void)state;
    site s;

    site_open(&s, NULL);
    client c = meet(&s);
    ask(&c, GET("/stream?n=8000000"));
    uint64_t before = 1;
    for (int i = 0; i < 300 && s.a.streamed != before; i++) { /* nobody reads */
        before = s.a.streamed;
        for (int k = 0; k < 20; k++)
            turn(&c, 0);
        usleep(2000);
    }
    assert_true(s.a.streamed > 0 && s.a.streamed < 8000000);
    assert_true(s.a.most_pending < 512 * 1024);
    for (int i = 0; i < 20000 && !(c.len > 5 && memcmp(c.got + c.len - 5, "0\r\n\r\n", 5) == 0);
         i++) {
        turn(&c, 0);
        take(&c);
    }
    assert_int_equal(check_chunks(&c), 8000000);
    assert_int_equal(s.a.complete, 1);
    hang_up(&c);
    site_close(&s);
}

static void test_upload_backpressure(void **state)
{
    (void)state;
    enum { SIZE = 8000000 };
    site s;
    uint8_t chunk[10000];
    size_t sent = 0;
    int full = 0;

    site_open(&s, NULL);
    client c = meet(&s);
    SSL_set_mode(c.ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    ask(&c, "POST /hold-body HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n");
    for (int i = 0; sent < SIZE; i++) {
        assert_true(i < 200000);
        size_t n = SIZE - sent < sizeof chunk ? SIZE - sent : sizeof chunk;
        for (size_t k = 0; k < n; k++)
            chunk[k] = app_byte(sent + k);
        ERR_clear_error();
        int rc = SSL_write(c.ssl, chunk, (int)n);
        if (rc > 0) {
            sent += (size_t)rc;
            continue;
        }
        turn(&c, 0);
        if (!s.a.held || full++ < 100)
            continue;
        assert_int_equal(s.a.uploaded, 0);
        abx_exchange_resume(s.a.held);
        s.a.held = NULL;
    }
    assert_true(full >= 100); /* the pause reached the sender */
    expect(&c, "8000000");
    assert_int_equal(s.a.uploaded, SIZE);
    hang_up(&c);
    site_close(&s);
}

/* A client that says goodbye after its request still gets the answer. */
static void test_half_close(void **state)
{
    (void)state;
    site s;

    site_open(&s, NULL);
    client c = meet(&s);
    ask(&c, GET("/hold"));
    SSL_shutdown(c.ssl);
    for (int i = 0; i < 3000 && !s.a.peer_eofs; i++)
        turn(&c, i);
    assert_int_equal(s.a.peer_eofs, 1);
    assert_non_null(s.a.held);
    abx_exchange_reply(s.a.held, 200, NULL, "late", 4);
    expect(&c, "late");
    expect_end(&c);
    assert_true(c.eof);
    assert_int_equal(s.a.complete, 1);
    hang_up(&c);
    site_close(&s);
}

/* The end of the socket without a goodbye: between requests it is an end, inside of one it is no request. */
static void test_hang_ups(void **state)
{
    (void)state;
    site s;

    site_open(&s, NULL);
    client idle = meet(&s), in_body = meet(&s), away = meet(&s);
    ask(&in_body, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n");
    tell(&in_body, (const uint8_t[]){app_byte(0), app_byte(1)}, 2);
    ask(&away, GET("/stream?n=100000000"));
    for (int i = 0; i < 50; i++)
        turn(&idle, 0);
    hang_up(&idle);
    hang_up(&in_body);
    hang_up(&away);
    for (int i = 0; i < 3000 && abx_http_server_connections(s.a.server); i++) {
        app_turn(&s.a);
        usleep(1000);
    }
    assert_int_equal(abx_http_server_connections(s.a.server), 0);
    assert_int_equal(s.a.closed, 2);
    assert_int_equal(s.a.complete, 0);
    site_close(&s);
}

static void test_abort(void **state)
{
    (void)state;
    site s;

    site_open(&s, NULL);
    client c = meet(&s);
    ask(&c, GET("/abort"));
    expect_end(&c);
    assert_true(c.broken && !c.eof);
    hang_up(&c);
    site_close(&s);
}

static void test_websocket(void **state)
{
    (void)state;
    static const char frame[] = "\x81\x85\x01\x02\x03\x04"
                                "igohn"; /* "hello", masked */
    site s;

    site_open(&s, NULL);
    client c = meet(&s);
    ask(&c, "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n");
    expect(&c, "101 Switching");
    forget(&c);
    tell(&c, frame, sizeof frame - 1);
    expect(&c, "\x81\x05hello");
    hang_up(&c);
    site_close(&s);
}

static void test_close_in_the_middle(void **state)
{
    (void)state;
    site s;

    site_open(&s, NULL);
    client silent = dial(&s), streaming = meet(&s), idle = meet(&s);
    ask(&streaming, GET("/stream?n=100000000"));
    for (int i = 0; i < 50; i++)
        turn(&streaming, 0);
    site_close(&s);
    hang_up(&silent);
    hang_up(&streaming);
    hang_up(&idle);
}

/* --- certificates --------------------------------------------------------------------------------- */

static void refused(const char *chain, const char *of_key, const char *why)
{
    ABX_AUTO_ERROR err = NULL;
    abx_tls *t = abx_tls_new();

    assert_int_equal(abx_tls_add(t, chain, strlen(chain), of_key, strlen(of_key), &err), -1);
    assert_int_equal(err->id, ABX_ERR_USAGE);
    assert_non_null(strstr(err->message, why));
    abx_tls_free(t);
}

static void test_unusable(void **state)
{
    (void)state;
    ABX_AUTO_FREE char *locked = kit_key_pem(key, "open sesame");
    ABX_AUTO_FREE char *broken = abx_strdup(key_pem);

    memset(strchr(broken, '\n') + 10, 'A', 40);
    refused("", key_pem, "certificate");
    refused("no certificate at all", key_pem, "certificate");
    refused(key_pem, key_pem, "certificate");
    refused(cert_pem, "", "private key");
    refused(cert_pem, cert_pem, "private key");
    refused(cert_pem, locked, "private key"); /* nor does it ask for the passphrase */
    refused(cert_pem, broken, "private key");
    refused(cert_pem, other_key_pem, "another certificate");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_protocols),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_tickets),
        cmocka_unit_test(test_in_the_middle),
        cmocka_unit_test(test_slow_handshakes),
        cmocka_unit_test(test_not_tls),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_many_pipelined),
        cmocka_unit_test(test_stream_backpressure),
        cmocka_unit_test(test_upload_backpressure),
        cmocka_unit_test(test_half_close),
        cmocka_unit_test(test_hang_ups),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_websocket),
        cmocka_unit_test(test_close_in_the_middle),
        cmocka_unit_test(test_unusable),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
