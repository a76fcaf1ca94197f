/* The client of envd, operation by operation, plain and in our own dialect, against a scripted server. */
#include "envd_fake.h"

#define JSON  "application/json"
#define PLAIN false
#define ABX   true

/* One unary call: what was sent, and what became of the answer. */
static void unary(bool abx, const char *method, const char *params, const char *path,
                  const char *sent, const char *answer, const char *result)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, abx);
    fake_reply(&f, "200 OK", JSON, answer);
    fake_call(&f, &run, method, params);
    ABX_AUTO_FREE char *line = abx_format("POST /%s HTTP/1.1\r\n", path);
    assert_request(&f, 0, line);
    assert_string_equal(fake_body(&f, 0), sent);
    fake_assert_result(&run, result);
    fake_done(&f, &run);
}

/* One unary call that fails with a Connect error. */
static void unary_error(const char *method, const char *params, const char *status,
                        const char *code, const char *name)
{
    fake f;
    fake_run run;
    ABX_AUTO_FREE char *body = abx_format("{\"code\":\"%s\",\"message\":\"why\"}", code);
    fake_open(&f, ABX_E2B_JSON, PLAIN);
    fake_reply(&f, status, JSON, body);
    fake_call(&f, &run, method, params);
    fake_assert_error(&run, name, "why");
    fake_done(&f, &run);
}

/* A call that is refused before anything is sent. */
static void refused(bool abx, const char *method, const char *params, const char *name)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, abx);
    fake_call(&f, &run, method, params);
    fake_assert_error(&run, name, "");
    assert_int_equal(f.request_count, 0);
    fake_done(&f, &run);
}

static void signals(void **state)
{
    unary(PLAIN, "process.signal",
          "{\"sandboxId\":\"s\",\"processId\":\"7\",\"signal\":\"SIGTERM\"}",
          "process.Process/SendSignal", "{\"process\":{\"pid\":7},\"signal\":\"SIGNAL_SIGTERM\"}",
          "{}", "{}");
    unary(ABX, "process.signal", "{\"sandboxId\":\"s\",\"processId\":\"p3\",\"signal\":\"usr1\"}",
          "process.Process/SendSignal",
          "{\"process\":{\"abxId\":\"p3\"},\"abx\":true,\"abxSignal\":10}", "{}", "{}");
    unary(ABX, "pty.close", "{\"sandboxId\":\"s\",\"ptyId\":\"p3\"}", "process.Process/SendSignal",
          "{\"process\":{\"abxId\":\"p3\"},\"abx\":true,\"abxSignal\":9}", "{}", "{}");
    unary_error("process.signal", "{\"sandboxId\":\"s\",\"processId\":\"7\",\"signal\":\"9\"}",
                "404 Not Found", "not_found", "PROCESS_NOT_FOUND");
    refused(PLAIN, "process.signal",
            "{\"sandboxId\":\"s\",\"processId\":\"7\",\"signal\":\"SIGNAL\"}", "USAGE");
    refused(PLAIN, "process.signal", "{\"sandboxId\":\"s\",\"processId\":\"p7\",\"signal\":\"9\"}",
            "PROCESS_NOT_FOUND");
}

static void lists(void **state)
{
    unary(PLAIN, "process.list", "{\"sandboxId\":\"s\"}", "process.Process/List", "{}",
          "{\"processes\":[{\"config\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"x\"],\"cwd\":\"/"
          "w\"}, \"pid\":7,\"tag\":\"t\"}]}",
          "{\"processes\":[{\"id\":\"7\",\"pid\":7,\"cmd\":[\"/bin/sh\",\"-c\",\"x\"],\"cwd\":\"/"
          "w\",\"state\":\"running\"}]}");
    unary(ABX, "process.list", "{\"sandboxId\":\"s\"}", "process.Process/List", "{\"abx\":true}",
          "{\"processes\":[{\"config\":{\"cmd\":\"a\"},\"pid\":7,\"abxId\":\"p1\",\"abxStartedAt\":"
          "\"2026-01-01T00:00:00Z\","
          "\"abxBackground\":true,\"abxState\":\"exited\",\"abxSignal\":\"SIGKILL\","
          "\"abxTimedOut\":true},"
          "{\"abxId\":\"p2\",\"abxState\":\"exited\",\"abxExitCode\":3}]}",
          "{\"processes\":[{\"id\":\"p1\",\"pid\":7,\"cmd\":[\"a\"],\"state\":\"exited\","
          "\"startedAt\":\"2026-01-01T00:00:00Z\","
          "\"background\":true,\"signal\":\"SIGKILL\",\"timedOut\":true},"
          "{\"id\":\"p2\",\"cmd\":[\"\"],\"state\":\"exited\",\"background\":false,\"exitCode\":3}]"
          "}");
    unary(PLAIN, "process.list", "{\"sandboxId\":\"s\"}", "process.Process/List", "{}", "{}",
          "{\"processes\":[]}");
}

