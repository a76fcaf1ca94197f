/* Runs during the build: prints the system call filters as a C header, for each architecture that we build for. */
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "local/gen/seccomp_rules.h"

static void print_filter(const char *name, const char *macro, uint32_t arch,
                         abx_seccomp_which which)
{
    static struct sock_filter program[ABX_SECCOMP_MAX];
    int n = abx_seccomp_build(arch, which, program);
    if (n < 0) {
        fprintf(stderr, "cannot build the filter '%s' for %s: %s\n", name, macro, strerror(-n));
        exit(1);
    }
    printf("static const struct sock_filter %s[] = {\n", name);
    for (int i = 0; i < n; i++)
        printf("    {0x%02x, %u, %u, 0x%08x},\n", (unsigned)program[i].code,
               (unsigned)program[i].jt, (unsigned)program[i].jf, (unsigned)program[i].k);
    printf("};\n");
}

static void print_arch(const char *macro, uint32_t arch)
{
    printf("#ifdef %s\n", macro);
    print_filter("abx_seccomp_base_table", macro, arch, ABX_SECCOMP_BASE);
    print_filter("abx_seccomp_child_table", macro, arch, ABX_SECCOMP_CHILD);
    printf("#endif\n");
}

int main(void)
{
    printf("/* Made by src/local/gen during the build; do not edit. */\n"
           "#include <linux/filter.h>\n");
    print_arch("__x86_64__", SCMP_ARCH_X86_64);
    print_arch("__aarch64__", SCMP_ARCH_AARCH64);
    return fflush(stdout) == 0 ? 0 : 1;
}
