/* cp from one sandbox into another (or the same): the bytes pass through here. */
#include <stdlib.h>

#include "base/mem.h"
#include "doors/cli/copy.h"

/* Everything that `from` gives goes to `to`. */
static int pass(abx_copy *c, abx_stream *from, abx_stream *to, abx_error **err)
{
    const uint8_t *bytes;
    size_t n;
    int rc;
    while ((rc = abx_stream_read(from, &bytes, &n, err)) == 1) {
        if (to->_ended)
            break; /* why is told by its end */
        if (abx_stream_write(to, bytes, n, err) < 0)
            return -1;
        c->bytes += (int64_t)n;
        abx_transfer_add(&c->transfer, (int64_t)n, 0);
    }
    return rc < 0 ? -1 : 0;
}

/* 1: copied by way of tar; 0: it has no holes, or one of the two cannot keep them; -1 and *err. */
static int copy_holes(abx_copy *c, const abx_copy_place *from, const abx_copy_place *to,
                      const char *path, abx_error **err)
{
    abx_copy_tar kind = ABX_COPY_TAR_PLAIN;
    ABX_AUTO_ERROR missing = NULL;
    if (!from->has_holes)
        return 0;
    if (abx_copy_tar_kind(c, from->sandbox, &kind, &missing) < 0)
        return missing->id == ABX_ERR_FEATURE_MISSING ? 0 : abx_error_take(err, ABX_TAKE(missing));
    char as[ABX_COPY_AS_SIZE];
    abx_copy_as(as);
    abx_stream in = {.cli = c->cli}, out;
    int begun = kind == ABX_COPY_TAR_PLAIN ? 0 : abx_copy_holes_begin(c, &out, to, path, err);
    if (begun <= 0) {
        if (kind != ABX_COPY_TAR_PLAIN)
            abx_stream_close(&out);
        return begun;
    }
    int rc = abx_copy_tar_pack_file(c, &in, from, as, err);
    if (rc == 0)
        rc = pass(c, &in, &out, err);
    if (rc == 0 && !out._ended)
        rc = abx_copy_tar_finish(&in, err);
    abx_stream_close(&in);
    rc = abx_copy_holes_finish(c, &out, to, path, as, rc, err);
    if (rc == 0)
        c->files = 1;
    return rc < 0 ? -1 : 1;
}

static int copy_file(abx_copy *c, const abx_copy_place *from, const char *to_word,
                     const abx_copy_place *to, abx_error **err)
{
    ABX_AUTO_FREE char *base = abx_copy_base(from->path);
    ABX_AUTO_FREE char *path = NULL;
    if (abx_copy_file_target(to, to_word, base ? base : "file", &path, err) < 0)
        return -1;
    int rc = copy_holes(c, from, to, path, err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    c->transfer.state.total_bytes = from->size;
    abx_stream in, out = {0};
    rc = abx_copy_read_file(c, &in, from, err);
    bool opened = rc == 0;
    if (opened)
        rc = abx_copy_write_file(c, &out, to->sandbox, path, -1, from->mode,
                                 from->has_modified ? &from->modified : NULL, err);
    if (rc == 0)
        rc = pass(c, &in, &out, err);
    if (rc == 0 && !out._ended)
        rc = abx_stream_finish(&in, NULL, err);
    if (rc == 0)
        rc = abx_copy_write_finish(&out, path, c->bytes, err);
    if (rc == 0)
        c->files = 1;
    if (opened)
        abx_stream_close(&out);
    abx_stream_close(&in);
    return rc;
}

static int copy_folder(abx_copy *c, const abx_copy_place *from, const char *from_word,
                       const abx_copy_place *to, abx_error **err)
{
    ABX_AUTO_FREE char *base = abx_copy_is_contents(from_word) ? NULL : abx_copy_base(from->path);
    ABX_AUTO_FREE char *path = NULL;
    bool created;
    if (abx_copy_folder_target(c, to, base, &path, &created, err) < 0)
        return -1;
    abx_stream in, out = {0};
    int rc = abx_copy_tar_pack(c, &in, from->sandbox, from->path, ".", err);
    bool opened = rc == 0;
    if (opened)
        rc = abx_copy_tar_extract(c, &out, to->sandbox, path, err);
    if (rc == 0)
        rc = pass(c, &in, &out, err);
    if (rc == 0 && !out._ended)
        rc = abx_copy_tar_finish(&in, err);
    if (rc == 0) {
        abx_stream_write_end(&out);
        rc = abx_copy_tar_finish(&out, err);
    }
    if (opened)
        abx_stream_close(&out);
    abx_stream_close(&in);
    return rc;
}

int abx_copy_between(abx_copy *c, const char *from_word, const abx_remote_path *from,
                     const abx_remote_path *to, abx_error **err)
{
    abx_copy_place source, target = {0};
    int rc = abx_copy_look(c, from, &source, err);
    if (rc == 0 && source.kind == ABX_COPY_NONE)
        rc = abx_fail(err, ABX_ERR_FILE_NOT_FOUND, "no such file or folder '%s'", from_word);
    else if (rc == 0 && source.special)
        rc = abx_fail(err, ABX_ERR_FILE, "cannot copy '%s': it is no regular file", from_word);
    if (rc == 0)
        rc = abx_copy_look(c, to, &target, err);
    if (rc == 0)
        rc = source.kind == ABX_COPY_DIR ? copy_folder(c, &source, from->path, &target, err)
                                         : copy_file(c, &source, to->path, &target, err);
    abx_copy_place_clear(&target);
    abx_copy_place_clear(&source);
    return rc;
}
