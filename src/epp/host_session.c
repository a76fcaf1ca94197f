/* A session's start, its streams and its clock. */
#include "epp/host_session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "epp/message.h"
#include "epp/session_inner.h"
#include "net/kin.h"

#define PIPE_SIZE      (256 * 1024)  /* asked for; less is as good */
#define WIDE_PIPE_SIZE (1024 * 1024) /* of one that carries large chunks */
#define SAID_PER_QUARTER                                                                           \
    ((uint64_t)256 * 1024) /* bytes of standard error that are read in SAID_MS */
#define SAID_MS 250

void epp_logf(abx_epp_session *s, abx_log_level level, const char *fmt, ...)
{
    if (!s->on_log)
        return;
    va_list ap;
    va_start(ap, fmt);
    ABX_AUTO_FREE char *text = abx_vformat(fmt, ap);
    va_end(ap);
    ABX_AUTO_FREE char *blank = abx_secrets_blank(&s->secrets, text, strlen(text));
    s->on_log(level, blank, s->data);
}

/* --- the clock ----------------------------------------------------------------------------------------- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Bytes that wait for the child to read: it must take some of them within the time of a call. */
static uint64_t check_stuck(abx_epp_session *s, uint64_t now)
{
    size_t queued = s->to_open ? uv_stream_get_write_queue_size((uv_stream_t *)&s->to) : 0;
    if (queued == 0) {
        s->stuck_ms = ABX_FOREVER;
        return ABX_FOREVER;
    }
    if (s->stuck_ms == ABX_FOREVER || queued < s->queued_before)
        s->stuck_ms = now;
    s->queued_before = queued;
    if (now < s->stuck_ms + s->call_ms)
        return s->stuck_ms + s->call_ms;
    if (s->state <= STATE_RETIRED)
        epp_fault(s, epp_error(s, ABX_ERR_PROVIDER_PROTOCOL,
                               "the program does not read its standard input (%zu bytes wait)",
                               queued));
    return ABX_FOREVER;
}

/* Requests whose time has passed. One at a time: handling one may change the table. */
static uint64_t check_pending(abx_epp_session *s, uint64_t now)
{
    for (;;) {
        uint64_t next = ABX_FOREVER;
        pending *over = NULL;
        for (size_t i = 0; i < SLOTS; i++) {
            for (pending *p = s->slots[i]; p; p = p->next) {
                if (p->due_ms <= now)
                    over = p;
                else
                    next = earlier(next, p->due_ms);
            }
        }
        if (!over)
            return next;
        over->due_ms = ABX_FOREVER;
        epp_overdue(over);
    }
}

static void tell_start_error(abx_epp_session *s)
{
    ABX_AUTO_ERROR why = ABX_TAKE(s->start_error);
    if (!s->greeted) {
        s->greeted = s->faulted = true;
        s->on_ready(s, NULL, why, s->data);
    }
}

static void on_timer(uv_timer_t *t)
{
    abx_epp_session *s = t->data;
    uint64_t now = abx_now_mono_ms();
    s->timer_at = ABX_FOREVER;
    if (s->start_error)
        tell_start_error(s);
    uint64_t next = check_pending(s, now);
    next = earlier(next, check_stuck(s, now));
    if (s->said_open && s->said_since_ms != ABX_FOREVER) {
        if (now >= s->said_since_ms + SAID_MS)
            epp_update_reading(s);
        else
            next = earlier(next, s->said_since_ms + SAID_MS);
    }
    if (s->settle_ms <= now)
        epp_settled(s);
    next = earlier(next, s->settle_ms);
    next = earlier(next, epp_end_step(s, now));
    if (next != ABX_FOREVER)
        epp_arm(s, next);
    epp_maybe_done(s);
}

void epp_arm(abx_epp_session *s, uint64_t at_ms)
{
    if (s->handles_closed || at_ms >= s->timer_at)
        return;
    uint64_t now = abx_now_mono_ms();
    s->timer_at = at_ms;
    uv_update_time(s->loop);
    ABX_CHECK(uv_timer_start(&s->timer, on_timer, at_ms > now ? at_ms - now : 0, 0) == 0);
}

/* --- writing ------------------------------------------------------------------------------------------- */

typedef struct write_rest {
    uv_write_t req;
    abx_epp_session *s;
    uint8_t bytes[];
} write_rest;

