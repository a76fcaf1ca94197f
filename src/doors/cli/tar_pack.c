#include "doors/cli/tar_pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "doors/cli/safe_place.h"

#define READ_SIZE  ((size_t)256 * 1024)
#define DEPTH_MAX  512   /* each level holds a descriptor */
#define MAX_PIECES 65536 /* of data between holes; a file with more is packed whole */

typedef struct packer {
    const abx_tar_pack_options *o;
    struct archive *archive;
    struct archive_entry_linkresolver *links;
    uint8_t *buffer;
    int64_t *files, *bytes;
    bool stopped; /* nobody wants more */
    abx_error **err;
} packer;

static la_ssize_t on_write(struct archive *a, void *data, const void *bytes, size_t n)
{
    packer *p = data;
    int rc = p->stopped ? 1 : p->o->write(bytes, n, p->o->data, p->err);
    if (rc < 0) {
        archive_set_error(a, EIO, "stopped");
        return -1;
    }
    p->stopped = rc == 1;
    return (la_ssize_t)n;
}

static int fail_path(packer *p, const char *path)
{
    return abx_fail_errno(p->err, ABX_ERR_FILE, errno, "cannot read '%s/%s'", p->o->root, path);
}

/* The writer failed: our own error is there already, or libarchive tells. */
static int fail_archive(packer *p, const char *path)
{
    return abx_fail(p->err, ABX_ERR_FILE, "cannot pack '%s/%s': %s", p->o->root, path,
                    archive_error_string(p->archive));
}

/* A hole: the writer only counts the bytes. */
static int write_hole(packer *p, const char *path, int64_t size)
{
    memset(p->buffer, 0, READ_SIZE);
    for (int64_t left = size; left > 0 && !p->stopped;) {
        size_t want = left < (int64_t)READ_SIZE ? (size_t)left : READ_SIZE;
        if (archive_write_data(p->archive, p->buffer, want) < 0)
            return fail_archive(p, path);
        left -= (int64_t)want;
    }
    return 0;
}

