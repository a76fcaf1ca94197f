#include "e2b/message_inner.h"

#include "base/json.h"
#include "wire/base64.h"

static yyjson_doc *finish(yyjson_mut_doc *doc, yyjson_mut_val *root)
{
    yyjson_mut_doc_set_root(doc, root);
    return abx_json_freeze(doc);
}

yyjson_doc *abx_e2b_decode(abx_e2b_msg msg, abx_e2b_codec codec, const void *bytes, size_t n,
                           abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT doc = abx_mut_new(&root);
    if (codec == ABX_E2B_PROTO) {
        root = abx__e2b_read_proto(msg, bytes, n, doc, err);
        return root ? finish(doc, root) : NULL;
    }
    ABX_AUTO_JSON tree =
        abx_json_parse(bytes, n, ABX_ERR_BACKEND_ANSWER, abx__e2b_msg_name(msg), err);
    if (!tree)
        return NULL;
    root = abx__e2b_normal(msg, yyjson_doc_get_root(tree), false, false, doc,
                           ABX_ERR_BACKEND_ANSWER, err);
    return root ? finish(doc, root) : NULL;
}

int abx_e2b_encode(abx_e2b_msg msg, abx_e2b_codec codec, yyjson_val *tree, abx_buf *out,
                   abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT doc = abx_mut_new(&root);
    root = abx__e2b_normal(msg, tree, true, codec == ABX_E2B_JSON, doc, ABX_ERR_INTERNAL, err);
    if (!root)
        return -1;
    int rc = codec == ABX_E2B_JSON ? abx_json_write_mut(root, out)
                                   : abx__e2b_write_proto(msg, root, out);
    if (rc < 0)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "'%s' is larger than %zu bytes",
                        abx__e2b_msg_name(msg), out->max);
    return 0;
}

/* Bytes of all texts below v. */
static size_t text_bytes(yyjson_mut_val *v)
{
    size_t n = yyjson_mut_is_str(v) ? yyjson_mut_get_len(v) : 0;
    yyjson_mut_arr_iter items = yyjson_mut_arr_iter_with(v);
    for (yyjson_mut_val *item; (item = yyjson_mut_arr_iter_next(&items));)
        n += text_bytes(item);
    yyjson_mut_obj_iter members = yyjson_mut_obj_iter_with(v);
    for (yyjson_mut_val *key; (key = yyjson_mut_obj_iter_next(&members));)
        n += text_bytes(yyjson_mut_obj_iter_get_val(key));
    return n;
}

int abx_e2b_encode_mut(abx_e2b_msg msg, abx_e2b_codec codec, yyjson_mut_val *tree, abx_buf *out,
                       abx_error **err)
{
    /* What cannot fit is not copied first; bytes are base64 here, four for three. */
    if (text_bytes(tree) / 4 > out->max / 3)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "'%s' is larger than %zu bytes",
                        abx__e2b_msg_name(msg), out->max);
    ABX_AUTO_JSON copy = yyjson_mut_val_imut_copy(tree, NULL);
    if (!copy)
        return abx_fail(err, ABX_ERR_INTERNAL, "'%s' is no tree", abx__e2b_msg_name(msg));
    return abx_e2b_encode(msg, codec, yyjson_doc_get_root(copy), out, err);
}

int abx__e2b_base64_read(const char *text, size_t n, abx_buf *out)
{
    uint8_t *to = abx_buf_room(out, ABX_BASE64_BYTES(n));
    if (!to)
        return -1;
    ssize_t len = abx_base64_decode(text, n, to, ABX_BASE64_STANDARD);
    if (len < 0)
        len = abx_base64_decode(text, n, to, ABX_BASE64_URL);
    if (len < 0)
        return -1;
    abx_buf_grow(out, (size_t)len);
    return 0;
}
