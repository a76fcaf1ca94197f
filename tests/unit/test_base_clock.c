/* Durations and times as text. */
#include "kit.h"

#include "base/clock.h"

static void durations_that_are_accepted(void **state)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } rows[] = {
        {"500ms", 500},
        {"30s", 30000},
        {"5m", 300000},
        {"2h", 7200000},
        {"2d", 172800000},
        {"1h30m", 5400000},
        {"1m500ms", 60500},
        {"1d2h3m4s5ms", 93784005},
        {"30", 30000},
        {"007", 7000},
        {"0", ABX_FOREVER},
        {"none", ABX_FOREVER},
        {"0s", ABX_FOREVER},
        {"0ms", ABX_FOREVER},
        {"1ms", 1},
        {"0h5s", 5000},
        {"1000000000000", 1000000000000000},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        uint64_t ms = 77;
        if (abx_parse_duration(rows[i].text, &ms) < 0 || ms != rows[i].ms)
            fail_msg("'%s' gives %llu", rows[i].text, (unsigned long long)ms);
    }
}

/* A day of each month over all leap years, by the C library. */
static void civil_times(void **state)
{
    for (int64_t t = -62167219200; t < 253402300799; t += 86400 * 29 + 3599) {
        struct tm ours, theirs;
        time_t seconds = (time_t)t;
        assert_int_equal(abx_utc(t, &ours), 0);
        assert_non_null(gmtime_r(&seconds, &theirs));
        if (ours.tm_sec != theirs.tm_sec || ours.tm_min != theirs.tm_min ||
            ours.tm_hour != theirs.tm_hour || ours.tm_mday != theirs.tm_mday ||
            ours.tm_mon != theirs.tm_mon || ours.tm_year != theirs.tm_year ||
            ours.tm_wday != theirs.tm_wday || ours.tm_yday != theirs.tm_yday)
            fail_msg("second %lld", (long long)t);
    }
    struct tm tm;
    assert_int_equal(abx_utc(253402300799, &tm), 0);
    assert_int_equal(tm.tm_year, 8099);
    assert_int_equal(tm.tm_yday, 364);
    assert_int_equal(abx_utc(253402300800, &tm), -1);
    assert_int_equal(abx_utc(-62167219201, &tm), -1);
}

static void durations_that_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        " ",
        "s",
        "ms",
        "h1",
        "-1",
        "-1s",
        "+1s",
        " 1s",
        "1s ",
        "1 s",
        "1.5h",
        "1x",
        "1sec",
        "5M",
        "1mh",
        "1h30",
        "0h30",
        "0s0",
        "1m1",
        "forever",
        "None",
        "1,5s",
        "1e3",
        "0x10",
        "10000000000000",
        "99999999999999999999999d",
        "1000000000000d",
        "\xc2\xb2s",
    };
    for (size_t i = 0; i < ABX_COUNT(bad); i++) {
        uint64_t ms = 77;
        if (abx_parse_duration(bad[i], &ms) == 0 || ms != 77)
            fail_msg("'%s' is taken as %llu", bad[i], (unsigned long long)ms);
    }
}

static void durations_are_shown_and_read_back(void **state)
{
    static const struct {
        uint64_t ms;
        const char *text;
    } rows[] = {
        {0, "0ms"},       {120, "120ms"},     {1000, "1s"},          {45000, "45s"},
        {60000, "1m"},    {61000, "1m1s"},    {5400000, "1h30m"},    {7200000, "2h"},
        {86400000, "1d"}, {93600000, "1d2h"}, {ABX_FOREVER, "none"},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        char out[32];
        uint64_t back;
        abx_format_duration(rows[i].ms, out);
        assert_string_equal(out, rows[i].text);
        assert_int_equal(abx_parse_duration(out, &back), 0);
        assert_true(back == (rows[i].ms ? rows[i].ms : ABX_FOREVER));
    }
    char out[32];
    abx_format_duration(ABX_FOREVER - 1, out);
    assert_true(strlen(out) < 32);
}

static void times_are_shown_in_utc(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00Z"},
        {1, "1970-01-01T00:00:00.001Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {1769860800123, "2026-01-31T12:00:00.123Z"},
        {951782400000, "2000-02-29T00:00:00Z"},
        {253402300799000, "9999-12-31T23:59:59Z"},
        {253402300800000, "9999-12-31T23:59:59Z"},
        {INT64_MAX, "9999-12-31T23:59:59Z"},
        {-62135596800000, "0001-01-01T00:00:00Z"},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        char out[ABX_RFC3339_SIZE];
        abx_format_rfc3339(rows[i].ms, out);
        assert_string_equal(out, rows[i].text);
    }
}

