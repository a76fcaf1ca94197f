/* The life of the whole: the tied connection, peers that die in the middle, descriptors that run out, closing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "envd_fixture.h"

#define BUF(name) ABX_AUTO_BUF name = ABX_BUF(SIZE_MAX / 2)

static const char HEALTH[] = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";

static int health(envd_fixture *f)
{
    BUF(b);
    int fd = fixture_connect(f);
    int status = fixture_ask(f, fd, HEALTH, sizeof(HEALTH) - 1, &b, 10000);
    close(fd);
    return status;
}

static void test_tied_sandbox_ends_with_its_first_connection(void **state)
{
    (void)state;
    envd_fixture f = {0};
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    fixture_open(&f,
                 &(abx_envd_config){
                     .listen_fd = -1, .first_fd = fds[1], .tied = true, .timeout_ms = ABX_FOREVER});
    assert_int_equal(health(&f), 204);
    assert_false(f.ended);
    BUF(b);
    assert_int_equal(fixture_ask(&f, fds[0], HEALTH, sizeof(HEALTH) - 1, &b, 10000), 204);
    assert_false(f.ended);
    close(fds[0]);
    fixture_turn(&f, -1, NULL, 50);
    assert_true(f.ended);
    fixture_close(&f);
}

static void test_untied_sandbox_outlives_its_first_connection(void **state)
{
    (void)state;
    envd_fixture f = {0};
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    fixture_open(
        &f, &(abx_envd_config){.listen_fd = -1, .first_fd = fds[1], .timeout_ms = ABX_FOREVER});
    close(fds[0]);
    fixture_turn(&f, -1, NULL, 50);
    assert_false(f.ended);
    assert_int_equal(health(&f), 204);
    fixture_close(&f);
}

static void test_time_limit_from_the_start(void **state)
{
    (void)state;
    envd_fixture f = {0};
    fixture_open(&f, &(abx_envd_config){.listen_fd = -1, .first_fd = -1, .timeout_ms = 30});
    for (int i = 0; i < 500 && !f.ended; i++)
        fixture_turn(&f, -1, NULL, 10);
    assert_true(f.ended);
    fixture_close(&f);
}

/* Over the socket that it listens on, as clients outside come. */
static void test_listening_socket(void **state)
{
    (void)state;
    envd_fixture f = {0};
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    (void)snprintf(name.sun_path, sizeof(name.sun_path), "/tmp/abx-envd-test-%d", getpid());
    (void)unlink(name.sun_path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof(name)), 0);
    fixture_open(
        &f, &(abx_envd_config){.listen_fd = listener, .first_fd = -1, .timeout_ms = ABX_FOREVER});
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    BUF(b);
    assert_int_equal(fixture_ask(&f, fd, HEALTH, sizeof(HEALTH) - 1, &b, 10000), 204);
    close(fd);
    fixture_close(&f);
    (void)unlink(name.sun_path);
}

/* A client that dies in the middle of each kind of request takes nothing with it. */
static void test_peers_that_die_in_the_middle(void **state)
{
    (void)state;
    envd_fixture f = {0};
    fixture_open(&f, NULL);
    static const char *const halves[] = {
        "GET /hea",
        "POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nContent-Type: "
        "application/connect+json\r\n"
        "Content-Length: 100\r\n\r\n",
        "POST /files?path=half HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"
        "Content-Length: 100\r\n\r\nhalf",
        "POST /files HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=B\r\n"
        "Transfer-Encoding: chunked\r\n\r\n5\r\n--B\r\n\r\n",
        "POST /process.Process/StreamInput HTTP/1.1\r\nHost: x\r\nContent-Type: "
        "application/connect+json\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
    };
    for (size_t i = 0; i < ABX_COUNT(halves); i++) {
        int fd = fixture_connect(&f);
        assert_int_equal(write(fd, halves[i], strlen(halves[i])), (ssize_t)strlen(halves[i]));
        fixture_turn(&f, -1, NULL, 20);
        close(fd);
        fixture_turn(&f, -1, NULL, 20);
        assert_int_equal(health(&f), 204);
    }
    ABX_AUTO_FREE char *path = abx_path_join(f.home, "half");
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 4);
    fixture_close(&f);
}

