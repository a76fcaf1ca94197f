/* Against pid 1: its memory, descriptors, priority, limits, files in /proc. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

static long try_ptrace(char **args)
{
    int how = strcmp(args[-1], "pid1-attach") == 0 ? PTRACE_ATTACH : PTRACE_SEIZE;
    long rc = ptrace((enum __ptrace_request)how, 1, NULL, NULL);
    if (rc == 0 && how == PTRACE_ATTACH && waitpid(1, NULL, __WALL) == 1)
        (void)ptrace(PTRACE_DETACH, 1, NULL, SIGCONT);
    return rc;
}

/* A fork shares the addresses of its parent, and pid 1 of a naive sandbox is the parent. */
static long try_vm(char **args)
{
    static char here[16] = "text";
    char there[16];
    struct iovec own = {there, sizeof(there)}, its = {here, sizeof(here)};
    long nr = strcmp(args[-1], "pid1-vm-read") == 0 ? SYS_process_vm_readv : SYS_process_vm_writev;
    return syscall(nr, 1, &own, 1, &its, 1, 0);
}

static long try_getfd(char **args)
{
    int fd = (int)syscall(SYS_pidfd_open, 1, 0);
    for (int i = 0; fd >= 0 && i < 64; i++)
        if (syscall(SYS_pidfd_getfd, fd, i, 0) >= 0)
            return 0;
    return -1;
}

static long try_madvise(char **args)
{
    static char here[8192];
    struct iovec its = {(void *)((uintptr_t)(here + 4095) & ~(uintptr_t)4095), 4096};
    int fd = (int)syscall(SYS_pidfd_open, 1, 0);
    return fd < 0 ? -1 : syscall(SYS_process_madvise, fd, &its, 1, MADV_COLD, 0);
}

static long try_kcmp(char **args)
{
    return syscall(SYS_kcmp, getpid(), 1, 2 /* files */, 0, 0);
}

static long try_robust_list(char **args)
{
    void *head;
    size_t n;
    return syscall(SYS_get_robust_list, 1, &head, &n);
}

static long try_prlimit(char **args)
{
    struct rlimit limit = {3, 3};
    return prlimit(1, RLIMIT_NOFILE, &limit, NULL);
}

static long try_nice(char **args)
{
    return setpriority(PRIO_PROCESS, 1, 19);
}

static long try_affinity(char **args)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    return sched_setaffinity(1, sizeof(cpus), &cpus);
}

static long try_scheduler(char **args)
{
    struct sched_param param = {0};
    return sched_setscheduler(1, SCHED_IDLE, &param);
}

static long try_ioprio(char **args)
{
    return syscall(SYS_ioprio_set, 1, 1, 3 << 13 /* idle */);
}

/* In a naive sandbox pid 1 ends, and all with it: nobody comes back from here. */
static long try_term(char **args)
{
    if (kill(1, SIGTERM) < 0)
        return -1;
    (void)usleep(300000);
    errno = EALREADY; /* it was sent, and nothing came of it */
    return -1;
}

static long try_stop(char **args)
{
    char state = 0;
    for (int sig = 1; sig < 65; sig++)
        (void)kill(1, sig);
    (void)usleep(100000);
    FILE *f = fopen("/proc/1/stat", "re");
    if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        return -1;
    (void)fclose(f);
    errno = EALREADY;
    return state == 'T' || state == 'Z' || state == 'X' ? 0 : -1;
}

/* "pid1-read FILE": a little of a file in /proc/1. */
static long try_read(char **args)
{
    char path[128], bytes[8];
    (void)snprintf(path, sizeof(path), "/proc/1/%s", args[0]);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    long n = read(fd, bytes, sizeof(bytes));
    errno = n == 0 ? ENODATA : errno;
    return n > 0 ? 0 : -1;
}

static long try_mem(char **args)
{
    static char here[8] = "x";
    int fd = open("/proc/1/mem", O_RDWR | O_CLOEXEC);
    return fd < 0 ? -1 : pwrite(fd, "y", 1, (off_t)(uintptr_t)here);
}

/* "pid1-link NAME": where a link in /proc/1 leads, and what is behind it. */
static long try_link(char **args)
{
    char path[128], text[512];
    (void)snprintf(path, sizeof(path), "/proc/1/%s", args[0]);
    if (readlink(path, text, sizeof(text)) >= 0)
        return 0;
    return open(path, O_PATH | O_CLOEXEC);
}

static long try_list(char **args)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "/proc/1/%s", args[0]);
    return list_folder(path);
}

/* "pid1-write FILE TEXT" */
static long try_write(char **args)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "/proc/1/%s", args[0]);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -1 : write(fd, args[1], strlen(args[1]));
}

const probe probes_pid1[] = {
    {"pid1-attach", try_ptrace},
    {"pid1-seize", try_ptrace},
    {"pid1-vm-read", try_vm},
    {"pid1-vm-write", try_vm},
    {"pid1-getfd", try_getfd},
    {"pid1-madvise", try_madvise},
    {"pid1-kcmp", try_kcmp},
    {"pid1-robust-list", try_robust_list},
    {"pid1-prlimit", try_prlimit},
    {"pid1-nice", try_nice},
    {"pid1-affinity", try_affinity},
    {"pid1-scheduler", try_scheduler},
    {"pid1-ioprio", try_ioprio},
    {"pid1-term", try_term},
    {"pid1-signals", try_stop},
    {"pid1-read", try_read},
    {"pid1-mem", try_mem},
    {"pid1-link", try_link},
    {"pid1-list", try_list},
    {"pid1-write", try_write},
    {NULL, NULL},
};
