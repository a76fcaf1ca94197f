/* Our own descriptors: nothing blocks, nothing is lost, and the caller's flags stay as they were. */
#include "kit.h"

#include <signal.h>
#include <sys/socket.h>

#include "doors/cli/out_writer.h"
#include "doors/cli/stdin_reader.h"

typedef struct rig {
    uv_loop_t loop;
    int drained;
    abx_stdin_reader reader;
    abx_buf got;
    int hold_after; /* answer 0 once so many bytes are there; 0: never */
    int ends, end_error, holds;
} rig;

static void rig_open(rig *r)
{
    memset(r, 0, sizeof *r);
    abx_buf_init(&r->got, 1 << 24);
    assert_int_equal(uv_loop_init(&r->loop), 0);
}

static void rig_close(rig *r)
{
    uv_run(&r->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    abx_buf_clear(&r->got);
}

static void on_drain(void *data)
{
    ((rig *)data)->drained++;
}

static uint8_t *pattern(size_t n)
{
    uint8_t *p = abx_alloc(n);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(i * 31 + i / 251);
    return p;
}

static bool is_nonblocking(int fd)
{
    return (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
}

/* Write n bytes to fds[1] while the other end is read slowly. */
static void write_through(int read_fd, int write_fd, size_t n)
{
    rig r;
    rig_open(&r);
    ABX_AUTO_FREE uint8_t *bytes = pattern(n);
    ABX_AUTO_FREE uint8_t *back = abx_alloc(n);
    abx_out_writer w;
    abx_out_writer_init(&w, &r.loop, write_fd, on_drain, &r);
    size_t got = 0;
    int go = abx_out_write(&w, bytes, n);
    assert_int_equal(go, abx_out_is_waiting(&w) ? 0 : 1);
    while (got < n) {
        ssize_t k = read(read_fd, back + got, n - got < 5000 ? n - got : 5000);
        assert_true(k > 0);
        got += (size_t)k;
        uv_run(&r.loop, UV_RUN_NOWAIT);
    }
    assert_memory_equal(bytes, back, n);
    assert_false(abx_out_is_waiting(&w));
    assert_int_equal(abx_out_error(&w), 0);
    assert_false(is_nonblocking(write_fd));
    abx_out_close(&w);
    rig_close(&r);
    assert_true(abx_out_is_closed(&w));
}

static void a_full_pipe_waits_and_gets_every_byte(void **state)
{
    static const size_t sizes[] = {1, 4095, 4096, 4097, 65536, 65537, 1000000};
    for (size_t i = 0; i < ABX_COUNT(sizes); i++) {
        int fds[2];
        assert_int_equal(pipe(fds), 0);
        write_through(fds[0], fds[1], sizes[i]);
        close(fds[0]);
        close(fds[1]);
    }
}

static void a_socket_waits_and_gets_every_byte(void **state)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    write_through(fds[0], fds[1], 2000000);
    close(fds[0]);
    close(fds[1]);
}

static void a_reader_that_left_is_told(void **state)
{
    rig r;
    rig_open(&r);
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    abx_out_writer w;
    abx_out_writer_init(&w, &r.loop, fds[1], on_drain, &r);
    ABX_AUTO_FREE uint8_t *bytes = pattern(200000);
    assert_int_equal(abx_out_write(&w, bytes, 200000), 0);
    close(fds[0]);
    while (!abx_out_error(&w))
        uv_run(&r.loop, UV_RUN_ONCE);
    assert_int_equal(abx_out_error(&w), EPIPE);
    assert_int_equal(r.drained, 1);
    assert_int_equal(abx_out_write(&w, bytes, 10), 1); /* dropped */
    abx_out_close(&w);
    rig_close(&r);
    close(fds[1]);
}

static void no_space_is_an_error(void **state)
{
    rig r;
    rig_open(&r);
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    abx_out_writer w;
    abx_out_writer_init(&w, &r.loop, fd, on_drain, &r);
    assert_int_equal(abx_out_write(&w, "x", 1), 1);
    assert_int_equal(abx_out_error(&w), ENOSPC);
    abx_out_close(&w);
    rig_close(&r);
    close(fd);
}

/* --- reader -------------------------------------------------------------------------------------------- */

static int on_bytes(const uint8_t *bytes, size_t n, void *data)
{
    rig *r = data;
    assert_int_equal(abx_buf_add(&r->got, bytes, n), 0);
    if (r->hold_after && r->got.len >= (size_t)r->hold_after) {
        r->hold_after = 0;
        r->holds++;
        return 0;
    }
    return 1;
}

static void on_end(int error, void *data)
{
    rig *r = data;
    r->ends++;
    r->end_error = error;
}

static void read_all(rig *r, int fd)
{
    abx_stdin_reader_init(&r->reader, &r->loop, fd, on_bytes, on_end, r);
    abx_stdin_reader_start(&r->reader);
}

static void finish_reader(rig *r)
{
    abx_stdin_reader_close(&r->reader);
    while (!abx_stdin_reader_is_closed(&r->reader))
        uv_run(&r->loop, UV_RUN_NOWAIT);
}

static void a_file_is_read_to_its_end(void **state)
{
    ABX_AUTO_FREE char *folder = kit_folder();
    ABX_AUTO_FREE char *path = abx_path_join(folder, "in");
    ABX_AUTO_FREE uint8_t *bytes = pattern(1000001);
    assert_int_equal(abx_write_atomic(path, bytes, 1000001, 0600, false, NULL), 0);
    rig r;
    rig_open(&r);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    read_all(&r, fd);
    while (!r.ends)
        uv_run(&r.loop, UV_RUN_ONCE);
    assert_int_equal(r.end_error, 0);
    assert_int_equal(r.got.len, 1000001);
    assert_memory_equal(r.got.data, bytes, 1000001);
    finish_reader(&r);
    close(fd);
    rig_close(&r);
    assert_int_equal(abx_remove_tree_at(AT_FDCWD, folder, NULL), 0);
}

static void a_pipe_is_read_as_it_comes(void **state)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    rig r;
    rig_open(&r);
    read_all(&r, fds[0]);
    assert_int_equal(write(fds[1], "one", 3), 3);
    while (r.got.len < 3)
        uv_run(&r.loop, UV_RUN_ONCE);
    assert_int_equal(r.ends, 0);
    assert_false(is_nonblocking(fds[0]));
    close(fds[1]);
    while (!r.ends)
        uv_run(&r.loop, UV_RUN_ONCE);
    assert_string_equal(abx_buf_cstr(&r.got), "one");
    finish_reader(&r);
    close(fds[0]);
    rig_close(&r);
}

