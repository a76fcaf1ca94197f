/* What a library leaves alone: signals, umask, descriptors, the process that a fork makes. */
#include "rig.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#include "plugin.h"

static void child_is_refused(rig *r, abx_call *running)
{
    abx_error *err = NULL;
    abx_event e = {.size = sizeof(e)};
    int ok = !abx_call_start(r->local, "sandbox.info", NULL, 0, NULL, NULL, &err);
    ok = ok && err && strcmp(abx_error_code(err), "E1005") == 0;
    abx_error_free(err);
    err = NULL;
    ok = ok && !abx_provider_open(r->ctx, NULL, &err) && err;
    ok = ok && abx_context_run(r->ctx, 0) == -1 && abx_call_next(running, &e, 0) == -1;
    ok = ok && abx_call_send(running, "x", 1, 0) == -1;
    abx_call_stop(running);
    abx_call_free(running);
    abx_provider_close(r->local);
    abx_context_free(r->ctx);
    /* One of its own works. */
    char options[160];
    snprintf(options, sizeof(options), "{\"home\":\"%s\"}", r->home);
    abx_context *own = abx_context_new(options, NULL);
    abx_provider *p = own ? abx_provider_open(own, "{\"provider\":\"local\"}", NULL) : NULL;
    char *list = p ? abx_provider_call(p, "sandbox.list", NULL, 0, NULL) : NULL;
    ok = ok && list && strstr(list, r->sandbox);
    abx_free(list);
    abx_context_free(own);
    _exit(ok ? 0 : 1);
}

static void a_fork_is_refused_and_disturbs_nobody(void **state)
{
    rig *r = *state;
    int status;
    abx_call *c = rig_shell(r, "echo first; sleep 0.3; echo last", "", NULL, NULL);
    abx_event e = {.size = sizeof(e)};
    assert_int_equal(abx_call_next(c, &e, RIG_LONG), 1);
    assert_true(abx_context_fd(r->ctx, NULL) >= 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child_is_refused(r, c);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    char out[64];
    rig_finish(c, out, sizeof(out), NULL);
    assert_string_equal(out, "first\nlast\n");
    abx_call_free(c);
}

/* With the default disposition a SIGPIPE that came through would end this program. */
static void a_deaf_plugin_kills_nobody(void **state)
{
    rig *r = *state;
    char folder[128], connection[256];
    abx_error *err = NULL;
    snprintf(folder, sizeof(folder), "%s/deaf", r->home);
    plugin_write(folder, plugin_deaf_program);
    snprintf(connection, sizeof(connection), "{\"provider\":\"%s\"}", folder);
    abx_provider *p = rig_open(r->ctx, connection);
    struct sigaction now;
    signal(SIGPIPE, SIG_DFL);
    for (int i = 0; i < 3; i++) {
        assert_null(abx_provider_call(p, "sandbox.info", "{\"sandboxId\":\"aaaaaaaaaaaaaaaa\"}",
                                      2000, &err));
        abx_error_free(err);
        err = NULL;
    }
    abx_provider_close(p);
    assert_int_equal(sigaction(SIGPIPE, NULL, &now), 0);
    assert_true(now.sa_handler == SIG_DFL);
}

static void nothing_of_the_process_is_changed(void **state)
{
    rig *r = *state;
    sigset_t before, after;
    struct sigaction was[NSIG], is;
    char cwd_before[512], cwd_after[512];
    mode_t mask = umask(0137);
    sigprocmask(SIG_SETMASK, NULL, &before);
    for (int sig = 1; sig < NSIG; sig++)
        (void)sigaction(sig, NULL, &was[sig]);
    assert_non_null(getcwd(cwd_before, sizeof(cwd_before)));
    char id[64];
    rig_sandbox(r->local, id);
    rig_kill(r->local, id);
    assert_int_equal(umask(mask), 0137);
    sigprocmask(SIG_SETMASK, NULL, &after);
    for (int sig = 1; sig < NSIG; sig++) {
        assert_int_equal(sigismember(&before, sig), sigismember(&after, sig));
        if (sigaction(sig, NULL, &is) == 0)
            assert_true(is.sa_handler == was[sig].sa_handler);
    }
    assert_non_null(getcwd(cwd_after, sizeof(cwd_after)));
    assert_string_equal(cwd_before, cwd_after);
}

static int open_descriptors(int *not_cloexec)
{
    int count = 0;
    DIR *d = opendir("/proc/self/fd");
    *not_cloexec = 0;
    for (struct dirent *e; (e = readdir(d));) {
        int fd = atoi(e->d_name);
        if (e->d_name[0] == '.' || fd == dirfd(d))
            continue;
        count++;
        *not_cloexec += fd > 2 && !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    }
    closedir(d);
    return count;
}

static void descriptors_close_on_exec_and_come_back(void **state)
{
    rig *r = *state;
    int before_loose, loose, after_loose, before = open_descriptors(&before_loose);
    abx_context *ctx = rig_context(r->home);
    abx_provider *p = rig_open(ctx, "{\"provider\":\"local\"}");
    assert_true(abx_context_fd(ctx, NULL) >= 0);
    char id[64];
    rig_sandbox(p, id);
    assert_true(open_descriptors(&loose) > before);
    assert_int_equal(loose, before_loose);
    rig_kill(p, id);
    abx_context_free(ctx);
    assert_int_equal(open_descriptors(&after_loose), before);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int sig)
{
    (void)sig;
    alarms++;
}

/* A wait ends when a signal was handled, so that the caller can look at what it means. */
static void a_signal_ends_a_wait(void **state)
{
    struct sigaction a = {.sa_handler = on_alarm}, before;
    abx_call *c = rig_shell(*state, "sleep 1000", "", NULL, NULL);
    abx_event e = {.size = sizeof(e)};
    assert_int_equal(abx_call_next(c, &e, RIG_LONG), 1);
    sigaction(SIGALRM, &a, &before);
    const struct timespec soon = {0, 200000000};
    timer_t timer;
    struct sigevent how = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &how, &timer), 0);
    /* Again and again: one that comes before the wait has begun ends nothing. */
    struct itimerspec when = {.it_value = soon, .it_interval = soon};
    assert_int_equal(timer_settime(timer, 0, &when, NULL), 0);
    assert_int_equal(abx_call_next(c, &e, -1), 0);
    timer_delete(timer);
    sigaction(SIGALRM, &before, NULL);
    assert_true(alarms > 0);
    abx_call_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fork_is_refused_and_disturbs_nobody),
        cmocka_unit_test(a_deaf_plugin_kills_nobody),
        cmocka_unit_test(nothing_of_the_process_is_changed),
        cmocka_unit_test(descriptors_close_on_exec_and_come_back),
        cmocka_unit_test(a_signal_ends_a_wait),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