#define ENTRY(name, path, rest) "{\"name\":\"" name "\",\"path\":\"" path "\"" rest "}"

static void stats(void **state)
{
    unary(
        PLAIN, "fs.stat", "{\"sandboxId\":\"s\",\"path\":\"a.txt\"}", "filesystem.Filesystem/Stat",
        "{\"path\":\"a.txt\"}",
        "{\"entry\":{\"name\":\"a.txt\",\"type\":\"FILE_TYPE_FILE\",\"path\":\"/home/user/"
        "a.txt\",\"size\":\"4\",\"mode\":493,"
        " \"permissions\":\"urwxr-xr-x\",\"owner\":\"user\",\"group\":\"user\",\"modifiedTime\":"
        "\"2026-01-01T00:00:00.5Z\"}}",
        "{\"path\":\"/home/user/"
        "a.txt\",\"name\":\"a.txt\",\"type\":\"file\",\"size\":4,\"mode\":2541,\"owner\":\"user\","
        "\"group\":\"user\",\"modifiedAt\":\"2026-01-01T00:00:00.5Z\"}");
    unary(PLAIN, "fs.stat", "{\"sandboxId\":\"s\",\"path\":\"l\"}", "filesystem.Filesystem/Stat",
          "{\"path\":\"l\"}",
          "{\"entry\":" ENTRY("l", "/l",
                              ",\"type\":\"FILE_TYPE_DIRECTORY\",\"symlinkTarget\":\"/d\"") "}",
          "{\"path\":\"/"
          "l\",\"name\":\"l\",\"type\":\"symlink\",\"size\":0,\"mode\":0,\"target\":\"/d\","
          "\"targetPath\":\"/d\",\"targetType\":\"dir\",\"targetMode\":0}");
    unary(ABX, "fs.stat", "{\"sandboxId\":\"s\",\"path\":\"l\"}", "filesystem.Filesystem/Stat",
          "{\"path\":\"l\",\"abx\":true}",
          "{\"entry\":" ENTRY(
              "l", "/l",
              ",\"mode\":511,\"abxType\":\"symlink\",\"abxMode\":511,\"abxTarget\":\"../d\"") "}",
          "{\"path\":\"/"
          "l\",\"name\":\"l\",\"type\":\"symlink\",\"size\":0,\"mode\":511,\"target\":\"../d\"}");
    unary_error("fs.stat", "{\"sandboxId\":\"s\",\"path\":\"x\"}", "404 Not Found", "not_found",
                "FILE_NOT_FOUND");
    unary_error("fs.stat", "{\"sandboxId\":\"s\",\"path\":\"x/y\"}", "500 Internal Server Error",
                "internal", "FILE");
    refused(PLAIN, "fs.stat", "{\"sandboxId\":\"s\",\"path\":\"a\\u0000b\"}", "USAGE");
    refused(PLAIN, "fs.stat", "{\"sandboxId\":\"s\",\"path\":\"a\",\"user\":\"a:b\"}", "USAGE");
}

