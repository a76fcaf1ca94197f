/* seccomp: the system calls that a loop, a network client and a name lookup need; all others fail with EPERM. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "jshost/lock.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "the filter knows x86-64 and AArch64"
#endif

static const int allowed[] = {
    SYS_read,          SYS_write,          SYS_readv,
    SYS_writev,        SYS_close,          SYS_lseek,
    SYS_fcntl,         SYS_fstat,          SYS_epoll_ctl,
    SYS_epoll_create1, SYS_epoll_pwait,    SYS_ppoll,
    SYS_eventfd2,      SYS_pipe2,          SYS_recvfrom,
    SYS_sendto,        SYS_sendmsg,        SYS_sendmmsg,
    SYS_recvmsg,       SYS_recvmmsg,       SYS_connect,
    SYS_bind,          SYS_shutdown,       SYS_getsockname,
    SYS_getpeername,   SYS_getsockopt,     SYS_setsockopt,
    SYS_brk,           SYS_munmap,         SYS_mremap,
    SYS_madvise,       SYS_futex,          SYS_set_robust_list,
    SYS_exit,          SYS_exit_group,     SYS_restart_syscall,
    SYS_rt_sigaction,  SYS_rt_sigprocmask, SYS_rt_sigreturn,
    SYS_sigaltstack,   SYS_clock_gettime,  SYS_clock_nanosleep,
    SYS_gettimeofday,  SYS_getrandom,      SYS_getpid,
    SYS_gettid,        SYS_getuid,         SYS_geteuid,
    SYS_getgid,        SYS_getegid,        SYS_uname,
    SYS_sysinfo,       SYS_sched_yield,    SYS_sched_getaffinity,
    SYS_membarrier,
#ifdef SYS_rseq
    SYS_rseq,
#endif
#ifdef SYS_statx
    SYS_statx,
#endif
#ifdef SYS_epoll_pwait2
    SYS_epoll_pwait2,
#endif
    SYS_newfstatat,
#ifdef SYS_poll
    SYS_poll,          SYS_epoll_wait,
#endif
};

enum { MOST = 256 };

typedef struct program {
    struct sock_filter code[MOST];
    unsigned short len;
} program;

static void add(program *p, struct sock_filter f)
{
    ABX_CHECK(p->len < MOST);
    p->code[p->len++] = f;
}

static void answer(program *p, unsigned what)
{
    add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

static void load(program *p, size_t offset)
{
    add(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset));
}

#define ARG(n)  (offsetof(struct seccomp_data, args) + 8 * (n)) /* its lower half: little endian */
#define REFUSED (SECCOMP_RET_ERRNO | EPERM)

/* If the call is nr the instructions that follow, up to end_call, decide; they begin with the accumulator at the argument. */
static unsigned short begin_call(program *p, int nr, size_t argument)
{
    unsigned short at = p->len;
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 0, 0));
    load(p, argument);
    return at;
}

static void end_call(program *p, unsigned short at, unsigned otherwise)
{
    answer(p, otherwise);
    p->code[at].jf = (unsigned char)(p->len - at - 1);
}

static void allow_value(program *p, unsigned value)
{
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    answer(p, SECCOMP_RET_ALLOW);
}

/* Allowed when none of these bits is set. */
static void allow_without(program *p, unsigned bits)
{
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 1, 0));
    answer(p, SECCOMP_RET_ALLOW);
}

