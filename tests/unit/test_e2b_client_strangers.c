/* The client of envd before servers of strangers: what their version has, whose processes and files they are, how files
 * are sent, and what is made of several requests because one of theirs cannot do it. */
#include <errno.h>

#include "envd_fake.h"

#include "base/text.h"
#include "e2b/sign.h"

#define JSON "application/json"

static void open_version(fake *f, const char *version)
{
    fake_open_options(f, &(abx_envd_client_options){.version = version});
}

/* --- versions --------------------------------------------------------------------------------------------------- */
static void refused(const char *version, const char *method, const char *params, const char *text)
{
    fake f;
    fake_run run;
    open_version(&f, version);
    fake_call(&f, &run, method, params);
    fake_assert_error(&run, "FEATURE_MISSING", text);
    assert_int_equal(f.request_count, 0);
    fake_done(&f, &run);
}

static void old_servers_are_not_asked_for_what_they_lack(void **state)
{
    refused("0.1.3", "fs.watch", "{\"path\":\"x\",\"recursive\":true}", "0.1.4");
    refused("0.5.1", "process.close_stdin", "{\"processId\":\"7\"}",
            "needs version 0.5.2 of the sandbox's envd, it is 0.5.1");
    refused("0.5.1", "process.stdin", "{\"processId\":\"7\",\"close\":true}", "0.5.2");
    refused("v0.6.1-rc1", "fs.write", "{\"path\":\"x\",\"metadata\":{\"a\":\"b\"}}", "0.6.2");
    refused(NULL, "process.attach", "{\"processId\":\"7\",\"fromOffset\":{\"stdout\":0}}", "");
}

static void a_text_that_is_no_version_has_it_all(void **state)
{
    static const char *const versions[] = {"0.5.2", "0.5.10", "1.0.0", "latest", "0.5", "", NULL};
    for (size_t i = 0; i < ABX_COUNT(versions); i++) {
        fake f;
        fake_run run;
        open_version(&f, versions[i]);
        fake_reply(&f, "200 OK", JSON, "{}");
        fake_call(&f, &run, "process.close_stdin", "{\"processId\":\"7\"}");
        fake_assert_result(&run, "{}");
        fake_done(&f, &run);
    }
}

#define STARTED "{\"event\":{\"start\":{\"pid\":42}}}"
#define ENDED   "{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}"

static void started_with(const char *version, const char *params, const char *message)
{
    static const char *const stream[] = {STARTED, ENDED, "!{}", NULL};
    fake f;
    fake_run run;
    open_version(&f, version);
    fake_stream(&f, stream);
    fake_call(&f, &run, "process.start", params);
    fake_assert_result(&run, "{\"id\":\"42\",\"pid\":42,\"exitCode\":0}");
    assert_string_equal(fake_message(&f, 0), message);
    fake_done(&f, &run);
}

static void input_of_old_servers_is_ended_by_a_shell(void **state)
{
    started_with("0.3.0", "{\"cmd\":[\"a\",\"b c\"]}",
                 "{\"process\":{\"cmd\":\"a\",\"args\":[\"b c\"]},\"stdin\":false}");
    started_with("0.2.9", "{\"cmd\":[\"a\",\"b c\"]}",
                 "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"exec \\\"$@\\\" "
                 "</dev/null\",\"sh\",\"a\",\"b c\"]}}");
    started_with("0.2.9", "{\"cmd\":[\"a\"],\"stdin\":\"stream\"}",
                 "{\"process\":{\"cmd\":\"a\",\"args\":[]}}");
}

static void short_input_is_not_closed_where_that_cannot_be(void **state)
{
    static const char *const begun[] = {STARTED, NULL};
    fake f;
    fake_run run;
    open_version(&f, "0.5.1");
    fake_stream(&f, begun)->n -= strlen("0\r\n\r\n");
    fake_reply(&f, "200 OK", JSON, "{}");
    fake_call(&f, &run, "process.start",
              "{\"cmd\":[\"a\"],\"input\":{\"text\":\"hello\"},\"background\":true}");
    fake_assert_result(&run, "{\"id\":\"42\",\"pid\":42}");
    assert_int_equal(f.request_count, 2);
    assert_string_equal(
        fake_message(&f, 0),
        "{\"process\":{\"cmd\":\"/bin/bash\",\"args\":[\"-c\",\"exec 3<&0; exec "
        "\\\"$@\\\" < <(exec head -c 5 <&3 3<&-) 3<&-\",\"sh\",\"a\"]},\"stdin\":true}");
    assert_request(&f, 1, "POST /process.Process/SendInput HTTP/1.1\r\n");
    fake_done(&f, &run);
}

/* A process whose input was lost on the way would wait for ever. */
static void lost_input_ends_the_call(void **state)
{
    static const char *const begun[] = {STARTED, NULL};
    for (int close = 0; close < 2; close++) {
        fake f;
        fake_run run;
        open_version(&f, NULL);
        fake_stream(&f, begun)->n -= strlen("0\r\n\r\n");
        if (close)
            fake_reply(&f, "200 OK", JSON, "{}");
        fake_reply(&f, "503 Unavailable", "text/plain", "later");
        fake_reply(&f, "200 OK", JSON, "{}");
        fake_call(&f, &run, "process.start", "{\"cmd\":[\"a\"],\"input\":{\"text\":\"hello\"}}");
        fake_assert_error(&run, "NETWORK", "later");
        size_t last = f.request_count - 1;
        assert_request(&f, last, "POST /process.Process/SendSignal HTTP/1.1\r\n");
        fake_done(&f, &run);
    }
}

