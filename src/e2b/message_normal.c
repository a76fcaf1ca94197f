/* JSON trees: from what a peer sent, or what we built, to the normal form. Depth is bounded by the table, in which
 * no message holds itself. */
#include "e2b/message_inner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_names.h"
#include "base/mem.h"
#include "wire/base64.h"

typedef struct walk {
    yyjson_mut_doc *doc;
    bool strict, int_text;
    size_t count; /* values made so far */
    abx_err_id id;
    abx_error **err;
} walk;

static yyjson_mut_val *walk_message(walk *w, abx_e2b_msg msg, yyjson_val *v);

static yyjson_mut_val *bad(walk *w, abx_e2b_msg msg, const abx__e2b_field *f, const char *what)
{
    abx_fail(w->err, w->id, "'%s.%s' %s", abx__e2b_msg_name(msg), f->json, what);
    return NULL;
}

/* A whole number as JSON number (also 1.0) or as decimal text. */
static int read_int(yyjson_val *v, int64_t min, int64_t max, int64_t *out)
{
    if (yyjson_is_uint(v)) {
        uint64_t u = yyjson_get_uint(v);
        if (u > (uint64_t)INT64_MAX)
            return -1;
        *out = (int64_t)u;
    } else if (yyjson_is_sint(v)) {
        *out = yyjson_get_sint(v);
    } else if (yyjson_is_real(v)) {
        double d = yyjson_get_real(v);
        if (!(d >= -9007199254740992.0 && d <= 9007199254740992.0) || d != (double)(int64_t)d)
            return -1;
        *out = (int64_t)d;
    } else if (yyjson_is_str(v)) {
        const char *s = yyjson_get_str(v);
        const char *digits = s + (*s == '-');
        if (*digits < '0' || *digits > '9')
            return -1;
        char *end = NULL;
        errno = 0;
        *out = strtoll(s, &end, 10);
        if (errno != 0 || end != s + yyjson_get_len(v))
            return -1;
    } else {
        return -1;
    }
    return *out < min || *out > max ? -1 : 0;
}

static yyjson_mut_val *walk_int(walk *w, abx_e2b_msg msg, const abx__e2b_field *f, yyjson_val *v)
{
    int64_t min = f->type == ABX__E2B_U32 ? 0 : f->type == ABX__E2B_I64 ? INT64_MIN : INT32_MIN;
    int64_t max = f->type == ABX__E2B_U32   ? (int64_t)UINT32_MAX
                  : f->type == ABX__E2B_I64 ? INT64_MAX
                                            : INT32_MAX;
    int64_t n = 0;
    if (read_int(v, min, max, &n) < 0)
        return bad(w, msg, f, "is not a whole number in range");
    if (f->type == ABX__E2B_I64 && w->int_text) {
        ABX_AUTO_FREE char *text = abx_format("%lld", (long long)n);
        return yyjson_mut_strcpy(w->doc, text);
    }
    return abx__e2b_int(w->doc, n);
}

/* An unknown name counts as 0 when it comes from outside; an unknown number stays a number. */
static yyjson_mut_val *walk_enum(walk *w, abx_e2b_msg msg, const abx__e2b_field *f, yyjson_val *v)
{
    abx__e2b_enum e = (abx__e2b_enum)f->sub;
    int64_t n = 0;
    int32_t known = 0;
    if (yyjson_is_str(v)) {
        if (!abx__e2b_enum_value(e, yyjson_get_str(v), &known) && w->strict)
            return bad(w, msg, f, "is no known name");
        n = known;
    } else if (read_int(v, INT32_MIN, INT32_MAX, &n) < 0) {
        return bad(w, msg, f, "is neither a name nor a number");
    }
    const char *name = abx__e2b_enum_name(e, (int32_t)n);
    return name ? yyjson_mut_str(w->doc, name) : abx__e2b_int(w->doc, n);
}

static yyjson_mut_val *walk_bytes(walk *w, abx_e2b_msg msg, const abx__e2b_field *f, yyjson_val *v)
{
    if (!yyjson_is_str(v))
        return bad(w, msg, f, "is not base64 text");
    ABX_AUTO_BUF bytes = ABX_BUF(ABX_BASE64_BYTES(yyjson_get_len(v)));
    if (abx__e2b_base64_read(yyjson_get_str(v), yyjson_get_len(v), &bytes) < 0)
        return bad(w, msg, f, "is not base64 text");
    size_t len = ABX_BASE64_ROOM(bytes.len) - 1;
    ABX_AUTO_FREE char *text = abx_alloc(len + 1);
    abx_base64_encode(bytes.data, bytes.len, text, ABX_BASE64_STANDARD, true);
    return yyjson_mut_strncpy(w->doc, text, len);
}

static yyjson_mut_val *walk_time(walk *w, abx_e2b_msg msg, const abx__e2b_field *f, yyjson_val *v)
{
    int64_t seconds = 0;
    int32_t nanos = 0;
    char text[ABX__E2B_TIME_SIZE];
    if (!yyjson_is_str(v) || abx__e2b_parse_time(yyjson_get_str(v), &seconds, &nanos) < 0 ||
        abx__e2b_format_time(seconds, nanos, text) < 0)
        return bad(w, msg, f, "is not a time");
    return yyjson_mut_strcpy(w->doc, text);
}

