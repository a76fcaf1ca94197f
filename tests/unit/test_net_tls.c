/* The HTTP client over TLS: certificates are found at run time and checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/http_client.h"

typedef struct call {
    int status, ends;
    abx_error *err;
    char body[64];
} call;

static char dir[] = "/tmp/abx-tls-XXXXXX";
static char ca_file[64], other_file[64];
static EVP_PKEY *key;
static X509 *cert;

static X509 *make_cert(EVP_PKEY *of, const char *name)
{
    X509 *x = X509_new();
    X509V3_CTX ctx;

    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, of);
    X509_NAME *subject = X509_get_subject_name(x);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(x, subject);
    X509V3_set_ctx(&ctx, x, x, NULL, NULL, 0);
    static const char *const extensions[][2] = {{"basicConstraints", "critical,CA:TRUE"},
                                                {"subjectAltName", "IP:127.0.0.1"}};
    for (int i = 0; i < 2; i++) {
        X509_EXTENSION *e = X509V3_EXT_conf(NULL, &ctx, extensions[i][0], extensions[i][1]);
        assert_non_null(e);
        X509_add_ext(x, e, -1);
        X509_EXTENSION_free(e);
    }
    assert_true(X509_sign(x, of, EVP_sha256()) > 0);
    return x;
}

static void write_cert(X509 *x, const char *path)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    PEM_write_X509(f, x);
    fclose(f);
}

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(ca_file, sizeof ca_file, "%s/ca.pem", dir);
    snprintf(other_file, sizeof other_file, "%s/other.pem", dir);
    key = EVP_EC_gen("P-256");
    cert = make_cert(key, "test");
    write_cert(cert, ca_file);
    X509 *other = make_cert(key, "another");
    write_cert(other, other_file);
    X509_free(other);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(ca_file);
    unlink(other_file);
    rmdir(dir);
    X509_free(cert);
    EVP_PKEY_free(key);
    return 0;
}

static void serve(int fd)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret";
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    char buf[4096];

    SSL_CTX_use_certificate(ctx, cert);
    SSL_CTX_use_PrivateKey(ctx, key);
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

static void test_trusted(void **state)
{
    (void)state;
    call c;

    setenv("SSL_CERT_FILE", ca_file, 1);
    get(&c, "127.0.0.1");
    if (c.err)
        fail_msg("%s", c.err->message);
    assert_int_equal(c.status, 200);
    assert_string_equal(c.body, "secret");
}

static void test_stranger(void **state)
{
    (void)state;
    call c;

    setenv("SSL_CERT_FILE", other_file, 1);
    get(&c, "127.0.0.1");
    assert_non_null(c.err);
    assert_int_equal(c.err->id, ABX_ERR_NETWORK);
    assert_non_null(strstr(c.err->message, "certificate"));
    assert_string_equal(c.body, "");
    abx_error_free(c.err);
}

static void test_wrong_name(void **state)
{
    (void)state;
    call c;

    setenv("SSL_CERT_FILE", ca_file, 1);
    get(&c, "localhost");
    assert_non_null(c.err);
    assert_int_equal(c.err->id, ABX_ERR_NETWORK);
    abx_error_free(c.err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trusted),
        cmocka_unit_test(test_stranger),
        cmocka_unit_test(test_wrong_name),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
