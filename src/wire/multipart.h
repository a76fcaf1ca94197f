/* multipart/form-data, parsed as it streams in: part bodies are handed on in pieces and never collected.
 * No I/O. */
#ifndef ABX_WIRE_MULTIPART_H
#define ABX_WIRE_MULTIPART_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define ABX_MULTIPART_BOUNDARY_MAX 70 /* RFC 2046 */
#define ABX_MULTIPART_HEAD_MAX     (16 * 1024)

/* The head of a part; text is valid during the call. */
typedef struct abx_multipart_part {
    const char *name;     /* "" without one */
    const char *filename; /* NULL without one; raw UTF-8, only \" and \\ undone; filename* wins */
    const char *content_type; /* NULL without one */
} abx_multipart_part;

/* Each returns 0 to go on; anything else stops: feed returns 1 then, and must not be called again. */
typedef struct abx_multipart_handlers {
    int (*on_part)(const abx_multipart_part *part, void *user);
    int (*on_data)(const uint8_t *bytes, size_t n, void *user); /* bytes valid during the call */
    int (*on_part_end)(void *user);
} abx_multipart_handlers;

typedef struct abx_multipart {
    abx_multipart_handlers on;
    void *user;
    char delimiter[ABX_MULTIPART_BOUNDARY_MAX + 5]; /* CR LF - - boundary */
    size_t delimiter_len;
    size_t matched; /* of the delimiter, at the end of what was taken */
    size_t unreal;  /* of that, what the input never had: the line break of the blank line before */
    int state;
    int in_part;
    abx_buf head;
} abx_multipart;

/* The boundary of a Content-Type header. 0 and out (0-terminated); -1 when it is no multipart type or has
 * no usable boundary. */
int abx_multipart_boundary(const char *content_type, char out[ABX_MULTIPART_BOUNDARY_MAX + 1]);

void abx_multipart_init(abx_multipart *m, const char *boundary,
                        const abx_multipart_handlers *handlers, void *user);
void abx_multipart_clear(abx_multipart *m);
/* Take the next bytes, cut anywhere. 0; 1 when a handler stopped; -1 and *err (USAGE, TOO_LARGE) when this
 * is no multipart text, and for every call after that. What follows the last part is ignored. */
int abx_multipart_feed(abx_multipart *m, const void *bytes, size_t n, abx_error **err);
/* The input has ended: 0, or -1 and *err when the closing boundary is missing. */
int abx_multipart_end(abx_multipart *m, abx_error **err);

#endif
