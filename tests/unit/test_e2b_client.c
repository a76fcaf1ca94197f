/* The client of envd against a scripted server: what it sends, and what it makes of each answer. */
#include "envd_fake.h"

#define START  "{\"event\":{\"start\":{\"pid\":42}}}"
#define DATA   "{\"event\":{\"data\":{\"stdout\":\"aGkK\"}}}"
#define END    "{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}"
#define STREAM "application/connect+json"

static void assert_out(fake_run *run, abx_channel channel, const char *text)
{
    assert_string_equal(abx_buf_cstr(&run->out[channel]), text);
}

/* One call against one stream. */
static void stream_call(fake *f, fake_run *run, const char *method, const char *params,
                        const char *const *messages)
{
    fake_open(f, ABX_E2B_JSON, false);
    fake_stream(f, messages);
    fake_call(f, run, method, params);
}

#define RUN "{\"sandboxId\":\"sb1\",\"cmd\":[\"echo\",\"hi\"]}"

static void a_process_runs(void **state)
{
    fake f;
    fake_run run;
    stream_call(&f, &run, "process.start",
                "{\"sandboxId\":\"sb1\",\"cmd\":[\"echo\",\"hi\"],\"cwd\":\"/"
                "w\",\"env\":{\"A\":\"b\"},\"user\":\"root\","
                "\"timeoutMs\":2500}",
                (const char *[]){START, DATA, "{\"event\":{\"keepalive\":{}}}",
                                 "{\"event\":{\"data\":{\"stderr\":\"eA==\"}}}",
                                 "{\"event\":{\"later\":{\"a\":1}}}", END, "!{}", NULL});
    assert_string_equal(abx_buf_cstr(&run.events),
                        "started {\"id\":\"42\",\"pid\":42}\nexit {\"exitCode\":0}\n");
    assert_out(&run, ABX_CH_STDOUT, "hi\n");
    assert_out(&run, ABX_CH_STDERR, "x");
    fake_assert_result(&run, "{\"id\":\"42\",\"pid\":42,\"exitCode\":0}");
    assert_request(&f, 0, "POST /process.Process/Start HTTP/1.1\r\n");
    assert_string_equal(fake_message(&f, 0),
                        "{\"process\":{\"cmd\":\"echo\",\"args\":[\"hi\"],"
                        "\"envs\":{\"A\":\"b\"},\"cwd\":\"/w\"},\"stdin\":false}");
    static const char *const headers[][2] = {{"Content-Type", STREAM},
                                             {"Connect-Protocol-Version", "1"},
                                             {"Connect-Timeout-Ms", "2500"},
                                             {"Keepalive-Ping-Interval", "50"},
                                             {"X-Access-Token", "secret"},
                                             {"E2b-Sandbox-Id", "sb1"},
                                             {"Authorization", "Basic cm9vdDo="},
                                             {"Accept-Encoding", "identity"}};
    for (size_t i = 0; i < ABX_COUNT(headers); i++) {
        ABX_AUTO_FREE char *v = fake_header(&f, 0, headers[i][0]);
        assert_non_null(v);
        assert_string_equal(v, headers[i][1]);
    }
    fake_done(&f, &run);
}

static void no_limit_sends_no_timeout(void **state)
{
    fake f;
    fake_run run;
    stream_call(&f, &run, "process.start", RUN, (const char *[]){START, END, "!{}", NULL});
    assert_null(fake_header(&f, 0, "Connect-Timeout-Ms"));
    assert_null(fake_header(&f, 0, "Authorization"));
    fake_done(&f, &run);
}

static void ends_of_processes(void **state)
{
    static const char *const rows[][2] = {
        {"{\"exitCode\":3,\"exited\":true,\"status\":\"exit status 3\",\"error\":\"exit status "
         "3\"}",
         "\"exitCode\":3"},
        {"{\"exitCode\":-1,\"status\":\"signal: killed\",\"error\":\"signal: killed\"}",
         "\"signal\":\"SIGKILL\""},
        {"{\"exitCode\":-1,\"status\":\"signal: segmentation fault (core dumped)\"}",
         "\"signal\":\"SIGSEGV\""},
        {"{\"exitCode\":-1,\"status\":\"signal: signal 34\"}", "\"signal\":\"SIG34\""},
        {"{\"exitCode\":-1,\"status\":\"signal: terminated\"}", "\"signal\":\"SIGTERM\""},
        {"{\"exitCode\":-1}", "\"exitCode\":-1"},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        fake f;
        fake_run run;
        ABX_AUTO_FREE char *end = abx_format("{\"event\":{\"end\":%s}}", rows[i][0]);
        ABX_AUTO_FREE char *want = abx_format("{\"id\":\"42\",\"pid\":42,%s}", rows[i][1]);
        stream_call(&f, &run, "process.start", RUN, (const char *[]){START, end, "!{}", NULL});
        fake_assert_result(&run, want);
        fake_done(&f, &run);
    }
}

