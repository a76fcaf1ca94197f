/* Server-sent events as text: writing one, and splitting a stream of them. No I/O. */
#ifndef ABX_WIRE_SSE_H
#define ABX_WIRE_SSE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/* Append one event. event and id may be NULL (a line break in them ends them); data may have any number
 * of lines, separated by \n, \r\n or \r. Growth beyond the buffer's limit drops the event: give it room. */
void abx_sse_format(abx_buf *out, const char *event, const char *id, const char *data, size_t n);
/* Append a comment of one line. */
void abx_sse_format_comment(abx_buf *out, const char *text);

/* One event as the parser gives it; valid during the call. */
typedef struct abx_sse_event {
    const char *event; /* "message" when the stream names none */
    const char *id;    /* the last id of the stream so far, "" when there was none */
    const char *data;  /* lines joined by \n, 0-terminated */
    size_t data_len;
    int64_t retry_ms; /* -1: not given */
} abx_sse_event;

typedef struct abx_sse_parser {
    void (*on_event)(const abx_sse_event *event, void *user);
    void (*on_comment)(const char *text, void *user); /* or NULL */
    void *user;
    abx_buf line, name, id, data;
    int64_t retry_ms;
    int failed; /* sticks */
    int has_data, after_cr, at_start;
} abx_sse_parser;

/* max_event: the longest line, and the longest data of one event, in bytes. */
void abx_sse_parser_init(abx_sse_parser *p, size_t max_event,
                         void (*on_event)(const abx_sse_event *event, void *user), void *user);
void abx_sse_parser_clear(abx_sse_parser *p);
/* Take the next bytes of the stream, cut anywhere. 0; -1 and *err (TOO_LARGE) once an event is over its
 * limit, and from then on. An event that the stream's end cuts off is never reported. */
int abx_sse_parser_feed(abx_sse_parser *p, const void *bytes, size_t n, abx_error **err);

#endif
