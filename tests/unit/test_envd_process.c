/* process.Process over real processes: both dialects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "envd_fixture.h"

static int set_up(void **state)
{
    envd_fixture *f = ABX_NEW(envd_fixture);
    (void)signal(SIGPIPE, SIG_IGN);
    fixture_open(f, NULL);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture_close(*state);
    free(*state);
    return 0;
}

/* Start and read the whole stream. */
static void run(envd_fixture *f, const char *json, abx_buf *body)
{
    assert_int_equal(fixture_rpc(f, "/process.Process/Start", true, json, body), 200);
}

static void assert_has(const abx_buf *body, const char *text)
{
    if (memmem(abx_buf_cstr(body), body->len, text, strlen(text)))
        return;
    (void)fprintf(stderr, "'%s' is not in:\n%.*s\n", text, (int)body->len,
                  (const char *)body->data);
    fail();
}

static void assert_data(const abx_buf *body, const char *member, const char *text)
{
    ABX_AUTO_BUF out = ABX_BUF(SIZE_MAX / 2);
    fixture_data(body, member, &out);
    assert_string_equal(abx_buf_cstr(&out), text);
}

#define BUF(name) ABX_AUTO_BUF name = ABX_BUF(SIZE_MAX / 2)

static void test_output_and_exit_code(void **state)
{
    BUF(body);
    run(*state,
        "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"echo out; echo err >&2; exit "
        "3\"]},\"stdin\":false}",
        &body);
    assert_data(&body, "stdout", "out\n");
    assert_data(&body, "stderr", "err\n");
    assert_has(&body, "\"exitCode\":3");
    assert_has(&body, "\"error\":\"exit status 3\"");
    assert_null(fixture_frame_with(&body, "abxId"));
}

static void test_environment_is_made_of_nothing(void **state)
{
    envd_fixture *f = *state;
    BUF(body);
    (void)setenv("SECRET_OF_THE_HOST", "1", 1);
    run(f,
        "{\"abx\":true,\"process\":{\"cmd\":\"env\",\"envs\":{\"A\":\"1\",\"G\":\"2\"}},\"stdin\":"
        "false}",
        &body);
    BUF(out);
    fixture_data(&body, "stdout", &out);
    assert_null(strstr(abx_buf_cstr(&out), "SECRET"));
    assert_non_null(strstr(abx_buf_cstr(&out), "G=2\n"));
    assert_non_null(strstr(abx_buf_cstr(&out), "A=1\n"));
    assert_non_null(strstr(abx_buf_cstr(&out), "LANG=C.UTF-8\n"));
    assert_non_null(strstr(abx_buf_cstr(&out), "TERM=dumb\n"));
    ABX_AUTO_FREE char *home = abx_format("HOME=%s\n", f->home);
    assert_non_null(strstr(abx_buf_cstr(&out), home));
}

static void test_nothing_is_inherited(void **state)
{
    BUF(body);
    run(*state,
        "{\"abx\":true,\"process\":{\"cmd\":\"sh\",\"args\":[\"-c\",\"ls /proc/self/fd; umask; "
        "trap; cat "
        "/proc/self/status | grep SigIgn\"]},\"stdin\":false}",
        &body);
    assert_data(&body, "stdout", "0\n1\n2\n3\n0022\nSigIgn:\t0000000000000000\n");
}

static void test_failed_exec_in_both_dialects(void **state)
{
    BUF(a);
    run(*state, "{\"abx\":true,\"process\":{\"cmd\":\"nosuchprogram\"}}", &a);
    assert_has(&a, "\"code\":\"not_found\"");
    assert_null(fixture_frame_with(&a, "start"));
    BUF(b);
    run(*state, "{\"abx\":true,\"process\":{\"cmd\":\"/etc/passwd\"}}", &b);
    assert_has(&b, "\"code\":\"permission_denied\"");
    BUF(c);
    run(*state, "{\"abx\":true,\"process\":{\"cmd\":\"true\",\"cwd\":\"/nosuch\"}}", &c);
    assert_has(&c, "\"code\":\"invalid_argument\"");
    BUF(d);
    run(*state, "{\"process\":{\"cmd\":\"nosuchprogram\"},\"stdin\":false}", &d);
    assert_has(&d, "\"exitCode\":127");
    BUF(e);
    run(*state, "{\"process\":{\"cmd\":\"/etc\"},\"stdin\":false}", &e);
    assert_has(&e, "\"exitCode\":126");
}

