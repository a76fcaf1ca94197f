#include "doors/cli/suite/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define LINE_MAX_BYTES 600 /* of one value */
#define SHOWN_BYTES    200 /* of a channel */
#define EVENTS_SHOWN   12

/* At most `most` bytes of a text, readable, with a mark when more came. Owned. */
static char *beginning(const char *text, size_t len, size_t most)
{
    size_t n = len;
    if (n > most)
        n = abx_utf8_whole(text, most);
    ABX_AUTO_FREE char *cut = abx_strndup(text, n);
    ABX_AUTO_FREE char *shown = abx_printable(cut);
    return abx_format("%s%s", shown, n < len ? " …" : "");
}

static void add_line(abx_buf *out, const char *sign, const char *what, yyjson_val *value)
{
    ABX_AUTO_FREE char *text = value ? abx_json_text(value) : abx_strdup("");
    ABX_AUTO_FREE char *shown = beginning(text, strlen(text), LINE_MAX_BYTES);
    ABX_CHECK(abx_buf_addf(out, "%s %s%s%s\n", sign, what, shown[0] ? " " : "", shown) == 0);
}

static void add_bytes(abx_buf *out, const char *channel, yyjson_val *all)
{
    size_t len = yyjson_get_len(all);
    const char *text = yyjson_get_str(all);
    if (!text || len == 0)
        return;
    ABX_AUTO_FREE char *shown = beginning(text, len, SHOWN_BYTES);
    ABX_CHECK(abx_buf_addf(out, "< %s '%s' (%zu bytes)\n", channel, shown, len) == 0);
}

char *abx_exchange_text(const abx_trace *t)
{
    ABX_AUTO_JSON all = abx_trace_json(t);
    ABX_AUTO_BUF out = ABX_BUF(SIZE_MAX / 2);
    yyjson_val *root = yyjson_doc_get_root(all), *event;
    yyjson_val *events = abx_json_get(root, "events");
    size_t i, n;
    add_line(&out, ">", t->op ? t->op->method : "?", yyjson_doc_get_root(t->params));
    yyjson_arr_foreach(events, i, n, event)
    {
        if (i < EVENTS_SHOWN)
            add_line(&out, "<", "event", event);
    }
    if (yyjson_arr_size(events) > EVENTS_SHOWN)
        ABX_CHECK(abx_buf_addf(&out, "< … and %zu more events\n",
                               yyjson_arr_size(events) - EVENTS_SHOWN) == 0);
    for (int c = 0; c < ABX_CH_COUNT; c++) {
        const char *name = abx_channel_name((abx_channel)c);
        add_bytes(&out, name, abx_json_get(root, name));
    }
    if (t->err)
        add_line(&out, "<", "error", abx_json_get(root, "error"));
    else if (t->ended)
        add_line(&out, "<", "result", abx_json_get(root, "result"));
    else
        ABX_CHECK(abx_buf_addf(&out, "< (no end)\n") == 0);
    return abx_buf_take(&out);
}

/* The text of a row of the table of results, or NULL. member: ends at n bytes. */
static const char *text_of(abx_op_id op, const char *member, size_t n)
{
    size_t count;
    const abx_op_field *fields = abx_op_results(&count);
    for (size_t i = 0; i < count; i++)
        if (fields[i].op == op && strlen(fields[i].name) == n &&
            strncmp(fields[i].name, member, n) == 0)
            return fields[i].text;
    return NULL;
}

char *abx_exchange_rule(const abx_op_row *op, const char *why)
{
    static const char mark[] = ": result.";
    if (!op)
        return NULL;
    const char *at = why ? strstr(why, mark) : NULL;
    const char *member = at ? at + sizeof mark - 1 : "";
    size_t n = strcspn(member, ".: ");
    const char *text = n > 0 ? text_of(op->id, member, n) : NULL;
    return text ? abx_format("docs/providers/epp.md, %s: result %.*s: %s", op->method, (int)n,
                             member, text)
                : abx_format("docs/providers/epp.md, %s: %s", op->method, op->summary);
}
