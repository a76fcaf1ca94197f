/* SHA-256 of a few bytes as text. Any thread. */
#ifndef ABX_HOST_DIGEST_H
#define ABX_HOST_DIGEST_H

#include <stddef.h>

#define ABX_DIGEST_SIZE 65 /* 64 hexadecimal digits and a 0 */

/* The digest of a followed by b (b may be NULL). Aborts when the library has no SHA-256. */
void abx_digest(const void *a, size_t a_len, const void *b, size_t b_len,
                char out[ABX_DIGEST_SIZE]);

#endif
