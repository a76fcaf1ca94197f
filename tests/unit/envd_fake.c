#include "envd_fake.h"

#include <signal.h>
#include <strings.h>
#include <sys/socket.h>

#include "ops/call_host.h"

typedef struct fake_conn {
    struct fake_conn *next;
    fake *f;
    uv_pipe_t pipe;
    abx_buf in;
    fake_request *now; /* its head came, the body not yet */
    fake_answer *answer;
    size_t sent;
    bool closing, answered;
} fake_conn;

typedef struct fake_write {
    uv_write_t req;
    fake_conn *c;
} fake_write;

/* --- connections ------------------------------------------------------------------------------------------ */
static void on_closed(uv_handle_t *h)
{
    fake_conn *c = h->data, **at = &c->f->list;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    c->f->conns--;
    abx_buf_clear(&c->in);
    free(c);
}

static void conn_close(fake_conn *c)
{
    if (c->closing)
        return;
    c->closing = true;
    if (c->f->held == c)
        c->f->held = NULL;
    uv_close((uv_handle_t *)&c->pipe, on_closed);
}

static void serve(fake_conn *c);
static void send_part(fake_conn *c);

static void on_written(uv_write_t *req, int status)
{
    fake_write *w = (fake_write *)req;
    fake_conn *c = w->c;
    free(w);
    if (c->closing)
        return;
    if (status < 0)
        conn_close(c);
    else
        send_part(c);
}

static void send_part(fake_conn *c)
{
    fake_answer *a = c->answer;
    size_t n = a->n - c->sent;
    if (n == 0) {
        c->answer = NULL;
        if (a->close)
            conn_close(c);
        else if (!c->now)
            serve(c);
        return;
    }
    if (a->piece && n > a->piece)
        n = a->piece;
    fake_write *w = ABX_NEW(fake_write);
    w->c = c;
    uv_buf_t b = uv_buf_init(a->bytes + c->sent, (unsigned)n);
    c->sent += n;
    if (uv_write(&w->req, (uv_stream_t *)&c->pipe, &b, 1, on_written) < 0) {
        free(w);
        conn_close(c);
    }
}

static void answer(fake_conn *c)
{
    static char health[] = "HTTP/1.1 204 No Content\r\n\r\n";
    static fake_answer well = {.bytes = health, .n = sizeof health - 1};
    fake *f = c->f;
    if (c->answered)
        return;
    c->answered = true;
    if (f->well && strncmp(f->requests[f->request_count - 1]->head, "GET /health ", 12) == 0)
        c->answer = &well;
    else if (f->answer_next == f->answer_count)
        fail_msg("no answer is left for: %s", f->requests[f->request_count - 1]->head);
    else
        c->answer = &f->answers[f->answer_next++];
    c->sent = 0;
    if (c->answer->hold)
        f->held = c;
    else
        send_part(c);
}

/* Take whole chunks out of raw. True when the last one came. */
static bool unchunk(fake_request *r)
{
    for (;;) {
        char *line = r->raw.len ? memmem(r->raw.data, r->raw.len, "\r\n", 2) : NULL;
        if (!line)
            return false;
        size_t head = (size_t)(line - (char *)r->raw.data) + 2,
               n = strtoul((char *)r->raw.data, NULL, 16);
        if (r->raw.len < head + n + 2)
            return false;
        assert_int_equal(abx_buf_add(&r->body, r->raw.data + head, n), 0);
        abx_buf_drop(&r->raw, head + n + 2);
        if (n == 0)
            return true;
    }
}

static char *header_of(const char *head, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = strstr(head, "\r\n"); p; p = strstr(p + 2, "\r\n"))
        if (strncasecmp(p + 2, name, n) == 0 && p[2 + n] == ':') {
            const char *v = p + 3 + n;
            v += strspn(v, " ");
            return abx_strndup(v, strcspn(v, "\r"));
        }
    return NULL;
}

static bool take_head(fake_conn *c)
{
    fake *f = c->f;
    uint8_t *end = c->in.len ? memmem(c->in.data, c->in.len, "\r\n\r\n", 4) : NULL;
    if (!end)
        return false;
    fake_request *r = ABX_NEW(fake_request);
    size_t n = (size_t)(end - c->in.data) + 4;
    r->head = abx_strndup((char *)c->in.data, n);
    abx_buf_drop(&c->in, n);
    abx_buf_init(&r->body, (size_t)1 << 30);
    abx_buf_init(&r->raw, (size_t)1 << 30);
    ABX_AUTO_FREE char *length = header_of(r->head, "Content-Length");
    ABX_AUTO_FREE char *coding = header_of(r->head, "Transfer-Encoding");
    r->chunked = coding != NULL;
    r->length = length ? strtoul(length, NULL, 10) : 0;
    assert_true(f->request_count < FAKE_MAX);
    f->requests[f->request_count++] = r;
    c->now = r;
    c->answered = false;
    return true;
}

