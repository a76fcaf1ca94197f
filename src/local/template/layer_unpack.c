#include "local/template/layer_unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/template/marks.h"
#include "local/template/layer_name.h"

#define LOOK_BYTES    (64ULL << 20) /* the disk and the caller are asked once in so many */
#define FOLDERS_MAX   ((size_t)1000 * 1000)
#define XATTRS_MAX    64u
#define XATTR_BYTES   (64u << 10) /* of one file */
#define INSIDE_ID_MAX 65535
#define MODE_BITS     01777 /* what is kept of a mode */

/* The mode and time of a folder, set when all in it is there. */
typedef struct folder {
    char *name;
    mode_t mode;
    struct timespec time;
} folder;

typedef struct unpacker {
    abx_unpack *o;
    abx_layer_stream *stream;
    struct archive *archive;
    char *parent; /* name of the folder that parent_fd is; NULL: none */
    int parent_fd;
    folder *folders;
    size_t folder_count, folder_room;
    uint64_t looked;  /* bytes at the last look */
    abx_error *error; /* what the stream said */
} unpacker;

/* --- failures ---------------------------------------------------------------------------------------- */

static int refuse(const char *name, const char *why, abx_error **err)
{
    ABX_AUTO_FREE char *safe = abx_printable(name);
    return abx_fail(err, ABX_ERR_FILE, "entry '%.400s' of the layer is refused: %s", safe, why);
}

static int fail_entry(const char *name, abx_error **err)
{
    int e = errno;
    if (e == ELOOP || e == ENOTDIR || e == EXDEV)
        return refuse(name, "a link or a file stands in its way", err);
    ABX_AUTO_FREE char *safe = abx_printable(name);
    return abx_fail_errno(err, ABX_ERR_FILE, e, "cannot unpack '%.400s' of the layer", safe);
}

static int fail_archive(unpacker *u, abx_error **err)
{
    if (u->error)
        return abx_error_take(err, ABX_TAKE(u->error));
    const char *why = archive_error_string(u->archive);
    return abx_fail(err, ABX_ERR_FILE, "a layer is no tar archive, or is cut off: %s",
                    why ? why : "broken bytes");
}

/* --- limits ------------------------------------------------------------------------------------------ */

static int look_around(unpacker *u, abx_error **err)
{
    struct statvfs st;
    u->looked = u->o->done_bytes;
    if (fstatvfs(u->o->dirfd, &st) == 0 && st.f_blocks > 0 &&
        (uint64_t)st.f_bavail * st.f_frsize < u->o->free_bytes)
        return abx_fail(err, ABX_ERR_NO_SPACE, "less than %llu MiB would be left on the disk",
                        (unsigned long long)u->o->free_bytes >> 20);
    return u->o->progress ? u->o->progress(u->o->data, u->o->done_bytes, err) : 0;
}

/* size: what an entry says that it holds; a sparse one may hold less. */
static int check_entry(unpacker *u, const char *name, int64_t size, abx_error **err)
{
    if (size < 0)
        return refuse(name, "its size is below 0", err);
    if (u->o->entries == 0)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the image holds too many files");
    u->o->entries--;
    u->o->done_entries++;
    if ((uint64_t)size > u->o->bytes)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the layers hold more bytes than are taken");
    u->o->bytes -= (uint64_t)size;
    return u->o->done_entries % 1024 == 0 ? look_around(u, err) : 0;
}

/* --- parents ----------------------------------------------------------------------------------------- */