static void folders(void **state)
{
    unary(PLAIN, "fs.list", "{\"sandboxId\":\"s\",\"path\":\"d\",\"depth\":2,\"user\":\"root\"}",
          "filesystem.Filesystem/ListDir", "{\"path\":\"d\",\"depth\":2}",
          "{\"entries\":[" ENTRY("b", "/d/b", ",\"type\":\"FILE_TYPE_FILE\"") "," ENTRY("a", "/d/a",
                                                                                        "") "]}",
          "{\"files\":[{\"path\":\"/d/a\",\"name\":\"a\",\"type\":\"other\",\"size\":0,\"mode\":0},"
          "{\"path\":\"/d/b\",\"name\":\"b\",\"type\":\"file\",\"size\":0,\"mode\":0}]}");
    unary(PLAIN, "fs.make_dir", "{\"sandboxId\":\"s\",\"path\":\"d\"}",
          "filesystem.Filesystem/MakeDir", "{\"path\":\"d\"}", "{\"entry\":{}}",
          "{\"created\":true}");
    unary(PLAIN, "fs.rename", "{\"sandboxId\":\"s\",\"from\":\"a\",\"to\":\"b\"}",
          "filesystem.Filesystem/Move", "{\"source\":\"a\",\"destination\":\"b\"}",
          "{\"entry\":{}}", "{}");
    unary(ABX, "fs.remove", "{\"sandboxId\":\"s\",\"path\":\"d\"}", "filesystem.Filesystem/Remove",
          "{\"path\":\"d\",\"abx\":true}", "{}", "{}");
    unary_error("fs.list", "{\"sandboxId\":\"s\",\"path\":\"x\"}", "400 Bad Request",
                "invalid_argument", "FILE");

    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, PLAIN);
    fake_reply(&f, "409 Conflict", JSON,
               "{\"code\":\"already_exists\",\"message\":\"directory already exists: d\"}");
    fake_call(&f, &run, "fs.make_dir", "{\"sandboxId\":\"s\",\"path\":\"d\"}");
    fake_assert_result(&run, "{\"created\":false}");
    fake_done(&f, &run);
}

/* Names that could lead elsewhere are refused. */
static void hostile_names(void **state)
{
    static const char *const entries[] = {
        ENTRY("..", "/d/..", ""),
        ENTRY("a/b", "/d/a/b", ""),
        ENTRY("", "/d/", ""),
        ENTRY(".", "/d/.", ""),
        ENTRY("a", "d/a", ""),
        ENTRY("a", "/d/b", ""),
        ENTRY("a\\u0000", "/d/a", ""),
        ENTRY("a", "/d\\u0000/a", ""),
        "{\"name\":\"a\"}",
        "{\"path\":\"/d/a\"}",
        ENTRY("a", "/d/a", ",\"size\":-1"),
    };
    for (size_t i = 0; i < ABX_COUNT(entries); i++) {
        fake f;
        fake_run run;
        ABX_AUTO_FREE char *body = abx_format("{\"entries\":[%s]}", entries[i]);
        fake_open(&f, ABX_E2B_JSON, PLAIN);
        fake_reply(&f, "200 OK", JSON, body);
        fake_call(&f, &run, "fs.list", "{\"sandboxId\":\"s\",\"path\":\"/d\"}");
        fake_assert_error(&run, "BACKEND_ANSWER", "");
        fake_done(&f, &run);
    }
}

static void watches(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, PLAIN);
    fake_stream(
        &f, (const char *[]){"{\"start\":{}}",
                             "{\"filesystem\":{\"name\":\"a/b\", \"type\":\"EVENT_TYPE_CREATE\"}}",
                             "{\"keepalive\":{}}",
                             "{\"filesystem\":{\"name\":\".\",\"type\":\"EVENT_TYPE_REMOVE\"}}",
                             "{\"filesystem\":{\"name\":\"x\",\"type\":99}}", "!{}", NULL});
    fake_call(&f, &run, "fs.watch", "{\"sandboxId\":\"s\",\"path\":\"d\",\"recursive\":true}");
    assert_string_equal(abx_buf_cstr(&run.events),
                        "started {}\nchange {\"kind\":\"create\",\"name\":\"a/b\"}\n"
                        "change {\"kind\":\"remove\",\"name\":\".\"}\n");
    fake_assert_result(&run, "{}");
    assert_string_equal(fake_message(&f, 0), "{\"path\":\"d\",\"recursive\":true}");
    fake_done(&f, &run);

    static const char *const names[] = {"/etc/passwd", "../x", "a/../../x", "", "a\\u0000b"};
    for (size_t i = 0; i < ABX_COUNT(names); i++) {
        ABX_AUTO_FREE char *bad = abx_format(
            "{\"filesystem\":{\"name\":\"%s\",\"type\":\"EVENT_TYPE_WRITE\"}}", names[i]);
        fake_open(&f, ABX_E2B_JSON, PLAIN);
        fake_stream(&f, (const char *[]){"{\"start\":{}}", bad, "!{}", NULL});
        fake_call(&f, &run, "fs.watch", "{\"sandboxId\":\"s\",\"path\":\"d\"}");
        fake_assert_error(&run, "BACKEND_ANSWER", "unfit name");
        fake_done(&f, &run);
    }
}

