#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/engine/stream.h"

static int parse(const char *text, engine_place *out)
{
    char copy[48];
    if (strlen(text) >= sizeof copy)
        return -1;
    memcpy(copy, text, strlen(text) + 1);
    char *dot = strchr(copy, '.');
    if (!dot) {
        out->tty = true;
        return abx_parse_uint(copy, INT64_MAX, &out->at[ABX_CH_PTY]);
    }
    *dot = 0;
    return abx_parse_uint(copy, INT64_MAX, &out->at[ABX_CH_STDOUT]) < 0
               ? -1
               : abx_parse_uint(dot + 1, INT64_MAX, &out->at[ABX_CH_STDERR]);
}

void engine_place_offsets(engine_place *p, yyjson_val *offsets)
{
    bool tty = abx_json_get(offsets, "pty");
    bool all = tty || (abx_json_get(offsets, "stdout") && abx_json_get(offsets, "stderr"));
    p->tty = p->tty || tty;
    p->known = p->known || all;
    for (abx_channel c = ABX_CH_STDOUT; c <= ABX_CH_PTY; c++)
        p->at[c] = (uint64_t)abx_json_int(offsets, abx_channel_name(c), (int64_t)p->at[c]);
}

int engine_place_read(const abx_exchange *x, engine_place *out, abx_error **err)
{
    ABX_AUTO_FREE char *query = abx_exchange_query_get(x, "from");
    const char *header = abx_exchange_header(x, "Last-Event-ID");
    const char *text = header && *header ? header : query;
    *out = (engine_place){0};
    if (!text)
        return 0;
    out->known = true;
    if (parse(text, out) == 0)
        return 0;
    abx_fail(err, ABX_ERR_USAGE, "'%.60s' is no place in the output of a process",
             abx_has_control(text) ? "…" : text);
    return abx_hint(err, "give the id of the last event that came: STDOUT.STDERR in bytes, or one "
                         "number of a terminal");
}

void engine_place_put(const engine_place *p, yyjson_mut_doc *d, yyjson_mut_val *root)
{
    yyjson_mut_val *from = abx_mut_obj(d, root, "fromOffset");
    for (abx_channel c = ABX_CH_STDOUT; c <= ABX_CH_PTY; c++)
        if ((c == ABX_CH_PTY) == p->tty)
            abx_mut_int(d, from, abx_channel_name(c), (int64_t)p->at[c]);
}

const char *engine_place_text(const engine_place *p, char out[48])
{
    if (!p->known)
        return NULL;
    if (p->tty)
        snprintf(out, 48, "%" PRIu64, p->at[ABX_CH_PTY]);
    else
        snprintf(out, 48, "%" PRIu64 ".%" PRIu64, p->at[ABX_CH_STDOUT], p->at[ABX_CH_STDERR]);
    return out;
}
