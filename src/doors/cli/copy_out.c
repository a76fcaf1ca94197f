/* cp from a sandbox to this machine. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/copy.h"
#include "doors/cli/tar_unpack.h"

static int fail_local(abx_error **err, const char *path)
{
    return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot write '%s'", path);
}

/* --- one file ------------------------------------------------------------------------------------------ */

/* Where the bytes go: beside the file until they are all there, or right into what is no regular file (a pipe, a device). */
typedef struct local_file {
    char *path, *temporary; /* temporary NULL: written directly */
    int fd;
} local_file;

static int open_local(local_file *f, abx_error **err)
{
    ABX_CHECK(f->path != NULL);
    struct stat st;
    bool exists = stat(f->path, &st) == 0;
    if (exists && S_ISDIR(st.st_mode))
        return abx_fail(err, ABX_ERR_CONFLICT, "cannot write the file '%s': it is a folder",
                        f->path);
    if (exists && !S_ISREG(st.st_mode)) {
        f->fd = open(f->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        return f->fd < 0 ? fail_local(err, f->path) : 0;
    }
    char *real = exists ? realpath(f->path, NULL)
                        : NULL; /* behind a link: the file is replaced, not the link */
    if (real) {
        free(f->path);
        f->path = real;
    }
    char tail[9];
    abx_random_id(tail, 8);
    ABX_AUTO_FREE char *dir = abx_path_dir(f->path);
    f->temporary = abx_format("%s/.abx-%s", dir, tail);
    f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (f->fd >= 0)
        return 0;
    int rc = fail_local(err, f->path);
    free(f->temporary);
    f->temporary = NULL;
    return rc;
}

static int receive(abx_copy *c, abx_stream *s, local_file *f, abx_error **err)
{
    const uint8_t *bytes;
    size_t n;
    int rc;
    while ((rc = abx_stream_read(s, &bytes, &n, err)) == 1) {
        if (abx_write_full(f->fd, bytes, n) < 0)
            return fail_local(err, f->path);
        c->bytes += (int64_t)n;
        abx_transfer_add(&c->transfer, (int64_t)n, 0);
    }
    yyjson_val *result = NULL;
    if (rc < 0 || abx_stream_finish(s, &result, err) < 0)
        return -1;
    int64_t size = abx_json_int(result, "size", c->bytes);
    if (size != c->bytes)
        return abx_fail(err, ABX_ERR_FILE, "only %lld of %lld bytes of '%s' arrived",
                        (long long)c->bytes, (long long)size, f->path);
    return 0;
}

static int keep_local(const abx_copy_place *from, local_file *f, abx_error **err)
{
    if (!f->temporary)
        return 0;
    if (from->has_modified) {
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, from->modified};
        if (futimens(f->fd, times) < 0)
            return fail_local(err, f->path);
    }
    if (fchmod(f->fd, from->mode & 0777) < 0 || rename(f->temporary, f->path) < 0)
        return fail_local(err, f->path);
    free(f->temporary);
    f->temporary = NULL;
    return 0;
}

static int local_target(const char *to, const char *base, char **path, abx_error **err)
{
    struct stat st;
    if (stat(to, &st) == 0 && S_ISDIR(st.st_mode)) {
        *path = abx_path_join(to, base);
        return 0;
    }
    if (abx_has_suffix(to, "/")) {
        abx_fail(err, ABX_ERR_FILE_NOT_FOUND, "no such folder '%s'", to);
        return abx_hint(err, "make it first, or leave out the last slash");
    }
    *path = abx_strdup(to);
    return 0;
}

static int next_bytes(const uint8_t **bytes, size_t *n, void *data, abx_error **err)
{
    return abx_stream_read(data, bytes, n, err);
}

/* What tar says (it may have found nothing, or no right) is the better reason for a broken stream. rc: of unpacking. */
static int finish_unpack(abx_stream *s, int rc, abx_error **err)
{
    abx_error *own = NULL;
    if ((rc == 0 || s->_ended) && abx_copy_tar_finish(s, &own) < 0) {
        if (err && rc < 0)
            abx_error_free(ABX_TAKE(*err));
        return abx_error_take(err, own);
    }
    return rc;
}

/* 1: copied by way of tar; 0: it has no holes, or tar cannot keep them; -1 and *err. */
static int copy_holes(abx_copy *c, const abx_copy_place *from, const char *path, abx_error **err)
{
    abx_copy_tar kind;
    ABX_AUTO_ERROR missing = NULL;
    struct stat st;
    if (!from->has_holes || !path || (lstat(path, &st) == 0 && !S_ISREG(st.st_mode)))
        return 0;
    if (abx_copy_tar_kind(c, from->sandbox, &kind, &missing) < 0)
        return missing->id == ABX_ERR_FEATURE_MISSING ? 0 : abx_error_take(err, ABX_TAKE(missing));
    if (kind == ABX_COPY_TAR_PLAIN)
        return 0;
    ABX_AUTO_FREE char *dir = abx_path_dir(path);
    ABX_AUTO_FD root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return fail_local(err, path);
    abx_stream s;
    int rc = abx_copy_tar_pack_file(c, &s, from, "file", err);
    if (rc == 0) {
        abx_tar_unpack_options options = {.cli = c->cli,
                                          .root = root,
                                          .name = dir,
                                          .only = abx_path_base(path),
                                          .read = next_bytes,
                                          .data = &s,
                                          .transfer = &c->transfer};
        rc = finish_unpack(&s, abx_tar_unpack(&options, &c->files, &c->bytes, err), err);
    }
    abx_stream_close(&s);
    return rc < 0 ? -1 : 1;
}