static int write_data(packer *p, int fd, const char *path, int64_t at, int64_t size)
{
    int64_t left = size;
    while (left > 0 && !p->stopped) {
        size_t want = left < (int64_t)READ_SIZE ? (size_t)left : READ_SIZE;
        ssize_t n = pread(fd, p->buffer, want, at + size - left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_path(p, path);
        if (n == 0)
            return abx_fail(p->err, ABX_ERR_FILE, "'%s/%s' became shorter while it was read",
                            p->o->root, path);
        if (archive_write_data(p->archive, p->buffer, (size_t)n) < 0)
            return fail_archive(p, path);
        left -= n;
        *p->bytes += n;
        abx_transfer_add(p->o->transfer, n, 0);
    }
    return 0;
}

/* Tell the entry where the data of a file with holes is. False: pack it whole. */
static bool find_data(int fd, const struct stat *st, struct archive_entry *e)
{
    if ((int64_t)st->st_blocks * 512 >= st->st_size)
        return false;
    int pieces = 0;
    for (off_t at = 0; at < st->st_size;) {
        off_t data = lseek(fd, at, SEEK_DATA);
        off_t end = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
        if (data < 0 && errno == ENXIO)
            break;
        if (end < 0 || ++pieces > MAX_PIECES) {
            archive_entry_sparse_clear(e);
            return false;
        }
        end = end < st->st_size ? end : st->st_size;
        archive_entry_sparse_add_entry(e, data, end - data);
        at = end;
    }
    /* Holes alone: an empty piece at the end, so that it is known as a file with holes. */
    if (pieces == 0)
        archive_entry_sparse_add_entry(e, st->st_size, 0);
    return true;
}

/* The pieces that the entry names, and the holes between them. */
static int write_sparse(packer *p, int fd, const char *path, struct archive_entry *e)
{
    int64_t at = 0, size = archive_entry_size(e);
    la_int64_t offset, length;
    archive_entry_sparse_reset(e);
    while (archive_entry_sparse_next(e, &offset, &length) == ARCHIVE_OK) {
        if (write_hole(p, path, offset - at) < 0 || write_data(p, fd, path, offset, length) < 0)
            return -1;
        at = offset + length;
    }
    return write_hole(p, path, size - at);
}

static struct archive_entry *new_entry(const char *path, const struct stat *st)
{
    struct archive_entry *e = archive_entry_new();
    ABX_CHECK(e != NULL);
    archive_entry_copy_pathname(e, path);
    archive_entry_set_mode(e, (st->st_mode & S_IFMT) | (st->st_mode & (0777 | S_ISVTX)));
    archive_entry_set_mtime(e, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
    archive_entry_set_dev(e, st->st_dev);
    archive_entry_set_ino64(e, (int64_t)st->st_ino);
    archive_entry_set_nlink(e, (unsigned)st->st_nlink);
    archive_entry_set_size(e, S_ISREG(st->st_mode) ? st->st_size : 0);
    return e;
}

static void count_one(packer *p)
{
    ++*p->files;
    abx_transfer_add(p->o->transfer, 0, 1);
}

static int add_open_file(packer *p, int fd, const char *path, const struct stat *st)
{
    struct archive_entry *e = new_entry(path, st);
    struct archive_entry *spare = NULL;
    archive_entry_linkify(p->links, &e, &spare); /* a second name becomes a link without data */
    bool is_link = archive_entry_hardlink(e) != NULL;
    bool sparse = !is_link && !p->o->plain && find_data(fd, st, e);
    int64_t size = is_link ? 0 : archive_entry_size(e);
    int rc = archive_write_header(p->archive, e) < ARCHIVE_WARN ? fail_archive(p, path) : 0;
    if (rc == 0 && sparse)
        rc = write_sparse(p, fd, path, e);
    else if (rc == 0 && size > 0)
        rc = write_data(p, fd, path, 0, size);
    archive_entry_free(e);
    count_one(p);
    return rc;
}

static int add_file(packer *p, int dir, const char *name, const char *path)
{
    ABX_AUTO_FD fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return p->o->names && errno == ENOENT ? 0 : fail_path(p, path);
    return S_ISREG(st.st_mode) ? add_open_file(p, fd, path, &st) : 0;
}

static int add_link(packer *p, int dir, const char *name, const char *path, const struct stat *st)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
    if (n < 0)
        return fail_path(p, path);
    target[n] = 0;
    struct archive_entry *e = new_entry(path, st);
    archive_entry_copy_symlink(e, target);
    int rc = archive_write_header(p->archive, e) < ARCHIVE_WARN ? fail_archive(p, path) : 0;
    archive_entry_free(e);
    count_one(p);
    return rc;
}

static int add_folder_entry(packer *p, const char *path, const struct stat *st);
static int add_folder(packer *p, int dir, const char *path, const struct stat *st, int depth);

static int add_one(packer *p, int dir, const char *name, const char *path, int depth)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : fail_path(p, path); /* gone meanwhile */
    if (S_ISREG(st.st_mode))
        return add_file(p, dir, name, path);
    if (S_ISLNK(st.st_mode))
        return add_link(p, dir, name, path, &st);
    if (!S_ISDIR(st.st_mode)) {
        abx_cli_warn(p->o->cli, "abx: left out '%s/%s': no file, folder or link", p->o->root, path);
        return 0;
    }
    if (p->o->names)
        return add_folder_entry(p, path, &st);
    ABX_AUTO_FD fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail_path(p, path);
    return add_folder(p, fd, path, &st, depth + 1);
}

/* The entry of a folder itself; path "" is the root. */
static int add_folder_entry(packer *p, const char *path, const struct stat *st)
{
    ABX_AUTO_FREE char *with_slash = abx_format("%s/", path[0] ? path : ".");
    struct archive_entry *e = new_entry(with_slash, st);
    int rc = archive_write_header(p->archive, e) < ARCHIVE_WARN ? fail_archive(p, path) : 0;
    archive_entry_free(e);
    count_one(p);
    return rc;
}