static void on_written(uv_write_t *req, int status)
{
    write_rest *w = (write_rest *)req;
    abx_epp_session *s = w->s;
    free(w);
    if (status == 0 || status == UV_ECANCELED)
        return;
    if (s->state <= STATE_RETIRED) /* EPIPE: it has ended, or closed its input */
        epp_settle(s);
}

void epp_flush(abx_epp_session *s)
{
    size_t done = 0, n = s->out.len;
    if (!s->to_open || n == 0) {
        abx_buf_reset(&s->out);
        return;
    }
    uv_stream_t *to = (uv_stream_t *)&s->to;
    if (uv_stream_get_write_queue_size(to) == 0) {
        uv_buf_t b = uv_buf_init((char *)s->out.data, (unsigned)n);
        int rc = uv_try_write(to, &b, 1);
        if (rc < 0 && rc != UV_EAGAIN) {
            abx_buf_reset(&s->out);
            if (s->state <= STATE_RETIRED)
                epp_settle(s);
            return;
        }
        done = rc > 0 ? (size_t)rc : 0;
    }
    if (done < n) {
        write_rest *w = abx_alloc(sizeof(*w) + n - done);
        w->s = s;
        memcpy(w->bytes, s->out.data + done, n - done);
        uv_buf_t b = uv_buf_init((char *)w->bytes, (unsigned)(n - done));
        ABX_CHECK(uv_write(&w->req, to, &b, 1, on_written) == 0);
        if (s->stuck_ms == ABX_FOREVER) {
            s->stuck_ms = abx_now_mono_ms();
            s->queued_before = uv_stream_get_write_queue_size(to);
            epp_arm(s, s->stuck_ms + s->call_ms);
        }
    }
    if (s->out.cap > ABX_EPP_CHUNK_MAX)
        abx_buf_clear(&s->out);
    else
        abx_buf_reset(&s->out);
}

/* --- reading ------------------------------------------------------------------------------------------- */

static void give_buffer(uv_handle_t *h, size_t wanted, uv_buf_t *buf)
{
    (void)wanted;
    abx_epp_session *s = h->data;
    bool is_output = h == (uv_handle_t *)&s->from;
    *buf = uv_buf_init((char *)(is_output ? s->read_buffer : s->error_buffer),
                       is_output ? READ_SIZE : ERROR_READ_SIZE);
}

static void take_output(abx_epp_session *s, const void *bytes, size_t n)
{
    abx_error *why = NULL;
    if (abx_epp_reader_feed(&s->reader, bytes, n, &why) == 0)
        return;
    abx_error *told = epp_error(s, why->id, "%s", why->message);
    abx_error_free(why);
    epp_fault(s, told);
}

static void on_output(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    abx_epp_session *s = stream->data;
    if (n == 0 || s->state == STATE_GONE)
        return;
    if (n > 0) {
        take_output(s, buf->base, (size_t)n);
        return;
    }
    epp_close_stream(s, &s->from, &s->from_open);
    epp_settle(s);
}

static ssize_t read_now(uv_pipe_t *pipe, void *to, size_t room)
{
    uv_os_fd_t fd;
    ssize_t n;
    if (uv_fileno((uv_handle_t *)pipe, &fd) < 0)
        return -1;
    do
        n = read(fd, to, room);
    while (n < 0 && errno == EINTR);
    return n;
}

void epp_drain(abx_epp_session *s)
{
    ssize_t n;
    for (int i = 0;
         i < 64 && s->said_open && (n = read_now(&s->said, s->error_buffer, ERROR_READ_SIZE)) > 0;
         i++)
        abx_epp_words_feed(&s->words, s->error_buffer, (size_t)n);
    abx_epp_words_end(&s->words);
    while (s->from_open && s->paused == 0 && s->state <= STATE_ENDING &&
           (n = read_now(&s->from, s->read_buffer, READ_SIZE)) > 0)
        take_output(s, s->read_buffer, (size_t)n);
}

static void on_said(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    abx_epp_session *s = stream->data;
    if (n == 0)
        return;
    if (n < 0) {
        abx_epp_words_end(&s->words);
        epp_close_stream(s, &s->said, &s->said_open);
        return;
    }
    abx_epp_words_feed(&s->words, buf->base, (size_t)n);
    uint64_t now = abx_now_mono_ms();
    if (s->said_since_ms == ABX_FOREVER || now >= s->said_since_ms + SAID_MS) {
        s->said_since_ms = now;
        s->said_bytes = 0;
    }
    s->said_bytes += (uint64_t)n;
    if (s->said_bytes >= SAID_PER_QUARTER && !s->exited) { /* it floods: it waits, not we */
        uv_read_stop(stream);
        epp_arm(s, s->said_since_ms + SAID_MS);
    }
}

