/* Keys and certificates for the tests of TLS. */
#ifndef TESTS_TLS_KIT_H
#define TESTS_TLS_KIT_H

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

typedef struct kit_wish {
    const char *name;        /* the common name; NULL: "test" */
    const char *alt;         /* subjectAltName, as in OpenSSL's configuration; NULL: none */
    const char *constraints; /* name constraints; NULL: none */
    long from_s, to_s;       /* from now; both 0: an hour back and forth */
    X509 *issuer;            /* NULL: signed by itself */
    EVP_PKEY *issuer_key;
    bool is_ca;
} kit_wish;

static inline void kit_extend(X509 *x, X509 *issuer, const char *name, const char *value)
{
    X509V3_CTX ctx;

    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf(NULL, &ctx, name, value);
    assert_non_null(e);
    X509_add_ext(x, e, -1);
    X509_EXTENSION_free(e);
}

static inline X509 *kit_cert(EVP_PKEY *key, const kit_wish *w)
{
    X509 *x = X509_new();
    X509_NAME *subject = X509_get_subject_name(x);
    const char *name = w->name ? w->name : "test";

    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), random());
    X509_gmtime_adj(X509_getm_notBefore(x), w->from_s || w->to_s ? w->from_s : -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), w->from_s || w->to_s ? w->to_s : 3600);
    X509_set_pubkey(x, key);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1,
                               0);
    X509_set_issuer_name(x, w->issuer ? X509_get_subject_name(w->issuer) : subject);
    kit_extend(x, w->issuer ? w->issuer : x, "basicConstraints",
               w->is_ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
    kit_extend(x, x, "subjectKeyIdentifier", "hash");
    if (w->issuer)
        kit_extend(x, w->issuer, "authorityKeyIdentifier", "keyid:always");
    if (w->alt)
        kit_extend(x, x, "subjectAltName", w->alt);
    if (w->constraints)
        kit_extend(x, x, "nameConstraints", w->constraints);
    assert_true(X509_sign(x, w->issuer ? w->issuer_key : key, EVP_sha256()) > 0);
    return x;
}

static inline char *kit_text(BIO *b)
{
    char *bytes = NULL;
    long n = BIO_get_mem_data(b, &bytes);
    char *text = abx_strndup(bytes, (size_t)n);

    BIO_free(b);
    return text;
}

static inline char *kit_cert_pem(X509 *x)
{
    BIO *b = BIO_new(BIO_s_mem());

    assert_int_equal(PEM_write_bio_X509(b, x), 1);
    return kit_text(b);
}

/* passphrase: NULL for none. */
static inline char *kit_key_pem(EVP_PKEY *key, const char *passphrase)
{
    BIO *b = BIO_new(BIO_s_mem());

    assert_int_equal(
        PEM_write_bio_PKCS8PrivateKey(b, key, passphrase ? EVP_aes_128_cbc() : NULL, passphrase,
                                      passphrase ? (int)strlen(passphrase) : 0, NULL, NULL),
        1);
    return kit_text(b);
}

static inline void kit_write(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
}

static inline void kit_write_cert(X509 *x, const char *path)
{
    ABX_AUTO_FREE char *pem = kit_cert_pem(x);

    kit_write(path, pem);
}

#endif
