/* What a module's process writes to the host, with buffers that are lent to the pipe: every byte arrives as it was given, whenever the other end reads. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "jshost/output.h"
#include "kit.h"

enum { LARGE = 256 * 1024, SMALL = 1000 };

typedef struct rig {
    uv_loop_t loop;
    js_output out;
    int ends[2];
    abx_buf buf;
    uint32_t sent, seen; /* of the row of bytes */
    size_t unread;
} rig;

static rig *r;

/* The row of bytes that goes through: each word is its number. */
static void put_words(abx_buf *b, size_t bytes)
{
    for (size_t i = 0; i < bytes / 4; i++, r->sent++)
        assert_int_equal(abx_buf_add(b, &r->sent, 4), 0);
}

static void turn(void)
{
    uv_run(&r->loop, UV_RUN_NOWAIT);
}

/* Read at most so many bytes (a multiple of 4), as the host does. */
static void take(size_t most)
{
    static uint32_t words[64 * 1024];
    while (most > 0 && r->unread > 0) {
        size_t want = most < sizeof words ? most : sizeof words;
        ssize_t n = read(r->ends[0], words, want);
        turn();
        if (n < 0)
            continue; /* it is empty until the loop has turned */
        assert_true(n > 0 && n % 4 == 0);
        for (ssize_t i = 0; i < n / 4; i++)
            assert_int_equal(words[i], r->seen++);
        most -= (size_t)n;
        r->unread -= (size_t)n;
    }
}

/* A chunk with a head and an end, as the protocol has them; `behind` bytes stay in the buffer. */
static void give(size_t n, size_t behind)
{
    ABX_AUTO_BUF head = ABX_BUF(64), tail = ABX_BUF(64), rest = ABX_BUF(1 << 20);
    put_words(&head, 40);
    js_output_refill(&r->out, &r->buf);
    put_words(&r->buf, n);
    put_words(&tail, 4);
    assert_int_equal(abx_buf_add(&rest, r->buf.data, behind), 0);
    assert_int_equal(abx_buf_add(&r->buf, rest.data, behind), 0);
    const abx_epp_piece pieces[] = {{head.data, head.len}, {r->buf.data, n}, {tail.data, tail.len}};
    js_output_offer(&r->out, &r->buf);
    js_output_write(&r->out, pieces, 3);
    js_output_taken(&r->out, &r->buf, n);
    r->unread += head.len + n + tail.len;
    assert_int_equal(r->buf.len, behind);
    assert_true(behind == 0 || memcmp(r->buf.data, rest.data, behind) == 0);
    abx_buf_drop(&r->buf, behind);
}

static void give_small(void)
{
    ABX_AUTO_BUF b = ABX_BUF(SMALL);
    put_words(&b, SMALL);
    const abx_epp_piece piece = {b.data, b.len};
    js_output_write(&r->out, &piece, 1);
    r->unread += b.len;
}

static void open_rig(int pipe_size)
{
    r = ABX_NEW(rig);
    assert_int_equal(uv_loop_init(&r->loop), 0);
    if (pipe_size > 0) {
        assert_int_equal(pipe2(r->ends, O_CLOEXEC | O_NONBLOCK), 0);
        assert_true(fcntl(r->ends[1], F_SETPIPE_SZ, pipe_size) >= pipe_size);
    } else {
        assert_int_equal(
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, r->ends), 0);
    }
    abx_buf_init(&r->buf, 4 << 20);
    js_output_open(&r->out, &r->loop, r->ends[1]);
}

/* All is read, and nothing is kept once it is idle. */
static void close_rig(void)
{
    take(SIZE_MAX);
    assert_int_equal(r->seen, r->sent);
    while (r->out.first)
        uv_run(&r->loop, UV_RUN_ONCE);
    assert_int_equal(r->out.count, 0);
    assert_int_equal(js_output_waiting(&r->out), 0);
    uv_close((uv_handle_t *)&r->out.pipe, NULL);
    uv_close((uv_handle_t *)&r->out.idle, NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    abx_buf_clear(&r->buf);
    close(r->ends[0]);
    free(ABX_TAKE(r));
}

static void test_nobody_reads_for_long(void **state)
{
    (void)state;
    open_rig(1 << 20);
    for (int i = 0; i < 20; i++) { /* far more than the pipe takes */
        give(LARGE, 0);
        give_small();
        turn();
    }
    assert_int_equal(r->out.count, 20); /* none was used again */
    assert_true(js_output_waiting(&r->out) > 3 << 20);
    close_rig();
}

static void test_buffers_are_used_again(void **state)
{
    (void)state;
    open_rig(1 << 20);
    for (int i = 0; i < 60; i++) {
        give(LARGE, 0);
        if (i % 3 == 0)
            give_small();
        turn();
        take(i % 7 == 0 ? 1024 * 1024 : LARGE); /* the other end is behind by a bit that varies */
    }
    assert_true(r->out.count < 20);
    close_rig();
}

static void test_small_pipe_and_bytes_behind(void **state)
{
    (void)state;
    open_rig(64 * 1024); /* each chunk waits for room */
    for (int i = 0; i < 30; i++) {
        give(LARGE - 4 * (size_t)i, i % 2 ? 70000 : 0);
        turn();
        take(LARGE / 2);
    }
    close_rig();
}

static void test_small_chunks_are_copied(void **state)
{
    (void)state;
    open_rig(1 << 20);
    for (int i = 0; i < 20; i++)
        give(32 * 1024, 4000);
    assert_null(r->out.first);
    close_rig();
}

static void test_what_takes_no_pages(void **state)
{
    (void)state;
    open_rig(0);
    for (int i = 0; i < 10; i++) {
        give(LARGE, 4000);
        turn();
        take(LARGE / 2);
    }
    assert_true(r->out.refused);
    close_rig();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_reads_for_long),
        cmocka_unit_test(test_buffers_are_used_again),
        cmocka_unit_test(test_small_pipe_and_bytes_behind),
        cmocka_unit_test(test_small_chunks_are_copied),
        cmocka_unit_test(test_what_takes_no_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
