/* The HTTP client against our server, over TCP and over dialled Unix sockets, on one loop. */
#include "net_app.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "net/http_client.h"

typedef struct world {
    app a;
    abx_http *http;
    int port;
    int dials;
    bool no_dial;
    int http_closed;
} world;

typedef struct call {
    world *w;
    abx_http_transfer *t;
    int status;
    int ends;
    bool inside_start;
    abx_error *err;
    char header[64];
    uint64_t body_len;
    char body[256]; /* its first bytes */
    bool check;     /* against app_byte */
    bool pause_each, cancel_on_head, cancel_on_body;
    uint64_t to_send, sent;
    size_t writables;
    bool held_once;
} call;

static int dial(void *data, abx_error **err)
{
    world *w = data;
    int pair[2];

    w->dials++;
    if (w->no_dial)
        return abx_fail(err, ABX_ERR_SANDBOX_NOT_FOUND, "nobody is there");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    assert_int_equal(abx_http_server_adopt(w->a.server, pair[0], NULL, NULL, err), 0);
    return pair[1];
}

static void world_open(world *w, bool dialled, const abx_http_server_options *server)
{
    abx_http_options options = {.dial = dialled ? dial : NULL, .dial_data = w};
    ABX_AUTO_ERROR err = NULL;

    memset(w, 0, sizeof *w);
    app_open(&w->a, server);
    if (!dialled)
        assert_int_equal(abx_http_server_listen_tcp(w->a.server, "127.0.0.1", 0, &w->port, &err),
                         0);
    assert_int_equal(abx_http_open(&w->a.loop, &options, &w->http, &err), 0);
}

static void http_closed(void *data)
{
    ((world *)data)->http_closed++;
}

static void world_close(world *w)
{
    if (w->http)
        abx_http_close(w->http, http_closed, w);
    app_close(&w->a);
    assert_int_equal(w->http_closed, 1);
}

static void on_head(abx_http_transfer *t, int status, const abx_http_headers *headers, void *data)
{
    call *c = data;
    const char *type = abx_http_headers_get(headers, "content-type");

    assert_false(c->inside_start);
    c->status = status;
    snprintf(c->header, sizeof c->header, "%s", type ? type : "");
    if (c->cancel_on_head)
        abx_http_cancel(t);
}

static void unpause(uv_timer_t *timer)
{
    call *c = timer->data;

    if (c->t)
        abx_http_resume(c->t);
    uv_close((uv_handle_t *)timer, (uv_close_cb)(void (*)(void))free);
}

static void on_body(abx_http_transfer *t, const uint8_t *bytes, size_t n, void *data)
{
    call *c = data;

    assert_false(c->inside_start);
    for (size_t i = 0; i < n; i++) {
        if (c->check)
            assert_int_equal(bytes[i], app_byte(c->body_len));
        if (c->body_len < sizeof c->body - 1)
            c->body[c->body_len] = (char)bytes[i];
        c->body_len++;
    }
    if (c->pause_each && !c->held_once) {
        uv_timer_t *timer = ABX_NEW(uv_timer_t);
        c->held_once = true;
        abx_http_pause(t);
        uv_timer_init(&c->w->a.loop, timer);
        timer->data = c;
        uv_timer_start(timer, unpause, 30, 0);
    }
    if (c->cancel_on_body)
        abx_http_cancel(t);
}

static void send_more(abx_http_transfer *t, void *data)
{
    call *c = data;
    uint8_t chunk[10000];

    c->writables++;
    while (c->sent < c->to_send) {
        size_t n =
            c->to_send - c->sent < sizeof chunk ? (size_t)(c->to_send - c->sent) : sizeof chunk;
        for (size_t i = 0; i < n; i++)
            chunk[i] = app_byte(c->sent + i);
        c->sent += n;
        if (!abx_http_write(t, chunk, n))
            return;
    }
    abx_http_write_end(t);
}