static void a_limit_that_passed_is_a_result(void **state)
{
    fake f;
    fake_run run;
    const char *const messages[] = {
        START, DATA,
        "!{\"error\":{\"code\":\"deadline_exceeded\",\"message\":\"context deadline exceeded\"}}",
        NULL};
    stream_call(&f, &run, "process.start",
                "{\"sandboxId\":\"s\",\"cmd\":[\"x\"],\"timeoutMs\":700}", messages);
    fake_assert_result(&run, "{\"id\":\"42\",\"pid\":42,\"signal\":\"SIGKILL\",\"timedOut\":true}");
    fake_done(&f, &run);
    stream_call(&f, &run, "process.start", RUN, messages);
    fake_assert_error(&run, "TIMEOUT", "deadline");
    fake_done(&f, &run);
}

static void a_start_that_fails(void **state)
{
    static const struct {
        const char *code, *name;
        int sys_errno;
    } rows[] = {{"not_found", "START_FAILED", ENOENT},
                {"permission_denied", "START_FAILED", EACCES},
                {"invalid_argument", "START_FAILED", 0},
                {"unauthenticated", "API_KEY", 0},
                {"resource_exhausted", "RATE_LIMIT", 0},
                {"unavailable", "NETWORK", 0},
                {"nosuchcode", "BACKEND", 0}};
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        fake f;
        fake_run run;
        ABX_AUTO_FREE char *end =
            abx_format("!{\"error\":{\"code\":\"%s\",\"message\":\"no 'x'\"}}", rows[i].code);
        stream_call(&f, &run, "process.start", RUN, (const char *[]){end, NULL});
        fake_assert_error(&run, rows[i].name, "no 'x'");
        assert_int_equal(run.err->sys_errno, rows[i].sys_errno);
        assert_string_equal(run.err->sandbox, "sb1");
        fake_done(&f, &run);
    }
}

static void streams_that_break(void **state)
{
    static const struct {
        const char *messages[4];
        const char *name, *text;
    } rows[] = {
        {{START, DATA, NULL}, "NETWORK", "without its end mark"},
        {{START, "!{}", NULL}, "BACKEND_ANSWER", "without a result"},
        {{"!{}", NULL}, "BACKEND_ANSWER", "without a result"},
        {{START, START, "!{}", NULL}, "BACKEND_ANSWER", "twice"},
        {{END, "!{}", NULL}, "BACKEND_ANSWER", "out of order"},
        {{START, "{\"event\":1}", NULL}, "BACKEND_ANSWER", "StartResponse.event"},
        {{START, "{", NULL}, "BACKEND_ANSWER", "JSON"},
        {{START, "!{", NULL}, "BACKEND_ANSWER", "JSON"},
        {{START, "!{}", DATA, NULL}, "BACKEND_ANSWER", "behind the end"},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        fake f;
        fake_run run;
        stream_call(&f, &run, "process.start", RUN, rows[i].messages);
        fake_assert_error(&run, rows[i].name, rows[i].text);
        fake_done(&f, &run);
    }
}

static void a_gone_sandbox_is_named(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, false);
    f.alive = 0;
    fake_stream(&f, (const char *[]){START, DATA, NULL});
    fake_call(&f, &run, "process.start", RUN);
    fake_assert_error(&run, "SANDBOX_ENDED", "sb1");
    fake_done(&f, &run);

    fake_open_asking(&f, ABX_E2B_JSON, false);
    fake_answer *a = fake_stream(&f, (const char *[]){START, DATA, NULL});
    a->n -= 7; /* the last chunk is missing, and the connection ends */
    a->close = true;
    fake_reply(&f, "502 Bad Gateway", "application/json",
               "{\"message\":\"The sandbox was not found\",\"code\":502}");
    fake_call(&f, &run, "process.start", RUN);
    fake_assert_error(&run, "SANDBOX_ENDED", "sb1");
    assert_request(&f, 1, "GET /health ");
    fake_done(&f, &run);
}