static void add_checked(program *p, bool has_landlock)
{
    unsigned short at = begin_call(p, SYS_socket, ARG(0));
    allow_value(p, AF_INET);
    allow_value(p, AF_INET6);
    allow_value(p, AF_NETLINK); /* which addresses there are: asked by getaddrinfo */
    end_call(p, at, REFUSED);

    at = begin_call(p, SYS_clone, ARG(0));
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1));
    answer(p, SECCOMP_RET_ALLOW);
    end_call(p, at, REFUSED);

    at = begin_call(p, SYS_mmap, ARG(2));
    allow_without(p, PROT_EXEC);
    end_call(p, at, REFUSED);
    at = begin_call(p, SYS_mprotect, ARG(2));
    allow_without(p, PROT_EXEC);
    end_call(p, at, REFUSED);

    at = begin_call(p, SYS_openat, ARG(2));
    if (has_landlock)
        allow_without(p, O_ACCMODE | O_CREAT | O_TRUNC);
    end_call(p, at, SECCOMP_RET_ERRNO | EACCES);

    at = begin_call(p, SYS_ioctl, ARG(1));
    allow_value(p, FIONREAD);
    allow_value(p, FIONBIO);
    allow_value(p, FIOCLEX);
    end_call(p, at, REFUSED);

    at = begin_call(p, SYS_vmsplice, ARG(0)); /* its standard output (output.h) */
    allow_value(p, STDOUT_FILENO);
    end_call(p, at, REFUSED);

    at = begin_call(p, SYS_tgkill, ARG(0)); /* abort() */
    allow_value(p, (unsigned)getpid());
    end_call(p, at, REFUSED);

    at = begin_call(p, SYS_prlimit64, ARG(0)); /* asking about itself; no limit can be raised */
    allow_value(p, 0);
    end_call(p, at, REFUSED);
}

/* --- what is always allowed: ranges of numbers, found by halving ----------------------------------------- */

typedef struct range {
    unsigned first, last;
} range;

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static size_t make_ranges(range *ranges)
{
    int sorted[ABX_COUNT(allowed)];
    size_t n = 0;
    memcpy(sorted, allowed, sizeof(sorted));
    qsort(sorted, ABX_COUNT(sorted), sizeof(*sorted), by_number);
    for (size_t i = 0; i < ABX_COUNT(sorted); i++) {
        unsigned nr = (unsigned)sorted[i];
        if (n > 0 && nr <= ranges[n - 1].last + 1)
            ranges[n - 1].last = nr;
        else
            ranges[n++] = (range){nr, nr};
    }
    return n;
}

/* Comparisons that lead to the range in which a number may lie; the last one is "is it behind its end?". */
static void add_tree(program *p, const range *ranges, size_t n)
{
    if (n == 1) {
        add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, ranges->last, 0, 0));
        return;
    }
    size_t half = n / 2;
    unsigned short at = p->len;
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, ranges[half].first, 0, 0));
    add_tree(p, ranges, half);
    p->code[at].jt = (unsigned char)(p->len - at - 1);
    add_tree(p, ranges + half, n - half);
}

/* The kernel runs a new filter for each of its system calls, to know which ones it always allows: a chain of comparisons
 * would cost more than all the rest of the lock. */
static void add_allowed(program *p)
{
    range ranges[ABX_COUNT(allowed)];
    size_t n = make_ranges(ranges);
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, ranges[0].first, 1, 0));
    answer(p, REFUSED);
    unsigned short from = p->len;
    add_tree(p, ranges, n);
    unsigned short yes = p->len, no = (unsigned short)(yes + 1);
    ABX_CHECK(no - from <= UINT8_MAX);
    for (unsigned short i = from; i < yes; i++)
        if (BPF_OP(p->code[i].code) == BPF_JGT) {
            p->code[i].jt = (unsigned char)(no - i - 1);
            p->code[i].jf = (unsigned char)(yes - i - 1);
        }
    answer(p, SECCOMP_RET_ALLOW);
    answer(p, REFUSED);
}

int abx__js_lock_calls(abx_error **err)
{
    program p = {.len = 0};
    bool has_landlock = abx_js_lock_opens_files();
    load(&p, offsetof(struct seccomp_data, arch));
    add(&p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0));
    answer(&p, SECCOMP_RET_KILL_PROCESS);
    load(&p, offsetof(struct seccomp_data, nr));
#ifdef SYS_clone3
    /* its flags lie in memory, where a filter cannot look: libc takes clone then */
    add(&p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1));
    answer(&p, SECCOMP_RET_ERRNO | ENOSYS);
#endif
    add_checked(&p, has_landlock);
    add_allowed(&p);
    struct sock_fprog prog = {.len = p.len, .filter = p.code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) < 0)
        return abx_fail_errno(err, ABX_ERR_PROVIDER_START, errno, "cannot lock the module");
    return 0;
}
