#include "net/child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdbool.h>

#include "base/mem.h"
#include "net/keeper.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

enum { STACK_SIZE = 64 * 1024, FIRST_FREE_FD = 16 };

struct abx_child {
    uv_poll_t poll; /* of the pidfd */
    pid_t pid;
    int pidfd;
    bool ended;
    void (*on_exit)(abx_child *c, int status, void *data);
    void *data;
};

/* What the new process needs; it runs in our memory until it has exec'ed, and leaves its errors here. */
typedef struct plan {
    const abx_child_options *options;
    char **candidates; /* paths to try, in the order of PATH */
    pid_t parent;
    int failed_errno;
    const char *failed_step;
} plan;

/* --- in the new process: system calls only, no memory, no locks --------------------------------- */

static int give_up(plan *p, const char *step)
{
    p->failed_errno = errno;
    p->failed_step = step;
    _exit(127);
}

static void default_signals(void)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int sig = 1; sig < NSIG; sig++)
        sigaction(sig, &plain, NULL); /* KILL, STOP and libc's own refuse; so be it */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Sources may be any descriptors, also 0 to 3 in another order: first out of the way, then into place. */
static void place_descriptors(plan *p)
{
    const abx_child_options *o = p->options;
    bool script = o->apart && o->apart->program_fd >= 0 && o->apart->is_script;
    int fd3 = script ? o->apart->program_fd : o->fd3;
    int from[4], count = fd3 >= 0 ? 4 : 3;

    for (int i = 0; i < count; i++) {
        int fd = i < 3 ? o->stdio[i] : fd3;
        from[i] = fd < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : fd;
        if (from[i] >= 0)
            from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        if (from[i] < 0 && errno == EINVAL) /* the limit is below that number */
            errno = EMFILE;
        if (from[i] < 0)
            give_up(p, "its descriptors");
    }
    for (int i = 0; i < count; i++)
        if (dup2(from[i], i) < 0)
            give_up(p, "its descriptors");
    /* Everything else goes at exec, also what a host of this library has left open. */
    if (syscall(SYS_close_range, count, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */) < 0)
        for (int fd = count; fd < 1024; fd++)
            (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static void keep_apart(plan *p, const abx_child_apart *apart)
{
    struct rlimit none = {0, 0}, mark = {apart->mark, apart->mark};

    if (setsid() < 0)
        give_up(p, "its session");
    umask(022);
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)setrlimit(RLIMIT_LOCKS, &mark);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != p->parent)
        give_up(p, "its end with its parent");
}

/* Only returns on failure. */
static int run_descriptor(plan *p, int program)
{
    const abx_child_options *o = p->options;

    syscall(SYS_execveat, program, "", o->argv, o->envp, AT_EMPTY_PATH);
    return give_up(p, NULL);
}

