#include "host/digest.h"

#include <openssl/evp.h>

#include "base/error.h"
#include "base/id.h"
#include "base/openssl_tables.h"

void abx_digest(const void *a, size_t a_len, const void *b, size_t b_len, char out[ABX_DIGEST_SIZE])
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    abx_openssl_ready();
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    ABX_CHECK(ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1);
    ABX_CHECK(EVP_DigestUpdate(ctx, a, a_len) == 1 && (!b || EVP_DigestUpdate(ctx, b, b_len) == 1));
    ABX_CHECK(EVP_DigestFinal_ex(ctx, raw, &len) == 1 && len == 32);
    EVP_MD_CTX_free(ctx);
    abx_hex(raw, len, out);
}
