#include "jshost/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/mem.h"

enum {
    PIECES_MAX = 3,
    LEND_FROM = 64 * 1024, /* bytes; fewer are cheaper to copy */
    LENT_ENOUGH =
        5, /* buffers: the oldest is not used again before there are so many; it would still be in the pipe */
    LENT_SIZE = 320 * 1024, /* of a new one: what a call gathers and a little more */
    HEAD_MAX = 256,
    TAIL_MAX = 8,
    IDLE_MS = 1000
};

struct js_lent {
    js_lent *next;
    uint64_t end; /* it is free when the host has read so many bytes, from birth */
    abx_buf buf;
    char head[HEAD_MAX], tail[TAIL_MAX]; /* the pieces around it, lent as well */
};

typedef struct rest {
    uv_write_t req;
    char bytes[];
} rest;

static void on_written(uv_write_t *req, int status)
{
    free(req);
    if (status < 0 && status != UV_ECANCELED) /* that: js_output_close */
        _exit(0);                             /* the host is gone */
}

static uv_stream_t *stream(const js_output *o)
{
    return (uv_stream_t *)(uintptr_t)&o->pipe;
}

static int fd_of(const js_output *o)
{
    uv_os_fd_t fd = -1;
    ABX_CHECK(uv_fileno((const uv_handle_t *)&o->pipe, &fd) == 0);
    return fd;
}

size_t js_output_waiting(const js_output *o)
{
    return uv_stream_get_write_queue_size(stream(o));
}

static size_t size_of(const abx_epp_piece *pieces, size_t count)
{
    size_t all = 0;
    for (size_t i = 0; i < count; i++)
        all += pieces[i].n;
    return all;
}

/* What is left of the pieces behind the first `done` bytes. Returns how many there are. */
static unsigned left_of(const abx_epp_piece *pieces, size_t count, size_t done, uv_buf_t *out)
{
    unsigned n = 0;
    for (size_t i = 0; i < count; i++) {
        size_t skip = done < pieces[i].n ? done : pieces[i].n;
        done -= skip;
        if (skip < pieces[i].n)
            out[n++] = uv_buf_init((char *)(uintptr_t)pieces[i].bytes + skip,
                                   (unsigned)(pieces[i].n - skip));
    }
    return n;
}

/* --- lending --------------------------------------------------------------------------------------------- */

/* Whether the host has read all bytes of the oldest buffer. */
static bool is_first_free(js_output *o)
{
    int in_pipe = 0;
    if (o->first->end > o->read && ioctl(fd_of(o), FIONREAD, &in_pipe) == 0)
        o->read = o->given - js_output_waiting(o) - (uint64_t)in_pipe;
    return o->first->end <= o->read;
}

static void free_first(js_output *o)
{
    js_lent *l = o->first;
    o->first = l->next;
    o->count--;
    abx_buf_clear(&l->buf);
    free(l);
}

static void on_idle(uv_timer_t *t)
{
    js_output *o = t->data;
    while (o->first && is_first_free(o))
        free_first(o);
    if (o->first)
        uv_timer_start(t, on_idle, IDLE_MS, 0);
}

void js_output_refill(js_output *o, abx_buf *b)
{
    if (b->data || !o->first)
        return;
    js_lent *l = o->first;
    if (o->count >= LENT_ENOUGH && is_first_free(o)) {
        size_t max = b->max;
        *b = l->buf;
        b->max = max;
        abx_buf_reset(b);
        abx_buf_init(&l->buf, 0);
        free_first(o);
    } else {
        (void)abx_buf_room(b, LENT_SIZE);
    }
}

/* The pages of the pieces go into the pipe, as far as it has room. Returns the count of bytes. */
static size_t lend(js_output *o, const abx_epp_piece *pieces, size_t count)
{
    struct iovec v[PIECES_MAX];
    for (size_t i = 0; i < count; i++)
        v[i] = (struct iovec){(void *)(uintptr_t)pieces[i].bytes, pieces[i].n};
    ssize_t n = vmsplice(fd_of(o), v, count, SPLICE_F_NONBLOCK);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        o->refused = true;
    return n > 0 ? (size_t)n : 0;
}

