#include "local/envd/code_inner.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MAX_HEAD = 64,
    MAX_BODY = 4096,
    MAX_UNREAD = 64 << 10, /* bytes for it that it does not read while it asks for more */
    FRAMES = 4096,         /* bytes of frames that are taken at once; of a line: ABX__CHUNK */
    LAST_READS = 64
};

static void pump(abx__kernel *k);

/* --- memory and handles ---------------------------------------------------------------------------------- */
static void kernel_free(abx__kernel *k)
{
    abx_envd *e = k->envd;
    abx_link_remove(&k->node);
    abx_buf_clear(&k->in);
    abx_buf_clear(&k->to);
    if (e->code->kernels.next == &e->code->kernels) {
        free(e->code->chunk);
        e->code->chunk = NULL;
    }
    free(k);
    abx__envd_released(e);
}

static void released(abx__kernel *k)
{
    if (--k->handles == 0 && k->gone)
        kernel_free(k);
}

static void end_gone(uv_handle_t *h)
{
    released(((abx__end *)h->data)->kernel);
}

static void pidfd_gone(uv_handle_t *h)
{
    released(h->data);
}

static void close_end(abx__end *x)
{
    if (x->fd < 0)
        return;
    if (x->has_handle) {
        (void)uv_poll_stop(&x->poll);
        uv_close((uv_handle_t *)&x->poll, end_gone);
    }
    abx_close_fd(&x->fd);
}

static void close_pidfd(abx__kernel *k)
{
    if (k->pidfd < 0)
        return;
    (void)uv_poll_stop(&k->pidfd_poll);
    abx_close_fd(&k->pidfd);
    uv_close((uv_handle_t *)&k->pidfd_poll, pidfd_gone);
}

/* Nothing more is expected from it. */
static void leave(abx__kernel *k)
{
    if (k->gone)
        return;
    k->gone = true;
    k->context = NULL;
    k->handles++;
    for (size_t i = 0; i < ABX__END_COUNT; i++)
        close_end(&k->ends[i]);
    abx_close_fd(&k->commands_fd);
    if (k->reaped) /* else it is still to be waited for */
        close_pidfd(k);
    released(k);
}

/* --- polling ------------------------------------------------------------------------------------------------ */
static void on_poll(uv_poll_t *poll, int status, int events);

static void update(abx__kernel *k)
{
    for (size_t i = 0; i < ABX__END_COUNT; i++) {
        abx__end *x = &k->ends[i];
        bool writes = i == ABX__END_CONTROL && k->to.len > 0;
        int mask = (k->held ? 0 : UV_READABLE) | (writes ? UV_WRITABLE : 0);
        if (x->fd < 0 || x->mask == mask || k->gone)
            continue;
        x->mask = mask;
        if (mask == 0)
            (void)uv_poll_stop(&x->poll);
        else
            (void)uv_poll_start(&x->poll, mask, on_poll);
    }
}