/* --- input ------------------------------------------------------------------------------------------------------ */
static void input_by_calls(void **state)
{
    fake f;
    fake_run run;
    ABX_AUTO_FREE char *bytes = abx_alloc(400000);
    memset(bytes, 'x', 400000);
    fake_open(&f, ABX_E2B_JSON, PLAIN);
    fake_reply(&f, "200 OK", JSON, "{}")->hold = true;
    for (int i = 0; i < 3; i++)
        fake_reply(&f, "200 OK", JSON, "{}");
    fake_start(&f, &run, "process.stdin",
               "{\"sandboxId\":\"s\",\"processId\":\"7\",\"close\":true}");
    assert_int_equal(abx_call_write(run.call, "hi", 2), 0);
    while (!f.held)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_int_equal(abx_call_write(run.call, bytes, 400000), 0);
    abx_call_write_end(run.call);
    fake_go_on(&f);
    fake_wait(&run);
    fake_assert_result(&run, "{}");
    assert_string_equal(fake_body(&f, 0),
                        "{\"process\":{\"pid\":7},\"input\":{\"stdin\":\"aGk=\"}}");
    assert_request(&f, 1, "POST /process.Process/SendInput ");
    assert_request(&f, 2, "POST /process.Process/SendInput ");
    assert_request(&f, 3, "POST /process.Process/CloseStdin ");
    assert_int_equal(f.request_count, 4);
    fake_done(&f, &run);
}

/* All input events of request i, put together. */
static void assert_input(const fake *f, size_t i, abx_e2b_codec codec, abx_e2b_channel channel,
                         size_t total)
{
    const uint8_t *p = f->requests[i]->body.data;
    size_t left = f->requests[i]->body.len, got = 0, messages = 0;
    ABX_AUTO_BUF scratch = ABX_BUF(1 << 20);
    while (left > 0) {
        assert_true(left >= 5);
        size_t n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
        assert_true(left >= 5 + n);
        abx_e2b_channel c = ABX_E2B_STDOUT;
        const uint8_t *view = NULL;
        size_t len = 0;
        int rc = abx_e2b_get_input_event(codec, p + 5, n, &c, &view, &len, &scratch);
        assert_int_equal(rc, messages > 0);
        if (rc) {
            assert_int_equal(c, channel);
            for (size_t k = 0; k < len; k++)
                if (view[k] != (uint8_t)((got + k) * 13 >> 2))
                    fail_msg("byte %zu is another one", got + k);
            got += len;
        }
        messages++;
        p += 5 + n;
        left -= 5 + n;
    }
    assert_int_equal(got, total);
}

