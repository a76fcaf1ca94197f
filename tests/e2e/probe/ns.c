/* New namespaces, and others' ones. */
#include <fcntl.h>
#include <linux/nsfs.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

/* The name of the attack is "unshare-NAME" and so on. */
static unsigned long flag_of(const char *attack)
{
    static const struct {
        const char *name;
        unsigned long flag;
    } flags[] = {{"user", CLONE_NEWUSER}, {"mount", CLONE_NEWNS},      {"pid", CLONE_NEWPID},
                 {"net", CLONE_NEWNET},   {"ipc", CLONE_NEWIPC},       {"uts", CLONE_NEWUTS},
                 {"time", 0x80},          {"cgroup", CLONE_NEWCGROUP}, {"mnt", CLONE_NEWNS}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(strrchr(attack, '-') + 1, flags[i].name) == 0)
            return flags[i].flag;
    return 0;
}

static long try_unshare(char **args)
{
    return syscall(SYS_unshare, flag_of(args[-1]));
}

static long end_of(long pid)
{
    int status;
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        (void)waitpid((pid_t)pid, &status, __WALL);
    return pid;
}

static long try_clone(char **args)
{
    return end_of(syscall(SYS_clone, flag_of(args[-1]) | SIGCHLD, 0, 0, 0, 0));
}

static long try_clone3(char **args)
{
    struct clone_args how = {.flags = flag_of(args[-1]), .exit_signal = SIGCHLD};
    return end_of(syscall(SYS_clone3, &how, sizeof(how)));
}

static long try_setns_pid1(char **args)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/1/ns/%s", strrchr(args[-1], '-') + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -1 : setns(fd, (int)flag_of(args[-1]));
}

static long try_setns_pidfd(char **args)
{
    int fd = (int)syscall(SYS_pidfd_open, 1, 0);
    return fd < 0 ? -1 : setns(fd, CLONE_NEWUTS | CLONE_NEWNET);
}

/* From a namespace to who owns it, and in there. */
static long try_owner(char **args)
{
    int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int user = own < 0 ? -1 : ioctl(own, NS_GET_USERNS);
    return user < 0 ? -1 : setns(own, CLONE_NEWNET);
}

#ifdef __x86_64__
static void tracee(void)
{
    (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    (void)raise(SIGSTOP);
    long rc = syscall(SYS_getppid);
    _exit(rc == 0 ? 0 : 1); /* 0: the tracer's call was made, and worked */
}

/* A tracer changes a harmless call, after the filter has (if it could be fooled) looked at it. */
static long try_ptrace_changed(char **args)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        tracee();
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return -1;
    (void)ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    for (int stops = 0;
         ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0 && waitpid(pid, &status, 0) > 0;) {
        struct user_regs_struct regs;
        if (WIFEXITED(status)) {
            errno = EPERM;
            return WEXITSTATUS(status) == 0 ? 0 : -1;
        }
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80))
            continue;
        if (stops++ % 2 != 0 || ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0 ||
            regs.orig_rax != SYS_getppid)
            continue;
        regs.orig_rax = SYS_unshare;
        regs.rdi = CLONE_NEWUSER;
        if (ptrace(PTRACE_SETREGS, pid, NULL, &regs) < 0)
            return -1;
    }
    errno = ESRCH;
    return -1;
}
#endif

const probe probes_ns[] = {
    {"unshare-user", try_unshare},
    {"unshare-mount", try_unshare},
    {"unshare-pid", try_unshare},
    {"unshare-net", try_unshare},
    {"unshare-ipc", try_unshare},
    {"unshare-uts", try_unshare},
    {"unshare-cgroup", try_unshare},
    {"unshare-time", try_unshare},
    {"clone-user", try_clone},
    {"clone-mount", try_clone},
    {"clone3-user", try_clone3},
    {"setns-pid1-mnt", try_setns_pid1},
    {"setns-pid1-net", try_setns_pid1},
    {"setns-pid1-pid", try_setns_pid1},
    {"setns-pidfd", try_setns_pidfd},
    {"ns-owner", try_owner},
#ifdef __x86_64__
    {"ptrace-changed-call", try_ptrace_changed},
#endif
    {NULL, NULL},
};
