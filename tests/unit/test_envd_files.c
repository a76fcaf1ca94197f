/* filesystem.Filesystem, /files and watches over real files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "envd_fixture.h"

static int set_up(void **state)
{
    envd_fixture *f = ABX_NEW(envd_fixture);
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

#define BUF(name) ABX_AUTO_BUF name = ABX_BUF(SIZE_MAX / 2)

static void assert_has(const abx_buf *body, const char *text)
{
    if (strstr(abx_buf_cstr(body), text))
        return;
    (void)fprintf(stderr, "'%s' is not in:\n%s\n", text, abx_buf_cstr(body));
    fail();
}

static int fs(envd_fixture *f, const char *method, const char *json, abx_buf *body)
{
    ABX_AUTO_FREE char *path = abx_format("/filesystem.Filesystem/%s", method);
    abx_buf_reset(body);
    return fixture_rpc(f, path, false, json, body);
}

static int put(envd_fixture *f, const char *query, const char *bytes, size_t n, abx_buf *body)
{
    ABX_AUTO_FREE char *target = abx_format("/files?%s", query);
    BUF(raw);
    int status = fixture_call(f, "POST", target, "Content-Type: application/octet-stream\r\n",
                              bytes, n, &raw);
    abx_buf_reset(body);
    fixture_body(&raw, body);
    return status;
}

static int get(envd_fixture *f, const char *query, const char *headers, abx_buf *raw, abx_buf *body)
{
    ABX_AUTO_FREE char *target = abx_format("/files?%s", query);
    abx_buf_reset(raw);
    abx_buf_reset(body);
    int status = fixture_call(f, "GET", target, headers, NULL, 0, raw);
    fixture_body(raw, body);
    return status;
}

static void make(envd_fixture *f, const char *name, const char *text)
{
    ABX_AUTO_FREE char *path = abx_path_join(f->home, name);
    FILE *p = fopen(path, "we");
    assert_non_null(p);
    (void)fputs(text, p);
    (void)fclose(p);
}

static void test_stat_tells_the_path_itself_too(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    make(f, "a.txt", "hello");
    ABX_AUTO_FREE char *link = abx_path_join(f->home, "ln");
    assert_int_equal(symlink("a.txt", link), 0);
    assert_int_equal(fs(f, "Stat", "{\"path\":\"a.txt\"}", &b), 200);
    assert_has(&b, "\"size\":\"5\"");
    assert_has(&b, "\"type\":\"FILE_TYPE_FILE\"");
    assert_has(&b, "\"abxType\":\"file\"");
    assert_int_equal(fs(f, "Stat", "{\"path\":\"ln\"}", &b), 200);
    assert_has(&b, "\"type\":\"FILE_TYPE_FILE\"");
    assert_has(&b, "\"abxType\":\"symlink\"");
    assert_has(&b, "\"abxTarget\":\"a.txt\"");
    assert_has(&b, "\"permissions\":\"Lrwxrwxrwx\"");
    assert_int_equal(fs(f, "Stat", "{\"path\":\"none\"}", &b), 404);
    assert_int_equal(fs(f, "Stat", "{\"path\":\"a.txt/x\"}", &b), 500);
    assert_int_equal(fs(f, "Stat", "{\"path\":\"~other\"}", &b), 400);
    assert_int_equal(fs(f, "Stat", "{\"path\":\"a\\u0000b\"}", &b), 500);
}

static void test_make_move_remove(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    assert_int_equal(fs(f, "MakeDir", "{\"path\":\"d/e\"}", &b), 200);
    assert_int_equal(fs(f, "MakeDir", "{\"path\":\"d/e\"}", &b), 409);
    make(f, "d/x", "1");
    make(f, "y", "2");
    assert_int_equal(fs(f, "MakeDir", "{\"path\":\"y\"}", &b), 400);
    assert_int_equal(fs(f, "Move", "{\"source\":\"y\",\"destination\":\"d/x\"}", &b), 200);
    assert_int_equal(fs(f, "Move", "{\"source\":\"none\",\"destination\":\"n/m\"}", &b), 404);
    assert_int_equal(fs(f, "Move", "{\"source\":\"n\",\"destination\":\"d/e\"}", &b), 500);
    assert_has(&b, "file exists");
    assert_int_equal(fs(f, "Remove", "{\"path\":\"d\"}", &b), 200);
    assert_int_equal(fs(f, "Stat", "{\"path\":\"d\"}", &b), 404);
    assert_int_equal(fs(f, "Remove", "{\"path\":\"d\"}", &b), 200);
    ABX_AUTO_FREE char *dot = abx_format("{\"path\":\"%s/n/.\"}", f->home);
    assert_int_equal(fs(f, "Remove", dot, &b), 500);
}

static void test_list_is_depth_first_in_byte_order(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    assert_int_equal(fs(f, "MakeDir", "{\"path\":\"l/b/c\"}", &b), 200);
    make(f, "l/B", "");
    make(f, "l/b/z", "");
    make(f, "l/c", "");
    assert_int_equal(fs(f, "ListDir", "{\"path\":\"l\",\"depth\":9}", &b), 200);
    ABX_AUTO_JSON d = abx_json_parse(b.data, b.len, ABX_ERR_USAGE, "answer", NULL);
    yyjson_val *entries = abx_json_get(yyjson_doc_get_root(d), "entries");
    static const char *const names[] = {"B", "b", "c", "z", "c"};
    assert_int_equal(yyjson_arr_size(entries), 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(abx_json_str(yyjson_arr_get(entries, i), "name", ""), names[i]);
    assert_int_equal(fs(f, "ListDir", "{\"path\":\"l/c\"}", &b), 400);
    assert_int_equal(fs(f, "ListDir", "{\"path\":\"none\"}", &b), 404);
    assert_int_equal(fs(f, "ListDir", "{\"path\":\"l/b/c\"}", &b), 200);
    assert_string_equal(abx_buf_cstr(&b), "{}");
}

static void test_list_of_many(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    enum { N = 20000 };
    assert_int_equal(fs(f, "MakeDir", "{\"path\":\"many\"}", &b), 200);
    ABX_AUTO_FREE char *path = abx_path_join(f->home, "many");
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < N; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "%d", i);
        int fd = openat(dir, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        close(fd);
    }
    close(dir);
    assert_int_equal(fs(f, "ListDir", "{\"path\":\"many\"}", &b), 200);
    ABX_AUTO_JSON d = abx_json_parse(b.data, b.len, ABX_ERR_USAGE, "answer", NULL);
    assert_int_equal(yyjson_arr_size(abx_json_get(yyjson_doc_get_root(d), "entries")), N);
}

static void test_upload_and_download(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    BUF(raw);
    assert_int_equal(put(f, "path=up/a.bin", "hello world", 11, &b), 200);
    assert_null(strstr(abx_buf_cstr(&b), "size"));
    assert_has(&b, "\"name\":\"a.bin\"");
    assert_int_equal(get(f, "path=up/a.bin", "", &raw, &b), 200);
    assert_string_equal(abx_buf_cstr(&b), "hello world");
    assert_int_equal(get(f, "path=up/a.bin", "Range: bytes=6-\r\n", &raw, &b), 206);
    assert_string_equal(abx_buf_cstr(&b), "world");
    assert_has(&raw, "Content-Range: bytes 6-10/11");
    assert_int_equal(get(f, "path=up/a.bin", "Range: bytes=-3\r\n", &raw, &b), 206);
    assert_string_equal(abx_buf_cstr(&b), "rld");
    assert_int_equal(get(f, "path=up/a.bin", "Range: bytes=100-\r\n", &raw, &b), 416);
    assert_int_equal(get(f, "path=up/a.bin", "Range: bytes=2-0\r\n", &raw, &b), 416);
    assert_int_equal(
        get(f, "path=up/a.bin", "If-Modified-Since: Fri, 01 Jan 2038 00:00:00 GMT\r\n", &raw, &b),
        304);
    assert_int_equal(get(f, "path=up", "", &raw, &b), 400);
    assert_int_equal(get(f, "path=none", "", &raw, &b), 404);
    assert_int_equal(get(f, "path=up/a.bin", "Accept-Encoding: identity;q=0\r\n", &raw, &b), 406);
    assert_int_equal(get(f, "path=x&username=nobodyhere", "", &raw, &b), 401);
}

static void test_additions_of_upload(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    struct stat st;
    assert_int_equal(put(f, "path=m&abx_mode=4751&abx_size=3&abx=1", "abc", 3, &b), 200);
    assert_has(&b, "\"size\":3");
    ABX_AUTO_FREE char *path = abx_path_join(f->home, "m");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 04751);
    assert_int_equal(put(f, "path=m&abx_size=4", "abc", 3, &b), 400);
    assert_int_equal(put(f, "path=m&abx_mode=9", "abc", 3, &b), 400);
    assert_int_equal(put(f, "path=m/x", "abc", 3, &b), 500);
    assert_int_equal(put(f, "path=/dev/full", "abc", 3, &b), 507);
    assert_int_equal(put(f, "path=/proc/self/comm", "abc", 3, &b), 500);
}

static void test_nothing_waits_for_a_fifo(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    BUF(raw);
    ABX_AUTO_FREE char *path = abx_path_join(f->home, "ff");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(get(f, "path=ff", "", &raw, &b), 400);
    assert_int_equal(put(f, "path=ff", "x", 1, &b), 500);
}

static void test_multipart(void **state)
{
    envd_fixture *f = *state;
    BUF(raw);
    BUF(b);
    static const char body[] = "--B\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nno\r\n"
                               "--B\r\nContent-Disposition: form-data; name=\"file\"; "
                               "filename=\"p/1\"\r\n\r\none\r\n"
                               "--B\r\nContent-Disposition: form-data; name=\"file\"; "
                               "filename=\"p/2\"\r\n\r\n\r\n--B--\r\n";
    assert_int_equal(
        fixture_call(f, "POST", "/files",
                     "Content-Type: multipart/form-data; boundary=B\r\nX-Metadata-K: v\r\n", body,
                     sizeof(body) - 1, &raw),
        200);
    fixture_body(&raw, &b);
    assert_has(&b, "\"name\":\"1\"");
    assert_has(&b, "\"name\":\"2\"");
    assert_has(&b, "\"metadata\":{\"k\":\"v\"}");
    BUF(again);
    assert_int_equal(fixture_call(f, "POST", "/files?path=q",
                                  "Content-Type: multipart/form-data; boundary=B\r\n", body,
                                  sizeof(body) - 1, &again),
                     400);
    BUF(cut);
    assert_int_equal(fixture_call(f, "POST", "/files",
                                  "Content-Type: multipart/form-data; boundary=B\r\n", body, 100,
                                  &cut),
                     500);
}

static void test_compose(void **state)
{
    envd_fixture *f = *state;
    BUF(raw);
    BUF(b);
    make(f, "1", "one");
    make(f, "2", "two");
    static const char json[] = "{\"source_paths\":[\"1\",\"2\"],\"destination\":\"3\"}";
    assert_int_equal(fixture_call(f, "POST", "/files/compose", "Content-Type: application/json\r\n",
                                  json, sizeof(json) - 1, &raw),
                     200);
    assert_int_equal(get(f, "path=3", "", &raw, &b), 200);
    assert_string_equal(abx_buf_cstr(&b), "onetwo");
    assert_int_equal(get(f, "path=1", "", &raw, &b), 404);
}

/* 32 MB through a client that reads slowly. */
static void test_long_download(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    BUF(raw);
    BUF(bytes);
    for (uint32_t i = 0; i < 8U * 1024 * 1024; i++)
        assert_int_equal(abx_buf_add(&bytes, &i, sizeof(i)), 0);
    assert_int_equal(put(f, "path=big", (const char *)bytes.data, bytes.len, &b), 200);
    assert_int_equal(get(f, "path=big", "", &raw, &b), 200);
    assert_int_equal(b.len, bytes.len);
    assert_memory_equal(b.data, bytes.data, b.len);
}

