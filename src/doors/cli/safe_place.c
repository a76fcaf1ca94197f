#include "doors/cli/safe_place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"

char *abx_safe_name(const char *name, abx_error **err)
{
    if (name[0] == '/' || strlen(name) >= (size_t)PATH_MAX) {
        abx_fail(err, ABX_ERR_FILE, "the stream holds the name '%.200s', which may not be used",
                 name);
        return NULL;
    }
    ABX_AUTO_BUF out = ABX_BUF((size_t)PATH_MAX);
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, "/");
        bool dot = n == 1 && p[0] == '.';
        if ((n == 2 && p[0] == '.' && p[1] == '.') || n > NAME_MAX) {
            abx_fail(err, ABX_ERR_FILE, "the stream holds the name '%.200s', which may not be used",
                     name);
            return NULL;
        }
        if (n > 0 && !dot) {
            int rc = out.len ? abx_buf_add_byte(&out, '/') : 0;
            rc |= abx_buf_add(&out, p, n);
            ABX_CHECK(rc == 0);
        }
        p += n + (p[n] == '/');
    }
    return abx_buf_take(&out);
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
