/* The system call filters: the tables of the build are those of the rules, and each row answers as it says. The rows
 * are tried here with both filters; the end-to-end tests try them inside of sandboxes. */
#include "kit.h"

#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "local/gen/seccomp_rules.c"
#include "local/seccomp.h"
#include "local/setup.h"

static void check_table(uint32_t arch, bool child)
{
    static struct sock_filter fresh[ABX_SECCOMP_MAX];
    size_t n;
    const struct sock_filter *table = abx_seccomp_table(child, &n);
    int got = abx_seccomp_build(arch, child ? ABX_SECCOMP_CHILD : ABX_SECCOMP_BASE, fresh);
    assert_int_equal(got, (int)n);
    assert_memory_equal(fresh, table, n * sizeof(*table));
}

static void tables_equal_a_fresh_build(void **state)
{
    check_table(seccomp_arch_native(), false);
    check_table(seccomp_arch_native(), true);
}

static void both_architectures_can_be_built(void **state)
{
    static struct sock_filter out[ABX_SECCOMP_MAX];
    for (int which = 0; which < 2; which++) {
        assert_true(abx_seccomp_build(SCMP_ARCH_X86_64, (abx_seccomp_which)which, out) > 50);
        assert_true(abx_seccomp_build(SCMP_ARCH_AARCH64, (abx_seccomp_which)which, out) > 50);
    }
}

/* --- rows -------------------------------------------------------------------------------------------- */

typedef struct call_row {
    long nr;
    long args[5];
    int want;      /* errno; 0: not refused by a filter */
    bool base_too; /* the base filter alone answers so as well */
} call_row;

#define NONE                                                                                       \
    {                                                                                              \
        0, 0, 0, 0, 0                                                                              \
    }
#define HIGH(low) ((long)(0xabcd00000000ULL | (low)))