/* The second of three pieces is the begin of the offered buffer, whose memory moves to a record of its own. */
static void write_lent(js_output *o, const abx_epp_piece *given)
{
    js_lent *l = ABX_NEW(js_lent);
    const abx_epp_piece pieces[] = {{l->head, given[0].n}, given[1], {l->tail, given[2].n}};
    const size_t count = ABX_COUNT(pieces);
    memcpy(l->head, given[0].bytes, given[0].n);
    memcpy(l->tail, given[2].bytes, given[2].n);
    size_t all = size_of(pieces, count), done = 0;
    l->end = o->given += all;
    l->buf = *o->offer;
    *o->offer = (abx_buf)ABX_BUF(l->buf.max);
    if (o->first)
        o->last->next = l;
    else
        o->first = l;
    o->last = l;
    o->count++;
    if (js_output_waiting(o) == 0)
        done = lend(o, pieces, count);
    if (done < all) {
        uv_buf_t bufs[PIECES_MAX];
        unsigned n = left_of(pieces, count, done, bufs);
        uv_write_t *req = abx_alloc(sizeof(*req));
        ABX_CHECK(uv_write(req, stream(o), bufs, n, on_written) == 0);
    }
    uv_timer_start(&o->idle, on_idle, IDLE_MS, 0);
}

void js_output_offer(js_output *o, abx_buf *b)
{
    o->offer = b;
}

void js_output_taken(js_output *o, abx_buf *b, size_t n)
{
    o->offer = NULL;
    if (b->data) {
        abx_buf_drop(b, n);
        return;
    }
    const abx_buf *was = &o->last->buf;
    js_output_refill(o, b);
    if (was->len > n)
        ABX_CHECK(abx_buf_add(b, was->data + n, was->len - n) == 0);
}

/* --- writing ----------------------------------------------------------------------------------------------- */

static bool can_lend(const js_output *o, const abx_epp_piece *pieces, size_t count)
{
    return o->offer && !o->refused && count == PIECES_MAX && pieces[1].bytes == o->offer->data &&
           pieces[1].n >= LEND_FROM && pieces[0].n <= HEAD_MAX && pieces[2].n <= TAIL_MAX;
}

void js_output_write(js_output *o, const abx_epp_piece *pieces, size_t count)
{
    size_t all = size_of(pieces, count), done = 0;
    uv_buf_t bufs[PIECES_MAX];
    ABX_CHECK(count <= PIECES_MAX);
    if (can_lend(o, pieces, count)) {
        write_lent(o, pieces);
        return;
    }
    o->given += all;
    if (js_output_waiting(o) == 0) {
        int rc = uv_try_write(stream(o), bufs, left_of(pieces, count, 0, bufs));
        done = rc > 0 ? (size_t)rc : 0;
    }
    if (done == all)
        return;
    rest *r = malloc(sizeof(*r) + all - done); /* not zeroed: it may be large */
    ABX_CHECK(r != NULL);
    size_t at = 0;
    unsigned n = left_of(pieces, count, done, bufs);
    for (unsigned i = 0; i < n; at += bufs[i++].len)
        memcpy(r->bytes + at, bufs[i].base, bufs[i].len);
    bufs[0] = uv_buf_init(r->bytes, (unsigned)at);
    ABX_CHECK(uv_write(&r->req, stream(o), bufs, 1, on_written) == 0);
}

void js_output_open(js_output *o, uv_loop_t *loop, int fd)
{
    ABX_CHECK(uv_pipe_init(loop, &o->pipe, 0) == 0 && uv_timer_init(loop, &o->idle) == 0);
    o->pipe.data = o->idle.data = o;
    ABX_CHECK(uv_pipe_open(&o->pipe, fd) == 0);
}

void js_output_close(js_output *o)
{
    if (!o->pipe.loop)
        return;
    uv_close((uv_handle_t *)&o->pipe, NULL);
    uv_close((uv_handle_t *)&o->idle, NULL);
    while (o->first)
        free_first(o);
}