/* No descriptor is left: what needs one is refused, what runs goes on, and all is well afterwards. */
static void test_descriptors_run_out(void **state)
{
    (void)state;
    envd_fixture f = {0};
    fixture_open(&f, NULL);
    BUF(first);
    assert_int_equal(fixture_rpc(&f, "/process.Process/Start", true,
                                 "{\"abx\":true,\"process\":{\"cmd\":\"true\"}}", &first),
                     200);
    int ours = fixture_connect(&f);
    struct rlimit old, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    int top = open("/dev/null", O_RDONLY | O_CLOEXEC);
    few.rlim_cur = (rlim_t)top + 3;
    close(top);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    static const char start[] = "POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nContent-Type: "
                                "application/connect+json\r\nContent-Length: 42\r\n\r\n"
                                "\0\0\0\0\x25{\"abx\":true,\"process\":{\"cmd\":\"true\"}}";
    BUF(b);
    assert_int_equal(fixture_ask(&f, ours, start, sizeof(start) - 1, &b, 10000), 200);
    assert_non_null(memmem(b.data, b.len, "error", 5));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    BUF(again);
    assert_int_equal(fixture_ask(&f, ours, start, sizeof(start) - 1, &again, 10000), 200);
    assert_non_null(memmem(again.data, again.len, "\"exited\":true", 13));
    close(ours);
    fixture_close(&f);
}

static void test_close_ends_what_runs(void **state)
{
    (void)state;
    envd_fixture f = {0};
    fixture_open(&f, NULL);
    BUF(b);
    int fd = fixture_connect(&f);
    static const char start[] = "POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nContent-Type: "
                                "application/connect+json\r\nContent-Length: 78\r\n\r\n"
                                "\0\0\0\0\x49{\"abx\":true,\"process\":{\"cmd\":\"sh\",\"args\":["
                                "\"-c\",\"echo $$; sleep 60\"]}}    ";
    assert_int_equal(write(fd, start, sizeof(start) - 1), (ssize_t)sizeof(start) - 1);
    for (int i = 0; i < 500 && !memmem(abx_buf_cstr(&b), b.len, "\"data\"", 6); i++)
        fixture_turn(&f, fd, &b, 10);
    BUF(body);
    BUF(out);
    fixture_body(&b, &body);
    fixture_data(&body, "stdout", &out);
    pid_t pid = (pid_t)strtol(abx_buf_cstr(&out), NULL, 10);
    assert_true(pid > 0);
    fixture_close(&f);
    close(fd);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
}

/* Two of them in one process do not know of each other. */
static void test_two_at_once(void **state)
{
    (void)state;
    envd_fixture a = {0}, b = {0};
    fixture_open(&a, NULL);
    fixture_open(&b, NULL);
    BUF(x);
    BUF(y);
    static const char json[] = "{\"abx\":true,\"process\":{\"cmd\":\"pwd\"},\"stdin\":false}";
    assert_int_equal(fixture_rpc(&a, "/process.Process/Start", true, json, &x), 200);
    assert_int_equal(fixture_rpc(&b, "/process.Process/Start", true, json, &y), 200);
    BUF(p);
    BUF(q);
    fixture_data(&x, "stdout", &p);
    fixture_data(&y, "stdout", &q);
    assert_string_not_equal(abx_buf_cstr(&p), abx_buf_cstr(&q));
    fixture_close(&a);
    fixture_close(&b);
}

/* "--serve PORT": no test; serve the caller's own files and processes on 127.0.0.1, without a token, for clients that
 * are tried by hand. */
static int serve(int port)
{
    uv_loop_t loop;
    abx_envd *e = NULL;
    ABX_AUTO_ERROR err = NULL;
    const abx_envd_config config = {.listen_fd = -1,
                                    .first_fd = -1,
                                    .lock_fd = -1,
                                    .log_fd = -1,
                                    .id = "served",
                                    .timeout_ms = ABX_FOREVER,
                                    .default_user = getenv("USER"),
                                    .token = getenv("ENVD_TOKEN"),
                                    .has_range = geteuid() == 0};
    if (uv_loop_init(&loop) != 0 || abx_envd_open(&loop, &config, NULL, NULL, &e, &err) < 0 ||
        abx_envd_listen_tcp(e, "127.0.0.1", port, &port, &err) < 0) {
        (void)fprintf(stderr, "%s\n", abx_error_text(err));
        return 1;
    }
    (void)printf("listening on %d\n", port);
    (void)fflush(stdout);
    return uv_run(&loop, UV_RUN_DEFAULT);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tied_sandbox_ends_with_its_first_connection),
        cmocka_unit_test(test_untied_sandbox_outlives_its_first_connection),
        cmocka_unit_test(test_time_limit_from_the_start),
        cmocka_unit_test(test_listening_socket),
        cmocka_unit_test(test_peers_that_die_in_the_middle),
        cmocka_unit_test(test_descriptors_run_out),
        cmocka_unit_test(test_close_ends_what_runs),
        cmocka_unit_test(test_two_at_once),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc == 3 && strcmp(argv[1], "--serve") == 0)
        return serve((int)strtol(argv[2], NULL, 10));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
