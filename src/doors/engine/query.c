#include "doors/engine/query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "net/http_server.h"

/* A name or a value: percent-encoded, with '+' for a blank as every form encoder writes it. Owned; NULL: broken. */
static char *decode(const char *text, size_t n)
{
    ABX_AUTO_FREE char *copy = abx_strndup(text, n);
    size_t len = 0;
    for (char *p = copy; *p; p++)
        if (*p == '+')
            *p = ' ';
    char *out = abx_percent_decode(copy, n, &len);
    if (out && strlen(out) == len && abx_utf8_valid(out, len))
        return out;
    free(out);
    return NULL;
}

static const abx_op_field *find(const abx_op_row *row, const char *name)
{
    size_t count;
    const abx_op_field *all = abx_op_params(&count);
    for (size_t i = 0; i < count; i++)
        if (all[i].op == row->id && strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}

/* What streaming routes take besides the parameters of their row, and read themselves. */
static bool is_of_the_route(const abx_op_row *row, const char *name)
{
    if (strcmp(name, "from") == 0)
        return row->id == ABX_OP_PROCESS_ATTACH || row->id == ABX_OP_PTY_OPEN;
    return strcmp(name, "pty") == 0 && row->id == ABX_OP_PTY_OPEN;
}

static int put_number(const abx_op_field *f, const char *text, yyjson_mut_doc *d,
                      yyjson_mut_val *root, abx_error **err)
{
    uint64_t n;
    if (text[0] == '0' && text[1] >= '0' && text[1] <= '9') /* 0644 would be 644 */
        return abx_fail(err, ABX_ERR_USAGE, "'%s' is decimal and begins with no 0", f->name);
    if (abx_parse_uint(text, INT64_MAX, &n) == 0) {
        abx_mut_int(d, root, f->name, (int64_t)n);
        return 0;
    }
    char *end;
    double number = strtod(text, &end);
    if (f->type != ABX_TYPE_NUMBER || *end || end == text ||
        strspn(text, "0123456789.") != strlen(text))
        return abx_fail(err, ABX_ERR_USAGE, "'%s' is no number", f->name);
    abx_mut_put(d, root, f->name, yyjson_mut_real(d, number));
    return 0;
}

static int put_bool(const abx_op_field *f, const char *text, yyjson_mut_doc *d,
                    yyjson_mut_val *root, abx_error **err)
{
    bool yes = !*text || strcmp(text, "true") == 0;
    if (!yes && strcmp(text, "false") != 0)
        return abx_fail(err, ABX_ERR_USAGE, "'%s' is true or false", f->name);
    abx_mut_bool(d, root, f->name, yes);
    return 0;
}

/* KEY=VALUE */
static int put_pair(const abx_op_field *f, const char *text, yyjson_mut_doc *d,
                    yyjson_mut_val *root, abx_error **err)
{
    const char *equal = strchr(text, '=');
    if (!equal || equal == text)
        return abx_fail(err, ABX_ERR_USAGE, "'%s' is KEY=VALUE", f->name);
    yyjson_mut_val *map = yyjson_mut_obj_get(root, f->name);
    ABX_AUTO_FREE char *key = abx_strndup(text, (size_t)(equal - text));
    map = map ? map : abx_mut_obj(d, root, f->name);
    /* one that is there twice is for the check of the parameters */
    abx_mut_addn(d, map, key, strlen(key), equal + 1, strlen(equal + 1));
    return 0;
}

static int put_json(const abx_op_field *f, const char *text, yyjson_mut_doc *d,
                    yyjson_mut_val *root, abx_error **err)
{
    ABX_AUTO_JSON doc = abx_json_parse(text, strlen(text), ABX_ERR_USAGE, f->name, err);
    if (!doc)
        return -1;
    abx_mut_val(d, root, f->name, yyjson_doc_get_root(doc));
    return 0;
}

static void put_item(const abx_op_field *f, const char *text, yyjson_mut_doc *d,
                     yyjson_mut_val *root)
{
    yyjson_mut_val *list = yyjson_mut_obj_get(root, f->name);
    list = list ? list : abx_mut_arr(d, root, f->name);
    yyjson_mut_arr_add_strcpy(d, list, text);
}

static int put(const abx_op_field *f, const char *text, yyjson_mut_doc *d, yyjson_mut_val *root,
               abx_error **err)
{
    bool repeats = f->type == ABX_TYPE_ARGV || f->type == ABX_TYPE_LIST || f->type == ABX_TYPE_MAP;
    if (!repeats && yyjson_mut_obj_get(root, f->name))
        return abx_fail(err, ABX_ERR_USAGE, "'%s' is there twice, or stands in the path already",
                        f->name);
    switch (f->type) {
    case ABX_TYPE_STRING: abx_mut_str(d, root, f->name, text); return 0;
    case ABX_TYPE_BOOL: return put_bool(f, text, d, root, err);
    case ABX_TYPE_INT:
    case ABX_TYPE_NUMBER: return put_number(f, text, d, root, err);
    case ABX_TYPE_ARGV:
    case ABX_TYPE_LIST: put_item(f, text, d, root); return 0;
    case ABX_TYPE_MAP: return put_pair(f, text, d, root, err);
    case ABX_TYPE_BYTES:
    case ABX_TYPE_OBJECT: return put_json(f, text, d, root, err);
    }
    return -1;
}

int engine_query_read(const abx_op_row *row, const char *query, yyjson_mut_doc *d,
                      yyjson_mut_val *root, abx_error **err)
{
    while (*query) {
        size_t n = strcspn(query, "&"), name_len = strcspn(query, "=&");
        const char *at = query + name_len + (query[name_len] == '=');
        ABX_AUTO_FREE char *name = decode(query, name_len);
        ABX_AUTO_FREE char *value = decode(at, (size_t)(query + n - at));
        query += n + (query[n] == '&');
        if (n == 0)
            continue;
        if (!name || !value)
            return abx_fail(err, ABX_ERR_USAGE,
                            "the query of the URL is not UTF-8 in percent-encoding");
        const abx_op_field *f = find(row, name);
        if (f && put(f, value, d, root, err) < 0)
            return -1;
        if (!f &&
            !is_of_the_route(
                row,
                name)) /* the check of the parameters names it, and the nearest that is known */
            abx_mut_str(d, root, name, value);
    }
    return 0;
}
