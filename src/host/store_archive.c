/* A .tar.gz becomes a plugin's folder in the store. Everything in it is hostile: an entry that may not be there is refused by its
 * name, and nothing is made outside of the folder. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/beneath.h"
#include "base/compression.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/store_inner.h"

#define PIECE ((size_t)128 * 1024)
#define STREAM_MAX                                                                                 \
    (ABX_PLUGIN_BYTES + (256ULL << 20)) /* bytes of the tar stream, headers and all */
#define TICK_COUNT 64u
#define TICK_BYTES (4u << 20)

typedef struct unpacker {
    const abx_store_task *task;
    const char *name; /* of the archive, for errors */
    int fd, root;
    struct archive *archive;
    z_stream z;
    bool begun, ended, z_open;
    uint8_t *in, *out;
    uint64_t streamed, entries, bytes, ticked;
    abx_error *error; /* what the reader said, to be told instead of the library's words */
} unpacker;

/* --- failures ---------------------------------------------------------------------------------------- */

static int refuse(const char *entry, const char *why, abx_error **err)
{
    ABX_AUTO_FREE char *shown = abx_strndup(entry, 400);
    ABX_AUTO_FREE char *safe = abx_printable(shown);
    return abx_fail(err, ABX_ERR_FILE, "entry '%s' of the archive is refused: %s", safe, why);
}

static int fail_entry(const char *entry, abx_error **err)
{
    int e = errno;
    if (e == ELOOP || e == ENOTDIR || e == EXDEV)
        return refuse(entry, "a link or a file stands in its way", err);
    if (e == EEXIST)
        return refuse(entry, "it comes twice, or two names differ only by case", err);
    ABX_AUTO_FREE char *safe = abx_printable(entry);
    return abx_fail_errno(err, ABX_ERR_FILE, e, "cannot unpack '%.400s'", safe);
}

static int fail_archive(unpacker *u, abx_error **err)
{
    if (u->error)
        return abx_error_take(err, ABX_TAKE(u->error));
    const char *why = archive_error_string(u->archive);
    return abx_fail(err, ABX_ERR_FILE, "'%s' is no tar archive, or is cut off: %s", u->name,
                    why ? why : "broken bytes");
}

/* --- bytes ------------------------------------------------------------------------------------------- */

static int no_gzip(unpacker *u, size_t n)
{
    const char *is = abx_compression_of(u->in, n);
    if (is)
        abx_fail(&u->error, ABX_ERR_FILE, "'%s' is compressed with %s, not with gzip", u->name, is);
    else
        abx_fail(&u->error, ABX_ERR_FILE, "'%s' is not compressed with gzip", u->name);
    return abx_hint(&u->error,
                    "'tar czf NAME.tar.gz FOLDER' makes an archive that can be installed");
}

/* More compressed bytes: 1, 0 at the end of the file, -1 and u->error. */
static int refill(unpacker *u)
{
    ssize_t n;
    do
        n = read(u->fd, u->in, PIECE);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return abx_fail_errno(&u->error, ABX_ERR_FILE, errno, "cannot read '%s'", u->name);
    if (!u->begun && !(n >= 2 && u->in[0] == 0x1f && u->in[1] == 0x8b))
        return no_gzip(u, (size_t)n);
    if (!u->begun && inflateInit2(&u->z, 16 + MAX_WBITS) != Z_OK)
        return abx_fail(&u->error, ABX_ERR_INTERNAL, "cannot unpack gzip");
    u->begun = u->z_open = true;
    u->z.next_in = u->in;
    u->z.avail_in = (uInt)n;
    return n > 0;
}

/* The next bytes of the tar stream into u->out: their number, 0 at the end, -1 and u->error. The library's own reader would not
 * compare gzip's check sum. */
