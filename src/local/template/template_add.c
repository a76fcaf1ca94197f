#include "local/template/template.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/template/base_layer.h"
#include "local/template/image_source.h"
#include "local/template/layer_unpack.h"

typedef struct adding {
    abx_store *store;
    const char *name; /* or NULL */
    abx_ids ids;
    const abx_template_progress *progress;
    abx_oci_image *image;
    size_t layer; /* that is unpacked now */
    uint64_t bytes_left, entries_left;
} adding;

static int on_bytes(void *data, uint64_t bytes, abx_error **err)
{
    adding *a = (adding *)data;
    const abx_template_progress *p = a->progress;
    return p && p->tell ? p->tell(p->data, a->layer, a->image->layer_count, bytes, err) : 0;
}

/* --- one layer --------------------------------------------------------------------------------------- */

static int check_digests(const abx_oci_layer *l, const char *blob, const char *diff,
                         abx_error **err)
{
    if (l->digest[0] && strcmp(l->digest, blob) != 0 && strcmp(l->digest, diff) != 0)
        return abx_fail(err, ABX_ERR_FILE,
                        "the image is broken: layer '%.12s' does not have its digest", l->digest);
    if (strcmp(l->diff_id, diff) != 0)
        return abx_fail(err, ABX_ERR_FILE,
                        "the image is broken: layer '%.12s' is not what its configuration names",
                        l->diff_id);
    return 0;
}

static int commit(abx_new_layer *n, const adding *a, const abx_oci_layer *l, const abx_unpack *u,
                  abx_error **err)
{
    yyjson_mut_val *about;
    ABX_AUTO_MUT d = abx_mut_new(&about);
    abx_mut_str(d, about, "digest", l->diff_id);
    abx_mut_int(d, about, "bytes", (int64_t)u->done_bytes);
    abx_mut_int(d, about, "entries", (int64_t)u->done_entries);
    abx_mut_bool(d, about, "opaqueRoot", u->opaque_root);
    return abx_new_layer_commit(n, l->diff_id, abx_store_kind(a->ids), about, u->owners, err);
}

static int unpack(adding *a, const abx_oci_layer *l, const abx_blob *blob, abx_new_layer *n,
                  abx_error **err)
{
    abx_sha256 blob_hex, diff_hex;
    ABX_AUTO_BUF owners = ABX_BUF(ABX_UNPACK_OWNERS);
    abx_unpack u = {
        .dirfd = n->fd,
        .own = a->ids != ABX_IDS_SINGLE,
        .bytes = a->bytes_left,
        .entries = a->entries_left,
        .free_bytes = ABX_FREE_DISK_BYTES,
        .owners = &owners,
        .progress = on_bytes,
        .data = a,
    };
    abx_layer_stream *stream = abx_layer_stream_open(blob, 2 * ABX_UNPACK_BYTES, err);
    int rc = stream ? abx_layer_unpack(stream, &u, err) : -1;
    if (rc == 0)
        rc = abx_layer_stream_finish(stream, blob_hex, diff_hex, err);
    abx_layer_stream_close(stream);
    if (rc < 0 || check_digests(l, blob_hex, diff_hex, err) < 0)
        return -1;
    a->bytes_left = u.bytes;
    a->entries_left = u.entries;
    return commit(n, a, l, &u, err);
}

/* A layer may come twice in one image. */
static void take(abx_oci_image *image, const char *diff_id)
{
    for (size_t i = 0; i < image->layer_count; i++)
        if (strcmp(image->layers[i].diff_id, diff_id) == 0)
            image->layers[i].taken = true;
}

static int on_layer(void *data, size_t layer, const abx_blob *blob, abx_error **err)
{
    adding *a = (adding *)data;
    abx_new_layer n;
    const abx_oci_layer *l = &a->image->layers[layer];
    a->layer = layer;
    if (on_bytes(a, 0, err) < 0 || abx_new_layer_begin(a->store, &n, err) < 0)
        return -1;
    int rc = unpack(a, l, blob, &n, err);
    abx_new_layer_clear(&n);
    if (rc == 0)
        take(a->image, l->diff_id);
    return rc;
}

/* Those that are in the store are not unpacked again. */
static int skip_known(adding *a, abx_error **err)
{
    for (size_t i = 0; i < a->image->layer_count; i++) {
        int rc = abx_store_has_layer(a->store, a->image->layers[i].diff_id, 0, NULL, err);
        if (rc < 0)
            return -1;
        a->image->layers[i].taken = rc == 1;
    }
    return 0;
}

