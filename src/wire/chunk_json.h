/* A chunk of a stream as the object that every door sends for it: {"type":"stdout","text":"…"} where it is UTF-8,
 * {"type":"stdout","base64":"…"} where it is not. Written by hand, without a tree: it is what most of a stream is made of.
 * No I/O. */
#ifndef ABX_WIRE_CHUNK_JSON_H
#define ABX_WIRE_CHUNK_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Append the object, one line. type: plain letters. text: the bytes are well-formed UTF-8 (abx_utf8_valid) and go as such.
 * 0; -1 when that passes the buffer's limit (then part of it may stand there). */
int abx_chunk_json(abx_buf *out, const char *type, const void *bytes, size_t n,
                   bool text) ABX_MUST_CHECK;

#endif
