/* Split a stream into lines (NDJSON, JSON-RPC lines). No I/O. */
#ifndef ABX_WIRE_LINES_H
#define ABX_WIRE_LINES_H

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

/* One line without its \n (and without a \r before it); valid during the call, NOT 0-terminated. Return 0
 * to go on, 1 to stop: feed returns then. */
typedef int (*abx_on_line)(const char *line, size_t n, void *user);

typedef struct abx_lines {
    abx_on_line on_line;
    void *user;
    abx_buf part; /* of a line that did not lie in one piece of input */
    int failed;   /* sticks */
} abx_lines;

void abx_lines_init(abx_lines *l, size_t max_line, abx_on_line on_line, void *user);
void abx_lines_clear(abx_lines *l);
/* Take the next n bytes. used (or NULL) becomes the count of bytes that were taken.
 * Returns 0; 1 when on_line stopped; -1 and *err (TOO_LARGE) for a line over the limit, and for every call
 * after that. */
int abx_lines_feed(abx_lines *l, const void *bytes, size_t n, size_t *used, abx_error **err);
/* The stream has ended: what is left without \n is the last line, if it is not empty. As feed. */
int abx_lines_end(abx_lines *l, abx_error **err);

#endif
