/* The line of a transfer: what it says at each width. */
#include "kit.h"

#include "doors/cli/progress.h"

static const abx_transfer_state half = {.label = "copying",
                                        .bytes = 50 << 20,
                                        .total_bytes = 100 << 20,
                                        .files = 7,
                                        .total_files = 20,
                                        .elapsed_ms = 5000};

static void assert_line(const abx_transfer_state *s, size_t width, const char *want)
{
    ABX_AUTO_BUF out = ABX_BUF(4096);
    abx_transfer_text(s, width, &out);
    assert_string_equal(abx_buf_cstr(&out), want);
}

static void widths(void **state)
{
    assert_line(&half, 200,
                "copying  50.0 MiB of 100 MiB  50%  10.0 MiB/s  7 of 20 files  "
                "[===============>              ]");
    assert_line(&half, 80, "copying  50.0 MiB of 100 MiB  50%  10.0 MiB/s  7 of 20 files");
    assert_line(&half, 40, "copying  50.0 MiB of 100 MiB  50%");
    assert_line(&half, 1, "");
}

static void no_line_is_too_long(void **state)
{
    for (size_t width = 1; width < 220; width++) {
        ABX_AUTO_BUF out = ABX_BUF(4096);
        abx_transfer_text(&half, width, &out);
        assert_true(out.len <= (width > 1 ? width - 1 : 1));
    }
}

static void what_is_not_known_is_not_told(void **state)
{
    abx_transfer_state s = {
        .label = "copying", .bytes = 1024, .total_bytes = -1, .files = 1, .total_files = -1};
    assert_line(&s, 80, "copying  1.0 KiB  1 file");
    s.files = 0;
    s.elapsed_ms = 1000;
    assert_line(&s, 80, "copying  1.0 KiB  1.0 KiB/s");
}

static void more_than_promised_is_not_over_the_end(void **state)
{
    abx_transfer_state s = {
        .label = "copying", .bytes = 300, .total_bytes = 100, .files = 1, .total_files = -1};
    assert_line(&s, 60, "copying  300 B of 100 B  100%  1 file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widths),
        cmocka_unit_test(no_line_is_too_long),
        cmocka_unit_test(what_is_not_known_is_not_told),
        cmocka_unit_test(more_than_promised_is_not_over_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
