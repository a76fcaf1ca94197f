/* Capabilities: what pid 1 keeps, and what a command gets. */
#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "local/setup.h"

#define BIT(cap) (1ULL << (cap))

/* Of inside-root where a range of ids exists: acts on the sandbox's own ids alone; nothing that mounts, traces or
 * touches the network. */
#define ROOT_CAPS                                                                                  \
    (BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) | BIT(CAP_FSETID) |                  \
     BIT(CAP_SETUID) | BIT(CAP_SETGID) | BIT(CAP_KILL) | BIT(CAP_NET_BIND_SERVICE) |               \
     BIT(CAP_SETFCAP))
/* pid 1 is shielded from what it runs by one capability more than that has. */
#define SHIELD_CAP   BIT(CAP_KILL)
#define RANGE_SHIELD BIT(CAP_SYS_NICE)

static int set_caps(uint64_t permitted, uint64_t effective)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {
        {(uint32_t)effective, (uint32_t)permitted, 0},
        {(uint32_t)(effective >> 32), (uint32_t)(permitted >> 32), 0},
    };
    return (int)syscall(SYS_capset, &head, data);
}

static int drop_bounding(uint64_t keep)
{
    for (int cap = 0; cap < 64; cap++) {
        if (keep & BIT(cap))
            continue;
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
            if (errno == EINVAL)
                return 0; /* behind the last one that this kernel knows */
            return -1;
        }
    }
    return 0;
}

/* With one id, being root gives nothing, and nothing can be handed on. With a range, root's programs get the small set
 * by being root. */
static int lock_securebits(bool single)
{
    unsigned long bits =
        SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    if (single)
        bits |= SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                SECBIT_NO_SETUID_FIXUP_LOCKED;
    return prctl(PR_SET_SECUREBITS, bits, 0, 0, 0);
}

int abx_drop_caps(abx_setup *s)
{
    bool single = s->plan->ids == ABX_IDS_SINGLE;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return abx_refused(s, ABX_LAYER_CAPS, "no_new_privs");
    if (drop_bounding(single ? 0 : ROOT_CAPS) < 0)
        return abx_refused(s, ABX_LAYER_CAPS, "emptying the bounding set");
    if (!single && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
        return abx_refused(s, ABX_LAYER_CAPS, "keeping capabilities");
    if (!single && (setresgid(ABX_INSIDE_UID, ABX_INSIDE_UID, ABX_INSIDE_UID) < 0 ||
                    setresuid(ABX_INSIDE_UID, ABX_INSIDE_UID, ABX_INSIDE_UID) < 0))
        return abx_refused(s, ABX_LAYER_CAPS, "becoming 'user'");
    if (!single && prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) < 0)
        return abx_refused(s, ABX_LAYER_CAPS, "keeping capabilities");
    uint64_t needed = BIT(CAP_SETPCAP); /* for the next call only */
    if (set_caps(needed | (single ? SHIELD_CAP : ROOT_CAPS | RANGE_SHIELD), needed) < 0 ||
        lock_securebits(single) < 0)
        return abx_refused(s, ABX_LAYER_CAPS, "securebits");
    uint64_t permitted = single ? SHIELD_CAP : ROOT_CAPS | RANGE_SHIELD;
    uint64_t effective = single ? 0 : BIT(CAP_KILL) | BIT(CAP_SETUID) | BIT(CAP_SETGID);
    if (set_caps(permitted, effective) < 0)
        return abx_refused(s, ABX_LAYER_CAPS, "capset");
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    /* last: every change of credentials sets it anew */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return abx_refused(s, ABX_LAYER_CAPS, "hiding pid 1");
    return 0;
}

int abx_lock_child(void *data)
{
    const abx_setup *s = (const abx_setup *)data;
    bool root = s->plan->ids != ABX_IDS_SINGLE && geteuid() == 0;
    uint32_t most = s->plan->limits.asked.open_files;
    bool asked = most != ABX_HARD_FILES;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && (asked || files.rlim_cur > ABX_SOFT_FILES)) {
        files.rlim_cur = asked ? most : ABX_SOFT_FILES;
        if (asked)
            files.rlim_max = most;
        if (setrlimit(RLIMIT_NOFILE, &files) < 0)
            return errno;
    }
    uint32_t part = s->plan->limits.asked.cpu_millis % 1000;
    if (s->plan->limits.cpus == ABX_HOLD_AFFINITY && part > 0)
        (void)setpriority(PRIO_PROCESS, 0, 20 - (int)(part / 50));
    /* Called root in the nested namespace, it came with every capability there: nothing of them may stay, unless the
     * caller of this has dropped them already. */
    if (s->plan->ids == ABX_IDS_SINGLE && prctl(PR_CAPBSET_READ, CAP_CHOWN, 0, 0, 0) == 1 &&
        (drop_bounding(0) < 0 || lock_securebits(true) < 0))
        return errno;
    if (set_caps(root ? ROOT_CAPS : 0, root ? ROOT_CAPS : 0) < 0)
        return errno;
    int e = s->report.weakened & ABX_LAYER_BIT(ABX_LAYER_SECCOMP) ? 0 : abx_child_filter();
    if (e == 0 && s->plan->limits.disk == ABX_HOLD_WATCH)
        e = abx_no_fallocate_filter();
    /* This process still shares its memory with pid 1: a change of credentials must not have opened it. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return e;
}