static void test_words_with_a_nul_are_refused(void **state)
{
    BUF(a);
    run(*state, "{\"process\":{\"cmd\":\"echo\",\"args\":[\"a\\u0000b\"]},\"stdin\":false}", &a);
    assert_has(&a, "invalid_argument");
    BUF(b);
    run(*state, "{\"process\":{\"cmd\":\"env\",\"envs\":{\"A\":\"a\\u0000b\"}},\"stdin\":false}",
        &b);
    assert_has(&b, "invalid_argument");
}

static void test_input_with_the_request(void **state)
{
    BUF(body);
    run(*state,
        "{\"abx\":true,\"abxInput\":\"aGVsbG8=\",\"stdin\":false,\"process\":{\"cmd\":\"cat\"}}",
        &body);
    assert_data(&body, "stdout", "hello");
    assert_has(&body, "\"exited\":true");
}

static void test_signal_of_the_end_is_named(void **state)
{
    BUF(body);
    run(*state,
        "{\"abx\":true,\"process\":{\"cmd\":\"sh\",\"args\":[\"-c\",\"kill -TERM "
        "$$\"]},\"stdin\":false}",
        &body);
    assert_has(&body, "\"status\":\"signal: terminated\"");
    assert_has(&body, "\"abxSignal\":\"SIGTERM\"");
    assert_has(&body, "\"exitCode\":-1");
}

/* A child that stays holds the output open: ours ends all the same, and the child lives. */
static void test_end_does_not_wait_for_what_stays(void **state)
{
    BUF(body);
    run(*state,
        "{\"abx\":true,\"process\":{\"cmd\":\"sh\",\"args\":[\"-c\",\"sleep 30 & echo $!; exit "
        "4\"]},\"stdin\":false}",
        &body);
    assert_has(&body, "\"exitCode\":4");
    BUF(out);
    fixture_data(&body, "stdout", &out);
    pid_t pid = (pid_t)strtol(abx_buf_cstr(&out), NULL, 10);
    assert_true(pid > 0);
    assert_int_equal(kill(pid, 0), 0);
    (void)kill(pid, SIGKILL);
}

static bool is_alive(pid_t pid)
{
    char path[64], text[512] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *p = fopen(path, "re");
    if (!p)
        return false;
    size_t n = fread(text, 1, sizeof(text) - 1, p);
    (void)fclose(p);
    const char *at = n > 0 ? strrchr(text, ')') : NULL;
    return at && at[2] != 'Z' && at[2] != 'X';
}

/* Turn until the process is gone, at most 10 s. */
static void assert_goes(envd_fixture *f, pid_t pid)
{
    for (int i = 0; i < 1000 && is_alive(pid); i++)
        fixture_turn(f, -1, NULL, 10);
    assert_false(is_alive(pid));
}

#define ESCAPE                                                                                     \
    "setsid sh -c 'setsid sleep 60 & echo $!; exit' & sleep 0.3; setsid -f sh -c 'echo $$; exec "  \
    "sleep 60'; sleep 60"

static void test_deadline_ends_all_that_was_started(void **state)
{
    envd_fixture *f = *state;
    BUF(body);
    run(f,
        "{\"abx\":true,\"abxTimeoutMs\":1500,\"process\":{\"cmd\":\"sh\",\"args\":[\"-c\",\"" ESCAPE
        "\"]},\"stdin\":false}",
        &body);
    assert_has(&body, "\"abxTimedOut\":true");
    assert_has(&body, "\"abxSignal\":\"SIGKILL\"");
    BUF(out);
    fixture_data(&body, "stdout", &out);
    int a = 0, b = 0;
    assert_int_equal(sscanf(abx_buf_cstr(&out), "%d %d", &a, &b), 2);
    assert_goes(f, a);
    assert_goes(f, b);
}

static int post(envd_fixture *f, const char *path, const char *json, abx_buf *body)
{
    return fixture_rpc(f, path, false, json, body);
}