/* Make the folders of `path` that are not there. */
static int make_parents(unpacker *u, char *path)
{
    for (char *p = path;; p++) {
        if (*p != '/' && *p)
            continue;
        char keep = *p;
        *p = 0;
        char *slash = strrchr(path, '/');
        int up = slash ? (*slash = 0, abx_open_beneath(u->o->dirfd, path, O_PATH | O_DIRECTORY, 0))
                       : abx_open_beneath(u->o->dirfd, ".", O_PATH | O_DIRECTORY, 0);
        int rc = up < 0 ? -1 : mkdirat(up, slash ? slash + 1 : path, 0755);
        if (rc == 0 && u->o->own)
            rc = fchownat(up, slash ? slash + 1 : path, 0, 0, AT_SYMLINK_NOFOLLOW);
        if (slash)
            *slash = '/';
        *p = keep;
        int e = errno;
        abx_close_fd(&up);
        if (rc < 0 && e != EEXIST) {
            errno = e;
            return -1;
        }
        if (!keep)
            return 0;
    }
}

/* The open folder of a name and its last part; borrowed until the next call. -1 with errno. */
static int parent_of(unpacker *u, char *name, const char **base)
{
    char *slash = strrchr(name, '/');
    *base = slash ? slash + 1 : name;
    if (slash)
        *slash = 0;
    const char *path = slash ? name : "";
    if (u->parent && strcmp(u->parent, path) == 0) {
        if (slash)
            *slash = '/';
        return u->parent_fd;
    }
    abx_close_fd(&u->parent_fd);
    free(ABX_TAKE(u->parent));
    int fd = abx_open_beneath(u->o->dirfd, *path ? path : ".", O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0 && errno == ENOENT && make_parents(u, name) == 0)
        fd = abx_open_beneath(u->o->dirfd, path, O_RDONLY | O_DIRECTORY, 0);
    int e = errno;
    if (fd >= 0)
        u->parent = abx_strdup(path);
    u->parent_fd = fd;
    if (slash)
        *slash = '/';
    errno = e;
    return fd;
}

static void forget_parent(unpacker *u)
{
    abx_close_fd(&u->parent_fd);
    free(ABX_TAKE(u->parent));
}

/* --- owners, attributes, times ------------------------------------------------------------------------ */

static uint32_t inside_id(int64_t id)
{
    return id < 0 || id > INSIDE_ID_MAX ? 65534 : (uint32_t)id;
}

static int set_owner(unpacker *u, int dir, const char *base, const char *name,
                     struct archive_entry *e, abx_error **err)
{
    uint32_t uid = inside_id(archive_entry_uid(e)), gid = inside_id(archive_entry_gid(e));
    if (u->o->owners && (uid || gid)) {
        char ids[32];
        (void)snprintf(ids, sizeof(ids), "%u %u ", uid, gid);
        if (abx_buf_add_str(u->o->owners, ids) < 0 ||
            abx_buf_add(u->o->owners, name, strlen(name) + 1) < 0)
            return abx_fail(err, ABX_ERR_TOO_LARGE, "the image has too many owners");
    }
    if (!u->o->own)
        return 0;
    if (fchownat(dir, base, uid, gid, AT_SYMLINK_NOFOLLOW) < 0 &&
        (errno != EINVAL || fchownat(dir, base, 0, 0, AT_SYMLINK_NOFOLLOW) < 0))
        return fail_entry(name, err);
    return 0;
}

static int set_xattrs(int fd, struct archive_entry *e, const char *name, abx_error **err)
{
    const char *key;
    const void *value;
    size_t n, total = 0;
    int count = archive_entry_xattr_reset(e);
    if ((unsigned)count > XATTRS_MAX)
        return refuse(name, "it has too many attributes", err);
    while (archive_entry_xattr_next(e, &key, &value, &n) == ARCHIVE_OK) {
        if (!key || !abx_has_prefix(key, "user.") || abx_has_prefix(key, "user.overlay."))
            continue; /* what the kernel or an overlay would act on */
        total += n;
        if (strlen(key) > 255 || total > XATTR_BYTES)
            return refuse(name, "its attributes are too long", err);
        if (fsetxattr(fd, key, value, n, 0) < 0 && errno != EOPNOTSUPP && errno != EPERM)
            return fail_entry(name, err);
    }
    return 0;
}

