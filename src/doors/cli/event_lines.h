/* Events as JSON Lines: {"type":"stdout","text":"…"} and so on. Bytes are text where they are UTF-8, never split
 * inside a character, else base64. */
#ifndef ABX_CLI_EVENT_LINES_H
#define ABX_CLI_EVENT_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"

/* The unfinished character at the end of a channel; zeroed at first. */
typedef struct abx_utf8_tail {
    uint8_t bytes[4];
    size_t n;
} abx_utf8_tail;

/* Append one line with these bytes (none when all of it is an unfinished character). */
void abx_event_bytes(abx_buf *out, const char *type, const uint8_t *bytes, size_t n,
                     abx_utf8_tail *tail);
/* The same; extra adds members to the line. */
void abx_event_bytes_with(abx_buf *out, const char *type, const uint8_t *bytes, size_t n,
                          abx_utf8_tail *tail,
                          void (*extra)(yyjson_mut_doc *d, yyjson_mut_val *o, void *data),
                          void *data);
/* Append what is left of a channel. */
void abx_event_tail(abx_buf *out, const char *type, abx_utf8_tail *tail);
/* Append {"type":type, …members of event}; event may be NULL. extra (may be NULL) adds members. */
void abx_event_object(abx_buf *out, const char *type, yyjson_val *event,
                      void (*extra)(yyjson_mut_doc *d, yyjson_mut_val *o, void *data), void *data);

#endif