static void test_polled_watcher(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    assert_int_equal(fs(f, "MakeDir", "{\"path\":\"w\"}", &b), 200);
    assert_int_equal(fs(f, "CreateWatcher", "{\"path\":\"w\",\"recursive\":true}", &b), 200);
    ABX_AUTO_JSON d = abx_json_parse(b.data, b.len, ABX_ERR_USAGE, "answer", NULL);
    ABX_AUTO_FREE char *ask = abx_json_text(yyjson_doc_get_root(d));
    assert_int_equal(put(f, "path=w/new", "x", 1, &b), 200);
    assert_int_equal(fs(f, "GetWatcherEvents", ask, &b), 200);
    assert_has(&b, "{\"name\":\"new\",\"type\":\"EVENT_TYPE_CREATE\"}");
    assert_has(&b, "EVENT_TYPE_CHMOD");
    assert_has(&b, "EVENT_TYPE_WRITE");
    assert_int_equal(fs(f, "GetWatcherEvents", ask, &b), 200);
    assert_string_equal(abx_buf_cstr(&b), "{}");
    assert_int_equal(fs(f, "RemoveWatcher", ask, &b), 200);
    assert_int_equal(fs(f, "RemoveWatcher", ask, &b), 404);
}

static void test_recursive_watch_follows_new_folders(void **state)
{
    envd_fixture *f = *state;
    BUF(b);
    assert_int_equal(fs(f, "CreateWatcher", "{\"path\":\"\",\"recursive\":true}", &b), 200);
    ABX_AUTO_JSON d = abx_json_parse(b.data, b.len, ABX_ERR_USAGE, "answer", NULL);
    ABX_AUTO_FREE char *ask = abx_json_text(yyjson_doc_get_root(d));
    BUF(none);
    assert_int_equal(fs(f, "MakeDir", "{\"path\":\"a/b\"}", &none), 200);
    fixture_turn(f, -1, NULL, 50);
    make(f, "a/b/f", "1");
    ABX_AUTO_FREE char *from = abx_path_join(f->home, "a");
    ABX_AUTO_FREE char *to = abx_path_join(f->home, "z");
    assert_int_equal(rename(from, to), 0);
    fixture_turn(f, -1, NULL, 50);
    make(f, "z/b/g", "1");
    assert_int_equal(fs(f, "GetWatcherEvents", ask, &b), 200);
    assert_has(&b, "\"a/b/f\"");
    assert_has(&b, "{\"name\":\"a\",\"type\":\"EVENT_TYPE_RENAME\"}");
    assert_has(&b, "{\"name\":\"z\",\"type\":\"EVENT_TYPE_CREATE\"}");
    assert_has(&b, "\"z/b/g\"");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_stat_tells_the_path_itself_too),
        T(test_make_move_remove),
        T(test_list_is_depth_first_in_byte_order),
        T(test_list_of_many),
        T(test_upload_and_download),
        T(test_additions_of_upload),
        T(test_nothing_waits_for_a_fifo),
        T(test_multipart),
        T(test_compose),
        T(test_long_download),
        T(test_polled_watcher),
        T(test_recursive_watch_follows_new_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
