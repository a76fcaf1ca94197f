#include "doors/cli/tar_unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/mem.h"
#include "doors/cli/safe_place.h"

/* A hostile stream has no end, and nothing that it makes needs a byte of disk to be counted: so many names are taken. Folders are
 * kept in memory until the end. */
#define MAX_ENTRIES      ((int64_t)2 * 1024 * 1024)
#define MAX_FOLDERS      ((size_t)256 * 1024)
#define MAX_FOLDER_BYTES ((size_t)64 * 1024 * 1024) /* of all their names */

/* The mode and time of a folder, set when everything in it is there. */
typedef struct folder {
    char *name;
    mode_t mode;
    struct timespec time;
} folder;

typedef struct unpacker {
    const abx_tar_unpack_options *o;
    struct archive *archive;
    folder *folders;
    size_t count, cap, name_bytes;
    int64_t seen; /* entries, also those that are left out */
    int64_t *files, *bytes;
    abx_error **err;
} unpacker;

static la_ssize_t on_read(struct archive *a, void *data, const void **bytes)
{
    unpacker *u = data;
    const uint8_t *got = NULL;
    size_t n = 0;
    int rc = u->o->read(&got, &n, u->o->data, u->err);
    if (rc < 0) {
        archive_set_error(a, EIO, "stopped");
        return -1;
    }
    *bytes = got;
    return rc == 0 ? 0 : (la_ssize_t)n;
}

static int fail_name(unpacker *u, const char *name)
{
    abx_fail_errno(u->err, ABX_ERR_FILE, errno, "cannot write '%s/%s'", u->o->name, name);
    if (errno == ELOOP || errno == ENOTDIR)
        return abx_hint(u->err, "a link or a file stands in the way, and links are not followed");
    return -1;
}

static int fail_archive(unpacker *u)
{
    return abx_fail(u->err, ABX_ERR_FILE, "cannot read the tar stream: %s",
                    archive_error_string(u->archive));
}

static struct timespec time_of(struct archive_entry *e)
{
    if (!archive_entry_mtime_is_set(e))
        return (struct timespec){.tv_nsec = UTIME_OMIT};
    return (struct timespec){archive_entry_mtime(e), archive_entry_mtime_nsec(e)};
}

static int too_many(unpacker *u, const char *what)
{
    abx_fail(u->err, ABX_ERR_TOO_LARGE, "the tar stream holds too many %s", what);
    return abx_hint(u->err, "copy it in parts, or packed into one file");
}

static int count(unpacker *u, int64_t n)
{
    u->seen += n;
    bool over = u->seen > (u->o->most_entries ? u->o->most_entries : MAX_ENTRIES);
    return over ? too_many(u, "files") : 0;
}

static int remember(unpacker *u, const char *name, struct archive_entry *e)
{
    u->name_bytes += strlen(name) + 1;
    if (u->count == MAX_FOLDERS || u->name_bytes > MAX_FOLDER_BYTES)
        return too_many(u, "folders");
    if (u->count == u->cap) {
        u->cap = u->cap ? u->cap * 2 : 64;
        u->folders = abx_realloc(u->folders, u->cap * sizeof *u->folders);
    }
    u->folders[u->count++] =
        (folder){abx_strdup(name), (mode_t)(archive_entry_perm(e) & 0777), time_of(e)};
    return 0;
}

