#include "local/skeleton.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/copy_tree.h"

#define FORMAT "skeleton 3" /* a change of what is built changes this */

/* What a skeleton is made from: it is built anew when one of these changes. */
static const char *const inputs[] = {
    "/bin",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/ca-certificates.conf",
    "/etc/localtime",
    "/etc/passwd",
    "/etc/group",
    "/etc/fonts",
    "/etc/services",
    "/usr/local",
    "/etc/apt/sources.list.d",
};

static uint64_t mix(uint64_t h, const void *data, size_t n) /* FNV-1a */
{
    const unsigned char *p = (const unsigned char *)data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3ULL;
    return h;
}

static void digest_of(abx_ids ids, char out[17])
{
    uint64_t h = mix(0xcbf29ce484222325ULL, FORMAT, sizeof(FORMAT));
    uint32_t who[2] = {(uint32_t)ids, geteuid()};
    h = mix(h, who, sizeof(who));
    for (size_t i = 0; i < ABX_COUNT(inputs); i++) {
        struct stat st;
        int64_t facts[5] = {-1};
        if (lstat(inputs[i], &st) == 0) {
            facts[0] = (int64_t)st.st_ino;
            facts[1] = st.st_size;
            facts[2] = st.st_mtim.tv_sec;
            facts[3] = st.st_mtim.tv_nsec;
            facts[4] = st.st_mode;
        }
        h = mix(h, facts, sizeof(facts));
    }
    snprintf(out, 17, "%016" PRIx64, h);
}

static bool exists(abx_local *local, const char *digest)
{
    struct stat st;
    return fstatat(local->skeleton_fd, digest, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The lock of all skeletons: the folder itself. A new description each time, since locks belong to it. */
static int lock_all(abx_local *local, int how, abx_error **err)
{
    int fd = openat(local->skeleton_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && flock(fd, how) == 0)
        return fd;
    abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot lock '%s/skeleton'", local->base);
    abx_close_fd(&fd);
    return -1;
}

/* Built beside its place and renamed: what has its name is whole. */
static int build(abx_local *local, const char *digest, abx_ids ids, abx_error **err)
{
    ABX_AUTO_FD lock = openat(local->base_fd, "skeleton.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0 || flock(lock, LOCK_EX) < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot lock '%s/skeleton.lock'",
                              local->base);
    if (exists(local, digest))
        return 0; /* somebody else built it while we waited */
    char name[32] = ".new-";
    abx_random_id(name + strlen(name), 12);
    if (mkdirat(local->skeleton_fd, name, 0755) < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot make a skeleton in '%s'",
                              local->base);
    mode_t mask = umask(0);
    ABX_AUTO_FD fd = openat(local->skeleton_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 ? -1 : abx_skeleton_build(fd, "", ids, err);
    umask(mask);
    if (rc == 0 && renameat(local->skeleton_fd, name, local->skeleton_fd, digest) < 0)
        rc = -1;
    if (rc < 0) {
        abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot make a skeleton in '%s'",
                       local->base);
        (void)abx_remove_tree_at(local->skeleton_fd, name, NULL);
    }
    return rc;
}

int abx_skeleton_use(abx_local *local, abx_plan *plan, abx_error **err)
{
    digest_of(plan->ids, plan->digest);
    int lock = lock_all(local, LOCK_SH, err);
    if (lock < 0)
        return -1;
    char bare[40];
    if (!exists(local, plan->digest) && build(local, plan->digest, plan->ids, err) < 0) {
        close(lock);
        return -1;
    }
    snprintf(bare, sizeof(bare), "%s/" ABX_SKELETON_BARE, plan->digest);
    plan->copied_root = plan->copied_root || exists(local, bare);
    if (plan->ids == ABX_IDS_SLOT)
        snprintf(plan->skeleton, sizeof(plan->skeleton), "/usr");
    else
        snprintf(plan->skeleton, sizeof(plan->skeleton), "../../skeleton/%s", plan->digest);
    return lock;
}

int abx_skeleton_copy(abx_local *local, const char *digest, int to, uid_t shift, abx_error **err)
{
    ABX_AUTO_FREE char *from = abx_format("%s/" ABX_SKELETON_ROOT, digest);
    (void)unlinkat(to, "up", AT_REMOVEDIR); /* an empty one, of a prepared folder */
    return abx_copy_tree(local->skeleton_fd, from, to, "up", shift, err);
}

static bool is_used(const char *name, char *const *used, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (abx_str_eq(name, used[i]))
            return true;
    return false;
}

int abx_skeleton_sweep(abx_local *local, char *const *used, size_t n, bool dry)
{
    if (local->skeleton_fd < 0)
        return 0;
    /* Whoever makes a sandbox holds the shared lock: then nothing is removed this time. */
    ABX_AUTO_FD lock = lock_all(local, LOCK_EX | LOCK_NB, NULL);
    if (lock < 0)
        return 0;
    int fd = openat(local->skeleton_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    char now[3][17];
    int removed = 0;
    for (int ids = 0; ids < 3; ids++)
        digest_of((abx_ids)ids, now[ids]);
    for (struct dirent *e; d && (e = readdir(d));) {
        const char *name = e->d_name;
        if (abx_str_eq(name, ".") || abx_str_eq(name, "..") || is_used(name, used, n) ||
            abx_str_eq(name, now[0]) || abx_str_eq(name, now[1]) || abx_str_eq(name, now[2]))
            continue;
        if (dry || abx_remove_tree_at(local->skeleton_fd, name, NULL) == 0)
            removed++;
    }
    if (d)
        closedir(d);
    return removed;
}
