/* Buffers: limits, overflow, and the 0 behind the contents. */
#include "kit.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/buf.h"

static void grows_up_to_its_limit_and_no_further(void **state)
{
    ABX_AUTO_BUF b = ABX_BUF(1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(abx_buf_add_byte(&b, (uint8_t)i), 0);
    assert_int_equal(abx_buf_add_byte(&b, 1), -1);
    assert_int_equal(b.len, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(b.data[i], (uint8_t)i);
    assert_int_equal(b.data[1000], 0);
}

static void refused_addition_changes_nothing(void **state)
{
    ABX_AUTO_BUF b = ABX_BUF(5);
    assert_int_equal(abx_buf_add_str(&b, "abc"), 0);
    assert_int_equal(abx_buf_add(&b, "defg", 4), -1);
    assert_int_equal(abx_buf_add_str(&b, "def"), -1);
    assert_int_equal(abx_buf_addf(&b, "%s", "def"), -1);
    assert_string_equal(abx_buf_cstr(&b), "abc");
    assert_int_equal(abx_buf_add_str(&b, "de"), 0);
    assert_string_equal(abx_buf_cstr(&b), "abcde");
}

static void sizes_that_overflow_are_refused(void **state)
{
    ABX_AUTO_BUF b = ABX_BUF(SIZE_MAX);
    assert_int_equal(abx_buf_add_str(&b, "abc"), 0);
    assert_null(abx_buf_room(&b, SIZE_MAX));
    assert_null(abx_buf_room(&b, SIZE_MAX - 2));
    assert_null(abx_buf_room(&b, SIZE_MAX - 3));
    assert_string_equal(abx_buf_cstr(&b), "abc");
}

static void limit_of_zero_holds_nothing(void **state)
{
    ABX_AUTO_BUF b = ABX_BUF(0);
    assert_int_equal(abx_buf_add(&b, "", 0), 0);
    assert_int_equal(abx_buf_add_byte(&b, 'x'), -1);
    assert_string_equal(abx_buf_cstr(&b), "");
}

static void memory_stays_within_the_limit(void **state)
{
    ABX_AUTO_BUF b = ABX_BUF(300);
    for (int i = 0; i < 300; i++)
        assert_int_equal(abx_buf_add_byte(&b, 'x'), 0);
    assert_true(b.cap <= 300);
}

static void room_is_writable_and_counted_by_grow(void **state)
{
    ABX_AUTO_BUF b = ABX_BUF(100);
    uint8_t *room = abx_buf_room(&b, 100);
    assert_non_null(room);
    memset(room, 'y', 100);
    abx_buf_grow(&b, 40);
    assert_int_equal(b.len, 40);
    assert_int_equal(strlen(abx_buf_cstr(&b)), 40);
    assert_null(abx_buf_room(&b, 61));
    assert_non_null(abx_buf_room(&b, 60));
}

static void drop_forgets_the_front(void **state)
{
    ABX_AUTO_BUF b = ABX_BUF(100);
    abx_buf_drop(&b, 0);
    assert_int_equal(abx_buf_add_str(&b, "hello world"), 0);
    abx_buf_drop(&b, 6);
    assert_string_equal(abx_buf_cstr(&b), "world");
    abx_buf_drop(&b, 5);
    assert_int_equal(b.len, 0);
    assert_string_equal(abx_buf_cstr(&b), "");
}

static void take_gives_away_and_empties(void **state)
{
    ABX_AUTO_BUF b = ABX_BUF(100);
    char *nothing = abx_buf_take(&b);
    assert_string_equal(nothing, "");
    free(nothing);
    assert_int_equal(abx_buf_addf(&b, "%d-%s", 7, "x"), 0);
    char *text = abx_buf_take(&b);
    assert_string_equal(text, "7-x");
    free(text);
    assert_int_equal(b.len, 0);
    assert_int_equal(abx_buf_add_str(&b, "again"), 0);
    assert_string_equal(abx_buf_cstr(&b), "again");
}

static void reset_and_clear_make_it_empty(void **state)
{
    ABX_AUTO_BUF b = ABX_BUF(100);
    abx_buf_reset(&b);
    assert_int_equal(abx_buf_add_str(&b, "abc"), 0);
    abx_buf_reset(&b);
    assert_string_equal(abx_buf_cstr(&b), "");
    assert_true(b.cap > 0);
    abx_buf_clear(&b);
    assert_null(b.data);
    assert_int_equal(abx_buf_add_str(&b, "d"), 0);
    assert_string_equal(abx_buf_cstr(&b), "d");
}

static void zero_bytes_are_kept(void **state)
{
    ABX_AUTO_BUF b = ABX_BUF(100);
    assert_int_equal(abx_buf_add(&b, "a\0b", 3), 0);
    assert_int_equal(b.len, 3);
    assert_memory_equal(b.data, "a\0b\0", 4);
}

static void size_sums_and_products_notice_overflow(void **state)
{
    size_t out = 1;
    assert_int_equal(abx_size_add(SIZE_MAX, 1, &out), 0);
    assert_int_equal(abx_size_add(SIZE_MAX - 1, 1, &out), 1);
    assert_true(out == SIZE_MAX);
    assert_int_equal(abx_size_mul(SIZE_MAX / 2, 3, &out), 0);
    assert_int_equal(abx_size_mul(6, 7, &out), 1);
    assert_int_equal(out, 42);
}

static void strndup_stops_at_the_zero(void **state)
{
    ABX_AUTO_FREE char *a = abx_strndup("abcdef", 3);
    ABX_AUTO_FREE char *b = abx_strndup("ab", 100);
    assert_string_equal(a, "abc");
    assert_string_equal(b, "ab");
    assert_null(abx_strdup(NULL));
}

static void full_reads_and_writes_go_through_a_pipe(void **state)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    enum { SIZE = 1 << 20 };
    pid_t pid = fork();
    if (pid == 0) {
        uint8_t *out = malloc(SIZE);
        for (int i = 0; i < SIZE; i++)
            out[i] = (uint8_t)(i * 31);
        close(ends[0]);
        _exit(abx_write_full(ends[1], out, SIZE) == 0 ? 0 : 1);
    }
    abx_close_fd(&ends[1]);
    assert_int_equal(ends[1], -1);
    uint8_t *in = abx_alloc(SIZE + 10);
    assert_int_equal(abx_read_full(ends[0], in, SIZE + 10), SIZE);
    for (int i = 0; i < SIZE; i++)
        if (in[i] != (uint8_t)(i * 31))
            fail_msg("byte %d differs", i);
    free(in);
    close(ends[0]);
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

static void a_full_write_at_an_offset_leaves_a_hole_before_it(void **state)
{
    (void)state;
    ABX_AUTO_FD fd = memfd_create("test", MFD_CLOEXEC);
    char back[8];
    assert_int_equal(abx_pwrite_full(fd, "xyz", 3, 5), 0);
    assert_int_equal(abx_read_full(fd, back, sizeof back), 8); /* its own offset is the beginning */
    assert_memory_equal(back, "\0\0\0\0\0xyz", 8);
}

static void what_does_not_fit_is_an_error_after_a_short_write(void **state)
{
    (void)state;
    ABX_AUTO_FD fd = memfd_create("test", MFD_CLOEXEC);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){10, 10}) < 0)
            _exit(1);
        _exit(abx_pwrite_full(fd, "0123456789abcdef", 16, 4) < 0 && errno == EFBIG ? 0 : 2);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(lseek(fd, 0, SEEK_END), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_up_to_its_limit_and_no_further),
        cmocka_unit_test(refused_addition_changes_nothing),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(limit_of_zero_holds_nothing),
        cmocka_unit_test(memory_stays_within_the_limit),
        cmocka_unit_test(room_is_writable_and_counted_by_grow),
        cmocka_unit_test(drop_forgets_the_front),
        cmocka_unit_test(take_gives_away_and_empties),
        cmocka_unit_test(reset_and_clear_make_it_empty),
        cmocka_unit_test(zero_bytes_are_kept),
        cmocka_unit_test(size_sums_and_products_notice_overflow),
        cmocka_unit_test(strndup_stops_at_the_zero),
        cmocka_unit_test(full_reads_and_writes_go_through_a_pipe),
        cmocka_unit_test(a_full_write_at_an_offset_leaves_a_hole_before_it),
        cmocka_unit_test(what_does_not_fit_is_an_error_after_a_short_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
