/* The client of the code interpreter: what becomes of its lines, also of hostile ones. */
#include "envd_fake.h"

#include "base/text.h"

#define LINES "application/x-ndjson"
#define RUN   "{\"sandboxId\":\"s\",\"code\":\"1+1\"}"
#define END   "{\"type\":\"end_of_execution\"}\n"

typedef struct code_case {
    bool abx;
    const char *params, *sent, *status, *answer;
    const char *events, *out, *err_out; /* NULL: not looked at */
    const char *result;                 /* or NULL and */
    const char *error;                  /* the error's name */
} code_case;

static void check(const code_case *c)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, c->abx);
    fake_reply(&f, c->status ? c->status : "200 OK", LINES, c->answer);
    fake_call(&f, &run, "code.run", c->params ? c->params : RUN);
    assert_request(&f, 0, "POST /execute HTTP/1.1\r\n");
    ABX_AUTO_FREE char *port = fake_header(&f, 0, "E2b-Sandbox-Port");
    assert_string_equal(port, "49999");
    if (c->sent)
        assert_string_equal(fake_body(&f, 0), c->sent);
    if (c->events)
        assert_string_equal(abx_buf_cstr(&run.events), c->events);
    if (c->out)
        assert_string_equal(abx_buf_cstr(&run.out[ABX_CH_STDOUT]), c->out);
    if (c->err_out)
        assert_string_equal(abx_buf_cstr(&run.out[ABX_CH_STDERR]), c->err_out);
    if (c->error) {
        assert_non_null(run.err);
        assert_string_equal(abx_err_row_of(run.err->id)->name, c->error);
    } else {
        if (run.err)
            fail_msg("%s", run.err->message);
        assert_string_equal(run.result, c->result);
    }
    fake_run_clear(&run);
    fake_close(&f);
}

static void lines_become_events(void **state)
{
    check(&(code_case){
        .sent = "{\"code\":\"1+1\"}",
        .answer =
            "{\"type\":\"number_of_executions\",\"execution_count\":3}\n"
            "{\"type\":\"stdout\",\"text\":\"hi\\n\",\"timestamp\":\"x\"}\n"
            "{\"type\":\"keepalive\"}\n{\"type\":\"later\"}\n"
            "{\"type\":\"stderr\",\"text\":\"no\",\"timestamp\":\"x\"}\n"
            "{\"type\":\"result\",\"text\":\"2\",\"png\":\"AA==\",\"json\":{\"a\":[1]},\"html\":7,"
            "\"chart\":null,\"extra\":{},\"is_main_result\":true}\n"
            "{\"type\":\"result\",\"extra\":{\"x/y\":1},\"is_main_result\":false}\n"
            "{\"type\":\"error\",\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\","
            "\"abxExitCode\":3}\n" END "{\"type\":\"stdout\",\"text\":\"after the end\"}\n",
        .events =
            "started {\"executionCount\":3}\n"
            "result {\"isMainResult\":true,\"text\":\"2\",\"png\":\"AA==\",\"json\":{\"a\":[1]}}\n"
            "result {\"isMainResult\":false,\"extra\":{\"x/y\":1}}\n"
            "error {\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"}\n",
        .out = "hi\n",
        .err_out = "no",
        .result = "{\"executionCount\":3}"});
}

/* Servers that name what they have not. */
static void nothing_is_nothing(void **state)
{
    check(&(code_case){
        .sent = "{\"code\":\"1+1\"}",
        .answer =
            "{\"type\":\"number_of_executions\",\"execution_count\":null}\n"
            "{\"type\":\"stdout\",\"text\":null}\n{\"type\":\"stderr\"}\n{\"type\":null}\n{}\n"
            "{\"type\":\"result\",\"text\":null,\"png\":null,\"json\":null,\"extra\":null,"
            "\"is_main_result\":null}\n"
            "{\"type\":\"error\",\"name\":\"E\",\"value\":null,\"traceback\":null}\n" END,
        .events = "started {}\nresult {\"isMainResult\":false}\n"
                  "error {\"name\":\"E\",\"value\":\"\",\"traceback\":\"\"}\n",
        .out = "",
        .err_out = "",
        .result = "{}"});
}

