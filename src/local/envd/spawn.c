/* From pid 1 to a command: vfork, then only calls that are safe with the memory shared, then exec. The result
 * comes over a pipe that exec closes. */
#include "local/envd/inner.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void abx__strings_free(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

char **abx__spawn_paths(const char *cmd, char *const *envp)
{
    const char *path = "/usr/local/bin:/usr/bin:/bin";
    if (strchr(cmd, '/') || !*cmd) {
        char **one = abx_alloc_array(2, sizeof(*one));
        one[0] = abx_strdup(cmd);
        return one;
    }
    for (size_t i = 0; envp[i]; i++)
        if (abx_has_prefix(envp[i], "PATH="))
            path = envp[i] + 5;
    size_t count = 1;
    for (const char *p = path; *p; p++)
        count += *p == ':';
    char **list = abx_alloc_array(count + 1, sizeof(*list));
    for (size_t i = 0; i < count; i++) {
        int n = (int)strcspn(path, ":");
        list[i] = n == 0 ? abx_format("./%s", cmd) : abx_format("%.*s/%s", n, path, cmd);
        path += n + (path[n] == ':');
    }
    return list;
}

/* --- in the child: no malloc, no locks, no stdio --------------------------------------------------------- */
typedef struct verdict {
    int stage, error;
} verdict;

_Noreturn static void give_up(int pipe_fd, int stage, int error)
{
    const verdict v = {stage, error};
    (void)!write(pipe_fd, &v, sizeof(v));
    _exit(127);
}

/* setrlimit of the C library is a plain system call; the mark is what hunt.c looks for. */
static void set_limits(const abx__spawn *s)
{
    struct rlimit mark = {s->mark, s->mark};
    (void)setrlimit(RLIMIT_LOCKS, &mark);
    struct rlimit files;
    if (s->nofile_soft > 0 && getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = s->nofile_soft < files.rlim_max ? s->nofile_soft : files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

static void drop_caps(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct caps[2];
    memset(caps, 0, sizeof(caps));
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    (void)syscall(SYS_capset, &head, caps);
}

/* What pid 1 may use only at need must be in force for the changes of ids. */
static void raise_caps(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct caps[2];
    if (syscall(SYS_capget, &head, caps) < 0)
        return;
    caps[0].effective = caps[0].permitted;
    caps[1].effective = caps[1].permitted;
    (void)syscall(SYS_capset, &head, caps);
}

/* The system calls themselves: the C library's forms would take locks that pid 1 may hold. */
static int set_ids(const abx__spawn *s)
{
    if (s->userns_fd >= 0) {
        if (setns(s->userns_fd, CLONE_NEWUSER) < 0)
            return -1;
        for (unsigned long i = 0; i < 64 && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) == 0; i++)
            ;
    } else if (s->set_ids) {
        raise_caps();
        if (syscall(SYS_setgroups, s->user->group_count, s->user->groups) < 0 ||
            syscall(SYS_setresgid, s->user->gid, s->user->gid, s->user->gid) < 0 ||
            syscall(SYS_setresuid, s->user->uid, s->user->uid, s->user->uid) < 0)
            return -1;
    }
    if (!s->keep_caps)
        drop_caps();
    return 0;
}

/* exec makes default what has a handler; what is ignored stays so. pid 1 itself ignores SIGPIPE alone. */
static void reset_signals(bool pipe_only)
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = SIG_DFL;
    for (int i = 1; i < NSIG && !pipe_only; i++)
        (void)sigaction(i, &action, NULL);
    (void)sigaction(SIGPIPE, &action, NULL);
}

/* "'CMD': no such file" and the shell's exit code, as a command that cannot be run has it. */
_Noreturn static void tell_by_exit(const abx__spawn *s, int error)
{
    const char *text = strerrordesc_np(error);
    (void)!write(2, "'", 1);
    (void)!write(2, s->argv[0], strlen(s->argv[0]));
    (void)!write(2, "': ", 3);
    if (text)
        (void)!write(2, text, strlen(text));
    (void)!write(2, "\n", 1);
    _exit(error == ENOENT || error == ENOTDIR ? 127 : 126);
}