/* --- the record -------------------------------------------------------------------------------------- */

static int add_user(adding *a, yyjson_mut_doc *d, yyjson_mut_val *config, const int *fds, size_t n,
                    abx_error **err)
{
    ABX_AUTO_BUF passwd = ABX_BUF((size_t)4 << 20), full = ABX_BUF((size_t)8 << 20);
    const char *user = abx_json_str(yyjson_doc_get_root(a->image->config), "user", NULL);
    ABX_AUTO_FREE char *name = NULL;
    uint32_t uid;
    if (!user)
        return 0;
    abx_layer_set set = {fds, n};
    (void)abx_layers_read(&set, "etc/passwd", &passwd);
    if (abx_passwd_with_user(abx_buf_cstr(&passwd), "/bin/sh", &full) < 0)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the image has too many accounts");
    abx_image_user(abx_buf_cstr(&full), user, &name, &uid);
    if (uid == UINT32_MAX)
        return abx_fail(err, ABX_ERR_FILE, "the image is to run as '%s', but has no such user",
                        name);
    yyjson_mut_obj_remove_key(config, "user");
    abx_mut_str(d, config, "user", name);
    abx_mut_int(d, config, "uid", uid);
    return 0;
}

/* The layers of the image from the highest down to the first that hides all below it; *bytes: of all of them. */
static int open_layers(adding *a, int *fds, size_t *count, uint64_t *bytes, abx_error **err)
{
    *count = 0;
    *bytes = 0;
    for (size_t i = a->image->layer_count; i > 0; i--) {
        const char *digest = a->image->layers[i - 1].diff_id;
        char name[ABX_LAYER_NAME + 1], file[ABX_STORE_ID + 6], kind = 's';
        if (abx_store_has_layer(a->store, digest, 0, &kind, err) != 1)
            return err && *err ? -1 : abx_fail(err, ABX_ERR_LOCAL_STATE, "a layer went away");
        abx_store_layer_name(digest, kind, name);
        (void)snprintf(file, sizeof(file), "%.16s.json", digest);
        ABX_AUTO_BUF text = ABX_BUF((size_t)1 << 20);
        fds[*count] =
            openat(a->store->layers, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fds[*count] < 0 || abx_read_file_at(a->store->layers, file, text.max, &text, NULL) != 0)
            return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot open layer '%s'", name);
        ++*count;
        ABX_AUTO_JSON about = abx_json_parse(text.data, text.len, ABX_ERR_LOCAL_STATE, file, err);
        if (!about)
            return -1;
        *bytes += (uint64_t)abx_json_int(yyjson_doc_get_root(about), "bytes", 0);
        if (abx_json_bool(yyjson_doc_get_root(about), "opaqueRoot", false))
            break;
    }
    return 0;
}

static int write_record(adding *a, const char *source, const char *kind, const char *digest,
                        abx_error **err)
{
    int fds[ABX_OCI_LAYERS_MAX + 1];
    size_t n = 0;
    uint64_t bytes = 0;
    char id[ABX_STORE_ID + 1];
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    int rc = open_layers(a, fds, &n, &bytes, err);
    if (rc == 0) {
        (void)snprintf(id, sizeof(id), "%.16s", digest);
        abx_mut_str(d, root, "id", id);
        abx_mut_str(d, root, "digest", digest);
        abx_mut_str(d, root, "kind", kind);
        abx_mut_str(d, root, "source", source);
        abx_mut_int(d, root, "createdMs", abx_now_wall_ms());
        abx_mut_int(d, root, "size", (int64_t)bytes);
        yyjson_mut_val *layers = abx_mut_arr(d, root, "layers"); /* lowest first */
        for (size_t i = a->image->layer_count - n; i < a->image->layer_count; i++)
            yyjson_mut_arr_add_strcpy(d, layers, a->image->layers[i].diff_id);
        yyjson_mut_val *config = yyjson_val_mut_copy(d, yyjson_doc_get_root(a->image->config));
        abx_mut_put(d, root, "config", config);
        rc = add_user(a, d, config, fds, n, err);
    }
    for (size_t i = 0; i < n; i++)
        close(fds[i]);
    return rc < 0 ? -1
                  : abx_store_record(a->store, a->store->templates, id, "template.json", root, err);
}