static void our_dialect_tells_more(void **state)
{
    check(&(code_case){
        .abx = true,
        .params = "{\"sandboxId\":\"s\",\"code\":\"c\",\"language\":\"js\",\"env\":{\"A\":\"b\"},"
                  "\"timeoutMs\":500}",
        .sent =
            "{\"code\":\"c\",\"language\":\"js\",\"env_vars\":{\"A\":\"b\"},\"abxTimeoutMs\":500}",
        .answer =
            "{\"type\":\"stdout\",\"abxBase64\":\"/0EK\"}\n"
            "{\"type\":\"error\",\"name\":\"SystemExit\",\"value\":\"3\",\"traceback\":\"\","
            "\"abxExitCode\":3}\n"
            "{\"type\":\"end_of_execution\",\"abxContext\":\"c1\",\"abxLanguage\":\"javascript\","
            "\"abxTimedOut\":true,\"abxStateLost\":true,\"abxFresh\":\"why\"}\n",
        .events = "started {}\nerror "
                  "{\"name\":\"SystemExit\",\"value\":\"3\",\"traceback\":\"\",\"exitCode\":3}\n",
        .out = "\xff"
               "A\n",
        .result =
            "{\"contextId\":\"c1\",\"language\":\"javascript\",\"fresh\":\"why\",\"timedOut\":true,"
            "\"stateLost\":true}"});
}

static void hostile_lines_are_errors(void **state)
{
    static const char *const bad[] = {
        "junk\n" END,
        "[1]\n" END,
        "{\"type\":\"stdout\"}\n" END,
        "{\"type\":\"stdout\",\"text\":5}\n" END,
        "{\"type\":\"stdout\",\"abxBase64\":\"!\"}\n" END,
        "{\"type\":\"stdout\",\"text\":\"\\ud800\"}\njunk\n",
        "{\"type\":\"stdout\",\"text\":\"cut off", /* no end */
        "",
        "junk\njunk\n{\"type\":\"error\",\"name\":\"\",\"value\":\"\",\"traceback\":\"\"}\n" END,
    };
    for (size_t i = 0; i < ABX_COUNT(bad); i++)
        check(&(code_case){.abx = true, .answer = bad[i], .error = "BACKEND_ANSWER"});
    /* 33 levels */
    ABX_AUTO_BUF deep = ABX_BUF(10000);
    assert_int_equal(abx_buf_add_str(&deep, "{\"type\":\"result\",\"json\":"), 0);
    for (int i = 0; i < 40; i++)
        assert_int_equal(abx_buf_add_byte(&deep, '['), 0);
    for (int i = 0; i < 40; i++)
        assert_int_equal(abx_buf_add_byte(&deep, ']'), 0);
    assert_int_equal(abx_buf_add_str(&deep, "}\n" END), 0);
    check(&(code_case){.answer = abx_buf_cstr(&deep), .error = "BACKEND_ANSWER"});
}

static void a_line_that_was_cut_by_the_kernels_end_is_forgiven(void **state)
{
    check(&(code_case){
        .abx = true,
        .answer =
            "{\"type\":\"result\",\"html\":\"half\n"
            "{\"type\":\"error\",\"name\":\"KernelDied\",\"value\":\"v\",\"traceback\":\"\"}\n" END,
        .events =
            "started {}\nerror {\"name\":\"KernelDied\",\"value\":\"v\",\"traceback\":\"\"}\n",
        .result = "{}"});
}

