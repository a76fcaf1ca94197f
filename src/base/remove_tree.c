#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"

/* Depth is bounded by the descriptors that one walk may hold: deeper trees are first moved up. */
#define MAX_DEPTH  200
#define CLOCK_EACH 64u /* removals between two looks at the clock */

typedef struct walk {
    int top;
    uint64_t until_ms; /* ABX_FOREVER: to the end */
    unsigned removed;
    bool over; /* the time is */
    abx_error *why;
} walk;

static void note(abx_error **err, int e, const char *name)
{
    if (e != ENOENT)
        abx_fail_errno(err, ABX_ERR_FILE, e, "cannot remove '%s'", name);
}

static bool is_over(walk *w)
{
    if (w->until_ms != ABX_FOREVER && !w->over && w->removed++ % CLOCK_EACH == CLOCK_EACH - 1)
        w->over = abx_now_mono_ms() >= w->until_ms;
    return w->over;
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

static int remove_at(walk *w, int dirfd, const char *name, int depth);

/* Empty an open folder (fd is taken over). */
static void empty_folder(walk *w, int fd, int depth)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        note(&w->why, errno, ".");
        close(fd);
        return;
    }
    while (!is_over(w)) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry)
            break;
        if (!is_dots(entry->d_name))
            remove_at(w, dirfd(dir), entry->d_name, depth + 1);
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

/* as_file: what removing it as a file answered */
static int remove_folder(walk *w, int dirfd, const char *name, int depth, int as_file)
{
    int fd = open_folder(dirfd, name);
    if (fd < 0) {
        note(&w->why, errno == ENOTDIR || errno == ELOOP ? as_file : errno, name);
        return -1;
    }
    if (depth >= MAX_DEPTH) {
        close(fd);
        if (move_up(w->top, dirfd, name) < 0) {
            note(&w->why, errno, name);
            return -1;
        }
        return 0;
    }
    empty_folder(w, fd, depth);
    if (w->over)
        return -1;
    if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
        note(&w->why, errno, name);
        return -1;
    }
    return 0;
}

static int remove_at(walk *w, int dirfd, const char *name, int depth)
{
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM && errno != EACCES) {
        note(&w->why, errno, name);
        return -1;
    }
    return remove_folder(w, dirfd, name, depth, errno);
}

/* Each pass removes MAX_DEPTH levels; what was deeper has come up and is met by the next one. 0; -1 with errno, or the time is
 * over, or why. */
static int remove_passes(walk *w, int dirfd, const char *name)
{
    int rc = -1;
    for (int pass = 0; pass < 100000 && rc < 0; pass++) {
        abx_error_free(ABX_TAKE(w->why));
        int again = openat(w->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (again < 0)
            break;
        empty_folder(w, again, 0);
        if (w->over)
            return -1;
        rc = unlinkat(dirfd, name, AT_REMOVEDIR);
        if (rc < 0 && errno == ENOENT)
            rc = 0;
        if (rc < 0 && (errno != ENOTEMPTY || w->why))
            break;
    }
    return rc;
}

int abx_remove_tree_until(int dirfd, const char *name, uint64_t until_ms, abx_error **err)
{
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return 0;
    int as_file = errno;
    walk w = {.top = open_folder(dirfd, name), .until_ms = until_ms};
    if (w.top < 0) {
        int e = errno == ENOTDIR || errno == ELOOP ? as_file : errno;
        note(err, e, name);
        return e == ENOENT ? 0 : -1;
    }
    int rc = remove_passes(&w, dirfd, name);
    int e = errno;
    close(w.top);
    if (rc == 0)
        abx_error_free(ABX_TAKE(w.why));
    if (w.why) /* another call would meet it again */
        return abx_error_take(err, w.why);
    if (rc == 0 || w.over)
        return rc == 0 ? 0 : 1;
    return abx_fail_errno(err, ABX_ERR_FILE, e, "cannot remove '%s'", name);
}

int abx_remove_tree_at(int dirfd, const char *name, abx_error **err)
{
    return abx_remove_tree_until(dirfd, name, ABX_FOREVER, err);
}
