/* A list of header lines in the order they came; names compare without case. */
#ifndef ABX_NET_HTTP_HEADERS_H
#define ABX_NET_HTTP_HEADERS_H

#include <stddef.h>

typedef struct abx_http_header {
    char *name;
    char *value; /* without blanks around it */
} abx_http_header;

typedef struct abx_http_headers {
    abx_http_header *items;
    size_t count;
    size_t cap;
} abx_http_headers;

void abx_http_headers_add(abx_http_headers *h, const char *name, size_t name_len, const char *value,
                          size_t value_len);
/* The first value with this name, or NULL. */
const char *abx_http_headers_get(const abx_http_headers *h, const char *name);
/* True if a comma list header holds this token (without case): has(h, "Connection", "upgrade"). */
int abx_http_headers_has(const abx_http_headers *h, const char *name, const char *token);
void abx_http_headers_clear(abx_http_headers *h);

#endif