static void a_line_without_end_is_bounded(void **state)
{
    fake f;
    fake_run run;
    size_t n = (size_t)33 * 1024 * 1024;
    ABX_AUTO_BUF all = ABX_BUF(n + 1000);
    assert_int_equal(abx_buf_addf(&all, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", n), 0);
    memset(abx_buf_room(&all, n), 'x', n);
    abx_buf_grow(&all, n);
    fake_open(&f, ABX_E2B_JSON, true);
    fake_say(&f, all.data, all.len);
    fake_call(&f, &run, "code.run", RUN);
    assert_non_null(run.err);
    assert_int_equal(run.err->id, ABX_ERR_BACKEND_ANSWER);
    fake_run_clear(&run);
    fake_close(&f);
}

static void refusals(void **state)
{
    static const struct {
        const char *status, *body, *error;
    } rows[] = {{"404 Not Found", "Context c9 not found", "CONTEXT_NOT_FOUND"},
                {"400 Bad Request", "Only one of them", "USAGE"},
                {"422 Unprocessable", "{\"detail\":[]}", "USAGE"},
                {"429 Too Many", "wait", "RATE_LIMIT"},
                {"500 Internal", "no kernel", "START_FAILED"}};
    for (size_t i = 0; i < ABX_COUNT(rows); i++)
        check(&(code_case){.params = "{\"sandboxId\":\"s\",\"code\":\"c\",\"contextId\":\"c9\"}",
                           .status = rows[i].status,
                           .answer = rows[i].body,
                           .error = rows[i].error});
}

/* One plain request. */
static void ask(bool abx, const char *method, const char *params, const char *line,
                const char *answer, const char *result)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, abx);
    fake_reply(&f, "200 OK", "application/json", answer);
    fake_call(&f, &run, method, params);
    assert_request(&f, 0, line);
    if (result) {
        if (run.err)
            fail_msg("%s", run.err->message);
        assert_string_equal(run.result, result);
    } else {
        assert_non_null(run.err);
        assert_int_equal(run.err->id, ABX_ERR_BACKEND_ANSWER);
    }
    fake_run_clear(&run);
    fake_close(&f);
}

#define C9 "{\"sandboxId\":\"s\",\"contextId\":\"c/9 \"}"

static void contexts(void **state)
{
    ask(true, "code.context_create",
        "{\"sandboxId\":\"s\",\"language\":\"py\",\"env\":{\"A\":\"b\"}}",
        "POST /contexts HTTP/1.1\r\n",
        "{\"id\":\"c1\",\"language\":\"python\",\"cwd\":\"/w\",\"abxPid\":4}",
        "{\"id\":\"c1\",\"language\":\"python\",\"cwd\":\"/w\",\"busy\":false,\"pid\":4}");
    ask(false, "code.context_list", "{\"sandboxId\":\"s\"}", "GET /contexts HTTP/1.1\r\n",
        "[{\"id\":\"a\",\"language\":\"python\",\"cwd\":\"/\"}]",
        "{\"contexts\":[{\"id\":\"a\",\"language\":\"python\",\"cwd\":\"/\"}]}");
    ask(false, "code.context_restart", C9, "POST /contexts/c%2F9%20/restart HTTP/1.1\r\n", "null",
        "{}");
    ask(false, "code.context_remove", C9, "DELETE /contexts/c%2F9%20 HTTP/1.1\r\n", "null", "{}");
    ask(true, "code.interrupt", C9, "POST /abx/contexts/c%2F9%20/interrupt HTTP/1.1\r\n",
        "{\"interrupted\":true}", "{\"interrupted\":true}");
    ask(false, "code.context_list", "{\"sandboxId\":\"s\"}", "GET", "{}", NULL);
    ask(false, "code.context_list", "{\"sandboxId\":\"s\"}", "GET", "[{\"language\":\"x\"}]", NULL);
    ask(false, "code.context_create", "{\"sandboxId\":\"s\"}", "POST", "null", NULL);
    ask(false, "code.context_create", "{\"sandboxId\":\"s\"}", "POST", "{\"id\":\"a\\u0000b\"}",
        NULL);
}

static void what_a_provider_cannot_is_refused(void **state)
{
    static const char *const rows[][2] = {
        {"code.context_create", "{\"sandboxId\":\"s\",\"env\":{\"A\":\"b\"}}"},
        {"code.interrupt", "{\"sandboxId\":\"s\",\"contextId\":\"python\"}"}};
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        fake f;
        fake_run run;
        fake_open(&f, ABX_E2B_JSON, false);
        fake_call(&f, &run, rows[i][0], rows[i][1]);
        assert_non_null(run.err);
        assert_int_equal(run.err->id, ABX_ERR_FEATURE_MISSING);
        assert_int_equal(f.request_count, 0);
        fake_run_clear(&run);
        fake_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_events),
        cmocka_unit_test(nothing_is_nothing),
        cmocka_unit_test(our_dialect_tells_more),
        cmocka_unit_test(hostile_lines_are_errors),
        cmocka_unit_test(a_line_that_was_cut_by_the_kernels_end_is_forgiven),
        cmocka_unit_test(a_line_without_end_is_bounded),
        cmocka_unit_test(refusals),
        cmocka_unit_test(contexts),
        cmocka_unit_test(what_a_provider_cannot_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
