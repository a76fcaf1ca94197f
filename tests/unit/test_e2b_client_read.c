/* fs.read by the client of envd, against a scripted server: whole files, parts, and what is no answer to it. */
#include "envd_fake.h"

#define JSON  "application/json"
#define PLAIN false
#define ABX   true

static void files_come(void **state)
{
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, ABX);
    fake_reply(&f, "200 OK", "text/plain", "some bytes");
    fake_call(&f, &run, "fs.read",
              "{\"sandboxId\":\"s\",\"path\":\"/a b/\xc3\xa9+%.txt\",\"user\":\"root\"}");
    assert_request(&f, 0, "GET /files?path=/a%20b/%C3%A9%2B%25.txt&username=root HTTP/1.1\r\n");
    assert_string_equal(abx_buf_cstr(&run.out[ABX_CH_BODY]), "some bytes");
    fake_assert_result(&run, "{\"size\":10}");
    ABX_AUTO_FREE char *abx = fake_header(&f, 0, "X-Abx");
    assert_string_equal(abx, "1");
    fake_done(&f, &run);

    static const struct {
        const char *status, *body, *name;
    } rows[] = {
        {"404 Not Found", "{\"code\":404,\"message\":\"path '/x' does not exist\"}",
         "FILE_NOT_FOUND"},
        {"400 Bad Request", "{\"code\":400,\"message\":\"path '/x' is a directory\"}", "FILE"},
        {"401 Unauthorized", "{\"code\":401,\"message\":\"error looking up user 'x': unknown\"}",
         "USAGE"},
        {"500 Internal Server Error", "seeker can't seek", "FILE"},
        {"206 Partial Content", "x", "BACKEND_ANSWER"}};
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        fake_open(&f, ABX_E2B_JSON, PLAIN);
        fake_reply(&f, rows[i].status, JSON, rows[i].body);
        fake_call(&f, &run, "fs.read", "{\"sandboxId\":\"s\",\"path\":\"x\"}");
        fake_assert_error(&run, rows[i].name, "");
        assert_int_equal(run.out[ABX_CH_BODY].len, 0);
        fake_done(&f, &run);
    }
}

/* How a server answers a question for a part, and what comes of it. */
static const struct {
    const char *params, *range;      /* of the call; of the request */
    const char *status, *answer;     /* Content-Range line or "" */
    const char *body, *out, *result; /* result: or the name of an error */
} parts[] = {
    {"\"offset\":3,\"limit\":4", "bytes=3-6", "206 x", "Content-Range: bytes 3-6/10\r\n", "3456",
     "3456", "{\"size\":4}"},
    {"\"offset\":3", "bytes=3-", "206 x", "Content-Range: bytes 3-9/*\r\n", "3456789", "3456789",
     "{\"size\":7}"},
    {"\"limit\":4", "bytes=0-3", "206 x", "Content-Range: bytes 0-3/10\r\n", "0123", "0123",
     "{\"size\":4}"},
    /* a server that does not know of parts */
    {"\"offset\":3,\"limit\":4", "bytes=3-6", "200 OK", "", "0123456789", "3456", "{\"size\":4}"},
    {"\"offset\":3", "bytes=3-", "200 OK", "", "0123456789", "3456789", "{\"size\":7}"},
    {"\"limit\":0", "bytes=0-0", "200 OK", "", "0123456789", "", "{\"size\":0}"},
    {"\"offset\":50", "bytes=50-", "200 OK", "", "0123456789", "", "{\"size\":0}"},
    /* more than was asked for, less, another part, several */
    {"\"limit\":4", "bytes=0-3", "206 x", "Content-Range: bytes 0-9/10\r\n", "0123456789", "0123",
     "{\"size\":4}"},
    {"\"limit\":40", "bytes=0-39", "206 x", "Content-Range: bytes 0-9/10\r\n", "0123456789",
     "0123456789", "{\"size\":10}"},
    {"\"offset\":3", "bytes=3-", "206 x", "Content-Range: bytes 30-31/90\r\n", "xx", "",
     "BACKEND_ANSWER"},
    {"\"offset\":3", "bytes=3-", "206 x", "", "xx", "", "BACKEND_ANSWER"},
    /* behind the end, and numbers that cannot be added */
    {"\"offset\":10", "bytes=10-", "416 x", "Content-Range: bytes */10\r\n", "no", "",
     "{\"size\":0}"},
    {"\"limit\":5", "bytes=0-4", "416 x", "", "no", "", "BACKEND"},
    {"\"offset\":9223372036854775807,\"limit\":2", "bytes=9223372036854775807-", "416 x", "", "no",
     "", "{\"size\":0}"},
    {"\"limit\":9223372036854775807", "bytes=0-9223372036854775806", "200 OK", "", "all", "all",
     "{\"size\":3}"},
    {"\"offset\":0", NULL, "200 OK", "", "all", "all", "{\"size\":3}"},
};

static void a_part_of_a_file_comes(void **state)
{
    for (size_t i = 0; i < ABX_COUNT(parts); i++) {
        fake f;
        fake_run run;
        fake_open(&f, ABX_E2B_JSON, i % 2 ? ABX : PLAIN);
        ABX_AUTO_FREE char *answer =
            abx_format("HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n%s", parts[i].status,
                       strlen(parts[i].body), parts[i].answer, parts[i].body);
        ABX_AUTO_FREE char *params =
            abx_format("{\"sandboxId\":\"s\",\"path\":\"x\",%s}", parts[i].params);
        fake_say(&f, answer, strlen(answer));
        fake_call(&f, &run, "fs.read", params);
        ABX_AUTO_FREE char *range = fake_header(&f, 0, "Range");
        if (parts[i].range)
            assert_string_equal(range, parts[i].range);
        else
            assert_null(range);
        assert_string_equal(abx_buf_cstr(&run.out[ABX_CH_BODY]), parts[i].out);
        if (*parts[i].result == '{')
            fake_assert_result(&run, parts[i].result);
        else
            fake_assert_error(&run, parts[i].result, "");
        fake_done(&f, &run);
    }
}

static void a_file_cut_short_is_an_error(void **state)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort";
    fake f;
    fake_run run;
    fake_open(&f, ABX_E2B_JSON, PLAIN);
    fake_say(&f, text, strlen(text))->close = true;
    fake_call(&f, &run, "fs.read", "{\"sandboxId\":\"s\",\"path\":\"x\"}");
    assert_non_null(run.err);
    fake_done(&f, &run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_come),
        cmocka_unit_test(a_part_of_a_file_comes),
        cmocka_unit_test(a_file_cut_short_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
