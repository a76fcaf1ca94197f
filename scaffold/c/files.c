/* fs.*: the files of a sandbox. A relative path begins at its home; an absolute one is one of this machine. */
#include "box.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (256 * 1024)

/* The absolute path that a parameter names, without a '/' or '/.' at its end. 0, or -1: failed. */
static int place(epp_call *call, const char *name, char out[PATH_MAX])
{
    box b;
    const char *asked = epp_str(call->params, name, "");
    if (box_of(call, &b) < 0)
        return -1;
    box_clear(&b);
    if (!asked[0])
        return epp_fail(call, "E1001", "an empty path is no path");
    size_t n = (size_t)snprintf(out, PATH_MAX, "%s%s%s", asked[0] == '/' ? "" : b.home, asked[0] == '/' ? "" : "/", asked);
    if (n >= PATH_MAX)
        return epp_fail(call, "E6005", "the path is too long");
    while (n > 1 && (out[n - 1] == '/' || (n > 2 && out[n - 1] == '.' && out[n - 2] == '/')))
        out[--n] = 0;
    return 0;
}

static void owner_names(const struct stat *st, epp_text *t)
{
    char number[16], room[2048];
    struct passwd pw, *user = NULL;
    struct group gr, *group = NULL;
    snprintf(number, sizeof number, "%u", (unsigned)st->st_uid);
    getpwuid_r(st->st_uid, &pw, room, sizeof room, &user);
    epp_member(t, "owner", user ? user->pw_name : number);
    snprintf(number, sizeof number, "%u", (unsigned)st->st_gid);
    getgrgid_r(st->st_gid, &gr, room, sizeof room, &group);
    epp_member(t, "group", group ? group->gr_name : number);
}

static int describe(epp_text *t, const char *path)
{
    struct stat st;
    char at[32], target[PATH_MAX];
    if (lstat(path, &st) < 0)
        return -1;
    const char *slash = strrchr(path, '/');
    epp_member(t, "path", path);
    epp_member(t, "name", slash[1] ? slash + 1 : "/");
    epp_member(t, "type", S_ISLNK(st.st_mode) ? "symlink" : S_ISDIR(st.st_mode) ? "dir" : S_ISREG(st.st_mode) ? "file" : "other");
    epp_number(t, "size", st.st_size);
    epp_number(t, "mode", st.st_mode & 07777);
    owner_names(&st, t);
    format_time((long long)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000, at);
    epp_member(t, "modifiedAt", at);
    ssize_t n = S_ISLNK(st.st_mode) ? readlink(path, target, sizeof target - 1) : -1;
    if (n >= 0) {
        target[n] = 0;
        epp_member(t, "target", target);
    }
    return 0;
}

int fs_stat(epp_call *call)
{
    char path[PATH_MAX];
    if (epp_accept(call, "sandboxId path") < 0 || place(call, "path", path) < 0)
        return -1;
    return describe(&call->result, path) < 0 ? epp_fail_errno(call, path) : 0;
}

int fs_read(epp_call *call)
{
    char path[PATH_MAX];
    if (epp_accept(call, "sandboxId path") < 0 || place(call, "path", path) < 0)
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return epp_fail_errno(call, path);
    uint8_t *part = malloc(CHUNK);
    long long size = 0;
    ssize_t n;
    while ((n = read(fd, part, CHUNK)) > 0 && epp_send(call, "fs.output", NULL, part, (size_t)n) == 0)
        size += n;
    int rc = n < 0 ? epp_fail_errno(call, path) : 0;
    free(part);
    close(fd);
    epp_number(&call->result, "size", size);
    return rc;
}

/* --- writing ------------------------------------------------------------------------------------------------------------- */

/* 1 made, 0 was there, -1 and errno. */
static int make_folders(const char *path)
{
    char parent[PATH_MAX];
    struct stat st;
    if (mkdir(path, 0755) == 0)
        return 1;
    if (errno == EEXIST && stat(path, &st) == 0)
        return S_ISDIR(st.st_mode) ? 0 : (errno = ENOTDIR, -1);
    char *slash = strcpy(parent, path) + (strrchr(path, '/') - path);
    if (errno != ENOENT || slash == parent)
        return -1;
    *slash = 0;
    if (make_folders(parent) < 0)
        return -1;
    return mkdir(path, 0755) == 0 || errno == EEXIST ? 1 : -1;
}

/* All bytes of the call into fd; how many, or -1: failed. */
static long long take_body(epp_call *call, int fd, const char *path)
{
    uint8_t *bytes;
    size_t n;
    long long size = 0;
    int rc;
    while ((rc = epp_body(call, &bytes, &n)) > 0) {
        size_t done = 0;
        ssize_t part = 0;
        while (done < n && (part = write(fd, bytes + done, n - done)) >= 0)
            done += (size_t)part;
        free(bytes);
        if (part < 0)
            return epp_fail_errno(call, path);
        size += (long long)n;
    }
    long long announced = epp_int(call->params, "size", size);
    if (rc == 0 && announced != size)
        return epp_fail(call, "E1001", "%lld bytes were announced, %lld came", announced, size);
    return rc == 0 ? size : -1;
}

