/* Files of control groups, and where groups may be made. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "local/cgroup_inner.h"

enum { MAX_BASES = 16 };

int abx__cgroup_write(const char *folder, const char *file, const char *text)
{
    ABX_AUTO_FREE char *path = abx_path_join(folder, file);
    ABX_AUTO_FD fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -1;
    size_t n = strlen(text);
    ssize_t done = write(fd, text, n);
    if (done >= 0 && (size_t)done != n)
        errno = EIO;
    return done == (ssize_t)n ? 0 : -1;
}

ssize_t abx__cgroup_read(const char *folder, const char *file, char *out, size_t room)
{
    ABX_AUTO_FREE char *path = abx_path_join(folder, file);
    ABX_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : abx_read_full(fd, out, room - 1);
    out[n > 0 ? n : 0] = 0;
    return n;
}

int64_t abx__cgroup_number(const char *folder, const char *file, const char *key)
{
    char text[8192];
    long long value;
    if (abx__cgroup_read(folder, file, text, sizeof(text)) < 0)
        return -1;
    size_t n = strlen(key);
    for (const char *p = text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
        if (strncmp(p, key, n) == 0 && (n == 0 || p[n] == ' ') &&
            sscanf(p + n, "%lld", &value) == 1)
            return value;
    return -1;
}

static bool may_write(const char *folder, const char *file)
{
    ABX_AUTO_FREE char *path = file ? abx_path_join(folder, file) : abx_strdup(folder);
    return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

/* Was this folder given to its unit to divide? The manager of the machine says so by an attribute. */
static bool is_delegated(const char *folder)
{
    char value[4] = "";
    return (getxattr(folder, "trusted.delegate", value, sizeof(value)) > 0 ||
            getxattr(folder, "user.delegate", value, sizeof(value)) > 0) &&
           value[0] == '1';
}

/* Of version 2 an ordinary user takes the folder it is in, or one above that is its own too. root takes its own unit
 * where that was given to it, else the top: in a unit that holds processes itself nothing can be divided. */
static void unified_bases(const abx_cgroup_tree *t, char **list)
{
    size_t n = 0;
    bool root = geteuid() == 0;
    ABX_AUTO_FREE char *at = abx_strdup(t->own);
    size_t top = strlen(t->top);
    while (at && strlen(at) > top && n < MAX_BASES - 2) {
        if (!may_write(at, NULL) || !may_write(at, "cgroup.procs"))
            break;
        if (!root || is_delegated(at))
            list[n++] = abx_strdup(at);
        char *up = abx_path_dir(at);
        free(at);
        at = up;
    }
    if (may_write(t->top, NULL) && may_write(t->top, "cgroup.procs"))
        list[n++] = abx_strdup(t->top);
}

char **abx__cgroup_bases(const abx_cgroup_tree *t)
{
    char **list = (char **)abx_alloc_array(MAX_BASES, sizeof(char *));
    if (t->version == 2) {
        unified_bases(t, list);
    } else if (t->version == 1) {
        const char *own = t->own ? t->own : t->top;
        if (may_write(own, NULL) && may_write(own, "cgroup.procs"))
            list[0] = abx_strdup(own);
    }
    return list;
}

void abx__cgroup_bases_free(char **bases)
{
    for (char **b = bases; b && *b; b++)
        free(*b);
    free(bases);
}