static int alive_once(void *data)
{
    return ++*(int *)((fake *)data)->data == 1;
}

/* It ends, and what was asked first still stood: whoever does not answer is looked at once more. One that answers broke a stream. */
static void a_sandbox_that_is_about_to_end_is_not_alive(void **state)
{
    for (int answers = 0; answers < 2; answers++) {
        fake f;
        fake_run run;
        int asked = 0;
        fake_open_options(&f,
                          &(abx_envd_client_options){.codec = ABX_E2B_JSON, .alive = alive_once});
        f.data = &asked;
        f.well = answers;
        fake_answer *a = fake_stream(&f, (const char *[]){START, DATA, NULL});
        a->n -= 7;
        a->close = true;
        if (!answers)
            fake_say(&f, "", 0)->close = true;
        fake_call(&f, &run, "process.start", RUN);
        fake_assert_error(&run, answers ? "NETWORK" : "SANDBOX_ENDED", "sb1");
        assert_request(&f, 1, "GET /health ");
        assert_int_equal(asked, answers ? 1 : 2);
        fake_done(&f, &run);
    }
}

/* An answer that is cut at each of its bytes: an error each time, never a hang. */
static void a_stream_cut_at_each_byte(void **state)
{
    size_t whole = 0;
    for (size_t cut = 0; whole == 0 || cut < whole; cut++) {
        fake f;
        fake_run run;
        fake_open(&f, ABX_E2B_JSON, false);
        fake_answer *a = fake_stream(&f, (const char *[]){START, DATA, NULL});
        whole = a->n;
        a->n = cut;
        a->close = true;
        fake_call(&f, &run, "process.start", RUN);
        assert_non_null(run.err);
        assert_true(run.err->id == ABX_ERR_NETWORK || run.err->id == ABX_ERR_BACKEND_ANSWER);
        fake_done(&f, &run);
    }
}

static void an_answer_in_single_bytes(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, false);
    fake_stream(&f, (const char *[]){START, DATA, DATA, END, "!{}", NULL})->piece = 1;
    fake_call(&f, &run, "process.start", RUN);
    fake_assert_result(&run, "{\"id\":\"42\",\"pid\":42,\"exitCode\":0}");
    assert_out(&run, ABX_CH_STDOUT, "hi\nhi\n");
    fake_done(&f, &run);
}

static void raw_stream(fake *f, const void *bytes, size_t n)
{
    ABX_AUTO_BUF b = ABX_BUF(1 << 20);
    assert_int_equal(
        abx_buf_addf(
            &b, "HTTP/1.1 200 OK\r\nContent-Type: " STREAM "\r\nContent-Length: %zu\r\n\r\n", n),
        0);
    assert_int_equal(abx_buf_add(&b, bytes, n), 0);
    fake_say(f, b.data, b.len);
}

static void envelopes_that_do_not_fit(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *name, *text;
    } rows[] = {{"\1\0\0\0\2{}", 7, "BACKEND_ANSWER", "compressed"},
                {"\4\0\0\0\2{}", 7, "BACKEND_ANSWER", "flags"},
                {"\0\x7f\0\0\0{}", 7, "BACKEND_ANSWER", "at most"},
                {"\0\0\0\0\x40{}", 7, "NETWORK", "middle"},
                {"\0\0", 2, "NETWORK", "middle"},
                {"", 0, "NETWORK", "end mark"}};
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        fake f;
        fake_run run;
        fake_open(&f, ABX_E2B_JSON, false);
        raw_stream(&f, rows[i].bytes, rows[i].n);
        fake_call(&f, &run, "process.start", RUN);
        fake_assert_error(&run, rows[i].name, rows[i].text);
        fake_done(&f, &run);
    }
}

