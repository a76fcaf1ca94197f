/* The root file system: the prepared skeleton under a private layer, and the host's /usr. Names are relative to the
 * sandbox's folder, since the mount table inside prints them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "local/setup.h"
#include "local/sys_mount.h"

/* Attach a detached mount, sent by the creator, at `at`. */
static int attach(int fd, const char *at)
{
    return (int)syscall(SYS_move_mount, fd, "", AT_FDCWD, at, ABX_MOVE_MOUNT_F_EMPTY_PATH);
}

/* volatile: no sync at the end, for a layer that never outlives its mount; absent before 5.10. */
static int overlay(const char *lower, const char *upper, const char *work, const char *at)
{
    char options[512];
    int n = snprintf(options, sizeof(options),
                     "lowerdir=%s,upperdir=%s,workdir=%s,userxattr,volatile", lower, upper, work);
    if (n < 0 || (size_t)n >= sizeof(options)) {
        errno = E2BIG;
        return -1;
    }
    if (mount("overlay", at, "overlay", MS_NOSUID | MS_NODEV, options) == 0)
        return 0;
    if (errno != EINVAL)
        return -1;
    options[(size_t)n - strlen(",volatile")] = 0;
    return mount("overlay", at, "overlay", MS_NOSUID | MS_NODEV, options);
}

int abx_bind_read_only(const char *from, const char *at)
{
    if (mount(from, at, NULL, MS_BIND | MS_REC, NULL) < 0)
        return -1;
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    return (int)syscall(SYS_mount_setattr, AT_FDCWD, at, ABX_AT_RECURSIVE, &attr, sizeof(attr));
}

int abx_mount_root(abx_setup *s)
{
    const abx_plan *p = s->plan;
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return abx_refused(s, ABX_LAYER_MOUNT, "mount of '/' as slave");
    if (p->copied_root) {
        if (mount("up", "m", NULL, MS_BIND, NULL) < 0)
            return abx_refused(s, ABX_LAYER_OVERLAY, "bind of the copied root");
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
        if (syscall(SYS_mount_setattr, AT_FDCWD, "m", 0, &attr, sizeof(attr)) < 0)
            return abx_refused(s, ABX_LAYER_OVERLAY, "flags of the copied root");
        return 0;
    }
    if (s->skeleton >= 0 && attach(s->skeleton, "k") < 0)
        return abx_refused(s, ABX_LAYER_OVERLAY, "move_mount of the skeleton");
    if (s->skeleton_path && s->skeleton < 0 &&
        mount(s->skeleton_path, "k", NULL, MS_BIND, NULL) < 0)
        return abx_refused(s, ABX_LAYER_OVERLAY, "bind of the skeleton");
    char lower[96];
    snprintf(lower, sizeof(lower), "%s/root", p->skeleton);
    if (overlay(lower, "up", "wk", "m") < 0)
        return abx_refused(s, ABX_LAYER_OVERLAY, "overlay mount of '/'");
    return 0;
}

/* The folders of a host whose /bin, /lib … are no links into /usr. */
static int mount_old_folders(abx_setup *s)
{
    static const char *const names[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};
    for (size_t i = 0; i < ABX_COUNT(names); i++) {
        char from[16], at[16];
        struct stat st;
        snprintf(at, sizeof(at), "m/%s", names[i]);
        snprintf(from, sizeof(from), "/%s", names[i]);
        if (lstat(at, &st) < 0 || !S_ISDIR(st.st_mode))
            continue;
        if (abx_bind_read_only(from, at) < 0)
            return abx_refused(s, ABX_LAYER_USR, "read-only bind of '%s'", from);
    }
    return 0;
}

static int mount_local(abx_setup *s)
{
    const abx_plan *p = s->plan;
    if (!p->local_overlay)
        return 0;
    char lower[128];
    snprintf(lower, sizeof(lower), "%s/usr/local:/usr/local", p->skeleton);
    if (overlay(lower, "uu", "uw", "m/usr/local") < 0)
        return abx_refused(s, ABX_LAYER_USR, "overlay mount of '/usr/local'");
    return 0;
}

int abx_mount_usr(abx_setup *s)
{
    const abx_plan *p = s->plan;
    if (p->usr_overlay && s->usr >= 0) {
        if (attach(s->usr, "l") < 0)
            return abx_refused(s, ABX_LAYER_USR, "move_mount of '/usr'");
        char lower[96];
        snprintf(lower, sizeof(lower), "%s/usr:l", p->skeleton);
        if (overlay(lower, "uu", "uw", "m/usr") < 0)
            return abx_refused(s, ABX_LAYER_USR, "overlay mount of '/usr'");
        return mount_old_folders(s);
    }
    s->report.plain_usr = 1;
    if (abx_bind_read_only("/usr", "m/usr") < 0)
        return abx_refused(s, ABX_LAYER_USR, "read-only bind of '/usr'");
    if (mount_local(s) < 0)
        return -1;
    return mount_old_folders(s);
}
