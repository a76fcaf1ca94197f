#include "local/template/tree_xattr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/mem.h"
#include "base/text.h"

#define LIST_MAX  ((size_t)64 << 10)
#define TOTAL_MAX ((size_t)64 << 10)

static bool is_taken(const char *key, bool layer, bool last)
{
    static const char own[] = "user.overlay.";
    if (!abx_has_prefix(key, "user."))
        return false;
    if (!abx_has_prefix(key, own))
        return true;
    const char *rest = key + sizeof(own) - 1;
    if (!layer)
        return false;
    if (abx_has_prefix(rest, "overlay."))
        return true; /* what a program inside called user.overlay.… */
    return !last && (strcmp(rest, "opaque") == 0 || strcmp(rest, "whiteout") == 0);
}

int abx_tree_xattr_copy(int in, int out, bool layer, bool last)
{
    ssize_t n = flistxattr(in, NULL, 0);
    if (n <= 0)
        return n < 0 && errno != EOPNOTSUPP && errno != EPERM ? -1 : 0;
    if ((size_t)n > LIST_MAX) {
        errno = E2BIG;
        return -1;
    }
    ABX_AUTO_FREE char *list = (char *)abx_alloc(LIST_MAX + 1);
    ABX_AUTO_FREE char *value = (char *)abx_alloc(TOTAL_MAX);
    size_t total = 0;
    n = flistxattr(in, list, LIST_MAX);
    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(list + at) + 1) {
        const char *key = list + at;
        if (!is_taken(key, layer, last))
            continue;
        ssize_t len = fgetxattr(in, key, value, TOTAL_MAX);
        if (len < 0)
            continue;
        total += (size_t)len;
        if (total > TOTAL_MAX) {
            errno = E2BIG;
            return -1;
        }
        if (fsetxattr(out, key, value, (size_t)len, 0) < 0 && errno != EOPNOTSUPP)
            return -1;
    }
    return 0;
}