/* Send the Start on a connection that stays open. */
static int start_open(envd_fixture *f, const char *json, abx_buf *raw)
{
    int fd = fixture_connect(f);
    BUF(text);
    size_t n = strlen(json);
    const uint8_t head[5] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
                             (uint8_t)n};
    assert_int_equal(
        abx_buf_addf(&text,
                     "POST /process.Process/Start HTTP/1.1\r\nHost: x\r\n"
                     "Content-Type: application/connect+json\r\nContent-Length: %zu\r\n\r\n",
                     n + 5),
        0);
    assert_int_equal(abx_buf_add(&text, head, 5), 0);
    assert_int_equal(abx_buf_add(&text, json, n), 0);
    assert_int_equal(write(fd, text.data, text.len), (ssize_t)text.len);
    for (int i = 0; i < 500 && !memmem(abx_buf_cstr(raw), raw->len, "\"start\"", 7); i++)
        fixture_turn(f, fd, raw, 10);
    assert_true(raw->len > 0);
    return fd;
}

static void wait_text(envd_fixture *f, int fd, abx_buf *raw, const char *text)
{
    for (int i = 0; i < 1000 && !memmem(abx_buf_cstr(raw), raw->len, text, strlen(text)); i++)
        fixture_turn(f, fd, raw, 10);
    assert_has(raw, text);
}

static void test_tied_process_goes_with_its_connection(void **state)
{
    envd_fixture *f = *state;
    BUF(raw);
    int fd =
        start_open(f,
                   "{\"abx\":true,\"abxTied\":true,\"process\":{\"cmd\":\"sh\",\"args\":[\"-c\","
                   "\"setsid sleep 60 & echo $!; sleep 60\"]},\"stdin\":false}",
                   &raw);
    wait_text(f, fd, &raw, "\"data\"");
    BUF(body);
    BUF(out);
    fixture_body(&raw, &body);
    fixture_data(&body, "stdout", &out);
    pid_t pid = (pid_t)strtol(abx_buf_cstr(&out), NULL, 10);
    assert_true(pid > 0 && is_alive(pid));
    close(fd);
    assert_goes(f, pid);
    BUF(list);
    fixture_turn(f, -1, NULL, 200);
    assert_int_equal(post(f, "/process.Process/List", "{}", &list), 200);
    assert_string_equal(abx_buf_cstr(&list), "{}");
}

static void test_untied_process_outlives_its_connection(void **state)
{
    envd_fixture *f = *state;
    BUF(raw);
    int fd =
        start_open(f,
                   "{\"abx\":true,\"tag\":\"t\",\"process\":{\"cmd\":\"sleep\",\"args\":[\"60\"]},"
                   "\"stdin\":false}",
                   &raw);
    close(fd);
    fixture_turn(f, -1, NULL, 100);
    BUF(list);
    assert_int_equal(post(f, "/process.Process/List", "{\"abx\":true}", &list), 200);
    assert_has(&list, "\"tag\":\"t\"");
    assert_has(&list, "\"abxState\":\"running\"");
    BUF(kill_body);
    assert_int_equal(post(f, "/process.Process/SendSignal",
                          "{\"process\":{\"tag\":\"t\"},\"abxSignal\":15}", &kill_body),
                     200);
    BUF(gone);
    for (int i = 0; i < 200; i++) {
        abx_buf_reset(&gone);
        fixture_turn(f, -1, NULL, 10);
        assert_int_equal(post(f, "/process.Process/List", "{}", &gone), 200);
        if (gone.len == 2)
            break;
    }
    assert_string_equal(abx_buf_cstr(&gone), "{}");
}

static void test_signal_reaches_the_group(void **state)
{
    envd_fixture *f = *state;
    BUF(raw);
    int fd = start_open(
        f,
        "{\"abx\":true,\"tag\":\"g\",\"process\":{\"cmd\":\"sh\",\"args\":[\"-c\",\"sh -c "
        "'trap \\\"echo got; exit\\\" USR1; echo up; while :; do sleep 0.05; done' & trap "
        "'' USR1; wait; wait\"]},\"stdin\":false}",
        &raw);
    wait_text(f, fd, &raw, "dXAK");
    BUF(body);
    assert_int_equal(post(f, "/process.Process/SendSignal",
                          "{\"process\":{\"tag\":\"g\"},\"abxSignal\":10}", &body),
                     200);
    wait_text(f, fd, &raw, "Z290Cg==");
    close(fd);
}