static void input_by_a_stream(void **state)
{
    for (int codec = 0; codec < 2; codec++) {
        fake f;
        fake_run run;
        size_t total = 3000000, sent = 0;
        fake_open(&f, (abx_e2b_codec)codec, ABX);
        ABX_AUTO_FREE char *head =
            abx_format("HTTP/1.1 200 OK\r\nContent-Type: application/connect+%s\r\n"
                       "Content-Length: %d\r\n\r\n",
                       codec ? "proto" : "json", codec ? 12 : 14);
        ABX_AUTO_BUF answer = ABX_BUF(1024);
        assert_int_equal(abx_buf_add_str(&answer, head), 0);
        assert_int_equal(codec ? abx_buf_add(&answer, "\0\0\0\0\0\2\0\0\0\2{}", 12)
                               : abx_buf_add(&answer, "\0\0\0\0\2{}\2\0\0\0\2{}", 14),
                         0);
        fake_say(&f, answer.data, answer.len);
        fake_start(&f, &run, "pty.write", "{\"sandboxId\":\"s\",\"ptyId\":\"p1\"}");
        ABX_AUTO_FREE uint8_t *bytes = abx_alloc(100000);
        int held = 0;
        while (sent < total) {
            for (size_t k = 0; k < 100000; k++)
                bytes[k] = (uint8_t)((sent + k) * 13 >> 2);
            int before = run.writable;
            sent += 100000;
            if (abx_call_write(run.call, bytes, 100000) == 0) {
                held++;
                while (run.writable == before)
                    uv_run(&f.loop, UV_RUN_ONCE);
            }
        }
        abx_call_write_end(run.call);
        fake_wait(&run);
        fake_assert_result(&run, "{}");
        assert_true(held > 0);
        assert_request(&f, 0, "POST /process.Process/StreamInput ");
        assert_input(&f, 0, (abx_e2b_codec)codec, ABX_E2B_PTY, total);
        fake_done(&f, &run);
    }
}

static void input_that_nobody_reads(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, ABX);
    fake_stream(
        &f,
        (const char *[]){
            "!{\"error\":{\"code\":\"internal\",\"message\":\"error writing to stdin\"}}", NULL})
        ->at_once = true;
    fake_start(&f, &run, "process.stdin",
               "{\"sandboxId\":\"s\",\"processId\":\"p1\",\"close\":true}");
    fake_wait(&run);
    fake_assert_error(&run, "CONFLICT", "error writing to stdin");
    assert_int_equal(run.err->sys_errno, EPIPE);
    fake_done(&f, &run);
}

static void a_process_is_given_its_input(void **state)
{
    fake f;
    fake_run run;
    const char *const messages[] = {"{\"event\":{\"start\":{\"pid\":42}}}", NULL};
    fake_open(&f, ABX_E2B_JSON, PLAIN);
    fake_answer *a = fake_stream(&f, messages);
    a->n -= 5;
    fake_reply(&f, "200 OK", JSON, "{}");
    fake_reply(&f, "200 OK", JSON, "{}");
    fake_start(&f, &run, "process.start",
               "{\"sandboxId\":\"s\",\"cmd\":[\"cat\"],\"background\":true,\"input\":{\"base64\":"
               "\"aGk=\"}}");
    fake_wait(&run);
    fake_assert_result(&run, "{\"id\":\"42\",\"pid\":42}");
    assert_string_equal(fake_message(&f, 0),
                        "{\"process\":{\"cmd\":\"cat\",\"args\":[]},\"stdin\":true}");
    assert_string_equal(fake_body(&f, 1),
                        "{\"process\":{\"pid\":42},\"input\":{\"stdin\":\"aGk=\"}}");
    assert_request(&f, 2, "POST /process.Process/CloseStdin ");
    fake_done(&f, &run);
}

/* --- our own dialect ---------------------------------------------------------------------------------------------- */
static void a_process_in_our_dialect(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, ABX);
    fake_stream(
        &f, (const char *[]){
                "{\"event\":{\"start\":{\"pid\":42,\"abxId\":\"p1\",\"abxStdout\":\"0\"}}}",
                "{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"signal: killed\",\"abxSignal\":"
                "\"SIGKILL\",\"abxTimedOut\":true}}}",
                "!{}", NULL});
    fake_call(&f, &run, "process.start",
              "{\"sandboxId\":\"s\",\"cmd\":\"echo "
              "$A\",\"shell\":true,\"timeoutMs\":5,\"input\":{\"text\":\"\xc3\xa9\"}}");
    assert_string_equal(
        fake_message(&f, 0),
        "{\"abxInput\":\"w6k=\",\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"echo "
        "$A\"]},\"stdin\":false,\"abx\":true,\"abxTied\":true,\"abxTimeoutMs\":\"5\"}");
    assert_null(fake_header(&f, 0, "Connect-Timeout-Ms"));
    fake_assert_result(&run, "{\"id\":\"p1\",\"pid\":42,\"signal\":\"SIGKILL\",\"timedOut\":true}");
    fake_done(&f, &run);
}