/* --- signals -------------------------------------------------------------------------------------------------- */
#define FOUND   "{\"processes\":[{\"config\":{\"cmd\":\"a\"},\"pid\":42}]}"
#define SAID(b) "{\"event\":{\"data\":{\"stderr\":\"" b "\"}}}"
#define CODE(n) "{\"event\":{\"end\":{\"exitCode\":" #n ",\"exited\":true}}}"

static void signal_ends(const char *list, const char *const *stream, const char *name,
                        const char *text)
{
    fake f;
    fake_run run;
    open_version(&f, NULL);
    fake_reply(&f, "200 OK", JSON, list);
    if (stream)
        fake_stream(&f, stream);
    fake_call(&f, &run, "process.signal", "{\"processId\":\"42\",\"signal\":\"INT\"}");
    if (name)
        fake_assert_error(&run, name, text);
    else
        fake_assert_result(&run, "{}");
    if (stream) {
        ABX_AUTO_FREE char *user = fake_header(&f, 1, "Authorization");
        assert_string_equal(user, "Basic cm9vdDo=");
        assert_string_equal(
            fake_message(&f, 1),
            "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"kill -2 -42 2>/dev/null "
            "|| kill -2 42\",\"sh\",\"\"]},\"stdin\":false}");
    }
    fake_done(&f, &run);
}

static void other_signals_are_sent_by_a_command(void **state)
{
    static const char *const ran[] = {STARTED, ENDED, "!{}", NULL};
    static const char *const gone[] = {STARTED, SAID("Tm8gc3VjaCBwcm9jZXNz"), CODE(1), "!{}", NULL};
    static const char *const forbidden[] = {STARTED, SAID("b3BlcmF0aW9uIG5vdCBwZXJtaXR0ZWQ="),
                                            CODE(1), "!{}", NULL};
    static const char *const no_shell[] = {STARTED, CODE(127), "!{}", NULL};
    static const char *const cut[] = {STARTED, "!{}", NULL};
    static const char *const nobody[] = {
        "!{\"error\":{\"code\":\"unauthenticated\",\"message\":\"invalid username: 'root'\"}}",
        NULL};
    signal_ends(FOUND, ran, NULL, NULL);
    signal_ends("{\"processes\":[{\"pid\":43}]}", NULL, "PROCESS_NOT_FOUND", "'42'");
    signal_ends(FOUND, gone, "PROCESS_NOT_FOUND", "No such process");
    signal_ends(FOUND, forbidden, "FORBIDDEN", "permitted");
    signal_ends(FOUND, no_shell, "FEATURE_MISSING", "no shell");
    signal_ends(FOUND, cut, "BACKEND_ANSWER", "without a result");

    fake f; /* where nobody is called root, whoever runs the calls */
    fake_run run;
    open_version(&f, NULL);
    fake_reply(&f, "200 OK", JSON, FOUND);
    fake_stream(&f, nobody);
    fake_stream(&f, ran);
    fake_call(&f, &run, "process.signal", "{\"processId\":\"42\",\"signal\":\"34\"}");
    fake_assert_result(&run, "{}");
    ABX_AUTO_FREE char *user = fake_header(&f, 2, "Authorization");
    assert_null(user);
    fake_done(&f, &run);
}

/* --- users and tokens ---------------------------------------------------------------------------------------- */
static void user_of(const char *version, const char *default_user, const char *asked,
                    const char *basic, const char *name)
{
    fake f;
    fake_run run;
    ABX_AUTO_FREE char *params = asked ? abx_format("{\"path\":\"x\",\"user\":\"%s\"}", asked)
                                       : abx_strdup("{\"path\":\"x\"}");
    fake_open_options(&f,
                      &(abx_envd_client_options){.version = version, .default_user = default_user});
    fake_reply(&f, "200 OK", JSON, "{}");
    fake_call(&f, &run, "fs.remove", params);
    fake_assert_result(&run, "{}");
    fake_run_clear(&run);
    fake_reply(&f, "200 OK", JSON, "bytes");
    fake_call(&f, &run, "fs.read", params);
    fake_assert_result(&run, "{\"size\":5}");
    fake_run_clear(&run);
    fake_reply(&f, "200 OK", JSON, "{}");
    fake_call(&f, &run, "process.signal", "{\"processId\":\"7\",\"signal\":\"KILL\"}");
    ABX_AUTO_FREE char *first = fake_header(&f, 0, "Authorization");
    ABX_AUTO_FREE char *third = fake_header(&f, 2, "Authorization");
    ABX_AUTO_FREE char *line = abx_format("GET /files?path=x%s%s HTTP/1.1\r\n",
                                          name ? "&username=" : "", name ? name : "");
    assert_true(basic ? first && strcmp(first, basic) == 0 : !first);
    assert_null(third);
    assert_request(&f, 1, line);
    fake_done(&f, &run);
}

