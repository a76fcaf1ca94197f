/* Building a skeleton. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "local/etc_copy.h"
#include "local/etc_text.h"
#include "local/skeleton.h"

typedef struct part {
    const char *path;
    mode_t mode;
    bool is_users;
} part;

static const part folders[] = {
    {"etc", 0755, false},      {"home", 0755, false},         {"home/user", 0755, true},
    {"work", 0755, true},      {"tmp", 01777, false},         {"run", 0755, false},
    {"var", 0755, false},      {"var/tmp", 01777, false},     {"var/cache", 0755, false},
    {"var/lib", 0755, false},  {"var/lib/dbus", 0755, false}, {"var/log", 0755, false},
    {"var/mail", 0755, false}, {"var/spool", 0755, false},    {"dev", 0755, false},
    {"dev/pts", 0755, false},  {"dev/shm", 01777, false},     {"proc", 0555, false},
    {"usr", 0755, false},      {"root", 0700, false},         {"opt", 0755, false},
    {"mnt", 0755, false},      {"media", 0755, false},        {"srv", 0755, false},
};

static const char *const nodes[] = {"null", "zero", "full", "random", "urandom", "tty"};

typedef struct link_row {
    const char *path, *target;
} link_row;

static const link_row links[] = {
    {"dev/ptmx", "pts/ptmx"},          {"dev/fd", "/proc/self/fd"},
    {"dev/stdin", "/proc/self/fd/0"},  {"dev/stdout", "/proc/self/fd/1"},
    {"dev/stderr", "/proc/self/fd/2"}, {"var/run", "/run"},
    {"var/lock", "/run/lock"},         {"var/lib/dbus/machine-id", "/etc/machine-id"},
};

static int made(int rc, const char *what, abx_error **err)
{
    if (rc < 0 && errno != EEXIST)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot make '%s' of the skeleton",
                              what);
    return 0;
}

static int make_folders(int root, abx_ids ids, abx_error **err)
{
    for (size_t i = 0; i < ABX_COUNT(folders); i++) {
        const part *p = &folders[i];
        if (made(mkdirat(root, p->path, 0755), p->path, err) < 0 ||
            made(fchmodat(root, p->path, p->mode, 0), p->path, err) < 0)
            return -1;
        /* ids of the inside: a root caller's skeleton is seen through an id map */
        if (p->is_users && ids == ABX_IDS_SLOT &&
            made(fchownat(root, p->path, ABX_INSIDE_UID, ABX_INSIDE_UID, 0), p->path, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < ABX_COUNT(nodes); i++) {
        char path[16];
        snprintf(path, sizeof(path), "dev/%s", nodes[i]);
        int fd = openat(root, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (made(fd, path, err) < 0)
            return -1;
        abx_close_fd(&fd);
    }
    for (size_t i = 0; i < ABX_COUNT(links); i++)
        if (made(symlinkat(links[i].target, root, links[i].path), links[i].path, err) < 0)
            return -1;
    return 0;
}

/* /bin, /lib …: links into /usr as on the host; a host of the old kind has folders, which are bound. */
static int make_usr_links(int root, const char *host, abx_error **err)
{
    static const char *const names[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};
    for (size_t i = 0; i < ABX_COUNT(names); i++) {
        char target[64];
        struct stat st;
        ABX_AUTO_FREE char *path = abx_format("%s/%s", host, names[i]);
        if (lstat(path, &st) < 0)
            continue;
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = 0;
        if (n > 0 && (abx_has_prefix(target, "usr/") || abx_has_prefix(target, "/usr/"))) {
            if (made(symlinkat(target, root, names[i]), names[i], err) < 0)
                return -1;
        } else if (S_ISDIR(st.st_mode) && made(mkdirat(root, names[i], 0755), names[i], err) < 0) {
            return -1;
        }
    }
    return 0;
}

/* --- what lies over the host's /usr/local ------------------------------------------------------------ */

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (abx_str_eq(name, names[i]))
            return true;
    return false;
}

bool abx_local_is_shown(const char *name)
{
    static const char *const shown[] = {"bin",   "lib",   "lib64",  "include",
                                        "share", "games", "libexec"};
    return is_one_of(name, shown, ABX_COUNT(shown));
}

/* An empty folder instead of the host's. */
static int make_opaque(int at, const char *name, abx_error **err)
{
    if (made(mkdirat(at, name, 0755), name, err) < 0)
        return -1;
    ABX_AUTO_FD fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return made(fd < 0 ? -1 : fsetxattr(fd, "user.overlay.opaque", "y", 1, 0), name, err);
}

static int mask_entry(int local, int host_local, const char *name, abx_ids ids, abx_error **err)
{
    char target[64];
    struct stat st;
    if (fstatat(host_local, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (abx_str_eq(name, "man") && S_ISLNK(st.st_mode)) {
        ssize_t n = readlinkat(host_local, name, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = 0;
        if (abx_str_eq(target, "share/man"))
            return 0;
    }
    if (abx_local_is_shown(name)) {
        /* with a single id the host's folder belongs to nobody: one of ours over it can be written */
        if (ids == ABX_IDS_SLOT || !S_ISDIR(st.st_mode))
            return 0;
        return made(mkdirat(local, name, 0755), name, err);
    }
    if (S_ISDIR(st.st_mode) &&
        is_one_of(name, (const char *const[]){"etc", "src", "var", "sbin"}, 4))
        return make_opaque(local, name, err);
    return made(mknodat(local, name, S_IFCHR, makedev(0, 0)), name, err);
}

/* On a file system without what overlays need nothing may be laid over the host's /usr: that is marked. */
static int make_usr_mask(int at, const char *host, abx_ids ids, abx_error **err)
{
    ABX_AUTO_ERROR why = NULL;
    if (made(mkdirat(at, "usr/local", 0755), "usr/local", err) < 0)
        return -1;
    ABX_AUTO_FREE char *path = abx_format("%s/usr/local", host);
    ABX_AUTO_FD local = openat(at, "usr/local", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = opendir(path);
    for (struct dirent *e; d && local >= 0 && !why && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            mask_entry(local, dirfd(d), e->d_name, ids, &why);
    if (d)
        closedir(d);
    if (!why)
        return 0;
    if (why->sys_errno != EOPNOTSUPP && why->sys_errno != EPERM)
        return abx_error_take(err, ABX_TAKE(why));
    return made(mkdirat(at, ABX_SKELETON_BARE, 0755), "mark", err);
}

int abx_skeleton_build(int dirfd, const char *host, abx_ids ids, abx_error **err)
{
    static const char *const parts[] = {"usr", ABX_SKELETON_ROOT, "m", "r", "l"};
    for (size_t i = 0; i < ABX_COUNT(parts); i++)
        if (made(mkdirat(dirfd, parts[i], 0755), parts[i], err) < 0)
            return -1;
    ABX_AUTO_FD root = openat(dirfd, ABX_SKELETON_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (made(root, "root", err) < 0 || make_folders(root, ids, err) < 0 ||
        make_usr_links(root, host, err) < 0)
        return -1;
    ABX_AUTO_FD etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FREE char *path = abx_format("%s/etc", host);
    ABX_AUTO_FD host_etc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (made(etc, "etc", err) < 0 || abx_etc_write(etc, host, ids, err) < 0)
        return -1;
    if (host_etc >= 0 && abx_etc_copy(host_etc, etc, ids, err) < 0)
        return -1;
    return make_usr_mask(dirfd, host, ids, err);
}
