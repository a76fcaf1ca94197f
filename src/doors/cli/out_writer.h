/* Bytes for stdout or stderr, exactly as they are, without blocking the loop. What cannot be written at once
 * waits here (the caller then stops its source until on_drain). Pipes and terminals are opened anew and
 * written non-blocking, sockets with MSG_DONTWAIT, regular files directly. Where a pipe cannot be opened anew
 * it is polled, and at most as much is written as a writable pipe takes. */
#ifndef ABX_CLI_OUT_WRITER_H
#define ABX_CLI_OUT_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/buf.h"
#include "doors/cli/fd_kind.h"

typedef struct abx_out_writer {
    uv_loop_t *_loop;
    int _fd;    /* the caller's */
    int _own;   /* opened anew, or -1 */
    int _watch; /* tells when the caller's is writable, or -1 */
    abx_fd_kind _kind;
    bool _ready, _polled, _polling, _closing;
    size_t _step; /* most bytes a write when polling the caller's own description; 0: no limit */
    uv_poll_t _poll;
    abx_buf _waiting;
    int _error; /* errno of the first failure */
    void (*_on_drain)(void *data);
    void *_data;
} abx_out_writer;

/* on_drain (may be NULL): all that waited is written, or the writer has failed; from the loop. */
void abx_out_writer_init(abx_out_writer *w, uv_loop_t *loop, int fd, void (*on_drain)(void *data),
                         void *data);
/* 1: written or dropped after a failure, go on; 0: something waits, hold until on_drain. */
int abx_out_write(abx_out_writer *w, const void *bytes, size_t n);
bool abx_out_is_waiting(const abx_out_writer *w);
/* errno of the first failure (EPIPE: nobody reads any more), or 0. */
int abx_out_error(const abx_out_writer *w);
/* Forget what waits and release everything. The loop must turn once more before w's memory goes: ask
 * abx_out_is_closed. */
void abx_out_close(abx_out_writer *w);
bool abx_out_is_closed(const abx_out_writer *w);

#endif
