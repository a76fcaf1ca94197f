/* The birth of pid 1. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local/create.h"

#define NEWCGROUP 0x02000000ULL

typedef struct namespace_row {
    uint64_t flag;
    abx_layer layer;
} namespace_row;

static const namespace_row namespaces[] = {
    {CLONE_NEWUSER, ABX_LAYER_USER}, {CLONE_NEWNS, ABX_LAYER_MOUNT}, {CLONE_NEWPID, ABX_LAYER_PID},
    {CLONE_NEWIPC, ABX_LAYER_IPC},   {CLONE_NEWUTS, ABX_LAYER_UTS},  {NEWCGROUP, ABX_LAYER_CGROUP},
    {CLONE_NEWNET, ABX_LAYER_NET},
};

/* A raw clone: no handler of the C library runs, which is right for a program without threads. */
static long raw_clone(uint64_t flags, int *pidfd)
{
    struct clone_args args = {
        .flags = flags | (pidfd ? CLONE_PIDFD : 0),
        .pidfd = (uint64_t)(uintptr_t)pidfd,
        .exit_signal = SIGCHLD,
    };
    return syscall(SYS_clone3, &args, sizeof(args));
}

static int try_flags(uint64_t flags)
{
    long pid = raw_clone(flags, NULL);
    if (pid == 0)
        _exit(0);
    if (pid < 0)
        return -1;
    while (waitpid((pid_t)pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    return 0;
}

/* Which of them is refused: each one is tried with the user namespace, in a process that ends at once. */
static const namespace_row *find_refused(uint64_t wanted, int *e)
{
    for (size_t i = 0; i < ABX_COUNT(namespaces); i++) {
        const namespace_row *row = &namespaces[i];
        if ((wanted & row->flag) && try_flags(CLONE_NEWUSER | row->flag) < 0) {
            *e = errno;
            return row;
        }
    }
    return NULL;
}

/* The new process works in the sandbox's folder: with other ids, under a home of mode 0700, no path leads there any
 * more, and of all descriptors only the working directory follows into the new mount namespace. */
static long clone_in(int folder, uint64_t flags, int *pidfd)
{
    ABX_AUTO_FD back = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fchdir(folder) < 0)
        return -1;
    long pid = raw_clone(flags, pidfd);
    int e = errno;
    if (pid != 0 && (back < 0 || fchdir(back) < 0) && chdir("/") < 0)
        abx_check_failed(__FILE__, __LINE__, "chdir");
    errno = e;
    return pid;
}

pid_t abx_clone(abx_setup *setup, abx_plan *plan, int *pidfd, abx_error **err)
{
    /* who enters control groups makes this namespace afterwards */
    uint64_t later = setup->groups->enter[0] >= 0 ? NEWCGROUP : 0;
    for (;;) {
        long pid = clone_in(setup->folder, plan->namespaces & ~later, pidfd);
        if (pid == 0)
            abx_setup_main(setup);
        if (pid > 0)
            return (pid_t)pid;
        int e = errno;
        const namespace_row *row = abx_is_shortage(e) ? NULL : find_refused(plan->namespaces, &e);
        if (abx_is_shortage(e))
            return abx_shortage_error(err, e, "its first process");
        abx_layer layer = row ? row->layer : ABX_LAYER_USER;
        if (!row || !(plan->weaker & ABX_LAYER_BIT(layer)))
            return abx_layer_error(err, layer, e, "clone");
        plan->namespaces &= ~row->flag;
        setup->report.weakened |= ABX_LAYER_BIT(layer);
    }
}
