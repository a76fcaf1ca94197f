/* The HTTP client over TLS: certificates are found at run time and checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/file.h"
#include "net/ca.h"
#include "net/http_client.h"
#include "tls_kit.h"

typedef struct call {
    int status, ends;
    abx_error *err;
    char body[64];
} call;

static char dir[] = "/tmp/abx-tls-XXXXXX";
static char file[64]; /* what SSL_CERT_FILE names */
static EVP_PKEY *key, *ca_key;
static X509 *ca, *middle;
static char *ca_pem;
static X509 *cert;  /* what the server shows */
static X509 *extra; /* and behind it, or NULL */

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/authorities.pem", dir);
    key = EVP_EC_gen("P-256");
    ca_key = EVP_EC_gen("P-256");
    ca = kit_cert(ca_key, &(kit_wish){.name = "Test Authority", .is_ca = true});
    middle = kit_cert(ca_key, &(kit_wish){.name = "Old Middle",
                                          .is_ca = true,
                                          .issuer = ca,
                                          .issuer_key = ca_key,
                                          .from_s = -7200,
                                          .to_s = -3600});
    ca_pem = kit_cert_pem(ca);
    unsetenv("SSL_CERT_DIR");
    setenv("SSL_CERT_FILE", file, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(file);
    rmdir(dir);
    X509_free(ca);
    X509_free(middle);
    free(ca_pem);
    EVP_PKEY_free(key);
    EVP_PKEY_free(ca_key);
    return 0;
}

static void serve(int fd)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret";
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    char buf[4096];

    SSL_CTX_use_certificate(ctx, cert);
    SSL_CTX_use_PrivateKey(ctx, key);
    if (extra)
        SSL_CTX_add1_chain_cert(ctx, extra);
    for (;;) {
        int peer = accept(fd, NULL, NULL);
        SSL *ssl = SSL_new(ctx);
        SSL_set_fd(ssl, peer);
        if (SSL_accept(ssl) == 1 && SSL_read(ssl, buf, sizeof buf) > 0)
            SSL_write(ssl, answer, sizeof answer - 1);
        SSL_shutdown(ssl);
        SSL_free(ssl);
        close(peer);
    }
}

static pid_t start_server(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 5), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *port = ntohs(at.sin_port);
    pid_t pid = fork();
    if (pid == 0) {
        serve(fd);
        _exit(0);
    }
    close(fd);
    return pid;
}

static void on_head(abx_http_transfer *t, int status, const abx_http_headers *headers, void *data)
{
    ((call *)data)->status = status;
}

static void on_body(abx_http_transfer *t, const uint8_t *bytes, size_t n, void *data)
{
    call *c = data;

    strncat(c->body, (const char *)bytes, n);
}

static void on_end(abx_http_transfer *t, const abx_error *err, void *data)
{
    call *c = data;

    c->ends++;
    c->err = err ? abx_error_copy(err) : NULL;
}

