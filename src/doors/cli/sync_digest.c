/* --checksum: SHA-256 of the files that both sides have with the same size. Inside, sha256sum does the work. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/openssl_tables.h"
#include "doors/cli/safe_place.h"
#include "doors/cli/sync_inner.h"

#define READ_SIZE ((size_t)256 * 1024)
#define HEX       64
#define LINE_MAX_ (HEX + 3 + (size_t)8192) /* a digest, a mark and a path */

static bool is_candidate(const abx_sync_entry *a, const abx_sync_entry *b)
{
    return a->type == ABX_SYNC_FILE && b && b->type == ABX_SYNC_FILE && a->size == b->size;
}

static int digest_local(abx_sync *s, int root, abx_sync_entry *e, EVP_MD_CTX *ctx, uint8_t *buffer)
{
    const char *base = NULL;
    ABX_AUTO_FD dir = abx_safe_parent(root, e->path, false, &base);
    ABX_AUTO_FD fd =
        dir < 0 ? -1 : openat(dir, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return 0; /* gone meanwhile: without a digest it differs */
    ABX_CHECK(EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1);
    for (ssize_t n; (n = read(fd, buffer, READ_SIZE)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return 0;
        ABX_CHECK(EVP_DigestUpdate(ctx, buffer, (size_t)n) == 1);
        abx_transfer_add(&s->copy.transfer, n, 0);
    }
    unsigned len = 0;
    ABX_CHECK(EVP_DigestFinal_ex(ctx, e->digest, &len) == 1 && len == sizeof e->digest);
    e->has_digest = true;
    abx_transfer_add(&s->copy.transfer, 0, 1);
    return 0;
}

static int digests_here(abx_sync *s, abx_error **err)
{
    ABX_AUTO_FD root = open(s->local, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot read '%s'", s->local);
    ABX_AUTO_FREE uint8_t *buffer = abx_alloc(READ_SIZE);
    abx_openssl_ready();
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    ABX_CHECK(ctx != NULL);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < s->lists[0].count; i++) {
        abx_sync_entry *e = &s->lists[0].entries[i];
        if (!is_candidate(e, abx_sync_list_find(&s->lists[1], e->path)))
            continue;
        uv_run(&s->cli->_loop, UV_RUN_NOWAIT); /* signals, and the line of progress */
        rc = abx_cli_interrupted(s->cli) ? abx_fail(err, ABX_ERR_CANCELLED, "interrupted")
                                         : digest_local(s, root, e, ctx, buffer);
    }
    EVP_MD_CTX_free(ctx);
    return rc;
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "DIGEST  ./PATH", without the 0 byte at its end. What does not fit is not taken. */
static void take_line(abx_sync *s, const char *line)
{
    uint8_t digest[32];
    if (strlen(line) < HEX + 4 || strncmp(line + HEX, "  ./", 4) != 0)
        return;
    for (size_t i = 0; i < sizeof digest; i++) {
        int high = hex_value(line[2 * i]), low = hex_value(line[2 * i + 1]);
        if (high < 0 || low < 0)
            return;
        digest[i] = (uint8_t)(high * 16 + low);
    }
    abx_sync_entry *e = abx_sync_list_find(&s->lists[1], line + HEX + 4);
    if (!e || e->type != ABX_SYNC_FILE)
        return;
    memcpy(e->digest, digest, sizeof digest);
    e->has_digest = true;
}

static int take_output(abx_sync *s, abx_stream *stream, abx_error **err)
{
    ABX_AUTO_BUF line = ABX_BUF(LINE_MAX_);
    const uint8_t *bytes;
    size_t n;
    int rc;
    while ((rc = abx_stream_read(stream, &bytes, &n, err)) == 1) {
        for (size_t i = 0; i < n; i++) {
            if (abx_buf_add_byte(&line, bytes[i]) < 0)
                return abx_fail(err, ABX_ERR_BACKEND_ANSWER, "a checksum has no end");
            if (bytes[i])
                continue;
            take_line(s, abx_buf_cstr(&line));
            abx_buf_reset(&line);
        }
    }
    return rc;
}

static int digests_there(abx_sync *s, const abx_buf *names, abx_error **err)
{
    static const char *const words[] = {"-r", "sha256sum", "-z", "--", NULL};
    abx_stream stream;
    yyjson_val *result = NULL;
    int rc = abx__sync_names_run(s, names, words, &stream, err);
    if (rc == 0)
        rc = take_output(s, &stream, err);
    if (rc == 0)
        rc = abx_stream_finish(&stream, &result, err);
    /* 123: some file could not be read; it has no digest and counts as another one. */
    int64_t code = rc == 0 ? abx_json_int(result, "exitCode", -1) : 0;
    if (rc == 0 && code != 0 && code != 123) {
        rc = abx_fail(err, ABX_ERR_FEATURE_MISSING, "cannot take checksums in the sandbox: %s",
                      abx_stream_notes(&stream));
        abx_hint(err, "--checksum needs sha256sum and xargs in it; leave it out to compare size "
                      "and time");
    }
    abx_stream_close(&stream);
    return rc;
}

int abx__sync_digests(abx_sync *s, abx_error **err)
{
    ABX_AUTO_BUF names = ABX_BUF(SIZE_MAX / 2);
    for (size_t i = 0; i < s->lists[0].count; i++) {
        const abx_sync_entry *e = &s->lists[0].entries[i];
        if (!is_candidate(e, abx_sync_list_find(&s->lists[1], e->path)))
            continue;
        abx__sync_names_add(&names, e->path);
    }
    if (names.len == 0)
        return 0;
    return digests_there(s, &names, err) < 0 ? -1 : digests_here(s, err);
}
