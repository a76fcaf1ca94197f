/* A growing byte buffer that is born with its greatest size: growth beyond it is an error, not memory.
 * Invariants: data is NULL only while cap is 0; len <= cap; data[len] is 0 whenever data is not NULL, so
 * text can be used as a C string. */
#ifndef ABX_BASE_BUF_H
#define ABX_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct abx_buf {
    uint8_t *data;
    size_t len;
    size_t cap;
    size_t max; /* greatest len */
} abx_buf;

#define ABX_BUF(max_bytes)                                                                         \
    {                                                                                              \
        NULL, 0, 0, (max_bytes)                                                                    \
    }

void abx_buf_init(abx_buf *b, size_t max_bytes);
void abx_buf_clear(abx_buf *b); /* releases the memory; ready for use again */
void abx_buf_reset(abx_buf *b); /* len = 0, memory kept */

/* Each returns 0, or -1 when the result would be longer than max (nothing is added then). */
int abx_buf_add(abx_buf *b, const void *data, size_t n) ABX_MUST_CHECK;
int abx_buf_add_str(abx_buf *b, const char *s) ABX_MUST_CHECK;
int abx_buf_add_byte(abx_buf *b, uint8_t c) ABX_MUST_CHECK;
int abx_buf_addf(abx_buf *b, const char *fmt, ...) ABX_PRINTF(2, 3) ABX_MUST_CHECK;
/* Room for n more bytes at the end: a pointer to write to (then abx_buf_grow by what was written), or
 * NULL when that passes max. */
uint8_t *abx_buf_room(abx_buf *b, size_t n);
void abx_buf_grow(abx_buf *b, size_t n);

void abx_buf_drop(abx_buf *b, size_t n); /* forget the first n bytes */
/* The contents as an owned, 0-terminated block (never NULL); the buffer is empty afterwards. */
char *abx_buf_take(abx_buf *b);
static inline const char *abx_buf_cstr(const abx_buf *b)
{
    return b->data ? (const char *)b->data : "";
}

static inline void abx_buf_auto_(abx_buf *b)
{
    abx_buf_clear(b);
}
#define ABX_AUTO_BUF __attribute__((cleanup(abx_buf_auto_))) abx_buf

#endif
