/* What goes to the host: the module's end of the pipe that is its standard output. Bytes go out in the order in which they are given; what the
 * pipe does not take at once is kept until it does. When the host is gone the process ends.
 *
 * A buffer may be lent instead of copied: the kernel then takes its pages into the pipe (vmsplice), and the host's read copies from them. Such a
 * buffer may not change while bytes of it lie in the pipe. How many lie there is asked of the kernel (FIONREAD), which counts a byte as read
 * when it was copied, so what was given before those is free again, whatever the host does. The host relies on none of this: it copies each byte
 * once, into memory of its own, before it looks at it. A module that changed its pages meanwhile would spoil its own bytes and nothing else.
 *
 * Memory: what the pipe holds (1 MiB for each, at most) and buffers that are kept for the next bytes; IDLE_MS after the last was lent they go.
 * Threads: the loop's. */
#ifndef ABX_JSHOST_OUTPUT_H
#define ABX_JSHOST_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "epp/plugin_end.h"

typedef struct js_lent js_lent;

typedef struct js_output {
    uv_pipe_t pipe;
    uv_timer_t idle;
    uint64_t given; /* bytes, from birth */
    uint64_t read;  /* of these, by the host: as of the last look */
    js_lent *first,
        *last; /* buffers that are lent or can be used again; in the order in which they were given */
    unsigned count;
    abx_buf *offer; /* see js_output_offer */
    bool refused;   /* this is no pipe that takes pages */
} js_output;

/* Take descriptor fd over. */
void js_output_open(js_output *o, uv_loop_t *loop, int fd);
/* What has not left is dropped; handles are closed on the loop. Nothing when it was not opened. */
void js_output_close(js_output *o);
/* Bytes that lie in up to three places; valid during the call. */
void js_output_write(js_output *o, const abx_epp_piece *pieces, size_t count);
/* Bytes that were given and that the pipe has not taken. */
size_t js_output_waiting(const js_output *o);

/* The next js_output_write has the first n bytes of this buffer as its second piece. Then js_output_taken takes them out of it: by lending the
 * whole buffer, where these are many; b gets another one with what lay behind them. */
void js_output_offer(js_output *o, abx_buf *b);
void js_output_taken(js_output *o, abx_buf *b, size_t n);
/* Memory for bytes that may be offered, if b has none and some was lent before. */
void js_output_refill(js_output *o, abx_buf *b);

#endif