static int run_child(void *data)
{
    plan *p = data;
    const abx_child_options *o = p->options;
    bool denied = false;
    int program = -1;

    if (o->apart)
        keep_apart(p, o->apart);
    else
        setpgid(0, 0);
    if (o->apart && o->apart->program_fd >= 0) {
        program = fcntl(o->apart->program_fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        if (program < 0)
            return give_up(p, "its program");
    }
    place_descriptors(p);
    if (o->cwd && chdir(o->cwd) < 0)
        give_up(p, "its working directory");
    default_signals();
    if (program >= 0) /* a script's descriptor must outlive the exec */
        return run_descriptor(p, o->apart->is_script ? 3 : program);
    for (char **path = p->candidates; *path; path++) {
        execve(*path, o->argv, o->envp);
        if (errno == EACCES)
            denied = true;
        else if (errno != ENOENT && errno != ENOTDIR)
            return give_up(p, NULL);
    }
    errno = denied ? EACCES : ENOENT;
    return give_up(p, NULL);
}

/* --- in our process ----------------------------------------------------------------------------- */

static const char *path_of(char *const *envp)
{
    for (; envp && *envp; envp++)
        if (strncmp(*envp, "PATH=", 5) == 0)
            return *envp + 5;
    return "/usr/local/bin:/usr/bin:/bin";
}

static char **make_candidates(const abx_child_options *o)
{
    const char *at = path_of(o->envp);
    size_t count = 0, most = 2;

    for (const char *p = at; *p; p++)
        most += *p == ':';
    char **list = abx_alloc_array(most + 1, sizeof *list);
    if (strchr(o->path, '/')) {
        list[count] = abx_strdup(o->path);
        return list;
    }
    for (;;) {
        size_t n = strcspn(at, ":");
        if (n) /* an empty entry would be the working directory: nobody means that */
            list[count++] = abx_format("%.*s/%s", (int)n, at, o->path);
        if (!at[n])
            return list;
        at += n + 1;
    }
}

static void free_candidates(char **list)
{
    for (char **p = list; *p; p++)
        free(*p);
    free(list);
}

/* The child of a clone that shares our memory runs first, so its stack and plan outlive it. */
static pid_t spawn(plan *p, int *pidfd)
{
    sigset_t all, before;
    void *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

    if (stack == MAP_FAILED)
        return -1;
    /* No handler of ours may run in the child while it shares our memory. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pid_t pid = clone(run_child, (char *)stack + STACK_SIZE,
                      CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, p, pidfd);
    int saved = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    munmap(stack, STACK_SIZE);
    errno = saved;
    return pid;
}

/* Returns 1 and *status when the child has ended, else 0. */
static int reap(int pidfd, int flags, int *status)
{
    siginfo_t info = {0};
    int rc;

    do
        rc = waitid((idtype_t)P_PIDFD, (id_t)pidfd, &info, WEXITED | flags);
    while (rc < 0 && errno == EINTR);
    if (rc < 0 && errno == ECHILD) {
        /* Somebody else in this process reaped it (or ignores SIGCHLD): how it ended is lost. */
        *status = 255 << 8;
        return 1;
    }
    if (rc < 0 || info.si_pid == 0)
        return 0;
    *status = info.si_code == CLD_EXITED ? info.si_status << 8
                                         : info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
    return 1;
}

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

static void on_pidfd(uv_poll_t *poll, int status, int events)
{
    abx_child *c = poll->data;
    int how = 0;

    (void)status;
    (void)events;
    if (!reap(c->pidfd, WNOHANG, &how))
        return;
    c->ended = true;
    uv_poll_stop(&c->poll);
    abx_close_fd(&c->pidfd);
    if (c->on_exit)
        c->on_exit(c, how, c->data);
    uv_close((uv_handle_t *)&c->poll, on_closed);
}

/* What the thread for children is asked for, where there is one. */
typedef struct wish {
    plan *plan;
    pid_t pid;
    int pidfd, why;
} wish;

static void grant(void *data)
{
    wish *w = data;
    w->pid = spawn(w->plan, &w->pidfd);
    w->why = errno;
}

static int start_failed(const plan *p, abx_error **err)
{
    const char *name = p->options->path;

    if (p->failed_step)
        return abx_fail_errno(err, ABX_ERR_START_FAILED, p->failed_errno,
                              "cannot start '%s': cannot set up %s", name, p->failed_step);
    return abx_fail_errno(err, ABX_ERR_START_FAILED, p->failed_errno, "cannot start '%s'", name);
}

int abx_child_start(uv_loop_t *loop, const abx_child_options *options, abx_child **out,
                    abx_error **err)
{
    plan p = {.options = options, .candidates = make_candidates(options), .parent = getpid()};
    ABX_AUTO_FD pidfd = -1;
    int status;

    wish w = {.plan = &p, .pid = -1, .pidfd = -1};
    if (abx_keeper_run(options->keeper, grant, &w) < 0)
        w.why = errno;
    pid_t pid = w.pid;
    pidfd = w.pidfd;
    free_candidates(p.candidates);
    if (pid < 0)
        return abx_fail_errno(err, ABX_ERR_START_FAILED, w.why, "cannot start '%s'", options->path);
    if (p.failed_errno) {
        reap(pidfd, 0, &status);
        return start_failed(&p, err);
    }
    abx_child *c = ABX_NEW(abx_child);
    int rc = uv_poll_init(loop, &c->poll, pidfd);
    if (rc < 0) {
        kill(-pid, SIGKILL);
        reap(pidfd, 0, &status);
        free(c);
        return abx_fail_errno(err, ABX_ERR_START_FAILED, -rc, "cannot watch '%s'", options->path);
    }
    c->poll.data = c;
    c->pid = pid;
    c->pidfd = abx_take_fd(&pidfd);
    c->on_exit = options->on_exit;
    c->data = options->data;
    uv_poll_start(&c->poll, UV_READABLE, on_pidfd);
    *out = c;
    return 0;
}

pid_t abx_child_pid(const abx_child *c)
{
    return c->pid;
}

void abx_child_signal(abx_child *c, int sig)
{
    /* Until it is reaped nobody else can have this number. */
    if (!c->ended)
        kill(-c->pid, sig);
}

void abx_child_release(abx_child *c)
{
    c->on_exit = NULL;
    uv_unref((uv_handle_t *)&c->poll);
}
