/* Per-namespace settings and names: set inside, so that they count this sandbox alone. */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "local/setup.h"

/* Before anything is started: what is born later is born in them. The namespace of groups begins where this process
 * is, so that it shows "/" inside. */
int abx_enter_groups(abx_setup *s)
{
    abx_cgroups *g = s->groups;
    if (g->enter[0] < 0)
        return 0;
    if (abx_cgroups_enter(g) < 0)
        return abx_refused(s, ABX_LAYER_LIMITS, "entering a control group");
    if (unshare(CLONE_NEWCGROUP) < 0)
        return abx_refused(s, ABX_LAYER_CGROUP, "unshare");
    return 0;
}

/* Without a control group: so many processors, and of a part of one less than others get. Which ones is chance, so that
 * sandboxes spread. */
int abx_set_affinity(abx_setup *s)
{
    const abx_limits *l = &s->plan->limits;
    cpu_set_t have, want;
    if (l->cpus != ABX_HOLD_AFFINITY)
        return 0;
    if (sched_getaffinity(0, sizeof(have), &have) < 0)
        return abx_refused(s, ABX_LAYER_LIMITS, "sched_getaffinity");
    int left = (int)((l->asked.cpu_millis + 999) / 1000), all = CPU_COUNT(&have);
    int skip = all > 0 ? (unsigned char)s->plan->token[0] % all : 0;
    CPU_ZERO(&want);
    for (int i = 0; left > 0 && i < 2 * CPU_SETSIZE; i++) {
        int cpu = i % CPU_SETSIZE;
        if (!CPU_ISSET(cpu, &have) || CPU_ISSET(cpu, &want) || skip-- > 0)
            continue;
        CPU_SET(cpu, &want);
        left--;
    }
    if (sched_setaffinity(0, sizeof(want), &want) < 0)
        return abx_refused(s, ABX_LAYER_LIMITS, "sched_setaffinity");
    return 0;
}

typedef struct setting {
    const char *path;
    const char *single, *range; /* values by kind of ids */
} setting;

static const setting settings[] = {
    {"/proc/sys/net/ipv4/ip_unprivileged_port_start", "0\n", "0\n"},
    {"/proc/sys/net/ipv4/ping_group_range", "1000 1000\n", "0 65535\n"},
    /* its own nested one is all that a sandbox may have */
    {"/proc/sys/user/max_user_namespaces", "1\n", "0\n"},
    /* quotas by host id, shared with other sandboxes of the same caller */
    {"/proc/sys/user/max_inotify_instances", "64\n", "64\n"},
    {"/proc/sys/user/max_inotify_watches", "65536\n", "65536\n"},
};

int abx_set_sysctls(abx_setup *s)
{
    bool single = s->plan->ids == ABX_IDS_SINGLE;
    for (size_t i = 0; i < ABX_COUNT(settings); i++) {
        const setting *set = &settings[i];
        const char *value = single ? set->single : set->range;
        if (!s->own_net && strncmp(set->path, "/proc/sys/net/", 14) == 0)
            continue;
        int fd = open(set->path, O_WRONLY | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
            continue; /* a kernel without it has nothing to limit */
        ssize_t n = fd < 0 ? -1 : write(fd, value, strlen(value));
        int e = errno;
        if (fd >= 0)
            close(fd);
        errno = e;
        if (n < 0)
            return abx_refused(s, ABX_LAYER_LIMITS, "write of '%s'", set->path);
    }
    return 0;
}

int abx_set_names(abx_setup *s)
{
    const char *name = s->plan->name ? s->plan->name : s->plan->id;
    if (sethostname(name, strlen(name)) < 0)
        return abx_refused(s, ABX_LAYER_UTS, "sethostname");
    /* The caller's session keys must not be reachable. Where the quota of keys of this host id is used up, or the
     * kernel has none, the filter still refuses every call that would reach them. */
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS &&
        (s->plan->weaker & ABX_LAYER_BIT(ABX_LAYER_SECCOMP) || (errno != EDQUOT && errno != EPERM)))
        return abx_refused(s, ABX_LAYER_KEYS, "a session keyring");
    return 0;
}
