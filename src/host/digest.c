#include "host/digest.h"

#include "base/sha256.h"

void abx_digest(const void *a, size_t a_len, const void *b, size_t b_len, char out[ABX_DIGEST_SIZE])
{
    abx_sha sha;
    abx_sha_init(&sha);
    abx_sha_add(&sha, a, a_len);
    if (b)
        abx_sha_add(&sha, b, b_len);
    abx_sha_end(&sha, out);
}