static yyjson_mut_val *walk_map(walk *w, abx_e2b_msg msg, const abx__e2b_field *f, yyjson_val *v)
{
    if (!yyjson_is_obj(v))
        return bad(w, msg, f, "is not an object of text");
    if (yyjson_obj_size(v) > ABX__E2B_MAX_MAP)
        return bad(w, msg, f, "has too many members");
    if (abx_json_twice(v))
        return bad(w, msg, f, "has a member twice");
    yyjson_mut_val *out = yyjson_mut_obj(w->doc);
    size_t i = 0, n = 0;
    yyjson_val *key = NULL, *value = NULL;
    yyjson_obj_foreach(v, i, n, key, value)
    {
        if (!yyjson_is_str(value))
            return bad(w, msg, f, "is not an object of text");
        w->count += 2;
        abx_mut_addn(w->doc, out, yyjson_get_str(key), yyjson_get_len(key), yyjson_get_str(value),
                     yyjson_get_len(value));
    }
    return out;
}

static yyjson_mut_val *walk_value(walk *w, abx_e2b_msg msg, const abx__e2b_field *f, yyjson_val *v)
{
    if (++w->count > ABX__E2B_MAX_VALUES)
        return bad(w, msg, f, "makes the message too large");
    switch (f->type) {
    case ABX__E2B_STRING:
        if (!yyjson_is_str(v))
            return bad(w, msg, f, "is not text");
        return yyjson_mut_strncpy(w->doc, yyjson_get_str(v), yyjson_get_len(v));
    case ABX__E2B_BYTES: return walk_bytes(w, msg, f, v);
    case ABX__E2B_BOOL:
        if (!yyjson_is_bool(v))
            return bad(w, msg, f, "is not true or false");
        return yyjson_mut_bool(w->doc, yyjson_get_bool(v));
    case ABX__E2B_U32:
    case ABX__E2B_I32:
    case ABX__E2B_S32:
    case ABX__E2B_I64: return walk_int(w, msg, f, v);
    case ABX__E2B_ENUM: return walk_enum(w, msg, f, v);
    case ABX__E2B_MESSAGE:
        if (!yyjson_is_obj(v))
            return bad(w, msg, f, "is not an object");
        return walk_message(w, (abx_e2b_msg)f->sub, v);
    case ABX__E2B_TIME: return walk_time(w, msg, f, v);
    case ABX__E2B_MAP: return walk_map(w, msg, f, v);
    }
    return NULL;
}

static yyjson_mut_val *walk_list(walk *w, abx_e2b_msg msg, const abx__e2b_field *f, yyjson_val *v)
{
    if (!yyjson_is_arr(v))
        return bad(w, msg, f, "is not a list");
    if (yyjson_arr_size(v) > ABX__E2B_MAX_LIST)
        return bad(w, msg, f, "has too many entries");
    yyjson_mut_val *out = yyjson_mut_arr(w->doc);
    size_t i = 0, n = 0;
    yyjson_val *one = NULL;
    yyjson_arr_foreach(v, i, n, one)
    {
        yyjson_mut_val *value = walk_value(w, msg, f, one);
        if (!value)
            return NULL;
        yyjson_mut_arr_append(out, value);
    }
    return out;
}

static yyjson_mut_val *walk_message(walk *w, abx_e2b_msg msg, yyjson_val *v)
{
    yyjson_mut_val *out = yyjson_mut_obj(w->doc);
    const abx__e2b_field *chosen = NULL;
    size_t i = 0, n = 0;
    yyjson_val *key = NULL, *value = NULL;
    yyjson_obj_foreach(v, i, n, key, value)
    {
        const abx__e2b_field *f = abx__e2b_field_by_name(msg, yyjson_get_str(key));
        if (!f && w->strict) {
            abx_fail(w->err, w->id, "'%s' has no field '%s'", abx__e2b_msg_name(msg),
                     yyjson_get_str(key));
            return NULL;
        }
        if (!f || yyjson_is_null(value))
            continue;
        if (f->label == ABX__E2B_ONEOF) {
            if (chosen && chosen != f)
                return bad(w, msg, f, "excludes another field that is there too");
            chosen = f;
        }
        yyjson_mut_val *made =
            f->label == ABX__E2B_LIST ? walk_list(w, msg, f, value) : walk_value(w, msg, f, value);
        if (!made)
            return NULL;
        yyjson_mut_obj_put(out, yyjson_mut_str(w->doc, f->json), made);
    }
    return out;
}

yyjson_mut_val *abx__e2b_normal(abx_e2b_msg msg, yyjson_val *tree, bool strict, bool int_text,
                                yyjson_mut_doc *doc, abx_err_id id, abx_error **err)
{
    if (!yyjson_is_obj(tree)) {
        abx_fail(err, id, "'%s' is not an object", abx__e2b_msg_name(msg));
        return NULL;
    }
    walk w = {doc, strict, int_text, 0, id, err};
    return walk_message(&w, msg, tree);
}