static struct timespec time_of(struct archive_entry *e)
{
    if (!archive_entry_mtime_is_set(e))
        return (struct timespec){.tv_nsec = UTIME_OMIT};
    return (struct timespec){archive_entry_mtime(e), archive_entry_mtime_nsec(e)};
}

static int remember(unpacker *u, const char *name, struct archive_entry *e, abx_error **err)
{
    if (u->folder_count == FOLDERS_MAX)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the layer holds too many folders");
    if (u->folder_count == u->folder_room) {
        u->folder_room = u->folder_room ? 2 * u->folder_room : 64;
        u->folders = (folder *)abx_realloc(u->folders, u->folder_room * sizeof(folder));
    }
    u->folders[u->folder_count++] =
        (folder){abx_strdup(name), archive_entry_perm(e) & MODE_BITS, time_of(e)};
    return 0;
}

/* Last first: a folder comes before what is in it, and its time changes with that. */
static int finish_folders(unpacker *u, abx_error **err)
{
    forget_parent(u);
    for (size_t i = u->folder_count; i > 0; i--) {
        const folder *f = &u->folders[i - 1];
        ABX_AUTO_FD fd =
            abx_open_beneath(u->o->dirfd, *f->name ? f->name : ".", O_RDONLY | O_DIRECTORY, 0);
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, f->time};
        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
            continue; /* a later entry took its place */
        if (fd < 0 || fchmod(fd, f->mode) < 0)
            return fail_entry(f->name, err);
        (void)futimens(fd, times); /* a time that this file system cannot keep */
    }
    return 0;
}

/* --- entries ----------------------------------------------------------------------------------------- */

typedef enum taken { TAKEN_NOT, TAKEN_FOLDER, TAKEN_WHITEOUT, TAKEN_FILE } taken;

static taken look_at(int dir, const char *base)
{
    struct stat st;
    if (fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return TAKEN_NOT;
    return S_ISDIR(st.st_mode) ? TAKEN_FOLDER : abx_is_whiteout(&st) ? TAKEN_WHITEOUT : TAKEN_FILE;
}

/* Make room for an entry that is no folder: the later one of two with the same name counts. */
static int clear_place(unpacker *u, int dir, const char *base, const char *name, abx_error **err)
{
    taken t = look_at(dir, base);
    if (t == TAKEN_FOLDER)
        return abx_remove_tree_at(dir, base, err);
    return t != TAKEN_NOT && unlinkat(dir, base, 0) < 0 ? fail_entry(name, err) : 0;
}

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
        u->o->done_bytes += n;
        if (u->o->done_bytes - u->looked > LOOK_BYTES && look_around(u, err) < 0)
            return -1;
    }
}

static int make_file(unpacker *u, int dir, const char *base, const char *name,
                     struct archive_entry *e, abx_error **err)
{
    if (clear_place(u, dir, base, name, err) < 0)
        return -1;
    ABX_AUTO_FD fd = openat(dir, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail_entry(name, err);
    if (write_data(u, fd, name, err) < 0 || set_owner(u, dir, base, name, e, err) < 0 ||
        set_xattrs(fd, e, name, err) < 0)
        return -1;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, time_of(e)};
    if (ftruncate(fd, archive_entry_size(e)) < 0 ||
        fchmod(fd, archive_entry_perm(e) & MODE_BITS) < 0)
        return fail_entry(name, err);
    (void)futimens(fd, times);
    return 0;
}

static int make_folder(unpacker *u, int dir, const char *base, const char *name,
                       struct archive_entry *e, abx_error **err)
{
    taken t = look_at(dir, base);
    if ((t == TAKEN_FILE || t == TAKEN_WHITEOUT) && unlinkat(dir, base, 0) < 0)
        return fail_entry(name, err);
    if (t != TAKEN_FOLDER && mkdirat(dir, base, 0700) < 0)
        return fail_entry(name, err);
    ABX_AUTO_FD fd = openat(dir, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, (archive_entry_perm(e) & MODE_BITS) | 0700) < 0 ||
        (t == TAKEN_WHITEOUT && abx_make_opaque(fd) < 0))
        return fail_entry(name, err);
    if (set_owner(u, dir, base, name, e, err) < 0 || set_xattrs(fd, e, name, err) < 0)
        return -1;
    return remember(u, name, e, err);
}

