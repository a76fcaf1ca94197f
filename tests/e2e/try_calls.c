/* Runs inside a sandbox: makes each call that the filter or the kernel must refuse and compares the errno. Prints
 * "BAD name: ..." for each difference and "checked N" at the end.. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int checked;

/* wanted: an errno, or 0 for success. */
static void expect(const char *name, int wanted, long result, int got)
{
    checked++;
    if (result >= 0)
        got = 0;
    if (got != wanted)
        printf("BAD %s: wanted %s, got %s\n", name, wanted ? strerrorname_np(wanted) : "success",
               got ? strerrorname_np(got) : "success");
}

#define EXPECT(wanted, call)                                                                       \
    do {                                                                                           \
        errno = 0;                                                                                 \
        long result_ = (long)(call);                                                               \
        expect(#call, wanted, result_, errno);                                                     \
    } while (0)

#define CALL(wanted, name, ...)  EXPECT(wanted, syscall(SYS_##name, __VA_ARGS__))
#define RAW(wanted, number, ...) EXPECT(wanted, syscall(number, __VA_ARGS__))

static void namespaces(void)
{
    static const int flags[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,    CLONE_NEWNET,
                                CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP, 0x80 /* time */};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        CALL(EPERM, unshare, flags[i]);
        if (flags[i] != 0x80)
            CALL(EPERM, clone, flags[i] | SIGCHLD, 0, 0, 0, 0);
    }
    CALL(EPERM, unshare, CLONE_NEWUSER | CLONE_NEWNET);
    CALL(EPERM, unshare, CLONE_NEWUSER | CLONE_FILES);
    CALL(0, unshare, CLONE_FILES);
    int own = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);
    CALL(EPERM, setns, own, 0);
    close(own);
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    CALL(ENOSYS, clone3, &args, sizeof args);
    args.flags = 0;
    CALL(ENOSYS, clone3, &args, sizeof args);
}

static void mounts(void)
{
    CALL(EPERM, mount, "none", "/tmp", "tmpfs", 0, "");
    CALL(EPERM, umount2, "/proc", 0);
    CALL(EPERM, pivot_root, ".", ".");
    CALL(EPERM, chroot, "/");
    CALL(EPERM, open_tree, AT_FDCWD, "/", 0);
    CALL(EPERM, move_mount, -1, "", -1, "", 0);
    CALL(EPERM, fsopen, "tmpfs", 0);
    CALL(EPERM, fsconfig, -1, 0, 0, 0, 0);
    CALL(EPERM, fsmount, -1, 0, 0);
    CALL(EPERM, fspick, AT_FDCWD, "/", 0);
    RAW(EPERM, 442, AT_FDCWD, "/", 0, 0, 0); /* mount_setattr */
    RAW(ENOSYS, 457, 0, 0, 0, 0);            /* statmount */
    RAW(ENOSYS, 458, 0, 0, 0, 0);            /* listmount */
}

static void kernel(void)
{
    CALL(EPERM, kexec_load, 0, 0, 0, 0);
    CALL(EPERM, init_module, 0, 0, "");
    CALL(EPERM, finit_module, -1, "", 0);
    CALL(EPERM, delete_module, "x", 0);
    CALL(EPERM, reboot, 0, 0, 0, 0);
    CALL(EPERM, swapon, "/x", 0);
    CALL(EPERM, swapoff, "/x");
    CALL(EPERM, acct, 0);
    CALL(EPERM, bpf, 0, 0, 0);
    CALL(EPERM, perf_event_open, 0, 0, 0, 0, 0);
    CALL(ENOSYS, io_uring_setup, 1, 0);
    CALL(ENOSYS, io_uring_enter, -1, 0, 0, 0, 0, 0);
    CALL(ENOSYS, io_uring_register, -1, 0, 0, 0);
    CALL(ENOSYS, userfaultfd, 0);
    CALL(ENOSYS, add_key, "user", "x", "y", 1, -4);
    CALL(ENOSYS, request_key, "user", "x", 0, 0);
    CALL(ENOSYS, keyctl, 0, -3, 0, 0, 0);
    CALL(EPERM, open_by_handle_at, AT_FDCWD, 0, 0);
    CALL(EPERM, fanotify_init, 0, 0);
    CALL(EPERM, quotactl, 0, 0, 0, 0);
    CALL(EPERM, settimeofday, 0, 0);
    CALL(EPERM, clock_settime, 0, 0);
    CALL(EPERM, sethostname, "x", 1);
    CALL(EPERM, setdomainname, "x", 1);
    CALL(EPERM, vhangup, 0);
    CALL(EPERM, syslog, 3, 0, 0);
    CALL(EPERM, move_pages, 0, 0, 0, 0, 0, 0);
    CALL(EPERM, migrate_pages, 0, 0, 0, 0);
    CALL(ENOSYS, lookup_dcookie, 0, 0, 0);
#ifdef __x86_64__
    CALL(EPERM, iopl, 3);
    CALL(EPERM, ioperm, 0, 1, 1);
    CALL(ENOSYS, modify_ldt, 0, 0, 0);
    CALL(ENOSYS, ustat, 0, 0);
    CALL(ENOSYS, sysfs, 3);
#endif
    RAW(ENOSYS, 1000, 0);
    RAW(ENOSYS, 5000, 0);
}