/* A name that leads to something else is not taken over. */
static int check_name(const adding *a, const char *digest, abx_error **err)
{
    char id[ABX_STORE_ID + 1];
    if (!a->name || abx_store_find(a->store, a->name, id) != 1 ||
        strncmp(id, digest, ABX_STORE_ID) == 0)
        return 0;
    abx_fail(err, ABX_ERR_CONFLICT, "a template named '%s' is there already", a->name);
    return abx_hint(err, "'abx template rm %s' removes it; or choose another name", a->name);
}

/* --- sources ----------------------------------------------------------------------------------------- */

static int add_image(adding *a, const char *source, abx_sha256 digest, abx_error **err)
{
    abx_image_source *s = abx_image_open(source, err);
    if (!s)
        return -1;
    int rc = abx_image_read(s, a->image, err);
    if (rc == 0) /* before the work, where that can be known */
        rc = check_name(a, a->image->config_digest, err);
    if (rc == 0)
        rc = skip_known(a, err);
    if (rc == 0)
        rc = abx_image_each_layer(s, a->image, on_layer, a, err);
    abx_image_close(s);
    if (rc == 0)
        memcpy(digest, a->image->config_digest, ABX_SHA256_HEX + 1);
    return rc < 0 ? -1 : write_record(a, source, "image", digest, err);
}

/* The store must not become a part of itself. */
static bool holds_store(const abx_store *s, const char *source)
{
    ABX_AUTO_FREE char *base = realpath(s->local->base, NULL);
    ABX_AUTO_FREE char *folder = realpath(source, NULL);
    size_t n = folder ? strlen(folder) : 0;
    return base && n > 0 && strncmp(base, folder, n) == 0 &&
           (base[n] == '/' || base[n] == 0 || folder[n - 1] == '/');
}

/* A folder is one layer, and its digest is the template's. */
static int add_folder(adding *a, const char *source, abx_sha256 digest, abx_error **err)
{
    uint64_t bytes;
    if (holds_store(a->store, source))
        return abx_fail(err, ABX_ERR_USAGE, "'%s' holds the templates themselves", source);
    if (abx_folder_add(a->store, source, a->ids, a->progress, digest, &bytes, err) < 0 ||
        check_name(a, digest, err) < 0)
        return -1;
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_obj(d, root, "env");
    a->image->config = abx_json_freeze(d);
    a->image->layers = (abx_oci_layer *)abx_alloc_array(1, sizeof(abx_oci_layer));
    a->image->layer_count = 1;
    memcpy(a->image->layers[0].diff_id, digest, ABX_SHA256_HEX + 1);
    return write_record(a, source, "folder", digest, err);
}

int abx_template_add(abx_store *s, const char *name, const char *source, abx_ids ids,
                     const abx_template_progress *progress, char id[ABX_STORE_ID + 1],
                     abx_error **err)
{
    struct stat st;
    abx_oci_image image = {0};
    abx_sha256 digest;
    if (name && !abx_is_template_name(name)) {
        abx_fail(err, ABX_ERR_USAGE, "'%s' is no name for a template", name);
        return abx_hint(err,
                        "use up to 63 of a-z, 0-9, '-', '.' and '_', beginning with a letter or a "
                        "digit; 'host' is taken");
    }
    if (source[0] != '/' || stat(source, &st) < 0) {
        abx_fail_errno(err, ABX_ERR_FILE_NOT_FOUND, source[0] == '/' ? errno : EINVAL,
                       "cannot open '%s'", source);
        return abx_hint(err, "an image is a file or a folder here, no registry is asked: 'docker "
                             "save IMAGE -o FILE' makes one");
    }
    ABX_AUTO_FD lock = abx_store_take(s, ABX_LOCK_LAYERS, false, true, err);
    if (lock < 0)
        return -1;
    adding a = {.store = s,
                .name = name,
                .ids = ids,
                .progress = progress,
                .image = &image,
                .bytes_left = ABX_UNPACK_BYTES,
                .entries_left = ABX_UNPACK_ENTRIES};
    bool is_folder = S_ISDIR(st.st_mode) && !abx_is_oci_layout(source);
    int rc = is_folder ? add_folder(&a, source, digest, err) : add_image(&a, source, digest, err);
    abx_oci_image_clear(&image);
    if (rc < 0)
        return -1;
    (void)snprintf(id, ABX_STORE_ID + 1, "%.16s", digest);
    if (abx_template_prepare(s, id, ids, progress, err) < 0)
        return -1;
    return name ? abx_store_name(s, name, id, err) : 0;
}
