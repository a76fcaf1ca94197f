/* What logs shows of the output: which lines, with what in front, whole or as it comes. */
#include "kit.h"

#include <string.h>

#include "base/mem.h"
#include "doors/cli/log_view.h"

/* Feed text to a view, `step` bytes at a time; returns what is shown. */
static char *shown(abx_log_view *v, const char *text, size_t step)
{
    abx_buf out = ABX_BUF(SIZE_MAX / 2);
    for (size_t at = 0, n = strlen(text); at < n; at += step)
        abx_log_view_bytes(v, ABX_CH_STDOUT, (const uint8_t *)text + at,
                           n - at < step ? n - at : step, &out);
    abx_log_view_end(v, ABX_CH_STDOUT, &out);
    return abx_buf_take(&out);
}

static void lines_do_not_depend_on_the_pieces(void **state)
{
    for (size_t step = 1; step < 20; step++) {
        abx_log_view v;
        abx_log_view_init(&v);
        v.stamps = true;
        v.skip = 1;
        abx_log_view_time(&v, ABX_CH_STDOUT, "2026-01-31T12:00:00Z");
        ABX_AUTO_FREE char *out = shown(&v, "one\n\nthree\nfour", step);
        assert_string_equal(out, "2026-01-31T12:00:00.000Z \n2026-01-31T12:00:00.000Z three\n"
                                 "2026-01-31T12:00:00.000Z four");
        assert_int_equal(v.lines, 4);
        abx_log_view_clear(&v);
    }
}

static void label_makes_lines_whole(void **state)
{
    for (size_t step = 1; step < 12; step++) {
        abx_log_view v;
        abx_log_view_init(&v);
        v.label = "p1";
        ABX_AUTO_FREE char *out = shown(&v, "one\ntwo", step);
        assert_string_equal(out, "p1 | one\np1 | two\n");
        abx_log_view_clear(&v);
    }
    abx_log_view v;
    abx_log_view_init(&v);
    v.label = "p1";
    abx_buf out = ABX_BUF(SIZE_MAX / 2);
    abx_log_view_bytes(&v, ABX_CH_STDOUT, (const uint8_t *)"half", 4, &out);
    assert_int_equal(out.len, 0);
    abx_buf_clear(&out);
    abx_log_view_clear(&v);
}

static void line_belongs_to_the_time_it_began(void **state)
{
    abx_log_view v;
    abx_log_view_init(&v);
    assert_int_equal(abx_log_since("2026-01-31T12:00:01Z", 0, &v.since_ms, NULL), 0);
    abx_buf out = ABX_BUF(SIZE_MAX / 2);
    abx_log_view_time(&v, ABX_CH_STDOUT, "2026-01-31T12:00:00.900Z");
    abx_log_view_bytes(&v, ABX_CH_STDOUT, (const uint8_t *)"old\nlate", 8, &out);
    abx_log_view_time(&v, ABX_CH_STDOUT, "2026-01-31T12:00:01.100Z");
    abx_log_view_bytes(&v, ABX_CH_STDOUT, (const uint8_t *)" end\nnew\n", 9, &out);
    assert_string_equal(abx_buf_cstr(&out), "new\n");
    abx_buf_clear(&out);
    abx_log_view_clear(&v);
}

static void count_shows_nothing(void **state)
{
    abx_log_view v;
    abx_log_view_init(&v);
    v.count_only = true;
    ABX_AUTO_FREE char *out = shown(&v, "a\nb\nc", 2);
    assert_string_equal(out, "");
    assert_int_equal(v.lines, 3);
    abx_log_view_clear(&v);
}

static void json_joins_lines_and_leaves_out_hidden_ones(void **state)
{
    abx_log_view v;
    abx_log_view_init(&v);
    v.json = true;
    v.skip = 1;
    ABX_AUTO_FREE char *out = shown(&v, "a\nb\nc", 100);
    assert_string_equal(out, "{\"type\":\"stdout\",\"text\":\"b\\nc\"}\n");
    abx_log_view_clear(&v);
}

static void since_is_a_duration_or_a_time(void **state)
{
    int64_t ms;
    assert_int_equal(abx_log_since("10s", 1000000, &ms, NULL), 0);
    assert_int_equal(ms, 990000);
    assert_int_equal(abx_log_since("2026-01-31T12:00:00+01:00", 0, &ms, NULL), 0);
    assert_int_equal(ms, 1769857200000);
    assert_int_equal(abx_log_since("none", 1000000, &ms, NULL), 0);
    assert_true(ms == INT64_MIN);
    abx_error *err = NULL;
    assert_int_equal(abx_log_since("", 0, &ms, &err), -1);
    assert_int_equal(err->id, ABX_ERR_USAGE);
    abx_error_free(err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_do_not_depend_on_the_pieces),
        cmocka_unit_test(label_makes_lines_whole),
        cmocka_unit_test(line_belongs_to_the_time_it_began),
        cmocka_unit_test(count_shows_nothing),
        cmocka_unit_test(json_joins_lines_and_leaves_out_hidden_ones),
        cmocka_unit_test(since_is_a_duration_or_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
