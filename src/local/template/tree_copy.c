#include "local/template/tree_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/template/marks.h"
#include "local/template/tree_links.h"
#include "local/template/tree_xattr.h"

#define LOOK_BYTES (64ULL << 20)
#define LOOK_COUNT 1024u
#define PIECE      ((size_t)1 << 20)

typedef struct walk {
    abx_tree_copy *o;
    abx_tree_links links;
    char path[4096 + 256]; /* of the folder that is copied, for links and errors */
    size_t path_len;
    uint64_t looked;
    bool no_clone; /* the file system does not share bytes */
} walk;

/* --- failures and limits ------------------------------------------------------------------------------ */

static int fail(walk *w, const char *name, abx_error **err)
{
    int e = errno;
    ABX_AUTO_FREE char *full = abx_format("%s%s%s", w->path, w->path_len ? "/" : "", name);
    ABX_AUTO_FREE char *safe = abx_printable(full);
    return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, e, "cannot copy '%.400s'", safe);
}

static int look_around(walk *w, abx_error **err)
{
    struct statvfs st;
    abx_tree_copy *o = w->o;
    w->looked = o->bytes;
    if (fstatvfs(o->to, &st) == 0 && st.f_blocks > 0 &&
        (uint64_t)st.f_bavail * st.f_frsize < o->free_bytes)
        return abx_fail(err, ABX_ERR_NO_SPACE, "less than %llu MiB would be left on the disk",
                        (unsigned long long)o->free_bytes >> 20);
    return o->progress ? o->progress(o->data, o->bytes, err) : 0;
}

static int count_entry(walk *w, abx_error **err)
{
    abx_tree_copy *o = w->o;
    o->entries++;
    if (o->most_entries && o->entries > o->most_entries)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "more than %llu files",
                        (unsigned long long)o->most_entries);
    return o->entries % LOOK_COUNT == 0 ? look_around(w, err) : 0;
}

/* --- bytes ------------------------------------------------------------------------------------------- */

static int copy_piece(walk *w, int in, int out, off_t at, off_t end, abx_error **err)
{
    while (at < end) {
        size_t n = (uint64_t)(end - at) < PIECE ? (size_t)(end - at) : PIECE;
        loff_t from = at, to = at;
        ssize_t done = copy_file_range(in, &from, out, &to, n, 0);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0 &&
            (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS)) {
            uint8_t bytes[16384];
            done = pread(in, bytes, n < sizeof(bytes) ? n : sizeof(bytes), at);
            if (done > 0)
                done = pwrite(out, bytes, (size_t)done, at);
        }
        if (done < 0)
            return -1;
        if (done == 0)
            return 0; /* it became shorter */
        at += done;
        w->o->bytes += (uint64_t)done;
        if (w->o->bytes - w->looked > LOOK_BYTES && look_around(w, err) < 0)
            return -1;
    }
    return 0;
}

