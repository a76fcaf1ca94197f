/* By the functions below OpenSSL's providers: to look a digest up by its name costs 0.6 ms in a process that has not
 * used OpenSSL yet, more than most plugins take to be hashed. They read no table that waits to be relocated
 * (base/openssl_tables.h). OpenSSL 3 calls them deprecated and keeps them. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/sha256.h"

#include <openssl/sha.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/id.h"
#include "base/mem.h"

void abx_sha_init(abx_sha *s)
{
    s->_ctx = ABX_NEW(SHA256_CTX);
    ABX_CHECK(SHA256_Init((SHA256_CTX *)s->_ctx) == 1);
}

void abx_sha_add(abx_sha *s, const void *bytes, size_t n)
{
    ABX_CHECK(SHA256_Update((SHA256_CTX *)s->_ctx, bytes, n) == 1);
}

void abx_sha_end(abx_sha *s, char out[65])
{
    unsigned char raw[SHA256_DIGEST_LENGTH];
    ABX_CHECK(SHA256_Final(raw, (SHA256_CTX *)s->_ctx) == 1);
    abx_hex(raw, sizeof(raw), out);
    abx_sha_clear(s);
}

void abx_sha_clear(abx_sha *s)
{
    free(s->_ctx);
    s->_ctx = NULL;
}

void abx_sha_of(const void *bytes, size_t n, char out[65])
{
    abx_sha s;
    abx_sha_init(&s);
    abx_sha_add(&s, bytes, n);
    abx_sha_end(&s, out);
}
