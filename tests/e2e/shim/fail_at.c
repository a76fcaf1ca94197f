/* Preloaded into a program: the loss of power, or a broken disk, at the n-th step that changes a file system.
 *     FAIL_AT=N      which of them, from 1
 *     FAIL_HOW       "error": it and all that follow fail with EIO; "once": it alone; "die": the process is killed before it;
 *                    "torn": a write puts down half of its bytes first, then as "die"
 *     FAIL_MARK      a file that is made when it happens
 *     FAIL_EXCHANGE  set: the file system cannot exchange two names
 * Counted are writes to regular files, fsync, and all that makes, renames, links or removes a name. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC visibility push(default)

static long fail_at, seen;
static char how, mark[4096];

__attribute__((constructor)) static void read_orders(void)
{
    const char *at = getenv("FAIL_AT"), *as = getenv("FAIL_HOW"), *where = getenv("FAIL_MARK");
    fail_at = at ? strtol(at, NULL, 10) : 0;
    how = as ? *as : 'e';
    (void)snprintf(mark, sizeof(mark), "%s", where ? where : "");
}

/* True: this step fails. With "torn", half of what is given is written first. */
static bool fails(int fd, const void *bytes, size_t n)
{
    if (fail_at == 0 || ++seen < fail_at || (how == 'o' && seen > fail_at))
        return false;
    if (seen == fail_at) {
        int made = (int)syscall(SYS_openat, AT_FDCWD, mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (made >= 0)
            (void)syscall(SYS_close, made);
    }
    if (how == 't' && bytes)
        (void)syscall(SYS_write, fd, bytes, n / 2);
    if (how == 't' || how == 'd')
        (void)syscall(SYS_kill, getpid(), SIGKILL);
    errno = EIO;
    return true;
}

static bool is_regular(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    int before = errno;
    if (is_regular(fd) && fails(fd, bytes, n))
        return -1;
    errno = before;
    return syscall(SYS_write, fd, bytes, n);
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at)
{
    if (is_regular(fd) && fails(fd, NULL, 0))
        return -1;
    return syscall(SYS_pwrite64, fd, bytes, n, at);
}

int fsync(int fd)
{
    return fails(fd, NULL, 0) ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return fails(fd, NULL, 0) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int rename(const char *from, const char *to)
{
    return fails(-1, NULL, 0) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat(int a, const char *from, int b, const char *to)
{
    return fails(-1, NULL, 0) ? -1 : (int)syscall(SYS_renameat2, a, from, b, to, 0);
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    if (flags & RENAME_EXCHANGE && getenv("FAIL_EXCHANGE")) {
        errno = EINVAL;
        return -1;
    }
    return fails(-1, NULL, 0) ? -1 : (int)syscall(SYS_renameat2, a, from, b, to, flags);
}

int linkat(int a, const char *from, int b, const char *to, int flags)
{
    return fails(-1, NULL, 0) ? -1 : (int)syscall(SYS_linkat, a, from, b, to, flags);
}

int mkdir(const char *path, mode_t mode)
{
    return fails(-1, NULL, 0) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int mkdirat(int fd, const char *path, mode_t mode)
{
    return fails(-1, NULL, 0) ? -1 : (int)syscall(SYS_mkdirat, fd, path, mode);
}

int unlink(const char *path)
{
    return fails(-1, NULL, 0) ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int unlinkat(int fd, const char *path, int flags)
{
    return fails(-1, NULL, 0) ? -1 : (int)syscall(SYS_unlinkat, fd, path, flags);
}

int symlinkat(const char *target, int fd, const char *path)
{
    return fails(-1, NULL, 0) ? -1 : (int)syscall(SYS_symlinkat, target, fd, path);
}

static int open_counted(int fd, const char *path, int flags, mode_t mode)
{
    if (flags & O_CREAT && fails(-1, NULL, 0))
        return -1;
    return (int)syscall(SYS_openat, fd, path, flags, mode);
}

#define MODE_OF(flags)                                                                             \
    mode_t mode = 0;                                                                               \
    if ((flags) & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) {                                        \
        va_list ap;                                                                                \
        va_start(ap, flags);                                                                       \
        mode = va_arg(ap, mode_t);                                                                 \
        va_end(ap);                                                                                \
    }

int open64(const char *path, int flags, ...)
{
    MODE_OF(flags)
    return open_counted(AT_FDCWD, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    MODE_OF(flags)
    return open_counted(AT_FDCWD, path, flags, mode);
}

int openat64(int fd, const char *path, int flags, ...)
{
    MODE_OF(flags)
    return open_counted(fd, path, flags, mode);
}

int openat(int fd, const char *path, int flags, ...)
{
    MODE_OF(flags)
    return open_counted(fd, path, flags, mode);
}