static void background_ends_at_the_start(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, ABX);
    fake_stream(&f, (const char *[]){"{\"event\":{\"start\":{\"pid\":42,\"abxId\":\"p1\"}}}", NULL})
        ->n -= 5;
    fake_call(&f, &run, "process.start",
              "{\"sandboxId\":\"s\",\"cmd\":[\"x\"],\"background\":true}");
    fake_assert_result(&run, "{\"id\":\"p1\",\"pid\":42}");
    assert_string_equal(abx_buf_cstr(&run.events), "started {\"id\":\"p1\",\"pid\":42}\n");
    assert_non_null(strstr(fake_message(&f, 0), "\"abxBackground\":true"));
    assert_null(strstr(fake_message(&f, 0), "abxTied"));
    fake_done(&f, &run);
}

static void attach_with_offsets(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, ABX);
    fake_stream(&f, (const char *[]){
                        "{\"event\":{\"start\":{\"pid\":42,\"abxId\":\"p1\",\"abxStdout\":\"7\"}}}",
                        "{\"event\":{\"abxGap\":{\"stream\":\"stdout\",\"bytes\":\"5\"}}}",
                        "{\"event\":{\"data\":{\"stdout\":\"aGkK\"}}}", "!{}", NULL});
    fake_call(&f, &run, "process.attach",
              "{\"sandboxId\":\"s\",\"processId\":\"p1\",\"fromOffset\":{\"stdout\":2,\"stderr\":0}"
              ",\"follow\":false}");
    assert_string_equal(
        fake_message(&f, 0),
        "{\"process\":{\"abxId\":\"p1\"},\"abxFromStdout\":\"2\",\"abxFromStderr\":\"0\","
        "\"abx\":true,\"abxNoFollow\":true}");
    assert_string_equal(abx_buf_cstr(&run.events),
                        "started {\"id\":\"p1\",\"pid\":42,\"offsets\":{\"stdout\":7}}\ngap "
                        "{\"stream\":\"stdout\",\"bytes\":5}\n");
    assert_string_equal(abx_buf_cstr(&run.out[ABX_CH_STDOUT]), "hi\n");
    fake_assert_result(&run, "{}");
    fake_done(&f, &run);
    refused(PLAIN, "process.attach",
            "{\"sandboxId\":\"s\",\"processId\":\"7\",\"fromOffset\":{\"stdout\":2}}",
            "FEATURE_MISSING");
    refused(ABX, "process.attach",
            "{\"sandboxId\":\"s\",\"processId\":\"7\",\"fromOffset\":{\"stdout\":-2}}", "USAGE");
    refused(ABX, "process.attach", "{\"sandboxId\":\"s\",\"processId\":\"../x\"}",
            "PROCESS_NOT_FOUND");
}

static void an_id_from_outside_must_be_plain(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, ABX);
    fake_stream(&f, (const char *[]){"{\"event\":{\"start\":{\"pid\":42,\"abxId\":\"../p\"}}}",
                                     "!{}", NULL});
    fake_call(&f, &run, "process.start", "{\"sandboxId\":\"s\",\"cmd\":[\"x\"]}");
    fake_assert_error(&run, "BACKEND_ANSWER", "id");
    fake_done(&f, &run);
}

