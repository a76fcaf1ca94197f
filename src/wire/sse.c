#include "wire/sse.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

/* --- writing ------------------------------------------------------------------------------------ */

static int add_field(abx_buf *out, const char *name, const char *value, size_t n)
{
    if (abx_buf_add_str(out, name) < 0 || abx_buf_add(out, value, n) < 0 ||
        abx_buf_add_byte(out, '\n') < 0)
        return -1;
    return 0;
}

static int format(abx_buf *out, const char *event, const char *id, const char *data, size_t n)
{
    if (event && add_field(out, "event: ", event, strcspn(event, "\r\n")) < 0)
        return -1;
    if (id && add_field(out, "id: ", id, strcspn(id, "\r\n")) < 0)
        return -1;
    const char *end = data + n;
    for (;;) {
        const char *stop = data;
        while (stop < end && *stop != '\n' && *stop != '\r')
            stop++;
        if (add_field(out, "data: ", data, (size_t)(stop - data)) < 0)
            return -1;
        if (stop == end)
            break;
        data = stop + 1 + (*stop == '\r' && stop + 1 < end && stop[1] == '\n');
    }
    return abx_buf_add_byte(out, '\n');
}

void abx_sse_format(abx_buf *out, const char *event, const char *id, const char *data, size_t n)
{
    size_t before = out->len;

    if (format(out, event, id, n ? data : "", n) < 0) {
        out->len = before;
        if (out->data)
            out->data[before] = 0;
    }
}

void abx_sse_format_comment(abx_buf *out, const char *text)
{
    size_t before = out->len;

    if (add_field(out, ":", text, strcspn(text, "\r\n")) < 0 || abx_buf_add_byte(out, '\n') < 0) {
        out->len = before;
        if (out->data)
            out->data[before] = 0;
    }
}

/* --- parsing ------------------------------------------------------------------------------------ */

void abx_sse_parser_init(abx_sse_parser *p, size_t max_event,
                         void (*on_event)(const abx_sse_event *event, void *user), void *user)
{
    memset(p, 0, sizeof *p);
    p->on_event = on_event;
    p->user = user;
    p->retry_ms = -1;
    p->at_start = 1;
    abx_buf_init(&p->line, max_event);
    abx_buf_init(&p->name, max_event);
    abx_buf_init(&p->id, max_event);
    abx_buf_init(&p->data, max_event);
}

void abx_sse_parser_clear(abx_sse_parser *p)
{
    abx_buf_clear(&p->line);
    abx_buf_clear(&p->name);
    abx_buf_clear(&p->id);
    abx_buf_clear(&p->data);
}

static void dispatch(abx_sse_parser *p)
{
    if (p->has_data) {
        abx_sse_event e = {.event = p->name.len ? abx_buf_cstr(&p->name) : "message",
                           .id = abx_buf_cstr(&p->id),
                           .data = abx_buf_cstr(&p->data),
                           .data_len = p->data.len,
                           .retry_ms = p->retry_ms};
        p->on_event(&e, p->user);
    }
    p->has_data = 0;
    p->retry_ms = -1;
    abx_buf_reset(&p->name);
    abx_buf_reset(&p->data);
}

static int set(abx_buf *b, const char *value, size_t n)
{
    abx_buf_reset(b);
    return abx_buf_add(b, value, n);
}

static int take_field(abx_sse_parser *p, const char *name, size_t name_len, const char *value,
                      size_t n)
{
#define IS(word) (name_len == sizeof(word) - 1 && memcmp(name, word, sizeof(word) - 1) == 0)
    if (IS("data")) {
        if (p->has_data && abx_buf_add_byte(&p->data, '\n') < 0)
            return -1;
        p->has_data = 1;
        return abx_buf_add(&p->data, value, n);
    }
    if (IS("event") && !memchr(value, 0, n))
        return set(&p->name, value, n);
    if (IS("id") && !memchr(value, 0, n))
        return set(&p->id, value, n);
    if (IS("retry")) {
        uint64_t ms;
        if (strlen(value) == n && abx_parse_uint(value, INT64_MAX, &ms) == 0)
            p->retry_ms = (int64_t)ms;
    }
#undef IS
    return 0;
}

static int take_line(abx_sse_parser *p)
{
    const char *line = abx_buf_cstr(&p->line);
    size_t n = p->line.len;

    if (p->at_start && n >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
        line += 3;
        n -= 3;
    }
    p->at_start = 0;
    if (n == 0) {
        dispatch(p);
        return 0;
    }
    if (line[0] == ':') {
        if (p->on_comment)
            p->on_comment(line + 1, p->user);
        return 0;
    }
    const char *colon = memchr(line, ':', n);
    if (!colon)
        return take_field(p, line, n, "", 0);
    const char *value = colon + 1;
    size_t value_len = n - (size_t)(value - line);
    if (value_len && *value == ' ') {
        value++;
        value_len--;
    }
    return take_field(p, line, (size_t)(colon - line), value, value_len);
}

int abx_sse_parser_feed(abx_sse_parser *p, const void *bytes, size_t n, abx_error **err)
{
    const char *at = bytes, *end = at + n;

    while (at < end && !p->failed) {
        if (p->after_cr) {
            p->after_cr = 0;
            if (*at == '\n') {
                at++;
                continue;
            }
        }
        const char *stop = at;
        while (stop < end && *stop != '\n' && *stop != '\r')
            stop++;
        if (abx_buf_add(&p->line, at, (size_t)(stop - at)) < 0) {
            p->failed = 1;
            break;
        }
        if (stop == end)
            break;
        p->after_cr = *stop == '\r';
        if (take_line(p) < 0)
            p->failed = 1;
        abx_buf_reset(&p->line);
        at = stop + 1;
    }
    if (p->failed)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "an event is longer than %zu bytes", p->line.max);
    return 0;
}
