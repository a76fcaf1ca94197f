#include "local/gen/seccomp_rules.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define ALLOW    SECCOMP_RET_ALLOW
#define FAIL(e)  (SECCOMP_RET_ERRNO | ((e)&SECCOMP_RET_DATA))

/* Calls that are refused whatever their arguments are. */
typedef struct plain_rule {
    abx_seccomp_which which;
    int error;
    const char *names; /* separated by blanks; a name that the architecture lacks is left out */
} plain_rule;

static const plain_rule plain_rules[] = {
    /* mounts: no capability anyway; keeps their parsers out of reach */
    {ABX_SECCOMP_BASE, EPERM,
     "mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount "
     "fspick mount_setattr"},
    {ABX_SECCOMP_BASE, ENOSYS, "statmount listmount"},
    {ABX_SECCOMP_BASE, EPERM,
     "kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff "
     "acct"},
    {ABX_SECCOMP_BASE, EPERM, "bpf perf_event_open"},
    {ABX_SECCOMP_BASE, ENOSYS, "io_uring_setup io_uring_enter io_uring_register userfaultfd"},
    /* keyrings are per host id: quotas and keys would be shared with the caller */
    {ABX_SECCOMP_BASE, ENOSYS, "add_key request_key keyctl"},
    {ABX_SECCOMP_BASE, EPERM, "open_by_handle_at fanotify_init quotactl quotactl_fd"},
    /* adjtimex and clock_adjtime also read; setting needs a capability that nobody inside has */
    {ABX_SECCOMP_BASE, EPERM,
     "settimeofday clock_settime sethostname setdomainname vhangup syslog iopl ioperm"},
    {ABX_SECCOMP_BASE, EPERM, "move_pages migrate_pages"},
    {ABX_SECCOMP_BASE, ENOSYS,
     "uselib ustat sysfs _sysctl vm86 vm86old nfsservctl lookup_dcookie create_module query_module "
     "get_kernel_syms modify_ldt"},
    /* the flags of clone3 lie in memory, which a filter cannot read: libraries fall back to clone */
    {ABX_SECCOMP_CHILD, ENOSYS, "clone3"},
    {ABX_SECCOMP_CHILD, EPERM, "setns"},
};

/* Calls that are refused when (argument & mask) == value. */
typedef struct masked_rule {
    const char *name;
    unsigned arg;
    uint64_t mask, value;
} masked_rule;

#define LOW32 0xffffffffULL
static const masked_rule masked_rules[] = {
    {"unshare", 0, 0x00000080, 0x00000080}, /* time */
    {"unshare", 0, 0x00020000, 0x00020000}, /* mount */
    {"unshare", 0, 0x02000000, 0x02000000}, /* cgroup */
    {"unshare", 0, 0x04000000, 0x04000000}, /* uts */
    {"unshare", 0, 0x08000000, 0x08000000}, /* ipc */
    {"unshare", 0, 0x10000000, 0x10000000}, /* user */
    {"unshare", 0, 0x20000000, 0x20000000}, /* pid */
    {"unshare", 0, 0x40000000, 0x40000000}, /* net */
    {"clone", 0, 0x00020000, 0x00020000},
    {"clone", 0, 0x02000000, 0x02000000},
    {"clone", 0, 0x04000000, 0x04000000},
    {"clone", 0, 0x08000000, 0x08000000},
    {"clone", 0, 0x10000000, 0x10000000},
    {"clone", 0, 0x20000000, 0x20000000},
    {"clone", 0, 0x40000000, 0x40000000},
    /* terminal injection; the kernel ignores the upper half of the request */
    {"ioctl", 1, LOW32, 0x5412}, /* TIOCSTI */
    {"ioctl", 1, LOW32, 0x541c}, /* TIOCLINUX */
    {"ioctl", 1, LOW32, 0x5423}, /* TIOCSETD */
    {"ioctl", 1, LOW32, 0x541d}, /* TIOCCONS */
};

/* What a rule for this call is given: the builder's own architecture's number, which libseccomp translates. False
 * when the target has no such call. */
static bool rule_number(uint32_t arch, const char *name, int *nr)
{
    *nr = seccomp_syscall_resolve_name(name);
    return *nr != __NR_SCMP_ERROR && seccomp_syscall_resolve_name_arch(arch, name) >= 0;
}

