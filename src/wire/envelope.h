/* The envelopes of Connect streams: one byte of flags, four bytes of length (big endian), the message. A
 * decoder takes the stream in any pieces and gives out whole messages. No I/O. */
#ifndef ABX_WIRE_ENVELOPE_H
#define ABX_WIRE_ENVELOPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define ABX_ENVELOPE_HEAD       5
#define ABX_ENVELOPE_COMPRESSED 0x01
#define ABX_ENVELOPE_END        0x02 /* the last one: the trailer of the stream */

/* Write the head of an envelope with n bytes of message. */
static inline void abx_envelope_head(uint8_t head[ABX_ENVELOPE_HEAD], uint8_t flags, uint32_t n)
{
    head[0] = flags;
    head[1] = (uint8_t)(n >> 24);
    head[2] = (uint8_t)(n >> 16);
    head[3] = (uint8_t)(n >> 8);
    head[4] = (uint8_t)n;
}

/* Bytes of message that follow this head. */
static inline size_t abx_envelope_length(const uint8_t head[ABX_ENVELOPE_HEAD])
{
    return (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
}

/* One whole message; bytes are valid during the call. Return 0 to go on, 1 to stop: feed returns then, and
 * what it did not use yet is told by *used. */
typedef int (*abx_on_envelope)(uint8_t flags, const uint8_t *bytes, size_t n, void *user);

typedef struct abx_envelope_decoder {
    abx_on_envelope on_message;
    void *user;
    size_t max; /* longest message */
    uint8_t head[ABX_ENVELOPE_HEAD];
    size_t head_len;
    abx_buf part; /* of a message that did not lie in one piece of input */
    int failed;   /* sticks */
} abx_envelope_decoder;

void abx_envelope_decoder_init(abx_envelope_decoder *d, size_t max_message,
                               abx_on_envelope on_message, void *user);
void abx_envelope_decoder_clear(abx_envelope_decoder *d);
/* Take the next n bytes. A message that lies whole in them is given out without a copy. used (or NULL)
 * becomes the count of bytes that were taken: n, or less when on_message stopped.
 * Returns 0; 1 when on_message stopped; -1 and *err (TOO_LARGE) for a message over the limit, and for every
 * call after that. */
int abx_envelope_decoder_feed(abx_envelope_decoder *d, const void *bytes, size_t n, size_t *used,
                              abx_error **err);
/* True if the stream may end here: not inside an envelope. */
int abx_envelope_decoder_is_clean(const abx_envelope_decoder *d);

#endif
