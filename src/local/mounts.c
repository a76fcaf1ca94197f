/* The root file system: the prepared skeleton and the host's /usr under a private layer. Names are relative to the
 * sandbox's folder, since the mount table inside prints them. The last step leaves the new root as the working
 * directory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "local/setup.h"
#include "local/skeleton.h"
#include "local/sys_mount.h"

int abx_attach(int fd, const char *at)
{
    return (int)syscall(SYS_move_mount, fd, "", AT_FDCWD, at, ABX_MOVE_MOUNT_F_EMPTY_PATH);
}

static int bind_one(const char *from, const char *at)
{
    return mount(from, at, NULL, MS_BIND, NULL);
}

static int set_flags(const char *at, uint64_t flags, unsigned recursive)
{
    struct mount_attr attr = {.attr_set = flags};
    return (int)syscall(SYS_mount_setattr, AT_FDCWD, at, recursive, &attr, sizeof(attr));
}

static bool in_memory(const abx_setup *s)
{
    return s->plan->limits.disk == ABX_HOLD_TMPFS;
}

/* The private layer in memory: as large as asked, and no larger. */
static int mount_memory(abx_setup *s)
{
    char options[80];
    uint64_t bytes = s->plan->limits.asked.disk_bytes;
    uint64_t inodes = bytes / 4096 > 1024 ? bytes / 4096 : 1024;
    snprintf(options, sizeof(options), "mode=755,size=%lluk,nr_inodes=%llu",
             (unsigned long long)bytes >> 10, (unsigned long long)inodes);
    if (mount("disk", "wk", "tmpfs", MS_NOSUID | MS_NODEV, options) < 0 ||
        mkdir("wk/up", 0755) < 0 || mkdir("wk/wk", 0755) < 0)
        return abx_refused(s, ABX_LAYER_LIMITS, "a layer in memory");
    /* opaque folders are stored so */
    if (setxattr("wk/up", "user.abx", "y", 1, 0) < 0)
        return abx_refused(s, ABX_LAYER_LIMITS,
                           "attributes in memory, which Linux has from 6.6 on");
    (void)removexattr("wk/up", "user.abx");
    return 0;
}

/* volatile: no sync at the end, for a layer that never outlives its mount; absent before 5.10. */
int abx_mount_overlay(const char *lower, const char *at, bool memory)
{
    char options[4096]; /* a page is all that the kernel takes */
    int n =
        snprintf(options, sizeof(options), "lowerdir=%s,upperdir=%s,workdir=%s,userxattr,volatile",
                 lower, memory ? "wk/up" : "up", memory ? "wk/wk" : "wk");
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
    return set_flags(at, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
                     ABX_AT_RECURSIVE);
}

/* Where the skeleton is, by a name that tells nothing about the host. A root caller's ids cannot walk to it: its clone
 * covers the host's /usr in this namespace, which came as a clone too. */
static int reach_skeleton(abx_setup *s)
{
    if (s->skeleton >= 0) {
        if (abx_attach(s->skeleton, "/usr") < 0)
            return abx_refused(s, ABX_LAYER_OVERLAY, "move_mount of the skeleton");
        if (s->usr >= 0 && !s->plain_usr && abx_attach(s->usr, "/usr/l") < 0)
            return abx_refused(s, ABX_LAYER_USR, "move_mount of '/usr'");
    } else if (s->skeleton_path && bind_one(s->skeleton_path, "k") < 0) {
        return abx_refused(s, ABX_LAYER_OVERLAY, "bind of the skeleton");
    }
    return 0;
}

/* The layers of a snapshot lie between what is private and the skeleton. */
static int overlay_over(abx_setup *s, const char *lower, const char *at)
{
    if (!s->plan->stack)
        return abx_mount_overlay(lower, at, in_memory(s));
    char *all = abx_stack_option(s, lower);
    int rc = all ? abx_mount_overlay(all, at, in_memory(s)) : -1, e = errno;
    free(all);
    errno = e;
    return rc;
}

/* One overlay of the skeleton over the host's /usr; the new root is a part of it. A host whose /usr has file
 * systems of its own below cannot be laid under: then /usr/local begins empty. */
static int mount_layers(abx_setup *s)
{
    const char *k = s->plan->skeleton;
    char own[160], m[80], root[96];
    const char *usr = s->skeleton < 0 ? "/usr" : s->usr >= 0 && !s->plain_usr ? "/usr/l" : NULL;
    snprintf(m, sizeof(m), "%s/m", k);
    snprintf(root, sizeof(root), "%s/m/.abx", k);
    snprintf(own, sizeof(own), "%s/usr%s%s", k, usr ? ":" : "", usr ? usr : "");
    int rc = overlay_over(s, own, m);
    if (rc < 0 && usr && errno == EINVAL) {
        snprintf(own, sizeof(own), "%s/usr", k);
        rc = overlay_over(s, own, m);
    }
    if (rc < 0)
        return abx_refused(s, ABX_LAYER_OVERLAY, "overlay mount");
    char r[80];
    snprintf(r, sizeof(r), "%s/r", k);
    if (bind_one(root, r) < 0)
        return abx_refused(s, ABX_LAYER_OVERLAY, "bind of the new root");
    return 0;
}