static void test_background_output_is_kept_with_offsets(void **state)
{
    envd_fixture *f = *state;
    BUF(raw);
    int fd = start_open(
        f,
        "{\"abx\":true,\"abxBackground\":true,\"process\":{\"cmd\":\"sh\",\"args\":[\"-c\","
        "\"echo 0123456789; echo e >&2; exit 7\"]},\"stdin\":false}",
        &raw);
    wait_text(f, fd, &raw, "\"end\"");
    close(fd);
    BUF(body);
    assert_int_equal(fixture_rpc(f, "/process.Process/Connect", true,
                                 "{\"abx\":true,\"process\":{\"abxId\":\"p1\"},\"abxFromStdout\":4,"
                                 "\"abxFromStderr\":0}",
                                 &body),
                     200);
    assert_has(&body, "\"abxStdout\":\"4\"");
    assert_data(&body, "stdout", "456789\n");
    assert_data(&body, "stderr", "e\n");
    assert_has(&body, "\"exitCode\":7");
    BUF(list);
    assert_int_equal(post(f, "/process.Process/List", "{\"abx\":true}", &list), 200);
    assert_has(&list, "\"abxExitCode\":7");
}

static void test_no_follow_ends_while_the_process_runs(void **state)
{
    envd_fixture *f = *state;
    BUF(raw);
    int fd = start_open(
        f,
        "{\"abx\":true,\"abxBackground\":true,\"process\":{\"cmd\":\"sh\",\"args\":[\"-c\","
        "\"echo one; sleep 60\"]},\"stdin\":false}",
        &raw);
    wait_text(f, fd, &raw, "\"data\"");
    close(fd);
    BUF(body);
    assert_int_equal(fixture_rpc(f, "/process.Process/Connect", true,
                                 "{\"abx\":true,\"process\":{\"abxId\":\"p1\"},\"abxFromStdout\":0,"
                                 "\"abxNoFollow\":true}",
                                 &body),
                     200);
    assert_data(&body, "stdout", "one\n");
    assert_null(fixture_frame_with(&body, "\"end\""));
}

/* 40 MB pass through memory and file, and come back byte for byte. */
static void test_long_background_output(void **state)
{
    envd_fixture *f = *state;
    BUF(body);
    run(f,
        "{\"abx\":true,\"abxBackground\":true,\"process\":{\"cmd\":\"sh\",\"args\":[\"-c\",\"seq 1 "
        "5000000\"]},\"stdin\":false}",
        &body);
    BUF(first);
    fixture_data(&body, "stdout", &first);
    assert_int_equal(first.len, 38888896);
    BUF(again);
    BUF(second);
    assert_int_equal(
        fixture_rpc(f, "/process.Process/Connect", true,
                    "{\"abx\":true,\"process\":{\"abxId\":\"p1\"},\"abxFromStdout\":\"0\"}",
                    &again),
        200);
    fixture_data(&again, "stdout", &second);
    assert_int_equal(second.len, first.len);
    assert_memory_equal(second.data, first.data, first.len);
}

/* More than is kept: a reader from the start is told how much is gone, and gets the rest. */
static void test_what_fell_off_is_told(void **state)
{
    envd_fixture *f = *state;
    BUF(raw);
    int fd = start_open(
        f,
        "{\"abx\":true,\"abxBackground\":true,\"process\":{\"cmd\":\"head\",\"args\":[\"-"
        "c\",\"300000000\",\"/dev/zero\"]},\"stdin\":false}",
        &raw);
    close(fd); /* nobody listens: nothing stops it */
    BUF(list);
    for (int i = 0; i < 6000; i++) {
        abx_buf_reset(&list);
        assert_int_equal(post(f, "/process.Process/List", "{\"abx\":true}", &list), 200);
        if (strstr(abx_buf_cstr(&list), "exited"))
            break;
        fixture_turn(f, -1, NULL, 10);
    }
    BUF(body);
    assert_int_equal(
        fixture_rpc(f, "/process.Process/Connect", true,
                    "{\"abx\":true,\"process\":{\"abxId\":\"p1\"},\"abxFromStdout\":\"0\"}", &body),
        200);
    ABX_AUTO_FREE char *gap = fixture_frame_with(&body, "abxGap");
    assert_non_null(gap);
    ABX_AUTO_JSON d = abx_json_parse(gap, strlen(gap), ABX_ERR_USAGE, "gap", NULL);
    yyjson_val *event = abx_json_get(abx_json_get(yyjson_doc_get_root(d), "event"), "abxGap");
    int64_t gone = strtoll(abx_json_str(event, "bytes", "0"), NULL, 10);
    BUF(out);
    fixture_data(&body, "stdout", &out);
    assert_true(gone > 0);
    assert_int_equal(gone + (int64_t)out.len, 300000000);
}