void epp_update_reading(abx_epp_session *s)
{
    bool wanted = s->from_open && s->paused == 0;
    if (wanted && !s->reading)
        ABX_CHECK(uv_read_start((uv_stream_t *)&s->from, give_buffer, on_output) == 0);
    else if (!wanted && s->reading && s->from_open)
        uv_read_stop((uv_stream_t *)&s->from);
    s->reading = wanted;
    if (s->said_open) {
        s->said_since_ms = ABX_FOREVER;
        int rc = uv_read_start((uv_stream_t *)&s->said, give_buffer, on_said);
        ABX_CHECK(rc == 0 || rc == UV_EALREADY);
    }
}

static void on_handle_closed(uv_handle_t *h)
{
    abx_epp_session *s = h->data;
    s->handles--;
    epp_maybe_done(s);
}

void epp_close_stream(abx_epp_session *s, uv_pipe_t *pipe, bool *open)
{
    if (!*open)
        return;
    *open = false;
    if (pipe == &s->from)
        s->reading = false;
    uv_close((uv_handle_t *)pipe, on_handle_closed);
}

/* --- the start ----------------------------------------------------------------------------------------- */

static int on_stray(const char *line, size_t n, void *data, abx_error **err)
{
    abx_epp_session *s = data;
    char begin[101];
    size_t shown = n < 100 ? n : 100;
    memcpy(begin, line, shown);
    begin[shown] = 0;
    s->strays++;
    if (s->strays <= ABX_EPP_STRAY_MAX && !s->strict) {
        epp_logf(s, ABX_LOG_WARN, "a line on standard output that is no message: %s", begin);
        return 0;
    }
    return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL,
                    "%s on its standard output that is no message: '%s'",
                    s->strict ? "a line" : "line after line", begin);
}

static const abx_epp_reader_handlers reader_handlers = {
    .on_message = epp_on_message, .on_raw = epp_on_raw, .on_stray = on_stray};

static void on_words(const char *line, void *data)
{
    abx_epp_session *s = data;
    if (s->on_log)
        s->on_log(ABX_LOG_INFO, line, s->data);
}

static void open_stream(abx_epp_session *s, uv_pipe_t *pipe, bool *open, int fd)
{
    ABX_CHECK(uv_pipe_init(s->loop, pipe, 0) == 0);
    pipe->data = s;
    s->handles++;
    *open = true;
    ABX_CHECK(uv_pipe_open(pipe, fd) == 0);
}

static int make_pipe(int ends[2], abx_error **err)
{
    if (pipe2(ends, O_CLOEXEC) < 0)
        return abx_fail_errno(err, ABX_ERR_PROVIDER_START, errno, "cannot make a pipe");
    (void)fcntl(ends[0], F_SETPIPE_SZ, PIPE_SIZE);
    return 0;
}

/* Not for every session: the pipes of a user may have 64 MiB together, and beyond that those of all its programs are small. */
void epp_widen(abx_epp_session *s)
{
    uv_os_fd_t fd;
    if (!s->wide && uv_fileno((uv_handle_t *)&s->from, &fd) == 0)
        (void)fcntl(fd, F_SETPIPE_SZ, WIDE_PIPE_SIZE);
    s->wide = true;
}

