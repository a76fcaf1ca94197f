#include "host/store_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/text.h"

#define PIECE      ((size_t)256 * 1024)
#define TICK_COUNT 64u /* the task is asked once in so many entries, */
#define TICK_BYTES (4u << 20)

typedef struct walk {
    abx_tree_walk *o;
    abx_sha sha;
    uint8_t *piece;
    char path[ABX_ENTRY_PATH_MAX + 1]; /* of the entry at hand */
    size_t len;
    uint64_t ticked; /* bytes at the last tick */
} walk;

/* --- failures ---------------------------------------------------------------------------------------- */

int abx_tree_refuse(const char *path, const char *why, abx_error **err)
{
    ABX_AUTO_FREE char *safe = abx_printable(path);
    return abx_fail(err, ABX_ERR_FILE, "entry '%.400s' of the plugin is refused: %s", safe, why);
}

static int fail(const walk *w, abx_error **err)
{
    int e = errno;
    ABX_AUTO_FREE char *safe = abx_printable(w->path);
    return abx_fail_errno(err, ABX_ERR_FILE, e, "cannot read '%.400s' of the plugin", safe);
}

const char *abx_tree_odd_type(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
    case S_IFDIR:
    case S_IFLNK: return NULL;
    case S_IFIFO: return "it is a fifo, and a plugin holds files, folders and links only";
    case S_IFSOCK: return "it is a socket, and a plugin holds files, folders and links only";
    default: return "it is a device, and a plugin holds files, folders and links only";
    }
}

static int tick(walk *w, abx_error **err)
{
    const abx_store_task *t = w->o->task;
    w->ticked = w->o->bytes;
    return t && t->tick ? t->tick(t->data, w->o->entries, w->o->bytes, err) : 0;
}

static int count_entry(walk *w, abx_error **err)
{
    if (++w->o->entries > ABX_PLUGIN_ENTRIES)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the plugin holds more than %u files and folders",
                        ABX_PLUGIN_ENTRIES);
    return w->o->entries % TICK_COUNT == 0 ? tick(w, err) : 0;
}

static int count_bytes(walk *w, size_t n, abx_error **err)
{
    w->o->bytes += n;
    if (w->o->bytes > ABX_PLUGIN_BYTES)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the plugin holds more than %llu MiB",
                        ABX_PLUGIN_BYTES >> 20);
    return w->o->bytes - w->ticked >= TICK_BYTES ? tick(w, err) : 0;
}

/* --- names ------------------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int by_folded(const void *a, const void *b)
{
    return strcasecmp(*(char *const *)a, *(char *const *)b);
}

void abx_tree_names_free(char **names, size_t count)
{
    for (size_t i = 0; names && i < count; i++)
        free(names[i]);
    free(names);
}

int abx_tree_names(int dirfd, char ***names, size_t *count)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        abx_close_fd(&fd);
        return -1;
    }
    size_t room = 0;
    *names = NULL;
    *count = 0;
    for (struct dirent *e; errno = 0, (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (*count == room) {
            room = room ? 2 * room : 32;
            *names = (char **)abx_realloc(*names, room * sizeof(char *));
        }
        (*names)[(*count)++] = abx_strdup(e->d_name);
        if (*count > ABX_PLUGIN_ENTRIES + 2) /* the walk will say so */
            break;
    }
    int why = errno;
    closedir(d);
    if (why) {
        abx_tree_names_free(*names, *count);
        *names = NULL;
        errno = why;
        return -1;
    }
    if (*count > 1)
        qsort(*names, *count, sizeof(char *), by_bytes);
    return 0;
}

/* Two names of one folder that a file system may take for the same. ASCII letters only. */
static int check_clashes(walk *w, char *const *names, size_t count, abx_error **err)
{
    int rc = 0;
    if (count < 2)
        return 0;
    char **folded = (char **)abx_alloc_array(count, sizeof(char *));
    memcpy(folded, names, count * sizeof(char *));
    qsort(folded, count, sizeof(char *), by_folded);
    for (size_t i = 1; i < count && rc == 0; i++) {
        if (strcasecmp(folded[i - 1], folded[i]) != 0)
            continue;
        ABX_AUTO_FREE char *other = abx_printable(folded[i - 1]);
        ABX_AUTO_FREE char *why =
            abx_format("beside it is '%.255s', and the two differ only by case", other);
        ABX_AUTO_FREE char *path = abx_format("%s%s%s", w->path, w->len ? "/" : "", folded[i]);
        rc = abx_tree_refuse(path, why, err);
    }
    free(folded);
    return rc;
}