/* A reader that does not read stops the process; when it reads on, no byte is missing. */
static void test_slow_reader_loses_nothing(void **state)
{
    envd_fixture *f = *state;
    BUF(raw);
    int fd = start_open(f,
                        "{\"abx\":true,\"process\":{\"cmd\":\"sh\",\"args\":[\"-c\",\"seq 1 "
                        "1000000\"]},\"stdin\":false}",
                        &raw);
    fixture_turn(f, -1, NULL, 500);
    BUF(list);
    assert_int_equal(post(f, "/process.Process/List", "{}", &list), 200);
    assert_has(&list, "seq 1"); /* it waits */
    wait_text(f, fd, &raw, "\"end\"");
    close(fd);
    BUF(body);
    BUF(out);
    fixture_body(&raw, &body);
    fixture_data(&body, "stdout", &out);
    assert_int_equal(out.len, 6888896);
    assert_memory_equal(out.data + out.len - 8, "1000000\n", 8);
}

static void test_stdin_by_calls(void **state)
{
    envd_fixture *f = *state;
    BUF(raw);
    int fd = start_open(f, "{\"tag\":\"c\",\"process\":{\"cmd\":\"cat\"}}", &raw);
    BUF(a);
    assert_int_equal(post(f, "/process.Process/SendInput",
                          "{\"process\":{\"tag\":\"c\"},\"input\":{\"stdin\":\"aGk=\"}}", &a),
                     200);
    wait_text(f, fd, &raw, "aGk=");
    BUF(b);
    assert_int_equal(post(f, "/process.Process/CloseStdin", "{\"process\":{\"tag\":\"c\"}}", &b),
                     200);
    wait_text(f, fd, &raw, "\"end\"");
    BUF(c);
    assert_int_equal(post(f, "/process.Process/SendInput",
                          "{\"process\":{\"tag\":\"c\"},\"input\":{\"stdin\":\"aGk=\"}}", &c),
                     404);
    close(fd);
}

/* A long input to a process that does not read waits and is answered when it was read. */
static void test_long_input_waits(void **state)
{
    envd_fixture *f = *state;
    BUF(raw);
    int fd = start_open(
        f, "{\"tag\":\"w\",\"process\":{\"cmd\":\"sh\",\"args\":[\"-c\",\"sleep 0.3; wc -c\"]}}",
        &raw);
    BUF(json);
    assert_int_equal(abx_buf_add_str(&json, "{\"process\":{\"tag\":\"w\"},\"input\":{\"stdin\":\""),
                     0);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(abx_buf_add(&json, "AAAA", 4), 0);
    assert_int_equal(abx_buf_add_str(&json, "\"}}"), 0);
    BUF(a);
    assert_int_equal(post(f, "/process.Process/SendInput", abx_buf_cstr(&json), &a), 200);
    BUF(b);
    assert_int_equal(post(f, "/process.Process/CloseStdin", "{\"process\":{\"tag\":\"w\"}}", &b),
                     200);
    wait_text(f, fd, &raw, "MzAwMDAwCg=="); /* 300000 */
    close(fd);
}

static void test_stream_input(void **state)
{
    envd_fixture *f = *state;
    BUF(raw);
    int fd = start_open(f, "{\"tag\":\"s\",\"process\":{\"cmd\":\"cat\"}}", &raw);
    BUF(text);
    static const char *const messages[] = {
        "{\"start\":{\"process\":{\"tag\":\"s\"}}}", "{\"data\":{\"input\":{\"stdin\":\"YQ==\"}}}",
        "{\"keepalive\":{}}", "{\"data\":{\"input\":{\"stdin\":\"Yg==\"}}}"};
    for (size_t i = 0; i < ABX_COUNT(messages); i++) {
        const uint8_t head[5] = {0, 0, 0, 0, (uint8_t)strlen(messages[i])};
        assert_int_equal(abx_buf_add(&text, head, 5), 0);
        assert_int_equal(abx_buf_add_str(&text, messages[i]), 0);
    }
    BUF(answer);
    assert_int_equal(fixture_call(f, "POST", "/process.Process/StreamInput",
                                  "Content-Type: application/connect+json\r\n", text.data, text.len,
                                  &answer),
                     200);
    BUF(close_body);
    assert_int_equal(
        post(f, "/process.Process/CloseStdin", "{\"process\":{\"tag\":\"s\"}}", &close_body), 200);
    wait_text(f, fd, &raw, "\"end\"");
    close(fd);
    BUF(body);
    fixture_body(&raw, &body);
    assert_data(&body, "stdout", "ab");
}