static void serve(fake_conn *c)
{
    if (c->answer || c->closing || (!c->now && !take_head(c)))
        return;
    fake *f = c->f;
    fake_request *r = c->now;
    if (f->answer_next < f->answer_count && f->answers[f->answer_next].at_once)
        answer(c);
    size_t n =
        r->chunked || c->in.len < r->length - r->body.len ? c->in.len : r->length - r->body.len;
    if (n > 0)
        assert_int_equal(abx_buf_add(r->chunked ? &r->raw : &r->body, c->in.data, n), 0);
    abx_buf_drop(&c->in, n);
    if (r->chunked ? !unchunk(r) : r->body.len < r->length)
        return;
    c->now = NULL;
    answer(c);
}

static void on_alloc(uv_handle_t *h, size_t n, uv_buf_t *b)
{
    *b = uv_buf_init(abx_alloc(65536), 65536);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
    fake_conn *c = s->data;
    if (n > 0)
        assert_int_equal(abx_buf_add(&c->in, b->base, (size_t)n), 0);
    free(b->base);
    if (n < 0)
        conn_close(c);
    else
        serve(c);
}

static int on_dial(void *data, abx_error **err)
{
    fake *f = data;
    int pair[2];
    f->dials++;
    if (f->refuse)
        return abx_fail(err, ABX_ERR_NETWORK, "nobody listens");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    fake_conn *c = ABX_NEW(fake_conn);
    c->f = f;
    c->next = f->list;
    f->list = c;
    f->conns++;
    abx_buf_init(&c->in, (size_t)1 << 30);
    uv_pipe_init(&f->loop, &c->pipe, 0);
    c->pipe.data = c;
    assert_int_equal(uv_pipe_open(&c->pipe, pair[0]), 0);
    uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read);
    return pair[1];
}

static int on_alive(void *data)
{
    return ((fake *)data)->alive;
}

/* --- life ----------------------------------------------------------------------------------------------------- */
void fake_open_options(fake *f, const abx_envd_client_options *options)
{
    abx_error *err = NULL;
    memset(f, 0, sizeof *f);
    signal(SIGPIPE, SIG_IGN); /* the client may hang up while an answer is written */
    uv_loop_init(&f->loop);
    f->alive = 1;
    f->well = options->alive != NULL;
    abx_envd_client_options o = *options;
    o.loop = &f->loop;
    if (!o.base_url)
        o.base_url = "http://envd";
    o.sandbox_id = "sb1";
    o.token = "secret";
    o.dial = on_dial;
    o.dial_data = f;
    if (abx_envd_client_open(&o, &f->client, &err) < 0)
        fail_msg("%s", abx_error_text(err));
}

void fake_open(fake *f, abx_e2b_codec codec, bool abx)
{
    fake_open_options(f, &(abx_envd_client_options){.codec = codec, .abx = abx, .alive = on_alive});
}

void fake_open_asking(fake *f, abx_e2b_codec codec, bool abx)
{
    fake_open_options(f, &(abx_envd_client_options){.codec = codec, .abx = abx});
}

static void on_client_closed(void *data)
{
    ((fake *)data)->closed = true;
}

void fake_close(fake *f)
{
    abx_envd_client_close(f->client, on_client_closed, f);
    for (fake_conn *c = f->list; c; c = c->next)
        conn_close(c);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_true(f->closed);
    assert_int_equal(f->conns, 0);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    for (size_t i = 0; i < f->request_count; i++) {
        free(f->requests[i]->head);
        abx_buf_clear(&f->requests[i]->body);
        abx_buf_clear(&f->requests[i]->raw);
        free(f->requests[i]);
    }
    for (size_t i = 0; i < f->answer_count; i++)
        free(f->answers[i].bytes);
}

/* --- the script -------------------------------------------------------------------------------------------------- */
fake_answer *fake_say(fake *f, const void *bytes, size_t n)
{
    assert_true(f->answer_count < FAKE_MAX);
    fake_answer *a = &f->answers[f->answer_count++];
    a->bytes = abx_alloc(n + 1);
    memcpy(a->bytes, bytes, n);
    a->n = n;
    return a;
}

fake_answer *fake_reply(fake *f, const char *status, const char *type, const char *body)
{
    ABX_AUTO_FREE char *text =
        abx_format("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n%s", status, type,
                   strlen(body), body);
    return fake_say(f, text, strlen(text));
}

fake_answer *fake_stream(fake *f, const char *const *messages)
{
    ABX_AUTO_BUF b = ABX_BUF(1 << 20);
    assert_int_equal(abx_buf_add_str(&b,
                                     "HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\n"
                                     "Transfer-Encoding: chunked\r\n\r\n"),
                     0);
    for (; *messages; messages++) {
        const char *m = *messages;
        bool end = *m == '!';
        m += end;
        size_t n = strlen(m);
        uint8_t head[5] = {end ? 2 : 0, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
                           (uint8_t)n};
        assert_int_equal(abx_buf_addf(&b, "%zx\r\n", n + 5), 0);
        assert_int_equal(abx_buf_add(&b, head, 5), 0);
        assert_int_equal(abx_buf_addf(&b, "%s\r\n", m), 0);
    }
    assert_int_equal(abx_buf_add_str(&b, "0\r\n\r\n"), 0);
    return fake_say(f, b.data, b.len);
}

