#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/store_inner.h"

#define LOCK_NAME    ".lock"
#define LOCK_WAIT_MS 60000u /* for another run that changes the store */
#define SYNC_EACH                                                                                  \
    200u /* a plugin of more entries is written with all else of the file system: one call */

static int check_folder(int fd, const char *path, abx_error **err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot use '%s'", path);
    if (st.st_uid != geteuid()) {
        abx_fail(err, ABX_ERR_HOME, "'%s' belongs to another user (uid %u)", path, st.st_uid);
        return abx_hint(err, "chown %u '%s'", geteuid(), path);
    }
    if (st.st_mode & 022) {
        abx_fail(err, ABX_ERR_HOME, "'%s' can be written by others (mode %04o)", path,
                 st.st_mode & 07777);
        return abx_hint(err, "chmod 700 '%s'", path);
    }
    return 0;
}

int abx__store_open(const char *home, abx_error **err)
{
    ABX_AUTO_FREE char *path = abx_path_join(home, "providers");
    ABX_AUTO_FD fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return -1;
    if (fd < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot open '%s'", path);
    return check_folder(fd, path, err) < 0 ? -1 : abx_take_fd(&fd);
}

/* --- the lock ---------------------------------------------------------------------------------------- */

static int take_lock(int dir, const char *home, const abx_store_task *task, abx_error **err)
{
    ABX_AUTO_FD fd = openat(dir, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot change '%s/providers'", home);
    uint64_t until = abx_now_mono_ms() + LOCK_WAIT_MS;
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        struct timespec nap = {.tv_nsec = 20 * 1000 * 1000};
        if (errno != EWOULDBLOCK && errno != EINTR)
            return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot lock '%s/providers'", home);
        if (task && task->tick && task->tick(task->data, 0, 0, err) < 0)
            return -1;
        if (abx_now_mono_ms() > until) {
            abx_fail(err, ABX_ERR_CONFLICT, "another abx changes '%s/providers' for over a minute",
                     home);
            return abx_hint(err, "wait until it ends, then try again");
        }
        nanosleep(&nap, NULL);
    }
    return abx_take_fd(&fd);
}

/* --- what killed runs left ---------------------------------------------------------------------------- */

/* The folder below .links that the link `id` uses, or NULL. Owned. */
static char *used_link(int dir, const char *id)
{
    char target[96];
    ssize_t n = readlinkat(dir, id, target, sizeof(target) - 1);
    if (n < 0)
        return NULL;
    target[n] = 0;
    char *name = target + sizeof(ABX_STORE_LINKS), *end = strrchr(target, '/');
    return abx_has_prefix(target, ABX_STORE_LINKS "/") && end > name
               ? abx_strndup(name, (size_t)(end - name))
               : NULL;
}

static bool is_used(char *const *used, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (abx_str_eq(used[i], name))
            return true;
    return false;
}

/* Folders of links that no link uses. */
static void sweep_links(int dir, char *const *names, size_t count)
{
    char **there = NULL;
    size_t n = 0, used_count = 0;
    ABX_AUTO_FD links =
        openat(dir, ABX_STORE_LINKS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (links < 0 || abx_tree_names(links, &there, &n) < 0)
        return;
    char **used = (char **)abx_alloc_array(count + 1, sizeof(char *));
    for (size_t i = 0; i < count; i++)
        if (names[i][0] != '.' && (used[used_count] = used_link(dir, names[i])))
            used_count++;
    for (size_t i = 0; i < n; i++)
        if (!is_used(used, used_count, there[i]))
            (void)abx_remove_tree_at(links, there[i], NULL);
    abx_tree_names_free(there, n);
    abx_tree_names_free(used, used_count);
}

/* What a run without EXCHANGE moved aside: back, if it was killed before the new one was in place. */
static void put_back(int dir, const char *name)
{
    (void)renameat2(dir, name, dir, name + strlen(ABX_STORE_WAS_PREFIX), RENAME_NOREPLACE);
    (void)abx_remove_tree_at(dir, name, NULL);
}

void abx__store_sweep(int dir)
{
    char **names;
    size_t count;
    if (abx_tree_names(dir, &names, &count) < 0)
        return;
    for (size_t i = 0; i < count; i++) {
        if (abx_has_prefix(names[i], ABX_STORE_NEW_PREFIX) ||
            abx_has_prefix(names[i], ABX_STORE_OLD_PREFIX))
            (void)abx_remove_tree_at(dir, names[i], NULL);
        else if (abx_has_prefix(names[i], ABX_STORE_WAS_PREFIX))
            put_back(dir, names[i]);
    }
    sweep_links(dir, names, count);
    abx_tree_names_free(names, count);
}

void abx__store_sweep_quietly(int dir)
{
    ABX_AUTO_FD lock = openat(dir, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0)
        abx__store_sweep(dir);
}

bool abx__store_put_back(int dir, const char *id)
{
    struct stat st;
    int e = errno;
    ABX_AUTO_FREE char *was = abx_format(ABX_STORE_WAS_PREFIX "%s", id);
    bool aside = false;
    /* Who moved it aside is about to put the new one there, or was killed. */
    for (int i = 0; i < 50 && fstatat(dir, was, &st, AT_SYMLINK_NOFOLLOW) == 0; i++) {
        struct timespec nap = {.tv_nsec = 10 * 1000 * 1000};
        aside = true;
        abx__store_sweep_quietly(dir);
        if (fstatat(dir, id, &st, AT_SYMLINK_NOFOLLOW) == 0)
            break;
        nanosleep(&nap, NULL);
    }
    errno = e;
    return aside;
}

int abx__store_open_locked(const char *home, const abx_store_task *task, int *lock, abx_error **err)
{
    ABX_AUTO_FREE char *path = abx_path_join(home, "providers");
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot make '%s'", path);
    ABX_AUTO_FD dir = abx__store_open(home, err);
    if (dir < 0)
        return -1;
    *lock = take_lock(dir, home, task, err);
    if (*lock < 0)
        return -1;
    abx__store_sweep(dir);
    return abx_take_fd(&dir);
}

/* --- names in the store ------------------------------------------------------------------------------- */

char *abx__store_fresh_name(const char *prefix)
{
    char letters[13];
    abx_random_id(letters, 12);
    return abx_format("%s%s", prefix, letters);
}

static int no_exchange(int e)
{
    return e == EINVAL || e == ENOSYS || e == EOPNOTSUPP;
}

/* In two steps, on a file system that cannot exchange two names; put_back goes back if it ends between them. */
static int switch_slowly(int dir, const char *name, const char *id)
{
    ABX_AUTO_FREE char *was = abx_format(ABX_STORE_WAS_PREFIX "%s", id);
    if (renameat(dir, id, dir, was) < 0)
        return -1;
    if (renameat(dir, name, dir, id) == 0 && renameat(dir, was, dir, name) == 0)
        return 0;
    int e = errno;
    put_back(dir, was);
    errno = e;
    return -1;
}

int abx__store_switch(int dir, const char *name, const char *id, abx_error **err)
{
    struct stat st;
    int rc;
    if (fstatat(dir, id, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        rc = renameat2(dir, name, dir, id, RENAME_EXCHANGE);
        if (rc < 0 && no_exchange(errno))
            rc = switch_slowly(dir, name, id);
    } else {
        rc = renameat(dir, name, dir, id);
    }
    if (rc < 0)
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot put provider '%s' in its place",
                              id);
    if (fsync(dir) < 0)
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot write the store");
    return 0;
}

/* --- making it durable -------------------------------------------------------------------------------- */

static int sync_folder(int fd)
{
    char **names;
    size_t count;
    struct stat st;
    if (abx_tree_names(fd, &names, &count) < 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (fstatat(fd, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISLNK(st.st_mode))
            continue;
        ABX_AUTO_FD in = openat(fd, names[i], O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        rc = in < 0 ? -1 : S_ISDIR(st.st_mode) ? sync_folder(in) : fsync(in);
    }
    abx_tree_names_free(names, count);
    return rc < 0 ? -1 : fsync(fd);
}

int abx__store_sync(int fd, uint64_t entries, abx_error **err)
{
    int rc = entries > SYNC_EACH ? syncfs(fd) : sync_folder(fd);
    return rc < 0 ? abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot write the plugin to the disk")
                  : 0;
}