static int make_symlink(unpacker *u, int dir, const char *base, const char *name,
                        struct archive_entry *e, abx_error **err)
{
    const char *target = archive_entry_symlink(e);
    target = target ? target : archive_entry_symlink_utf8(e);
    if (!target || !*target || strlen(target) > ABX_ENTRY_PATH_MAX)
        return refuse(name, "a link without a target", err);
    if (clear_place(u, dir, base, name, err) < 0)
        return -1;
    if (symlinkat(target, dir, base) < 0)
        return fail_entry(name, err);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, time_of(e)};
    (void)utimensat(dir, base, times, AT_SYMLINK_NOFOLLOW);
    return set_owner(u, dir, base, name, e, err);
}

/* A second name of a file of this layer that came before. */
static int make_hardlink(unpacker *u, int dir, const char *base, const char *name,
                         const char *target, abx_error **err)
{
    abx_name_kind kind;
    ABX_AUTO_FREE char *clean = NULL;
    struct stat st;
    if (abx_layer_name(target, &kind, &clean, err) < 0)
        return -1;
    if (kind != ABX_NAME_PLAIN || !*clean)
        return refuse(name, "a link to no file", err);
    if (strcmp(clean, name) == 0)
        return look_at(dir, base) == TAKEN_FILE ? 0 : refuse(name, "a link to itself", err);
    char *slash = strrchr(clean, '/');
    if (slash)
        *slash = 0;
    ABX_AUTO_FD from = abx_open_beneath(u->o->dirfd, slash ? clean : ".", O_PATH | O_DIRECTORY, 0);
    const char *old = slash ? slash + 1 : clean;
    if (from < 0 || fstatat(from, old, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !(S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)))
        return refuse(name, "a link to a file that is not in this layer", err);
    if (clear_place(u, dir, base, name, err) < 0)
        return -1;
    return linkat(from, old, dir, base, 0) < 0 ? fail_entry(name, err) : 0;
}

/* --- marks ------------------------------------------------------------------------------------------- */

static int mark_opaque(unpacker *u, const char *name, abx_error **err)
{
    if (!*name) {
        u->o->opaque_root = true;
        return 0;
    }
    ABX_AUTO_FREE char *path = abx_format("%s/x", name);
    const char *base;
    int fd = parent_of(u, path, &base);
    return fd < 0 || abx_make_opaque(fd) < 0 ? fail_entry(name, err) : 0;
}

/* The layer's own file of that name stays, whichever came first: it hides what lies below anyway. */
static int make_whiteout(unpacker *u, int dir, const char *base, const char *name, abx_error **err)
{
    taken t = look_at(dir, base);
    if (t == TAKEN_FILE || t == TAKEN_WHITEOUT)
        return 0;
    if (t == TAKEN_FOLDER)
        return mark_opaque(u, name, err);
    if (mknodat(dir, base, S_IFCHR, makedev(0, 0)) == 0)
        return 0;
    bool is_foreign = errno == EPERM || errno == EOPNOTSUPP;
    (void)fail_entry(name, err);
    if (!is_foreign)
        return -1;
    return abx_hint(err,
                    "the file system of ABX_HOME cannot hold layers that remove files: set it to a "
                    "folder on ext4, xfs, btrfs or tmpfs");
}

/* --- the archive ------------------------------------------------------------------------------------- */

static int make_root(unpacker *u, struct archive_entry *e, abx_error **err)
{
    if (archive_entry_filetype(e) != AE_IFDIR)
        return refuse("/", "it is no folder", err);
    return set_owner(u, u->o->dirfd, ".", "", e, err) < 0 ? -1 : remember(u, "", e, err);
}