void fake_go_on(fake *f)
{
    assert_non_null(f->held);
    fake_conn *c = f->held;
    f->held = NULL;
    send_part(c);
}

/* --- calls --------------------------------------------------------------------------------------------------------- */
static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    fake_run *run = data;
    ABX_AUTO_FREE char *text = abx_json_text(event);
    assert_int_equal(run->ends, 0);
    assert_int_equal(abx_buf_addf(&run->events, "%s %s\n", type, text), 0);
}

static void on_go_on(uv_timer_t *t)
{
    fake_run *run = t->data;
    if (run->ends == 0)
        abx_call_resume(run->call);
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    fake_run *run = data;
    run->chunks++;
    assert_int_equal(abx_buf_add(&run->out[channel], bytes, n), 0);
    if (run->pause_each) {
        abx_call_pause(c);
        uv_timer_start(&run->timer, on_go_on, 0, 0);
    }
}

static void on_writable(abx_call *c, void *data)
{
    ((fake_run *)data)->writable++;
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    fake_run *run = data;
    run->ends++;
    run->call = NULL;
    assert_true((result != NULL) != (err != NULL));
    run->result = result ? abx_json_text(result) : NULL;
    run->err = err ? abx_error_copy(err) : NULL;
}

static bool has_ended(void *data)
{
    return ((fake_run *)data)->ends > 0;
}

void fake_start(fake *f, fake_run *run, const char *method, const char *params)
{
    static const abx_call_handlers handlers = {on_event, on_chunk, on_writable, on_end};
    memset(run, 0, sizeof *run);
    run->f = f;
    abx_buf_init(&run->events, 1 << 20);
    for (size_t i = 0; i < ABX_CH_COUNT; i++)
        abx_buf_init(&run->out[i], (size_t)1 << 30);
    uv_timer_init(&f->loop, &run->timer);
    run->timer.data = run;
    yyjson_doc *doc = yyjson_read(params, strlen(params), 0);
    assert_non_null(doc);
    const abx_op_row *row = abx_op_find(method);
    assert_non_null(row);
    run->call = abx_call_new(&f->loop, row->id, doc, &handlers, run);
    abx_call_enter_start(run->call);
    int rc = abx_envd_client_start(f->client, run->call, &run->err);
    abx_call_leave_start(run->call);
    if (rc < 0) {
        assert_non_null(run->err);
        abx_call_discard(run->call);
        run->call = NULL;
        run->ends = 1;
    }
}

void fake_until(fake *f, bool (*cond)(void *data), void *data)
{
    while (!cond(data))
        if (uv_run(&f->loop, UV_RUN_ONCE) == 0 && !cond(data))
            fail_msg("nothing is left to wait for");
}

void fake_wait(fake_run *run)
{
    fake_until(run->f, has_ended, run);
    assert_int_equal(run->ends, 1);
}

static void on_timer_closed(uv_handle_t *h)
{
    ((fake_run *)h->data)->timer.data = NULL;
}

static bool timer_is_closed(void *data)
{
    return !((fake_run *)data)->timer.data;
}

void fake_run_clear(fake_run *run)
{
    uv_close((uv_handle_t *)&run->timer, on_timer_closed);
    fake_until(run->f, timer_is_closed, run);
    abx_buf_clear(&run->events);
    for (size_t i = 0; i < ABX_CH_COUNT; i++)
        abx_buf_clear(&run->out[i]);
    free(run->result);
    abx_error_free(run->err);
}

void fake_call(fake *f, fake_run *run, const char *method, const char *params)
{
    fake_start(f, run, method, params);
    fake_wait(run);
}

const char *fake_body(const fake *f, size_t i)
{
    assert_true(i < f->request_count);
    return abx_buf_cstr(&f->requests[i]->body);
}

const char *fake_message(const fake *f, size_t i)
{
    assert_true(f->requests[i]->body.len >= 5);
    return fake_body(f, i) + 5;
}

char *fake_header(const fake *f, size_t i, const char *name)
{
    assert_true(i < f->request_count);
    return header_of(f->requests[i]->head, name);
}

void fake_assert_error(const fake_run *run, const char *name, const char *text)
{
    assert_null(run->result);
    assert_non_null(run->err);
    assert_string_equal(abx_err_row_of(run->err->id)->name, name);
    if (!strstr(run->err->message, text))
        fail_msg("'%s' does not say '%s'", run->err->message, text);
}

void fake_assert_result(const fake_run *run, const char *result)
{
    if (run->err)
        fail_msg("%s", run->err->message);
    assert_string_equal(run->result, result);
}

void fake_done(fake *f, fake_run *run)
{
    fake_run_clear(run);
    fake_close(f);
}