static void whose_files_they_are(void **state)
{
    user_of(NULL, NULL, NULL, NULL, NULL);
    user_of("0.4.0", NULL, NULL, NULL, NULL);
    user_of("0.3.9", NULL, NULL, "Basic dXNlcjo=", "user");
    user_of("0.3.9", "root", NULL, "Basic cm9vdDo=", "root");
    user_of("0.6.13", "root", NULL, "Basic cm9vdDo=", "root");
    user_of("0.6.13", "root", "user", "Basic dXNlcjo=", "user");
}

static void tokens_and_paths(void **state)
{
    fake f;
    fake_run run;
    fake_open_options(&f, &(abx_envd_client_options){.base_url = "http://proxy/sandbox/sb1/49983/",
                                                     .code_url = "http://proxy/sandbox/sb1/49999",
                                                     .traffic_token = "toll"});
    fake_reply(&f, "200 OK", JSON, "{}");
    fake_call(&f, &run, "process.list", "{}");
    fake_run_clear(&run);
    fake_reply(&f, "200 OK", JSON, "[]");
    fake_call(&f, &run, "code.context_list", "{}");
    fake_assert_result(&run, "{\"contexts\":[]}");
    assert_request(&f, 0, "POST /sandbox/sb1/49983/process.Process/List HTTP/1.1\r\n");
    assert_request(&f, 1, "GET /sandbox/sb1/49999/contexts HTTP/1.1\r\n");
    for (size_t i = 0; i < 2; i++) {
        ABX_AUTO_FREE char *host = fake_header(&f, i, "Host");
        ABX_AUTO_FREE char *id = fake_header(&f, i, "E2b-Sandbox-Id");
        ABX_AUTO_FREE char *port = fake_header(&f, i, "E2b-Sandbox-Port");
        ABX_AUTO_FREE char *token = fake_header(&f, i, "X-Access-Token");
        ABX_AUTO_FREE char *toll = fake_header(&f, i, "E2B-Traffic-Access-Token");
        assert_string_equal(host, "proxy");
        assert_string_equal(id, "sb1");
        assert_string_equal(port, i ? "49999" : "49983");
        assert_string_equal(token, "secret");
        assert_string_equal(toll, "toll");
    }
    fake_done(&f, &run);
}

static void options_that_do_not_fit(void **state)
{
    static const abx_envd_client_options rows[] = {
        {.traffic_token = "a\nb"}, {.connect_to = "10.0.0.1"}, {.connect_to = "10.0.0.1:99999"},
        {.connect_to = ":80"},     {.default_user = "a:b"},    {.base_url = "http://a\r\nb"}};
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        abx_envd_client_options o = rows[i];
        abx_envd_client *client = NULL;
        abx_error *err = NULL;
        if (!o.base_url)
            o.base_url = "http://envd";
        assert_int_equal(abx_envd_client_open(&o, &client, &err), -1);
        abx_error_free(err);
    }
}

/* --- files ------------------------------------------------------------------------------------------------------ */
#define WRITTEN(path) "[{\"path\":\"" path "\",\"name\":\"x\",\"type\":\"file\"}]"

static void write_bytes(fake *f, fake_run *run, const char *params, const char *bytes)
{
    fake_start(f, run, "fs.write", params);
    if (run->call) {
        (void)abx_call_write(run->call, bytes, strlen(bytes));
        abx_call_write_end(run->call);
    }
    fake_wait(run);
}

static void a_form(const char *version, abx_envd_upload upload, const char *size, bool form)
{
    fake f;
    fake_run run;
    ABX_AUTO_FREE char *params = abx_format("{\"path\":\"d/he\\\"llo\"%s}", size);
    fake_open_options(&f, &(abx_envd_client_options){.version = version, .upload = upload});
    fake_reply(&f, "200 OK", "text/plain; charset=utf-8", WRITTEN("/d/x"));
    write_bytes(&f, &run, params, "hello");
    fake_assert_result(&run, "{\"path\":\"/d/x\",\"size\":5}");
    assert_request(&f, 0, "POST /files?path=d/he%22llo HTTP/1.1\r\n");
    ABX_AUTO_FREE char *type = fake_header(&f, 0, "Content-Type");
    ABX_AUTO_FREE char *length = fake_header(&f, 0, "Content-Length");
    assert_int_equal(length != NULL, *size != 0);
    if (form) {
        const char *boundary = strstr(type, "boundary=") + 9;
        ABX_AUTO_FREE char *body = abx_format(
            "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"d/he%%22llo\"\r\n"
            "Content-Type: application/octet-stream\r\n\r\nhello\r\n--%s--\r\n",
            boundary, boundary);
        assert_string_equal(fake_body(&f, 0), body);
        assert_true(!length || strtoul(length, NULL, 10) == strlen(body));
    } else {
        assert_string_equal(type, "application/octet-stream");
        assert_string_equal(fake_body(&f, 0), "hello");
    }
    fake_done(&f, &run);
}

static void how_files_are_sent(void **state)
{
    a_form(NULL, ABX_ENVD_UPLOAD_BY_VERSION, "", false);
    a_form("0.5.7", ABX_ENVD_UPLOAD_BY_VERSION, ",\"size\":5", false);
    a_form("0.5.6", ABX_ENVD_UPLOAD_BY_VERSION, ",\"size\":5", true);
    a_form("0.5.6", ABX_ENVD_UPLOAD_BY_VERSION, "", true);
    a_form("0.5.6", ABX_ENVD_UPLOAD_OCTETS, "", false);
    a_form("9.0.0", ABX_ENVD_UPLOAD_FORM, ",\"size\":5", true);
}

