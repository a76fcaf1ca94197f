#include "service_fake.h"

#include <ctype.h>

#include "base/text.h"
#include "ops/call_host.h"

/* --- the server -------------------------------------------------------------------------------------------- */
static void reply(abx_exchange *x, const svc_answer *a)
{
    const char *headers[5] = {"Content-Type: application/json"};
    size_t n = 1;
    for (size_t i = 0; i < ABX_COUNT(a->headers) && a->headers[i]; i++) {
        if (abx_has_prefix(a->headers[i], "Content-Type:"))
            headers[0] = a->headers[i];
        else
            headers[n++] = a->headers[i];
    }
    if (a->status == 0)
        abx_exchange_abort(x);
    else
        abx_exchange_reply_with(x, a->status, headers, n, a->body ? a->body : "",
                                a->body ? strlen(a->body) : 0);
}

static char *header_lines(const abx_exchange *x)
{
    const abx_http_headers *h = abx_exchange_headers(x);
    ABX_AUTO_BUF out = ABX_BUF(1 << 20);
    for (size_t i = 0; i < h->count; i++) {
        for (const char *p = h->items[i].name; *p; p++)
            assert_int_equal(abx_buf_add_byte(&out, (uint8_t)tolower((unsigned char)*p)), 0);
        assert_int_equal(abx_buf_addf(&out, ": %s\n", h->items[i].value), 0);
    }
    return abx_buf_take(&out);
}

static void on_body(abx_exchange *x, const uint8_t *bytes, size_t n, void *data)
{
    svc *s = data;
    ABX_AUTO_FREE char *line = abx_format("%s %s", abx_exchange_method(x), abx_exchange_target(x));
    assert_true(s->request_count < SVC_MAX);
    svc_request *r = &s->requests[s->request_count++];
    *r = (svc_request){.line = abx_strdup(line),
                       .body = abx_strndup((const char *)bytes, n),
                       .headers = header_lines(x)};
    if (s->answer_next == s->answer_count)
        fail_msg("no answer is left for '%s'", line);
    const svc_answer *a = &s->answers[s->answer_next++];
    if (strcmp(a->request, line) != 0)
        fail_msg("'%s' was sent instead of '%s'", line, a->request);
    if (a->hold)
        s->held = x;
    else
        reply(x, a);
}

static void on_closed(abx_exchange *x, bool complete, void *data)
{
    svc *s = data;
    (void)complete;
    if (s->held == x)
        s->held = NULL;
}

static void on_request(abx_exchange *x, void *data)
{
    static const abx_exchange_handlers handlers = {.on_close = on_closed};
    abx_exchange_handle(x, &handlers, data);
    abx_exchange_collect(x, 1 << 20, on_body, data);
}

void svc_go_on(svc *s)
{
    assert_non_null(s->held);
    reply(ABX_TAKE(s->held), &s->answers[s->answer_next - 1]);
}

svc_answer *svc_say(svc *s, const char *request, int status, const char *body)
{
    assert_true(s->answer_count < SVC_MAX);
    svc_answer *a = &s->answers[s->answer_count++];
    *a = (svc_answer){.request = request, .status = status, .body = body};
    return a;
}

/* --- life --------------------------------------------------------------------------------------------------------- */
static void on_explain(void *data, abx_op_id op, abx_error *err)
{
    (void)op;
    (void)err;
    ((svc *)data)->told++;
}

void svc_open_with(svc *s, const abx_e2b_dialect *dialect, const char *key, bool deaf)
{
    abx_error *err = NULL;
    memset(s, 0, sizeof *s);
    uv_loop_init(&s->loop);
    if (abx_http_server_open(&s->loop, NULL, on_request, s, &s->server, &err) < 0 ||
        abx_http_server_listen_tcp(s->server, "127.0.0.1", 0, &s->port, &err) < 0)
        fail_msg("%s", abx_error_text(err));
    if (deaf)
        abx_http_server_stop(s->server);
    s->url = abx_format("http://127.0.0.1:%d", s->port);
    abx_e2b_service_options o = {.loop = &s->loop,
                                 .provider = "demo",
                                 .dialect = dialect,
                                 .api_url = s->url,
                                 .api_key = key,
                                 .explain = on_explain,
                                 .explain_data = s};
    if (abx_e2b_service_open(&o, &s->service, &err) < 0)
        fail_msg("%s", abx_error_text(err));
}

