#include "local/copy_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

static int copy_bytes(int from, int to)
{
    for (;;) {
        ssize_t n = sendfile(to, from, NULL, 1 << 20);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -1;
    }
}

static int copy_one(int from, const char *name, int to, const char *to_name, const struct stat *st)
{
    if (S_ISLNK(st->st_mode)) {
        char target[4096];
        ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);
        if (n < 0)
            return -1;
        target[n] = 0;
        return symlinkat(target, to, to_name);
    }
    if (!S_ISREG(st->st_mode))
        return 0;
    ABX_AUTO_FD in = openat(from, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ABX_AUTO_FD out = openat(to, to_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return in < 0 || out < 0 ? -1 : copy_bytes(in, out);
}

static int copy_entry(int from, const char *name, int to, const char *to_name, uid_t shift);

static int copy_folder(int from, const char *name, int to, const char *to_name, uid_t shift)
{
    if (mkdirat(to, to_name, 0700) < 0)
        return -1;
    int fd = openat(from, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    ABX_AUTO_FD below = openat(to, to_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    int rc = d && below >= 0 ? 0 : -1;
    for (struct dirent *e; rc == 0 && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = copy_entry(dirfd(d), e->d_name, below, e->d_name, shift);
    int e = errno;
    if (d)
        closedir(d);
    errno = e;
    return rc;
}

static int copy_entry(int from, const char *name, int to, const char *to_name, uid_t shift)
{
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    int rc = S_ISDIR(st.st_mode) ? copy_folder(from, name, to, to_name, shift)
                                 : copy_one(from, name, to, to_name, &st);
    if (rc == 0 && shift > 0)
        rc = fchownat(to, to_name, st.st_uid + shift, st.st_gid + shift, AT_SYMLINK_NOFOLLOW);
    if (rc == 0 && !S_ISLNK(st.st_mode) && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        rc = fchmodat(to, to_name, st.st_mode & 07777, 0);
    return rc;
}

int abx_copy_tree(int from, const char *name, int to, const char *to_name, uid_t shift,
                  abx_error **err)
{
    if (copy_entry(from, name, to, to_name, shift) < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot copy '%s'", name);
    return 0;
}
