/* The bytes of one direction as messages: lines of JSON, and raw chunks behind those that announce one. Used by both
 * ends. No I/O. */
#ifndef ABX_EPP_READER_H
#define ABX_EPP_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "wire/lines.h"

typedef struct abx_epp_reader_handlers {
    /* An object; valid during the call. Return 0, or -1 with *err to end the reading. */
    int (*on_message)(yyjson_val *message, void *data, abx_error **err);
    /* Bytes of the raw chunk that the last message announced, in pieces; left: how many are still to come. 0 or -1. */
    int (*on_raw)(const uint8_t *bytes, size_t n, size_t left, void *data, abx_error **err);
    /* A line that does not begin with '{'. 0 or -1. NULL: each is an error. */
    int (*on_stray)(const char *line, size_t n, void *data, abx_error **err);
} abx_epp_reader_handlers;

typedef struct abx_epp_reader {
    abx_lines lines;
    const abx_epp_reader_handlers *handlers; /* borrowed (static) */
    void *data;
    bool raw_agreed; /* set by the owner once both sides said raw */
    size_t raw_left; /* of the chunk that is being read */
    bool raw_end;    /* its newline is still to come */
    bool failed;
    abx_error *err; /* between the line's callback and the feed */
} abx_epp_reader;

void abx_epp_reader_init(abx_epp_reader *r, const abx_epp_reader_handlers *handlers, void *data);
void abx_epp_reader_clear(abx_epp_reader *r);
/* Take bytes. 0, or -1 and *err (PROVIDER_PROTOCOL, or what a handler said); after that it takes no more. A handler may
 * not clear the reader. */
int abx_epp_reader_feed(abx_epp_reader *r, const void *bytes, size_t n, abx_error **err);
/* True in the middle of a line or of a chunk: the stream may not end here. */
bool abx_epp_reader_is_inside(const abx_epp_reader *r);

#endif
