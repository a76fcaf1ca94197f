/* GET /sandboxes/{id}/logs and /v2/…: what the provider has noted about a sandbox; nothing, where it notes nothing. */
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/e2b/control.h"

#define LIMIT_MOST  1000
#define LINE_LENGTH ((size_t)1024 * 1024)

typedef struct filter {
    char *level, *search; /* or NULL */
    bool backward;
} filter;

static void free_filter(void *state)
{
    filter *f = state;
    free(f->level);
    free(f->search);
    free(f);
}

static bool fits(const filter *f, yyjson_val *entry)
{
    const char *message = abx_json_str(entry, "message", "");
    return (!f->level || strcasecmp(abx_json_str(entry, "level", "info"), f->level) == 0) &&
           (!f->search || strcasestr(message, f->search));
}

static void add_fields(yyjson_mut_doc *d, yyjson_mut_val *o, yyjson_val *entry)
{
    yyjson_val *fields = abx_json_get(entry, "fields");
    if (fields)
        abx_mut_val(d, o, "fields", fields);
    else
        abx_mut_obj(d, o, "fields");
}

static yyjson_mut_val *view(yyjson_mut_doc *d, yyjson_val *entry)
{
    yyjson_mut_val *o = yyjson_mut_obj(d);
    abx_mut_str(d, o, "timestamp", abx_json_str(entry, "timestamp", "1970-01-01T00:00:00Z"));
    abx_mut_str(d, o, "level", abx_json_str(entry, "level", "info"));
    abx_mut_str(d, o, "message", abx_json_str(entry, "message", ""));
    add_fields(d, o, entry);
    return o;
}

/* The older form: a line of text that is JSON again. */
static void add_line(yyjson_mut_doc *d, yyjson_mut_val *list, yyjson_val *entry)
{
    ABX_AUTO_BUF line = ABX_BUF(LINE_LENGTH);
    if (abx_json_write_mut(view(d, entry), &line) < 0)
        return;
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
    abx_mut_str(d, o, "timestamp", abx_json_str(entry, "timestamp", "1970-01-01T00:00:00Z"));
    abx_mut_str(d, o, "line", abx_buf_cstr(&line));
}

static void on_logs(void *data, yyjson_val *result, const abx_error *err)
{
    e2b_request *r = data;
    const filter *f = r->state;
    if (err && err->id != ABX_ERR_FEATURE_MISSING) {
        e2b_reply_error(r, err);
        return;
    }
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_val *entries = abx_json_get(result, "entries");
    yyjson_mut_val *logs = abx_mut_arr(d, root, "logs");
    yyjson_mut_val *structured = r->v2 ? logs : abx_mut_arr(d, root, "logEntries");
    size_t n = yyjson_arr_size(entries);
    for (size_t i = 0; i < n; i++) {
        yyjson_val *entry = yyjson_arr_get(entries, f->backward ? n - 1 - i : i);
        if (!fits(f, entry))
            continue;
        yyjson_mut_arr_append(structured, view(d, entry));
        if (!r->v2)
            add_line(d, logs, entry);
    }
    e2b_reply(r, 200, root);
}

static void ask(e2b_request *r)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *params = e2b_box_params(r->box, &root);
    ABX_AUTO_FREE char *start = e2b_query(r, r->v2 ? "cursor" : "start");
    ABX_AUTO_FREE char *limit = e2b_query(r, "limit");
    uint64_t ms, count;
    if ((start && abx_parse_uint(start, INT64_MAX, &ms) < 0) ||
        (limit && abx_parse_uint(limit, INT32_MAX, &count) < 0)) {
        yyjson_mut_doc_free(params);
        e2b_reply_refuse(r, 400,
                         "validation error: a time in milliseconds and a limit are numbers");
        return;
    }
    if (start) {
        char since[ABX_RFC3339_SIZE];
        abx_format_rfc3339((int64_t)ms, since);
        abx_mut_str(params, root, "since", since);
    }
    if (limit)
        abx_mut_int(params, root, "limit", count < LIMIT_MOST ? (int64_t)count : LIMIT_MOST);
    e2b_request_ask(r, ABX_OP_SANDBOX_LOGS, params, on_logs);
}

void e2b_do_logs(e2b_request *r)
{
    filter *f = ABX_NEW(filter);
    r->state = f;
    r->free_state = free_filter;
    ABX_AUTO_FREE char *direction = e2b_query(r, "direction");
    f->level = e2b_query(r, "level");
    f->search = e2b_query(r, "search");
    f->backward = abx_str_eq(direction, "backward");
    e2b_with_box(r, false, ask);
}
