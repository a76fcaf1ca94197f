/* Files down and up. Reads and writes are inline: the page cache is fast, and pid 1 starts no threads. */
#include "local/envd/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "base/id.h"

static int status_of(int err)
{
    return err == ENOSPC || err == EDQUOT ? 507 : 500;
}

/* --- down --------------------------------------------------------------------------------------------------- */
enum {
    READS_A_TURN = 32
}; /* then others have theirs: a reader that keeps up would never be without room */

typedef struct download {
    abx_e2b_get *get;
    int fd;
    int64_t at, left; /* left -1: until the end */
    uv_timer_t next_turn;
} download;

static void on_next_turn(uv_timer_t *timer)
{
    abx__get_more(timer->data);
}

void abx__get_open(void *data, abx_e2b_get *g, const char *path, const char *user, bool live)
{
    abx_envd *e = data;
    abx__user u;
    abx_e2b_fault f = {0};
    struct stat st;
    char text[96];
    if (abx__user_find(e, user, &u) != 1)
        abx_e2b_fault_set(&f, 401, "error looking up user '%s'", user);
    abx__power(e, &u, true);
    int fd = -1;
    if (f.status == 0 && stat(path, &st) < 0) {
        if (errno == ENOENT)
            abx_e2b_fault_set(&f, 404, "path '%s' does not exist", path);
        else
            abx_e2b_fault_set(&f, 500, "error checking if path exists '%s': %s", path,
                              abx__errno_text(errno, text));
    } else if (f.status == 0 && S_ISDIR(st.st_mode)) {
        abx_e2b_fault_set(&f, 400, "path '%s' is a directory", path);
    } else if (f.status == 0 && !S_ISREG(st.st_mode) &&
               (live || S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode))) {
        /* E2B's envd answers a device with no bytes; its clients get that here as well. */
        abx_e2b_fault_set(&f, 400, "path '%s' is not a regular file", path);
    } else if (f.status == 0) {
        fd = abx__open_user(path, O_RDONLY, 0);
        if (fd < 0 || fstat(fd, &st) < 0)
            abx_e2b_fault_set(&f, 500, "error opening file: open %s: %s", path,
                              abx__errno_text(errno, text));
    }
    abx__power(e, &u, false);
    if (f.status != 0) {
        abx_close_fd(&fd);
        abx_e2b_get_fail(g, &f);
        return;
    }
    download *d = ABX_NEW(download);
    d->get = g;
    d->fd = fd;
    ABX_CHECK(uv_timer_init(e->loop, &d->next_turn) == 0);
    d->next_turn.data = d;
    bool until_end = live && S_ISREG(st.st_mode) && st.st_size == 0 && abx__is_proc(fd);
    abx_e2b_file_info info = {.size = until_end             ? -1
                                      : S_ISREG(st.st_mode) ? st.st_size
                                                            : 0,
                              .modified_s = st.st_mtim.tv_sec,
                              .path = path};
    abx_e2b_get_begin(g, &info, d);
}

void abx__get_send(void *file, int64_t offset, int64_t length)
{
    download *d = file;
    d->at = offset;
    d->left = length;
    abx__get_more(d);
}

void abx__get_more(void *file)
{
    download *d = file;
    uint8_t bytes[64 * 1024];
    for (int reads = 0; d->left != 0;) {
        if (reads++ == READS_A_TURN) {
            uv_timer_start(&d->next_turn, on_next_turn, 0, 0);
            return;
        }
        size_t want = sizeof(bytes);
        if (d->left > 0 && (uint64_t)d->left < want)
            want = (size_t)d->left;
        ssize_t n = pread(d->fd, bytes, want, d->at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (n == 0 && d->left < 0)
                break;
            abx_e2b_get_break(d->get); /* shorter than it was: the promised length cannot be kept */
            return;
        }
        d->at += n;
        if (d->left > 0)
            d->left -= n;
        if (abx_e2b_get_bytes(d->get, bytes, (size_t)n) == 0)
            return;
    }
    abx_e2b_get_end(d->get);
}

static void on_download_closed(uv_handle_t *timer)
{
    free(timer->data);
}

void abx__get_close(void *file)
{
    download *d = file;
    close(d->fd);
    uv_close((uv_handle_t *)&d->next_turn, on_download_closed);
}

/* --- up --------------------------------------------------------------------------------------------------------- */
typedef struct upload {
    abx_envd *envd;
    abx__user user;
    char *path;
    int fd;
    int mode;    /* -1: leave */
    char *aside; /* what is written until all is there; NULL: the file itself */
    int64_t want, size;
    int64_t looked_at; /* the size at which to look for room again */
    int64_t asked_at;  /* the size when that was done last */
    bool has_modified;
    struct timespec modified;
    abx_e2b_meta *meta;
    size_t meta_count;
    abx_e2b_fault fault;
} upload;