static int make_plain(unpacker *u, char *name, struct archive_entry *e, abx_error **err)
{
    const char *base, *link = archive_entry_hardlink(e);
    link = link ? link : archive_entry_hardlink_utf8(e);
    mode_t type = archive_entry_filetype(e);
    int dir = parent_of(u, name, &base);
    if (dir < 0)
        return fail_entry(name, err);
    if (link)
        return make_hardlink(u, dir, base, name, link, err);
    if (type == AE_IFREG)
        return make_file(u, dir, base, name, e, err);
    if (type == AE_IFLNK)
        return make_symlink(u, dir, base, name, e, err);
    if (type == AE_IFDIR)
        return make_folder(u, dir, base, name, e, err);
    if (type == AE_IFIFO) {
        if (clear_place(u, dir, base, name, err) < 0)
            return -1;
        if (mknodat(dir, base, S_IFIFO | (archive_entry_perm(e) & MODE_BITS), 0) < 0)
            return fail_entry(name, err);
        return set_owner(u, dir, base, name, e, err);
    }
    return 0; /* a device or a socket: there is none of these in a sandbox */
}

static int make_entry(unpacker *u, struct archive_entry *e, abx_error **err)
{
    const char *raw = archive_entry_pathname(e), *base;
    abx_name_kind kind;
    ABX_AUTO_FREE char *name = NULL;
    raw = raw ? raw : archive_entry_pathname_utf8(e);
    if (!raw)
        return abx_fail(err, ABX_ERR_FILE, "an entry of the layer has no name");
    if (abx_layer_name(raw, &kind, &name, err) < 0 ||
        check_entry(u, name, archive_entry_size(e), err) < 0)
        return -1;
    if (kind == ABX_NAME_SKIP)
        return 0;
    if (kind == ABX_NAME_OPAQUE)
        return mark_opaque(u, name, err);
    if (!*name)
        return kind == ABX_NAME_PLAIN ? make_root(u, e, err) : 0;
    if (kind == ABX_NAME_PLAIN)
        return make_plain(u, name, e, err);
    int dir = parent_of(u, name, &base);
    return dir < 0 ? fail_entry(name, err) : make_whiteout(u, dir, base, name, err);
}

static la_ssize_t on_read(struct archive *a, void *data, const void **bytes)
{
    unpacker *u = (unpacker *)data;
    ssize_t n = abx_layer_stream_read(u->stream, bytes, &u->error);
    if (n < 0)
        archive_set_error(a, EIO, "stopped");
    return n;
}

static int read_all(unpacker *u, abx_error **err)
{
    struct archive_entry *e = NULL;
    for (;;) {
        int rc = archive_read_next_header(u->archive, &e);
        if (rc == ARCHIVE_EOF && !u->error)
            return finish_folders(u, err);
        if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
            return fail_archive(u, err);
        if (make_entry(u, e, err) < 0)
            return -1;
    }
}

int abx_layer_unpack(abx_layer_stream *stream, abx_unpack *o, abx_error **err)
{
    unpacker u = {.o = o, .stream = stream, .parent_fd = -1, .archive = archive_read_new()};
    ABX_CHECK(u.archive != NULL);
    o->opaque_root = false;
    o->done_bytes = o->done_entries = 0;
    archive_read_support_format_tar(u.archive);
    archive_read_support_format_empty(u.archive);
    int rc = archive_read_open(u.archive, &u, NULL, on_read, NULL) == ARCHIVE_OK
                 ? read_all(&u, err)
                 : fail_archive(&u, err);
    archive_read_free(u.archive);
    forget_parent(&u);
    for (size_t i = 0; i < u.folder_count; i++)
        free(u.folders[i].name);
    free(u.folders);
    abx_error_free(u.error);
    return rc;
}
