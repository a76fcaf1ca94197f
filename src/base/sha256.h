/* A running SHA-256. */
#ifndef ABX_BASE_SHA256_H
#define ABX_BASE_SHA256_H

#include <stddef.h>

typedef struct abx_sha {
    void *_ctx;
} abx_sha;

void abx_sha_init(abx_sha *s);
void abx_sha_add(abx_sha *s, const void *bytes, size_t n);
/* 64 hexadecimal digits and a 0; s is empty afterwards. */
void abx_sha_end(abx_sha *s, char out[65]);
void abx_sha_clear(abx_sha *s); /* without a result; twice is allowed */
/* Of one piece. */
void abx_sha_of(const void *bytes, size_t n, char out[65]);

#endif
