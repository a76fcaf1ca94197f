#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void abx_buf_init(abx_buf *b, size_t max_bytes)
{
    *b = (abx_buf)ABX_BUF(max_bytes);
}

void abx_buf_clear(abx_buf *b)
{
    free(b->data);
    b->data = NULL;
    b->len = b->cap = 0;
}

void abx_buf_reset(abx_buf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = 0;
}

uint8_t *abx_buf_room(abx_buf *b, size_t n)
{
    size_t want;
    /* No object is larger than PTRDIFF_MAX; above it the sizes below could wrap. */
    if (!abx_size_add(b->len, n, &want) || want > b->max || want >= PTRDIFF_MAX)
        return NULL;
    if (!b->data || want > b->cap) {
        size_t cap = b->cap ? b->cap : b->max < 256 ? b->max : 256;
        while (cap < want)
            cap = cap > b->max / 2 ? b->max : cap * 2;
        b->data = abx_realloc(b->data, cap + 1);
        b->cap = cap;
        b->data[b->len] = 0;
    }
    return b->data + b->len;
}

void abx_buf_grow(abx_buf *b, size_t n)
{
    ABX_CHECK(n <= b->cap - b->len);
    b->len += n;
    if (b->data)
        b->data[b->len] = 0;
}

int abx_buf_add(abx_buf *b, const void *data, size_t n)
{
    uint8_t *room = abx_buf_room(b, n);
    if (!room)
        return -1;
    if (n)
        memcpy(room, data, n);
    abx_buf_grow(b, n);
    return 0;
}

int abx_buf_add_str(abx_buf *b, const char *s)
{
    return abx_buf_add(b, s, strlen(s));
}
int abx_buf_add_byte(abx_buf *b, uint8_t c)
{
    return abx_buf_add(b, &c, 1);
}

int abx_buf_addf(abx_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    ABX_AUTO_FREE char *text = abx_vformat(fmt, ap);
    va_end(ap);
    return abx_buf_add_str(b, text);
}

void abx_buf_drop(abx_buf *b, size_t n)
{
    ABX_CHECK(n <= b->len);
    if (n == 0)
        return;
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = 0;
}

char *abx_buf_take(abx_buf *b)
{
    char *data = b->data ? (char *)b->data : abx_strdup("");
    b->data = NULL;
    b->len = b->cap = 0;
    return data;
}
