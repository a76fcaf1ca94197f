/* EntryInfo of a path. Where it differs from plain stat (a link shows its target's type), E2B's clients want it so;
 * the members of ours tell the path itself. */
#include "local/envd/inner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define META_PREFIX "user.e2b."

static void permissions(mode_t mode, char out[24])
{
    char *at = out;
    if (S_ISDIR(mode))
        *at++ = 'd';
    else if (S_ISLNK(mode))
        *at++ = 'L';
    else if (S_ISFIFO(mode))
        *at++ = 'p';
    else if (S_ISSOCK(mode))
        *at++ = 'S';
    else if (S_ISBLK(mode) || S_ISCHR(mode))
        *at++ = 'D';
    if (mode & S_ISUID)
        *at++ = 'u';
    if (mode & S_ISGID)
        *at++ = 'g';
    if (S_ISCHR(mode))
        *at++ = 'c';
    if (mode & S_ISVTX)
        *at++ = 't';
    if (at == out)
        *at++ = '-';
    for (int bit = 8; bit >= 0; bit--)
        *at++ = mode & (1U << bit) ? "xwr"[bit % 3] : '-';
    *at = 0;
}

static const char *e2b_type(mode_t mode)
{
    return S_ISREG(mode) ? "FILE_TYPE_FILE" : S_ISDIR(mode) ? "FILE_TYPE_DIRECTORY" : NULL;
}

static const char *own_type(mode_t mode)
{
    return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "dir" : S_ISLNK(mode) ? "symlink" : "other";
}

/* Names are bytes; JSON is text: what is no UTF-8 is shown escaped. */
static void put_name(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key, const char *text)
{
    if (abx_utf8_valid(text, strlen(text))) {
        abx_mut_str(d, obj, key, text);
        return;
    }
    ABX_AUTO_FREE char *shown = abx_printable(text);
    abx_mut_str(d, obj, key, shown);
}

static void put_time(yyjson_mut_doc *d, yyjson_mut_val *obj, const struct timespec *t)
{
    struct tm tm;
    char day[40], text[64];
    if (abx_utc(t->tv_sec, &tm) < 0 || tm.tm_year < -1899 ||
        strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm) == 0)
        return;
    (void)snprintf(text, sizeof(text), "%s.%09ldZ", day, t->tv_nsec);
    abx_mut_str(d, obj, "modifiedTime", text);
}

static void put_meta(yyjson_mut_doc *d, yyjson_mut_val *obj, int dirfd, const char *at, mode_t mode)
{
    if (!S_ISREG(mode) && !S_ISDIR(mode))
        return;
    char path[64], list[8192], value[4097];
    ABX_AUTO_FD fd = openat(dirfd, at, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t n = listxattr(path, list, sizeof(list));
    yyjson_mut_val *meta = NULL;
    for (ssize_t i = 0; i < n; i += (ssize_t)strlen(list + i) + 1) {
        const char *key = list + i;
        if (!abx_has_prefix(key, META_PREFIX) || !key[sizeof(META_PREFIX) - 1])
            continue;
        ssize_t len = getxattr(path, key, value, sizeof(value) - 1);
        if (len < 0 || !abx_utf8_valid(value, (size_t)len) || !abx_utf8_valid(key, strlen(key)))
            continue;
        if (!meta)
            meta = abx_mut_obj(d, obj, "metadata");
        abx_mut_strn(d, meta, key + sizeof(META_PREFIX) - 1, value, (size_t)len);
    }
}

static void put_link(yyjson_mut_doc *d, yyjson_mut_val *obj, int dirfd, const char *at,
                     const char *path)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dirfd, at, target, sizeof(target) - 1);
    if (n >= 0) {
        target[n] = 0;
        put_name(d, obj, "abxTarget", target);
    }
    char *final = realpath(path, NULL);
    put_name(d, obj, "symlinkTarget", final ? final : path);
    free(final);
}

int abx__entry_put_at(abx_envd *e, yyjson_mut_doc *d, yyjson_mut_val *obj, int dirfd,
                      const char *at, const char *path, const char *name)
{
    struct stat st, target;
    if (fstatat(dirfd, at, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    target = st;
    if (S_ISLNK(st.st_mode) && fstatat(dirfd, at, &target, 0) < 0)
        target.st_mode = 0;
    char text[24];
    put_name(d, obj, "name", name);
    if (e2b_type(target.st_mode))
        abx_mut_str(d, obj, "type", e2b_type(target.st_mode));
    put_name(d, obj, "path", path);
    if (st.st_size > 0)
        abx_mut_int(d, obj, "size", st.st_size);
    if (target.st_mode & 0777)
        abx_mut_int(d, obj, "mode", target.st_mode & 0777);
    permissions(st.st_mode, text);
    abx_mut_str(d, obj, "permissions", text);
    abx_mut_str(d, obj, "owner", abx__owner_name(e, st.st_uid, false));
    abx_mut_str(d, obj, "group", abx__owner_name(e, st.st_gid, true));
    put_time(d, obj, &st.st_mtim);
    if (S_ISLNK(st.st_mode))
        put_link(d, obj, dirfd, at, path);
    put_meta(d, obj, dirfd, at, st.st_mode);
    abx_mut_str(d, obj, "abxType", own_type(st.st_mode));
    abx_mut_int(d, obj, "abxMode", st.st_mode & 07777);
    int64_t allocated = (int64_t)st.st_blocks * 512;
    if (S_ISREG(st.st_mode) && allocated < st.st_size)
        abx_mut_int(d, obj, "abxAllocated", allocated);
    return 0;
}

int abx__entry_put(abx_envd *e, yyjson_mut_doc *d, yyjson_mut_val *obj, const char *path,
                   const char *name)
{
    ABX_AUTO_FREE char *base = NULL;
    if (!name) {
        size_t end = strlen(path);
        while (end > 1 && path[end - 1] == '/')
            end--;
        size_t from = end;
        while (from > 0 && path[from - 1] != '/')
            from--;
        base = from == end ? abx_strdup("/") : abx_strndup(path + from, end - from);
        name = base;
    }
    return abx__entry_put_at(e, d, obj, AT_FDCWD, path, path, name);
}
