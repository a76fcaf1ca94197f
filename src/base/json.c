#include "base/json.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

/* Deepest nesting in the text, strings left out; the reader itself does not limit it. */
static bool too_deep(const char *p, size_t n)
{
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        char c = p[i];
        if (in_string) {
            size_t plain = abx_json_plain(p + i, n - i);
            if (plain > 0)
                i += plain - 1;
            else if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > ABX_JSON_DEPTH)
                return true;
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return false;
}

yyjson_doc *abx_json_parse(const void *text, size_t n, abx_err_id id, const char *what,
                           abx_error **err)
{
    if (too_deep(text, n)) {
        abx_fail(err, id, "%s is nested deeper than %d levels", what, ABX_JSON_DEPTH);
        return NULL;
    }
    yyjson_read_err why;
    /* yyjson takes a char *, but only changes it with the in-situ flag, which is not given. */
    union {
        const void *in;
        char *out;
    } t = {text};
    yyjson_doc *doc = yyjson_read_opts(t.out, n, YYJSON_READ_NOFLAG, NULL, &why);
    if (!doc)
        abx_fail(err, id, "%s is no valid JSON: %s at byte %zu", what, why.msg, why.pos);
    return doc;
}

yyjson_doc *abx_json_freeze(yyjson_mut_doc *d)
{
    yyjson_doc *frozen = yyjson_mut_doc_imut_copy(d, NULL);
    ABX_CHECK(frozen != NULL);
    return frozen;
}

void abx_json_wipe(yyjson_doc *d)
{
    size_t n = d ? yyjson_doc_get_val_count(d) : 0;
    yyjson_val *values = d ? yyjson_doc_get_root(d) : NULL; /* one array */
    for (size_t i = 0; i < n; i++)
        if (yyjson_is_str(values + i))
            explicit_bzero((char *)(uintptr_t)yyjson_get_str(values + i),
                           yyjson_get_len(values + i));
    yyjson_doc_free(d);
}

void abx_mut_wipe(yyjson_mut_doc *d)
{
    for (yyjson_str_chunk *c = d ? d->str_pool.chunks : NULL; c; c = c->next)
        explicit_bzero((char *)(c + 1), c->chunk_size - sizeof *c);
    yyjson_mut_doc_free(d);
}

yyjson_doc *abx_json_copy(yyjson_val *v)
{
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    ABX_CHECK(d != NULL);
    yyjson_mut_doc_set_root(d, v ? yyjson_val_mut_copy(d, v) : yyjson_mut_obj(d));
    yyjson_doc *copy = abx_json_freeze(d);
    yyjson_mut_doc_free(d);
    return copy;
}

static int add_text(abx_buf *out, char *text, size_t n)
{
    ABX_CHECK(text != NULL);
    int rc = abx_buf_add(out, text, n);
    free(text);
    return rc;
}

int abx_json_write(yyjson_val *v, abx_buf *out)
{
    size_t n = 0;
    char *text = yyjson_val_write(v, YYJSON_WRITE_ALLOW_INVALID_UNICODE, &n);
    return add_text(out, text, n);
}

int abx_json_write_mut(yyjson_mut_val *v, abx_buf *out)
{
    size_t n = 0;
    char *text = yyjson_mut_val_write(v, YYJSON_WRITE_ALLOW_INVALID_UNICODE, &n);
    return add_text(out, text, n);
}

char *abx_json_text(yyjson_val *v)
{
    char *text = yyjson_val_write(v, YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL);
    return text ? text : abx_strdup("null");
}

yyjson_val *abx_json_get(yyjson_val *obj, const char *key)
{
    yyjson_val *v = yyjson_obj_get(obj, key);
    return yyjson_is_null(v) ? NULL : v;
}

const char *abx_json_str(yyjson_val *obj, const char *key, const char *otherwise)
{
    yyjson_val *v = yyjson_obj_get(obj, key);
    return yyjson_is_str(v) ? yyjson_get_str(v) : otherwise;
}

int64_t abx_json_int(yyjson_val *obj, const char *key, int64_t otherwise)
{
    yyjson_val *v = yyjson_obj_get(obj, key);
    if (yyjson_is_uint(v) && yyjson_get_uint(v) > INT64_MAX)
        return otherwise;
    return yyjson_is_int(v) ? yyjson_get_sint(v) : otherwise;
}

bool abx_json_bool(yyjson_val *obj, const char *key, bool otherwise)
{
    yyjson_val *v = yyjson_obj_get(obj, key);
    return yyjson_is_bool(v) ? yyjson_get_bool(v) : otherwise;
}