int abx_mount_root(abx_setup *s)
{
    const abx_plan *p = s->plan;
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return abx_refused(s, ABX_LAYER_MOUNT, "mount of '/' as slave");
    if (p->copied_root) {
        if (bind_one("up", "up") < 0 ||
            set_flags("up", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0) < 0)
            return abx_refused(s, ABX_LAYER_OVERLAY, "bind of the copied root");
        return 0;
    }
    if (in_memory(s) && mount_memory(s) < 0)
        return -1;
    if (!abx_plan_on_host(p))
        return abx_mount_stack(s);
    return reach_skeleton(s) < 0 || (p->stack && abx_reach_layers(s) < 0) ? -1 : mount_layers(s);
}

/* A view of the private layer, for counting only: a mount of its own, that nothing leads out of. A sandbox that ends
 * with its caller is asked for nothing, unless it has a limit. */
int abx_show_layer(abx_setup *s)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                          MOUNT_ATTR_NOEXEC};
    abx_hold disk = s->plan->limits.disk;
    if (disk == ABX_HOLD_TMPFS || (s->plan->tied && disk == ABX_HOLD_NONE))
        return 0;
    s->layer = (int)syscall(SYS_open_tree, AT_FDCWD, "up", ABX_OPEN_TREE_CLONE | O_CLOEXEC);
    if (s->layer >= 0 &&
        syscall(SYS_mount_setattr, s->layer, "", ABX_AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
        abx_close_fd(&s->layer);
    if (s->layer < 0 && disk == ABX_HOLD_WATCH)
        return abx_refused(s, ABX_LAYER_LIMITS, "a view of the private layer");
    return 0;
}

/* The folders of a host whose /bin, /lib … are no links into /usr. */
static int mount_old_folders(abx_setup *s)
{
    static const char *const names[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
    for (size_t i = 0; i < ABX_COUNT(names); i++) {
        struct stat st;
        if (lstat(names[i] + 1, &st) < 0 || !S_ISDIR(st.st_mode))
            continue;
        if (abx_bind_read_only(names[i], names[i] + 1) < 0)
            return abx_refused(s, ABX_LAYER_USR, "read-only bind of '%s'", names[i]);
    }
    return 0;
}

/* /usr can be written: it is the overlay itself, but for the new root in it, which is covered. */
static int mount_whole_usr(abx_setup *s)
{
    if (bind_one("../m", "usr") < 0 || abx_mount_empty("usr/.abx") < 0)
        return abx_refused(s, ABX_LAYER_USR, "bind of '/usr'");
    return mount_old_folders(s);
}

/* Without an overlay the host's /usr/local shows through: what must not be seen there is covered one by one. */
static int cover_local(abx_setup *s)
{
    DIR *d = opendir("usr/local");
    int rc = 0;
    for (struct dirent *e; d && rc == 0 && (e = readdir(d));) {
        char at[300];
        struct stat st;
        snprintf(at, sizeof(at), "usr/local/%s", e->d_name);
        if (e->d_name[0] == '.' || abx_local_is_shown(e->d_name) || lstat(at, &st) < 0 ||
            S_ISLNK(st.st_mode))
            continue;
        rc = S_ISDIR(st.st_mode) ? abx_mount_empty(at) : bind_one("/dev/null", at);
        if (rc < 0)
            rc = abx_refused(s, ABX_LAYER_USR, "cover of '/%s'", at);
    }
    if (d)
        closedir(d);
    return rc;
}

static int mount_local(abx_setup *s)
{
    struct stat st;
    if (stat("usr/local", &st) < 0 || !S_ISDIR(st.st_mode))
        return 0;
    if (s->plan->copied_root)
        return cover_local(s);
    if (bind_one("../m/local", "usr/local") < 0)
        return abx_refused(s, ABX_LAYER_USR, "bind of '/usr/local'");
    return 0;
}

static int mount_plain_usr(abx_setup *s)
{
    s->report.plain_usr = 1;
    if (s->usr >= 0) {
        if (abx_attach(s->usr, "usr") < 0)
            return abx_refused(s, ABX_LAYER_USR, "move_mount of '/usr'");
    } else if (abx_bind_read_only("/usr", "usr") < 0) {
        return abx_refused(s, ABX_LAYER_USR, "read-only bind of '/usr'");
    }
    if (mount_local(s) < 0)
        return -1;
    return mount_old_folders(s);
}

int abx_mount_usr(abx_setup *s)
{
    const abx_plan *p = s->plan;
    char r[80];
    if (abx_plan_on_host(p))
        snprintf(r, sizeof(r), "%s/r", p->skeleton);
    else
        snprintf(r, sizeof(r), "%s", ABX_STACK_ROOT);
    if (chdir(p->copied_root ? "up" : r) < 0)
        return abx_refused(s, ABX_LAYER_MOUNT, "the new root");
    if (!abx_plan_on_host(p))
        return 0; /* the template's own */
    if (s->usr >= 0 && !s->plain_usr)
        return mount_whole_usr(s);
    return mount_plain_usr(s);
}
