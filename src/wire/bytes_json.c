#include "wire/bytes_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "wire/base64.h"

void abx_bytes_json_put(yyjson_mut_doc *d, yyjson_mut_val *obj, const void *bytes, size_t n)
{
    if (abx_utf8_valid(bytes, n)) {
        abx_mut_strn(d, obj, "text", n ? bytes : "", n);
        return;
    }
    ABX_AUTO_FREE char *text = abx_base64_text(bytes, n, ABX_BASE64_STANDARD, true);
    abx_mut_strn(d, obj, "base64", text, strlen(text));
}

static int too_large(const abx_buf *out, abx_error **err)
{
    return abx_fail(err, ABX_ERR_TOO_LARGE, "more than %zu bytes in one message", out->max);
}

int abx_bytes_json_get(yyjson_val *obj, abx_err_id id, abx_buf *out, abx_error **err)
{
    yyjson_val *text = yyjson_obj_get(obj, "text"), *base64 = yyjson_obj_get(obj, "base64");

    abx_buf_reset(out);
    if (!text && !base64)
        return 0;
    if ((text && base64) || !yyjson_is_str(text ? text : base64))
        return abx_fail(err, id, "bytes must be one string, 'text' or 'base64'");
    if (text) {
        if (abx_buf_add(out, yyjson_get_str(text), yyjson_get_len(text)) < 0)
            return too_large(out, err);
        return 1;
    }
    size_t n = yyjson_get_len(base64);
    if (n / 4 * 3 > out->max + 3)
        return too_large(out, err);
    size_t len = 0;
    ABX_AUTO_FREE uint8_t *bytes =
        abx_base64_bytes(yyjson_get_str(base64), n, ABX_BASE64_STANDARD, &len);
    if (!bytes)
        return abx_fail(err, id, "'base64' holds no base64");
    if (abx_buf_add(out, bytes, len) < 0)
        return too_large(out, err);
    return 1;
}

bool abx_utf8_tail_join(abx_utf8_tail *tail, const void *bytes, size_t n, bool last, abx_buf *out)
{
    abx_buf_reset(out);
    ABX_CHECK(abx_buf_add(out, tail->bytes, tail->len) == 0 && abx_buf_add(out, bytes, n) == 0);
    tail->len = 0;
    if (last || out->len == 0)
        return out->len > 0;
    size_t whole = abx_utf8_whole(out->data, out->len);
    tail->len = out->len - whole;
    ABX_CHECK(tail->len <= sizeof tail->bytes);
    memcpy(tail->bytes, out->data + whole, tail->len);
    out->len = whole;
    out->data[whole] = 0;
    return whole > 0;
}