/* --- records ----------------------------------------------------------------------------------------- */

static int add_record(walk *w, char type, mode_t mode, const char *digest, abx_error **err)
{
    char head[96];
    int n = snprintf(head, sizeof(head), "%c %04o %s ", type, mode & 07777u, digest);
    abx_sha_add(&w->sha, head, (size_t)n);
    abx_sha_add(&w->sha, w->path, w->len + 1);
    if (w->o->listing && (abx_buf_add(w->o->listing, head, (size_t)n) < 0 ||
                          abx_buf_add(w->o->listing, w->path, w->len + 1) < 0))
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the names of the plugin's files are too long");
    return 0;
}

static int hash_bytes(walk *w, int fd, abx_sha *sha, abx_error **err)
{
    for (off_t at = 0;;) {
        ssize_t n = pread(fd, w->piece, PIECE, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(w, err);
        if (n == 0)
            return 0;
        at += n;
        abx_sha_add(sha, w->piece, (size_t)n);
        if (count_bytes(w, (size_t)n, err) < 0)
            return -1;
    }
}

static abx_tree_held *held_file(const walk *w, const struct stat *st)
{
    struct stat have;
    for (size_t i = 0; i < w->o->held_count; i++) {
        abx_tree_held *h = &w->o->held[i];
        if (h->fd >= 0 && fstat(h->fd, &have) == 0 && have.st_dev == st->st_dev &&
            have.st_ino == st->st_ino)
            return h;
    }
    return NULL;
}

void abx_tree_kept_free(abx_tree_kept *kept, size_t count)
{
    for (size_t i = 0; kept && i < count; i++) {
        free(kept[i].path);
        free(kept[i].text);
    }
    free(kept);
}

/* Read a file once: what is hashed is what is kept. */
static int keep_file(walk *w, int fd, const struct stat *st, abx_sha *sha, abx_error **err)
{
    abx_tree_walk *o = w->o;
    if (st->st_size < 0 || (uint64_t)st->st_size > ABX_KEPT_MAX - o->kept_bytes)
        return abx_tree_refuse(w->path, "its modules hold more than 64 MiB", err);
    size_t size = (size_t)st->st_size;
    ABX_AUTO_FREE char *text = (char *)abx_alloc(size + 2);
    ssize_t n = abx_read_full(fd, text, size + 1);
    if (n < 0)
        return fail(w, err);
    if ((size_t)n > size)
        return abx_tree_refuse(w->path, "it grew while it was read", err);
    abx_sha_add(sha, text, (size_t)n);
    o->kept = (abx_tree_kept *)abx_realloc(o->kept, (o->kept_count + 1) * sizeof(*o->kept));
    o->kept[o->kept_count++] =
        (abx_tree_kept){.path = abx_strdup(w->path), .len = (size_t)n, .text = ABX_TAKE(text)};
    o->kept_bytes += (size_t)n;
    return count_bytes(w, (size_t)n, err);
}

static int add_file(walk *w, int dir, const char *name, abx_error **err)
{
    struct stat st;
    char hex[65];
    ABX_AUTO_FD fd = abx_open_beneath(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail(w, err);
    if (!S_ISREG(st.st_mode))
        return abx_tree_refuse(w->path, "another took its place while it was read", err);
    abx_tree_held *held = held_file(w, &st);
    abx_sha sha;
    abx_sha_init(&sha);
    int rc = 0;
    if (held && held->text) {
        abx_sha_add(&sha, held->text, held->len);
        rc = count_bytes(w, held->len, err);
    } else if (!held && w->o->keep && w->o->keep(w->path)) {
        rc = keep_file(w, fd, &st, &sha, err);
    } else {
        rc = hash_bytes(w, held ? held->fd : fd, &sha, err);
    }
    if (rc < 0) {
        abx_sha_clear(&sha);
        return -1;
    }
    abx_sha_end(&sha, hex);
    if (held)
        held->met = true;
    return add_record(w, 'f', st.st_mode, hex, err);
}

static int add_link(walk *w, int root, int dir, const char *name, abx_error **err)
{
    char target[PATH_MAX + 1], hex[65];
    ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);
    if (n < 0)
        return fail(w, err);
    target[n] = 0;
    if (w->o->strict && abx_link_stays_beneath(root, w->path, target) < 0) {
        if (errno == EXDEV)
            return abx_tree_refuse(w->path, "the link leaves the plugin's folder", err);
        if (errno == ELOOP)
            return abx_tree_refuse(w->path, "the link goes round in a circle", err);
        return fail(w, err);
    }
    abx_sha_of(target, (size_t)n, hex);
    return add_record(w, 'l', 0777, hex, err);
}

static bool is_of_store(const walk *w, const char *name)
{
    return w->len == 0 &&
           (strcmp(name, ABX_STORE_RECEIPT) == 0 || strcmp(name, ABX_STORE_FILES) == 0);
}

static int check_owner(walk *w, const struct stat *st, abx_error **err)
{
    if (!w->o->owned || st->st_uid == geteuid() || st->st_uid == 0)
        return 0;
    ABX_AUTO_FREE char *why = abx_format("it belongs to another user (uid %u)", st->st_uid);
    return abx_tree_refuse(w->path, why, err);
}

static int walk_folder(walk *w, int root, int dir, unsigned depth, abx_error **err);

/* The entry `name` of the open folder; w->path is its folder's and is left so. */
static int add_entry(walk *w, int root, int dir, const char *name, unsigned depth, abx_error **err)
{
    struct stat st;
    size_t before = w->len, n = strlen(name);
    if (before + 1 + n > ABX_ENTRY_PATH_MAX)
        return abx_tree_refuse(name, "its path is too long", err);
    if (before)
        w->path[w->len++] = '/';
    memcpy(w->path + w->len, name, n + 1);
    w->len += n;
    int rc = count_entry(w, err);
    if (rc == 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        rc = fail(w, err);
    if (rc == 0)
        rc = check_owner(w, &st, err);
    if (rc == 0 && abx_tree_odd_type(st.st_mode)) {
        rc = abx_tree_refuse(w->path, abx_tree_odd_type(st.st_mode), err);
    } else if (rc == 0 && S_ISLNK(st.st_mode)) {
        rc = add_link(w, root, dir, name, err);
    } else if (rc == 0 && S_ISREG(st.st_mode)) {
        rc = add_file(w, dir, name, err);
    } else if (rc == 0) {
        ABX_AUTO_FD fd = abx_open_beneath(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
        rc = fd < 0 || fstat(fd, &st) < 0 ? fail(w, err) : add_record(w, 'd', st.st_mode, "-", err);
        if (rc == 0)
            rc = walk_folder(w, root, fd, depth + 1, err);
    }
    w->len = before;
    w->path[before] = 0;
    return rc;
}

static int walk_folder(walk *w, int root, int dir, unsigned depth, abx_error **err)
{
    char **names;
    size_t count;
    if (depth > ABX_PLUGIN_DEPTH)
        return abx_tree_refuse(w->path, "it is too deep", err);
    if (abx_tree_names(dir, &names, &count) < 0)
        return fail(w, err);
    int rc = w->o->strict ? check_clashes(w, names, count, err) : 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        if (!is_of_store(w, names[i]))
            rc = add_entry(w, root, dir, names[i], depth, err);
    abx_tree_names_free(names, count);
    return rc;
}

int abx_tree_digest(int dirfd, abx_tree_walk *walk_options, char hex[65], abx_error **err)
{
    walk w = {.o = walk_options, .piece = (uint8_t *)abx_alloc(PIECE)};
    w.o->entries = w.o->bytes = 0;
    w.o->kept_count = w.o->kept_bytes = 0;
    for (size_t i = 0; i < w.o->held_count; i++)
        w.o->held[i].met = false;
    abx_sha_init(&w.sha);
    abx_sha_add(&w.sha, ABX_TREE_HEAD, sizeof(ABX_TREE_HEAD));
    int rc = walk_folder(&w, dirfd, dirfd, 0, err);
    if (rc == 0)
        abx_sha_end(&w.sha, hex);
    else
        abx_sha_clear(&w.sha);
    free(w.piece);
    return rc;
}
