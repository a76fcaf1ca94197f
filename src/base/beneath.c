#include "base/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

#define AGAIN 64 /* times that a path with ".." is tried while others rename */

static int open_how(int dirfd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
        .mode = flags & O_CREAT ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve,
    };
    return (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
}

int abx_open_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
    return open_how(dirfd, path, flags, mode, RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

int abx_open_within(int dirfd, const char *path, int flags)
{
    int fd = -1;
    for (int i = 0; i < AGAIN; i++) {
        fd = open_how(dirfd, path, flags, 0, 0);
        if (fd >= 0 || errno != EAGAIN)
            break;
    }
    return fd;
}

/* By its text alone: does it climb over the root? This also judges what is behind a name that does not exist, where the kernel
 * stops looking. */
static bool climbs(const char *path, const char *target)
{
    size_t depth = 0;
    for (const char *p = path; (p = strchr(p, '/')); p++)
        depth++;
    for (const char *p = target; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') {
            if (depth-- == 0)
                return true;
        } else if (n > 0 && !(n == 1 && p[0] == '.')) {
            depth++;
        }
        p += n + (p[n] == '/');
    }
    return false;
}

int abx_link_stays_beneath(int dirfd, const char *path, const char *target)
{
    if (target[0] == '/' || climbs(path, target)) {
        errno = EXDEV;
        return -1;
    }
    int fd = abx_open_within(dirfd, path, O_PATH);
    if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
        return -1;
    abx_close_fd(&fd);
    return 0;
}

int abx_safe_parent(int root, const char *name, bool make, const char **base)
{
    ABX_AUTO_FD dir = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return -1;
    const char *p = name;
    for (const char *slash; (slash = strchr(p, '/')) != NULL; p = slash + 1) {
        char part[NAME_MAX + 1];
        size_t n = (size_t)(slash - p);
        if (n > NAME_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(part, p, n);
        part[n] = 0;
        if (make && mkdirat(dir, part, 0700) < 0 && errno != EEXIST)
            return -1;
        int next = openat(dir, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return -1;
        abx_close_fd(&dir);
        dir = next;
    }
    *base = p;
    return abx_take_fd(&dir);
}

/* Append the parts of raw to out without "." and empty ones. Returns the reason of a refusal, or NULL. */
static const char *clean_parts(const char *raw, char *out)
{
    size_t len = 0, depth = 0;
    for (const char *p = raw; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.')
            return "it leads out with '..'";
        if (n > 255)
            return "a name in it is longer than 255 bytes";
        if (n > 0 && !(n == 1 && p[0] == '.')) {
            if (++depth > ABX_TREE_DEPTH)
                return "it is too deep";
            if (len > 0)
                out[len++] = '/';
            memcpy(out + len, p, n);
            len += n;
        }
        p += n + (p[n] == '/');
    }
    out[len] = 0;
    return NULL;
}

char *abx_entry_path(const char *raw, const char **why)
{
    size_t len = strlen(raw);
    *why = len == 0 ? "it has no name" : len > ABX_ENTRY_PATH_MAX ? "its name is too long" : NULL;
    if (*why)
        return NULL;
    char *out = (char *)abx_alloc(len + 1);
    *why = clean_parts(raw, out);
    if (!*why)
        return out;
    free(out);
    return NULL;
}
