#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/id.h"
#include "base/mem.h"

char *abx_path_join(const char *dir, const char *name)
{
    size_t n = strlen(dir);
    return abx_format(n && dir[n - 1] == '/' ? "%s%s" : "%s/%s", dir, name);
}

const char *abx_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *abx_path_dir(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return abx_strdup(".");
    return slash == path ? abx_strdup("/") : abx_strndup(path, (size_t)(slash - path));
}

int abx_make_dirs(const char *path, mode_t mode, abx_error **err)
{
    if (!*path)
        return abx_fail(err, ABX_ERR_FILE, "an empty path is no folder");
    ABX_AUTO_FREE char *copy = abx_strdup(path);
    for (char *p = copy + 1;; p++) {
        if (*p != '/' && *p != 0)
            continue;
        char keep = *p;
        *p = 0;
        /* The mode is meant whatever the caller's umask is: the next level must be reachable. */
        int made = mkdir(copy, mode);
        if (made == 0 && chmod(copy, mode) < 0)
            return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot make folder '%s'", copy);
        if (made < 0 && errno != EEXIST) {
            int e = errno;
            struct stat st;
            if (stat(copy, &st) < 0 || !S_ISDIR(st.st_mode))
                return abx_fail_errno(err, ABX_ERR_FILE, e, "cannot make folder '%s'", copy);
        }
        *p = keep;
        if (!keep)
            break;
    }
    struct stat st;
    if (stat(path, &st) < 0)
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot use folder '%s'", path);
    if (!S_ISDIR(st.st_mode))
        return abx_fail(err, ABX_ERR_FILE, "'%s' is no folder", path);
    return 0;
}

int abx_read_file_at(int dirfd, const char *path, size_t max, abx_buf *out, abx_error **err)
{
    ABX_AUTO_FD fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 1;
    if (fd < 0)
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot open '%s'", path);
    return abx_read_open_file(fd, path, max, out, err);
}

int abx_read_open_file(int fd, const char *path, size_t max, abx_buf *out, abx_error **err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot stat '%s'", path);
    if (S_ISDIR(st.st_mode))
        return abx_fail(err, ABX_ERR_FILE, "'%s' is a folder, not a file", path);
    abx_buf_init(out, max);
    for (;;) {
        size_t step = S_ISREG(st.st_mode) && out->len < (size_t)st.st_size
                          ? (size_t)st.st_size - out->len + 1
                          : 4096;
        if (step > max - out->len)
            step = max - out->len;
        char probe;
        uint8_t *room = step ? abx_buf_room(out, step) : (uint8_t *)&probe;
        ssize_t got = read(fd, room, step ? step : 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            int e = errno;
            abx_buf_clear(out);
            return abx_fail_errno(err, ABX_ERR_FILE, e, "cannot read '%s'", path);
        }
        if (got == 0)
            break;
        if (step == 0) {
            abx_buf_clear(out);
            return abx_fail(err, ABX_ERR_TOO_LARGE, "'%s' is longer than %zu bytes", path, max);
        }
        abx_buf_grow(out, (size_t)got);
        if (st.st_size > 0 && out->len == (size_t)st.st_size && (size_t)got < step)
            break; /* fewer bytes than asked for: the end (files of /proc have no size) */
    }
    return 0;
}

int abx_read_file(const char *path, size_t max, abx_buf *out, abx_error **err)
{
    return abx_read_file_at(AT_FDCWD, path, max, out, err);
}

static int write_temporary(int fd, const char *name, const void *data, size_t n, mode_t mode,
                           bool durable, abx_error **err)
{
    if (fchmod(fd, mode) < 0 || abx_write_full(fd, data, n) < 0 || (durable && fsync(fd) < 0))
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot write '%s'", name);
    return 0;
}

int abx_write_atomic_at(int dirfd, const char *name, const void *data, size_t n, mode_t mode,
                        bool durable, abx_error **err)
{
    char suffix[9];
    abx_random_id(suffix, 8);
    ABX_AUTO_FREE char *dir = abx_path_dir(name);
    ABX_AUTO_FREE char *tmp = abx_format("%s/.%s.tmp", dir, suffix);
    int fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot write '%s'", name);
    int rc = write_temporary(fd, name, data, n, mode, durable, err);
    if (close(fd) < 0 && rc == 0)
        rc = abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot write '%s'", name);
    if (rc == 0 && renameat(dirfd, tmp, dirfd, name) < 0)
        rc = abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot replace '%s'", name);
    if (rc < 0) {
        unlinkat(dirfd, tmp, 0);
        return rc;
    }
    if (durable) {
        ABX_AUTO_FD d = openat(dirfd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (d >= 0)
            (void)fsync(d);
    }
    return 0;
}

int abx_write_atomic(const char *path, const void *data, size_t n, mode_t mode, bool durable,
                     abx_error **err)
{
    return abx_write_atomic_at(AT_FDCWD, path, data, n, mode, durable, err);
}

static bool is_temporary(const char *name)
{
    size_t n = strlen(name);
    return n == 13 && name[0] == '.' && strcmp(name + n - 4, ".tmp") == 0 &&
           strspn(name + 1, "abcdefghijklmnopqrstuvwxyz0123456789") == 8;
}

int abx_sweep_temporaries(int dirfd, int older_s)
{
    int removed = 0, fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        abx_close_fd(&fd);
        return 0;
    }
    time_t now = time(NULL);
    struct stat st;
    for (struct dirent *e; (e = readdir(d));)
        if (is_temporary(e->d_name) && fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode) && st.st_mtime < now - older_s && unlinkat(fd, e->d_name, 0) == 0)
            removed++;
    closedir(d);
    return removed;
}