/* Only what is no hole. */
static int copy_bytes(walk *w, int in, int out, off_t size, abx_error **err)
{
    if (!w->no_clone) {
        if (ioctl(out, FICLONE, in) == 0) {
            w->o->shared = true;
            return 0;
        }
        if (errno != EINTR)
            w->no_clone = errno == EOPNOTSUPP || errno == EXDEV || errno == ENOTTY;
    }
    for (off_t at = 0; at < size;) {
        off_t data = lseek(in, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break; /* a hole up to the end */
        if (data < 0)
            data = at; /* a file system without this: all is data */
        off_t hole = lseek(in, data, SEEK_HOLE);
        if (hole < 0 || hole > size)
            hole = size;
        if (data >= size)
            break;
        if (copy_piece(w, in, out, data, hole, err) < 0)
            return -1;
        at = hole > at ? hole : size;
    }
    return ftruncate(out, size);
}

/* --- one entry --------------------------------------------------------------------------------------- */

static int set_owner(walk *w, int to, const char *name, const struct stat *st)
{
    const abx_tree_copy *o = w->o;
    if (o->owners == ABX_OWNERS_NONE)
        return 0;
    int64_t uid = (int64_t)st->st_uid + o->shift, gid = (int64_t)st->st_gid + o->shift;
    if (uid < 0 || uid > UINT32_MAX - 1 || gid < 0 || gid > UINT32_MAX - 1) {
        errno = EINVAL;
        return -1;
    }
    return fchownat(to, name, (uid_t)uid, (gid_t)gid, AT_SYMLINK_NOFOLLOW);
}

static void set_times(int to, const char *name, const struct stat *st)
{
    struct timespec times[2] = {st->st_atim, st->st_mtim};
    (void)utimensat(to, name, times, AT_SYMLINK_NOFOLLOW);
}

static int copy_file(walk *w, int from, int to, const char *name, struct stat *st, abx_error **err)
{
    ABX_AUTO_FD in = abx_open_beneath(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (in < 0 || fstat(in, st) < 0)
        return fail(w, name, err);
    if (!S_ISREG(st->st_mode)) /* another took its place: it is left out */
        return 0;
    ABX_AUTO_FD out = openat(to, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (out < 0 || copy_bytes(w, in, out, st->st_size, err) < 0 || set_owner(w, to, name, st) < 0 ||
        abx_tree_xattr_copy(in, out, !w->o->plain, false) < 0 ||
        fchmod(out, st->st_mode & 01777) < 0)
        return fail(w, name, err);
    set_times(to, name, st);
    return 0;
}

static int copy_link(walk *w, int from, int to, const char *name, const struct stat *st,
                     abx_error **err)
{
    char target[4097];
    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);
    if (n < 0)
        return fail(w, name, err);
    target[n] = 0;
    if (symlinkat(target, to, name) < 0 || set_owner(w, to, name, st) < 0)
        return fail(w, name, err);
    set_times(to, name, st);
    return 0;
}

static int copy_other(walk *w, int to, const char *name, const struct stat *st, abx_error **err)
{
    if (abx_is_whiteout(st)) {
        if (w->o->last || w->o->plain)
            return 0;
        return mknodat(to, name, S_IFCHR, makedev(0, 0)) < 0 ? fail(w, name, err) : 0;
    }
    if (!S_ISFIFO(st->st_mode))
        return 0;
    if (mknodat(to, name, S_IFIFO | (st->st_mode & 0777), 0) < 0 || set_owner(w, to, name, st) < 0)
        return fail(w, name, err);
    set_times(to, name, st);
    return 0;
}

/* What lies at the place already gives way to what comes. *hid: it hid what is further below. */
static int clear_place(walk *w, int to, const char *name, bool keep_folder, bool *hid,
                       abx_error **err)
{
    struct stat st;
    *hid = false;
    if (!w->o->onto || fstatat(to, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (S_ISDIR(st.st_mode)) {
        if (keep_folder)
            return 0;
        ABX_AUTO_FD fd = openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        *hid = fd >= 0 && abx_is_opaque(fd);
        return abx_remove_tree_at(to, name, err);
    }
    *hid = true;
    return unlinkat(to, name, 0) < 0 ? fail(w, name, err) : 0;
}

static int copy_at(walk *w, int from, int to, const char *name, int depth, abx_error **err);

/* Names of a folder in their order, so that two copies of one tree are made alike. */
static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char **names_of(int fd, size_t *count)
{
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = again < 0 ? NULL : fdopendir(again);
    char **names = NULL;
    size_t n = 0, room = 0;
    if (!d) {
        abx_close_fd(&again);
        return NULL;
    }
    for (struct dirent *e; (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (n == room) {
            room = room ? 2 * room : 64;
            names = (char **)abx_realloc(names, room * sizeof(*names));
        }
        names[n++] = abx_strdup(e->d_name);
    }
    closedir(d);
    if (n > 0)
        qsort(names, n, sizeof(*names), by_name);
    *count = n;
    return names ? names : (char **)abx_alloc(sizeof(*names));
}

static int copy_contents(walk *w, int from, int to, int depth, abx_error **err)
{
    size_t n = 0;
    char **names = names_of(from, &n);
    if (!names)
        return fail(w, ".", err);
    int rc = 0;
    for (size_t i = 0; i < n; i++) {
        if (rc == 0)
            rc = copy_at(w, from, to, names[i], depth, err);
        free(names[i]);
    }
    free(names);
    return rc;
}

/* The mode, owner, attributes and time of a folder, when all in it is there. */
static int finish_folder(walk *w, int in, int out, const struct stat *st, bool opaque)
{
    if (set_owner(w, out, ".", st) < 0 ||
        abx_tree_xattr_copy(in, out, !w->o->plain, w->o->last) < 0 ||
        (opaque && !w->o->last && abx_make_opaque(out) < 0) || fchmod(out, st->st_mode & 01777) < 0)
        return -1;
    set_times(out, ".", st);
    return 0;
}

static int copy_folder(walk *w, int from, int to, const char *name, struct stat *st, int depth,
                       abx_error **err)
{
    bool hid = false, opaque;
    if (depth >= ABX_TREE_DEPTH)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "folders are nested deeper than %d",
                        ABX_TREE_DEPTH);
    ABX_AUTO_FD in = abx_open_beneath(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (in < 0 || fstat(in, st) < 0)
        return fail(w, name, err);
    opaque = !w->o->plain && abx_is_opaque(in);
    if (clear_place(w, to, name, !opaque, &hid, err) < 0)
        return -1;
    if (mkdirat(to, name, 0700) < 0 && errno != EEXIST)
        return fail(w, name, err);
    ABX_AUTO_FD out = openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (out < 0 || fchmod(out, 0700) < 0)
        return fail(w, name, err);
    size_t len = w->path_len, n = strlen(name);
    if (len + n + 2 > 4096)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "a path is longer than 4095 bytes");
    (void)snprintf(w->path + len, sizeof(w->path) - len, "%s%s", len ? "/" : "", name);
    w->path_len = len + n + (len > 0);
    int rc = copy_contents(w, in, out, depth + 1, err);
    w->path[w->path_len = len] = 0;
    if (rc < 0)
        return -1;
    return finish_folder(w, in, out, st, opaque || hid) < 0 ? fail(w, name, err) : 0;
}

static int copy_at(walk *w, int from, int to, const char *name, int depth, abx_error **err)
{
    struct stat st;
    bool hid;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : fail(w, name, err);
    if (count_entry(w, err) < 0)
        return -1;
    if (S_ISDIR(st.st_mode)) {
        if (copy_folder(w, from, to, name, &st, depth, err) < 0)
            return -1;
    } else {
        if (clear_place(w, to, name, false, &hid, err) < 0)
            return -1;
        ABX_AUTO_FREE char *full = abx_format("%s%s%s", w->path, w->path_len ? "/" : "", name);
        const char *first = st.st_nlink > 1 && !abx_is_whiteout(&st)
                                ? abx_tree_links_find(&w->links, &st, full)
                                : NULL;
        int rc = 0;
        if (first)
            rc = abx_tree_link(w->o->to, first, to, name) < 0 ? fail(w, name, err) : 0;
        else if (S_ISREG(st.st_mode))
            rc = copy_file(w, from, to, name, &st, err);
        else if (S_ISLNK(st.st_mode))
            rc = copy_link(w, from, to, name, &st, err);
        else
            rc = copy_other(w, to, name, &st, err);
        if (rc < 0)
            return -1;
    }
    if (!w->o->entry)
        return 0;
    ABX_AUTO_FREE char *path = abx_format("%s%s%s", w->path, w->path_len ? "/" : "", name);
    return w->o->entry(w->o->data, path, to, name, err);
}

int abx_tree_copy_run(abx_tree_copy *o, abx_error **err)
{
    walk *w = ABX_NEW(walk);
    struct stat st;
    w->o = o;
    o->bytes = o->entries = 0;
    o->shared = false;
    int rc = look_around(w, err);
    if (rc == 0)
        rc = copy_contents(w, o->from, o->to, 0, err);
    if (rc == 0 && (fstat(o->from, &st) < 0 || finish_folder(w, o->from, o->to, &st, false) < 0))
        rc = fail(w, ".", err);
    abx_tree_links_clear(&w->links);
    free(w);
    return rc;
}
