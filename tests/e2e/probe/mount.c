/* Mounts: new ones, others' flags, what a mount hides, the root. */
#include <fcntl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "local/sys_mount.h"

#include "probe.h"

/* "mount-TYPE" */
static long try_type(char **args)
{
    const char *type = strrchr(args[-1], '-') + 1;
    const char *options = strcmp(type, "cgroup") == 0 ? "cpu" : "";
    return mount("none", "/tmp", type, 0, options);
}

static long try_overlay(char **args)
{
    return mount("none", "/tmp", "overlay", 0, "lowerdir=/usr:/etc,userxattr");
}

static long try_bind(char **args)
{
    return mount("/etc", "/tmp", NULL, MS_BIND, NULL);
}

/* Make a read-only place writable. "setup": make it read-only first, in a naive sandbox. */
static long try_remount(char **args)
{
    const char *at = args[0];
    if (args[1] && (mount(at, at, NULL, MS_BIND, NULL) < 0 ||
                    mount(NULL, at, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) < 0))
        return -1;
    return mount(NULL, at, NULL, MS_BIND | MS_REMOUNT, NULL);
}

static long try_setattr(char **args)
{
    struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};
    const char *at = args[0];
    if (args[1] && (mount(at, at, NULL, MS_BIND, NULL) < 0 ||
                    mount(NULL, at, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) < 0))
        return -1;
    return syscall(SYS_mount_setattr, AT_FDCWD, at, 0, &attr, sizeof(attr));
}

static long try_umount(char **args)
{
    return umount2(args[0], ABX_MNT_DETACH);
}

static long try_pivot_root(char **args)
{
    if (mount("none", "/tmp", "tmpfs", 0, "") < 0 && errno != EPERM)
        return -1;
    if (chdir("/tmp") < 0)
        return -1;
    return syscall(SYS_pivot_root, ".", ".");
}

/* The oldest way out: a root below the working directory does not hold it. */
static long try_chroot(char **args)
{
    struct stat own, out;
    int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &own) < 0)
        return -1;
    char below[] = "/tmp/probe-root-XXXXXX";
    if (!mkdtemp(below) || chroot(below) < 0 || fchdir(fd) < 0)
        return -1;
    for (int i = 0; i < 64; i++)
        if (chdir("..") < 0)
            return -1;
    if (chroot(".") < 0)
        return -1;
    return stat("/usr", &out);
}

static long try_fsopen(char **args)
{
    int fd = (int)syscall(SYS_fsopen, "tmpfs", 0);
    if (fd < 0 || syscall(SYS_fsconfig, fd, 6 /* create */, NULL, NULL, 0) < 0)
        return -1;
    return syscall(SYS_fsmount, fd, 0, 0);
}

static long try_open_tree(char **args)
{
    return syscall(SYS_open_tree, AT_FDCWD, "/etc", 1 /* clone */);
}

static long try_move_mount(char **args)
{
    int fd = (int)syscall(SYS_open_tree, AT_FDCWD, "/etc", 1);
    return syscall(SYS_move_mount, fd < 0 ? AT_FDCWD : fd, fd < 0 ? "/proc" : "", AT_FDCWD, "/tmp",
                   fd < 0 ? 0 : 4 /* of the descriptor itself */);
}

static long try_listmount(char **args)
{
    struct {
        unsigned size, spare;
        unsigned long long id, param, more;
    } question = {.size = 24, .id = ~0ULL /* the root */};
    unsigned long long ids[8];
    return syscall(458, &question, ids, 8, 0);
}

const probe probes_mount[] = {
    {"mount-tmpfs", try_type},
    {"mount-proc", try_type},
    {"mount-sysfs", try_type},
    {"mount-cgroup", try_type},
    {"mount-cgroup2", try_type},
    {"mount-devpts", try_type},
    {"mount-overlay", try_overlay},
    {"mount-bind", try_bind},
    {"remount-writable", try_remount},
    {"setattr-writable", try_setattr},
    {"umount", try_umount},
    {"pivot-root", try_pivot_root},
    {"chroot-dots", try_chroot},
    {"fsopen", try_fsopen},
    {"open-tree", try_open_tree},
    {"move-mount", try_move_mount},
    {"listmount", try_listmount},
    {NULL, NULL},
};
