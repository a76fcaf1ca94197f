/* Layers in the form that a kind of ids needs, and the layer on top of them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "local/template/base_layer.h"
#include "local/template/template.h"

static int prepare_layer(abx_store *s, const char *digest, char kind, abx_error **err)
{
    char found = 0;
    int rc = abx_store_has_layer(s, digest, kind, NULL, err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    rc = abx_store_has_layer(s, digest, 0, &found, err);
    if (rc < 0)
        return -1;
    if (rc == 0)
        return abx_fail(err, ABX_ERR_LOCAL_STATE, "layer '%.12s' of the template is gone", digest);
    return abx_layer_convert(s, digest, found, kind, err);
}

/* All layers of a record, the highest first. */
static int open_layers(abx_store *s, yyjson_val *layers, char kind, int *fds, size_t *n,
                       abx_error **err)
{
    for (size_t i = yyjson_arr_size(layers); i > 0; i--) {
        char name[ABX_LAYER_NAME + 1];
        abx_store_layer_name(yyjson_get_str(yyjson_arr_get(layers, i - 1)), kind, name);
        fds[*n] = openat(s->layers, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fds[*n] < 0)
            return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot open layer '%s'", name);
        ++*n;
    }
    return 0;
}

static int build_base(abx_store *s, yyjson_val *record, abx_ids ids, const char *digest,
                      abx_error **err)
{
    int fds[ABX_OCI_LAYERS_MAX + 1];
    size_t count = 0;
    abx_new_layer n = {.fd = -1};
    char kind = abx_store_kind(ids);
    yyjson_mut_val *about;
    ABX_AUTO_MUT d = abx_mut_new(&about);
    abx_mut_str(d, about, "digest", digest);
    int rc = open_layers(s, abx_json_get(record, "layers"), kind, fds, &count, err);
    if (rc == 0)
        rc = abx_new_layer_begin(s, &n, err);
    if (rc == 0) {
        abx_layer_set set = {fds, count};
        rc = abx_base_build(n.fd, &set, ids != ABX_IDS_SINGLE,
                            abx_json_str(abx_json_get(record, "config"), "workdir", NULL), err);
        if (rc == 0)
            rc = abx_new_layer_commit(&n, digest, kind, about, NULL, err);
        abx_new_layer_clear(&n);
    }
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    return rc;
}

int abx_layers_prepare(abx_store *s, yyjson_val *record, abx_ids ids,
                       const abx_template_progress *progress, abx_error **err)
{
    yyjson_val *layers = abx_json_get(record, "layers"), *layer;
    size_t i, n = yyjson_arr_size(layers);
    char kind = abx_store_kind(ids);
    abx_sha256 base;
    if (n > ABX_OCI_LAYERS_MAX)
        return abx_fail(err, ABX_ERR_LOCAL_STATE, "a template has too many layers");
    yyjson_arr_foreach(layers, i, n, layer)
    {
        if (!yyjson_is_str(layer) || yyjson_get_len(layer) != ABX_SHA256_HEX)
            return abx_fail(err, ABX_ERR_LOCAL_STATE, "the record of a template is broken");
        if (progress && progress->tell && progress->tell(progress->data, i, n, 0, err) < 0)
            return -1;
        if (prepare_layer(s, yyjson_get_str(layer), kind, err) < 0)
            return -1;
    }
    abx_base_digest(abx_json_str(record, "digest", ""), base);
    int rc = abx_store_has_layer(s, base, kind, NULL, err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    return build_base(s, record, ids, base, err);
}

int abx_template_prepare(abx_store *s, const char *id, abx_ids ids,
                         const abx_template_progress *progress, abx_error **err)
{
    abx_error *why = NULL;
    ABX_AUTO_JSON record = abx_store_read(s->templates, id, "template.json", &why);
    if (why)
        return abx_error_take(err, why);
    if (!record)
        return abx_fail(err, ABX_ERR_TEMPLATE_NOT_FOUND, "there is no template '%s'", id);
    return abx_layers_prepare(s, yyjson_doc_get_root(record), ids, progress, err);
}