static void times_round_trip(void **state)
{
    uint64_t seed = 88172645463325252ULL;
    for (int i = 0; i < 20000; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        int64_t ms = (int64_t)(seed % 315537897600000ULL) - 62135596800000;
        char out[ABX_RFC3339_SIZE];
        int64_t back = 0;
        abx_format_rfc3339(ms, out);
        if (abx_parse_rfc3339(out, &back) < 0 || back != ms)
            fail_msg("%lld gives %s gives %lld", (long long)ms, out, (long long)back);
    }
}

static void foreign_times_are_read(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        {"2026-01-31T12:00:00Z", 1769860800000},
        {"2026-01-31t12:00:00z", 1769860800000},
        {"2026-01-31 12:00:00Z", 1769860800000},
        {"2026-01-31T13:00:00+01:00", 1769860800000},
        {"2026-01-31T06:30:00-05:30", 1769860800000},
        {"2026-01-31T12:00:00.5Z", 1769860800500},
        {"2026-01-31T12:00:00.123456789Z", 1769860800123},
        {"2026-01-31T12:00:00.1234567890123456789Z", 1769860800123},
        {"2024-02-29T00:00:00Z", 1709164800000},
        {"2016-12-31T23:59:60Z", 1483228800000},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        int64_t ms = 0;
        if (abx_parse_rfc3339(rows[i].text, &ms) < 0 || ms != rows[i].ms)
            fail_msg("'%s' gives %lld", rows[i].text, (long long)ms);
    }
}

static void what_is_no_time_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "now",
        "2026",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00Z",
        "2026-1-31T12:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-01-32T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:60:00Z",
        "2026-01-31T12:00:61Z",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00Zx",
        "2026-01-31T12:00:00+1:00",
        "2026-01-31T12:00:00+0100",
        "2026-01-31T12:00:00+24:00",
        "-026-01-31T12:00:00Z",
        " 2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00 Z",
        "2026/01/31T12:00:00Z",
    };
    for (size_t i = 0; i < ABX_COUNT(bad); i++) {
        int64_t ms = 77;
        if (abx_parse_rfc3339(bad[i], &ms) == 0 || ms != 77)
            fail_msg("'%s' is taken as %lld", bad[i], (long long)ms);
    }
}

static void each_truncation_of_a_time_is_refused(void **state)
{
    static const char whole[] = "2026-01-31T12:00:00.123+01:00";
    for (size_t n = 0; n < strlen(whole); n++) {
        ABX_AUTO_FREE char *part = abx_strndup(whole, n);
        int64_t ms;
        assert_int_equal(abx_parse_rfc3339(part, &ms), -1);
    }
}

static void relative_times_look_both_ways(void **state)
{
    static const struct {
        int64_t diff_s;
        const char *text;
    } rows[] = {
        {-5, "5s ago"},      {-119, "119s ago"}, {-180, "3m ago"}, {-7200, "2h ago"},
        {-259200, "3d ago"}, {30, "in 30s"},     {7200, "in 2h"},  {172800, "in 2d"},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        char out[32];
        abx_format_relative(1769860800000 + rows[i].diff_s * 1000, 1769860800000, out);
        assert_string_equal(out, rows[i].text);
    }
}

static void clocks_go_forward(void **state)
{
    uint64_t mono = abx_now_mono_ms(), boot = abx_now_boot_ms();
    assert_true(boot >= mono);
    assert_true(abx_now_mono_ms() >= mono);
    assert_true(abx_now_wall_ms() > 1700000000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_that_are_accepted),
        cmocka_unit_test(civil_times),
        cmocka_unit_test(durations_that_are_refused),
        cmocka_unit_test(durations_are_shown_and_read_back),
        cmocka_unit_test(times_are_shown_in_utc),
        cmocka_unit_test(times_round_trip),
        cmocka_unit_test(foreign_times_are_read),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(each_truncation_of_a_time_is_refused),
        cmocka_unit_test(relative_times_look_both_ways),
        cmocka_unit_test(clocks_go_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
