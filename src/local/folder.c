#include "local/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/id.h"
#include "base/mem.h"
#include "local/pool.h"

int abx_folder_open(abx_local *local, const char *id)
{
    if (!abx_is_id(id)) {
        errno = ENOENT;
        return -1;
    }
    if (local->sandboxes_fd < 0)
        abx_local_look(local);
    if (local->sandboxes_fd < 0) {
        errno = ENOENT;
        return -1;
    }
    return openat(local->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

int abx_folder_not_there(const char *id, abx_error **err)
{
    if (errno == EMFILE || errno == ENFILE)
        return abx_fail_errno(err, ABX_ERR_QUOTA, errno, "cannot look at sandbox '%s'", id);
    return abx_fail(err, ABX_ERR_SANDBOX_NOT_FOUND, "sandbox '%s' does not live", id);
}

int abx_folder_alive(int folder_fd)
{
    int fd = openat(folder_fd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno != ENOENT;
    /* shared: two who look at the same time do not take each other for the sandbox */
    int alive = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    close(fd);
    return alive;
}

static int check_space(int fd, const char *base, abx_error **err)
{
    struct statvfs st;
    if (fstatvfs(fd, &st) < 0 || st.f_blocks == 0)
        return 0;
    if ((uint64_t)st.f_bavail * st.f_frsize >= ABX_FREE_DISK_BYTES)
        return 0;
    abx_fail(err, ABX_ERR_NO_SPACE, "less than 200 MiB are free where '%s' lies", base);
    return abx_hint(err, "free some space, or set ABX_HOME to a folder on another disk");
}

/* A cleaner may meet the new folder before its lock is held, and take it away: then it is made again. */
int abx_folder_make(abx_local *local, const char *id, abx_folder *out, abx_error **err)
{
    out->fd = out->lock = -1;
    if (check_space(local->sandboxes_fd, local->base, err) < 0)
        return -1;
    for (int attempt = 0; attempt < 8; attempt++) {
        if (!abx_pool_take(local, id) && mkdirat(local->sandboxes_fd, id, 0700) < 0) {
            if (errno == EEXIST)
                return abx_fail(err, ABX_ERR_CONFLICT, "sandbox '%s' exists already", id);
            return abx_fail_errno(
                err, errno == EROFS || errno == EACCES ? ABX_ERR_HOME : ABX_ERR_LOCAL_STATE, errno,
                "cannot make a folder in '%s/sandboxes'", local->base);
        }
        struct stat st, named;
        out->fd = abx_folder_open(local, id);
        out->lock = out->fd < 0
                        ? -1
                        : openat(out->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (out->lock >= 0 && flock(out->lock, LOCK_EX) == 0 && fstat(out->fd, &st) == 0 &&
            fstatat(local->sandboxes_fd, id, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
            st.st_ino == named.st_ino && st.st_dev == named.st_dev)
            return 0;
        int e = errno;
        abx_folder_clear(out);
        if (e != ENOENT && e != 0 && e != EEXIST)
            return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, e, "cannot lock sandbox '%s'", id);
    }
    return abx_fail(err, ABX_ERR_LOCAL_STATE, "cannot lock sandbox '%s'", id);
}

void abx_folder_clear(abx_folder *folder)
{
    abx_close_fd(&folder->fd);
    abx_close_fd(&folder->lock);
}

/* --- parts ------------------------------------------------------------------------------------------- */

static int make_part(int dirfd, const char *name, mode_t mode, const abx_plan *plan,
                     abx_error **err)
{
    if (mkdirat(dirfd, name, mode) < 0 && errno != EEXIST) /* a prepared folder has it */
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot make folder '%s'", name);
    uid_t owner = plan->outer_uid - ABX_INSIDE_UID; /* id 0 of the slot */
    if (plan->ids == ABX_IDS_SLOT && fchownat(dirfd, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot give away '%s'", name);
    return 0;
}

int abx_folder_fill(const abx_folder *folder, const abx_plan *plan, abx_error **err)
{
    ABX_AUTO_FD place = plan->upper ? open(plan->upper, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (plan->upper && place < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot open '%s'", plan->upper);
    int at = place >= 0 ? place : folder->fd;
    /* the ids of a slot pass through, to names that they know */
    if (plan->ids == ABX_IDS_SLOT && fchmod(at, 0711) < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot open the folder to its ids");
    if (plan->copied_root)
        return 0;
    if (make_part(at, "up", 0755, plan, err) < 0 || make_part(at, "wk", 0755, plan, err) < 0)
        return -1;
    /* where the skeleton is bound when the layers lie elsewhere */
    return plan->upper && plan->ids != ABX_IDS_SLOT ? make_part(at, "k", 0755, plan, err) : 0;
}

/* --- the socket -------------------------------------------------------------------------------------- */

/* An address through the folder's descriptor: no path is too long for it. */
int abx_folder_socket(const abx_folder *folder, abx_error **err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ABX_AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot make a socket");
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/s", folder->fd);
    /* the mode that bind gives */
    if (fchmod(fd, 0600) < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot bind the sandbox's socket");
    return abx_take_fd(&fd);
}
