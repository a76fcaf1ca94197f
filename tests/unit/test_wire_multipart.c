/* Multipart bodies, whole, in pieces and broken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "wire/multipart.h"

typedef struct seen {
    char text[2048];
    size_t len;
    int stop_at_part;
} seen;

static void note(seen *s, const void *bytes, size_t n)
{
    assert_true(s->len + n < sizeof s->text);
    memcpy(s->text + s->len, bytes, n);
    s->len += n;
    s->text[s->len] = 0;
}

static int on_part(const abx_multipart_part *p, void *user)
{
    ABX_AUTO_FREE char *line = abx_format("<%s|%s|%s>", p->name, p->filename ? p->filename : "-",
                                          p->content_type ? p->content_type : "-");

    note(user, line, strlen(line));
    return ((seen *)user)->stop_at_part;
}

static int on_data(const uint8_t *bytes, size_t n, void *user)
{
    note(user, bytes, n);
    return 0;
}

static int on_part_end(void *user)
{
    note(user, "</>", 3);
    return 0;
}

static const abx_multipart_handlers handlers = {on_part, on_data, on_part_end};

/* Feed in steps of every length; the events and the verdict must be the same. */
static void check(const char *body, const char *events, int result)
{
    size_t len = strlen(body);

    for (size_t step = 1; step <= len; step++) {
        abx_multipart m;
        seen s = {0};
        int rc = 0;
        abx_multipart_init(&m, "XX", &handlers, &s);
        for (size_t at = 0; rc == 0 && at < len; at += step) {
            size_t n = len - at < step ? len - at : step;
            char *copy = abx_realloc(NULL, n);
            memcpy(copy, body + at, n);
            rc = abx_multipart_feed(&m, copy, n, NULL);
            free(copy);
        }
        if (rc == 0)
            rc = abx_multipart_end(&m, NULL);
        assert_int_equal(rc, result);
        assert_string_equal(s.text, events);
        abx_multipart_clear(&m);
    }
}

#define FILE_HEAD "Content-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n"

static void test_whole(void **state)
{
    (void)state;
    check("--XX\r\n" FILE_HEAD "Content-Type: text/plain\r\n\r\nhello\r\n--XX--\r\n",
          "<file|a.txt|text/plain>hello</>", 0);
    check("preamble\r\n--XX\r\n\r\none\r\n--XX \t\r\nX: "
          "y\r\n\r\ntwo\r\nlines\r\n\r\n--XX--epilogue--XX\r\n",
          "<|-|->one</><|-|->two\r\nlines\r\n</>", 0);
    check("--XX--", "", 0);
    check("--XX\r\n" FILE_HEAD "\r\n\r\n--XX--",
          "<file|a.txt|->"
          "</>",
          0);
    check("--XX\r\n" FILE_HEAD "\r\n--XX--",
          "<file|a.txt|->"
          "</>",
          0);
}

static void test_nearly_a_boundary(void **state)
{
    (void)state;
    check("--XX\r\n\r\n\r\n--X\r\r\n-\r\n--XY\r\n--XX2\r\n--XX-z\r\n--XX--",
          "<|-|->\r\n--X\r\r\n-\r\n--XY\r\n--XX2\r\n--XX-z</>", 0);
    check("--XX\r\n\r\n--XX\r\r\n\r\n--XX--", "<|-|->", -1);
}

static void test_names(void **state)
{
    (void)state;
#define NAMED(disposition, events)                                                                 \
    check("--XX\r\ncontent-DISPOSITION:form-data" disposition "\r\n\r\n\r\n--XX--", events, 0)
    NAMED("; name=file; filename=b", "<file|b|-></>");
    NAMED(" ; filename=\"/d/e \\\"f\\\\g\\h%22\xc3\xa9;.txt\" ; name=\"n\"",
          "<n|/d/e \"f\\g\\h%22\xc3\xa9;.txt|-></>");
    NAMED("; name=\"file\"; filename*=UTF-8''%e2%82%ac%20x", "<file|\xe2\x82\xac x|-></>");
    NAMED("; filename*=utf-8'en'new; filename=\"old\"", "<|new|-></>");
    NAMED("; filename=\"old\"; filename*=utf-8''new", "<|new|-></>");
    NAMED("; filename=\"\"", "<||-></>");
    NAMED("", "<|-|-></>");
#undef NAMED
}

static void test_broken(void **state)
{
    (void)state;
    check("--XX\r\n" FILE_HEAD "\r\nhello", "<file|a.txt|->hello", -1);
    check("--XX\r\n" FILE_HEAD, "", -1);
    check("nothing of the kind", "", -1);
    check("--XX\r\nno header\r\n\r\n\r\n--XX--", "", -1);
    check("--XX\r\nContent-Disposition: form-data; filename=\"open\r\n\r\n\r\n--XX--", "", -1);
    check("--XX\r\nContent-Disposition: form-data; filename*=UTF-8''%zz\r\n\r\n\r\n--XX--", "", -1);
    check("--XX x\r\n", "", -1);
    abx_multipart m;
    seen s = {0};
    ABX_AUTO_ERROR err = NULL;
    char *huge = abx_alloc(20000);
    memset(huge, 'a', 19999);
    abx_multipart_init(&m, "XX", &handlers, &s);
    assert_int_equal(abx_multipart_feed(&m, "--XX\r\n", 6, NULL), 0);
    assert_int_equal(abx_multipart_feed(&m, huge, 19999, &err), -1);
    assert_int_equal(err->id, ABX_ERR_TOO_LARGE);
    assert_int_equal(abx_multipart_feed(&m, "\r\n", 2, NULL), -1);
    abx_multipart_clear(&m);
    free(huge);
}

static void test_stop(void **state)
{
    (void)state;
    abx_multipart m;
    seen s = {.stop_at_part = 1};

    abx_multipart_init(&m, "XX", &handlers, &s);
    assert_int_equal(abx_multipart_feed(&m, "--XX\r\n\r\nhello\r\n--XX--", 22, NULL), 1);
    assert_string_equal(s.text, "<|-|->");
    abx_multipart_clear(&m);
}

static void test_boundary(void **state)
{
    (void)state;
    char b[ABX_MULTIPART_BOUNDARY_MAX + 1];

    assert_int_equal(abx_multipart_boundary("multipart/form-data; boundary=abc", b), 0);
    assert_string_equal(b, "abc");
    assert_int_equal(abx_multipart_boundary("Multipart/Mixed;charset=x; Boundary=\"a b;c\"", b), 0);
    assert_string_equal(b, "a b;c");
    assert_int_equal(abx_multipart_boundary("multipart/form-data", b), -1);
    assert_int_equal(abx_multipart_boundary("multipart/form-data; boundary=", b), -1);
    assert_int_equal(abx_multipart_boundary("text/plain; boundary=abc", b), -1);
    assert_int_equal(abx_multipart_boundary(NULL, b), -1);
    char longest[200] = "multipart/x; boundary=";
    memset(longest + strlen(longest), 'b', 71);
    assert_int_equal(abx_multipart_boundary(longest, b), -1);
    longest[strlen(longest) - 1] = 0;
    assert_int_equal(abx_multipart_boundary(longest, b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole), cmocka_unit_test(test_nearly_a_boundary),
        cmocka_unit_test(test_names), cmocka_unit_test(test_broken),
        cmocka_unit_test(test_stop),  cmocka_unit_test(test_boundary),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
