#include "local/pool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"

#define POOL_SIZE   4
#define NO_REPLACE  1u /* of renameat2 */
#define HALF_OLD_MS 60000

static int rename_new(int from, const char *name, int to, const char *new_name)
{
    return (int)syscall(SYS_renameat2, from, name, to, new_name, NO_REPLACE);
}

bool abx_pool_take(abx_local *local, const char *id)
{
    char name[24];
    for (int i = 0; i < POOL_SIZE; i++) {
        snprintf(name, sizeof(name), "pool/%d", i);
        if (rename_new(local->base_fd, name, local->sandboxes_fd, id) == 0)
            return true;
        if (errno != ENOENT)
            return false;
    }
    return false;
}

static int prepare(int pool, const char *name)
{
    if (mkdirat(pool, name, 0700) < 0)
        return -1;
    ABX_AUTO_FD fd = openat(pool, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    ABX_AUTO_FD lock =
        fd < 0 ? -1 : openat(fd, "lock", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (lock < 0 || mkdirat(fd, "up", 0755) < 0 || mkdirat(fd, "wk", 0755) < 0)
        return -1;
    return 0;
}

void abx_pool_fill(abx_local *local)
{
    if (mkdirat(local->base_fd, "pool", 0700) < 0 && errno != EEXIST)
        return;
    ABX_AUTO_FD pool =
        openat(local->base_fd, "pool", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    mode_t mask = umask(0);
    for (int i = 0; i < POOL_SIZE && pool >= 0; i++) {
        char temp[24] = ".", name[16];
        struct stat st;
        snprintf(name, sizeof(name), "%d", i);
        if (fstatat(pool, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            continue;
        abx_random_id(temp + 1, 16);
        if (prepare(pool, temp) < 0 || rename_new(pool, temp, pool, name) < 0) {
            (void)abx_remove_tree_at(pool, temp, NULL);
            break;
        }
    }
    umask(mask);
}

void abx_pool_sweep(abx_local *local)
{
    int fd = local->base_fd < 0
                 ? -1
                 : openat(local->base_fd, "pool", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct stat st;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] != '.' || !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (abx_now_wall_ms() - (int64_t)st.st_mtime * 1000 > HALF_OLD_MS) /* nobody works on it */
            (void)abx_remove_tree_at(dirfd(d), e->d_name, NULL);
    }
    if (d)
        closedir(d);
}