/* Deepest last seen first, so that a folder without the right to write is closed after its contents. */
static int finish_folders(unpacker *u)
{
    for (size_t i = u->count; i > 0; i--) {
        const folder *f = &u->folders[i - 1];
        const char *base = ".";
        ABX_AUTO_FD dir = f->name[0] ? abx_safe_parent(u->o->root, f->name, false, &base)
                                     : openat(u->o->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ABX_AUTO_FD fd =
            dir < 0 ? -1 : openat(dir, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, f->time};
        if (fd < 0 || futimens(fd, times) < 0 || fchmod(fd, f->mode) < 0)
            return fail_name(u, f->name);
    }
    return 0;
}

static int write_data(unpacker *u, int fd, const char *name)
{
    const void *bytes;
    size_t n;
    la_int64_t offset;
    for (;;) {
        int rc = archive_read_data_block(u->archive, &bytes, &n, &offset);
        if (rc == ARCHIVE_EOF)
            return 0;
        if (rc != ARCHIVE_OK)
            return fail_archive(u);
        if (abx_pwrite_full(fd, bytes, n, offset) < 0) /* at an offset: holes stay holes */
            return fail_name(u, name);
        *u->bytes += (int64_t)n;
        abx_transfer_add(u->o->transfer, (int64_t)n, 0);
    }
}

static int fill_file(unpacker *u, int fd, const char *name, struct archive_entry *e)
{
    if (write_data(u, fd, name) < 0)
        return -1;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, time_of(e)};
    int64_t size = archive_entry_size_is_set(e) ? archive_entry_size(e) : -1;
    if ((size >= 0 && ftruncate(fd, size) < 0) || fchmod(fd, archive_entry_perm(e) & 0777) < 0 ||
        futimens(fd, times) < 0)
        return fail_name(u, name);
    return 0;
}