static void answers_of_another_kind(void **state)
{
    static const struct {
        const char *status, *type, *body, *name, *text;
    } rows[] = {
        {"502 Bad Gateway", "application/json",
         "{\"sandboxId\":\"sb1\",\"message\":\"The sandbox was not found\",\"code\":502}",
         "SANDBOX_NOT_FOUND", "not found"},
        {"502 Bad Gateway", "application/json",
         "{\"message\":\"The sandbox is running but port is not "
         "open\",\"port\":49983,\"code\":502}",
         "NETWORK", "port is not open"},
        {"401 Unauthorized", "application/json",
         "{\"code\":401,\"message\":\"unauthorized access\"}", "API_KEY", "unauthorized"},
        {"403 Forbidden", "application/json", "{\"code\":403,\"message\":\"no\"}", "FORBIDDEN",
         "no"},
        {"429 Too Many Requests", "text/plain", "slow down\n", "RATE_LIMIT", "slow down"},
        {"503 Service Unavailable", "text/html; charset=utf-8",
         "<html><head><title>Proxy\nerror</title></head></html>", "NETWORK", "web page"},
        {"200 OK", "text/html", "<!DOCTYPE html><title>Login</title>", "BACKEND_ANSWER", "'Login'"},
        {"200 OK", "application/octet-stream", "x", "BACKEND_ANSWER", "type"},
        {"302 Found", "text/plain", "", "BACKEND_ANSWER", "redirect"},
        {"404 Not Found", "text/plain", "404 page not found\n", "FEATURE_MISSING",
         "404 page not found"},
        {"415 Unsupported Media Type", "text/plain", "", "FEATURE_MISSING", "415"},
        {"500 Internal Server Error", "text/plain", "", "BACKEND", "500"},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        for (int unary = 0; unary < 2; unary++) {
            fake f;
            fake_run run;
            fake_open(&f, ABX_E2B_JSON, false);
            fake_reply(&f, rows[i].status, rows[i].type, rows[i].body);
            fake_call(&f, &run, unary ? "process.list" : "process.start",
                      unary ? "{\"sandboxId\":\"s\"}" : RUN);
            fake_assert_error(&run, rows[i].name, rows[i].text);
            fake_done(&f, &run);
        }
    }
}

static void request_ids_are_kept(void **state)
{
    static const char text[] =
        "HTTP/1.1 500 Oops\r\nX-Request-Id: r-17\r\nContent-Length: 0\r\n\r\n";
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, false);
    fake_say(&f, text, strlen(text));
    fake_call(&f, &run, "process.list", "{\"sandboxId\":\"s\"}");
    fake_assert_error(&run, "BACKEND", "500");
    assert_string_equal(run.err->request_id, "r-17");
    fake_done(&f, &run);
}

static void a_head_has_a_limit(void **state)
{
    fake f;
    fake_run run;
    ABX_AUTO_FREE char *filler = abx_alloc(100001);
    memset(filler, 'x', 100000);
    ABX_AUTO_FREE char *text =
        abx_format("HTTP/1.1 200 OK\r\nX-Filler: %s\r\nContent-Length: 0\r\n\r\n", filler);
    fake_open(&f, ABX_E2B_JSON, false);
    fake_say(&f, text, strlen(text));
    fake_call(&f, &run, "process.list", "{\"sandboxId\":\"s\"}");
    fake_assert_error(&run, "BACKEND_ANSWER", "the head of the answer of");
    fake_done(&f, &run);
}

static void a_length_that_nobody_can_count(void **state)
{
    static const char *const lengths[] = {"99999999999999999999999", "9223372036854775808", "-1",
                                          "0x10", "5, 5"};
    static const char *const methods[] = {"fs.read", "process.list", "process.start"};
    static const char *const params[] = {"{\"sandboxId\":\"sb1\",\"path\":\"/a\"}",
                                         "{\"sandboxId\":\"sb1\"}", RUN};
    for (size_t i = 0; i < ABX_COUNT(lengths); i++) {
        for (size_t m = 0; m < ABX_COUNT(methods); m++) {
            fake f;
            fake_run run;
            ABX_AUTO_FREE char *text =
                abx_format("HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\nhello", lengths[i]);
            fake_open(&f, ABX_E2B_JSON, false);
            fake_say(&f, text, strlen(text));
            fake_call(&f, &run, methods[m], params[m]);
            assert_null(run.result);
            assert_non_null(run.err);
            fake_done(&f, &run);
        }
    }
}