static void metadata_of_files(void **state)
{
    static const char *const bad[] = {"{\"a b\":\"c\"}", "{\"\":\"c\"}", "{\"a\":\"\\u00fc\"}",
                                      "{\"a\":\"b\\nc\"}", "{\"a:\":\"\"}"};
    fake f;
    fake_run run;
    open_version(&f, "0.6.2");
    fake_reply(&f, "200 OK", JSON, WRITTEN("/x"));
    write_bytes(&f, &run, "{\"path\":\"x\",\"metadata\":{\"Author\":\"me & you\",\"n\":\"\"}}",
                "a");
    ABX_AUTO_FREE char *author = fake_header(&f, 0, "X-Metadata-Author");
    ABX_AUTO_FREE char *n = fake_header(&f, 0, "X-Metadata-n");
    assert_string_equal(author, "me & you");
    assert_string_equal(n, "");
    fake_run_clear(&run);
    for (size_t i = 0; i < ABX_COUNT(bad); i++) {
        ABX_AUTO_FREE char *params = abx_format("{\"path\":\"x\",\"metadata\":%s}", bad[i]);
        fake_call(&f, &run, "fs.write", params);
        fake_assert_error(&run, "USAGE", "");
        fake_run_clear(&run);
    }
    fake_reply(&f, "200 OK", JSON,
               "{\"entry\":{\"name\":\"x\",\"path\":\"/x\",\"type\":\"FILE_TYPE_FILE\","
               "\"metadata\":{\"author\":\"me\"}}}");
    fake_call(&f, &run, "fs.stat", "{\"path\":\"x\"}");
    assert_non_null(strstr(run.result, "\"metadata\":{\"author\":\"me\"}"));
    fake_done(&f, &run);
}

/* The name beside the target that the i-th request uploads to. */
static char *upload_name(const fake *f, size_t i)
{
    const char *from = strstr(f->requests[i]->head, "path=") + 5;
    return abx_strndup(from, strcspn(from, " &"));
}

#define STAT_FILE(mode)                                                                            \
    "{\"entry\":{\"name\":\"x\",\"path\":\"/d/x\",\"type\":\"FILE_TYPE_FILE\",\"mode\":" mode "}}"

static void a_whole_file_comes_by_another_name(void **state)
{
    static const char *const ran[] = {STARTED, ENDED, "!{}", NULL};
    fake f;
    fake_run run;
    open_version(&f, NULL);
    fake_reply(&f, "404 Not Found", JSON, "{\"code\":\"not_found\",\"message\":\"no\"}");
    fake_reply(&f, "200 OK", JSON, WRITTEN("/d/.tmp"));
    fake_stream(&f, ran);
    fake_reply(&f, "200 OK", JSON, "{\"entry\":{\"name\":\"x\",\"path\":\"/d/x\"}}");
    write_bytes(&f, &run,
                "{\"path\":\"/d/x\",\"whole\":true,\"mode\":493,\"size\":5,"
                "\"modifiedAt\":\"2026-01-01T00:00:00.25Z\"}",
                "hello");
    fake_assert_result(&run, "{\"path\":\"/d/x\",\"size\":5}");
    assert_request(&f, 0, "POST /filesystem.Filesystem/Stat");
    ABX_AUTO_FREE char *name = upload_name(&f, 1);
    assert_memory_equal(name, "/d/.abx-", 8);
    assert_string_equal(fake_body(&f, 1), "hello");
    assert_string_equal(
        fake_message(&f, 2),
        "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"chmod 0755 -- \\\"$1\\\" && { touch "
        "-d "
        "@1767225600.250000000 -- \\\"$1\\\" 2>/dev/null || touch -d @1767225600 -- \\\"$1\\\"; "
        "}\",\"sh\",\"/d/.tmp\"]},\"stdin\":false}");
    assert_string_equal(fake_body(&f, 3), "{\"source\":\"/d/.tmp\",\"destination\":\"/d/x\"}");
    fake_done(&f, &run);
}

