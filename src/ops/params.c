#include <string.h>

#include "base/json_names.h"
#include "base/mem.h"
#include "base/text.h"
#include "ops/ops.h"

static bool all_strings(yyjson_val *list)
{
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(list, i, n, item) if (!yyjson_is_str(item)) return false;
    return true;
}

static bool is_map(yyjson_val *v)
{
    if (!yyjson_is_obj(v))
        return false;
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(v, i, n, key, value) if (!yyjson_is_str(value)) return false;
    return true;
}

static bool is_bytes(yyjson_val *v)
{
    return yyjson_is_obj(v) && yyjson_obj_size(v) == 1 &&
           (yyjson_is_str(yyjson_obj_get(v, "text")) || yyjson_is_str(yyjson_obj_get(v, "base64")));
}

/* A whole number from 0 on; a document that was built, not read, may hold it as a signed one. */
static bool is_count(yyjson_val *v)
{
    return yyjson_is_sint(v) ? yyjson_get_sint(v) >= 0
                             : yyjson_is_uint(v) && yyjson_get_uint(v) <= INT64_MAX;
}

static bool has_type(abx_type type, yyjson_val *v)
{
    switch (type) {
    case ABX_TYPE_STRING: return yyjson_is_str(v);
    case ABX_TYPE_BOOL: return yyjson_is_bool(v);
    case ABX_TYPE_INT: return is_count(v);
    case ABX_TYPE_ARGV: return yyjson_is_str(v) || (yyjson_is_arr(v) && all_strings(v));
    case ABX_TYPE_MAP: return is_map(v);
    case ABX_TYPE_BYTES: return is_bytes(v);
    case ABX_TYPE_LIST: return yyjson_is_arr(v);
    case ABX_TYPE_OBJECT: return yyjson_is_obj(v);
    case ABX_TYPE_NUMBER: return is_count(v) || (yyjson_is_real(v) && yyjson_get_real(v) >= 0);
    }
    return false;
}

/* A name is compared in its whole length: behind a NUL byte it may go on. */
static const abx_op_field *find_param(abx_op_id op, const char *name, size_t len)
{
    size_t n;
    const abx_op_field *rows = abx_op_params(&n);
    for (size_t i = 0; i < n; i++)
        if (rows[i].op == op && strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0)
            return &rows[i];
    return NULL;
}

static int fail_unknown(const abx_op_row *row, const char *name, abx_error **err)
{
    const char *words[64];
    size_t n, count = 0;
    const abx_op_field *rows = abx_op_params(&n);
    for (size_t i = 0; i < n && count < ABX_COUNT(words); i++)
        if (rows[i].op == row->id)
            words[count++] = rows[i].name;
    const char *near = abx_nearest(name, words, count);
    abx_fail(err, ABX_ERR_USAGE, "%s has no parameter '%s'", row->method, name);
    return near ? abx_hint(err, "did you mean '%s'?", near) : -1;
}

/* What is looked up by name below takes time by the square of the members. */
static int check_size(const abx_op_row *row, const char *name, yyjson_val *v, abx_error **err)
{
    bool map = yyjson_is_obj(v);
    size_t most = map ? ABX_OP_MAP_MAX : ABX_OP_LIST_MAX;
    if ((map ? yyjson_obj_size(v) : yyjson_arr_size(v)) > most)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "parameter '%s' of %s has more than %zu entries",
                        name, row->method, most);
    return 0;
}

/* One of the two would be overlooked, which one is everybody's guess. */
static int check_twice(const abx_op_row *row, const char *name, yyjson_val *v, abx_error **err)
{
    yyjson_val *twice = yyjson_is_ctn(v) ? abx_json_twice_within(v) : NULL;
    if (!twice)
        return 0;
    ABX_AUTO_FREE char *shown = abx_printable(yyjson_get_str(twice));
    return abx_fail(err, ABX_ERR_USAGE, "parameter '%s' of %s has '%.80s' twice", name, row->method,
                    shown);
}

static int check_member(const abx_op_row *row, yyjson_val *key, yyjson_val *v, abx_error **err)
{
    const char *name = yyjson_get_str(key);
    const abx_op_field *field = find_param(row->id, name, yyjson_get_len(key));
    if (!field)
        return fail_unknown(row, name, err);
    if (yyjson_is_null(v))
        return 0;
    if (!has_type(field->type, v))
        return abx_fail(err, ABX_ERR_USAGE, "parameter '%s' of %s must be %s %s", name, row->method,
                        field->type == ABX_TYPE_INT || field->type == ABX_TYPE_ARGV ||
                                field->type == ABX_TYPE_OBJECT
                            ? "an"
                            : "a",
                        abx_type_name(field->type));
    if (check_size(row, name, v, err) < 0 || check_twice(row, name, v, err) < 0)
        return -1;
    if (field->type != ABX_TYPE_BYTES && abx_json_has_nul(v))
        return abx_fail(err, ABX_ERR_USAGE, "parameter '%s' of %s holds a NUL byte", name,
                        row->method);
    return 0;
}

