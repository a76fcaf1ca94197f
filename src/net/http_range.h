/* Parts of a body (RFC 9110, 14) and the dates of HTTP. No I/O. */
#ifndef ABX_NET_HTTP_RANGE_H
#define ABX_NET_HTTP_RANGE_H

#include <stddef.h>
#include <stdint.h>

typedef enum abx_range {
    ABX_RANGE_WHOLE,   /* several parts, or of nothing: the whole is the answer */
    ABX_RANGE_PART,    /* one part */
    ABX_RANGE_OUTSIDE, /* it lies behind the end */
    ABX_RANGE_BROKEN   /* no range that anybody knows */
} abx_range;

/* What a Range header asks of a body of size bytes. PART: *from and *len are set, and lie in it. */
abx_range abx_http_range(const char *header, int64_t size, int64_t *from, int64_t *len);

/* Seconds since 1970 of "Sun, 06 Nov 1994 08:49:37 GMT"; -1: NULL, or no such date. */
int64_t abx_http_date_read(const char *s);
/* "Last-Modified: …" of these seconds; "" where that is no date. */
void abx_http_date_line(int64_t seconds, char *out, size_t size);

#endif