static const call_row rows[] = {
    {SYS_mount, NONE, EPERM, true},
    {SYS_umount2, NONE, EPERM, true},
    {SYS_pivot_root, NONE, EPERM, true},
    {SYS_chroot, NONE, EPERM, true},
    {428 /* open_tree */, NONE, EPERM, true},
    {429 /* move_mount */, NONE, EPERM, true},
    {430 /* fsopen */, NONE, EPERM, true},
    {431 /* fsconfig */, NONE, EPERM, true},
    {432 /* fsmount */, NONE, EPERM, true},
    {433 /* fspick */, NONE, EPERM, true},
    {442 /* mount_setattr */, NONE, EPERM, true},
    {457 /* statmount */, NONE, ENOSYS, true},
    {458 /* listmount */, NONE, ENOSYS, true},
    {470 /* listns */, NONE, ENOSYS, true},
    {1500 /* of a kernel to come */, NONE, ENOSYS, true},
    {SYS_kexec_load, NONE, EPERM, true},
    {SYS_init_module, NONE, EPERM, true},
    {SYS_finit_module, NONE, EPERM, true},
    {SYS_delete_module, NONE, EPERM, true},
    {SYS_reboot, NONE, EPERM, true},
    {SYS_swapon, NONE, EPERM, true},
    {SYS_swapoff, NONE, EPERM, true},
    {SYS_acct, NONE, EPERM, true},
    {SYS_bpf, NONE, EPERM, true},
    {SYS_perf_event_open, NONE, EPERM, true},
    {425 /* io_uring_setup */, NONE, ENOSYS, true},
    {426 /* io_uring_enter */, NONE, ENOSYS, true},
    {427 /* io_uring_register */, NONE, ENOSYS, true},
    {SYS_userfaultfd, NONE, ENOSYS, true},
    {SYS_add_key, NONE, ENOSYS, true},
    {SYS_request_key, NONE, ENOSYS, true},
    {SYS_keyctl, NONE, ENOSYS, true},
    {SYS_open_by_handle_at, NONE, EPERM, true},
    {SYS_fanotify_init, NONE, EPERM, true},
    {SYS_quotactl, NONE, EPERM, true},
    {443 /* quotactl_fd */, NONE, EPERM, true},
    {SYS_settimeofday, NONE, EPERM, true},
    {SYS_clock_settime, NONE, EPERM, true},
    {SYS_sethostname, NONE, EPERM, true},
    {SYS_setdomainname, NONE, EPERM, true},
    {SYS_vhangup, NONE, EPERM, true},
    {SYS_syslog, NONE, EPERM, true},
    {SYS_move_pages, NONE, EPERM, true},
    {SYS_migrate_pages, NONE, EPERM, true},
    {SYS_unshare, {CLONE_NEWUSER}, EPERM, false},
    {SYS_unshare, {CLONE_NEWNS}, EPERM, false},
    {SYS_unshare, {CLONE_NEWNET}, EPERM, false},
    {SYS_unshare, {CLONE_NEWPID}, EPERM, false},
    {SYS_unshare, {CLONE_NEWIPC}, EPERM, false},
    {SYS_unshare, {CLONE_NEWUTS}, EPERM, false},
    {SYS_unshare, {0x02000000}, EPERM, false},
    {SYS_unshare, {0x80}, EPERM, false},
    {SYS_unshare, {HIGH(CLONE_NEWUSER)}, EPERM, false},
    {SYS_unshare, {CLONE_FILES}, 0, false},
    {SYS_setns, {-1}, EPERM, false},
    {SYS_clone, {CLONE_NEWUSER | 17}, EPERM, false},
    {435 /* clone3 */, NONE, ENOSYS, false},
    {SYS_ioctl, {-1, 0x5412}, EPERM, false},
    {SYS_ioctl, {-1, HIGH(0x5412)}, EPERM, false},
    {SYS_ioctl, {-1, 0x541c}, EPERM, false},
    {SYS_ioctl, {-1, 0x5423}, EPERM, false},
    {SYS_ioctl, {-1, 0x541d}, EPERM, false},
    {SYS_ioctl, {-1, 0x5413}, EBADF, true},
    {SYS_personality, {0x400000 /* READ_IMPLIES_EXEC */}, EPERM, false},
    {SYS_personality, {0x40008}, EPERM, false},
    {SYS_personality, {0xffffffff}, 0, true},
    {SYS_personality, {0x40000}, 0, true},
    {SYS_personality, {0}, 0, true},
    {SYS_socket, {AF_UNIX, SOCK_STREAM, 0}, 0, true},
    {SYS_socket, {AF_INET, SOCK_STREAM, 0}, 0, true},
    {SYS_socket, {AF_INET6, SOCK_DGRAM, 0}, 0, true},
    {SYS_socket, {AF_NETLINK, SOCK_RAW, 0}, 0, true},
    {SYS_socket, {AF_NETLINK, SOCK_RAW, 12}, EPROTONOSUPPORT, false},
    {SYS_socket, {AF_NETLINK, SOCK_RAW, HIGH(16)}, EPROTONOSUPPORT, false},
    {SYS_socket, {AF_VSOCK, SOCK_STREAM, 0}, EAFNOSUPPORT, false},
    {SYS_socket, {HIGH(AF_VSOCK), SOCK_STREAM, 0}, EAFNOSUPPORT, false},
    {SYS_socket, {AF_PACKET, SOCK_RAW, 0}, EAFNOSUPPORT, false},
    {SYS_socket, {AF_ALG, SOCK_SEQPACKET, 0}, EAFNOSUPPORT, false},
    {SYS_socketpair, {AF_PACKET, SOCK_RAW, 0, 0}, EAFNOSUPPORT, false},
    {SYS_prlimit64, {1, RLIMIT_NOFILE, 1, 0}, EPERM, false},
    {SYS_adjtimex, {0}, EFAULT, true},
#ifdef __x86_64__
    {SYS_iopl, {3}, EPERM, true},
    {SYS_ioperm, {0, 1, 1}, EPERM, true},
    {SYS_modify_ldt, NONE, ENOSYS, true},
    {SYS_uselib, NONE, ENOSYS, true},
    {SYS_ustat, NONE, ENOSYS, true},
    {SYS_sysfs, NONE, ENOSYS, true},
    {SYS_lookup_dcookie, NONE, ENOSYS, true},
#endif
};

