/* sandbox.tunnel: a connection of its own to our envd, which leaves HTTP after one request and then carries bytes. */
#include "e2b/client_inner.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"

enum { READS_AT_ONCE = 8, MAX_HEAD = 16 * 1024 };

typedef struct tunnel {
    uv_poll_t poll;
    int fd;
    int mask;
    bool polled;
    bool open;        /* the head of the answer was read, and it was a yes */
    bool held;        /* the caller takes no more now */
    bool ended;       /* nothing more comes from the sandbox */
    bool input_ended; /* nor from the caller */
    bool shut;        /* and the sandbox was told so */
    abx_buf request;  /* not sent yet; nothing follows it before the answer */
    abx_buf head;     /* of the answer, while it comes; of a refusal the whole of it */
    abx_buf out;      /* input that is not sent yet */
} tunnel;

static void on_poll(uv_poll_t *poll, int status, int events);

static void poll_gone(uv_handle_t *handle)
{
    abx__envd_job_unref(handle->data);
}

static void stop(abx__envd_job *job)
{
    tunnel *t = job->state;
    if (t->polled) {
        t->polled = false;
        (void)uv_poll_stop(&t->poll);
        uv_close((uv_handle_t *)&t->poll, poll_gone);
    }
    abx_close_fd(&t->fd);
}

static void clear(abx__envd_job *job)
{
    tunnel *t = job->state;
    abx_buf_clear(&t->request);
    abx_buf_clear(&t->head);
    abx_buf_clear(&t->out);
}

/* What may be sent now. */
static abx_buf *to_send(tunnel *t)
{
    return t->open ? &t->out : &t->request;
}

static void set_mask(abx__envd_job *job)
{
    tunnel *t = job->state;
    int mask = (!t->ended && !t->held ? UV_READABLE : 0) | (to_send(t)->len > 0 ? UV_WRITABLE : 0);
    if (t->ended) /* hang-ups are told of whatever is watched */
        mask |= UV_PRIORITIZED;
    if (job->ended || mask == t->mask)
        return;
    t->mask = mask;
    if (mask)
        (void)uv_poll_start(&t->poll, mask, on_poll);
    else
        (void)uv_poll_stop(&t->poll);
}

static void on_broken(abx__envd_job *job, abx_error *err)
{
    abx__envd_job_fail(job, err);
}

static void broken(abx__envd_job *job, int e)
{
    ABX_AUTO_ERROR err = NULL;
    abx_fail_errno(&err, ABX_ERR_NETWORK, e, "the connection to the port broke");
    abx__envd_job_broken(job, err, on_broken);
}

/* --- to the sandbox ----------------------------------------------------------------------------------- */
static int send_out(abx__envd_job *job)
{
    tunnel *t = job->state;
    abx_buf *from = to_send(t);
    while (from->len > 0) {
        ssize_t n = send(t->fd, from->data, from->len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (n < 0) {
            broken(job, errno);
            return -1;
        }
        abx_buf_drop(from, (size_t)n);
    }
    if (t->open && t->input_ended && !t->shut) {
        t->shut = true;
        (void)shutdown(t->fd, SHUT_WR);
    }
    return 0;
}

static void check_end(abx__envd_job *job)
{
    const tunnel *t = job->state;
    if (t->ended && t->shut)
        abx__envd_job_end(job, NULL);
    else
        set_mask(job);
}

static int input(abx__envd_job *job, const uint8_t *bytes, size_t n)
{
    tunnel *t = job->state;
    bool waits = t->out.len > 0 || !t->open;
    if (abx_buf_add(&t->out, bytes, n) < 0) {
        abx__envd_job_fail(job, abx_error_new(ABX_ERR_TOO_LARGE, "too many bytes wait"));
        return 1;
    }
    if (waits || send_out(job) < 0)
        return 0;
    set_mask(job);
    return t->out.len == 0;
}

static void input_end(abx__envd_job *job)
{
    tunnel *t = job->state;
    t->input_ended = true;
    if (t->open && send_out(job) == 0)
        check_end(job);
}

/* --- from the sandbox ----------------------------------------------------------------------------------- */
/* {"code":502,"message":"…"} behind the head of a refusal. */
static void refused(abx__envd_job *job, int status, const char *body, size_t n)
{
    ABX_AUTO_JSON doc =
        n > 0 ? abx_json_parse(body, n, ABX_ERR_BACKEND_ANSWER, "answer", NULL) : NULL;
    ABX_AUTO_FREE char *message = abx_printable(
        abx_json_str(yyjson_doc_get_root(doc), "message", "the port cannot be reached"));
    abx_err_id id = status == 409   ? ABX_ERR_CONFLICT
                    : status == 429 ? ABX_ERR_QUOTA
                    : status == 401 ? ABX_ERR_API_KEY
                    : status == 502 ? ABX_ERR_PORT_NOT_FOUND
                                    : ABX_ERR_NETWORK;
    abx_error *err = abx_error_new(id, "%s", message);
    if (status == 409)
        (void)abx_hint(&err, "'abx resume %s' lets it go on", job->client->sandbox_id);
    abx__envd_job_fail(job, err);
}

/* One more piece of the answer. 1: the connection stands, and the piece from *used on belongs to it. 0: not whole yet. -1: the
 * job is over. */
static int read_head(abx__envd_job *job, const uint8_t *bytes, size_t n, size_t *used)
{
    tunnel *t = job->state;
    int status = 0;
    size_t before = t->head.len, room = MAX_HEAD - before;
    ABX_CHECK(abx_buf_add(&t->head, bytes, n < room ? n : room) == 0);
    const char *text = abx_buf_cstr(&t->head);
    const char *end = memmem(text, t->head.len, "\r\n\r\n", 4);
    if (!end && n >= room)
        abx__envd_job_fail(job,
                           abx__envd_bad_answer(job->client, "the head of the answer is too long"));
    if (!end)
        return n >= room ? -1 : 0;
    size_t head = (size_t)(end - text) + 4;
    *used = head - before;
    if (sscanf(text, "HTTP/1.1 %d", &status) != 1) {
        abx__envd_job_fail(job, abx__envd_bad_answer(job->client, "the answer is not HTTP"));
        return -1;
    }
    if (status == 101)
        return 1;
    /* the reason follows; the server closes or says how long it is */
    const char *length = strcasestr(text, "\r\ncontent-length:");
    size_t want = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
    size_t have = t->head.len - head;
    if (have < want && n < room)
        return 0;
    refused(job, status, text + head, have < want ? have : want);
    return -1;
}

/* 0: go on; -1: the job is over or held. */
static int take(abx__envd_job *job, const uint8_t *bytes, size_t n)
{
    tunnel *t = job->state;
    if (t->open) {
        t->held = abx_call_chunk(job->call, ABX_CH_BODY, bytes, n) == 0;
        return t->held ? -1 : 0;
    }
    size_t used = 0;
    int rc = read_head(job, bytes, n, &used);
    if (rc <= 0)
        return rc;
    t->open = true;
    abx_buf_clear(&t->head);
    abx_call_event(job->call, "started", NULL);
    if (n > used)
        t->held = abx_call_chunk(job->call, ABX_CH_BODY, bytes + used, n - used) == 0;
    if (send_out(job) < 0)
        return -1;
    if (t->out.len == 0)
        abx_call_want_input(job->call);
    return t->held ? -1 : 0;
}

/* Closed in both directions. */
static bool is_gone(const tunnel *t)
{
    struct pollfd p = {.fd = t->fd};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR | POLLNVAL));
}