static int add_folder(packer *p, int dir, const char *path, const struct stat *st, int depth)
{
    if (depth > DEPTH_MAX)
        return abx_fail(p->err, ABX_ERR_TOO_LARGE, "'%s/%s' is nested too deep", p->o->root, path);
    if ((path[0] || p->o->with_root) && add_folder_entry(p, path, st) < 0)
        return -1;
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy >= 0 ? fdopendir(copy) : NULL;
    if (!list) {
        int rc = fail_path(p, path);
        if (copy >= 0)
            close(copy);
        return rc;
    }
    int rc = 0;
    struct dirent *entry;
    while (rc == 0 && !p->stopped && (errno = 0, entry = readdir(list)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        ABX_AUTO_FREE char *child =
            path[0] ? abx_format("%s/%s", path, entry->d_name) : abx_strdup(entry->d_name);
        rc = add_one(p, dir, entry->d_name, child, depth);
    }
    if (rc == 0 && !p->stopped && errno != 0)
        rc = fail_path(p, path);
    closedir(list);
    return rc;
}

/* Only what was asked for. */
static int add_names(packer *p, int root)
{
    for (size_t i = 0; i < p->o->name_count && !p->stopped; i++) {
        const char *path = p->o->names[i], *base = NULL;
        ABX_AUTO_FD dir = abx_safe_parent(root, path, false, &base);
        if (dir < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
            continue; /* gone meanwhile */
        if (dir < 0)
            return fail_path(p, path);
        if (add_one(p, dir, base, path, 0) < 0)
            return -1;
    }
    return 0;
}

/* name: of the one file at fd; NULL: fd is a folder. */
static int pack(int fd, const char *name, const abx_tar_pack_options *options, int64_t *files,
                int64_t *bytes, abx_error **err)
{
    struct stat st;
    ABX_AUTO_FREE uint8_t *buffer = abx_alloc(READ_SIZE);
    packer p = {
        options, archive_write_new(), archive_entry_linkresolver_new(), buffer, files, bytes, false,
        err};
    ABX_CHECK(p.archive && p.links);
    if (options->plain) {
        /* The old GNU form: names are bytes, every tar reads it. */
        archive_write_set_format_gnutar(p.archive);
    } else {
        archive_write_set_format_pax(p.archive);
        archive_write_set_options(p.archive, "hdrcharset=BINARY"); /* names are bytes */
    }
    archive_write_set_bytes_per_block(p.archive, 0);
    archive_entry_linkresolver_set_strategy(p.links, ARCHIVE_FORMAT_TAR_GNUTAR);
    int rc = fstat(fd, &st) < 0 ? fail_path(&p, "") : 0;
    if (rc == 0 && archive_write_open(p.archive, &p, NULL, on_write, NULL) != ARCHIVE_OK)
        rc = fail_archive(&p, "");
    if (rc == 0 && name)
        rc = add_open_file(&p, fd, name, &st);
    else if (rc == 0 && options->names)
        rc = add_names(&p, fd);
    else if (rc == 0)
        rc = add_folder(&p, fd, "", &st, 0);
    if (rc == 0 && archive_write_close(p.archive) != ARCHIVE_OK && !p.stopped)
        rc = fail_archive(&p, "");
    if (rc < 0)
        archive_write_fail(p.archive); /* no end mark: half a stream must not look whole */
    archive_entry_linkresolver_free(p.links);
    archive_write_free(p.archive);
    return rc;
}

int abx_tar_pack(int fd, const abx_tar_pack_options *options, int64_t *files, int64_t *bytes,
                 abx_error **err)
{
    return pack(fd, NULL, options, files, bytes, err);
}

int abx_tar_pack_file(int fd, const char *name, const abx_tar_pack_options *options, int64_t *files,
                      int64_t *bytes, abx_error **err)
{
    return pack(fd, name, options, files, bytes, err);
}
