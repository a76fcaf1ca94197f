#include "local/template/image_source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/template/image_archive.h"

#define INDEX_DEPTH 3 /* an index may name an index */

struct abx_image_source {
    char *path;
    int folder;                 /* a layout; or -1 */
    abx_image_archive *archive; /* or NULL */
};

bool abx_is_oci_layout(const char *path)
{
    ABX_AUTO_FREE char *mark = abx_path_join(path, "oci-layout");
    ABX_AUTO_FREE char *index = abx_path_join(path, "index.json");
    struct stat st;
    return stat(mark, &st) == 0 && S_ISREG(st.st_mode) && stat(index, &st) == 0 &&
           S_ISREG(st.st_mode);
}

abx_image_source *abx_image_open(const char *path, abx_error **err)
{
    struct stat st;
    ABX_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0) {
        abx_fail_errno(err, errno == ENOENT ? ABX_ERR_FILE_NOT_FOUND : ABX_ERR_FILE, errno,
                       "cannot open '%s'", path);
        return NULL;
    }
    if (!S_ISREG(st.st_mode) && !(S_ISDIR(st.st_mode) && abx_is_oci_layout(path))) {
        abx_fail(err, ABX_ERR_FILE, "'%s' is no image archive and no folder in the OCI layout",
                 path);
        return NULL;
    }
    abx_image_source *s = ABX_NEW(abx_image_source);
    s->folder = -1;
    s->path = abx_strdup(path);
    if (S_ISDIR(st.st_mode))
        s->folder = abx_take_fd(&fd);
    else
        s->archive = abx_image_archive_open(abx_take_fd(&fd), path, err);
    if (s->folder >= 0 || s->archive)
        return s;
    abx_image_close(s);
    return NULL;
}

void abx_image_close(abx_image_source *s)
{
    if (!s)
        return;
    abx_close_fd(&s->folder);
    abx_image_archive_close(s->archive);
    free(s->path);
    free(s);
}

/* --- documents --------------------------------------------------------------------------------------- */

static int open_blob(const abx_image_source *s, const char *name, abx_error **err)
{
    struct stat st;
    ABX_AUTO_FD fd = abx_open_beneath(s->folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0)
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot open '%s/%s'", s->path, name);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return abx_fail(err, ABX_ERR_FILE, "'%s/%s' is no file", s->path, name);
    return abx_take_fd(&fd);
}

static int read_text(abx_image_source *s, const char *name, abx_buf *out, abx_error **err)
{
    if (s->archive)
        return abx_image_archive_text(s->archive, name, out, err);
    ABX_AUTO_FD fd = open_blob(s, name, err);
    struct stat st;
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || st.st_size > ABX_OCI_JSON_MAX)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "'%s/%s' is over 4 MiB", s->path, name);
    uint8_t *room = abx_buf_room(out, (size_t)st.st_size);
    ssize_t n = room ? abx_read_full(fd, room, (size_t)st.st_size) : -1;
    if (n < 0)
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot read '%s/%s'", s->path, name);
    abx_buf_grow(out, (size_t)n);
    return 0;
}

/* A document; digest: what it must have, "" when nobody said. */
static yyjson_doc *read_json(abx_image_source *s, const char *name, const char *digest,
                             abx_sha256 found, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(ABX_OCI_JSON_MAX);
    if (read_text(s, name, &text, err) < 0)
        return NULL;
    abx_sha_of(abx_buf_cstr(&text), text.len, found);
    if (*digest && strcmp(digest, found) != 0) {
        abx_fail(err, ABX_ERR_FILE, "the image is broken: '%s' does not have its digest", name);
        return NULL;
    }
    return abx_json_parse(text.data, text.len, ABX_ERR_FILE, name, err);
}

static bool has(const abx_image_source *s, const char *name)
{
    struct stat st;
    return s->archive ? abx_image_archive_has(s->archive, name)
                      : fstatat(s->folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int read_layout(abx_image_source *s, abx_oci_image *out, abx_error **err)
{
    ABX_AUTO_FREE char *name = abx_strdup("index.json");
    abx_sha256 digest = "", found;
    for (int depth = 0; depth < INDEX_DEPTH; depth++) {
        bool is_index = false;
        ABX_AUTO_JSON index = read_json(s, name, digest, found, err);
        if (!index || abx_oci_pick(yyjson_doc_get_root(index), digest, &is_index, err) < 0)
            return -1;
        free(name);
        name = abx_oci_blob(digest);
        ABX_AUTO_JSON doc = is_index ? NULL : read_json(s, name, digest, found, err);
        if (is_index)
            continue;
        if (!doc)
            return -1;
        /* an index that does not say what it is */
        if (abx_json_get(yyjson_doc_get_root(doc), "manifests"))
            continue;
        return abx_oci_read_manifest(yyjson_doc_get_root(doc), out, err);
    }
    return abx_fail(err, ABX_ERR_FILE, "the image is broken: its indexes are nested too deep");
}

static int read_docker(abx_image_source *s, abx_oci_image *out, abx_error **err)
{
    abx_sha256 found;
    ABX_AUTO_JSON doc = read_json(s, "manifest.json", "", found, err);
    return doc ? abx_oci_read_docker(yyjson_doc_get_root(doc), out, err) : -1;
}

int abx_image_read(abx_image_source *s, abx_oci_image *out, abx_error **err)
{
    abx_sha256 found;
    int rc;
    if (has(s, "oci-layout") && has(s, "index.json"))
        rc = read_layout(s, out, err);
    else if (has(s, "manifest.json"))
        rc = read_docker(s, out, err);
    else
        rc = abx_fail(err, ABX_ERR_FILE,
                      "'%s' holds no image: neither 'index.json' nor 'manifest.json'", s->path);
    if (rc < 0)
        return -1;
    ABX_AUTO_JSON config = read_json(s, out->config_blob, out->config_digest, found, err);
    if (!config)
        return -1;
    memcpy(out->config_digest, found, sizeof(found));
    return abx_oci_read_config(yyjson_doc_get_root(config), out, err);
}

/* --- layers ------------------------------------------------------------------------------------------ */

typedef struct file_reader {
    int fd;
    const char *name;
    uint8_t bytes[65536];
} file_reader;

static ssize_t read_file(void *data, const void **bytes, abx_error **err)
{
    file_reader *r = (file_reader *)data;
    ssize_t n;
    do
        n = read(r->fd, r->bytes, sizeof(r->bytes));
    while (n < 0 && errno == EINTR);
    *bytes = r->bytes;
    return n < 0 ? abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot read '%s'", r->name) : n;
}

int abx_image_each_layer(abx_image_source *s, abx_oci_image *image,
                         int (*fn)(void *data, size_t layer, const abx_blob *blob, abx_error **err),
                         void *data, abx_error **err)
{
    if (s->archive)
        return abx_image_archive_layers(s->archive, image, fn, data, err);
    ABX_AUTO_FREE file_reader *r = ABX_NEW(file_reader);
    for (size_t i = 0; i < image->layer_count; i++) {
        if (image->layers[i].taken)
            continue;
        ABX_AUTO_FD fd = open_blob(s, image->layers[i].blob, err);
        if (fd < 0)
            return -1;
        r->fd = fd;
        r->name = image->layers[i].blob;
        abx_blob blob = {read_file, r};
        if (fn(data, i, &blob, err) < 0)
            return -1;
    }
    return 0;
}
