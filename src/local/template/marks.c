#include "local/template/marks.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define OPAQUE "user.overlay.opaque"

bool abx_is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

bool abx_is_opaque(int fd)
{
    char value = 0;
    return fgetxattr(fd, OPAQUE, &value, 1) == 1 && value == 'y';
}

int abx_make_opaque(int fd)
{
    return fsetxattr(fd, OPAQUE, "y", 1, 0);
}
