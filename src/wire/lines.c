#include "wire/lines.h"

#include <string.h>

void abx_lines_init(abx_lines *l, size_t max_line, abx_on_line on_line, void *user)
{
    memset(l, 0, sizeof *l);
    l->on_line = on_line;
    l->user = user;
    abx_buf_init(&l->part, max_line);
}

void abx_lines_clear(abx_lines *l)
{
    abx_buf_clear(&l->part);
}

static int too_long(abx_lines *l, abx_error **err)
{
    l->failed = 1;
    return abx_fail(err, ABX_ERR_TOO_LARGE, "a line is longer than %zu bytes", l->part.max);
}

static int give(abx_lines *l, const char *line, size_t n)
{
    if (n && line[n - 1] == '\r')
        n--;
    return l->on_line(line, n, l->user);
}

int abx_lines_feed(abx_lines *l, const void *bytes, size_t n, size_t *used, abx_error **err)
{
    const char *at = bytes, *end = at + n;
    int stop = 0;

    while (at < end && !stop && !l->failed) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((newline ? newline : end) - at);
        if (newline && l->part.len == 0 && len <= l->part.max) {
            stop = give(l, at, len);
        } else {
            if (abx_buf_add(&l->part, at, len) < 0)
                return too_long(l, err);
            if (newline) {
                stop = give(l, abx_buf_cstr(&l->part), l->part.len);
                abx_buf_reset(&l->part);
            }
        }
        at += len + (newline != NULL);
    }
    if (used)
        *used = (size_t)(at - (const char *)bytes);
    if (l->failed)
        return too_long(l, err);
    return stop != 0;
}

int abx_lines_end(abx_lines *l, abx_error **err)
{
    int stop = 0;

    if (l->failed)
        return too_long(l, err);
    if (l->part.len)
        stop = give(l, abx_buf_cstr(&l->part), l->part.len);
    abx_buf_reset(&l->part);
    return stop != 0;
}