static int errno_of(const call_row *r)
{
    errno = 0;
    long rc = syscall(r->nr, r->args[0], r->args[1], r->args[2], r->args[3], r->args[4]);
    return rc < 0 ? errno : 0;
}

static int install_base(void)
{
    abx_plan plan = {0};
    abx_setup s = {.plan = &plan};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || abx_base_filter(&s) < 0 ? -1 : 0;
}

/* The number of the first row that answers otherwise, plus 1; 0: all are right. Runs as an ordinary user, in a process
 * of its own: a row that is not refused may change it. */
static int try_rows(const char *which)
{
    bool child = which[0] == 'c';
    if (install_base() < 0 || (child && abx_child_filter() != 0))
        return 255;
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        if (!child && !rows[i].base_too)
            continue;
        int got = errno_of(&rows[i]);
        if (got == rows[i].want)
            continue;
        fprintf(stderr, "row %zu (call %ld, %lx): got %s, not %s\n", i, rows[i].nr, rows[i].args[0],
                strerror(got), strerror(rows[i].want));
        return (int)i + 1;
    }
    return 0;
}

static void each_row_of_the_base_filter_answers(void **state)
{
    assert_int_equal(kit_as_user(NULL, try_rows, "base"), 0);
}

static void each_row_of_both_filters_answers(void **state)
{
    assert_int_equal(kit_as_user(NULL, try_rows, "child"), 0);
}

static int own_limits(const char *arg)
{
    struct rlimit r;
    if (install_base() < 0 || abx_child_filter() != 0)
        return 1;
    if (syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &r) < 0)
        return 2;
    r.rlim_cur = 20;
    if (syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &r, NULL) < 0 ||
        syscall(SYS_prlimit64, getpid(), RLIMIT_NOFILE, NULL, &r) < 0)
        return 3;
    return r.rlim_cur == 20 ? 0 : 4;
}

/* Said to be set, and not changed: whatever way is taken. */
static int core_limit(const char *arg)
{
    struct rlimit r, one = {1, 1}, none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &one) < 0 || install_base() < 0 || abx_child_filter() != 0)
        return 1;
    if (syscall(SYS_prlimit64, 0, RLIMIT_CORE, &none, NULL) < 0 ||
        syscall(SYS_prlimit64, 0, HIGH(RLIMIT_CORE), &none, NULL) < 0 ||
        setrlimit(RLIMIT_CORE, &none) < 0)
        return 2;
#ifdef SYS_setrlimit
    if (syscall(SYS_setrlimit, HIGH(RLIMIT_CORE), &none) < 0)
        return 3;
#endif
    if (syscall(SYS_prlimit64, getpid(), RLIMIT_CORE, &none, NULL) == 0)
        return 4;
    return syscall(SYS_prlimit64, 0, RLIMIT_CORE, NULL, &r) == 0 && r.rlim_cur == 1 ? 0 : 5;
}

static void the_limit_of_core_dumps_stays(void **state)
{
    assert_int_equal(kit_as_user(NULL, core_limit, ""), 0);
}

static void limits_of_ones_own_can_be_read_and_set(void **state)
{
    assert_int_equal(kit_as_user(NULL, own_limits, ""), 0);
}

static void x32_and_other_architectures_end_the_process(void **state)
{
    fflush(NULL);
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        if (install_base() < 0)
            _exit(1);
        syscall(0x40000000 | SYS_getpid);
        _exit(2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
#ifdef __x86_64__
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == 31);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_equal_a_fresh_build),
        cmocka_unit_test(both_architectures_can_be_built),
        cmocka_unit_test(each_row_of_the_base_filter_answers),
        cmocka_unit_test(each_row_of_both_filters_answers),
        cmocka_unit_test(limits_of_ones_own_can_be_read_and_set),
        cmocka_unit_test(the_limit_of_core_dumps_stays),
        cmocka_unit_test(x32_and_other_architectures_end_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
