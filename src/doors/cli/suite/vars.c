#include "doors/cli/suite/vars.h"

#include <string.h>

#include "base/mem.h"

void abx_vars_init(abx_vars *v, const abx_vars *outer)
{
    v->outer = outer;
    v->_doc = abx_mut_new(&v->_all);
}

void abx_vars_clear(abx_vars *v)
{
    yyjson_mut_doc_free(v->_doc);
    v->_doc = NULL;
    v->_all = NULL;
}

static void put(abx_vars *v, const char *name, yyjson_mut_val *value)
{
    yyjson_mut_val *key = yyjson_mut_strcpy(v->_doc, name);
    ABX_CHECK(key && value && yyjson_mut_obj_put(v->_all, key, value));
}

void abx_vars_set(abx_vars *v, const char *name, yyjson_val *value)
{
    put(v, name, yyjson_val_mut_copy(v->_doc, value));
}

void abx_vars_set_str(abx_vars *v, const char *name, const char *text)
{
    put(v, name, yyjson_mut_strcpy(v->_doc, text));
}

void abx_vars_set_int(abx_vars *v, const char *name, int64_t number)
{
    put(v, name, yyjson_mut_sint(v->_doc, number));
}

static yyjson_mut_val *find(const abx_vars *v, const char *name, size_t n)
{
    for (; v; v = v->outer) {
        yyjson_mut_val *value = yyjson_mut_obj_getn(v->_all, name, n);
        if (value)
            return value;
    }
    return NULL;
}

/* The next {{name}} of n bytes of text: its place, or NULL. *name and *len are what stands between the braces. */
static const char *next_name(const char *text, size_t n, const char **name, size_t *len)
{
    const char *open = memmem(text, n, "{{", 2);
    if (!open)
        return NULL;
    const char *inside = open + 2;
    const char *close = memmem(inside, n - (size_t)(inside - text), "}}", 2);
    if (!close)
        return NULL;
    *name = inside;
    *len = (size_t)(close - inside);
    return open;
}

static yyjson_mut_val *fail_unset(const char *name, size_t len, abx_error **err)
{
    abx_fail(err, ABX_ERR_USAGE, "the variable '%.*s' is not set", (int)len, name);
    return NULL;
}

static int add_value(abx_buf *out, yyjson_mut_val *value)
{
    if (yyjson_mut_is_str(value))
        return abx_buf_add(out, yyjson_mut_get_str(value), yyjson_mut_get_len(value));
    return abx_json_write_mut(value, out);
}

static yyjson_mut_val *fill_text(const abx_vars *v, yyjson_mut_doc *d, yyjson_val *value,
                                 abx_error **err)
{
    const char *text = yyjson_get_str(value), *name = NULL;
    size_t n = yyjson_get_len(value), len = 0;
    const char *at = next_name(text, n, &name, &len);
    if (!at)
        return yyjson_mut_strncpy(d, text, n);
    if (at == text && len + 4 == n) {
        yyjson_mut_val *whole = find(v, name, len);
        return whole ? yyjson_mut_val_mut_copy(d, whole) : fail_unset(name, len, err);
    }
    ABX_AUTO_BUF out = ABX_BUF(SIZE_MAX / 2);
    const char *rest = text, *end = text + n;
    for (; at; at = next_name(rest, (size_t)(end - rest), &name, &len)) {
        yyjson_mut_val *part = find(v, name, len);
        if (!part)
            return fail_unset(name, len, err);
        ABX_CHECK(abx_buf_add(&out, rest, (size_t)(at - rest)) == 0 && add_value(&out, part) == 0);
        rest = name + len + 2;
    }
    ABX_CHECK(abx_buf_add(&out, rest, (size_t)(end - rest)) == 0);
    return yyjson_mut_strncpy(d, abx_buf_cstr(&out), out.len);
}

yyjson_mut_val *abx_vars_fill(const abx_vars *v, yyjson_mut_doc *d, yyjson_val *value,
                              abx_error **err)
{
    size_t i, n;
    yyjson_val *key, *item;
    if (yyjson_is_str(value))
        return fill_text(v, d, value, err);
    if (yyjson_is_arr(value)) {
        yyjson_mut_val *arr = yyjson_mut_arr(d);
        yyjson_arr_foreach(value, i, n, item)
        {
            yyjson_mut_val *filled = abx_vars_fill(v, d, item, err);
            if (!filled)
                return NULL;
            yyjson_mut_arr_append(arr, filled);
        }
        return arr;
    }
    if (!yyjson_is_obj(value))
        return yyjson_val_mut_copy(d, value);
    yyjson_mut_val *obj = yyjson_mut_obj(d);
    yyjson_obj_foreach(value, i, n, key, item)
    {
        yyjson_mut_val *filled = abx_vars_fill(v, d, item, err);
        if (!filled)
            return NULL;
        yyjson_mut_obj_add(obj, yyjson_val_mut_copy(d, key), filled);
    }
    return obj;
}
