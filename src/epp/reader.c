#include "epp/reader.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "epp/epp.h"

static int fail_line(abx_error **err, const char *line, size_t n, const char *what)
{
    ABX_AUTO_FREE char *begin = abx_strndup(line, n < 100 ? n : 100);
    ABX_AUTO_FREE char *shown = abx_printable(begin);
    return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL, "%s: '%s%s'", what, shown, n > 100 ? "…" : "");
}

/* How many raw bytes follow this message: 0 none. -1: not allowed. */
static int announced(abx_epp_reader *r, yyjson_val *message, size_t *count, abx_error **err)
{
    yyjson_val *raw = yyjson_obj_get(yyjson_obj_get(message, "params"), "raw");
    *count = 0;
    if (!yyjson_is_num(raw))
        return 0;
    if (!r->raw_agreed)
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL,
                        "a raw chunk although both sides did not agree to it");
    if (!yyjson_is_uint(raw) || yyjson_get_uint(raw) == 0 ||
        yyjson_get_uint(raw) > ABX_EPP_CHUNK_MAX)
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL,
                        "the length of a raw chunk is a number from 1 to %zu", ABX_EPP_CHUNK_MAX);
    *count = (size_t)yyjson_get_uint(raw);
    return 0;
}

static int take_line(abx_epp_reader *r, const char *line, size_t n)
{
    if (n == 0)
        return 0;
    if (line[0] != '{')
        return r->handlers->on_stray ? r->handlers->on_stray(line, n, r->data, &r->err)
                                     : fail_line(&r->err, line, n, "a line that is no message");
    abx_error *why = NULL;
    ABX_AUTO_JSON doc =
        abx_json_parse(line, n, ABX_ERR_PROVIDER_PROTOCOL, "a line of the protocol", &why);
    if (!doc) {
        ABX_AUTO_FREE char *text = abx_strdup(abx_error_text(why));
        abx_error_free(why);
        return fail_line(&r->err, line, n, text);
    }
    yyjson_val *message = yyjson_doc_get_root(doc);
    size_t raw = 0;
    if (announced(r, message, &raw, &r->err) < 0 ||
        r->handlers->on_message(message, r->data, &r->err) < 0)
        return -1;
    r->raw_left = raw;
    r->raw_end = raw > 0;
    return 0;
}

static int on_line(const char *line, size_t n, void *user)
{
    abx_epp_reader *r = user;
    if (take_line(r, line, n) < 0)
        r->failed = true;
    return r->failed || r->raw_end; /* stop here: what follows is no line */
}

void abx_epp_reader_init(abx_epp_reader *r, const abx_epp_reader_handlers *handlers, void *data)
{
    memset(r, 0, sizeof *r);
    r->handlers = handlers;
    r->data = data;
    abx_lines_init(&r->lines, ABX_EPP_LINE_MAX, on_line, r);
}

void abx_epp_reader_clear(abx_epp_reader *r)
{
    abx_lines_clear(&r->lines);
    abx_error_free(ABX_TAKE(r->err));
}

/* As much of the chunk and its end as is here. Returns the count of bytes taken, or -1. */
static ssize_t take_raw(abx_epp_reader *r, const uint8_t *bytes, size_t n)
{
    size_t part = n < r->raw_left ? n : r->raw_left;
    if (part > 0) {
        r->raw_left -= part;
        if (r->handlers->on_raw(bytes, part, r->raw_left, r->data, &r->err) < 0)
            return -1;
    }
    if (r->raw_left > 0 || part == n)
        return (ssize_t)part;
    if (bytes[part] != '\n') {
        abx_fail(&r->err, ABX_ERR_PROVIDER_PROTOCOL, "a raw chunk is not followed by a newline");
        return -1;
    }
    r->raw_end = false;
    return (ssize_t)part + 1;
}

int abx_epp_reader_feed(abx_epp_reader *r, const void *bytes, size_t n, abx_error **err)
{
    const uint8_t *at = bytes, *end = at + n;
    while (at < end && !r->failed) {
        if (r->raw_end) {
            ssize_t taken = take_raw(r, at, (size_t)(end - at));
            if (taken < 0)
                r->failed = true;
            else
                at += taken;
            continue;
        }
        size_t used = 0;
        abx_error *why = NULL;
        if (abx_lines_feed(&r->lines, at, (size_t)(end - at), &used, &why) < 0) {
            r->failed = true;
            abx_error_free(why);
            abx_fail(&r->err, ABX_ERR_PROVIDER_PROTOCOL, "a line is longer than %zu bytes",
                     ABX_EPP_LINE_MAX);
        }
        at += used;
    }
    if (!r->failed)
        return 0;
    if (r->err)
        return abx_error_take(err, ABX_TAKE(r->err));
    return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL, "the stream has failed before");
}

bool abx_epp_reader_is_inside(const abx_epp_reader *r)
{
    return r->raw_end || r->lines.part.len > 0;
}
