#include "local/template/image_archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "local/template/layer_name.h"

#define MEMBERS_MAX ((size_t)4096)
#define TEXTS_MAX   ((size_t)64 << 20) /* of all documents together */

typedef struct member {
    char *name;
    char *text; /* a document; or NULL */
    size_t len;
    char *
        same_as; /* a link to another member, as docker makes for a layer that comes twice; or NULL */
} member;

struct abx_image_archive {
    int fd;
    char *path;
    member *members;
    size_t count, texts;
};

static int fail_archive(const abx_image_archive *a, struct archive *r, abx_error **err)
{
    const char *why = archive_error_string(r);
    abx_fail(err, ABX_ERR_FILE, "cannot read '%s' as a tar archive: %s", a->path,
             why ? why : "broken bytes");
    return abx_hint(err, "'docker save IMAGE -o FILE' makes one; plain, gzip and zstd are read");
}

static struct archive *start(abx_image_archive *a, abx_error **err)
{
    struct archive *r = archive_read_new();
    ABX_CHECK(r != NULL);
    archive_read_support_filter_gzip(r);
    archive_read_support_filter_zstd(r);
    archive_read_support_format_tar(r);
    if (lseek(a->fd, 0, SEEK_SET) == 0 && archive_read_open_fd(r, a->fd, 65536) == ARCHIVE_OK)
        return r;
    fail_archive(a, r, err);
    archive_read_free(r);
    return NULL;
}

/* The next regular file or link: 1, its name in *name (owned); 0 at the end; -1. Names that could not be a part of an image are
 * passed over. */
static int next_member(abx_image_archive *a, struct archive *r, struct archive_entry **e,
                       char **name, abx_error **err)
{
    for (;;) {
        abx_name_kind kind;
        ABX_AUTO_ERROR odd = NULL;
        int rc = archive_read_next_header(r, e);
        if (rc == ARCHIVE_EOF)
            return 0;
        if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
            return fail_archive(a, r, err);
        const char *raw = archive_entry_pathname(*e);
        mode_t type = archive_entry_filetype(*e);
        if (!raw || (type != AE_IFREG && type != AE_IFLNK && !archive_entry_hardlink(*e)))
            continue;
        if (abx_layer_name(raw, &kind, name, &odd) == 0)
            return 1;
    }
}

static member *find(const abx_image_archive *a, const char *name)
{
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->members[i].name, name) == 0)
            return &a->members[i];
    return NULL;
}

/* "X/layer.tar" with the link "../Y/layer.tar" is "Y/layer.tar". */
static char *follow(const char *name, const char *link)
{
    ABX_AUTO_FREE char *dir = abx_strdup(name);
    char *slash = strrchr(dir, '/');
    dir[slash ? (size_t)(slash - dir) : 0] = 0;
    while (abx_has_prefix(link, "../") && *dir) {
        slash = strrchr(dir, '/');
        dir[slash ? (size_t)(slash - dir) : 0] = 0;
        link += 3;
    }
    return abx_format("%s%s%s", dir, *dir ? "/" : "", link);
}

static int read_text(abx_image_archive *a, struct archive *r, member *m, size_t size,
                     abx_error **err)
{
    char *text = (char *)abx_alloc(size + 1);
    la_ssize_t n = archive_read_data(r, text, size);
    if (n < 0) {
        free(text);
        return fail_archive(a, r, err);
    }
    if (n == 0 || (text[0] != '{' && text[0] != '[') || a->texts + (size_t)n > TEXTS_MAX) {
        free(text);
        return 0;
    }
    m->text = text;
    m->len = (size_t)n;
    a->texts += (size_t)n;
    return 0;
}

static int scan(abx_image_archive *a, struct archive *r, abx_error **err)
{
    a->members = (member *)abx_alloc_array(MEMBERS_MAX, sizeof(member));
    for (;;) {
        struct archive_entry *e;
        char *name = NULL;
        int rc = next_member(a, r, &e, &name, err);
        if (rc <= 0)
            return rc;
        if (a->count == MEMBERS_MAX) {
            free(name);
            return abx_fail(err, ABX_ERR_TOO_LARGE, "'%s' holds more files than an image has",
                            a->path);
        }
        if (find(a, name)) { /* the first counts */
            free(name);
            continue;
        }
        member *m = &a->members[a->count++];
        m->name = name;
        const char *hard = archive_entry_hardlink(e), *soft = archive_entry_symlink(e);
        int64_t size = archive_entry_size(e);
        if (hard)
            m->same_as = abx_strdup(hard);
        else if (soft)
            m->same_as = follow(name, soft);
        else if (size > 0 && size <= (int64_t)ABX_OCI_JSON_MAX &&
                 read_text(a, r, m, (size_t)size, err) < 0)
            return -1;
    }
}