static void on_end(abx_http_transfer *t, const abx_error *err, void *data)
{
    call *c = data;

    (void)t;
    assert_false(c->inside_start);
    c->ends++;
    c->t = NULL;
    c->err = err ? abx_error_copy(err) : NULL;
}

static const abx_http_handlers handlers = {on_head, on_body, send_more, on_end};

static void start(call *c, world *w, const char *method, const char *path, abx_http_request r)
{
    ABX_AUTO_ERROR err = NULL;
    char url[256];

    c->w = w;
    if (w->port)
        snprintf(url, sizeof url, "http://127.0.0.1:%d%s", w->port, path);
    else
        snprintf(url, sizeof url, "http://sandbox.invalid%s", path);
    r.method = method;
    r.url = url;
    c->inside_start = true;
    int rc = abx_http_start(w->http, &r, &handlers, c, &c->t, &err);
    c->inside_start = false;
    if (rc < 0)
        fail_msg("%s", abx_error_text(err));
}

static void wait_end(call *c)
{
    while (!c->ends)
        uv_run(&c->w->a.loop, UV_RUN_ONCE);
    assert_int_equal(c->ends, 1);
}

static void clear(call *c)
{
    abx_error_free(c->err);
    memset(c, 0, sizeof *c);
}

static void each_transport(void (*test)(bool dialled))
{
    test(false);
    test(true);
}

static void simple(bool dialled)
{
    world w;
    call c = {0};

    world_open(&w, dialled, NULL);
    for (int i = 0; i < 3; i++) {
        start(&c, &w, "GET", "/hello", (abx_http_request){0});
        wait_end(&c);
        assert_null(c.err);
        assert_int_equal(c.status, 200);
        assert_string_equal(c.body, "hello");
        assert_string_equal(c.header, "text/plain");
        clear(&c);
    }
    assert_int_equal(abx_http_server_connections(w.a.server), 1); /* kept alive */
    start(&c, &w, "HEAD", "/hello", (abx_http_request){0});
    wait_end(&c);
    assert_true(!c.err && c.status == 200 && c.body_len == 0);
    clear(&c);
    start(&c, &w, "POST", "/echo", (abx_http_request){.body = "some bytes", .body_len = 10});
    wait_end(&c);
    assert_string_equal(c.body, "some bytes");
    clear(&c);
    start(&c, &w, "PUT", "/echo", (abx_http_request){0});
    wait_end(&c);
    assert_true(!c.err && c.status == 200 && c.body_len == 0);
    clear(&c);
    start(&c, &w, "DELETE", "/empty", (abx_http_request){0});
    wait_end(&c);
    assert_true(!c.err && c.status == 204);
    clear(&c);
    const char *lines[] = {"X-Test: a value"};
    start(&c, &w, "GET", "/header", (abx_http_request){.headers = lines, .header_count = 1});
    wait_end(&c);
    assert_string_equal(c.body, "a value");
    clear(&c);
    start(&c, &w, "GET", "/nowhere/../nothing", (abx_http_request){0});
    wait_end(&c);
    assert_int_equal(c.status, 404);
    clear(&c);
    assert_non_null(strstr(w.a.log, "HEAD /hello;POST /echo;PUT /echo;DELETE /empty;"));
    assert_non_null(strstr(w.a.log, "GET /nowhere/../nothing;"));
    world_close(&w);
}

static void test_simple(void **state)
{
    (void)state;
    each_transport(simple);
}

static void many(bool dialled)
{
    world w;
    call c[50] = {0};

    world_open(&w, dialled, NULL);
    for (int i = 0; i < 50; i++)
        start(&c[i], &w, "GET", i % 2 ? "/hello" : "/stream?n=100000", (abx_http_request){0});
    for (int i = 0; i < 50; i++) {
        wait_end(&c[i]);
        assert_null(c[i].err);
        assert_int_equal(c[i].body_len, i % 2 ? 5 : 100000);
        clear(&c[i]);
    }
    world_close(&w);
}

