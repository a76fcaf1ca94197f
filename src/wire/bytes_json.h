/* Bytes of a stream as members of JSON objects: {"text": "…"} where a chunk is UTF-8, {"base64": "…"}
 * where it is not. A chunk is never split inside a character: an incomplete tail is held back for the next
 * one. No I/O. */
#ifndef ABX_WIRE_BYTES_JSON_H
#define ABX_WIRE_BYTES_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "base/buf.h"
#include "base/error.h"

typedef struct abx_utf8_tail {
    uint8_t bytes[3];
    size_t len;
} abx_utf8_tail;

/* Put n bytes into obj, as "text" or "base64" (copied). */
void abx_bytes_json_put(yyjson_mut_doc *d, yyjson_mut_val *obj, const void *bytes, size_t n);

/* The bytes of a member pair: 1 and *out (filled anew) when obj has "text" or "base64", 0 when it has
 * neither, -1 and *err (id) when base64 is broken or both are there. out's limit holds: TOO_LARGE. */
int abx_bytes_json_get(yyjson_val *obj, abx_err_id id, abx_buf *out, abx_error **err);

/* Join what was held back with the next n bytes of the stream into out (reset first), and hold back an
 * incomplete character at its end. With last nothing is held back. Bytes that are no UTF-8 at all are not
 * held back. Returns true when out has bytes to send. */
bool abx_utf8_tail_join(abx_utf8_tail *tail, const void *bytes, size_t n, bool last, abx_buf *out);

#endif