static void a_mode_is_kept_and_a_link_followed(void **state)
{
    static const char *const ran[] = {STARTED, ENDED, "!{}", NULL};
    fake f;
    fake_run run;
    open_version(&f, NULL);
    fake_reply(
        &f, "200 OK", JSON,
        "{\"entry\":{\"name\":\"x\",\"path\":\"/d/x\",\"type\":\"FILE_TYPE_FILE\",\"mode\":384,"
        "\"symlinkTarget\":\"/real/y\"}}");
    fake_reply(&f, "200 OK", JSON, WRITTEN("/real/.tmp"));
    fake_stream(&f, ran);
    fake_reply(&f, "200 OK", JSON, "{}");
    write_bytes(&f, &run, "{\"path\":\"/d/x\",\"whole\":true}", "hello");
    fake_assert_result(&run, "{\"path\":\"/real/y\",\"size\":5}");
    ABX_AUTO_FREE char *name = upload_name(&f, 1);
    assert_memory_equal(name, "/real/.abx-", 11);
    assert_non_null(strstr(fake_message(&f, 2), "\"chmod 0600 -- \\\"$1\\\"\""));
    fake_done(&f, &run);

    open_version(&f, NULL); /* an ordinary mode needs no command */
    fake_reply(&f, "200 OK", JSON, STAT_FILE("420"));
    fake_reply(&f, "200 OK", JSON, WRITTEN("/d/.tmp"));
    fake_reply(&f, "200 OK", JSON, "{}");
    write_bytes(&f, &run, "{\"path\":\"/d/x\",\"whole\":true}", "hello");
    fake_assert_result(&run, "{\"path\":\"/d/x\",\"size\":5}");
    assert_int_equal(f.request_count, 3);
    fake_done(&f, &run);

    open_version(&f, NULL); /* a device has no old bytes to keep */
    fake_reply(&f, "200 OK", JSON, "{\"entry\":{\"name\":\"null\",\"path\":\"/dev/null\"}}");
    fake_reply(&f, "200 OK", JSON, WRITTEN("/dev/null"));
    write_bytes(&f, &run, "{\"path\":\"/dev/null\",\"whole\":true}", "hello");
    fake_assert_result(&run, "{\"path\":\"/dev/null\",\"size\":5}");
    assert_request(&f, 1, "POST /files?path=/dev/null HTTP/1.1\r\n");
    fake_done(&f, &run);
}

static void assert_removed(fake *f, const char *path)
{
    ABX_AUTO_FREE char *body = abx_format("{\"path\":\"%s\"}", path);
    size_t last = f->request_count - 1;
    assert_request(f, last, "POST /filesystem.Filesystem/Remove");
    assert_string_equal(fake_body(f, last), body);
}

static void what_was_begun_is_removed(void **state)
{
    static const char *const failed[] = {STARTED, "{\"event\":{\"data\":{\"stderr\":\"bm8K\"}}}",
                                         "{\"event\":{\"end\":{\"exitCode\":1,\"exited\":true}}}",
                                         "!{}", NULL};
    fake f;
    fake_run run;
    open_version(&f, NULL); /* the upload */
    fake_reply(&f, "200 OK", JSON, STAT_FILE("420"));
    fake_reply(&f, "507 Insufficient Storage", JSON, "{\"code\":507,\"message\":\"full\"}");
    fake_reply(&f, "200 OK", JSON, "{}");
    write_bytes(&f, &run, "{\"path\":\"/d/x\",\"whole\":true}", "hello");
    fake_assert_error(&run, "NO_SPACE", "full");
    ABX_AUTO_FREE char *name = upload_name(&f, 1);
    assert_removed(&f, name);
    fake_done(&f, &run);

    open_version(&f, NULL); /* the command */
    fake_reply(&f, "200 OK", JSON, STAT_FILE("420"));
    fake_reply(&f, "200 OK", JSON, WRITTEN("/d/.tmp"));
    fake_stream(&f, failed);
    fake_reply(&f, "500 Internal Server Error", JSON, "{\"code\":\"internal\",\"message\":\"\"}");
    write_bytes(&f, &run, "{\"path\":\"/d/x\",\"whole\":true,\"mode\":0}", "hello");
    fake_assert_error(&run, "FILE", "cannot set mode and time of '/d/x': no");
    assert_removed(&f, "/d/.tmp");
    fake_done(&f, &run);

    open_version(&f, NULL); /* the move */
    fake_reply(&f, "200 OK", JSON, STAT_FILE("420"));
    fake_reply(&f, "200 OK", JSON, WRITTEN("/d/.tmp"));
    fake_reply(&f, "500 Internal Server Error", JSON, "{\"code\":\"internal\",\"message\":\"eh\"}");
    fake_reply(&f, "200 OK", JSON, "{}");
    write_bytes(&f, &run, "{\"path\":\"/d/x\",\"whole\":true}", "hello");
    fake_assert_error(&run, "FILE", "eh");
    assert_removed(&f, "/d/.tmp");
    fake_done(&f, &run);
}

static void a_folder_is_no_file(void **state)
{
    fake f;
    fake_run run;
    open_version(&f, NULL);
    fake_reply(&f, "200 OK", JSON,
               "{\"entry\":{\"name\":\"x\",\"path\":\"/d/x\",\"type\":\"FILE_TYPE_DIRECTORY\"}}");
    write_bytes(&f, &run, "{\"path\":\"/d/x\",\"whole\":true}", "hello");
    fake_assert_error(&run, "FILE", "'/d/x' is a folder");
    assert_int_equal(f.request_count, 1);
    fake_done(&f, &run);
}

static void a_cancelled_upload_leaves_nothing(void **state)
{
    fake f;
    fake_run run;
    open_version(&f, NULL);
    fake_reply(&f, "200 OK", JSON, STAT_FILE("420"));
    fake_reply(&f, "200 OK", JSON, WRITTEN("/d/.tmp"))->hold = true;
    for (int i = 0; i < 2; i++) /* it may have been under way: once more */
        fake_reply(&f, "200 OK", JSON, "{}");
    fake_start(&f, &run, "fs.write", "{\"path\":\"/d/x\",\"whole\":true}");
    (void)abx_call_write(run.call, "hello", 5);
    abx_call_write_end(run.call);
    while (!f.held)
        uv_run(&f.loop, UV_RUN_ONCE);
    abx_call_cancel(run.call);
    fake_wait(&run);
    fake_assert_error(&run, "CANCELLED", "");
    ABX_AUTO_FREE char *name = upload_name(&f, 1);
    assert_removed(&f, name);
    fake_done(&f, &run);
}