static void test_many(void **state)
{
    (void)state;
    each_transport(many);
}

static void big_down(bool dialled)
{
    world w;
    call c = {.check = true, .pause_each = true};

    world_open(&w, dialled, NULL);
    start(&c, &w, "GET", "/stream?n=50000000", (abx_http_request){0});
    while (!c.held_once)
        uv_run(&w.a.loop, UV_RUN_ONCE);
    /* paused: what the server could write is bounded by sockets and buffers */
    for (int i = 0; i < 200; i++)
        uv_run(&w.a.loop, UV_RUN_NOWAIT);
    assert_true(w.a.streamed < 12000000);
    wait_end(&c);
    assert_null(c.err);
    assert_int_equal(c.body_len, 50000000);
    assert_true(w.a.most_pending < 400 * 1024);
    clear(&c);
    world_close(&w);
}

static void test_big_down(void **state)
{
    (void)state;
    each_transport(big_down);
}

static void big_up(bool dialled)
{
    for (int sized = 0; sized < 2; sized++) {
        world w;
        call c = {.to_send = 50000000};
        world_open(&w, dialled, NULL);
        start(&c, &w, "POST", "/hold-body",
              (abx_http_request){.body_stream = true, .body_size = sized ? 50000000 : -1});
        send_more(c.t, &c);
        assert_true(c.sent < 400000);
        for (int i = 0; i < 500; i++)
            uv_run(&w.a.loop, UV_RUN_NOWAIT);
        assert_true(c.sent < 12000000);
        abx_exchange_resume(w.a.held);
        wait_end(&c);
        assert_null(c.err);
        assert_string_equal(c.body, "50000000");
        assert_int_equal(w.a.uploaded, 50000000);
        clear(&c);
        world_close(&w);
    }
}

static void test_big_up(void **state)
{
    (void)state;
    each_transport(big_up);
}

static void slow_writer(bool dialled)
{
    world w;
    call c = {0};

    world_open(&w, dialled, NULL);
    start(&c, &w, "POST", "/echo", (abx_http_request){.body_stream = true, .body_size = -1});
    for (int i = 0; i < 5; i++) {
        for (int turn = 0; turn < 20; turn++)
            uv_run(&w.a.loop, UV_RUN_NOWAIT);
        abx_http_write(c.t, "part ", 5);
    }
    abx_http_write_end(c.t);
    wait_end(&c);
    assert_string_equal(c.body, "part part part part part ");
    clear(&c);
    world_close(&w);
}

static void test_slow_writer(void **state)
{
    (void)state;
    each_transport(slow_writer);
}

static void ends_with(call *c, abx_err_id id)
{
    wait_end(c);
    if (!c->err)
        fail_msg("no error");
    if (c->err->id != id)
        fail_msg("wrong error: %s %s", abx_error_code(c->err), c->err->message);
    clear(c);
}

static void cancels(bool dialled)
{
    world w;
    call c = {0};

    world_open(&w, dialled, NULL);
    start(&c, &w, "GET", "/hold", (abx_http_request){0}); /* before anything was sent */
    abx_http_cancel(c.t);
    ends_with(&c, ABX_ERR_CANCELLED);
    start(&c, &w, "GET", "/hold", (abx_http_request){0}); /* while waiting */
    while (!w.a.held)
        uv_run(&w.a.loop, UV_RUN_ONCE);
    abx_http_cancel(c.t);
    ends_with(&c, ABX_ERR_CANCELLED);
    c.cancel_on_head = true;
    start(&c, &w, "GET", "/stream?n=1000000", (abx_http_request){0});
    ends_with(&c, ABX_ERR_CANCELLED);
    c.cancel_on_body = true;
    start(&c, &w, "GET", "/stream?n=1000000", (abx_http_request){0});
    ends_with(&c, ABX_ERR_CANCELLED);
    c.pause_each = true;
    start(&c, &w, "GET", "/stream?n=9000000", (abx_http_request){0});
    while (!c.held_once)
        uv_run(&w.a.loop, UV_RUN_ONCE);
    abx_http_cancel(c.t); /* while paused */
    ends_with(&c, ABX_ERR_CANCELLED);
    c.to_send = 9000000;
    start(&c, &w, "POST", "/hold-body", (abx_http_request){.body_stream = true, .body_size = -1});
    send_more(c.t, &c);
    while (!w.a.held)
        uv_run(&w.a.loop, UV_RUN_ONCE);
    abx_http_cancel(c.t); /* in the middle of the body */
    ends_with(&c, ABX_ERR_CANCELLED);
    world_close(&w);
    assert_int_equal(w.a.held == NULL, 1);
}