static int copy_file(abx_copy *c, const abx_copy_place *from, const char *from_word, const char *to,
                     abx_error **err)
{
    ABX_AUTO_FREE char *base = abx_copy_base(from_word);
    if (!base)
        base = abx_copy_base(from->path);
    local_file f = {NULL, NULL, -1};
    if (local_target(to, base ? base : "file", &f.path, err) < 0)
        return -1;
    int holes = copy_holes(c, from, f.path, err);
    if (holes != 0) {
        free(f.path);
        return holes < 0 ? -1 : 0;
    }
    c->transfer.state.total_bytes = from->size;
    abx_stream s;
    int rc = abx_copy_read_file(c, &s, from, err);
    if (rc == 0)
        rc = open_local(&f, err);
    if (rc == 0)
        rc = receive(c, &s, &f, err);
    if (rc == 0)
        rc = keep_local(from, &f, err);
    if (rc == 0)
        c->files = 1;
    abx_stream_close(&s);
    if (f.temporary)
        unlink(f.temporary);
    abx_close_fd(&f.fd);
    free(f.temporary);
    free(f.path);
    return rc;
}

/* --- a folder ------------------------------------------------------------------------------------------ */

/* The folder of this machine that gets the contents; made when it is not there. */
static int open_folder(const char *to, const char *base, char **path, bool *created,
                       abx_error **err)
{
    struct stat st;
    bool exists = stat(to, &st) == 0;
    if (exists && !S_ISDIR(st.st_mode)) {
        abx_fail(err, ABX_ERR_CONFLICT, "cannot copy a folder onto '%s': it is no folder", to);
        return abx_hint(err, "name a folder, or a path that does not exist");
    }
    *path = exists && base ? abx_path_join(to, base) : abx_strdup(to);
    *created = mkdir(*path, 0700) == 0;
    if (!*created && errno != EEXIST)
        return fail_local(err, *path);
    /* TO itself may be a link of the user's; what is below it and ours to make may not. */
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (exists && base ? O_NOFOLLOW : 0);
    int fd = open(*path, flags);
    return fd < 0 ? fail_local(err, *path) : fd;
}

static int copy_folder(abx_copy *c, const abx_copy_place *from, const char *from_word,
                       const char *to, abx_error **err)
{
    ABX_AUTO_FREE char *base = NULL;
    if (!abx_copy_is_contents(from_word)) {
        base = abx_copy_base(from_word);
        if (!base)
            base = abx_copy_base(from->path);
    }
    ABX_AUTO_FREE char *path = NULL;
    bool created = false;
    ABX_AUTO_FD root = open_folder(to, base, &path, &created, err);
    if (root < 0)
        return -1;
    abx_stream s;
    int rc = abx_copy_tar_pack(c, &s, from->sandbox, from->path, ".", err);
    if (rc == 0) {
        abx_tar_unpack_options options = {.cli = c->cli,
                                          .root = root,
                                          .name = path,
                                          .with_root = created,
                                          .read = next_bytes,
                                          .data = &s,
                                          .transfer = &c->transfer};
        rc = finish_unpack(&s, abx_tar_unpack(&options, &c->files, &c->bytes, err), err);
    }
    abx_stream_close(&s);
    return rc;
}

/* --- a tar stream to stdout ---------------------------------------------------------------------------- */

static int copy_stdout(abx_copy *c, const abx_copy_place *from, const char *from_word,
                       abx_error **err)
{
    if (isatty(STDOUT_FILENO)) {
        abx_fail(err, ABX_ERR_USAGE, "'-' writes a tar stream, but standard output is a terminal");
        return abx_hint(err, "abx cp ID:PATH - | tar x");
    }
    ABX_AUTO_FREE char *base = abx_copy_is_contents(from_word) ? NULL : abx_copy_base(from->path);
    ABX_AUTO_FREE char *dir = base ? abx_path_dir(from->path) : abx_strdup(from->path);
    abx_stream s;
    abx_sink sink;
    abx_sink_open(&sink, c->cli, STDOUT_FILENO);
    int rc = abx_copy_tar_pack(c, &s, from->sandbox, dir, base ? base : ".", err);
    if (rc == 0) {
        const uint8_t *bytes;
        size_t n;
        while ((rc = abx_stream_read(&s, &bytes, &n, err)) == 1)
            if ((rc = abx_sink_write(&sink, bytes, n, err)) < 0)
                break;
        if (rc == 0)
            rc = abx_copy_tar_finish(&s, err);
    }
    abx_stream_close(&s);
    abx_sink_close(&sink);
    return rc;
}

int abx_copy_out(abx_copy *c, const char *from_word, const abx_remote_path *from, const char *to,
                 abx_error **err)
{
    abx_copy_place place;
    int rc = abx_copy_look(c, from, &place, err);
    if (rc == 0 && place.kind == ABX_COPY_NONE)
        rc = abx_fail(err, ABX_ERR_FILE_NOT_FOUND, "no such file or folder '%s'", from_word);
    else if (rc == 0 && place.special)
        rc = abx_fail(err, ABX_ERR_FILE, "cannot copy '%s': it is no regular file", from_word);
    else if (rc == 0 && strcmp(to, "-") == 0)
        rc = copy_stdout(c, &place, from->path, err);
    else if (rc == 0 && place.kind == ABX_COPY_DIR)
        rc = copy_folder(c, &place, from->path, to, err);
    else if (rc == 0)
        rc = copy_file(c, &place, from->path, to, err);
    abx_copy_place_clear(&place);
    return rc;
}
