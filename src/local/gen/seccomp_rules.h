/* The one source of the sandbox's system call rules. The generator turns them into tables during the build;
 * a test builds them anew and compares. */
#ifndef ABX_LOCAL_GEN_SECCOMP_RULES_H
#define ABX_LOCAL_GEN_SECCOMP_RULES_H

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

typedef enum abx_seccomp_which {
    ABX_SECCOMP_BASE, /* pid 1 and everything below it */
    ABX_SECCOMP_CHILD /* commands, on top of the base */
} abx_seccomp_which;

#define ABX_SECCOMP_MAX 1024 /* instructions of one program, at most */

/* Build one filter. arch: a SCMP_ARCH_… token. out has room for ABX_SECCOMP_MAX. Returns the number of
 * instructions, or a negative errno. */
int abx_seccomp_build(uint32_t arch, abx_seccomp_which which, struct sock_filter *out);

#endif