static void an_overflow_of_the_length_is_told(void **state)
{
    static const char text[] =
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nhello";
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, false);
    fake_say(&f, text, strlen(text));
    fake_call(&f, &run, "fs.read", "{\"sandboxId\":\"sb1\",\"path\":\"/a\"}");
    fake_assert_error(&run, "BACKEND_ANSWER", "a length that is no number");
    fake_done(&f, &run);
}

static void an_answer_that_is_cut_is_no_success(void **state)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello";
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, false);
    fake_say(&f, text, strlen(text))->close = true;
    fake_call(&f, &run, "fs.read", "{\"sandboxId\":\"sb1\",\"path\":\"/a\"}");
    fake_assert_error(&run, "BACKEND_ANSWER", "sandbox 'sb1'");
    assert_null(strstr(run.err->message, "http://"));
    fake_done(&f, &run);
}

static void nobody_listens(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, true);
    f.refuse = true;
    fake_call(&f, &run, "process.list", "{\"sandboxId\":\"s\"}");
    fake_assert_error(&run, "NETWORK", "nobody listens");
    fake_done(&f, &run);
}

static bool has_started(void *data)
{
    return ((fake_run *)data)->events.len > 0;
}

static void a_cancel_kills_where_nothing_else_does(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, false);
    fake_answer *a = fake_stream(&f, (const char *[]){START, NULL});
    a->n -= 5; /* goes on */
    fake_reply(&f, "200 OK", "application/json", "{}");
    fake_start(&f, &run, "process.start", RUN);
    fake_until(&f, has_started, &run);
    abx_call_cancel(run.call);
    fake_wait(&run);
    fake_assert_error(&run, "CANCELLED", "");
    assert_request(&f, 1, "POST /process.Process/SendSignal ");
    assert_string_equal(fake_body(&f, 1),
                        "{\"process\":{\"pid\":42},\"signal\":\"SIGNAL_SIGKILL\"}");
    fake_done(&f, &run);
}

static bool is_held(void *data)
{
    return ((fake *)data)->held != NULL;
}

/* Cancelled before the start event: it may run all the same. */
static void a_cancel_before_the_start_kills_too(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, false);
    fake_answer *a = fake_stream(&f, (const char *[]){START, NULL});
    a->n -= 5;
    a->hold = true;
    fake_reply(&f, "200 OK", "application/json", "{}");
    fake_start(&f, &run, "process.start", RUN);
    fake_until(&f, is_held, &f);
    abx_call_cancel(run.call);
    uv_run(&f.loop, UV_RUN_ONCE);
    fake_go_on(&f);
    fake_wait(&run);
    fake_assert_error(&run, "CANCELLED", "");
    assert_request(&f, 1, "POST /process.Process/SendSignal ");
    fake_done(&f, &run);
}

/* Input that nobody reads holds the call's second exchange; the cancel takes it away first. */
static void a_cancel_while_input_waits(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, false);
    fake_stream(&f, (const char *[]){START, NULL})->n -= 5;
    fake_reply(&f, "200 OK", "application/json", "{}")->hold = true;
    fake_reply(&f, "200 OK", "application/json", "{}");
    fake_start(&f, &run, "process.start",
               "{\"sandboxId\":\"s\",\"cmd\":[\"x\"],\"input\":{\"text\":\"hello\"}}");
    fake_until(&f, is_held, &f);
    abx_call_cancel(run.call);
    fake_wait(&run);
    fake_assert_error(&run, "CANCELLED", "");
    assert_request(&f, 1, "POST /process.Process/SendInput ");
    assert_request(&f, 2, "POST /process.Process/SendSignal ");
    fake_done(&f, &run);
}

/* The stream and the input break together: the sandbox is asked for once, the call ends once. */
static void two_exchanges_break_at_once(void **state)
{
    static const char gone[] = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n";
    fake f;
    fake_run run;
    fake_open_asking(&f, ABX_E2B_JSON, false);
    fake_answer *a = fake_stream(&f, (const char *[]){START, NULL});
    a->n -= 5;
    a->close = true;
    fake_say(&f, "", 0)->close = true;
    fake_say(&f, gone, strlen(gone));
    fake_say(&f, gone, strlen(gone));
    fake_call(&f, &run, "process.start",
              "{\"sandboxId\":\"s\",\"cmd\":[\"x\"],\"input\":{\"text\":\"hello\"}}");
    fake_assert_error(&run, "SANDBOX_ENDED", "sb1");
    fake_done(&f, &run);
}

