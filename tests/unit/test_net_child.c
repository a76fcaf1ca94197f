/* Children: what they inherit, how they end, how they fail to start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/child.h"

typedef struct run {
    uv_loop_t loop;
    abx_child *child;
    int ends, status;
    char out[65536];
} run;

static void on_exit_noted(abx_child *c, int status, void *data)
{
    run *r = data;

    assert_ptr_equal(c, r->child);
    r->ends++;
    r->status = status;
}

static char *const env[] = {(char *)(uintptr_t) "PATH=/nowhere:/usr/bin:/bin",
                            (char *)(uintptr_t) "A=b c", NULL};

/* Run a shell script to its end; what it writes to 1 lands in r->out. */
static void script(run *r, const char *text, int fd3)
{
    char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", (char *)(uintptr_t)text,
                    NULL};
    ABX_AUTO_ERROR err = NULL;
    int out[2];

    memset(r, 0, sizeof *r);
    assert_int_equal(uv_loop_init(&r->loop), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    abx_child_options o = {.path = "sh",
                           .argv = argv,
                           .envp = env,
                           .cwd = "/",
                           .stdio = {-1, out[1], 2},
                           .fd3 = fd3,
                           .on_exit = on_exit_noted,
                           .data = r};
    assert_int_equal(abx_child_start(&r->loop, &o, &r->child, &err), 0);
    assert_int_equal(r->ends, 0);
    close(out[1]);
    assert_int_equal(uv_run(&r->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(r->ends, 1);
    ssize_t n = read(out[0], r->out, sizeof r->out - 1);
    r->out[n > 0 ? n : 0] = 0;
    close(out[0]);
    assert_int_equal(uv_loop_close(&r->loop), 0);
}

static void test_ends(void **state)
{
    (void)state;
    run r;

    script(&r, "exit 0", -1);
    assert_true(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 0);
    script(&r, "exit 77", -1);
    assert_true(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 77);
    script(&r, "kill -TERM $$", -1);
    assert_true(WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGTERM);
}

/* A host that ignores SIGCHLD has the kernel reap: the end is still told, only how is lost. */
static void test_reaped_by_others(void **state)
{
    (void)state;
    run r;

    signal(SIGCHLD, SIG_IGN);
    script(&r, "exit 3", -1);
    signal(SIGCHLD, SIG_DFL);
    assert_true(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 255);
}

static void test_inherits(void **state)
{
    (void)state;
    run r;
    int leaked = dup2(2, 20); /* not close-on-exec, as of a careless host */

    signal(SIGPIPE, SIG_IGN);
    sigset_t mask, before;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    sigprocmask(SIG_BLOCK, &mask, &before);
    script(&r,
           "pwd; echo \"$A\"; for n in 0 1 2 3 4 5 6 7 8 9 20; do [ -e /proc/$$/fd/$n ] && echo -n "
           "\"$n \"; done; echo;"
           "grep -E 'SigBlk|SigIgn' /proc/self/status | cut -f2; cat",
           -1);
    sigprocmask(SIG_SETMASK, &before, NULL);
    signal(SIGPIPE, SIG_DFL);
    assert_int_equal(strncmp(r.out, "/\nb c\n0 1 2 ", 12), 0);
    assert_null(strstr(r.out, " 3 "));
    assert_non_null(strstr(r.out, "0000000000000000\n0000000000000000\n"));
    close(leaked);
}

static void test_own_group(void **state)
{
    (void)state;
    run r;
    int mine = 0, pid = 0;

    script(&r, "cut -d' ' -f5 /proc/$$/stat; echo $$", -1);
    assert_int_equal(sscanf(r.out, "%d\n%d\n", &mine, &pid), 2);
    assert_int_equal(mine, pid);
}

static void test_fd3(void **state)
{
    (void)state;
    run r;
    int pair[2];

    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    assert_int_equal(write(pair[1], "hello", 5), 5);
    close(pair[1]);
    script(&r,
           "cat <&3; for n in 0 1 2 3 4 5 6 7 8 9 20; do [ -e /proc/$$/fd/$n ] && echo -n \"$n \"; "
           "done",
           pair[0]);
    assert_int_equal(strncmp(r.out, "hello0 1 2 3 ", 13), 0);
    close(pair[0]);
}

static void fails(const char *path, const char *cwd, const char *text)
{
    char *argv[] = {(char *)(uintptr_t) "x", NULL};
    ABX_AUTO_ERROR err = NULL;
    abx_child *c = NULL;
    uv_loop_t loop;

    assert_int_equal(uv_loop_init(&loop), 0);
    abx_child_options o = {
        .path = path, .argv = argv, .envp = env, .cwd = cwd, .stdio = {-1, -1, -1}, .fd3 = -1};
    assert_int_equal(abx_child_start(&loop, &o, &c, &err), -1);
    assert_int_equal(err->id, ABX_ERR_START_FAILED);
    assert_string_equal(err->message, text);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void test_failures(void **state)
{
    (void)state;
    fails("no-such-program", NULL, "cannot start 'no-such-program': No such file or directory");
    fails("/etc/passwd", NULL, "cannot start '/etc/passwd': Permission denied");
    fails("sh", "/no/such/dir",
          "cannot start 'sh': cannot set up its working directory: No such file or directory");
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left to reap */
}

static void kill_it(uv_timer_t *t)
{
    abx_child_signal(t->data, SIGKILL);
    uv_close((uv_handle_t *)t, NULL);
}

static void test_signal_reaches_the_group(void **state)
{
    (void)state;
    run r = {0};
    char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
                    (char *)(uintptr_t) "sleep 600 & sleep 600; true", NULL};
    ABX_AUTO_ERROR err = NULL;
    uv_timer_t timer;
    int out[2];
    char byte;

    assert_int_equal(uv_loop_init(&r.loop), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    abx_child_options o = {.path = "/bin/sh",
                           .argv = argv,
                           .envp = env,
                           .stdio = {-1, out[1], -1},
                           .fd3 = -1,
                           .on_exit = on_exit_noted,
                           .data = &r};
    assert_int_equal(abx_child_start(&r.loop, &o, &r.child, &err), 0);
    close(out[1]);
    uv_timer_init(&r.loop, &timer);
    timer.data = r.child;
    uv_timer_start(&timer, kill_it, 50, 0);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    assert_true(WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGKILL);
    assert_int_equal(read(out[0], &byte, 1), 0); /* nobody holds it any more */
    close(out[0]);
    assert_int_equal(uv_loop_close(&r.loop), 0);
}

static void do_nothing(uv_timer_t *t)
{
    (void)t;
}

static void count_one(uv_handle_t *h, void *data)
{
    (void)h;
    ++*(int *)data;
}

static int handles(uv_loop_t *loop)
{
    int n = 0;

    uv_walk(loop, count_one, &n);
    return n;
}

static void test_release(void **state)
{
    (void)state;
    run r = {0};
    char *argv[] = {(char *)(uintptr_t) "sleep", (char *)(uintptr_t) "0.05", NULL};
    ABX_AUTO_ERROR err = NULL;

    assert_int_equal(uv_loop_init(&r.loop), 0);
    abx_child_options o = {.path = "sleep",
                           .argv = argv,
                           .envp = env,
                           .stdio = {-1, -1, -1},
                           .fd3 = -1,
                           .on_exit = on_exit_noted,
                           .data = &r};
    assert_int_equal(abx_child_start(&r.loop, &o, &r.child, &err), 0);
    abx_child_release(r.child);
    assert_int_equal(uv_run(&r.loop, UV_RUN_DEFAULT), 0); /* does not wait for it */
    /* as long as other things keep the loop going, it is reaped on the way */
    uv_timer_t alive;
    uv_timer_init(&r.loop, &alive);
    uv_timer_start(&alive, do_nothing, 5, 5);
    while (handles(&r.loop) > 1)
        uv_run(&r.loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&alive, NULL);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&r.loop), 0);
    assert_int_equal(r.ends, 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_reaped_by_others),
        cmocka_unit_test(test_inherits),
        cmocka_unit_test(test_own_group),
        cmocka_unit_test(test_fd3),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_signal_reaches_the_group),
        cmocka_unit_test(test_release),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