static void terminals(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, PLAIN);
    fake_stream(&f, (const char *[]){"{\"event\":{\"start\":{\"pid\":42}}}",
                                     "{\"event\":{\"data\":{\"pty\":\"aGkK\"}}}",
                                     "{\"event\":{\"end\":{\"exited\":true}}}", "!{}", NULL});
    fake_call(&f, &run, "pty.open",
              "{\"sandboxId\":\"s\",\"cols\":100,\"env\":{\"TERM\":\"dumb\"}}");
    assert_string_equal(
        fake_message(&f, 0),
        "{\"pty\":{\"size\":{\"cols\":100,\"rows\":24}},\"process\":{\"cmd\":\"/bin/"
        "bash\",\"args\":[\"-i\",\"-l\"],"
        "\"envs\":{\"TERM\":\"dumb\",\"LANG\":\"C.UTF-8\",\"LC_ALL\":\"C.UTF-8\"}}}");
    assert_string_equal(abx_buf_cstr(&run.out[ABX_CH_PTY]), "hi\n");
    fake_assert_result(&run, "{\"id\":\"42\",\"pid\":42,\"exitCode\":0}");
    fake_done(&f, &run);
    unary(
        ABX, "pty.resize", "{\"sandboxId\":\"s\",\"ptyId\":\"p1\",\"cols\":10,\"rows\":5}",
        "process.Process/Update",
        "{\"process\":{\"abxId\":\"p1\"},\"pty\":{\"size\":{\"cols\":10,\"rows\":5}},\"abx\":true}",
        "{}", "{}");
}

/* --- files ---------------------------------------------------------------------------------------------------------- */
#define WRITTEN "[{\"path\":\"/home/user/x\",\"name\":\"x\",\"type\":\"file\"}]"

static void files_go(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, ABX);
    fake_reply(&f, "200 OK", JSON, WRITTEN);
    fake_start(&f, &run, "fs.write",
               "{\"sandboxId\":\"s\",\"path\":\"x\",\"size\":5,\"mode\":493}");
    abx_call_write(run.call, "hel", 3);
    abx_call_write(run.call, "lo", 2);
    abx_call_write_end(run.call);
    fake_wait(&run);
    fake_assert_result(&run, "{\"path\":\"/home/user/x\",\"size\":5}");
    assert_request(&f, 0,
                   "POST /files?path=x&abx=1&abx_mode=755&abx_size=5&abx_whole=1 HTTP/1.1\r\n");
    assert_string_equal(fake_body(&f, 0), "hello");
    ABX_AUTO_FREE char *length = fake_header(&f, 0, "Content-Length");
    ABX_AUTO_FREE char *type = fake_header(&f, 0, "Content-Type");
    assert_string_equal(length, "5");
    assert_string_equal(type, "application/octet-stream");
    fake_done(&f, &run);

    fake_open(&f, ABX_E2B_JSON, PLAIN);
    fake_reply(&f, "200 OK", "text/plain; charset=utf-8", WRITTEN);
    fake_start(&f, &run, "fs.write", "{\"sandboxId\":\"s\",\"path\":\"x\",\"user\":\"root\"}");
    abx_call_write_end(run.call);
    fake_wait(&run);
    fake_assert_result(&run, "{\"path\":\"/home/user/x\",\"size\":0}");
    assert_request(&f, 0, "POST /files?path=x&username=root HTTP/1.1\r\n");
    ABX_AUTO_FREE char *coding = fake_header(&f, 0, "Transfer-Encoding");
    assert_string_equal(coding, "chunked");
    fake_done(&f, &run);
}

static void a_wrong_size_is_told(void **state)
{
    for (int more = 0; more < 2; more++) {
        fake f;
        fake_run run;
        fake_open(&f, ABX_E2B_JSON, PLAIN);
        fake_reply(&f, "200 OK", JSON, WRITTEN);
        fake_start(&f, &run, "fs.write", "{\"sandboxId\":\"s\",\"path\":\"x\",\"size\":5}");
        abx_call_write(run.call, "hello!", more ? 6 : 4);
        abx_call_write_end(run.call);
        fake_wait(&run);
        fake_assert_error(&run, "USAGE", more ? "but more came" : "but fewer came");
        fake_done(&f, &run);
    }
}

