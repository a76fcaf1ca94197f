/* Ranges and dates of HTTP. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "net/http_range.h"

static void test_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        int64_t size;
        abx_range what;
        int64_t from, len;
    } rows[] = {
        {"bytes=0-0", 10, ABX_RANGE_PART, 0, 1},
        {"bytes=0-", 10, ABX_RANGE_PART, 0, 10},
        {"bytes=3-5", 10, ABX_RANGE_PART, 3, 3},
        {"bytes=9-99999999999999999999", 10, ABX_RANGE_PART, 9, 1},
        {"bytes=-3", 10, ABX_RANGE_PART, 7, 3},
        {"bytes=-99", 10, ABX_RANGE_PART, 0, 10},
        {"bytes=8000000000-", 10000000000, ABX_RANGE_PART, 8000000000, 2000000000},
        {"bytes=10-", 10, ABX_RANGE_OUTSIDE, 0, 0},
        {"bytes=99999999999999999999-", 10, ABX_RANGE_OUTSIDE, 0, 0},
        {"bytes=-0", 10, ABX_RANGE_OUTSIDE, 0, 0},
        {"bytes=0-1,3-4", 10, ABX_RANGE_WHOLE, 0, 0},
        {"bytes=0-1", 0, ABX_RANGE_WHOLE, 0, 0},
        {"bytes=5-3", 10, ABX_RANGE_BROKEN, 0, 0},
        {"bytes=", 10, ABX_RANGE_BROKEN, 0, 0},
        {"bytes=-", 10, ABX_RANGE_BROKEN, 0, 0},
        {"bytes=--1", 10, ABX_RANGE_BROKEN, 0, 0},
        {"bytes=+1-2", 10, ABX_RANGE_BROKEN, 0, 0},
        {"bytes=1-2x", 10, ABX_RANGE_BROKEN, 0, 0},
        {"bytes=1 -2", 10, ABX_RANGE_BROKEN, 0, 0},
        {"lines=1-2", 10, ABX_RANGE_BROKEN, 0, 0},
        {"", 10, ABX_RANGE_BROKEN, 0, 0},
    };

    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        int64_t from = 0, len = 0;
        assert_int_equal(abx_http_range(rows[i].header, rows[i].size, &from, &len), rows[i].what);
        if (rows[i].what != ABX_RANGE_PART)
            continue;
        assert_int_equal(from, rows[i].from);
        assert_int_equal(len, rows[i].len);
    }
}

static void test_dates(void **state)
{
    (void)state;
    char line[64];

    abx_http_date_line(784111777, line, sizeof line);
    assert_string_equal(line, "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT");
    assert_int_equal(abx_http_date_read(line + 15), 784111777);
    assert_int_equal(abx_http_date_read("yesterday"), -1);
    assert_int_equal(abx_http_date_read(NULL), -1);
    abx_http_date_line(784111777, line, 20);
    assert_string_equal(line, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_dates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