static void test_terminal(void **state)
{
    BUF(body);
    run(*state,
        "{\"abx\":true,\"process\":{\"cmd\":\"sh\",\"args\":[\"-c\",\"stty size; [ -t 0 ] && echo "
        "in; exit "
        "4\"]},\"pty\":{\"size\":{\"cols\":100,\"rows\":30}}}",
        &body);
    assert_data(&body, "pty", "30 100\r\nin\r\n");
    assert_has(&body, "\"exitCode\":4");
}

static void test_time_limit_of_e2b(void **state)
{
    envd_fixture *f = *state;
    static const char json[] =
        "\0\0\0\0\x36{\"process\":{\"cmd\":\"sleep\",\"args\":[\"60\"]},\"stdin\":false}";
    BUF(raw);
    size_t n = strlen(json + 5);
    char text[128];
    memcpy(text, json, 5);
    text[4] = (char)n;
    memcpy(text + 5, json + 5, n);
    assert_int_equal(
        fixture_call(f, "POST", "/process.Process/Start",
                     "Content-Type: application/connect+json\r\nConnect-Timeout-Ms: 200\r\n", text,
                     n + 5, &raw),
        200);
    BUF(body);
    fixture_body(&raw, &body);
    assert_has(&body, "\"start\"");
    assert_has(&body, "\"deadline_exceeded\"");
    assert_null(fixture_frame_with(&body, "\"end\""));
}

/* Many that end at once, and many clients: none is lost, nothing is left open. */
static void test_two_hundred_at_once(void **state)
{
    envd_fixture *f = *state;
    enum { N = 200 };
    static const char json[] =
        "{\"abx\":true,\"process\":{\"cmd\":\"echo\",\"args\":[\"x\"]},\"stdin\":false}";
    int fds[N];
    abx_buf raw[N];
    for (int i = 0; i < N; i++) {
        char text[512];
        int n = snprintf(text, sizeof(text),
                         "POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nContent-Type: "
                         "application/connect+json\r\nContent-Length: %zu\r\n\r\n",
                         sizeof(json) - 1 + 5);
        fds[i] = fixture_connect(f);
        abx_buf_init(&raw[i], (size_t)1024 * 1024);
        const uint8_t head[5] = {0, 0, 0, 0, sizeof(json) - 1};
        assert_int_equal(write(fds[i], text, (size_t)n), n);
        assert_int_equal(write(fds[i], head, 5), 5);
        assert_int_equal(write(fds[i], json, sizeof(json) - 1), (ssize_t)sizeof(json) - 1);
    }
    for (int i = 0; i < N; i++) {
        wait_text(f, fds[i], &raw[i], "\"exited\":true");
        close(fds[i]);
        abx_buf_clear(&raw[i]);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_output_and_exit_code),
        T(test_environment_is_made_of_nothing),
        T(test_nothing_is_inherited),
        T(test_failed_exec_in_both_dialects),
        T(test_words_with_a_nul_are_refused),
        T(test_input_with_the_request),
        T(test_signal_of_the_end_is_named),
        T(test_end_does_not_wait_for_what_stays),
        T(test_deadline_ends_all_that_was_started),
        T(test_tied_process_goes_with_its_connection),
        T(test_untied_process_outlives_its_connection),
        T(test_signal_reaches_the_group),
        T(test_background_output_is_kept_with_offsets),
        T(test_no_follow_ends_while_the_process_runs),
        T(test_long_background_output),
        T(test_what_fell_off_is_told),
        T(test_slow_reader_loses_nothing),
        T(test_stdin_by_calls),
        T(test_long_input_waits),
        T(test_stream_input),
        T(test_terminal),
        T(test_time_limit_of_e2b),
        T(test_two_hundred_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