static void get(call *c, const char *host)
{
    static const abx_http_handlers handlers = {
        .on_head = on_head, .on_body = on_body, .on_end = on_end};
    ABX_AUTO_ERROR err = NULL;
    uv_loop_t loop;
    abx_http *http;
    int port;

    memset(c, 0, sizeof *c);
    pid_t pid = start_server(&port);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(abx_http_open(&loop, NULL, &http, &err), 0);
    ABX_AUTO_FREE char *url = abx_format("https://%s:%d/", host, port);
    abx_http_request r = {.method = "GET", .url = url, .timeout_ms = 20000};
    assert_int_equal(abx_http_start(http, &r, &handlers, c, NULL, &err), 0);
    while (!c->ends)
        uv_run(&loop, UV_RUN_ONCE);
    abx_http_close(http, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* A server's certificate, signed by the authority unless the wish says otherwise; with `behind` it is shown, too. */
static void show(kit_wish w, X509 *behind)
{
    if (!w.issuer_key) {
        w.issuer = ca;
        w.issuer_key = ca_key;
    }
    if (!w.alt)
        w.alt = "IP:127.0.0.1,DNS:localhost";
    X509_free(cert);
    cert = kit_cert(key, &w);
    extra = behind;
}

static void good(const char *host)
{
    call c;

    get(&c, host);
    if (c.err)
        fail_msg("%s", c.err->message);
    assert_int_equal(c.status, 200);
    assert_string_equal(c.body, "secret");
}

static void bad(const char *host, const char *why, const char *hint)
{
    call c;

    get(&c, host);
    assert_non_null(c.err);
    assert_int_equal(c.err->id, ABX_ERR_NETWORK);
    assert_int_equal(c.err->retryable, ABX_RETRY_NO);
    if (!strstr(c.err->message, why) || !strstr(abx_error_hint(c.err), hint))
        fail_msg("'%s', hint '%s'", c.err->message, abx_error_hint(c.err));
    assert_string_equal(c.body, "");
    abx_error_free(c.err);
}

static void test_trusted(void **state)
{
    (void)state;
    show((kit_wish){0}, NULL);
    kit_write(file, ca_pem);
    good("127.0.0.1");
    good("localhost");
    show((kit_wish){.issuer_key = key, .is_ca = true},
         NULL); /* one that vouches for itself may be named */
    kit_write_cert(cert, file);
    good("127.0.0.1");
}

static void test_reasons(void **state)
{
    (void)state;
    X509 *stranger = kit_cert(key, &(kit_wish){.name = "Stranger", .is_ca = true});
    X509 *bound = kit_cert(
        ca_key, &(kit_wish){.name = "Bound", .is_ca = true, .constraints = "permitted;DNS:a.test"});
    ABX_AUTO_FREE char *bound_pem = kit_cert_pem(bound);

    kit_write(file, ca_pem);
    show((kit_wish){.issuer = stranger, .issuer_key = key}, NULL);
    bad("localhost", "its certificate is by 'Stranger', an authority that is not known here", file);
    show((kit_wish){.issuer = stranger, .issuer_key = key}, stranger);
    bad("localhost", "it is vouched for by 'Stranger', an authority that is not known here", file);
    show((kit_wish){.issuer_key = key}, NULL);
    bad("localhost", "its certificate is signed by itself", "SSL_CERT_FILE");
    show((kit_wish){.from_s = -7200, .to_s = -3600}, NULL);
    bad("localhost", "its certificate expired at 20", "clock");
    show((kit_wish){.from_s = 3600, .to_s = 7200}, NULL);
    bad("localhost", "its certificate is not valid before 20", "clock");
    show((kit_wish){.issuer = middle, .issuer_key = ca_key}, middle);
    bad("localhost", "the certificate of its issuer 'Old Middle' expired at 20", "clock");
    show((kit_wish){.alt = "DNS:a.test,DNS:b.test"}, NULL);
    bad("localhost", "its certificate is for 'a.test', 'b.test'", "URL");
    bad("127.0.0.1", "its certificate is for 'a.test', 'b.test'", "URL");
    show((kit_wish){.alt = "DNS:a.test,DNS:b.test,DNS:c.test,DNS:d.test,DNS:e.test"}, NULL);
    bad("localhost", "'c.test' and 2 more", "URL");
    show((kit_wish){.name = "only this", .alt = "IP:127.0.0.9"}, NULL);
    bad("localhost", "its certificate is for 'only this'", "URL");
    show((kit_wish){.name = "\x1b[31mred", .alt = "IP:127.0.0.9"}, NULL);
    bad("localhost", "\\x1b[31mred", "URL"); /* it does not reach the terminal as it is */
    kit_write(file, bound_pem);
    show((kit_wish){.issuer = bound, .issuer_key = ca_key}, NULL);
    bad("localhost", "permitted subtree violation", "SSL_CERT_FILE");
    X509_free(stranger);
    X509_free(bound);
}

static void test_files(void **state)
{
    (void)state;
    call c;
    ABX_AUTO_ERROR err = NULL;
    static const abx_http_handlers handlers = {.on_end = on_end};
    static const char *const texts[][2] = {
        {NULL, "No such file"},
        {"", "holds no certificate"},
        {"-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n", "holds no certificate"}};

    for (size_t i = 0; i < ABX_COUNT(texts); i++) {
        uv_loop_t loop;
        abx_http *http;
        unlink(file);
        if (texts[i][0])
            kit_write(file, texts[i][0]);
        assert_int_equal(uv_loop_init(&loop), 0);
        assert_int_equal(abx_http_open(&loop, NULL, &http, &err), 0);
        abx_http_request r = {.url = "https://127.0.0.1:1/"};
        assert_int_equal(abx_http_start(http, &r, &handlers, &c, NULL, &err), -1);
        assert_int_equal(err->id, ABX_ERR_NETWORK);
        assert_non_null(strstr(err->message, texts[i][1]));
        assert_non_null(strstr(err->message, file));
        assert_non_null(strstr(err->message, "SSL_CERT_FILE"));
        abx_error_free(ABX_TAKE(err));
        abx_http_close(http, NULL, NULL);
        uv_run(&loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&loop), 0);
    }
}

/* One of many, in a file as people have them: with words around, with other things in it, with the line ends of others. */
static void test_bundle(void **state)
{
    (void)state;
    ABX_AUTO_BUF all = ABX_BUF(1 << 20);
    ABX_AUTO_FREE char *key_text = kit_key_pem(key, NULL);

    assert_int_equal(abx_buf_add_str(&all, "# our authorities\n\n"), 0);
    for (int i = 0; i < 20; i++) {
        ABX_AUTO_FREE char *name = abx_format("Authority %d", i);
        X509 *x = kit_cert(key, &(kit_wish){.name = name, .is_ca = true});
        ABX_AUTO_FREE char *pem = kit_cert_pem(x);
        assert_int_equal(abx_buf_addf(&all, "%s:\n%s%s", name, pem, i == 7 ? key_text : ""), 0);
        if (i == 10)
            for (const char *at = ca_pem; *at; at++)
                assert_int_equal(abx_buf_addf(&all, "%s%c", *at == '\n' ? "\r" : "", *at), 0);
        X509_free(x);
    }
    assert_int_equal(abx_buf_add_str(&all, "-----BEGIN CERTIFICATE-----\nAAAA"), 0); /* cut off */
    kit_write(file, abx_buf_cstr(&all));
    abx_ca_bundle *b = abx_ca_bundle_parse(abx_buf_cstr(&all), all.len);
    assert_int_equal(abx_ca_bundle_count(b), 21);
    abx_ca_bundle_free(b);
    show((kit_wish){0}, NULL);
    good("127.0.0.1");
}

/* Two authorities of one name: the right one is found. And a name that is written in another way. */
static void test_names(void **state)
{
    (void)state;
    X509 *twin = kit_cert(key, &(kit_wish){.name = "Test Authority", .is_ca = true});
    X509 *loud = kit_cert(ca_key, &(kit_wish){.name = "TEST  authority", .is_ca = true});
    ABX_AUTO_FREE char *twin_pem = kit_cert_pem(twin);
    ABX_AUTO_FREE char *loud_pem = kit_cert_pem(loud);
    ABX_AUTO_FREE char *both = abx_format("%s%s", twin_pem, ca_pem);

    show((kit_wish){0}, NULL);
    kit_write(file, both);
    good("127.0.0.1");
    kit_write(file, loud_pem);
    good("127.0.0.1");
    X509_free(twin);
    X509_free(loud);
}

/* A hashed folder beside the file, and alone. */
static void test_folder(void **state)
{
    (void)state;
    ABX_AUTO_FREE char *named = abx_format(
        "%s/%08lx.0", dir, X509_NAME_hash_ex(X509_get_subject_name(ca), NULL, NULL, NULL));
    X509 *other = kit_cert(key, &(kit_wish){.name = "Other", .is_ca = true});

    show((kit_wish){0}, NULL);
    kit_write(named, ca_pem);
    kit_write_cert(other, file);
    setenv("SSL_CERT_DIR", dir, 1);
    good("127.0.0.1");
    unsetenv("SSL_CERT_FILE");
    good("127.0.0.1");
    ABX_AUTO_BUF all = ABX_BUF(1 << 20);
    assert_int_equal(abx_ca_read_all(true, &all, NULL), 0);
    assert_non_null(strstr(abx_buf_cstr(&all), ca_pem));
    unlink(named);
    bad("127.0.0.1", "by 'Test Authority', an authority that is not known here", dir);
    unsetenv("SSL_CERT_DIR");
    setenv("SSL_CERT_FILE", file, 1);
    X509_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trusted), cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_files),   cmocka_unit_test(test_bundle),
        cmocka_unit_test(test_names),   cmocka_unit_test(test_folder),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