static void test_cancels(void **state)
{
    (void)state;
    each_transport(cancels);
}

static void close_in_the_middle(bool dialled)
{
    world w;
    call c[4] = {{0}, {0}, {.pause_each = true}, {.to_send = 9000000}};

    world_open(&w, dialled, NULL);
    start(&c[0], &w, "GET", "/hold", (abx_http_request){0});
    start(&c[2], &w, "GET", "/stream?n=9000000", (abx_http_request){0});
    start(&c[3], &w, "POST", "/hold-body",
          (abx_http_request){.body_stream = true, .body_size = -1});
    send_more(c[3].t, &c[3]);
    while (!c[2].held_once || !w.a.held)
        uv_run(&w.a.loop, UV_RUN_ONCE);
    start(&c[1], &w, "GET", "/hello", (abx_http_request){0});
    world_close(&w);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(c[i].ends, 1);
        assert_int_equal(c[i].err->id, ABX_ERR_CANCELLED);
        clear(&c[i]);
    }
}

static void test_close_in_the_middle(void **state)
{
    (void)state;
    each_transport(close_in_the_middle);
}

static void test_proxy(void **state)
{
    (void)state;
    world w;
    call c = {0};
    ABX_AUTO_ERROR err = NULL;
    char proxy[64];

    world_open(&w, false, NULL);
    snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", w.port);
    setenv("http_proxy", proxy, 1);
    setenv("no_proxy", "spared.invalid", 1);
    abx_http_request r = {.method = "GET", .url = "http://far.invalid/hello"};
    c.w = &w;
    assert_int_equal(abx_http_start(w.http, &r, &handlers, &c, &c.t, &err), 0);
    wait_end(&c);
    assert_null(c.err);
    assert_string_equal(c.body, "hello");
    clear(&c);
    c.w = &w;
    r.url = "http://spared.invalid/hello";
    assert_int_equal(abx_http_start(w.http, &r, &handlers, &c, &c.t, &err), 0);
    ends_with(&c, ABX_ERR_NETWORK); /* not by the proxy, and nobody has that name */
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    start(&c, &w, "GET", "/hello", (abx_http_request){0}); /* the loopback never goes by a proxy */
    wait_end(&c);
    assert_null(c.err);
    clear(&c);
    unsetenv("http_proxy");
    unsetenv("no_proxy");
    world_close(&w);
}

/* A pooled connection that the server has closed meanwhile is not used again. */
static void test_stale_connection(void **state)
{
    (void)state;
    for (int dialled = 0; dialled < 2; dialled++) {
        world w;
        call c = {0};
        world_open(&w, dialled, &(abx_http_server_options){.idle_timeout_ms = 20});
        for (int i = 0; i < 3; i++) {
            start(&c, &w, "POST", "/echo", (abx_http_request){.body = "again", .body_len = 5});
            wait_end(&c);
            if (c.err)
                fail_msg("%s", c.err->message);
            assert_string_equal(c.body, "again");
            clear(&c);
            while (abx_http_server_connections(w.a.server))
                uv_run(&w.a.loop, UV_RUN_ONCE);
        }
        world_close(&w);
    }
}

