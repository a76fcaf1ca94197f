/* The system call filters, from the tables that the build made. */
#include "local/seccomp.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "local/setup.h"
#include "seccomp_table.h"

const struct sock_filter *abx_seccomp_table(bool child, size_t *n)
{
    *n = child ? ABX_COUNT(abx_seccomp_child_table) : ABX_COUNT(abx_seccomp_base_table);
    return child ? abx_seccomp_child_table : abx_seccomp_base_table;
}

static int install(const struct sock_filter *table, size_t n)
{
    struct sock_fprog program = {(unsigned short)n, (struct sock_filter *)(uintptr_t)table};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

int abx_base_filter(abx_setup *s)
{
    if (install(abx_seccomp_base_table, ABX_COUNT(abx_seccomp_base_table)) < 0)
        return abx_refused(s, ABX_LAYER_SECCOMP, "base filter");
    return 0;
}

int abx_no_fallocate_filter(void)
{
    static const struct sock_filter table[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return install(table, ABX_COUNT(table)) < 0 ? errno : 0;
}

int abx_child_filter(void)
{
    return install(abx_seccomp_child_table, ABX_COUNT(abx_seccomp_child_table)) < 0 ? errno : 0;
}