#define META_PREFIX "user.e2b."

/* What the last upload left is cleared: an upload without metadata has none. Where the file system knows no such
 * attributes nothing is stored. */
static void set_meta(const upload *u)
{
    char list[8192];
    ssize_t n = flistxattr(u->fd, list, sizeof(list));
    for (ssize_t i = 0; i < n; i += (ssize_t)strlen(list + i) + 1)
        if (abx_has_prefix(list + i, META_PREFIX))
            (void)fremovexattr(u->fd, list + i);
    for (size_t i = 0; i < u->meta_count; i++) {
        ABX_AUTO_FREE char *name = abx_format(META_PREFIX "%s", u->meta[i].key);
        (void)fsetxattr(u->fd, name, u->meta[i].value, strlen(u->meta[i].value), 0);
    }
}

static void aside_name(char name[16], bool existed)
{
    char tail[8];
    abx_random_id(tail, 7);
    snprintf(name, 16, ".abx-%c%s", existed ? 'o' : 'n', tail);
}

bool abx__is_aside(const char *name, bool *existed)
{
    if (!abx_has_prefix(name, ".abx-") || (name[5] != 'o' && name[5] != 'n') || strlen(name) != 13)
        return false;
    *existed = name[5] == 'o';
    return strspn(name + 6, "abcdefghijklmnopqrstuvwxyz0123456789") == 7;
}

/* A new file beside the old one, behind all links: renamed over it when all its bytes are there. 0; -1: as any file. */
static int open_aside(upload *u, bool existed, mode_t old_mode)
{
    if (existed) {
        char *real = realpath(u->path, NULL);
        if (!real)
            return -1;
        free(u->path);
        u->path = real;
    }
    struct stat st;
    if (!existed && lstat(u->path, &st) == 0)
        return -1; /* a link to nothing: written through it */
    ABX_AUTO_FREE char *dir = abx_path_dir(u->path);
    char name[16];
    aside_name(name, existed);
    ABX_AUTO_FREE char *aside = abx_format("%s/%s", dir, name);
    u->fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (u->fd < 0)
        return -1;
    u->aside = ABX_TAKE(aside);
    return existed && u->mode < 0 ? fchmod(u->fd, old_mode & 0777) : 0;
}

static int open_target(upload *u, bool whole)
{
    struct stat st;
    char text[96], at[4096];
    const char *what = NULL;
    if (abx__make_parents(u->envd, u->path, false, &u->user, &what, at) < 0) {
        if (strcmp(what, "file") == 0)
            abx_e2b_fault_set(&u->fault, 500, "error ensuring directories: path is a file: %s", at);
        else
            abx_e2b_fault_set(&u->fault, status_of(errno), "error ensuring directories: %s %s: %s",
                              what, at, abx__errno_text(errno, text));
        return -1;
    }
    bool existed = stat(u->path, &st) == 0;
    if (existed && S_ISDIR(st.st_mode)) {
        abx_e2b_fault_set(&u->fault, 400, "path is a directory: %s", u->path);
        return -1;
    }
    if (whole && (!existed || S_ISREG(st.st_mode)) && open_aside(u, existed, st.st_mode) == 0)
        existed = false;
    /* an existing file is given to the user before it is written, so that who watches sees CHMOD first */
    if (existed && S_ISREG(st.st_mode) && abx__own_path(u->envd, u->path, &u->user) < 0) {
        abx_e2b_fault_set(&u->fault, 500, "error changing file ownership: chown %s: %s", u->path,
                          abx__errno_text(errno, text));
        return -1;
    }
    if (u->fd < 0)
        u->fd = abx__open_user(u->path, O_WRONLY | O_CREAT, 0666);
    if (u->fd < 0 || fstat(u->fd, &st) < 0) {
        abx_e2b_fault_set(&u->fault, status_of(errno), "error opening file: open %s: %s", u->path,
                          abx__errno_text(errno, text));
        return -1;
    }
    if (abx__is_proc(u->fd) || S_ISFIFO(st.st_mode) || S_ISBLK(st.st_mode)) {
        abx_e2b_fault_set(&u->fault, 500, "error opening file: open %s: permission denied",
                          u->path);
        return -1;
    }
    if (S_ISREG(st.st_mode) && existed && ftruncate(u->fd, 0) < 0) {
        abx_e2b_fault_set(&u->fault, 500, "error opening file: open %s: %s", u->path,
                          abx__errno_text(errno, text));
        return -1;
    }
    if (!existed && abx__own_fd(u->envd, u->fd, &u->user) < 0) {
        abx_e2b_fault_set(&u->fault, 500, "error changing file ownership: chown %s: %s", u->path,
                          abx__errno_text(errno, text));
        return -1;
    }
    if (u->mode >= 0 && fchmod(u->fd, (mode_t)u->mode) < 0) {
        abx_e2b_fault_set(&u->fault, 500, "error changing file mode: chmod %s: %s", u->path,
                          abx__errno_text(errno, text));
        return -1;
    }
    return 0;
}

