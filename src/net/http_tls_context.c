#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "base/openssl_tables.h"
#include "net/http_server_inner.h"

struct abx_tls {
    BIO_METHOD *socket;
    SSL_CTX **
        contexts; /* one a certificate; the first is for clients that name no host or an unknown one */
    size_t count;
};

abx_tls *abx_tls_new(void)
{
    abx_openssl_ready();
    /* Ours: http_ssl_init.c. Named here, it is linked in front of OpenSSL, which calls it, too. */
    ABX_CHECK(OPENSSL_init_ssl(0, NULL) == 1);
    abx_tls *t = ABX_NEW(abx_tls);
    t->socket = abx__tls_socket();
    return t;
}

void abx_tls_free(abx_tls *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->count; i++)
        SSL_CTX_free(t->contexts[i]);
    free(t->contexts);
    BIO_meth_free(t->socket);
    free(t);
}

BIO_METHOD *abx__tls_method(const abx_tls *t)
{
    return t->socket;
}

SSL_CTX *abx__tls_context(const abx_tls *t)
{
    return t->contexts[0];
}

/* --- what OpenSSL asks during a handshake -------------------------------------------------------- */

static int on_server_name(SSL *ssl, int *alert, void *data)
{
    const abx_tls *t = data;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);

    (void)alert;
    for (size_t i = 0; name && i < t->count; i++) {
        if (X509_check_host(SSL_CTX_get0_certificate(t->contexts[i]), name, 0, 0, NULL) == 1) {
            SSL_set_SSL_CTX(ssl, t->contexts[i]);
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_NOACK;
}

/* HTTP/1.1 is all we speak. A client that offers protocols and not this one is told so by an alert. */
static int on_protocols(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                        const unsigned char *offered, unsigned int n, void *data)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen;

    (void)ssl;
    (void)data;
    if (SSL_select_next_proto(&chosen, out_len, ours, sizeof ours - 1, offered, n) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* --- certificates --------------------------------------------------------------------------------- */

static SSL_CTX *new_context(abx_tls *t)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

    ABX_CHECK(ctx);
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    /* A peer that just hangs up is told from one that says goodbye by HTTP's own framing. */
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                 SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    ABX_CHECK(SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1); /* of TLS 1.2 */
    /* Tickets only: sessions cost the server no memory. */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_tlsext_servername_callback(ctx, on_server_name);
    SSL_CTX_set_tlsext_servername_arg(ctx, t);
    SSL_CTX_set_alpn_select_cb(ctx, on_protocols, NULL);
    return ctx;
}

/* A key with a passphrase must not make OpenSSL ask for it on the terminal. */
static int no_passphrase(char *to, int room, int writing, void *data)
{
    (void)to;
    (void)room;
    (void)writing;
    (void)data;
    return -1;
}

/* The first certificate is the server's, those behind it lead to the authority. */
static int use_chain(SSL_CTX *ctx, const void *pem, size_t n)
{
    BIO *b = BIO_new_mem_buf(pem, (int)n);
    X509 *x;
    int count = 0, rc = 1;

    ABX_CHECK(b);
    while (rc == 1 && (x = PEM_read_bio_X509(b, NULL, no_passphrase, NULL))) {
        rc = count++ ? SSL_CTX_add0_chain_cert(ctx, x) == 1 : SSL_CTX_use_certificate(ctx, x) == 1;
        if (count == 1 || rc != 1)
            X509_free(x);
    }
    BIO_free(b);
    return rc == 1 && count ? 0 : -1;
}

static int use_key(SSL_CTX *ctx, const void *pem, size_t n)
{
    BIO *b = BIO_new_mem_buf(pem, (int)n);
    EVP_PKEY *key;
    int rc;

    ABX_CHECK(b);
    key = PEM_read_bio_PrivateKey(b, NULL, no_passphrase, NULL);
    rc = key && SSL_CTX_use_PrivateKey(ctx, key) == 1 ? 0 : -1;
    EVP_PKEY_free(key);
    BIO_free(b);
    return rc;
}

int abx_tls_add(abx_tls *t, const void *chain, size_t chain_len, const void *key, size_t key_len,
                abx_error **err)
{
    SSL_CTX *ctx = new_context(t);
    const char *what = NULL;

    if (chain_len > INT32_MAX || use_chain(ctx, chain, chain_len) < 0)
        what = "the certificate is not usable";
    else if (key_len > INT32_MAX || use_key(ctx, key, key_len) < 0)
        what = "the private key is not usable, or belongs to another certificate";
    if (what) {
        const char *reason = ERR_reason_error_string(ERR_peek_last_error());
        SSL_CTX_free(ctx);
        ERR_clear_error();
        return abx_fail(err, ABX_ERR_USAGE, "%s: %s", what, reason ? reason : "it is empty");
    }
    ERR_clear_error(); /* the end of the chain is an error to OpenSSL */
    t->contexts = abx_realloc(t->contexts, (t->count + 1) * sizeof(SSL_CTX *));
    t->contexts[t->count++] = ctx;
    return 0;
}

int abx_tls_replace(abx_tls *t, const void *chain, size_t chain_len, const void *key,
                    size_t key_len, abx_error **err)
{
    size_t old = t->count;
    if (abx_tls_add(t, chain, chain_len, key, key_len, err) < 0)
        return -1;
    for (size_t i = 0; i < old; i++)
        SSL_CTX_free(t->contexts[i]); /* a connection has a reference of its own */
    t->contexts[0] = t->contexts[old];
    t->count = 1;
    return 0;
}