static ssize_t inflate_some(unpacker *u)
{
    u->z.next_out = u->out;
    u->z.avail_out = (uInt)PIECE;
    while (u->z.avail_out == PIECE && !u->ended) {
        if (u->z.avail_in == 0) {
            int more = refill(u);
            if (more < 0)
                return -1;
            if (more == 0)
                return abx_fail(&u->error, ABX_ERR_FILE, "'%s' is cut off", u->name);
        }
        int rc = inflate(&u->z, Z_NO_FLUSH);
        if (rc == Z_STREAM_END) {
            if (u->z.avail_in == 0 && refill(u) < 0)
                return -1;
            u->ended =
                u->z.avail_in == 0 || u->z.next_in[0] != 0x1f; /* else another member follows */
            if (!u->ended && inflateReset(&u->z) != Z_OK)
                return -1;
        } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
            return abx_fail(&u->error, ABX_ERR_FILE, "'%s' is broken: %s", u->name,
                            u->z.msg ? u->z.msg : "bytes that are no gzip");
        }
    }
    size_t n = PIECE - u->z.avail_out;
    u->streamed += n;
    if (u->streamed > STREAM_MAX)
        return abx_fail(&u->error, ABX_ERR_TOO_LARGE, "'%s' unpacks to more than %llu MiB", u->name,
                        STREAM_MAX >> 20);
    return (ssize_t)n;
}

static la_ssize_t on_read(struct archive *a, void *data, const void **bytes)
{
    unpacker *u = (unpacker *)data;
    ssize_t n = inflate_some(u);
    if (n < 0)
        archive_set_error(a, EIO, "stopped");
    *bytes = u->out;
    return n;
}

static int tick(unpacker *u, abx_error **err)
{
    u->ticked = u->streamed;
    return u->task && u->task->tick ? u->task->tick(u->task->data, u->entries, u->bytes, err) : 0;
}

/* --- entries ----------------------------------------------------------------------------------------- */

static int write_data(unpacker *u, int fd, const char *name, abx_error **err)
{
    const void *bytes;
    size_t n;
    la_int64_t offset;
    for (;;) {
        int rc = archive_read_data_block(u->archive, &bytes, &n, &offset);
        if (rc == ARCHIVE_EOF)
            return 0;
        if (rc != ARCHIVE_OK)
            return fail_archive(u, err);
        if (abx_pwrite_full(fd, bytes, n, offset) < 0) /* at an offset: holes stay holes */
            return fail_entry(name, err);
        if (u->streamed - u->ticked >= TICK_BYTES && tick(u, err) < 0)
            return -1;
    }
}