static void restart_on_end(abx_http_transfer *t, const abx_error *err, void *data)
{
    call *c = data;
    abx_http_request r = {.method = "GET", .url = "http://127.0.0.1/"};

    (void)t;
    assert_int_equal(err->id, ABX_ERR_CANCELLED);
    c->ends++;
    assert_int_equal(abx_http_start(c->w->http, &r, &handlers, c, NULL, NULL), -1);
}

static void test_no_start_while_closing(void **state)
{
    (void)state;
    world w;
    call c = {0};
    abx_http_request r = {.method = "GET", .url = "http://127.0.0.1/"};
    static const abx_http_handlers stubborn = {.on_end = restart_on_end};

    world_open(&w, true, NULL);
    c.w = &w;
    assert_int_equal(abx_http_start(w.http, &r, &stubborn, &c, NULL, NULL), 0);
    world_close(&w);
    assert_int_equal(c.ends, 1);
}

static void test_errors(void **state)
{
    (void)state;
    world w;
    call c = {0};
    ABX_AUTO_ERROR err = NULL;

    world_open(&w, false, NULL);
    start(&c, &w, "GET", "/abort", (abx_http_request){0});
    ends_with(&c, ABX_ERR_NETWORK);
    start(&c, &w, "GET", "/short", (abx_http_request){0});
    ends_with(&c, ABX_ERR_NETWORK);
    start(&c, &w, "GET", "/stream?n=1000", (abx_http_request){.max_body_bytes = 999});
    ends_with(&c, ABX_ERR_TOO_LARGE);
    start(&c, &w, "GET", "/stream?n=1000", (abx_http_request){.max_body_bytes = 1000});
    wait_end(&c);
    assert_null(c.err);
    clear(&c);
    start(&c, &w, "GET", "/hold", (abx_http_request){.timeout_ms = 30});
    ends_with(&c, ABX_ERR_TIMEOUT);
    start(&c, &w, "GET", "/hold", (abx_http_request){.idle_timeout_ms = 30});
    ends_with(&c, ABX_ERR_TIMEOUT);
    start(&c, &w, "GET", "/hello", (abx_http_request){.idle_timeout_ms = 3000, .timeout_ms = 5000});
    wait_end(&c);
    assert_null(c.err);
    clear(&c);
    abx_http_request bad = {.method = "GET", .url = "ftp://x/"};
    assert_int_equal(abx_http_start(w.http, &bad, &handlers, &c, NULL, &err), -1);
    assert_int_equal(err->id, ABX_ERR_USAGE);
    bad.url = "http://a b/";
    assert_int_equal(abx_http_start(w.http, &bad, &handlers, &c, NULL, NULL), -1);
    const char *forged[] = {"A: b\r\nC: d"};
    bad = (abx_http_request){
        .method = "GET", .url = "http://x/", .headers = forged, .header_count = 1};
    assert_int_equal(abx_http_start(w.http, &bad, &handlers, &c, NULL, NULL), -1);
    world_close(&w);
}

static void test_refused(void **state)
{
    (void)state;
    world w;
    call c = {0};
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;

    world_open(&w, false, NULL);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* bound, but nobody listens */
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    w.port = ntohs(at.sin_port);
    start(&c, &w, "GET", "/hello", (abx_http_request){0});
    wait_end(&c);
    assert_int_equal(c.err->id, ABX_ERR_NETWORK);
    assert_non_null(strstr(c.err->message, "cannot reach 'http://127.0.0.1:"));
    clear(&c);
    close(fd);
    world_close(&w);
}

static void test_dial(void **state)
{
    (void)state;
    world w;
    call c = {0};

    world_open(&w, true, NULL);
    w.no_dial = true;
    start(&c, &w, "GET", "/hello", (abx_http_request){0});
    ends_with(&c, ABX_ERR_SANDBOX_NOT_FOUND);
    w.no_dial = false;
    start(&c, &w, "GET", "/hello", (abx_http_request){0});
    wait_end(&c);
    assert_null(c.err);
    assert_int_equal(w.dials, 2);
    clear(&c);
    world_close(&w);
}