/* Start the child on three pipes; ours are opened as streams. */
static int spawn(abx_epp_session *s, const abx_epp_session_options *o, abx_error **err)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, say[2] = {-1, -1};
    int rc = -1;
    s->mark = abx_kin_mark();
    abx_child_apart apart = {
        .mark = s->mark, .program_fd = o->program_fd, .is_script = o->is_script};
    if (make_pipe(in, err) == 0 && make_pipe(out, err) == 0 && make_pipe(say, err) == 0) {
        abx_child_options child = {.path = o->path,
                                   .argv = o->argv,
                                   .envp = o->envp,
                                   .cwd = o->cwd,
                                   .stdio = {in[0], out[1], say[1]},
                                   .fd3 = o->extra_fd > 0 ? o->extra_fd : -1,
                                   .apart = &apart,
                                   .keeper = o->keeper,
                                   .on_exit = epp_on_exit,
                                   .data = s};
        abx_error *why = NULL;
        rc = abx_child_start(s->loop, &child, &s->child, &why);
        if (rc < 0)
            abx_fail(err, ABX_ERR_PROVIDER_START, "%s", why->message);
        abx_error_free(why);
    }
    abx_close_fd(&in[0]);
    abx_close_fd(&out[1]);
    abx_close_fd(&say[1]);
    if (rc == 0) {
        s->has_child = true;
        s->pid = abx_child_pid(s->child);
        open_stream(s, &s->to, &s->to_open, in[1]);
        open_stream(s, &s->from, &s->from_open, out[0]);
        open_stream(s, &s->said, &s->said_open, say[0]);
        return 0;
    }
    abx_close_fd(&in[1]);
    abx_close_fd(&out[0]);
    abx_close_fd(&say[0]);
    return -1;
}

/* When memory runs out a plugin that eats it goes first, not we. */
static void offer_to_oom(pid_t pid)
{
    ABX_AUTO_FREE char *path = abx_format("/proc/%d/oom_score_adj", (int)pid);
    ABX_AUTO_FD fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "500", 3) < 0)
        return;
}

static void say_hello(abx_epp_session *s, const abx_epp_session_options *o)
{
    pending *p = epp_pending_new(s, PENDING_HELLO);
    p->due_ms = abx_now_mono_ms() + (o->start_ms ? o->start_ms : ABX_EPP_START_MS);
    epp_arm(s, p->due_ms);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_epp_message(p->id, "initialize", &root);
    yyjson_mut_val *params = abx_mut_obj(d, root, "params");
    abx_mut_str(d, params, "protocol", ABX_EPP_PROTOCOL);
    abx_mut_str(d, params, "hostVersion", o->host_version ? o->host_version : "0");
    size_t i, n;
    yyjson_val *key, *value;
    if (o->greeting)
        yyjson_obj_foreach(o->greeting, i, n, key, value)
            abx_mut_val(d, params, yyjson_get_str(key), value);
    abx_mut_int(d, params, "callTimeoutMs", (int64_t)s->call_ms);
    abx_mut_bool(d, params, "raw", true);
    abx_mut_bool(d, params, "flow", true);
    ABX_CHECK(abx_json_write_mut(root, &s->out) == 0 && abx_buf_add_byte(&s->out, '\n') == 0);
    abx_mut_wipe(d); /* secrets are in it */
    epp_flush(s);
    explicit_bzero(s->out.data, s->out.cap);
}

abx_epp_session *abx_epp_session_open(const abx_epp_session_options *o)
{
    abx_epp_session *s = ABX_NEW(abx_epp_session);
    s->loop = o->loop;
    s->name = abx_strdup(o->name);
    s->strict = o->strict;
    s->alone = o->alone;
    s->call_ms = o->call_ms ? o->call_ms : ABX_EPP_CALL_MS;
    s->on_ready = o->on_ready;
    s->on_fault = o->on_fault;
    s->on_log = o->on_log;
    s->data = o->data;
    s->next_id = 1;
    s->timer_at = s->settle_ms = s->force_ms = s->stuck_ms = s->said_since_ms = ABX_FOREVER;
    abx_secrets_init(&s->secrets, o->secrets);
    abx_epp_words_init(&s->words, &s->secrets, on_words, s);
    abx_epp_reader_init(&s->reader, &reader_handlers, s);
    abx_buf_init(&s->out, SIZE_MAX / 2);
    s->read_buffer = abx_alloc(READ_SIZE);
    s->error_buffer = abx_alloc(ERROR_READ_SIZE);
    ABX_CHECK(uv_timer_init(s->loop, &s->timer) == 0);
    s->timer.data = s;
    s->handles = 1;
    if (!o->path) {
        s->exited = true;
        open_stream(s, &s->to, &s->to_open, o->write_fd);
        open_stream(s, &s->from, &s->from_open, o->read_fd);
    } else if (spawn(s, o, &s->start_error) < 0) {
        s->state = STATE_GONE;
        epp_arm(s, 0);
        return s;
    } else {
        offer_to_oom(s->pid);
    }
    epp_update_reading(s);
    say_hello(s, o);
    return s;
}

bool abx_epp_session_has_flow(const abx_epp_session *s)
{
    return s->flow;
}
