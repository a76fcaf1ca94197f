#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/error.h"
#include "base/id.h"
#include "base/openssl_tables.h"

void abx_sha_init(abx_sha *s)
{
    abx_openssl_ready();
    s->_ctx = EVP_MD_CTX_new();
    ABX_CHECK(s->_ctx && EVP_DigestInit_ex((EVP_MD_CTX *)s->_ctx, EVP_sha256(), NULL) == 1);
}

void abx_sha_add(abx_sha *s, const void *bytes, size_t n)
{
    ABX_CHECK(EVP_DigestUpdate((EVP_MD_CTX *)s->_ctx, bytes, n) == 1);
}

void abx_sha_end(abx_sha *s, char out[65])
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    ABX_CHECK(EVP_DigestFinal_ex((EVP_MD_CTX *)s->_ctx, raw, &len) == 1 && len == 32);
    abx_hex(raw, len, out);
    abx_sha_clear(s);
}

void abx_sha_clear(abx_sha *s)
{
    EVP_MD_CTX_free((EVP_MD_CTX *)s->_ctx);
    s->_ctx = NULL;
}

void abx_sha_of(const void *bytes, size_t n, char out[65])
{
    abx_sha s;
    abx_sha_init(&s);
    abx_sha_add(&s, bytes, n);
    abx_sha_end(&s, out);
}