static void a_socket_is_read_without_new_flags(void **state)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    rig r;
    rig_open(&r);
    read_all(&r, fds[0]);
    assert_int_equal(send(fds[1], "two", 3, 0), 3);
    while (r.got.len < 3)
        uv_run(&r.loop, UV_RUN_ONCE);
    assert_false(is_nonblocking(fds[0]));
    shutdown(fds[1], SHUT_WR);
    while (!r.ends)
        uv_run(&r.loop, UV_RUN_ONCE);
    finish_reader(&r);
    close(fds[0]);
    close(fds[1]);
    rig_close(&r);
}

static void a_consumer_that_holds_stops_the_reading(void **state)
{
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    rig r;
    rig_open(&r);
    r.hold_after = 1;
    read_all(&r, zero);
    while (!r.holds)
        uv_run(&r.loop, UV_RUN_ONCE);
    size_t before = r.got.len;
    for (int i = 0; i < 5; i++)
        uv_run(&r.loop, UV_RUN_NOWAIT);
    assert_int_equal(r.got.len, before);
    r.hold_after = 1;
    abx_stdin_reader_resume(&r.reader);
    while (r.holds < 2)
        uv_run(&r.loop, UV_RUN_ONCE);
    assert_true(r.got.len > before);
    finish_reader(&r);
    close(zero);
    rig_close(&r);
}

static void closing_ends_it_without_an_end(void **state)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    rig r;
    rig_open(&r);
    read_all(&r, fds[0]);
    finish_reader(&r);
    assert_int_equal(r.ends, 0);
    close(fds[0]);
    close(fds[1]);
    rig_close(&r);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_pipe_waits_and_gets_every_byte),
        cmocka_unit_test(a_socket_waits_and_gets_every_byte),
        cmocka_unit_test(a_reader_that_left_is_told),
        cmocka_unit_test(no_space_is_an_error),
        cmocka_unit_test(a_file_is_read_to_its_end),
        cmocka_unit_test(a_pipe_is_read_as_it_comes),
        cmocka_unit_test(a_socket_is_read_without_new_flags),
        cmocka_unit_test(a_consumer_that_holds_stops_the_reading),
        cmocka_unit_test(closing_ends_it_without_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
