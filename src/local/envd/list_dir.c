/* ListDir: depth first, names in the order of their bytes, parents before children. Entries go out as they are found;
 * when the peer does not take more, the walk waits. In memory are only the names of the folders on the way down. */
#include "local/envd/inner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct level {
    int fd;
    char **names; /* NULL at the end */
    size_t next;
    size_t path_len; /* of the folder in walk.path */
} level;

typedef struct walk {
    abx_envd *envd;
    abx_e2b_call *call;
    abx__user user;
    abx_buf path;
    level *levels;
    size_t count; /* levels open */
    size_t depth;
    bool abx; /* a folder that may not be read is told, and the walk goes on */
} walk;

enum { MAX_LEVELS = 1000, MAX_PATH_BYTES = 64 * 1024 };

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names of an open folder, sorted. fd is taken. NULL and errno. */
static char **read_names(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir) {
        abx_close_fd(&copy);
        return NULL;
    }
    size_t count = 0, room = 32;
    char **names = abx_alloc_array(room + 1, sizeof(*names));
    for (struct dirent *d; (d = readdir(dir));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        if (count == room) {
            room *= 2;
            names = abx_realloc(names, (room + 1) * sizeof(*names));
        }
        names[count++] = abx_strdup(d->d_name);
        names[count] = NULL;
    }
    closedir(dir);
    qsort(names, count, sizeof(*names), by_bytes);
    return names;
}

static void pop(walk *w)
{
    level *l = &w->levels[--w->count];
    abx_close_fd(&l->fd);
    abx__strings_free(l->names);
}

/* 0; 1: it is not there any more, or no folder; -1 with errno. */
static int push(walk *w, int dirfd, const char *name)
{
    if (w->count >= MAX_LEVELS) {
        errno = ELOOP;
        return -1;
    }
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 1 : -1;
    char **names = read_names(fd);
    if (!names) {
        close(fd);
        return -1;
    }
    if (w->count % 16 == 0)
        w->levels = abx_realloc(w->levels, (w->count + 16) * sizeof(*w->levels));
    w->levels[w->count++] = (level){.fd = fd, .names = names, .path_len = w->path.len};
    return 0;
}

static void walk_free(walk *w)
{
    while (w->count > 0)
        pop(w);
    free(w->levels);
    abx_buf_clear(&w->path);
    free(w);
}

/* The next entry. 1: go on; 0: hold; -1: an error was answered. */
static int step(walk *w)
{
    level *l = &w->levels[w->count - 1];
    const char *name = l->names[l->next];
    if (!name) {
        pop(w);
        return 1;
    }
    l->next++;
    w->path.len = l->path_len;
    if ((w->path.len > 1 && abx_buf_add_byte(&w->path, '/') < 0) ||
        abx_buf_add_str(&w->path, name) < 0)
        return 1;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, abx_mut_arr(d, root, "entries"));
    if (abx__entry_put_at(w->envd, d, o, l->fd, name, abx_buf_cstr(&w->path), name) < 0)
        return 1; /* gone since the folder was read */
    struct stat st;
    if (w->count >= w->depth || fstatat(l->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISDIR(st.st_mode))
        return abx_e2b_part(w->call, root);
    int opened = push(w, l->fd, name), why = errno;
    bool closed = opened < 0 && why == EACCES && w->abx;
    if (closed)
        abx_mut_bool(d, o, "abxClosed", true);
    int rc = abx_e2b_part(w->call, root);
    if (opened < 0 && !closed) {
        char text[96];
        abx_e2b_fail(w->call, ABX_E2B_CODE_INTERNAL, "error reading directory %s: %s",
                     abx_buf_cstr(&w->path), abx__errno_text(why, text));
        return -1;
    }
    return rc;
}

static void run(walk *w)
{
    int rc = 1;
    abx__power(w->envd, &w->user, true);
    while (rc > 0 && w->count > 0)
        rc = step(w);
    abx__power(w->envd, &w->user, false);
    if (rc == 0 && w->count > 0)
        return; /* on_writable goes on */
    if (rc >= 0)
        abx_e2b_parts_end(w->call);
    walk_free(w);
}

static void on_writable(abx_e2b_call *c, void *data)
{
    (void)c;
    run(data);
}

static void on_close(abx_e2b_call *c, bool expired, void *data)
{
    (void)c;
    (void)expired;
    walk_free(data);
}

static const abx_e2b_call_handlers HANDLERS = {.on_writable = on_writable, .on_close = on_close};

/* The folder behind all links. NULL: the call was failed. */
static char *real_folder(abx_e2b_call *c, const char *path)
{
    char text[96];
    char *real = realpath(path, NULL);
    if (!real && errno == ELOOP)
        abx_e2b_fail(c, ABX_E2B_CODE_FAILED_PRECONDITION,
                     "cyclic symlink or chain >255 links at \"%s\"", path);
    else if (!real && errno == ENOENT)
        abx_e2b_fail(c, ABX_E2B_CODE_NOT_FOUND, "path not found: lstat %s: %s", path,
                     abx__errno_text(errno, text));
    else if (!real)
        abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL, "error getting file info: lstat %s: %s", path,
                     abx__errno_text(errno, text));
    struct stat st;
    if (!real || (stat(real, &st) == 0 && S_ISDIR(st.st_mode)))
        return real;
    abx_e2b_fail(c, ABX_E2B_CODE_INVALID_ARGUMENT, "path is not a directory: %s", real);
    free(real);
    return NULL;
}

static void start(walk *w, const char *asked)
{
    ABX_AUTO_FREE char *path = abx__path_resolve(w->envd, asked, &w->user);
    if (!path) {
        abx_e2b_fail(w->call, ABX_E2B_CODE_INVALID_ARGUMENT, ABX__NO_TILDE, w->user.name);
        walk_free(w);
        return;
    }
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = 0;
    ABX_AUTO_FREE char *real = real_folder(w->call, path);
    if (!real || abx_buf_add_str(&w->path, path) < 0 || push(w, AT_FDCWD, real) != 0) {
        char text[96];
        if (real)
            abx_e2b_fail(w->call, ABX_E2B_CODE_INTERNAL, "error reading directory %s: %s", path,
                         abx__errno_text(errno, text));
        walk_free(w);
        return;
    }
    abx_e2b_call_handle(w->call, &HANDLERS, w);
    abx__power(w->envd, &w->user, false);
    run(w);
}

void abx__rpc_list_dir(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    walk *w = ABX_NEW(walk);
    const char *asked = NULL;
    w->envd = e;
    w->call = c;
    abx_buf_init(&w->path, MAX_PATH_BYTES);
    int64_t depth = abx_json_int(q, "depth", 0);
    w->abx = abx_json_bool(q, "abx", false);
    w->depth = depth > 0 ? (size_t)depth : 1;
    if (abx__user_of(e, c, &w->user) < 0 ||
        abx__path_member(c, q, "path", "error getting file info: lstat", &asked) < 0) {
        walk_free(w);
        return;
    }
    abx__user u = w->user;
    abx__power(e, &u, true);
    start(w, asked);
    abx__power(e, &u, false);
}
