/* cp from this machine into a sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "doors/cli/copy.h"
#include "doors/cli/tar_pack.h"

#define READ_SIZE ((size_t)256 * 1024)

static int fail_local(abx_error **err, const char *path)
{
    abx_err_id id = errno == ENOENT || errno == ENOTDIR ? ABX_ERR_FILE_NOT_FOUND : ABX_ERR_FILE;
    return abx_fail_errno(err, id, errno, "cannot read '%s'", path);
}

/* --- one file ------------------------------------------------------------------------------------------ */

/* Everything that fd holds. A regular file is read directly; a pipe or device waits with the loop. */
static int send_file(abx_copy *c, abx_stream *s, int fd, const char *path, bool regular,
                     abx_error **err)
{
    ABX_AUTO_FREE uint8_t *buffer = abx_alloc(READ_SIZE);
    abx_feed feed;
    if (!regular)
        abx_feed_open(&feed, c->cli, fd);
    int rc = 0;
    while (rc == 0 && !s->_ended) {
        const uint8_t *bytes = buffer;
        size_t n = 0;
        if (regular) {
            ssize_t got = read(fd, buffer, READ_SIZE);
            if (got < 0 && errno == EINTR)
                continue;
            if (got < 0)
                rc = fail_local(err, path);
            n = got > 0 ? (size_t)got : 0;
        } else if (abx_feed_read(&feed, &bytes, &n, err) < 0) {
            rc = -1;
        }
        if (rc < 0 || n == 0)
            break;
        c->bytes += (int64_t)n;
        abx_transfer_add(&c->transfer, (int64_t)n, 0);
        rc = abx_stream_write(s, bytes, n, err);
    }
    if (!regular)
        abx_feed_close(&feed);
    return rc;
}

static int send_tar(const void *bytes, size_t n, void *data, abx_error **err)
{
    abx_stream *s = data;
    /* tar that has ended takes no more: its own words are the better error, found at the end. */
    return s->_ended ? 1 : abx_stream_write(s, bytes, n, err);
}

/* 1: copied by way of tar; 0: it has no holes, or the sandbox cannot keep them; -1 and *err. */
static int copy_holes(abx_copy *c, const char *from, int fd, const struct stat *st,
                      const abx_copy_place *place, const char *path, abx_error **err)
{
    if (!S_ISREG(st->st_mode) || st->st_size - (int64_t)st->st_blocks * 512 < ABX_COPY_HOLES_MIN)
        return 0;
    char as[ABX_COPY_AS_SIZE];
    abx_copy_as(as);
    abx_stream s;
    int rc = abx_copy_holes_begin(c, &s, place, path, err);
    if (rc <= 0) {
        abx_stream_close(&s);
        return rc;
    }
    abx_tar_pack_options options = {
        .cli = c->cli, .root = from, .write = send_tar, .data = &s, .transfer = &c->transfer};
    rc = abx_tar_pack_file(fd, as, &options, &c->files, &c->bytes, err);
    return abx_copy_holes_finish(c, &s, place, path, as, rc, err) < 0 ? -1 : 1;
}

static int copy_file(abx_copy *c, const char *from, int fd, const struct stat *st,
                     const abx_remote_path *to, const abx_copy_place *place, abx_error **err)
{
    ABX_AUTO_FREE char *base = abx_copy_base(from);
    ABX_AUTO_FREE char *path = NULL;
    if (abx_copy_file_target(place, to->path, base ? base : "file", &path, err) < 0)
        return -1;
    bool regular = S_ISREG(st->st_mode);
    int rc = copy_holes(c, from, fd, st, place, path, err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    if (regular)
        c->transfer.state.total_bytes = st->st_size;
    abx_stream s;
    rc = abx_copy_write_file(c, &s, to->sandbox, path, regular ? (int64_t)st->st_size : -1,
                             st->st_mode & 0777, regular ? &st->st_mtim : NULL, err);
    if (rc == 0)
        rc = send_file(c, &s, fd, from, regular, err);
    if (rc == 0)
        rc = abx_copy_write_finish(&s, path, c->bytes, err);
    if (rc == 0)
        c->files = 1;
    abx_stream_close(&s);
    return rc;
}

/* --- a folder ------------------------------------------------------------------------------------------ */

static int copy_folder(abx_copy *c, const char *from, int fd, const abx_copy_place *place,
                       abx_error **err)
{
    ABX_AUTO_FREE char *base = abx_copy_is_contents(from) ? NULL : abx_copy_base(from);
    if (!base && !abx_copy_is_contents(from)) { /* "..", "/": the name that the folder really has */
        ABX_AUTO_FREE char *real = realpath(from, NULL);
        base = real ? abx_copy_base(real) : NULL;
    }
    ABX_AUTO_FREE char *path = NULL;
    bool created;
    if (abx_copy_folder_target(c, place, base, &path, &created, err) < 0)
        return -1;
    abx_stream s;
    abx_copy_tar kind = ABX_COPY_TAR_PLAIN;
    int rc = abx_copy_tar_extract(c, &s, place->sandbox, path, err);
    if (rc == 0)
        rc = abx_copy_tar_kind(c, place->sandbox, &kind, err);
    if (rc == 0) {
        abx_tar_pack_options options = {.cli = c->cli,
                                        .root = from,
                                        .with_root = created,
                                        .plain = kind == ABX_COPY_TAR_PLAIN,
                                        .write = send_tar,
                                        .data = &s,
                                        .transfer = &c->transfer};
        rc = abx_tar_pack(fd, &options, &c->files, &c->bytes, err);
        if (rc == 0)
            abx_stream_write_end(&s);
    }
    if (rc == 0)
        rc = abx_copy_tar_finish(&s, err);
    abx_stream_close(&s);
    return rc;
}

/* --- a tar stream from stdin --------------------------------------------------------------------------- */

static int copy_stdin(abx_copy *c, const abx_copy_place *place, abx_error **err)
{
    ABX_AUTO_FREE char *path = NULL;
    bool created;
    if (isatty(STDIN_FILENO)) {
        abx_fail(err, ABX_ERR_USAGE, "'-' reads a tar stream, but standard input is a terminal");
        return abx_hint(err, "tar c . | abx cp - ID:PATH");
    }
    if (abx_copy_folder_target(c, place, NULL, &path, &created, err) < 0)
        return -1;
    abx_stream s;
    int rc = abx_copy_tar_extract(c, &s, place->sandbox, path, err);
    if (rc == 0 && !c->cli->stdin_closed)
        rc = send_file(c, &s, STDIN_FILENO, "standard input", false, err);
    if (rc == 0) {
        abx_stream_write_end(&s);
        rc = abx_copy_tar_finish(&s, err);
    }
    abx_stream_close(&s);
    return rc;
}

int abx_copy_in(abx_copy *c, const char *from, const abx_remote_path *to, abx_error **err)
{
    bool is_stdin = strcmp(from, "-") == 0;
    struct stat st = {0};
    /* Non-blocking: a pipe without a writer must not hang here; it is read with the loop. */
    ABX_AUTO_FD fd = is_stdin ? -1 : open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (!is_stdin && (fd < 0 || fstat(fd, &st) < 0))
        return fail_local(err, from);
    abx_copy_place place;
    int rc = abx_copy_look(c, to, &place, err);
    if (rc == 0 && is_stdin)
        rc = copy_stdin(c, &place, err);
    else if (rc == 0 && S_ISDIR(st.st_mode))
        rc = copy_folder(c, from, fd, &place, err);
    else if (rc == 0)
        rc = copy_file(c, from, fd, &st, to, &place, err);
    abx_copy_place_clear(&place);
    return rc;
}
