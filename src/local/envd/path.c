#include "local/envd/inner.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

const char *abx__errno_text(int err, char out[96])
{
    const char *text = strerrordesc_np(err);
    (void)snprintf(out, 96, "%s", text ? text : "unknown error");
    out[0] = (char)tolower((unsigned char)out[0]);
    return out;
}

/* "." and ".." and doubled slashes out of an absolute path, in place. */
static void clean(char *path)
{
    char *out = path;
    const char *in = path;
    while (*in) {
        while (*in == '/')
            in++;
        size_t n = strcspn(in, "/");
        if (n == 2 && in[0] == '.' && in[1] == '.') {
            while (out > path && *--out != '/')
                ;
        } else if (n > 0 && !(n == 1 && in[0] == '.')) {
            *out++ = '/';
            memmove(out, in, n);
            out += n;
        }
        in += n;
    }
    if (out == path)
        *out++ = '/';
    *out = 0;
}

char *abx__path_resolve(const abx_envd *e, const char *path, const abx__user *u)
{
    if (!*path)
        return abx_strdup(e->workdir ? e->workdir : u->home);
    if (*path == '/')
        return abx_strdup(path);
    if (*path == '~') {
        if (path[1] && path[1] != '/')
            return NULL;
        path++;
    }
    char *full = abx_format("%s/%s", u->home, path);
    clean(full);
    return full;
}

bool abx__is_proc(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

/* The layout of this process's memory, which nobody else inside may see. */
static bool tells_own_memory(int fd)
{
    char link[32], path[256];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = abx__is_proc(fd) ? readlink(link, path, sizeof(path) - 1) : -1;
    if (n < 0)
        return false;
    path[n] = 0;
    return abx_has_prefix(path, "/proc/1/") && strstr(strrchr(path, '/'), "maps");
}

int abx__open_user(const char *path, int flags, mode_t mode)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY),
                           .mode = flags & O_CREAT ? mode : 0,
                           .resolve = RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
    struct stat st;
    if (fd < 0 && errno == ELOOP && stat(path, &st) == 0)
        errno = EACCES; /* no circle: a door into what pid 1 holds */
    if (fd < 0 || !tells_own_memory(fd))
        return fd;
    abx_close_fd(&fd);
    errno = EACCES;
    return -1;
}

int abx__path_member(abx_e2b_call *c, yyjson_val *request, const char *key, const char *what,
                     const char **out)
{
    yyjson_val *v = abx_json_get(request, key);
    *out = v && yyjson_is_str(v) ? yyjson_get_str(v) : "";
    if (!v || strlen(*out) == yyjson_get_len(v))
        return 0;
    abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL, "%s %s: invalid argument", what, *out);
    return -1;
}

int abx__make_parents(const abx_envd *e, const char *path, bool whole, const abx__user *u,
                      const char **what, char at[4096])
{
    *what = "mkdir";
    if (strlen(path) >= 4096) {
        at[0] = 0;
        errno = ENAMETOOLONG;
        return -1;
    }
    size_t len = strlen(path);
    if (!whole)
        while (len > 0 && path[len - 1] != '/')
            len--;
    for (size_t i = 1; i <= len; i++) {
        if (i < len && path[i] != '/')
            continue;
        if (path[i - 1] == '/')
            continue;
        memcpy(at, path, i);
        at[i] = 0;
        struct stat st;
        if (stat(at, &st) == 0) {
            if (S_ISDIR(st.st_mode))
                continue;
            *what = "file";
            errno = ENOTDIR;
            return -1;
        }
        if (mkdir(at, 0755) < 0 && errno != EEXIST)
            return -1;
        *what = "chown";
        if (abx__own_path(e, at, u) < 0)
            return -1;
        *what = "mkdir";
    }
    return 0;
}
