/* A folder becomes a plugin in the store: contents, links and the right to execute; nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/store_inner.h"

#define PIECE      ((size_t)256 * 1024)
#define TICK_COUNT 64u
#define TICK_BYTES (4u << 20)

typedef struct copy {
    const abx_store_task *task;
    char path[ABX_ENTRY_PATH_MAX + 1]; /* of the entry at hand */
    size_t len;
    uint64_t entries, bytes, ticked;
    uint8_t *piece;
} copy;

static int fail(const copy *c, abx_error **err)
{
    int e = errno;
    ABX_AUTO_FREE char *safe = abx_printable(c->path);
    abx_fail_errno(err, ABX_ERR_FILE, e, "cannot copy '%.400s' of the plugin", safe);
    if (e == EEXIST)
        return abx_hint(err, "the store's file system takes two names that differ only by case for "
                             "the same: rename one of them");
    return -1;
}

static int tick(copy *c, abx_error **err)
{
    c->ticked = c->bytes;
    return c->task && c->task->tick ? c->task->tick(c->task->data, c->entries, c->bytes, err) : 0;
}

static int copy_bytes(copy *c, int in, int out, abx_error **err)
{
    for (;;) {
        ssize_t n = read(in, c->piece, PIECE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(c, err);
        if (n == 0)
            return 0;
        c->bytes += (uint64_t)n;
        if (c->bytes > ABX_PLUGIN_BYTES)
            return abx_fail(err, ABX_ERR_TOO_LARGE, "the plugin holds more than %llu MiB",
                            ABX_PLUGIN_BYTES >> 20);
        if (abx_write_full(out, c->piece, (size_t)n) < 0)
            return fail(c, err);
        if (c->bytes - c->ticked >= TICK_BYTES && tick(c, err) < 0)
            return -1;
    }
}

static int copy_file(copy *c, int from, int to, const char *name, abx_error **err)
{
    struct stat st;
    ABX_AUTO_FD in = abx_open_beneath(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (in < 0 || fstat(in, &st) < 0)
        return fail(c, err);
    if (!S_ISREG(st.st_mode))
        return abx_tree_refuse(c->path, "another took its place while it was read", err);
    ABX_AUTO_FD out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (out < 0)
        return fail(c, err);
    if (copy_bytes(c, in, out, err) < 0)
        return -1;
    return fchmod(out, abx__store_mode(st.st_mode)) < 0 ? fail(c, err) : 0;
}

static int copy_link(copy *c, int from, int to, const char *name, abx_error **err)
{
    char target[PATH_MAX + 1];
    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);
    if (n < 0)
        return fail(c, err);
    target[n] = 0;
    return symlinkat(target, to, name) < 0 ? fail(c, err) : 0;
}

static int copy_folder(copy *c, int from, int to, unsigned depth, abx_error **err);

static int copy_below(copy *c, int from, int to, const char *name, unsigned depth, abx_error **err)
{
    ABX_AUTO_FD in = abx_open_beneath(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (in < 0 && errno == EXDEV)
        return abx_tree_refuse(c->path, "another file system is mounted there", err);
    if (in < 0 || mkdirat(to, name, 0700) < 0)
        return fail(c, err);
    ABX_AUTO_FD out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (out < 0)
        return fail(c, err);
    if (copy_folder(c, in, out, depth + 1, err) < 0)
        return -1;
    return fchmod(out, 0755) < 0 ? fail(c, err) : 0;
}

static int copy_entry(copy *c, int from, int to, const char *name, unsigned depth, abx_error **err)
{
    struct stat st;
    size_t before = c->len, n = strlen(name);
    if (before + 1 + n > ABX_ENTRY_PATH_MAX)
        return abx_tree_refuse(name, "its path is too long", err);
    if (++c->entries > ABX_PLUGIN_ENTRIES)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the plugin holds more than %u files and folders",
                        ABX_PLUGIN_ENTRIES);
    if (before)
        c->path[c->len++] = '/';
    memcpy(c->path + c->len, name, n + 1);
    c->len += n;
    int rc = c->entries % TICK_COUNT == 0 ? tick(c, err) : 0;
    if (rc == 0 && fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        rc = fail(c, err);
    else if (rc == 0 && abx_tree_odd_type(st.st_mode))
        rc = abx_tree_refuse(c->path, abx_tree_odd_type(st.st_mode), err);
    else if (rc == 0)
        rc = S_ISREG(st.st_mode)   ? copy_file(c, from, to, name, err)
             : S_ISLNK(st.st_mode) ? copy_link(c, from, to, name, err)
                                   : copy_below(c, from, to, name, depth, err);
    c->len = before;
    c->path[before] = 0;
    return rc;
}

static bool is_left_out(const char *name, unsigned depth)
{
    return depth == 0 && (strcmp(name, ABX_STORE_RECEIPT) == 0 ||
                          strcmp(name, ABX_STORE_FILES) == 0 || strcmp(name, ".git") == 0);
}

static int copy_folder(copy *c, int from, int to, unsigned depth, abx_error **err)
{
    char **names;
    size_t count;
    if (depth > ABX_PLUGIN_DEPTH)
        return abx_tree_refuse(c->path, "it is too deep", err);
    if (abx_tree_names(from, &names, &count) < 0)
        return fail(c, err);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        if (!is_left_out(names[i], depth))
            rc = copy_entry(c, from, to, names[i], depth, err);
    abx_tree_names_free(names, count);
    return rc;
}

mode_t abx__store_mode(mode_t mode)
{
    return mode & S_IXUSR ? 0755 : 0644;
}

int abx__store_copy(int from, int to, const abx_store_task *task, abx_error **err)
{
    copy c = {.task = task, .piece = (uint8_t *)abx_alloc(PIECE)};
    int rc = copy_folder(&c, from, to, 0, err);
    free(c.piece);
    return rc == 0 && fchmod(to, 0755) < 0 ? fail(&c, err) : rc;
}