static int make_file(unpacker *u, int dir, const char *base, const char *name,
                     struct archive_entry *e, abx_error **err)
{
    int64_t size = archive_entry_size(e);
    if (size < 0 || (uint64_t)size > ABX_PLUGIN_BYTES - u->bytes) {
        ABX_AUTO_FREE char *safe = abx_printable(name);
        return abx_fail(
            err, ABX_ERR_TOO_LARGE,
            "entry '%.400s' of the archive is refused: the plugin would hold more than %llu MiB",
            safe, ABX_PLUGIN_BYTES >> 20);
    }
    u->bytes += (uint64_t)size;
    ABX_AUTO_FD fd = openat(dir, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail_entry(name, err);
    if (write_data(u, fd, name, err) < 0)
        return -1;
    if (ftruncate(fd, size) < 0 || fchmod(fd, abx__store_mode(archive_entry_perm(e))) < 0)
        return fail_entry(name, err);
    return 0;
}

static int make_folder(int dir, const char *base, const char *name, abx_error **err)
{
    struct stat st;
    if (mkdirat(dir, base, 0700) == 0)
        return 0;
    int e = errno;
    if (e == EEXIST && fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
        return 0; /* made for what is in it, or said again */
    errno = e;
    return fail_entry(name, err);
}

static int make_symlink(int dir, const char *base, const char *name, struct archive_entry *e,
                        abx_error **err)
{
    const char *target = archive_entry_symlink(e);
    if (!target || !*target)
        return refuse(name, "the link leads nowhere", err);
    if (target[0] == '/')
        return refuse(name, "the link leaves the plugin's folder", err);
    return symlinkat(target, dir, base) < 0 ? fail_entry(name, err) : 0;
}

/* A second name of a file that came before. */
static int make_hardlink(unpacker *u, int dir, const char *base, const char *name,
                         const char *target, abx_error **err)
{
    const char *why, *old;
    struct stat st;
    if (target[0] == '/')
        return refuse(name, "the link leaves the archive", err);
    ABX_AUTO_FREE char *clean = abx_entry_path(target, &why);
    if (!clean || !*clean)
        return refuse(name, clean ? "the link leads nowhere" : "the link leaves the archive", err);
    ABX_AUTO_FD from = abx_safe_parent(u->root, clean, false, &old);
    if (from < 0 || fstatat(from, old, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return refuse(name, "it is a link to no file that came before it", err);
    return linkat(from, old, dir, base, 0) < 0 ? fail_entry(name, err) : 0;
}

static int make_named(unpacker *u, const char *name, struct archive_entry *e, abx_error **err)
{
    const char *base, *link = archive_entry_hardlink(e);
    mode_t type = archive_entry_filetype(e);
    if (!link && abx_tree_odd_type(type))
        return refuse(name, abx_tree_odd_type(type), err);
    ABX_AUTO_FD dir = abx_safe_parent(u->root, name, true, &base);
    if (dir < 0)
        return fail_entry(name, err);
    if (link)
        return make_hardlink(u, dir, base, name, link, err);
    if (type == AE_IFREG)
        return make_file(u, dir, base, name, e, err);
    return type == AE_IFLNK ? make_symlink(dir, base, name, e, err)
                            : make_folder(dir, base, name, err);
}

static int make_entry(unpacker *u, struct archive_entry *e, abx_error **err)
{
    const char *raw = archive_entry_pathname(e), *why = NULL;
    if (!raw)
        return abx_fail(err, ABX_ERR_FILE, "an entry of the archive has no name");
    if (raw[0] == '/')
        return refuse(raw, "its path is absolute", err);
    ABX_AUTO_FREE char *name = abx_entry_path(raw, &why);
    if (!name)
        return refuse(raw, why, err);
    if (++u->entries > ABX_PLUGIN_ENTRIES)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the archive holds more than %u entries",
                        ABX_PLUGIN_ENTRIES);
    if (u->entries % TICK_COUNT == 0 && tick(u, err) < 0)
        return -1;
    if (*name)
        return make_named(u, name, e, err);
    return archive_entry_filetype(e) == AE_IFDIR ? 0 : refuse(raw, "it is no folder", err);
}

/* What is left behind the end of the archive: gzip's check sum stands there. */
static int drain(unpacker *u, abx_error **err)
{
    ssize_t n;
    while ((n = inflate_some(u)) > 0)
        ;
    return n < 0 ? fail_archive(u, err) : 0;
}

static int read_all(unpacker *u, abx_error **err)
{
    struct archive_entry *e = NULL;
    for (;;) {
        int rc = archive_read_next_header(u->archive, &e);
        if (rc == ARCHIVE_EOF && !u->error)
            return drain(u, err);
        if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
            return fail_archive(u, err);
        if (make_entry(u, e, err) < 0)
            return -1;
    }
}

/* Folders were made for the unpacking alone. */
static int open_folders(int fd, unsigned depth, abx_error **err)
{
    char **names;
    size_t count;
    struct stat st;
    if (depth > ABX_PLUGIN_DEPTH + 1) /* one more: the archive may hold the plugin's folder */
        return abx_fail(err, ABX_ERR_FILE, "the archive is too deep");
    if (fchmod(fd, 0755) < 0 || abx_tree_names(fd, &names, &count) < 0)
        return fail_entry(".", err);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (fstatat(fd, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
            continue;
        ABX_AUTO_FD in = abx_open_beneath(fd, names[i], O_RDONLY | O_DIRECTORY, 0);
        rc = in < 0 ? fail_entry(names[i], err) : open_folders(in, depth + 1, err);
    }
    abx_tree_names_free(names, count);
    return rc;
}

int abx__store_unpack(int fd, const char *name, int to, const abx_store_task *task, abx_error **err)
{
    unpacker u = {.task = task, .name = name, .fd = fd, .root = to, .archive = archive_read_new()};
    ABX_CHECK(u.archive != NULL);
    u.in = (uint8_t *)abx_alloc(PIECE);
    u.out = (uint8_t *)abx_alloc(PIECE);
    archive_read_support_format_tar(u.archive);
    archive_read_support_format_empty(u.archive);
    archive_read_set_options(u.archive, "hdrcharset=BINARY"); /* names are bytes */
    int rc = archive_read_open(u.archive, &u, NULL, on_read, NULL) == ARCHIVE_OK
                 ? read_all(&u, err)
                 : fail_archive(&u, err);
    if (rc == 0)
        rc = open_folders(to, 0, err);
    archive_read_free(u.archive);
    if (u.z_open)
        inflateEnd(&u.z);
    free(u.in);
    free(u.out);
    abx_error_free(u.error);
    return rc;
}