void svc_open(svc *s, const abx_e2b_dialect *dialect)
{
    svc_open_with(s, dialect, "e2b_00", false);
}

static void on_service_closed(void *data)
{
    ((svc *)data)->closed = true;
}

static void on_server_closed(void *data)
{
    ((svc *)data)->server_closed = true;
}

void svc_close(svc *s)
{
    assert_int_equal(s->answer_next, s->answer_count);
    abx_e2b_service_close(s->service, on_service_closed, s);
    abx_http_server_close(s->server, on_server_closed, s);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    assert_true(s->closed && s->server_closed);
    assert_int_equal(uv_loop_close(&s->loop), 0);
    for (size_t i = 0; i < s->request_count; i++) {
        free(s->requests[i].line);
        free(s->requests[i].body);
        free(s->requests[i].headers);
    }
    free(s->url);
}

/* --- calls ---------------------------------------------------------------------------------------------------------- */
static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    svc_run *run = data;
    (void)c;
    run->ends++;
    run->call = NULL;
    run->result = result ? abx_json_text(result) : NULL;
    run->err = abx_error_copy(err);
}

void svc_start(svc *s, svc_run *run, const char *method, const char *params)
{
    static const abx_call_handlers handlers = {.on_end = on_end};
    const abx_op_row *row = abx_op_find(method);
    assert_non_null(row);
    yyjson_doc *doc = yyjson_read(params, strlen(params), 0);
    assert_non_null(doc);
    *run = (svc_run){.s = s};
    run->call = abx_call_new(&s->loop, row->id, doc, &handlers, run);
    abx_call_enter_start(run->call);
    int rc = abx_e2b_service_start(s->service, run->call, &run->err);
    abx_call_leave_start(run->call);
    if (rc == 0)
        return;
    abx_call_discard(ABX_TAKE(run->call));
    run->ends = 1;
}

void svc_until(svc *s, bool (*cond)(void *data), void *data)
{
    while (!cond(data))
        if (uv_run(&s->loop, UV_RUN_ONCE) == 0 && !cond(data))
            fail_msg("nothing is left to wait for");
}

static bool has_ended(void *data)
{
    return ((svc_run *)data)->ends > 0;
}

void svc_wait(svc_run *run)
{
    svc_until(run->s, has_ended, run);
    assert_int_equal(run->ends, 1);
}

void svc_call(svc *s, svc_run *run, const char *method, const char *params)
{
    svc_start(s, run, method, params);
    svc_wait(run);
}

void svc_run_clear(svc_run *run)
{
    free(run->result);
    abx_error_free(run->err);
}

void svc_gives(svc *s, const char *method, const char *params, const char *result)
{
    svc_run run;
    svc_call(s, &run, method, params);
    if (run.err)
        fail_msg("%s: %s", abx_error_code(run.err), run.err->message);
    if (result)
        assert_string_equal(run.result, result);
    svc_run_clear(&run);
}

void svc_fails(svc *s, const char *method, const char *params, const char *id, const char *text)
{
    svc_run run;
    svc_call(s, &run, method, params);
    assert_non_null(run.err);
    assert_string_equal(abx_err_row_of(run.err->id)->name, id);
    if (!strstr(run.err->message, text))
        fail_msg("'%s' does not say '%s'", run.err->message, text);
    svc_run_clear(&run);
}

bool svc_has_header(const svc *s, size_t i, const char *line)
{
    ABX_AUTO_FREE char *whole = abx_format("%s\n", line);
    assert_true(i < s->request_count);
    return strstr(s->requests[i].headers, whole) != NULL;
}