/* Written aside, then put in its place: at any moment the old or the new one is there, whole. */
static int make_file(unpacker *u, int dir, const char *base, const char *name,
                     struct archive_entry *e)
{
    char aside[16] = ".abx-";
    abx_random_id(aside + 5, 8);
    ABX_AUTO_FD fd = openat(dir, aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail_name(u, name);
    int rc = fill_file(u, fd, name, e);
    if (rc == 0 && renameat(dir, aside, dir, base) < 0)
        rc = fail_name(u, name);
    if (rc < 0)
        unlinkat(dir, aside, 0);
    return rc;
}

static int make_folder(unpacker *u, int dir, const char *base, const char *name,
                       struct archive_entry *e)
{
    if (mkdirat(dir, base, 0700) < 0 && errno != EEXIST)
        return fail_name(u, name);
    ABX_AUTO_FD fd = openat(dir, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail_name(u, name);
    (void)fchmod(fd, (archive_entry_perm(e) & 0777) | 0700); /* for now; the real mode comes last */
    return remember(u, name, e);
}

static int make_symlink(unpacker *u, int dir, const char *base, const char *name,
                        struct archive_entry *e)
{
    const char *target = archive_entry_symlink(e);
    if (!target)
        target = archive_entry_symlink_utf8(e);
    if (!target || !target[0])
        return abx_fail(u->err, ABX_ERR_FILE, "the link '%.200s' in the stream has no target",
                        name);
    if ((unlinkat(dir, base, 0) < 0 && errno != ENOENT) || symlinkat(target, dir, base) < 0)
        return fail_name(u, name);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, time_of(e)};
    (void)utimensat(dir, base, times,
                    AT_SYMLINK_NOFOLLOW); /* not every file system has times of links */
    return 0;
}

static bool is_wanted(unpacker *u, const char *name)
{
    if (!u->o->wants || u->o->wants(name, u->o->wants_data))
        return true;
    abx_fail(u->err, ABX_ERR_FILE, "the stream holds '%.200s', which was not asked for", name);
    return false;
}

/* A second name of a file that came before: found by the same safe way, never through a link. */
static int make_hardlink(unpacker *u, int dir, const char *base, const char *name,
                         const char *target)
{
    ABX_AUTO_FREE char *clean = abx_safe_name(target, u->err);
    if (!clean)
        return -1;
    if (!clean[0])
        return abx_fail(u->err, ABX_ERR_FILE, "the link '%.200s' in the stream has no target",
                        name);
    if (!is_wanted(u, clean))
        return -1;
    const char *old = NULL;
    ABX_AUTO_FD from = abx_safe_parent(u->o->root, clean, false, &old);
    struct stat st;
    if (from < 0 || fstatat(from, old, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return fail_name(u, clean);
    if (!S_ISREG(st.st_mode))
        return abx_fail(u->err, ABX_ERR_FILE, "the link '%.200s' in the stream points at no file",
                        name);
    if (strcmp(clean, name) == 0)
        return 0;
    if ((unlinkat(dir, base, 0) < 0 && errno != ENOENT) || linkat(from, old, dir, base, 0) < 0)
        return fail_name(u, name);
    return 0;
}

/* The folder that the name lies in. A whole stream has told it before; one that has not may make many folders with one name, and
 * these are counted. */
static int open_parent(unpacker *u, const char *name, const char **base)
{
    int dir = abx_safe_parent(u->o->root, name, false, base);
    if (dir >= 0 || errno != ENOENT)
        return dir >= 0 ? dir : fail_name(u, name);
    int64_t levels = 0;
    for (const char *at = name; (at = strchr(at, '/')); at++)
        levels++;
    if (count(u, levels) < 0)
        return -1;
    dir = abx_safe_parent(u->o->root, name, true, base);
    return dir >= 0 ? dir : fail_name(u, name);
}

static int make_entry(unpacker *u, struct archive_entry *e)
{
    const char *raw = archive_entry_pathname(e);
    if (!raw)
        raw = archive_entry_pathname_utf8(e);
    if (count(u, 1) < 0)
        return -1;
    if (u->o->only && *u->files > 0)
        return abx_fail(u->err, ABX_ERR_FILE, "the tar stream holds more than one file");
    ABX_AUTO_FREE char *name = raw ? abx_safe_name(u->o->only ? u->o->only : raw, u->err) : NULL;
    if (!name)
        return raw ? -1 : abx_fail(u->err, ABX_ERR_FILE, "an entry of the stream has no name");
    mode_t type = archive_entry_filetype(e);
    if (u->o->only && (type != AE_IFREG || archive_entry_hardlink(e)))
        return abx_fail(u->err, ABX_ERR_FILE, "'%s' is no regular file", u->o->name);
    if (!name[0]) { /* the folder itself */
        return type == AE_IFDIR && u->o->with_root ? remember(u, name, e) : 0;
    }
    if (!is_wanted(u, name))
        return -1;
    const char *base = NULL;
    ABX_AUTO_FD dir = open_parent(u, name, &base);
    if (dir < 0)
        return -1;
    ++*u->files;
    abx_transfer_add(u->o->transfer, 0, 1);
    if (archive_entry_hardlink(e))
        return make_hardlink(u, dir, base, name, archive_entry_hardlink(e));
    if (type == AE_IFREG)
        return make_file(u, dir, base, name, e);
    if (type == AE_IFDIR)
        return make_folder(u, dir, base, name, e);
    if (type == AE_IFLNK)
        return make_symlink(u, dir, base, name, e);
    --*u->files;
    abx_cli_warn(u->o->cli, "abx: left out '%s': no file, folder or link", name);
    return 0;
}

static int read_all(unpacker *u)
{
    struct archive_entry *e = NULL;
    for (;;) {
        int rc = archive_read_next_header(u->archive, &e);
        if (rc == ARCHIVE_EOF)
            return finish_folders(u);
        if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
            return fail_archive(u);
        if (make_entry(u, e) < 0)
            return -1;
    }
}

int abx_tar_unpack(const abx_tar_unpack_options *options, int64_t *files, int64_t *bytes,
                   abx_error **err)
{
    unpacker u = {
        .o = options, .archive = archive_read_new(), .files = files, .bytes = bytes, .err = err};
    ABX_CHECK(u.archive != NULL);
    archive_read_support_format_tar(u.archive);
    archive_read_set_options(u.archive, "hdrcharset=BINARY"); /* names are bytes */
    int rc =
        archive_read_open(u.archive, &u, NULL, on_read, NULL) == ARCHIVE_OK ? 0 : fail_archive(&u);
    if (rc == 0)
        rc = read_all(&u);
    archive_read_free(u.archive);
    for (size_t i = 0; i < u.count; i++)
        free(u.folders[i].name);
    free(u.folders);
    return rc;
}
