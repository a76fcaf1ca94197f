#include "epp/message.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "epp/epp.h"
#include "wire/base64.h"

yyjson_mut_doc *abx_epp_message(uint64_t id, const char *method, yyjson_mut_val **root)
{
    yyjson_mut_doc *d = abx_mut_new(root);
    abx_mut_str(d, *root, "jsonrpc", "2.0");
    if (id)
        abx_mut_int(d, *root, "id", (int64_t)id);
    abx_mut_str(d, *root, "method", method);
    return d;
}

int abx_epp_put(yyjson_mut_doc *message, abx_buf *out)
{
    size_t before = out->len;
    int rc = abx_json_write_mut(yyjson_mut_doc_get_root(message), out);
    yyjson_mut_doc_free(message);
    if (rc == 0 && out->len - before <= ABX_EPP_LINE_MAX)
        return abx_buf_add_byte(out, '\n');
    out->len = before;
    return -1;
}

/* Text as a JSON string, quoted. */
static void put_text(abx_buf *out, const uint8_t *bytes, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t *at = abx_buf_room(out, 6 * n + 2); /* \u00xx for each at most */
    ABX_CHECK(at != NULL);
    uint8_t *to = at;
    *to++ = '"';
    for (size_t i = 0; i < n; i++) {
        size_t plain = abx_json_plain(bytes + i, n - i);
        memcpy(to, bytes + i, plain);
        to += plain;
        i += plain;
        if (i == n)
            break;
        uint8_t c = bytes[i];
        *to++ = '\\';
        if (c == '"' || c == '\\') {
            *to++ = c;
        } else if (c == '\n') {
            *to++ = 'n';
        } else if (c == '\r') {
            *to++ = 'r';
        } else if (c == '\t') {
            *to++ = 't';
        } else {
            memcpy(to, "u00", 3);
            to[3] = (uint8_t)hex[c >> 4];
            to[4] = (uint8_t)hex[c & 15];
            to += 5;
        }
    }
    *to++ = '"';
    abx_buf_grow(out, (size_t)(to - at));
}

static void put_base64(abx_buf *out, const void *bytes, size_t n)
{
    ABX_CHECK(abx_buf_add_byte(out, '"') == 0);
    char *room = (char *)abx_buf_room(out, ABX_BASE64_ROOM(n));
    ABX_CHECK(room != NULL);
    abx_buf_grow(out, abx_base64_encode(bytes, n, room, ABX_BASE64_STANDARD, true));
    ABX_CHECK(abx_buf_add_byte(out, '"') == 0);
}

static int put_start(const abx_epp_bytes *m, abx_buf *out)
{
    int rc = abx_buf_add_str(out, "{\"jsonrpc\":\"2.0\",");
    if (m->id)
        rc |= abx_buf_addf(out, "\"id\":%" PRIu64 ",", m->id);
    rc |= abx_buf_addf(out, "\"method\":\"%s\",\"params\":{\"stream\":%" PRIu64, m->method,
                       m->stream);
    if (m->key)
        rc |= abx_buf_addf(out, ",\"%s\":\"%s\"", m->key, m->value);
    return rc;
}

void abx_epp_put_raw_head(const abx_epp_bytes *m, abx_buf *out)
{
    int rc = put_start(m, out);
    rc |= abx_buf_addf(out, ",\"raw\":%zu}}\n", m->n);
    ABX_CHECK(rc == 0);
}

void abx_epp_put_bytes(const abx_epp_bytes *m, abx_buf *out)
{
    int rc = 0;
    if (m->raw && m->n > 0) {
        abx_epp_put_raw_head(m, out);
        rc |= abx_buf_add(out, m->bytes, m->n);
    } else if (abx_utf8_valid(m->bytes, m->n)) {
        rc |= put_start(m, out);
        rc |= abx_buf_add_str(out, ",\"text\":");
        put_text(out, m->bytes, m->n);
        rc |= abx_buf_add_str(out, "}}");
    } else {
        rc |= put_start(m, out);
        rc |= abx_buf_add_str(out, ",\"base64\":");
        put_base64(out, m->bytes, m->n);
        rc |= abx_buf_add_str(out, "}}");
    }
    rc |= abx_buf_add_byte(out, '\n');
    ABX_CHECK(rc == 0);
}

/* --- errors ------------------------------------------------------------------------------------------- */

/* What JSON-RPC's own codes mean. */
static abx_err_id id_of_number(int64_t code)
{
    switch (code) {
    case ABX_EPP_NO_METHOD: return ABX_ERR_FEATURE_MISSING;
    case ABX_EPP_INVALID_PARAMS: return ABX_ERR_USAGE;
    case ABX_EPP_PARSE_ERROR:
    case ABX_EPP_INVALID_REQUEST: return ABX_ERR_PROVIDER_PROTOCOL;
    default: return ABX_ERR_BACKEND;
    }
}

static abx_err_id id_of_data(yyjson_val *data, int64_t number)
{
    abx_err_id id = ABX_ERR_BACKEND;
    const char *code = abx_json_str(data, "code", NULL), *type = abx_json_str(data, "type", NULL);
    if (code)
        return abx_err_find(code, &id) ? id : ABX_ERR_BACKEND;
    for (int i = 0; type && i < ABX_ERR_COUNT; i++)
        if (strcmp(abx_err_row_of((abx_err_id)i)->type, type) == 0)
            return (abx_err_id)i;
    return type ? ABX_ERR_BACKEND : id_of_number(number);
}

abx_error *abx_epp_error_read(yyjson_val *error, const char *method)
{
    if (!yyjson_is_obj(error))
        return abx_error_new(ABX_ERR_PROVIDER_PROTOCOL, "%s: the error of the answer is no object",
                             method);
    yyjson_val *data = yyjson_obj_get(error, "data");
    int64_t number = abx_json_int(error, "code", ABX_EPP_ERROR);
    abx_err_id id = id_of_data(data, number);
    if (id == ABX_ERR_INTERNAL) /* a bug of the plugin's is none of ours */
        id = ABX_ERR_BACKEND;
    const char *message = abx_json_str(error, "message", NULL);
    abx_error *e =
        number == ABX_EPP_NO_METHOD && !data
            ? abx_error_new(id, "the provider's program does not know the method '%s'", method)
            : abx_error_new(id, "%s", message ? message : "the provider names no cause");
    e->hint = abx_strdup(abx_json_str(data, "hint", NULL));
    yyjson_val *retry = abx_json_get(data, "retryable");
    if (yyjson_is_bool(retry))
        e->retryable = yyjson_get_bool(retry) ? ABX_RETRY_YES : ABX_RETRY_NO;
    return e;
}

void abx_epp_error_put(yyjson_mut_doc *d, yyjson_mut_val *message, const abx_error *e)
{
    yyjson_mut_val *error = abx_mut_obj(d, message, "error");
    abx_mut_int(d, error, "code", ABX_EPP_ERROR);
    abx_mut_str(d, error, "message", e->message);
    yyjson_mut_val *data = abx_mut_obj(d, error, "data");
    abx_mut_str(d, data, "code", abx_error_code(e));
    abx_mut_str(d, data, "hint", e->hint);
    if (e->retryable != abx_err_row_of(e->id)->retryable && e->retryable != ABX_RETRY_UNKNOWN)
        abx_mut_bool(d, data, "retryable", e->retryable == ABX_RETRY_YES);
}