/* A server that says whatever the test wants. */
static void on_raw(uv_poll_t *p, int status, int events)
{
    int *fds = p->data;
    char buf[4096];

    (void)status;
    (void)events;
    ssize_t n = recv(fds[0], buf, sizeof buf, MSG_DONTWAIT);
    if (n < 0)
        return;
    uv_poll_stop(p);
    uv_close((uv_handle_t *)p, NULL);
}

static int raw_pair[2];

static int dial_raw(void *data, abx_error **err)
{
    (void)data;
    (void)err;
    return abx_take_fd(&raw_pair[1]);
}

static void raw_answer(const char *text, size_t max_head, abx_err_id id, const char *body)
{
    world w = {0};
    call c = {0};
    uv_poll_t poll;
    ABX_AUTO_ERROR err = NULL;

    assert_int_equal(uv_loop_init(&w.a.loop), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, raw_pair), 0);
    abx_http_options options = {.dial = dial_raw, .max_head_bytes = max_head};
    assert_int_equal(abx_http_open(&w.a.loop, &options, &w.http, &err), 0);
    assert_int_equal(uv_poll_init(&w.a.loop, &poll, raw_pair[0]), 0);
    poll.data = raw_pair;
    uv_poll_start(&poll, UV_READABLE, on_raw);
    start(&c, &w, "GET", "/", (abx_http_request){0});
    while (!uv_is_closing((uv_handle_t *)&poll))
        uv_run(&w.a.loop, UV_RUN_ONCE);
    assert_int_equal(write(raw_pair[0], text, strlen(text)), (ssize_t)strlen(text));
    close(raw_pair[0]);
    wait_end(&c);
    if (body) {
        if (c.err)
            fail_msg("%s", c.err->message);
        assert_string_equal(c.body, body);
    } else {
        assert_non_null(c.err);
        if (c.err->id != id)
            fail_msg("'%s' gave %s %s", text, abx_error_code(c.err), c.err->message);
    }
    clear(&c);
    abx_http_close(w.http, http_closed, &w);
    uv_run(&w.a.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w.a.loop), 0);
}

static void test_raw_answers(void **state)
{
    (void)state;
    raw_answer("HTTP/1.1 200 OK\r\n\r\nuntil the end", 0, 0, "until the end");
    raw_answer("HTTP/1.1 100 Continue\r\nA: b\r\n\r\nHTTP/1.1 103 Early\r\n\r\n"
               "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
               0, 0, "ok");
    raw_answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
               0, 0, "abc");
    raw_answer("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 1\r\n\r\nx",
               0, 0, "x");
    raw_answer("no http at all\r\n\r\n", 0, ABX_ERR_BACKEND_ANSWER, NULL);
    raw_answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", 0, ABX_ERR_BACKEND_ANSWER, NULL);
    raw_answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", 0,
               ABX_ERR_BACKEND_ANSWER, NULL);
    raw_answer("HTTP/1.1 200 OK\r\nA: 0123456789012345678901234567890123456789\r\n\r\n", 50,
               ABX_ERR_TOO_LARGE, NULL);
    raw_answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
               "X: 0123456789\r\nX: 0123456789\r\nX: 0123456789\r\n\r\n",
               80, ABX_ERR_TOO_LARGE, NULL);
    raw_answer("", 0, ABX_ERR_NETWORK, NULL);
    raw_answer("HTTP/1.1 200 OK\r\nA: b", 0, ABX_ERR_BACKEND_ANSWER, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simple),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_big_down),
        cmocka_unit_test(test_big_up),
        cmocka_unit_test(test_slow_writer),
        cmocka_unit_test(test_cancels),
        cmocka_unit_test(test_close_in_the_middle),
        cmocka_unit_test(test_proxy),
        cmocka_unit_test(test_stale_connection),
        cmocka_unit_test(test_no_start_while_closing),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_dial),
        cmocka_unit_test(test_raw_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