/* --- changes of files ---------------------------------------------------------------------------------------- */
#define CHANGE(name, type) "{\"name\":\"" name "\",\"type\":\"EVENT_TYPE_" type "\"}"

static bool has_change(void *data)
{
    fake_run *run = data;
    return strstr(abx_buf_cstr(&run->events), "change") != NULL;
}

static void polled(fake *f, fake_run *run, size_t from)
{
    fake_reply(f, "200 OK", JSON, "{\"watcherId\":\"w1\"}");
    fake_reply(f, "200 OK", JSON, "{}");
    fake_reply(
        f, "200 OK", JSON,
        "{\"events\":[" CHANGE("a", "CREATE") "," CHANGE("a", "NEW") "," CHANGE("a", "WRITE") "]}");
    fake_reply(f, "200 OK", JSON, "{}");
    fake_start(f, run, "fs.watch", "{\"path\":\"d\",\"recursive\":true,\"user\":\"root\"}");
    fake_until(f, has_change, run);
    abx_call_cancel(run->call);
    fake_wait(run);
    fake_assert_error(run, "CANCELLED", "");
    assert_string_equal(abx_buf_cstr(&run->events),
                        "started {}\nchange {\"kind\":\"create\",\"name\":\"a\"}\nchange "
                        "{\"kind\":\"write\",\"name\":\"a\"}\n");
    assert_request(f, from, "POST /filesystem.Filesystem/CreateWatcher HTTP/1.1\r\n");
    assert_string_equal(fake_body(f, from), "{\"path\":\"d\",\"recursive\":true}");
    ABX_AUTO_FREE char *user = fake_header(f, from, "Authorization");
    assert_string_equal(user, "Basic cm9vdDo=");
    assert_string_equal(fake_body(f, from + 1), "{\"watcherId\":\"w1\"}");
    size_t last = f->request_count - 1;
    assert_request(f, last, "POST /filesystem.Filesystem/RemoveWatcher HTTP/1.1\r\n");
}

static void changes_are_asked_for(void **state)
{
    fake f;
    fake_run run;
    fake_open_options(&f, &(abx_envd_client_options){.poll_watch = true});
    polled(&f, &run, 0);
    fake_done(&f, &run);

    static const char *const missing[] = {"404 Not Found", "501 Not Implemented", "415 Nope"};
    for (size_t i = 0; i < ABX_COUNT(missing); i++) {
        open_version(&f, NULL); /* no such stream there: it is not tried again */
        fake_reply(&f, missing[i], "text/plain", "404 page not found");
        polled(&f, &run, 1);
        fake_run_clear(&run);
        size_t n = f.request_count;
        polled(&f, &run, n);
        fake_done(&f, &run);
    }
}

static void watchers_that_fail(void **state)
{
    static const char *const bad[] = {"{}", "{\"watcherId\":\"\"}"};
    fake f;
    fake_run run;
    for (size_t i = 0; i < ABX_COUNT(bad); i++) {
        fake_open_options(&f, &(abx_envd_client_options){.poll_watch = true});
        fake_reply(&f, "200 OK", JSON, bad[i]);
        fake_call(&f, &run, "fs.watch", "{\"path\":\"d\"}");
        fake_assert_error(&run, "BACKEND_ANSWER", "no id");
        fake_done(&f, &run);
    }
    fake_open_options(&f, &(abx_envd_client_options){.poll_watch = true});
    fake_reply(&f, "404 Not Found", JSON, "{\"code\":\"not_found\",\"message\":\"no d\"}");
    fake_call(&f, &run, "fs.watch", "{\"path\":\"d\"}");
    fake_assert_error(&run, "FILE_NOT_FOUND", "no d");
    fake_run_clear(&run);
    fake_reply(&f, "200 OK", JSON, "{\"watcherId\":\"w1\"}");
    fake_reply(&f, "200 OK", JSON, "{\"events\":[" CHANGE("../a", "CREATE") "]}");
    fake_call(&f, &run, "fs.watch", "{\"path\":\"d\"}");
    fake_assert_error(&run, "BACKEND_ANSWER", "unfit name");
    fake_done(&f, &run);
}