static int check_cmd(const abx_op_row *row, yyjson_val *params, abx_error **err)
{
    yyjson_val *cmd = abx_json_get(params, "cmd");
    if (!cmd)
        return 0;
    bool shell = abx_json_bool(params, "shell", false);
    if (yyjson_is_str(cmd) && !shell) {
        abx_fail(err, ABX_ERR_USAGE, "parameter 'cmd' of %s is one string", row->method);
        return abx_hint(err, "give a list of arguments, or shell: true");
    }
    if (yyjson_is_arr(cmd) && shell)
        return abx_fail(err, ABX_ERR_USAGE, "with shell: true 'cmd' of %s is one string",
                        row->method);
    if (yyjson_is_arr(cmd) &&
        (yyjson_arr_size(cmd) == 0 || yyjson_get_len(yyjson_arr_get_first(cmd)) == 0))
        return abx_fail(err, ABX_ERR_USAGE, "the command of %s is empty", row->method);
    return 0;
}

/* An empty path means the user's home, which nobody wants to move or remove by leaving something out. */
static int check_paths(const abx_op_row *row, yyjson_val *params, abx_error **err)
{
    static const char *const names[] = {"path", "from", "to"};
    if (row->id != ABX_OP_FS_REMOVE && row->id != ABX_OP_FS_RENAME)
        return 0;
    for (size_t i = 0; i < ABX_COUNT(names); i++) {
        const char *path = abx_json_str(params, names[i], NULL);
        if (path && !path[0])
            return abx_fail(err, ABX_ERR_USAGE, "parameter '%s' of %s is empty", names[i],
                            row->method);
    }
    return 0;
}

/* Texts that are one of two words, and numbers that the kernel has 16 bits for. */
static int check_values(const abx_op_row *row, yyjson_val *params, abx_error **err)
{
    static const struct {
        abx_op_id op;
        const char *name, *one, *other;
    } words[] = {
        {ABX_OP_PROCESS_START, "stdin", "closed", "stream"},
        {ABX_OP_PROCESS_START, "onDisconnect", "kill", "detach"},
        {ABX_OP_PTY_OPEN, "onDisconnect", "kill", "detach"},
    };
    static const char *const sizes[] = {"cols", "rows"};
    for (size_t i = 0; i < ABX_COUNT(words); i++) {
        const char *text = abx_json_str(params, words[i].name, NULL);
        if (row->id == words[i].op && text && strcmp(text, words[i].one) != 0 &&
            strcmp(text, words[i].other) != 0)
            return abx_fail(err, ABX_ERR_USAGE, "parameter '%s' of %s must be %s or %s",
                            words[i].name, row->method, words[i].one, words[i].other);
    }
    for (size_t i = 0; i < ABX_COUNT(sizes); i++)
        if ((row->id == ABX_OP_PTY_OPEN || row->id == ABX_OP_PTY_RESIZE) &&
            abx_json_int(params, sizes[i], 0) > UINT16_MAX)
            return abx_fail(err, ABX_ERR_USAGE, "parameter '%s' of %s is more than %d", sizes[i],
                            row->method, UINT16_MAX);
    return 0;
}

static int check_params(const abx_op_row *row, yyjson_val *params, abx_error **err)
{
    if (!yyjson_is_obj(params))
        return abx_fail(err, ABX_ERR_USAGE, "the parameters of %s must be an object", row->method);
    size_t i, n;
    yyjson_val *key, *value, *twice = abx_json_twice(params);
    yyjson_obj_foreach(params, i, n, key, value)
    {
        if (check_member(row, key, value, err) < 0)
            return -1;
    }
    if (twice)
        return abx_fail(err, ABX_ERR_USAGE, "parameter '%s' of %s is there twice",
                        yyjson_get_str(twice), row->method);
    const abx_op_field *rows = abx_op_params(&n);
    for (i = 0; i < n; i++)
        if (rows[i].op == row->id && rows[i].required && !abx_json_get(params, rows[i].name))
            return abx_fail(err, ABX_ERR_USAGE, "%s needs the parameter '%s'", row->method,
                            rows[i].name);
    if (check_cmd(row, params, err) < 0 || check_values(row, params, err) < 0)
        return -1;
    return check_paths(row, params, err);
}

/* The hint is true whichever door the caller came in by: each has its own names for an operation, and the page has them all. */
int abx_op_check_params(const abx_op_row *row, yyjson_val *params, abx_error **err)
{
    abx_error *why = NULL;
    if (check_params(row, params, &why) == 0)
        return 0;
    if (!why->hint && row->route[0])
        (void)abx_hint(&why, "docs/operations.md lists the parameters of %s, %s %s", row->method,
                       row->http, row->route);
    else if (!why->hint)
        (void)abx_hint(&why, "docs/operations.md lists the parameters of %s", row->method);
    return abx_error_take(err, why);
}

int abx_op_check_results(const abx_op_row *row, yyjson_val *result, bool whole, abx_error **err)
{
    size_t n;
    const abx_op_field *rows = abx_op_results(&n);
    for (size_t i = 0; i < n; i++) {
        if (rows[i].op != row->id)
            continue;
        yyjson_val *value = abx_json_get(result, rows[i].name);
        if (value && !has_type(rows[i].type, value))
            return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL, "'%s' must be %s", rows[i].name,
                            abx_type_name(rows[i].type));
        if (!value && whole && strcmp(rows[i].name, "id") == 0)
            return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL, "'id' is missing");
    }
    return 0;
}