static void sockets(void)
{
    static const int closed[] = {AF_VSOCK, AF_ALG,       AF_PACKET, AF_XDP,     AF_TIPC,
                                 AF_RDS,   AF_BLUETOOTH, AF_KCM,    AF_QIPCRTR, AF_SMC,
                                 AF_CAN,   AF_KEY,       AF_NFC};
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
        CALL(EAFNOSUPPORT, socket, closed[i], SOCK_STREAM, 0);
        CALL(EAFNOSUPPORT, socket, closed[i], SOCK_DGRAM | SOCK_CLOEXEC, 0);
        CALL(EAFNOSUPPORT, socket, (uint64_t)closed[i] | 1ULL << 32, SOCK_STREAM, 0);
    }
    for (int protocol = 1; protocol < 22; protocol++) {
        CALL(EPROTONOSUPPORT, socket, AF_NETLINK, SOCK_RAW, protocol);
        CALL(EPROTONOSUPPORT, socket, AF_NETLINK, SOCK_RAW, (uint64_t)protocol | 1ULL << 40);
    }
    static const int open_ones[] = {AF_UNIX, AF_INET, AF_INET6};
    for (size_t i = 0; i < sizeof open_ones / sizeof *open_ones; i++)
        CALL(0, socket, open_ones[i], SOCK_STREAM, 0);
    CALL(0, socket, AF_NETLINK, SOCK_RAW, 0);
    CALL(EPERM, socket, AF_INET, SOCK_RAW, 1);
    int pair[2];
    CALL(0, socketpair, AF_UNIX, SOCK_STREAM, 0, pair);
}

static void terminals(void)
{
    static const uint64_t requests[] = {0x5412, 0x541c, 0x5423, 0x541d};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        CALL(EPERM, ioctl, 0, requests[i], "x");
        CALL(EPERM, ioctl, 0, requests[i] | 0xabcdULL << 32, "x");
    }
}

static void others(void)
{
    struct rlimit limit = {3, 3}, old;
    EXPECT(EPERM, prlimit(1, RLIMIT_NOFILE, &limit, NULL));
    EXPECT(EPERM, prlimit(getppid(), RLIMIT_NOFILE, &limit, NULL));
    EXPECT(0, prlimit(0, RLIMIT_NOFILE, NULL, &old));
    EXPECT(0, prlimit(0, RLIMIT_NOFILE, &old, NULL));
    EXPECT(EPERM, setpriority(PRIO_PROCESS, 1, 19));
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    EXPECT(EPERM, sched_setaffinity(1, sizeof cpus, &cpus));
    EXPECT(EPERM, ptrace(PTRACE_SEIZE, 1, NULL, NULL));
    CALL(EPERM, kcmp, getpid(), 1, 0, 0, 0);
    EXPECT(EACCES, open("/proc/1/mem", O_RDWR));
    EXPECT(EACCES, open("/proc/1/environ", O_RDONLY));
    EXPECT(EACCES, open("/proc/1/maps", O_RDONLY));
    EXPECT(EACCES, open("/proc/1/exe", O_RDONLY));
    EXPECT(EACCES, open("/proc/1/root/etc/passwd", O_RDONLY));
    EXPECT(EACCES, open("/proc/1/cwd/x", O_RDONLY));
    char text[64];
    EXPECT(EACCES, readlink("/proc/1/exe", text, sizeof text));
    EXPECT(0, setpriority(PRIO_PROCESS, 0, 1));
    CALL(EPERM, personality, 0x0400000); /* READ_IMPLIES_EXEC */
    CALL(0, personality, 0xffffffff);
    CALL(0, personality, 0x0040000);
    EXPECT(1, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? (errno = 1, -1) : 0);
    EXPECT(EPERM, prctl(PR_CAPBSET_DROP, 0, 0, 0, 0));
    EXPECT(1, prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2 ? (errno = 1, -1) : 0);
}

/* What is not killed by the filter ends with 0. */
static void must_be_killed(const char *name, void (*call)(void))
{
    checked++;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        call();
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
        printf("BAD %s: not killed (status %x)\n", name, (unsigned)status);
}

#ifdef __x86_64__
static void call_32_bit(void)
{
    long result = 20; /* getpid of the 32-bit table */
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory");
}
static void call_x32(void)
{
    syscall(0x40000000 + SYS_getpid);
}
#endif

int main(void)
{
    namespaces();
    mounts();
    kernel();
    sockets();
    terminals();
#ifdef __x86_64__
    must_be_killed("32-bit call", call_32_bit);
    must_be_killed("x32 call", call_x32);
#endif
    kill(1, SIGKILL);
    kill(1, SIGTERM);
    kill(1, SIGSTOP);
    kill(1, SIGINT);
    others();
    printf("checked %d\n", checked);
    return 0;
}
