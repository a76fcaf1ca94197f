/* pid 1: init and envd in one. No handler for any signal is installed: a signal without one does not reach pid 1, so
 * nobody inside can end it. SIGCHLD is blocked and read from a descriptor. */
#include "local/envd/inner.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* So long after the start or the last end of a process memory goes back; and once more when all records have expired. */
#define IDLE_MS    1000u
#define EXPIRED_MS 35000u

typedef struct init {
    abx_envd *envd;
    uv_poll_t child;
    uv_timer_t idle;
    bool trimmed; /* once since the last end of a process */
} init;

static void on_idle(uv_timer_t *timer)
{
    init *in = timer->data;
    abx__give_memory_back();
    if (!in->trimmed)
        (void)uv_timer_start(timer, on_idle, EXPIRED_MS, 0);
    in->trimmed = true;
}

/* The one place that waits. Who is no process of ours is an orphan that came to us: it is only buried. */
static void reap(abx_envd *e)
{
    for (;;) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0)
            break;
        abx__proc *p = abx__proc_by_pid(e, pid);
        if (p)
            abx__proc_reaped(p, status);
        else
            abx__code_reaped(e, pid, status);
    }
    abx__pause_check(e);
}

/* SIGCHLD may be forged or merged: it is a hint only. */
static void on_child(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct signalfd_siginfo info[8];
    int fd = 0;
    if (uv_fileno((uv_handle_t *)poll, &fd) == 0)
        while (read(fd, info, sizeof(info)) > 0)
            ;
    init *in = poll->data;
    reap(in->envd);
    in->trimmed = false;
    (void)uv_timer_start(&in->idle, on_idle, IDLE_MS, 0);
}

/* The kernel ends all other processes of the namespace with us. */
static void on_end(void *data)
{
    (void)data;
    _exit(0);
}

_Noreturn static void refuse(abx_error *err, int log_fd)
{
    const char *text = abx_error_text(err);
    if (log_fd >= 0)
        (void)!write(log_fd, text, __builtin_strlen(text));
    _exit(70);
}

_Noreturn void abx_envd_main(const abx_envd_config *config)
{
    uv_loop_t loop;
    init in = {0};
    sigset_t set;
    abx_error *err = NULL;
    abx_envd_config own = *config;
    own.ready = NULL;
    umask(022);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    ABX_CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    (void)signal(SIGPIPE, SIG_IGN);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0 || uv_loop_init(&loop) != 0 || uv_poll_init(&loop, &in.child, fd) != 0 ||
        uv_timer_init(&loop, &in.idle) != 0)
        refuse(NULL, config->log_fd);
    if (abx_envd_open(&loop, &own, on_end, NULL, &in.envd, &err) < 0)
        refuse(err, config->log_fd);
    in.envd->is_init = true;
    in.child.data = in.idle.data = &in;
    ABX_CHECK(uv_poll_start(&in.child, UV_READABLE, on_child) == 0);
    (void)malloc_trim(0);
    (void)uv_timer_start(&in.idle, on_idle, IDLE_MS, 0);
    if (config->ready)
        config->ready(config->ready_data);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    _exit(0);
}
