#include "doors/cli/stdin_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

#define READ_SIZE ((size_t)256 * 1024)

void abx_stdin_reader_init(abx_stdin_reader *r, uv_loop_t *loop, int fd,
                           int (*on_bytes)(const uint8_t *bytes, size_t n, void *data),
                           void (*on_end)(int error, void *data), void *data)
{
    memset(r, 0, sizeof *r);
    r->_loop = loop;
    r->_fd = fd;
    r->_own = -1;
    r->_watch = -1;
    r->_on_bytes = on_bytes;
    r->_on_end = on_end;
    r->_data = data;
}

static void stop_watching(abx_stdin_reader *r)
{
    if (r->_polled)
        uv_poll_stop(&r->_poll);
    if (r->_idled)
        uv_idle_stop(&r->_idle);
}

static void finish(abx_stdin_reader *r, int error)
{
    stop_watching(r);
    r->_ended = true;
    r->_on_end(error, r->_data);
}

/* One piece: enough for a turn of the loop. */
static void read_piece(abx_stdin_reader *r)
{
    ssize_t n;
    do {
        n = r->_kind == ABX_FD_SOCKET
                ? recv(r->_fd, r->_buffer, READ_SIZE, MSG_DONTWAIT)
                : read(r->_own >= 0 ? r->_own : r->_fd, r->_buffer, READ_SIZE);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return;
    /* A terminal that was hung up answers EIO: that is its end. */
    if (n < 0 && r->_kind == ABX_FD_TTY && errno == EIO)
        n = 0;
    if (n <= 0) {
        finish(r, n < 0 ? errno : 0);
        return;
    }
    if (r->_on_bytes(r->_buffer, (size_t)n, r->_data) == 0 && !r->_closing) {
        r->_held = true;
        stop_watching(r);
    }
}

static void watch(abx_stdin_reader *r);

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)events;
    abx_stdin_reader *r = poll->data;
    read_piece(r);
    /* libuv stops at an error; if the read did not fail the end is still to come. */
    if (status < 0 && !r->_ended && !r->_held && !r->_closing)
        watch(r);
}

static void on_idle(uv_idle_t *idle)
{
    read_piece(idle->data);
}

static void watch(abx_stdin_reader *r)
{
    if (r->_polled)
        uv_poll_start(&r->_poll, UV_READABLE, on_poll);
    else if (r->_idled)
        uv_idle_start(&r->_idle, on_idle);
}

void abx_stdin_reader_start(abx_stdin_reader *r)
{
    r->_buffer = abx_alloc(READ_SIZE);
    r->_kind = abx_fd_kind_of(r->_fd);
    if (r->_kind == ABX_FD_PIPE || r->_kind == ABX_FD_TTY)
        r->_own = abx_fd_reopen(r->_fd, O_RDONLY);
    if (r->_own < 0 && r->_kind != ABX_FD_FILE)
        r->_watch = abx_fd_watch(r->_fd, false);
    int fd = r->_own >= 0 ? r->_own : r->_watch;
    /* What cannot be watched (regular files, some devices) never blocks a read. */
    if (fd >= 0 && uv_poll_init(r->_loop, &r->_poll, fd) == 0) {
        r->_polled = true;
        r->_poll.data = r;
    } else {
        r->_idled = true;
        ABX_CHECK(uv_idle_init(r->_loop, &r->_idle) == 0);
        r->_idle.data = r;
    }
    r->_open = 1;
    watch(r);
}

void abx_stdin_reader_resume(abx_stdin_reader *r)
{
    if (!r->_held || r->_closing || r->_ended)
        return;
    r->_held = false;
    watch(r);
}

static void on_closed(uv_handle_t *handle)
{
    abx_stdin_reader *r = handle->data;
    r->_open = 0;
    abx_close_fd(&r->_own);
    abx_close_fd(&r->_watch);
    free(r->_buffer);
    r->_buffer = NULL;
}

void abx_stdin_reader_close(abx_stdin_reader *r)
{
    if (r->_closing)
        return;
    r->_closing = true;
    stop_watching(r);
    if (r->_polled)
        uv_close((uv_handle_t *)&r->_poll, on_closed);
    else if (r->_idled)
        uv_close((uv_handle_t *)&r->_idle, on_closed);
}

bool abx_stdin_reader_is_closed(const abx_stdin_reader *r)
{
    return r->_closing && r->_open == 0;
}