static yyjson_mut_val *key_of(yyjson_mut_doc *d, const char *key)
{
    yyjson_mut_val *k = yyjson_mut_strcpy(d, key);
    ABX_CHECK(k != NULL);
    return k;
}

void abx_mut_put(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key, yyjson_mut_val *value)
{
    ABX_CHECK(value && yyjson_mut_obj_put(obj, key_of(d, key), value));
}

void abx_mut_addn(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key, size_t key_len,
                  const char *value, size_t n)
{
    ABX_CHECK(yyjson_mut_obj_add(obj, yyjson_mut_strncpy(d, key, key_len),
                                 yyjson_mut_strncpy(d, value, n)));
}

void abx_mut_strn(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key, const char *value,
                  size_t n)
{
    if (value)
        abx_mut_put(d, obj, key, yyjson_mut_strncpy(d, value, n));
}

void abx_mut_str(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key, const char *value)
{
    if (value)
        abx_mut_strn(d, obj, key, value, strlen(value));
}

void abx_mut_int(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key, int64_t value)
{
    abx_mut_put(d, obj, key, yyjson_mut_sint(d, value));
}

void abx_mut_bool(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key, bool value)
{
    abx_mut_put(d, obj, key, yyjson_mut_bool(d, value));
}

void abx_mut_val(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key, yyjson_val *value)
{
    if (value)
        abx_mut_put(d, obj, key, yyjson_val_mut_copy(d, value));
}

yyjson_mut_val *abx_mut_obj(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key)
{
    yyjson_mut_val *v = yyjson_mut_obj(d);
    abx_mut_put(d, obj, key, v);
    return v;
}

yyjson_mut_val *abx_mut_arr(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key)
{
    yyjson_mut_val *v = yyjson_mut_arr(d);
    abx_mut_put(d, obj, key, v);
    return v;
}

yyjson_mut_doc *abx_mut_new(yyjson_mut_val **root)
{
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    ABX_CHECK(d != NULL);
    yyjson_mut_val *obj = yyjson_mut_obj(d);
    ABX_CHECK(obj != NULL);
    yyjson_mut_doc_set_root(d, obj);
    if (root)
        *root = obj;
    return d;
}

yyjson_mut_val *abx_error_json(yyjson_mut_doc *d, const abx_error *e)
{
    yyjson_mut_val *obj = yyjson_mut_obj(d);
    abx_mut_str(d, obj, "code", abx_error_code(e));
    abx_mut_str(d, obj, "type", abx_error_type(e));
    abx_mut_str(d, obj, "message", e->message);
    abx_mut_str(d, obj, "hint", abx_error_hint(e));
    if (e->retryable != ABX_RETRY_UNKNOWN)
        abx_mut_bool(d, obj, "retryable", e->retryable == ABX_RETRY_YES);
    abx_mut_str(d, obj, "provider", e->provider);
    abx_mut_str(d, obj, "sandbox", e->sandbox);
    abx_mut_str(d, obj, "requestId", e->request_id);
    return obj;
}

abx_error *abx_error_from_json(yyjson_val *v)
{
    abx_err_id id = ABX_ERR_BACKEND;
    const char *code = abx_json_str(v, "code", NULL);
    if (code)
        (void)abx_err_find(code, &id);
    abx_error *e = abx_error_new(id, "%s", abx_json_str(v, "message", "the answer names no cause"));
    e->hint = abx_strdup(abx_json_str(v, "hint", NULL));
    e->provider = abx_strdup(abx_json_str(v, "provider", NULL));
    e->sandbox = abx_strdup(abx_json_str(v, "sandbox", NULL));
    e->request_id = abx_strdup(abx_json_str(v, "requestId", NULL));
    e->sys_errno = (int)abx_json_int(v, "errno", 0);
    yyjson_val *retry = abx_json_get(v, "retryable");
    if (yyjson_is_bool(retry))
        e->retryable = yyjson_get_bool(retry) ? ABX_RETRY_YES : ABX_RETRY_NO;
    return e;
}

bool abx_json_has_nul(yyjson_val *v)
{
    if (yyjson_is_str(v))
        return memchr(yyjson_get_str(v), 0, yyjson_get_len(v)) != NULL;
    size_t i, n;
    yyjson_val *key, *item;
    if (yyjson_is_arr(v)) {
        yyjson_arr_foreach(v, i, n, item) if (abx_json_has_nul(item)) return true;
    } else if (yyjson_is_obj(v)) {
        yyjson_obj_foreach(v, i, n, key, item)
        {
            if (abx_json_has_nul(key) || abx_json_has_nul(item))
                return true;
        }
    }
    return false;
}