static int set_times(int fd, const char *text)
{
    struct tm tm = {0};
    const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    if (!rest)
        return 0;
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = timegm(&tm)}};
    times[1].tv_nsec = *rest == '.' ? (long)(strtod(rest, NULL) * 1e9) : 0;
    return futimens(fd, times);
}

/* Into a file beside it, which takes its place when all is there: nobody ever sees a half. */
static long long write_beside(epp_call *call, const char *target, const char *asked)
{
    char fresh[PATH_MAX + 16];
    struct stat former;
    bool there = stat(target, &former) == 0;
    snprintf(fresh, sizeof fresh, "%.*s/.new-XXXXXX", (int)(strrchr(target, '/') - target), target);
    int fd = mkostemp(fresh, O_CLOEXEC);
    if (fd < 0)
        return epp_fail_errno(call, asked);
    long long size = take_body(call, fd, asked);
    mode_t mode = (mode_t)epp_int(call->params, "mode", there ? former.st_mode & 07777 : 0644);
    if (size >= 0 && (fchmod(fd, mode) < 0 || set_times(fd, epp_str(call->params, "modifiedAt", NULL)) < 0 || rename(fresh, target) < 0))
        size = epp_fail_errno(call, asked);
    if (size < 0)
        unlink(fresh);
    close(fd);
    return size;
}

int fs_write(epp_call *call)
{
    char path[PATH_MAX], target[PATH_MAX], parent[PATH_MAX];
    struct stat st;
    if (epp_accept(call, "sandboxId path size mode whole modifiedAt") < 0 || place(call, "path", path) < 0)
        return -1;
    strcpy(parent, path)[strrchr(path, '/') - path] = 0;
    if (parent[0] && make_folders(parent) < 0)
        return epp_fail_errno(call, path);
    if (!realpath(path, target))
        strcpy(target, path);
    if (stat(target, &st) == 0 && S_ISDIR(st.st_mode))
        return epp_fail(call, "E6005", "'%s' is a folder", path);
    long long size = write_beside(call, target, path);
    if (size < 0)
        return -1;
    epp_member(&call->result, "path", path);
    epp_number(&call->result, "size", size);
    return 0;
}

/* --- folders --------------------------------------------------------------------------------------------------------------- */

typedef struct names {
    char **list;
    size_t n;
} names;

static int below(const char *folder, long long depth, names *out)
{
    struct dirent *e;
    DIR *d = opendir(folder);
    if (!d)
        return -1;
    while ((e = readdir(d))) {
        char *path;
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (asprintf(&path, "%s/%s", strcmp(folder, "/") ? folder : "", e->d_name) < 0 ||
            !(out->list = realloc(out->list, (out->n + 1) * sizeof *out->list)))
            abort();
        out->list[out->n++] = path;
        if (depth > 1 && lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
            below(path, depth - 1, out);
    }
    closedir(d);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int fs_list(epp_call *call)
{
    char path[PATH_MAX];
    names found = {0};
    if (epp_accept(call, "sandboxId path depth") < 0 || place(call, "path", path) < 0)
        return -1;
    if (below(path, epp_int(call->params, "depth", 1), &found) < 0)
        return epp_fail_errno(call, path);
    if (found.n > 0)
        qsort(found.list, found.n, sizeof *found.list, by_name);
    bool first = true;
    epp_addf(&call->result, "\"files\":[");
    for (size_t i = 0; i < found.n; i++) {
        epp_text one = {0};
        if (describe(&one, found.list[i]) == 0) {
            epp_addf(&call->result, "%s{%s}", first ? "" : ",", one.data);
            first = false;
        }
        free(one.data);
        free(found.list[i]);
    }
    epp_add(&call->result, "]", 1);
    free(found.list);
    return 0;
}

int fs_make_dir(epp_call *call)
{
    char path[PATH_MAX];
    if (epp_accept(call, "sandboxId path") < 0 || place(call, "path", path) < 0)
        return -1;
    int made = make_folders(path);
    if (made < 0)
        return epp_fail_errno(call, path);
    epp_addf(&call->result, "\"created\":%s", made ? "true" : "false");
    return 0;
}

int fs_rename(epp_call *call)
{
    char from[PATH_MAX], to[PATH_MAX];
    if (epp_accept(call, "sandboxId from to") < 0 || place(call, "from", from) < 0 || place(call, "to", to) < 0)
        return -1;
    return rename(from, to) < 0 ? epp_fail_errno(call, from) : 0;
}

int remove_tree(const char *path)
{
    struct stat st;
    names inside = {0};
    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
        below(path, 1, &inside);
    for (size_t i = 0; i < inside.n; i++) {
        remove_tree(inside.list[i]);
        free(inside.list[i]);
    }
    free(inside.list);
    return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

/* What is not there is removed already. */
int fs_remove(epp_call *call)
{
    char path[PATH_MAX];
    if (epp_accept(call, "sandboxId path") < 0 || place(call, "path", path) < 0)
        return -1;
    return remove_tree(path) < 0 ? epp_fail_errno(call, path) : 0;
}
