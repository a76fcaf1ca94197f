#include "doors/cli/log_view.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define PARTIAL_MAX ((size_t)64 * 1024) /* a longer line is cut here, for lines that come whole */

void abx_log_view_init(abx_log_view *v)
{
    memset(v, 0, sizeof *v);
    v->since_ms = INT64_MIN;
    for (size_t i = 0; i < ABX_CH_COUNT; i++)
        abx_buf_init(&v->streams[i].partial, SIZE_MAX / 2);
}

void abx_log_view_clear(abx_log_view *v)
{
    for (size_t i = 0; i < ABX_CH_COUNT; i++)
        abx_buf_clear(&v->streams[i].partial);
}

/* With three digits of a second in every case, so that lines stand under each other. */
static void format_stamp(int64_t ms, char out[ABX_RFC3339_SIZE])
{
    char whole[ABX_RFC3339_NS_SIZE];
    int64_t seconds = ms / 1000 - (ms % 1000 < 0);
    abx_format_rfc3339_ns(seconds, (long)(ms - seconds * 1000) * 1000000, whole);
    snprintf(out, ABX_RFC3339_SIZE, "%.23sZ", whole);
}

void abx_log_view_time(abx_log_view *v, abx_channel channel, const char *time)
{
    abx_log_stream *s = &v->streams[channel];
    if (abx_parse_rfc3339(time, &s->ms) == 0)
        format_stamp(s->ms, s->time);
}

/* A line begins: is it shown? */
static void begin_line(abx_log_view *v, abx_log_stream *s)
{
    s->inside = true;
    s->hidden = v->since_ms != INT64_MIN && s->ms < v->since_ms;
    if (s->hidden)
        return;
    v->lines++;
    if (v->skip > 0) {
        v->skip--;
        s->hidden = true;
    }
    if (v->count_only)
        s->hidden = true;
}

static void add_members(yyjson_mut_doc *d, yyjson_mut_val *o, void *data)
{
    const void *const *of = data;
    const abx_log_view *v = of[0];
    const abx_log_stream *s = of[1];
    if (v->stamps && s->time[0])
        abx_mut_str(d, o, "time", s->time);
    abx_mut_str(d, o, "job", v->label);
}

static void add(abx_buf *out, const void *bytes, size_t n)
{
    ABX_CHECK(abx_buf_add(out, bytes, n) == 0);
}

static void add_head(const abx_log_view *v, const abx_log_stream *s, abx_buf *out)
{
    if (v->label)
        ABX_CHECK(abx_buf_addf(out, "%s | ", v->label) == 0);
    if (v->stamps)
        ABX_CHECK(abx_buf_addf(out, "%s ", s->time[0] ? s->time : "-") == 0);
}

static void put_partial(abx_log_stream *s, abx_buf *out)
{
    add(out, s->partial.data, s->partial.len);
    abx_buf_reset(&s->partial);
}

/* A piece of one line; first: it begins with it, last: it ends with it. */
static void show_text(const abx_log_view *v, abx_log_stream *s, const uint8_t *bytes, size_t n,
                      bool first, bool last, abx_buf *out)
{
    abx_buf *to = v->label ? &s->partial : out;
    if (first)
        add_head(v, s, to);
    add(to, bytes, n);
    if (!v->label)
        return;
    if (!last && s->partial.len > PARTIAL_MAX) {
        add(to, "\n", 1);
        put_partial(s, out);
        add_head(v, s, to);
    } else if (last) {
        put_partial(s, out);
    }
}

void abx_log_view_bytes(abx_log_view *v, abx_channel channel, const uint8_t *bytes, size_t n,
                        abx_buf *out)
{
    abx_log_stream *s = &v->streams[channel];
    const void *of[] = {v, s};
    size_t run = 0, run_len = 0; /* JSON: shown bytes side by side are one event */
    for (size_t at = 0; at < n;) {
        const uint8_t *newline = memchr(bytes + at, '\n', n - at);
        size_t len = newline ? (size_t)(newline - bytes) - at + 1 : n - at;
        bool first = !s->inside;
        if (first)
            begin_line(v, s);
        if (!s->hidden && v->json) {
            run = run_len ? run : at;
            run_len += len;
        } else if (!s->hidden) {
            show_text(v, s, bytes + at, len, first, newline != NULL, out);
        } else if (run_len > 0) {
            abx_event_bytes_with(out, abx_channel_name(channel), bytes + run, run_len, &s->tail,
                                 add_members, of);
            run_len = 0;
        }
        s->inside = newline == NULL;
        at += len;
    }
    if (run_len > 0)
        abx_event_bytes_with(out, abx_channel_name(channel), bytes + run, run_len, &s->tail,
                             add_members, of);
}

void abx_log_view_end(abx_log_view *v, abx_channel channel, abx_buf *out)
{
    abx_log_stream *s = &v->streams[channel];
    if (v->json) {
        abx_event_tail(out, abx_channel_name(channel), &s->tail);
    } else if (s->partial.len > 0) {
        add(&s->partial, "\n", 1);
        put_partial(s, out);
    }
}

int abx_log_since(const char *text, int64_t now_ms, int64_t *out, abx_error **err)
{
    uint64_t ago;
    if (abx_parse_duration(text, &ago) == 0) {
        *out = ago > (uint64_t)INT64_MAX / 2 ? INT64_MIN : now_ms - (int64_t)ago;
        return 0;
    }
    if (abx_parse_rfc3339(text, out) == 0)
        return 0;
    abx_fail(err, ABX_ERR_USAGE, "flag '--since' needs a duration or a time, not '%s'", text);
    return abx_hint(err, "for example 10m, or 2026-01-31T12:00:00Z");
}
