/* The little JSON that a program without a library for it needs. */
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/capi/capi.h"

static yyjson_val *step(yyjson_val *at, const char *name)
{
    uint64_t place;
    if (yyjson_is_arr(at))
        return abx_parse_uint(name, SIZE_MAX, &place) == 0 ? yyjson_arr_get(at, (size_t)place)
                                                           : NULL;
    return yyjson_obj_get(at, name);
}

char *capi_json_member(const char *json, const char *path)
{
    ABX_AUTO_JSON doc = yyjson_read(json, strlen(json), 0);
    ABX_AUTO_FREE char *copy = abx_strdup(path);
    yyjson_val *at = doc ? yyjson_doc_get_root(doc) : NULL;
    char *rest = copy;
    for (char *name; at && (name = strsep(&rest, ".")) != NULL;)
        at = step(at, name);
    if (!at || yyjson_is_null(at))
        return NULL;
    return yyjson_is_str(at) ? abx_strndup(yyjson_get_str(at), yyjson_get_len(at))
                             : abx_json_text(at);
}

/* A copy in which each byte that belongs to no character is U+FFFD. */
static char *repaired(const char *text)
{
    size_t n = strlen(text), at = 0;
    ABX_AUTO_BUF out = ABX_BUF(SIZE_MAX / 2);
    int rc = abx_buf_add_str(&out, "");
    while (at < n) {
        size_t len = 1;
        while (len <= 4 && at + len <= n && !abx_utf8_valid(text + at, len))
            len++;
        bool whole = len <= 4 && at + len <= n;
        rc |= whole ? abx_buf_add(&out, text + at, len) : abx_buf_add_str(&out, "\xef\xbf\xbd");
        at += whole ? len : 1;
    }
    ABX_CHECK(rc == 0);
    return abx_buf_take(&out);
}

char *capi_json_string(const char *text)
{
    ABX_AUTO_FREE char *good =
        abx_utf8_valid(text, strlen(text)) ? abx_strdup(text) : repaired(text);
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(d, yyjson_mut_str(d, good));
    ABX_AUTO_JSON frozen = abx_json_freeze(d);
    return abx_json_text(yyjson_doc_get_root(frozen));
}