/* All bytes have come, or not: the time, and the place of a file that was written aside. */
static void conclude(upload *u, bool whole)
{
    char text[96];
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, u->modified};
    if (!whole || u->fault.status != 0 || (u->want >= 0 && u->size != u->want)) {
        if (u->aside)
            (void)unlink(u->aside);
        return;
    }
    set_meta(u);
    if (u->has_modified)
        (void)futimens(u->fd, times); /* a device or another's file has no time of ours */
    if (!u->aside || rename(u->aside, u->path) == 0)
        return;
    abx_e2b_fault_set(&u->fault, status_of(errno), "error writing file: rename %s: %s", u->path,
                      abx__errno_text(errno, text));
    (void)unlink(u->aside);
}

static void upload_free(upload *u)
{
    abx_close_fd(&u->fd);
    free(u->aside);
    for (size_t i = 0; i < u->meta_count; i++) {
        free((char *)(uintptr_t)u->meta[i].key);
        free((char *)(uintptr_t)u->meta[i].value);
    }
    free(u->meta);
    free(u->path);
    free(u);
}

void *abx__put_open(void *data, const char *path, const abx_e2b_put_options *o, abx_e2b_fault *f)
{
    upload *u = ABX_NEW(upload);
    u->envd = data;
    u->path = abx_strdup(path);
    u->fd = -1;
    u->mode = o->mode;
    u->want = o->size;
    u->has_modified = o->has_modified;
    u->modified = o->modified;
    u->meta = abx_alloc_array(o->meta_count ? o->meta_count : 1, sizeof(*u->meta));
    for (size_t i = 0; i < o->meta_count; i++) {
        u->meta[i].key = abx_strdup(o->meta[i].key);
        u->meta[i].value = abx_strdup(o->meta[i].value);
    }
    u->meta_count = o->meta_count;
    if (abx__user_find(u->envd, o->user, &u->user) != 1) {
        abx_e2b_fault_set(f, 401, "error looking up user '%s'", o->user);
        upload_free(u);
        return NULL;
    }
    abx__power(u->envd, &u->user, true);
    int rc = open_target(u, o->whole);
    abx__power(u->envd, &u->user, false);
    if (rc == 0)
        return u;
    *f = u->fault;
    if (u->aside) {
        abx__power(u->envd, &u->user, true);
        (void)unlink(u->aside);
        abx__power(u->envd, &u->user, false);
    }
    upload_free(u);
    return NULL;
}

/* Each MiB: is there still room by the sandbox's limit, or the host's? */
static bool may_go_on(upload *u)
{
    uint64_t wrote = (uint64_t)(u->size - u->asked_at);
    u->asked_at = u->size;
    u->looked_at = u->size + (1 << 20);
    return abx__guard_may_write(u->envd, wrote) == 0;
}

int abx__put_write(void *file, const uint8_t *bytes, size_t n)
{
    upload *u = file;
    char text[96];
    if (u->fault.status != 0)
        return -1;
    bool full = u->size >= u->looked_at && !may_go_on(u);
    for (size_t at = 0; at < n;) {
        errno = ENOSPC;
        ssize_t put = full ? -1 : write(u->fd, bytes + at, n - at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            int err = put < 0 ? errno : EIO;
            if (status_of(err) == 507)
                abx_e2b_fault_set(&u->fault, 507,
                                  "attempted to write %zu bytes: not enough disk space available",
                                  n);
            else
                abx_e2b_fault_set(&u->fault, 500, "error writing file: write %s: %s", u->path,
                                  abx__errno_text(err, text));
            return -1;
        }
        at += (size_t)put;
        u->size += put;
    }
    return 1;
}

void abx__put_close(void *file, bool whole, abx_e2b_put_done done, void *arg)
{
    upload *u = file;
    abx__power(u->envd, &u->user, true);
    conclude(u, whole);
    abx__power(u->envd, &u->user, false);
    abx_e2b_put_info info = {.size = u->size};
    abx_e2b_fault fault = u->fault;
    upload_free(u);
    if (done)
        done(arg, &info, &fault);
}