/* The server says no before it has read all: its reason is the error, and the writer is not held for ever. */
static void a_refused_upload(void **state)
{
    fake f;
    fake_run run;
    ABX_AUTO_FREE char *bytes = abx_alloc(1 << 20);
    fake_open(&f, ABX_E2B_JSON, PLAIN);
    fake_answer *a = fake_reply(&f, "507 Insufficient Storage", JSON,
                                "{\"code\":507,\"message\":\"no space left\"}");
    a->at_once = true;
    fake_start(&f, &run, "fs.write", "{\"sandboxId\":\"s\",\"path\":\"x\"}");
    while (run.ends == 0) {
        abx_call_write(run.call, bytes, 1 << 16);
        uv_run(&f.loop, UV_RUN_ONCE);
    }
    fake_assert_error(&run, "NO_SPACE", "no space left");
    fake_done(&f, &run);
}

static void an_upload_in_pieces_at_each_end(void **state)
{
    static const char *const bodies[] = {
        "", "{}", "[]", "[{}]", "[{\"path\":\"x\"}]", "[{\"path\":1}]", "[[[[[[", "x"};
    for (size_t i = 0; i < ABX_COUNT(bodies); i++) {
        fake f;
        fake_run run;
        fake_open(&f, ABX_E2B_JSON, PLAIN);
        fake_reply(&f, "200 OK", JSON, bodies[i])->piece = 1;
        fake_start(&f, &run, "fs.write", "{\"sandboxId\":\"s\",\"path\":\"x\"}");
        abx_call_write_end(run.call);
        fake_wait(&run);
        fake_assert_error(&run, "BACKEND_ANSWER", "");
        fake_done(&f, &run);
    }
}

/* --- control --------------------------------------------------------------------------------------------------------- */
typedef struct told {
    char *answer;
    abx_error *err;
    int times;
} told;

static void on_control(void *data, yyjson_val *answer, const abx_error *err)
{
    told *t = data;
    t->times++;
    t->answer = answer ? abx_json_text(answer) : NULL;
    t->err = err ? abx_error_copy(err) : NULL;
}

static bool was_told(void *data)
{
    return ((told *)data)->times > 0;
}

static void control_requests(void **state)
{
    fake f;
    fake_open(&f, ABX_E2B_JSON, ABX);
    ABX_AUTO_JSON body = yyjson_read("{\"timeoutMs\":5}", 15, 0);
    told t = {0};
    fake_reply(&f, "200 OK", JSON, "{\"expiresAtMs\":7}");
    fake_reply(&f, "401 Unauthorized", JSON, "{\"code\":401,\"message\":\"no\"}");
    assert_int_equal(abx_envd_client_control(f.client, "/abx/timeout", yyjson_doc_get_root(body),
                                             on_control, &t, NULL),
                     0);
    fake_until(&f, was_told, &t);
    assert_string_equal(t.answer, "{\"expiresAtMs\":7}");
    assert_request(&f, 0, "POST /abx/timeout HTTP/1.1\r\n");
    assert_string_equal(fake_body(&f, 0), "{\"timeoutMs\":5}");
    free(t.answer);
    t = (told){0};
    assert_int_equal(abx_envd_client_control(f.client, "/abx/timeout", yyjson_doc_get_root(body),
                                             on_control, &t, NULL),
                     0);
    fake_until(&f, was_told, &t);
    assert_fails(t.err, API_KEY);
    fake_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals),
        cmocka_unit_test(lists),
        cmocka_unit_test(stats),
        cmocka_unit_test(folders),
        cmocka_unit_test(hostile_names),
        cmocka_unit_test(watches),
        cmocka_unit_test(input_by_calls),
        cmocka_unit_test(input_by_a_stream),
        cmocka_unit_test(input_that_nobody_reads),
        cmocka_unit_test(a_process_is_given_its_input),
        cmocka_unit_test(a_process_in_our_dialect),
        cmocka_unit_test(background_ends_at_the_start),
        cmocka_unit_test(attach_with_offsets),
        cmocka_unit_test(an_id_from_outside_must_be_plain),
        cmocka_unit_test(terminals),
        cmocka_unit_test(files_go),
        cmocka_unit_test(a_wrong_size_is_told),
        cmocka_unit_test(a_refused_upload),
        cmocka_unit_test(an_upload_in_pieces_at_each_end),
        cmocka_unit_test(control_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