/* --- words of gateways --------------------------------------------------------------------------------------- */
static void what_stands_before_a_sandbox_is_understood(void **state)
{
    static const struct {
        const char *method, *status, *type, *body, *name;
    } rows[] = {
        {"fs.read", "404 Not Found", JSON, "{\"error\":\"not found\"}", "SANDBOX_NOT_FOUND"},
        {"fs.read", "404 Not Found", JSON, "{\"code\":404,\"message\":\"path 'x'\"}",
         "FILE_NOT_FOUND"},
        {"fs.stat", "404 Not Found", "text/plain", "404 page not found", "FEATURE_MISSING"},
        {"fs.stat", "410 Gone", JSON, "{\"error\":\"gone\"}", "SANDBOX_NOT_FOUND"},
        {"fs.stat", "503 Unavailable", JSON, "{\"error\":\"service unavailable\"}", "NETWORK"},
        {"fs.stat", "502 Bad Gateway", "text/plain", "sandbox not found: x", "SANDBOX_NOT_FOUND"},
        {"fs.stat", "502 Bad Gateway", "text/plain", "healthy sandbox not found: x", "CONFLICT"},
        {"fs.stat", "502 Bad Gateway", JSON,
         "{\"sandboxId\":\"x\",\"message\":\"The sandbox was not found\",\"code\":502}",
         "SANDBOX_NOT_FOUND"},
        {"code.context_list", "502 Bad Gateway", JSON,
         "{\"sandboxId\":\"x\",\"message\":\"The sandbox is running but port is not open\","
         "\"port\":49999,\"code\":502}",
         "START_FAILED"},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        fake f;
        fake_run run;
        open_version(&f, NULL);
        for (int n = 0; n < 3; n++) /* some are asked again */
            fake_reply(&f, rows[i].status, rows[i].type, rows[i].body);
        fake_call(&f, &run, rows[i].method, "{\"path\":\"x\"}");
        fake_assert_error(&run, rows[i].name, "");
        fake_done(&f, &run);
    }
}

/* --- signed addresses ---------------------------------------------------------------------------------------- */
#define OFTEN "abababababababababababababababababababababababababababababababab"

static void signed_addresses(void **state)
{
    static const struct {
        const char *path, *operation, *user, *token;
        int64_t until;
        const char *url;
    } rows[] = {
        {"hello.txt", "read", "user", "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0", -1,
         "http://e/x/"
         "files?username=user&path=hello.txt&signature=v1_gUtH%"
         "2Fs9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E"},
        {"a.txt", "read", NULL, OFTEN, -1,
         "http://e/x/files?path=a.txt&signature=v1_vZeklrHmvLf0jNEHGgkSmhvclSqo1jc6vYnj6IQ0VJM"},
        {"a.txt", "write", "root", OFTEN, 1700000000,
         "http://e/x/files?username=root&path=a.txt&signature="
         "v1_LqNgX68f7oZCmY04mYa7VDiwdM%2Fjed3S9kvSn6eMBJ0&signature_expiration=1700000000"},
        {"a b/ü", "read", NULL, NULL, -1, "http://e/x/files?path=a%20b%2F%C3%BC"},
        {NULL, "write", NULL, NULL, -1, "http://e/x/files"}};
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        ABX_AUTO_FREE char *url =
            abx_e2b_file_url("http://e/x/", rows[i].path, rows[i].operation, rows[i].user,
                             rows[i].token, rows[i].until, NULL);
        assert_string_equal(url, rows[i].url);
    }
    ABX_AUTO_ERROR err = NULL;
    assert_null(abx_e2b_file_url("http://e", "a", "read", NULL, NULL, 5, &err));
    assert_int_equal(err->id, ABX_ERR_USAGE);
}

/* --- what it uses -------------------------------------------------------------------------------------------- */
static void what_envd_counts(void **state)
{
    static const char *const bad[] = {"{}", "[]", "{\"ts\":1}", "{\"ts\":-1,\"mem_total\":1}", "x"};
    fake f;
    fake_run run;
    open_version(&f, "0.6.13");
    fake_reply(&f, "200 OK", JSON,
               "{\"ts\":1767225605,\"cpu_count\":2,\"cpu_used_pct\":13.25,\"mem_total_mib\":9,"
               "\"mem_total\":1000,\"mem_used\":100,\"mem_cache\":50,\"disk_used\":10,"
               "\"disk_total\":100}\n");
    fake_call(&f, &run, "sandbox.metrics", "{}");
    fake_assert_result(&run,
                       "{\"timestamp\":\"2026-01-01T00:00:05Z\",\"cpuCount\":2,\"memUsed\":100,"
                       "\"memTotal\":1000,\"memCache\":50,\"diskUsed\":10,\"diskTotal\":100,"
                       "\"cpuUsedPct\":13.25}");
    assert_request(&f, 0, "GET /metrics HTTP/1.1\r\n");
    fake_done(&f, &run);
    for (size_t i = 0; i < ABX_COUNT(bad); i++) {
        open_version(&f, NULL);
        fake_reply(&f, "200 OK", JSON, bad[i]);
        fake_call(&f, &run, "sandbox.metrics", "{}");
        fake_assert_error(&run, "BACKEND_ANSWER", "");
        fake_done(&f, &run);
    }
    refused("0.1.4", "sandbox.metrics", "{}", "0.1.5");
}

/* --- once ---------------------------------------------------------------------------------------------------- */
static int on_alive(void *data)
{
    return 1;
}

/* A kept connection ends when a request has been sent on it: one that may have been done is not sent again. What starts something
 * goes on a connection of its own. The sandboxes of others and ours. */
static void what_may_be_done_is_never_sent_twice(void **state)
{
    static const char *const calls[][2] = {{"process.start", "{\"cmd\":[\"a\"]}"},
                                           {"fs.rename", "{\"from\":\"/a\",\"to\":\"/b\"}"}};
    for (int abx = 0; abx < 2; abx++)
        for (size_t i = 0; i < ABX_COUNT(calls); i++) {
            fake f;
            fake_run run;
            fake_open_options(&f, &(abx_envd_client_options){.alive = on_alive, .abx = abx});
            fake_reply(&f, "200 OK", JSON, "{}");
            fake_say(&f, "", 0)->close = true;
            fake_call(&f, &run, "process.list", "{}");
            fake_run_clear(&run);
            fake_call(&f, &run, calls[i][0], calls[i][1]);
            fake_assert_error(&run, "NETWORK", "");
            assert_int_equal(f.request_count, 3);
            assert_request(&f, 2, "GET /health ");
            assert_int_equal(f.dials,
                             2); /* also the question goes on a kept one where there is one */
            fake_done(&f, &run);
        }
}

