#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"

/* Depth is bounded by the descriptors that one walk may hold: deeper trees are first moved up. */
#define MAX_DEPTH 200

static void note(abx_error **err, int e, const char *name)
{
    if (e != ENOENT)
        abx_fail_errno(err, ABX_ERR_FILE, e, "cannot remove '%s'", name);
}

/* Open a folder for reading and emptying; a mode that forbids it is changed. Names inside are hostile: no link is
 * followed, also when it takes a folder's place between two steps. */
static int open_folder(int dirfd, const char *name)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dirfd, name, flags);
    if (fd < 0 && errno == EACCES && fchmodat(dirfd, name, 0700, AT_SYMLINK_NOFOLLOW) == 0)
        fd = openat(dirfd, name, flags);
    if (fd >= 0 && faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
        (void)fchmod(fd, 0700);
    return fd;
}

static bool is_dots(const char *s)
{
    return s[0] == '.' && (s[1] == 0 || (s[1] == '.' && s[2] == 0));
}

static int remove_at(int top, int dirfd, const char *name, int depth, abx_error **err);

/* Empty an open folder (fd is taken over). */
static void empty_folder(int top, int fd, int depth, abx_error **err)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        note(err, errno, ".");
        close(fd);
        return;
    }
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry)
            break;
        if (!is_dots(entry->d_name))
            remove_at(top, dirfd(dir), entry->d_name, depth + 1, err);
    }
    closedir(dir);
}

/* Move a folder to the top, under a name that nobody can have prepared. */
static int move_up(int top, int dirfd, const char *name)
{
    char id[17];
    abx_random_id(id, 16);
    ABX_AUTO_FREE char *up = abx_format(".deep-%s", id);
    return renameat(dirfd, name, top, up);
}

/* why: what removing it as a file answered */
static int remove_folder(int top, int dirfd, const char *name, int depth, int why, abx_error **err)
{
    int fd = open_folder(dirfd, name);
    if (fd < 0) {
        note(err, errno == ENOTDIR || errno == ELOOP ? why : errno, name);
        return -1;
    }
    if (depth >= MAX_DEPTH) {
        close(fd);
        if (move_up(top, dirfd, name) < 0) {
            note(err, errno, name);
            return -1;
        }
        return 0;
    }
    empty_folder(top, fd, depth, err);
    if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
        note(err, errno, name);
        return -1;
    }
    return 0;
}

static int remove_at(int top, int dirfd, const char *name, int depth, abx_error **err)
{
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM && errno != EACCES) {
        note(err, errno, name);
        return -1;
    }
    return remove_folder(top, dirfd, name, depth, errno, err);
}

int abx_remove_tree_at(int dirfd, const char *name, abx_error **err)
{
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return 0;
    int as_file = errno;
    abx_error *why = NULL;
    int top = open_folder(dirfd, name);
    if (top < 0) {
        int e = errno == ENOTDIR || errno == ELOOP ? as_file : errno;
        note(err, e, name);
        return e == ENOENT ? 0 : -1;
    }
    /* Each pass removes MAX_DEPTH levels; what was deeper has come up and is met by the next one. */
    int rc = -1;
    for (int pass = 0; pass < 100000 && rc < 0; pass++) {
        abx_error_free(ABX_TAKE(why));
        int again = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (again < 0)
            break;
        empty_folder(top, again, 0, &why);
        rc = unlinkat(dirfd, name, AT_REMOVEDIR);
        if (rc < 0 && errno == ENOENT)
            rc = 0;
        if (rc < 0 && (errno != ENOTEMPTY || why))
            break;
    }
    int e = errno;
    close(top);
    if (rc == 0) {
        abx_error_free(why);
        return 0;
    }
    if (why)
        return abx_error_take(err, why);
    return abx_fail_errno(err, ABX_ERR_FILE, e, "cannot remove '%s'", name);
}
