/* File systems of the kernel: /proc and what of it is hidden, /dev; then the change of the root. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "local/setup.h"
#include "local/sys_mount.h"

int abx_mount_proc(abx_setup *s)
{
    if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0)
        return 0;
    if (abx_refused(s, ABX_LAYER_PROC, "mount of '/proc'") < 0)
        return -1;
    /* the weaker way: the outer one, with the outer processes in it */
    if (mount("/proc", "proc", NULL, MS_BIND | MS_REC, NULL) < 0)
        return abx_refused(s, ABX_LAYER_MOUNT, "bind of '/proc'");
    return 0;
}

int abx_mount_dev(abx_setup *s)
{
    static const char *const nodes[] = {"null", "zero", "full", "random", "urandom", "tty"};
    for (size_t i = 0; i < ABX_COUNT(nodes); i++) {
        char from[16], at[24];
        snprintf(from, sizeof(from), "/dev/%s", nodes[i]);
        snprintf(at, sizeof(at), "dev/%s", nodes[i]);
        if (mount(from, at, NULL, MS_BIND, NULL) < 0)
            return abx_refused(s, ABX_LAYER_DEV, "bind of '%s'", from);
    }
    /* gid 5 only where it exists inside */
    const char *options = s->plan->ids == ABX_IDS_SINGLE
                              ? "newinstance,ptmxmode=0666,mode=620"
                              : "newinstance,ptmxmode=0666,mode=620,gid=5";
    if (mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, options) < 0)
        return abx_refused(s, ABX_LAYER_DEV, "mount of '/dev/pts'");
    char shm[64];
    snprintf(shm, sizeof(shm), "mode=1777,size=%lluk,nr_inodes=16384",
             (unsigned long long)s->plan->limits.shm_bytes >> 10);
    if (mount("shm", "dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, shm) < 0)
        return abx_refused(s, ABX_LAYER_DEV, "mount of '/dev/shm'");
    if (mount("run", "run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=16m,nr_inodes=4096") < 0)
        return abx_refused(s, ABX_LAYER_DEV, "mount of '/run'");
    return 0;
}

/* Secrets of the kernel or of the host's keys; the last may hold secrets of the boot loader. */
static const char *const hidden[] = {
    "proc/kcore",        "proc/kmsg",        "proc/keys",          "proc/key-users",
    "proc/timer_list",   "proc/sched_debug", "proc/latency_stats", "proc/kpagecount",
    "proc/kpageflags",   "proc/kpagecgroup", "proc/slabinfo",      "proc/vmallocinfo",
    "proc/pagetypeinfo", "proc/config.gz",   "proc/sysrq-trigger", "proc/cmdline",
};

/* Folders that tell about the hardware. */
static const char *const emptied[] = {"proc/acpi", "proc/asound", "proc/scsi", "proc/driver"};

int abx_mount_empty(const char *at)
{
    return mount("empty", at, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
                 "size=4k,mode=555");
}

int abx_mask_proc(abx_setup *s)
{
    for (size_t i = 0; i < ABX_COUNT(hidden); i++)
        if (mount("dev/null", hidden[i], NULL, MS_BIND, NULL) < 0 && errno != ENOENT)
            return abx_refused(s, ABX_LAYER_MASKS, "bind over '/%s'", hidden[i]);
    const char *first = s->usr >= 0 && !s->plain_usr ? "usr/.abx" : NULL; /* one for all of them */
    for (size_t i = 0; i < ABX_COUNT(emptied); i++) {
        int rc =
            first ? mount(first, emptied[i], NULL, MS_BIND, NULL) : abx_mount_empty(emptied[i]);
        if (rc < 0 && errno != ENOENT && errno != ENOTDIR)
            return abx_refused(s, ABX_LAYER_MASKS, "mount over '/%s'", emptied[i]);
        if (rc == 0 && !first)
            first = emptied[i];
    }
    return 0;
}

int abx_enter_root(abx_setup *s)
{
    if (syscall(SYS_pivot_root, ".", ".") < 0)
        return abx_refused(s, ABX_LAYER_MOUNT, "pivot_root");
    if (umount2(".", ABX_MNT_DETACH) < 0)
        return abx_refused(s, ABX_LAYER_MOUNT, "detaching the host's root");
    if (chdir("/") < 0)
        return abx_refused(s, ABX_LAYER_MOUNT, "the new root");
    return 0;
}

/* After the settings of this namespace were written there. */
int abx_lock_proc(abx_setup *s)
{
    static const char *const locked[] = {"/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs"};
    for (size_t i = 0; i < ABX_COUNT(locked); i++) {
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
                                              MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
        if (mount(locked[i], locked[i], NULL, MS_BIND | MS_REC, NULL) < 0) {
            if (errno == ENOENT)
                continue;
            return abx_refused(s, ABX_LAYER_MASKS, "bind of '%s'", locked[i]);
        }
        if (syscall(SYS_mount_setattr, AT_FDCWD, locked[i], ABX_AT_RECURSIVE, &attr, sizeof(attr)) <
            0)
            return abx_refused(s, ABX_LAYER_MASKS, "read-only '%s'", locked[i]);
    }
    return 0;
}
