#include "local/template/layer_stream.h"

#include <archive.h>
#include <archive_entry.h>
#include <string.h>

#include "base/compression.h"
#include "base/mem.h"

struct abx_layer_stream {
    abx_blob blob;
    struct archive *archive;
    abx_sha blob_sha, diff_sha;
    uint64_t most, out;
    bool begun, ended;
    abx_error *error; /* what the blob's reader said */
};

static la_ssize_t on_read(struct archive *a, void *data, const void **bytes)
{
    abx_layer_stream *s = (abx_layer_stream *)data;
    ssize_t n = s->blob.read(s->blob.data, bytes, &s->error);
    if (n > 0 && !s->begun) {
        const char *name = abx_compression_of(*bytes, (size_t)n);
        s->begun = true;
        if (name && strcmp(name, "gzip") != 0 && strcmp(name, "zstd") != 0) {
            abx_fail(&s->error, ABX_ERR_FILE, "a layer is compressed with %s, which is not read",
                     name);
            abx_hint(&s->error, "images use gzip or zstd: save it anew");
            n = -1;
        }
    }
    if (n > 0)
        abx_sha_add(&s->blob_sha, *bytes, (size_t)n);
    if (n < 0)
        archive_set_error(a, -1, "stopped");
    return n < 0 ? -1 : n;
}

static int fail(abx_layer_stream *s, abx_error **err)
{
    if (s->error)
        return abx_error_take(err, ABX_TAKE(s->error));
    const char *why = archive_error_string(s->archive);
    return abx_fail(err, ABX_ERR_FILE, "cannot unpack a layer: %s", why ? why : "broken bytes");
}

abx_layer_stream *abx_layer_stream_open(const abx_blob *blob, uint64_t most, abx_error **err)
{
    abx_layer_stream *s = ABX_NEW(abx_layer_stream);
    s->blob = *blob;
    s->most = most;
    abx_sha_init(&s->blob_sha);
    abx_sha_init(&s->diff_sha);
    s->archive = archive_read_new();
    ABX_CHECK(s->archive != NULL);
    archive_read_support_filter_gzip(s->archive);
    archive_read_support_filter_zstd(s->archive);
    archive_read_support_format_raw(s->archive);
    struct archive_entry *e;
    int rc = archive_read_open(s->archive, s, NULL, on_read, NULL);
    if (rc == ARCHIVE_OK)
        rc = archive_read_next_header(s->archive, &e);
    s->ended = rc == ARCHIVE_EOF; /* no bytes at all */
    if (rc == ARCHIVE_OK || s->ended)
        return s;
    fail(s, err);
    abx_layer_stream_close(s);
    return NULL;
}

ssize_t abx_layer_stream_read(abx_layer_stream *s, const void **bytes, abx_error **err)
{
    size_t n = 0;
    la_int64_t offset;
    if (s->ended)
        return 0;
    int rc = archive_read_data_block(s->archive, bytes, &n, &offset);
    if (rc == ARCHIVE_EOF) {
        s->ended = true;
        return 0;
    }
    if (rc != ARCHIVE_OK || s->error)
        return fail(s, err);
    s->out += n;
    if (s->out > s->most) {
        abx_fail(err, ABX_ERR_TOO_LARGE, "the layers hold more than %llu bytes",
                 (unsigned long long)s->most);
        return abx_hint(err, "an archive that grows without end is refused");
    }
    abx_sha_add(&s->diff_sha, *bytes, n);
    return n > 0 ? (ssize_t)n : abx_layer_stream_read(s, bytes, err);
}

int abx_layer_stream_finish(abx_layer_stream *s, char blob_hex[65], char diff_hex[65],
                            abx_error **err)
{
    const void *bytes;
    ssize_t n;
    while ((n = abx_layer_stream_read(s, &bytes, err)) > 0)
        ;
    if (n < 0)
        return -1;
    /* what lies behind the end of the compressed bytes belongs to the blob, too */
    while ((n = s->blob.read(s->blob.data, &bytes, err)) > 0)
        abx_sha_add(&s->blob_sha, bytes, (size_t)n);
    if (n < 0)
        return -1;
    abx_sha_end(&s->blob_sha, blob_hex);
    abx_sha_end(&s->diff_sha, diff_hex);
    return 0;
}

void abx_layer_stream_close(abx_layer_stream *s)
{
    if (!s)
        return;
    archive_read_free(s->archive);
    abx_sha_clear(&s->blob_sha);
    abx_sha_clear(&s->diff_sha);
    abx_error_free(s->error);
    free(s);
}
