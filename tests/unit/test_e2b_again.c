/* When a question is asked once more. */
#include "kit.h"

#include "base/clock.h"
#include "e2b/again.h"

static const abx__again_rule safe = {
    .sent = 1, .most = 3, .safe = true, .left_ms = ABX_FOREVER, .patience_ms = 10000};

static void assert_between(int64_t wait_ms, int64_t least, int64_t most)
{
    assert_true(wait_ms >= least && wait_ms <= most);
}

static void by_status(void **state)
{
    static const struct {
        int status;
        bool safe, told, again;
    } rows[] = {
        {429, true, false, false}, {429, true, true, true},   {429, false, true, true},
        {502, true, false, true},  {503, true, false, true},  {504, true, false, true},
        {503, true, true, true},   {502, false, true, false}, {503, false, false, false},
        {500, true, true, false},  {404, true, true, false},  {200, true, true, false},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        abx__again_rule r = safe;
        r.safe = rows[i].safe;
        int64_t wait = abx__again_after_status(&r, rows[i].status, rows[i].told ? 7 : ABX_FOREVER);
        if (!rows[i].again)
            assert_int_equal(wait, -1);
        else if (rows[i].told)
            assert_int_equal(wait, 7);
        else
            assert_between(wait, 100, 200);
    }
}

static void by_a_break(void **state)
{
    static const struct {
        abx_err_id id;
        bool safe, left, again;
    } rows[] = {
        {ABX_ERR_NETWORK, true, true, true},          {ABX_ERR_NETWORK, false, true, false},
        {ABX_ERR_NETWORK, false, false, true},        {ABX_ERR_BACKEND_ANSWER, true, true, true},
        {ABX_ERR_TIMEOUT, true, false, false},        {ABX_ERR_CANCELLED, true, false, false},
        {ABX_ERR_BACKEND_ANSWER, false, true, false},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        abx_error *err = abx_error_new(rows[i].id, "x");
        abx__again_rule r = safe;
        r.safe = rows[i].safe;
        assert_int_equal(abx__again_after_break(&r, err, rows[i].left) >= 0, rows[i].again);
        err->retryable = ABX_RETRY_NO;
        assert_int_equal(abx__again_after_break(&r, err, rows[i].left), -1);
        abx_error_free(err);
    }
}

static void within_the_time(void **state)
{
    abx__again_rule r = safe;
    assert_int_equal(abx__again_after_status(&r, 429, 10000), 10000);
    assert_int_equal(abx__again_after_status(&r, 429, 10001), -1);
    r.left_ms = 20001; /* who has said how long he waits */
    assert_int_equal(abx__again_after_status(&r, 429, 20000), 20000);
    assert_int_equal(abx__again_after_status(&r, 429, 20001), -1);
    r.left_ms = 50;
    assert_int_equal(abx__again_after_status(&r, 502, ABX_FOREVER), -1);
    r = safe;
    r.sent = 2;
    assert_between(abx__again_after_status(&r, 502, ABX_FOREVER), 200, 400);
    r.sent = 3;
    assert_int_equal(abx__again_after_status(&r, 502, ABX_FOREVER), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_status),
        cmocka_unit_test(by_a_break),
        cmocka_unit_test(within_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