static int try_exec(const abx__spawn *s)
{
    int result = ENOENT;
    for (size_t i = 0; s->paths[i]; i++) {
        (void)execve(s->paths[i], s->argv, s->envp);
        int error = errno;
        if (error == ENOEXEC && s->sh_argv) {
            s->sh_argv[1] = s->paths[i];
            (void)execve("/bin/sh", s->sh_argv, s->envp);
            error = errno;
        }
        if (error == EACCES)
            result = EACCES;
        else if (error != ENOENT && error != ENOTDIR)
            return error;
        else if (result == ENOENT && !s->paths[1])
            result = error;
    }
    return result;
}

_Noreturn static void child(const abx__spawn *s, int pipe_fd)
{
    reset_signals(s->pipe_only);
    if (setsid() < 0)
        give_up(pipe_fd, ABX__STAGE_SESSION, errno);
    for (int i = 0; i < 3; i++)
        if (dup2(s->fds[i], i) < 0)
            give_up(pipe_fd, ABX__STAGE_SESSION, errno);
    if (s->tty && ioctl(0, TIOCSCTTY, 0) < 0)
        give_up(pipe_fd, ABX__STAGE_SESSION, errno);
    umask(022);
    if (s->commands_fd >= 0)
        (void)!write(s->commands_fd, "0", 1);
    if (set_ids(s) < 0)
        give_up(pipe_fd, ABX__STAGE_IDS, errno);
    set_limits(s);
    if (chdir(s->cwd) < 0)
        give_up(pipe_fd, ABX__STAGE_CWD, errno);
    int error = s->lock ? s->lock(s->lock_data) : 0;
    if (error != 0)
        give_up(pipe_fd, ABX__STAGE_FILTER, error);
    unsigned first = 3;
    if (s->control > 0) { /* what is at 3 now must stay until exec: it may be the pipe */
        pipe_fd = fcntl(pipe_fd, F_DUPFD_CLOEXEC, 4);
        if (pipe_fd < 0 || dup2(s->control, 3) < 0)
            give_up(pipe_fd, ABX__STAGE_SESSION, errno);
        first = 4;
        (void)fcntl(3, F_SETFD, 0);
    }
    (void)syscall(SYS_close_range, first, ~0U, CLOSE_RANGE_CLOEXEC);
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    error = try_exec(s);
    if (s->told_by_exit) {
        (void)close(pipe_fd);
        tell_by_exit(s, error);
    }
    give_up(pipe_fd, ABX__STAGE_EXEC, error);
}

/* --- in pid 1 ------------------------------------------------------------------------------------------- */
static __attribute__((noinline)) pid_t fork_child(const abx__spawn *s, int pipe_fd)
{
    /* a fork would copy page tables at each command; child makes system calls only */
    pid_t pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */
    if (pid == 0)
        child(s, pipe_fd); /* NOLINT(clang-analyzer-unix.Vfork) */
    return pid;
}

pid_t abx__spawn_run(abx__spawn *s)
{
    int fds[2];
    s->stage = ABX__STAGE_FORK;
    if (pipe2(fds, O_CLOEXEC) < 0) {
        s->error = errno;
        return -1;
    }
    sigset_t all, old;
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &old);
    int dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    pid_t pid = fork_child(s, fds[1]);
    int error = errno;
    /* a change of ids in the child may have reset it for the memory we share */
    if (dumpable == 0)
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    close(fds[1]);
    verdict v = {ABX__STAGE_FORK, error};
    ssize_t got = pid > 0 ? abx_read_full(fds[0], &v, sizeof(v)) : (ssize_t)sizeof(v);
    close(fds[0]);
    if (got <= 0)
        return pid;
    s->stage = v.stage;
    s->error = v.error;
    if (pid > 0) /* it has ended, or is about to */
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    return -1;
}