static void a_detached_process_is_left_alone(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, false);
    fake_stream(&f, (const char *[]){START, NULL})->n -= 5;
    fake_start(&f, &run, "process.start",
               "{\"sandboxId\":\"s\",\"cmd\":[\"x\"],\"onDisconnect\":\"detach\"}");
    fake_until(&f, has_started, &run);
    abx_call_cancel(run.call);
    fake_wait(&run);
    fake_assert_error(&run, "CANCELLED", "");
    assert_int_equal(f.request_count, 1);
    fake_done(&f, &run);
}

static void the_client_closes_while_a_call_runs(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, false);
    fake_stream(&f, (const char *[]){START, NULL})->n -= 5;
    fake_start(&f, &run, "process.start", RUN);
    fake_until(&f, has_started, &run);
    uv_close((uv_handle_t *)&run.timer, NULL);
    fake_close(&f);
    fake_assert_error(&run, "CANCELLED", "closed");
    abx_buf_clear(&run.events);
    abx_error_free(run.err);
}

static void a_slow_reader_gets_every_byte(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_PROTO, true);
    ABX_AUTO_BUF b = ABX_BUF((size_t)64 << 20);
    assert_int_equal(
        abx_buf_add_str(&b, "HTTP/1.1 200 OK\r\nContent-Type: application/connect+proto\r\n"
                            "Connection: close\r\n\r\n"),
        0);
    assert_int_equal(abx_buf_add(&b, "\0\0\0\0\x0a\x0a\x08\x0a\x06\x08\x2a\xc2\x3e\x01p", 15), 0);
    ABX_AUTO_FREE uint8_t *bytes = abx_alloc(32768);
    size_t total = 0;
    for (int i = 0; i < 300; i++) {
        for (size_t k = 0; k < 32768; k++)
            bytes[k] = (uint8_t)((total + k) * 31 >> 3);
        total += 32768;
        assert_int_equal(abx_e2b_put_data_event(ABX_E2B_PROTO, ABX_E2B_STDOUT, bytes, 32768, &b),
                         0);
    }
    assert_int_equal(abx_buf_add(&b, "\0\0\0\0\6\x0a\4\x1a\2\x10\1\2\0\0\0\2{}", 18), 0);
    fake_say(&f, b.data, b.len)->close = true;
    fake_start(&f, &run, "process.start", RUN);
    run.pause_each = true;
    fake_wait(&run);
    fake_assert_result(&run, "{\"id\":\"p\",\"pid\":42,\"exitCode\":0}");
    assert_int_equal(run.out[ABX_CH_STDOUT].len, total);
    for (size_t k = 0; k < total; k++)
        if (run.out[ABX_CH_STDOUT].data[k] != (uint8_t)(k * 31 >> 3))
            fail_msg("byte %zu is another one", k);
    fake_done(&f, &run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_runs),
        cmocka_unit_test(no_limit_sends_no_timeout),
        cmocka_unit_test(ends_of_processes),
        cmocka_unit_test(a_limit_that_passed_is_a_result),
        cmocka_unit_test(a_start_that_fails),
        cmocka_unit_test(streams_that_break),
        cmocka_unit_test(a_gone_sandbox_is_named),
        cmocka_unit_test(a_sandbox_that_is_about_to_end_is_not_alive),
        cmocka_unit_test(a_stream_cut_at_each_byte),
        cmocka_unit_test(an_answer_in_single_bytes),
        cmocka_unit_test(envelopes_that_do_not_fit),
        cmocka_unit_test(answers_of_another_kind),
        cmocka_unit_test(request_ids_are_kept),
        cmocka_unit_test(a_head_has_a_limit),
        cmocka_unit_test(a_length_that_nobody_can_count),
        cmocka_unit_test(an_overflow_of_the_length_is_told),
        cmocka_unit_test(an_answer_that_is_cut_is_no_success),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(a_cancel_kills_where_nothing_else_does),
        cmocka_unit_test(a_cancel_before_the_start_kills_too),
        cmocka_unit_test(a_cancel_while_input_waits),
        cmocka_unit_test(two_exchanges_break_at_once),
        cmocka_unit_test(a_detached_process_is_left_alone),
        cmocka_unit_test(the_client_closes_while_a_call_runs),
        cmocka_unit_test(a_slow_reader_gets_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