/* One that only looks is sent again. */
static void what_only_looks_is_sent_again(void **state)
{
    fake f;
    fake_run run;
    fake_open_options(&f, &(abx_envd_client_options){.alive = on_alive});
    fake_reply(&f, "200 OK", JSON, "{}");
    fake_say(&f, "", 0)->close = true;
    fake_reply(&f, "200 OK", JSON, "{}");
    fake_call(&f, &run, "process.list", "{}");
    fake_run_clear(&run);
    fake_call(&f, &run, "process.list", "{}");
    fake_assert_result(&run, "{\"processes\":[]}");
    assert_int_equal(f.request_count, 3);
    fake_done(&f, &run);
}

/* What an envd says in words is told as facts. */
static void words_become_facts(void **state)
{
    static const struct {
        const char *code, *text, *method, *params;
        int sys_errno;
        const char *about;
    } rows[] = {
        {"failed_precondition", "cyclic symlink or chain >255 links at \\\"/a\\\"", "fs.list",
         "{\"path\":\"/a\"}", ELOOP, ""},
        {"invalid_argument", "cwd '/x' does not exist", "process.start", "{\"cmd\":[\"a\"]}", 0,
         "cwd"},
        {"invalid_argument", "cannot expand user-specific home dir", "process.start",
         "{\"cmd\":[\"a\"]}", 0, "path"},
        {"unauthenticated", "invalid username: 'x'", "fs.list", "{\"path\":\"/a\"}", 0, "user"},
        {"not_found", "path not found: /cwd 'a'", "fs.list", "{\"path\":\"/a\"}", ENOENT, ""},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        fake f;
        fake_run run;
        fake_open_options(&f, &(abx_envd_client_options){.alive = on_alive});
        ABX_AUTO_FREE char *body =
            abx_format("{\"code\":\"%s\",\"message\":\"%s\"}", rows[i].code, rows[i].text);
        fake_reply(&f, "400 Bad Request", JSON, body);
        fake_call(&f, &run, rows[i].method, rows[i].params);
        assert_non_null(run.err);
        assert_int_equal(run.err->sys_errno, rows[i].sys_errno);
        assert_string_equal(run.err->about ? run.err->about : "", rows[i].about);
        fake_done(&f, &run);
    }
}

/* --- time --------------------------------------------------------------------------------------------------------- */
static void a_limit_that_nobody_keeps_is_kept_here(void **state)
{
    static const char *const begun[] = {STARTED, NULL};
    fake f;
    fake_run run;
    open_version(&f, NULL);
    fake_answer *a = fake_stream(&f, begun);
    a->n -= strlen("0\r\n\r\n"); /* the stream stays open */
    fake_reply(&f, "200 OK", JSON, "{}");
    fake_call(&f, &run, "process.start", "{\"cmd\":[\"a\"],\"timeoutMs\":1}");
    fake_assert_result(&run, "{\"id\":\"42\",\"pid\":42,\"signal\":\"SIGKILL\",\"timedOut\":true}");
    assert_string_equal(fake_body(&f, 1),
                        "{\"process\":{\"pid\":42},\"signal\":\"SIGNAL_SIGKILL\"}");
    fake_done(&f, &run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_servers_are_not_asked_for_what_they_lack),
        cmocka_unit_test(a_text_that_is_no_version_has_it_all),
        cmocka_unit_test(input_of_old_servers_is_ended_by_a_shell),
        cmocka_unit_test(short_input_is_not_closed_where_that_cannot_be),
        cmocka_unit_test(lost_input_ends_the_call),
        cmocka_unit_test(other_signals_are_sent_by_a_command),
        cmocka_unit_test(whose_files_they_are),
        cmocka_unit_test(tokens_and_paths),
        cmocka_unit_test(options_that_do_not_fit),
        cmocka_unit_test(how_files_are_sent),
        cmocka_unit_test(metadata_of_files),
        cmocka_unit_test(a_whole_file_comes_by_another_name),
        cmocka_unit_test(a_mode_is_kept_and_a_link_followed),
        cmocka_unit_test(what_was_begun_is_removed),
        cmocka_unit_test(a_folder_is_no_file),
        cmocka_unit_test(a_cancelled_upload_leaves_nothing),
        cmocka_unit_test(changes_are_asked_for),
        cmocka_unit_test(watchers_that_fail),
        cmocka_unit_test(what_stands_before_a_sandbox_is_understood),
        cmocka_unit_test(signed_addresses),
        cmocka_unit_test(what_envd_counts),
        cmocka_unit_test(what_may_be_done_is_never_sent_twice),
        cmocka_unit_test(what_only_looks_is_sent_again),
        cmocka_unit_test(words_become_facts),
        cmocka_unit_test(a_limit_that_nobody_keeps_is_kept_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
