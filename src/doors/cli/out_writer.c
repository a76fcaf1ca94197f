#include "doors/cli/out_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

#define TTY_STEP 128 /* a terminal that polls as writable takes at least this */

void abx_out_writer_init(abx_out_writer *w, uv_loop_t *loop, int fd, void (*on_drain)(void *data),
                         void *data)
{
    memset(w, 0, sizeof *w);
    w->_loop = loop;
    w->_fd = fd;
    w->_own = -1;
    w->_watch = -1;
    w->_on_drain = on_drain;
    w->_data = data;
    abx_buf_init(&w->_waiting, SIZE_MAX / 2);
}

/* Opened at the first byte: most commands that print nothing never pay for it. */
static void prepare(abx_out_writer *w)
{
    w->_ready = true;
    w->_kind = abx_fd_kind_of(w->_fd);
    if (w->_kind != ABX_FD_PIPE && w->_kind != ABX_FD_TTY)
        return;
    w->_own = abx_fd_reopen(w->_fd, O_WRONLY);
    if (w->_own < 0)
        w->_step = w->_kind == ABX_FD_PIPE ? PIPE_BUF : TTY_STEP;
}

static int fd_of(const abx_out_writer *w)
{
    return w->_own >= 0 ? w->_own : w->_fd;
}

/* One write. > 0: bytes; 0: would block; -1: failed (kept in _error). */
static ssize_t write_some(abx_out_writer *w, const uint8_t *bytes, size_t n)
{
    if (w->_step && n > w->_step)
        n = w->_step;
    for (;;) {
        ssize_t rc = w->_kind == ABX_FD_SOCKET ? send(w->_fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL)
                                               : write(fd_of(w), bytes, n);
        if (rc > 0)
            return rc;
        if (rc < 0 && errno == EINTR)
            continue;
        if (rc < 0 && errno == EAGAIN)
            return 0;
        w->_error = rc < 0 ? errno : EIO;
        return -1;
    }
}

static void stop_poll(abx_out_writer *w)
{
    if (w->_polling)
        uv_poll_stop(&w->_poll);
    w->_polling = false;
}

static void drained(abx_out_writer *w)
{
    stop_poll(w);
    abx_buf_reset(&w->_waiting);
    if (w->_on_drain)
        w->_on_drain(w->_data);
}

static void start_poll(abx_out_writer *w);

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)events;
    abx_out_writer *w = poll->data;
    if (status < 0)
        w->_polling = false; /* libuv stops at an error; the write below tells which */
    size_t at = 0;
    while (at < w->_waiting.len) {
        ssize_t n = write_some(w, w->_waiting.data + at, w->_waiting.len - at);
        if (n < 0) {
            drained(w);
            return;
        }
        at += (size_t)n;
        if (n == 0 || w->_step)
            break; /* a step at a time: ask again whether there is room */
    }
    abx_buf_drop(&w->_waiting, at);
    if (w->_waiting.len == 0)
        drained(w);
    else
        start_poll(w);
}

/* A description of our own is watched itself, the caller's only from outside. */
static int open_poll(abx_out_writer *w)
{
    if (w->_own < 0)
        w->_watch = abx_fd_watch(w->_fd, true);
    if (w->_own < 0 && w->_watch < 0)
        return UV_EBADF;
    return uv_poll_init(w->_loop, &w->_poll, w->_own >= 0 ? w->_own : w->_watch);
}

static void start_poll(abx_out_writer *w)
{
    if (!w->_polled) {
        int rc = open_poll(w);
        if (rc < 0) {
            abx_close_fd(&w->_watch);
            w->_error = -rc;
            return;
        }
        w->_polled = true;
        w->_poll.data = w;
    }
    int events = w->_own >= 0 ? UV_WRITABLE : UV_READABLE;
    if (!w->_polling && uv_poll_start(&w->_poll, events, on_poll) == 0)
        w->_polling = true;
}

int abx_out_write(abx_out_writer *w, const void *bytes, size_t n)
{
    if (w->_error || w->_closing || n == 0)
        return 1;
    if (!w->_ready)
        prepare(w);
    size_t at = 0;
    while (at < n && w->_waiting.len == 0 && !w->_step) {
        ssize_t rc = write_some(w, (const uint8_t *)bytes + at, n - at);
        if (rc < 0)
            return 1;
        if (rc == 0)
            break;
        at += (size_t)rc;
    }
    if (at == n)
        return 1;
    if (abx_buf_add(&w->_waiting, (const uint8_t *)bytes + at, n - at) < 0)
        w->_error = ENOMEM;
    start_poll(w);
    return w->_error ? 1 : 0;
}

bool abx_out_is_waiting(const abx_out_writer *w)
{
    return w->_waiting.len > 0 && !w->_error;
}

int abx_out_error(const abx_out_writer *w)
{
    return w->_error;
}

static void on_closed(uv_handle_t *handle)
{
    abx_out_writer *w = handle->data;
    w->_polled = false;
    abx_close_fd(&w->_own);
    abx_close_fd(&w->_watch);
}

void abx_out_close(abx_out_writer *w)
{
    if (w->_closing)
        return;
    w->_closing = true;
    stop_poll(w);
    abx_buf_clear(&w->_waiting);
    if (w->_polled)
        uv_close((uv_handle_t *)&w->_poll, on_closed);
    else
        abx_close_fd(&w->_own);
}

bool abx_out_is_closed(const abx_out_writer *w)
{
    return w->_closing && !w->_polled;
}
