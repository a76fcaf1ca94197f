/* The frames of a WebSocket (RFC 6455) as they come in, judged before the library that joins them sees them: what breaks
 * the protocol has its close code as soon as its first wrong byte is there, however the bytes are cut. What is passed on
 * is whole where the library needs it whole: heads of frames, and control frames with their payload. UTF-8 of text
 * messages is not looked at. No I/O. */
#ifndef ABX_WIRE_WS_GUARD_H
#define ABX_WIRE_WS_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest piece that is passed on in one: a control frame. */
#define ABX_WS_GUARD_PIECE (2 + 4 + 125)

enum {
    ABX_WS_CLOSE_PROTOCOL =
        1002, /* reserved bits or kinds, a length that is not in its shortest form, a control frame in
                                     pieces or over 125 bytes, a mask that is missing or too much, an impossible code */
    ABX_WS_CLOSE_NOT_UTF8 = 1007, /* the reason of a close frame */
    ABX_WS_CLOSE_TOO_LARGE =
        1009 /* by the length that the head names, and all pieces of a message together */
};

typedef struct abx_ws_guard {
    uint64_t left;    /* bytes of the payload of a data frame that are still to come */
    uint64_t message; /* bytes of the message that is under way, by its heads */
    uint64_t max;
    int fault; /* 0, or the close code: nothing is passed on any more */
    bool masked, in_message;
    uint8_t held_len, need;
    uint8_t held[ABX_WS_GUARD_PIECE];
} abx_ws_guard;

/* masked: the frames come from a client. max: bytes of the longest message. Nothing to clear. */
void abx_ws_guard_init(abx_ws_guard *g, bool masked, size_t max);

/* Take bytes from *in (*n of them; both are moved on) and write the next piece that is to be passed on to out, which has
 * room for room bytes, at least ABX_WS_GUARD_PIECE. Returns the piece's length; 0 when more bytes are needed, or
 * g->fault says why not. */
size_t abx_ws_guard_next(abx_ws_guard *g, const uint8_t **in, size_t *n, uint8_t *out, size_t room);

#endif
