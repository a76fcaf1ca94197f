/* Bytes of standard input (or another descriptor) for a call, without blocking the loop and without changing the
 * caller's flags: pipes and terminals are opened anew, sockets read with MSG_DONTWAIT, regular files directly, a
 * piece a turn. Stops while the consumer holds. */
#ifndef ABX_CLI_STDIN_READER_H
#define ABX_CLI_STDIN_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "doors/cli/fd_kind.h"

typedef struct abx_stdin_reader {
    uv_loop_t *_loop;
    int _fd, _own; /* _own: opened anew, or -1 */
    int _watch;    /* tells when the caller's is readable, or -1 */
    abx_fd_kind _kind;
    bool _polled, _idled, _closing, _held, _ended;
    unsigned _open;
    uv_poll_t _poll;
    uv_idle_t _idle;
    uint8_t *_buffer;
    /* Bytes, valid during the call. Answers 1: go on, 0: hold until _resume. */
    int (*_on_bytes)(const uint8_t *bytes, size_t n, void *data);
    /* The end, once: 0, or the errno of a failure. */
    void (*_on_end)(int error, void *data);
    void *_data;
} abx_stdin_reader;

/* Nothing is read before _start. */
void abx_stdin_reader_init(abx_stdin_reader *r, uv_loop_t *loop, int fd,
                           int (*on_bytes)(const uint8_t *bytes, size_t n, void *data),
                           void (*on_end)(int error, void *data), void *data);
void abx_stdin_reader_start(abx_stdin_reader *r);
void abx_stdin_reader_resume(abx_stdin_reader *r);
/* Stop for good; on_end does not come any more. The memory is the caller's again when _is_closed. */
void abx_stdin_reader_close(abx_stdin_reader *r);
bool abx_stdin_reader_is_closed(const abx_stdin_reader *r);

#endif