static void receive(abx__envd_job *job)
{
    tunnel *t = job->state;
    uint8_t bytes[ABX__ENVD_PIECE];
    for (int i = 0; i < READS_AT_ONCE && !job->ended && !t->held && !t->ended; i++) {
        ssize_t n = recv(t->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            broken(job, errno);
        if (n < 0)
            return;
        if (n == 0 && !t->open) {
            broken(job, ECONNRESET);
            return;
        }
        if (n == 0 && !t->shut && is_gone(t)) { /* not only its direction ended */
            broken(job, ECONNRESET);
            return;
        }
        if (n == 0) {
            t->ended = true;
            abx_call_event(job->call, "end", NULL);
            return;
        }
        if (take(job, bytes, (size_t)n) < 0)
            return;
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    abx__envd_job *job = poll->data;
    tunnel *t = job->state;
    job->refs++; /* what follows may end it */
    if (status < 0 || (events & UV_PRIORITIZED))
        broken(job, status < 0 ? -status : ECONNRESET);
    if (!job->ended && (events & UV_WRITABLE) && send_out(job) == 0 && t->out.len == 0 && t->open &&
        !t->input_ended)
        abx_call_want_input(job->call);
    if (!job->ended && (events & UV_READABLE))
        receive(job);
    if (!job->ended)
        check_end(job);
    abx__envd_job_unref(job);
}

static void resume(abx__envd_job *job)
{
    tunnel *t = job->state;
    t->held = false;
    set_mask(job);
}

static int start(abx__envd_job *job, abx_error **err)
{
    tunnel *t = job->state;
    abx_envd_client *c = job->client;
    int64_t port = abx__envd_param_int(job, "port", 0);
    t->fd = -1;
    abx_buf_init(&t->request, MAX_HEAD);
    abx_buf_init(&t->head, MAX_HEAD);
    abx_buf_init(&t->out, (size_t)4 * 1024 * 1024);
    if (!c->abx || !c->dial)
        return abx_fail(err, ABX_ERR_FEATURE_MISSING,
                        "this sandbox has no connections to its ports");
    if (port < 1 || port > 65535)
        return abx_fail(err, ABX_ERR_USAGE, "'port' must be from 1 to 65535, not %" PRId64, port);
    t->fd = c->dial(c->dial_data, err);
    if (t->fd < 0)
        return -1;
    if (abx_buf_addf(&t->request,
                     "GET /abx/tunnel?port=%" PRId64
                     " HTTP/1.1\r\nHost: envd\r\nX-Access-Token: %s\r\n"
                     "Connection: Upgrade\r\nUpgrade: abx-tunnel\r\n\r\n",
                     port, c->token ? c->token : "") < 0 ||
        uv_poll_init(c->loop, &t->poll, t->fd) < 0)
        return abx_fail(err, ABX_ERR_NETWORK, "cannot use this connection");
    t->poll.data = job;
    t->polled = true;
    job->refs++;
    set_mask(job);
    return 0;
}

const abx__envd_op abx__envd_tunnel = {.state_size = sizeof(tunnel),
                                       .start = start,
                                       .input = input,
                                       .input_end = input_end,
                                       .clear = clear,
                                       .resume = resume,
                                       .stop = stop};