abx_image_archive *abx_image_archive_open(int fd, const char *path, abx_error **err)
{
    abx_image_archive *a = ABX_NEW(abx_image_archive);
    a->fd = fd;
    a->path = abx_strdup(path);
    struct archive *r = start(a, err);
    int rc = r ? scan(a, r, err) : -1;
    if (r)
        archive_read_free(r);
    if (rc == 0)
        return a;
    abx_image_archive_close(a);
    return NULL;
}

void abx_image_archive_close(abx_image_archive *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->count; i++) {
        free(a->members[i].name);
        free(a->members[i].text);
        free(a->members[i].same_as);
    }
    free(a->members);
    abx_close_fd(&a->fd);
    free(a->path);
    free(a);
}

bool abx_image_archive_has(const abx_image_archive *a, const char *name)
{
    return find(a, name) != NULL;
}

int abx_image_archive_text(abx_image_archive *a, const char *name, abx_buf *out, abx_error **err)
{
    member *m = find(a, name);
    if (m && m->same_as)
        m = find(a, m->same_as);
    if (!m)
        return abx_fail(err, ABX_ERR_FILE, "the image is broken: '%s' is not in the archive", name);
    if (!m->text)
        return abx_fail(err, ABX_ERR_FILE,
                        "the image is broken: '%s' is no document of at most 4 MiB", name);
    return abx_buf_add(out, m->text, m->len) < 0
               ? abx_fail(err, ABX_ERR_TOO_LARGE, "'%s' is over 4 MiB", name)
               : 0;
}

/* --- layers ------------------------------------------------------------------------------------------ */

typedef struct member_reader {
    abx_image_archive *a;
    struct archive *r;
    la_int64_t at;
} member_reader;

static ssize_t read_member(void *data, const void **bytes, abx_error **err)
{
    member_reader *m = (member_reader *)data;
    size_t n = 0;
    la_int64_t offset = 0;
    do {
        int rc = archive_read_data_block(m->r, bytes, &n, &offset);
        if (rc == ARCHIVE_EOF)
            return 0;
        if (rc != ARCHIVE_OK)
            return fail_archive(m->a, m->r, err);
        if (n > 0 && offset != m->at)
            return abx_fail(err, ABX_ERR_FILE, "the image is broken: a layer has holes");
    } while (n == 0);
    m->at += (la_int64_t)n;
    return (ssize_t)n;
}

static size_t wanted(const abx_image_archive *a, const abx_oci_image *image, const char *name)
{
    for (size_t i = 0; name && i < image->layer_count; i++) {
        const abx_oci_layer *l = &image->layers[i];
        const member *m = find(a, l->blob);
        if (!l->taken && (strcmp(l->blob, name) == 0 || (m && abx_str_eq(m->same_as, name))))
            return i;
    }
    return image->layer_count;
}

static int pass(abx_image_archive *a, struct archive *r, abx_oci_image *image,
                int (*fn)(void *data, size_t layer, const abx_blob *blob, abx_error **err),
                void *data, abx_error **err)
{
    for (;;) {
        struct archive_entry *e;
        ABX_AUTO_FREE char *name = NULL;
        int rc = next_member(a, r, &e, &name, err);
        if (rc <= 0)
            return rc;
        size_t i = wanted(a, image, name);
        if (archive_entry_filetype(e) != AE_IFREG || archive_entry_hardlink(e) ||
            i == image->layer_count)
            continue;
        member_reader reader = {a, r, 0};
        abx_blob blob = {read_member, &reader};
        if (fn(data, i, &blob, err) < 0)
            return -1;
    }
}

int abx_image_archive_layers(abx_image_archive *a, abx_oci_image *image,
                             int (*fn)(void *data, size_t layer, const abx_blob *blob,
                                       abx_error **err),
                             void *data, abx_error **err)
{
    size_t left = 0;
    for (size_t i = 0; i < image->layer_count; i++)
        left += !image->layers[i].taken;
    if (left == 0)
        return 0;
    struct archive *r = start(a, err);
    int rc = r ? pass(a, r, image, fn, data, err) : -1;
    if (r)
        archive_read_free(r);
    for (size_t i = 0; rc == 0 && i < image->layer_count; i++)
        if (!image->layers[i].taken)
            rc =
                abx_fail(err, ABX_ERR_FILE, "the image is broken: layer '%s' is not in the archive",
                         image->layers[i].blob);
    return rc;
}
