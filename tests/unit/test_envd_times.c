/* The index from offsets of kept output to times. */
#include "kit.h"

#include "local/envd/inner.h"

static void byte_has_the_time_of_its_piece(void **state)
{
    abx__times *t = abx__times_new();
    uint64_t until;
    assert_int_equal(abx__times_of(t, 0, &until), 0);
    abx__times_note(t, 0, 100);
    abx__times_note(t, 5, 100); /* the same millisecond */
    abx__times_note(t, 10, 200);
    abx__times_note(t, 20, 150); /* the clock was set back */
    abx__times_note(t, 30, 300);
    assert_int_equal(abx__times_of(t, 0, &until), 100);
    assert_int_equal(until, 10);
    assert_int_equal(abx__times_of(t, 9, &until), 100);
    assert_int_equal(abx__times_of(t, 10, &until), 200);
    assert_int_equal(until, 30);
    assert_int_equal(abx__times_of(t, 29, &until), 200);
    assert_int_equal(abx__times_of(t, 1000, &until), 300);
    assert_true(until == UINT64_MAX);
    abx__times_free(t);
}

static void many_times_are_put_together(void **state)
{
    abx__times *t = abx__times_new();
    uint64_t until;
    int64_t last = 0;
    for (int i = 0; i < 100000; i++)
        abx__times_note(t, (uint64_t)i * 10, 1000 + i);
    for (int i = 0; i < 100000; i++) {
        int64_t ms = abx__times_of(t, (uint64_t)i * 10, &until);
        assert_true(ms <= 1000 + i && ms > 1000 + i - 100000 / 512);
        assert_true(ms >= last && until > (uint64_t)i * 10);
        last = ms;
    }
    assert_int_equal(abx__times_of(t, 0, &until), 1000);
    abx__times_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_has_the_time_of_its_piece),
        cmocka_unit_test(many_times_are_put_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
