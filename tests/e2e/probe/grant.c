#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "probe.h"

void grant(const char *call)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    int nr = seccomp_syscall_resolve_name(call);
    if (!ctx || nr == __NR_SCMP_ERROR || seccomp_rule_add(ctx, SCMP_ACT_ERRNO(0), nr, 0) < 0 ||
        seccomp_load(ctx) < 0) {
        (void)fprintf(stderr, "probe: '%s' cannot be granted\n", call);
        exit(2);
    }
    seccomp_release(ctx);
}