static int add_plain(scmp_filter_ctx ctx, uint32_t arch, const plain_rule *rule)
{
    char names[512];
    if (strlen(rule->names) >= sizeof(names))
        return -E2BIG;
    memcpy(names, rule->names, strlen(rule->names) + 1);
    char *rest = names;
    for (char *name; (name = strsep(&rest, " "));) {
        int nr;
        if (!rule_number(arch, name, &nr))
            continue;
        int rc = seccomp_rule_add_exact(ctx, SCMP_ACT_ERRNO((uint16_t)rule->error), nr, 0);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* The limit of core dumps stays as it is (rlimits.c). Programs that forbid themselves to dump are told that it worked,
 * which is true. */
static int add_core_rules(scmp_filter_ctx ctx, uint32_t arch)
{
    struct scmp_arg_cmp set[] = {SCMP_CMP64(0, SCMP_CMP_MASKED_EQ, LOW32, RLIMIT_CORE)};
    struct scmp_arg_cmp own[] = {SCMP_CMP64(0, SCMP_CMP_EQ, 0),
                                 SCMP_CMP64(1, SCMP_CMP_MASKED_EQ, LOW32, RLIMIT_CORE),
                                 SCMP_CMP64(2, SCMP_CMP_NE, 0)};
    int nr, rc = 0;
    if (rule_number(arch, "setrlimit", &nr))
        rc = seccomp_rule_add_exact_array(ctx, SCMP_ACT_ERRNO(0), nr, 1, set);
    if (rc == 0 && rule_number(arch, "prlimit64", &nr))
        rc = seccomp_rule_add_exact_array(ctx, SCMP_ACT_ERRNO(0), nr, 3, own);
    return rc;
}

static int add_child_rules(scmp_filter_ctx ctx, uint32_t arch)
{
    for (size_t i = 0; i < COUNT(masked_rules); i++) {
        const masked_rule *r = &masked_rules[i];
        int nr;
        if (!rule_number(arch, r->name, &nr))
            continue;
        struct scmp_arg_cmp cmp = SCMP_CMP64(r->arg, SCMP_CMP_MASKED_EQ, r->mask, r->value);
        int rc = seccomp_rule_add_exact_array(ctx, SCMP_ACT_ERRNO(EPERM), nr, 1, &cmp);
        if (rc < 0)
            return rc;
    }
    if (add_core_rules(ctx, arch) < 0)
        return -EINVAL;
    /* Limits of others: a new limit for a pid that is not 0. */
    int nr;
    struct scmp_arg_cmp cmp[] = {SCMP_CMP64(0, SCMP_CMP_NE, 0), SCMP_CMP64(2, SCMP_CMP_NE, 0)};
    return !rule_number(arch, "prlimit64", &nr)
               ? 0
               : seccomp_rule_add_exact_array(ctx, SCMP_ACT_ERRNO(EPERM), nr, 2, cmp);
}

/* --- the front: tests that libseccomp cannot express ------------------------------------------------ */

typedef struct code {
    struct sock_filter *at;
    size_t n;
} code;

static void put(code *c, uint16_t op, uint32_t k, size_t yes, size_t no)
{
    c->at[c->n++] = (struct sock_filter){op, (uint8_t)yes, (uint8_t)no, k};
}
static void load(code *c, size_t offset)
{
    put(c, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}
static void answer(code *c, uint32_t action)
{
    put(c, BPF_RET | BPF_K, action, 0, 0);
}
static size_t low_half(unsigned arg) /* both architectures are little-endian */
{
    return offsetof(struct seccomp_data, args) + arg * sizeof(uint64_t);
}

/* The highest call number that this libseccomp has a name for. */
static uint32_t highest_known(uint32_t arch)
{
    for (int n = 2000; n > 0; n--) {
        char *name = seccomp_syscall_resolve_num_arch(arch, n);
        bool known = name != NULL;
        free(name);
        if (known)
            return (uint32_t)n;
    }
    return 0;
}

static uint32_t audit_arch(uint32_t arch)
{
    return arch == SCMP_ARCH_X86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64;
}

/* Unknown numbers are absent: a library falls back as on an older kernel. Other architectures and x32 numbers go
 * on to the generated part, which kills. */
static void front_unknown(code *c, uint32_t arch)
{
    load(c, offsetof(struct seccomp_data, arch));
    put(c, BPF_JMP | BPF_JEQ | BPF_K, audit_arch(arch), 0, 4);
    load(c, offsetof(struct seccomp_data, nr));
    put(c, BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 2, 0);
    put(c, BPF_JMP | BPF_JGT | BPF_K, highest_known(arch), 0, 1);
    answer(c, FAIL(ENOSYS));
}

/* Only these values of argument 0 pass; what passes is allowed. */
static void front_only(code *c, int nr, const uint32_t *values, size_t n, int error)
{
    load(c, offsetof(struct seccomp_data, nr));
    put(c, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, n + 3);
    load(c, low_half(0));
    for (size_t i = 0; i < n; i++)
        put(c, BPF_JMP | BPF_JEQ | BPF_K, values[i], n - i, 0);
    answer(c, FAIL(error));
    answer(c, ALLOW);
}

/* Families UNIX, INET, INET6, and NETLINK with protocol 0. */
static void front_socket(code *c, int nr)
{
    load(c, offsetof(struct seccomp_data, nr));
    put(c, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 10);
    load(c, low_half(0));
    put(c, BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 7, 0);
    put(c, BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 6, 0);
    put(c, BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 5, 0);
    put(c, BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 1, 0);
    answer(c, FAIL(EAFNOSUPPORT));
    load(c, low_half(2));
    put(c, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
    answer(c, FAIL(EPROTONOSUPPORT));
    answer(c, ALLOW);
}

static void front_child(code *c, uint32_t arch)
{
    /* the last but one: no address randomisation, for debuggers; the last: only ask */
    static const uint32_t personalities[] = {0, 8, 0x20000, 0x20008, 0x40000, 0xffffffff};
    int nr = seccomp_syscall_resolve_name_arch(arch, "personality");
    front_only(c, nr, personalities, COUNT(personalities), EPERM);
    front_socket(c, seccomp_syscall_resolve_name_arch(arch, "socket"));
    front_socket(c, seccomp_syscall_resolve_name_arch(arch, "socketpair"));
}

/* The numbers behind the tests of the front are those of one architecture: all others pass it untouched. */
static void front(code *c, uint32_t arch, abx_seccomp_which which)
{
    front_unknown(c, arch);
    if (which != ABX_SECCOMP_CHILD)
        return;
    code inner = {c->at + c->n + 2, 0};
    front_child(&inner, arch);
    load(c, offsetof(struct seccomp_data, arch));
    put(c, BPF_JMP | BPF_JEQ | BPF_K, audit_arch(arch), 0, inner.n);
    c->n += inner.n;
}

static int export_to(scmp_filter_ctx ctx, struct sock_filter *out, size_t room)
{
    int ends[2];
    if (pipe(ends) < 0)
        return -errno;
    int rc = seccomp_export_bpf(ctx, ends[1]); /* a few KiB: less than a pipe holds */
    close(ends[1]);
    ssize_t got = rc < 0 ? -1 : read(ends[0], out, room * sizeof(*out));
    close(ends[0]);
    if (rc < 0)
        return rc;
    if (got <= 0 || (size_t)got == room * sizeof(*out))
        return -E2BIG;
    return (int)((size_t)got / sizeof(*out));
}

int abx_seccomp_build(uint32_t arch, abx_seccomp_which which, struct sock_filter *out)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    if (!ctx)
        return -ENOMEM;
    int rc = 0;
    if (arch != seccomp_arch_native()) {
        rc = seccomp_arch_add(ctx, arch);
        if (rc == 0)
            rc = seccomp_arch_remove(ctx, seccomp_arch_native());
    }
    if (rc == 0)
        rc = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (rc == 0)
        rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree, not a list */
    for (size_t i = 0; rc == 0 && i < COUNT(plain_rules); i++)
        if (plain_rules[i].which == which)
            rc = add_plain(ctx, arch, &plain_rules[i]);
    if (rc == 0 && which == ABX_SECCOMP_CHILD)
        rc = add_child_rules(ctx, arch);
    code c = {out, 0};
    if (rc == 0) {
        front(&c, arch, which);
        rc = export_to(ctx, out + c.n, ABX_SECCOMP_MAX - c.n);
    }
    seccomp_release(ctx);
    return rc < 0 ? rc : rc + (int)c.n;
}