/* --- output ---------------------------------------------------------------------------------------------------- */
/* At most n bytes. 1: some came; 0: none now; -1: there will be no more. */
static int read_output(abx__kernel *k, size_t stream, size_t n)
{
    abx__end *x = &k->ends[stream];
    ssize_t got = read(x->fd, k->envd->code->chunk, n < ABX__CHUNK ? n : ABX__CHUNK);
    if (got > 0) {
        if (k->context &&
            abx__context_output(k->context, stream, k->envd->code->chunk, (size_t)got) == 0)
            k->held = true;
        return 1;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    close_end(x);
    return -1;
}

/* All output that is there now; less when it has to hold. */
static void take_output(abx__kernel *k)
{
    for (size_t i = ABX__END_OUT; i <= ABX__END_ERR; i++) {
        int waiting = 0;
        if (k->ends[i].fd < 0 || ioctl(k->ends[i].fd, FIONREAD, &waiting) < 0)
            continue;
        for (size_t left = (size_t)waiting; left > 0 && !k->held && k->ends[i].fd >= 0;) {
            size_t part = left < ABX__CHUNK ? left : ABX__CHUNK;
            if (read_output(k, i, part) <= 0)
                break;
            left -= part;
        }
        if (k->held)
            return;
    }
}

/* --- frames ------------------------------------------------------------------------------------------------------ */
static void break_off(abx__kernel *k)
{
    k->broken = true;
    abx_buf_reset(&k->in);
    k->line_left = 0;
    abx__kernel_kill(k); /* first: one that finds its channel closed may end by itself before */
    close_end(&k->ends[ABX__END_CONTROL]);
}

/* It waits for this: one that goes on without reading does not keep the protocol. */
static void acknowledge(abx__kernel *k)
{
    if (k->to.len > MAX_UNREAD)
        break_off(k);
    else
        abx__kernel_send(k, "__abx_ack", NULL, 0);
}

static void pass_line(abx__kernel *k)
{
    size_t n = k->in.len < k->line_left ? k->in.len : k->line_left;
    k->line_left -= n;
    if (abx__context_line(k->context, k->in.data, n, k->line_left == 0) == 0)
        k->held = true;
    abx_buf_drop(&k->in, n);
    if (k->line_left == 0)
        acknowledge(k);
}

/* One frame, or as much of it as is there. False: more bytes are needed first. */
static bool take_frame(abx__kernel *k)
{
    if (k->line_left > 0) {
        if (k->in.len == 0)
            return false;
        pass_line(k);
        return true;
    }
    const uint8_t *end = k->in.len > 0 ? memchr(k->in.data, '\n', k->in.len) : NULL;
    if (!end) {
        if (k->in.len > MAX_HEAD)
            break_off(k);
        return false;
    }
    char word[16] = "";
    unsigned long long n = 0;
    size_t head = (size_t)(end - k->in.data) + 1;
    if (head > MAX_HEAD || sscanf((const char *)k->in.data, "%15[a-z] %10llu", word, &n) != 2) {
        break_off(k);
        return false;
    }
    bool is_line = strcmp(word, "line") == 0;
    if (n > (is_line ? (size_t)INT32_MAX : (size_t)MAX_BODY)) {
        break_off(k);
        return false;
    }
    if (!is_line && k->in.len - head < n)
        return false;
    if (!abx__context_is_beginning(k->context))
        take_output(k);
    if (k->held)
        return true; /* the frame stays for later */
    if (is_line) {
        abx_buf_drop(&k->in, head);
        k->line_left = n;
        if (n == 0)
            acknowledge(k);
        return true;
    }
    ABX_AUTO_FREE char *number = abx_strndup((const char *)k->in.data + head, n < 4 ? n : 4);
    uint64_t status = 0;
    (void)abx_parse_uint(number, 255, &status);
    abx_buf_drop(&k->in, head + n);
    if (strcmp(word, "ready") == 0) {
        k->ready = true;
        abx__context_ready(k->context);
    } else if (strcmp(word, "sync") == 0) {
        acknowledge(k);
    } else if (strcmp(word, "done") == 0) {
        abx__context_done(k->context, (int)status);
    }
    return true;
}

static bool read_control(abx__kernel *k)
{
    abx__end *x = &k->ends[ABX__END_CONTROL];
    if (x->fd < 0)
        return false;
    ssize_t n = read(x->fd, k->envd->code->chunk, k->line_left > 0 ? ABX__CHUNK : FRAMES);
    if (n > 0) {
        ABX_CHECK(abx_buf_add(&k->in, k->envd->code->chunk, (size_t)n) == 0);
        return true;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    k->broken = true;
    close_end(x);
    return false;
}

/* It has ended and everything that it said was taken. */
static void tell_end(abx__kernel *k)
{
    for (size_t i = ABX__END_OUT; i <= ABX__END_ERR; i++)
        for (int reads = 0; reads < LAST_READS && k->ends[i].fd >= 0 && !k->held; reads++)
            if (read_output(k, i, ABX__CHUNK) <= 0)
                break;
    if (k->held)
        return;
    abx__context *c = k->context;
    int status = k->status;
    /* what it has left behind goes too: its state is lost, and its output would have no reader */
    abx__hunt_start(k->envd, k->mark, 0);
    leave(k);
    abx__context_died(c, status);
}

static void pump(abx__kernel *k)
{
    if (k->pumping)
        return;
    k->pumping = true;
    k->handles++; /* it may be let go meanwhile */
    /* The next event brings the rest, so that nobody else waits for one that does not stop; of a dead one all is taken. */
    int reads = k->reaped ? LAST_READS : 1;
    while (k->context && !k->held) {
        if (take_frame(k))
            continue;
        if (!k->context || k->held || reads-- == 0 || !read_control(k))
            break;
    }
    k->pumping = false;
    if (k->context && !k->held && k->reaped)
        tell_end(k);
    else if (k->context && k->broken && !k->context->busy)
        abx__kernel_kill(k); /* while it runs code it may have become another program: exec */
    if (!k->gone)            /* NOLINT(clang-analyzer-unix.Malloc): held since the first line */
        update(k);
    released(k);
}

static void write_control(abx__kernel *k)
{
    int fd = k->ends[ABX__END_CONTROL].fd;
    if (fd < 0) {
        abx_buf_clear(&k->to);
        return;
    }
    size_t at = 0;
    while (at < k->to.len) {
        ssize_t n = send(fd, k->to.data + at, k->to.len - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            break; /* full, or gone: then reading tells */
        at += (size_t)n;
    }
    if (at == k->to.len)
        abx_buf_clear(&k->to);
    else
        abx_buf_drop(&k->to, at);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    abx__end *x = poll->data;
    abx__kernel *k = x->kernel;
    if (k->gone)
        return;
    if (events & UV_WRITABLE)
        write_control(k);
    size_t stream = (size_t)(x - k->ends);
    if (k->context && abx__context_is_beginning(k->context)) {
        pump(k);
        if (k->gone)
            return;
    }
    if (stream != ABX__END_CONTROL && !k->held && x->fd >= 0 &&
        (status < 0 || events & UV_READABLE))
        (void)read_output(k, stream, ABX__CHUNK);
    pump(k);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */
static void reaped(abx__kernel *k, int status)
{
    k->reaped = true;
    k->status = status;
    close_pidfd(k);
    if (k->context)
        pump(k);
}

void abx__code_reaped(abx_envd *e, pid_t pid, int status)
{
    if (!e->code)
        return;
    for (abx_link *n = e->code->kernels.next; n != &e->code->kernels; n = n->next) {
        abx__kernel *k = ABX_OF(n, abx__kernel, node);
        if (k->pid == pid && !k->reaped) {
            reaped(k, status);
            return;
        }
    }
}

static void on_pidfd(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    abx__kernel *k = poll->data;
    int wait_status = 0;
    if (waitpid(k->pid, &wait_status, WNOHANG) == k->pid)
        reaped(k, wait_status);
}

void abx__kernel_interrupt(abx__kernel *k)
{
    if (!k->reaped)
        (void)kill(-k->pid, SIGINT);
}

void abx__kernel_kill(abx__kernel *k)
{
    if (k->reaped || k->killed)
        return;
    k->killed = true;
    (void)kill(k->pid, SIGKILL);
    abx__hunt_start(k->envd, k->mark, k->pid);
}

void abx__kernel_drop(abx__kernel *k)
{
    abx__kernel_kill(k);
    leave(k);
}

void abx__kernel_resume(abx__kernel *k)
{
    k->held = false;
    pump(k);
}

void abx__kernel_send(abx__kernel *k, const char *word, const void *bytes, size_t n)
{
    if (k->broken || k->gone)
        return;
    ABX_CHECK(abx_buf_addf(&k->to, "%s %zu\n", word, n) == 0);
    if (n > 0)
        ABX_CHECK(abx_buf_add(&k->to, bytes, n) == 0);
    write_control(k);
    if (!k->pumping)
        update(k);
}

void abx__kernel_command(abx__kernel *k, const void *text, size_t n)
{
    if (k->commands_fd >= 0)
        (void)!write(k->commands_fd, text, n);
}

void abx__kernels_close(abx_envd *e)
{
    for (abx_link *n = e->code->kernels.next, *next; n != &e->code->kernels; n = next) {
        next = n->next;
        abx__kernel *k = ABX_OF(n, abx__kernel, node);
        abx__kernel_kill(k);
        if (!k->reaped)
            (void)waitpid(k->pid, NULL, 0);
        k->reaped = true;
        close_pidfd(k);
        leave(k);
    }
}

/* --- the beginning ------------------------------------------------------------------------------------------------ */
static void add_end(abx__kernel *k, size_t i, int fd)
{
    abx__end *x = &k->ends[i];
    x->kernel = k;
    x->fd = fd;
    ABX_CHECK(uv_poll_init(k->envd->loop, &x->poll, fd) == 0);
    x->poll.data = x;
    x->has_handle = true;
    k->handles++;
}

abx__kernel *abx__kernel_new(abx__context *c, pid_t pid, uint64_t mark, int fds[ABX__END_COUNT],
                             int commands_fd)
{
    abx_envd *e = c->envd;
    abx__kernel *k = ABX_NEW(abx__kernel);
    k->envd = e;
    k->context = c;
    k->pid = pid;
    k->mark = mark;
    k->pidfd = -1;
    k->commands_fd = commands_fd;
    abx_buf_init(&k->in, (size_t)4 * ABX__CHUNK);
    abx_buf_init(&k->to, SIZE_MAX / 2);
    abx_link_append(&e->code->kernels, &k->node);
    if (!e->code->chunk)
        e->code->chunk = abx_alloc(ABX__CHUNK);
    e->handles++;
    for (size_t i = 0; i < ABX__END_COUNT; i++)
        add_end(k, i, abx_take_fd(&fds[i]));
    if (!e->is_init) {
        k->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        ABX_CHECK(uv_poll_init(e->loop, &k->pidfd_poll, k->pidfd) == 0);
        k->pidfd_poll.data = k;
        k->handles++;
        ABX_CHECK(uv_poll_start(&k->pidfd_poll, UV_READABLE, on_pidfd) == 0);
    }
    update(k);
    return k;
}
