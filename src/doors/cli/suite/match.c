#include "doors/cli/suite/match.h"

#include <stdarg.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#define SHOWN 200 /* bytes of a value that a report shows */

static bool fits(yyjson_val *want, yyjson_val *have, const char *path, char **why);

static char *shown(yyjson_val *v)
{
    if (!v)
        return abx_strdup("nothing");
    char *text = abx_json_text(v);
    size_t n = strlen(text);
    if (n > SHOWN) {
        n = abx_utf8_whole(text, SHOWN);
        memcpy(text + n, "...", 4);
    }
    return text;
}

/* Says what was wanted at path; answers false. */
static bool misfit(char **why, const char *path, yyjson_val *have, const char *fmt, ...)
    ABX_PRINTF(4, 5);
static bool misfit(char **why, const char *path, yyjson_val *have, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    ABX_AUTO_FREE char *wanted = abx_vformat(fmt, ap);
    va_end(ap);
    ABX_AUTO_FREE char *got = shown(have);
    free(*why);
    *why = abx_format("%s: wanted %s, got %s", path, wanted, got);
    return false;
}

static const char *type_of(yyjson_val *v)
{
    if (yyjson_is_int(v))
        return "integer";
    if (yyjson_is_num(v))
        return "number";
    if (yyjson_is_str(v))
        return "string";
    if (yyjson_is_bool(v))
        return "boolean";
    if (yyjson_is_arr(v))
        return "array";
    if (yyjson_is_obj(v))
        return "object";
    return yyjson_is_null(v) ? "null" : "absent";
}

/* --- members that begin with '$' ------------------------------------------------------------------------ */

static bool text_fits(const char *rule, yyjson_val *arg, yyjson_val *have, const char *path,
                      char **why)
{
    const char *text = yyjson_get_str(have), *part = yyjson_get_str(arg);
    bool ok = text && part;
    if (ok && strcmp(rule, "$prefix") == 0)
        ok = abx_has_prefix(text, part);
    else if (ok && strcmp(rule, "$suffix") == 0)
        ok = abx_has_suffix(text, part);
    else if (ok)
        ok = strstr(text, part) != NULL;
    return ok || misfit(why, path, have, "text with %s '%s'", rule + 1, part ? part : "?");
}

static bool is_one_of(yyjson_val *wants, yyjson_val *have, const char *path)
{
    size_t i, n;
    yyjson_val *want;
    yyjson_arr_foreach(wants, i, n, want)
    {
        ABX_AUTO_FREE char *not_this = NULL;
        if (fits(want, have, path, &not_this))
            return true;
    }
    return false;
}

/* Each of `wants` is (has) or is not (lacks) fitted by an element of the array. */
static bool elements_fit(bool has, yyjson_val *wants, yyjson_val *have, const char *path,
                         char **why)
{
    size_t i, n, k, m;
    yyjson_val *want, *item;
    if (!yyjson_is_arr(have))
        return misfit(why, path, have, "an array");
    yyjson_arr_foreach(wants, i, n, want)
    {
        bool found = false;
        yyjson_arr_foreach(have, k, m, item)
        {
            ABX_AUTO_FREE char *not_this = NULL;
            found = found || fits(want, item, path, &not_this);
        }
        if (found != has) {
            ABX_AUTO_FREE char *text = shown(want);
            return misfit(why, path, have, "%s element like %s", has ? "an" : "no", text);
        }
    }
    return true;
}

static bool time_fits(yyjson_val *range, yyjson_val *have, const char *path, char **why)
{
    int64_t at = 0;
    const char *text = yyjson_get_str(have);
    if (!text || abx_parse_rfc3339(text, &at) < 0)
        return misfit(why, path, have, "a time");
    int64_t from_now = at - abx_now_wall_ms();
    int64_t least = yyjson_get_sint(yyjson_arr_get(range, 0));
    int64_t most = yyjson_get_sint(yyjson_arr_get(range, 1));
    if (from_now >= least && from_now <= most)
        return true;
    return misfit(why, path, have, "a time %lld to %lld ms from now", (long long)least,
                  (long long)most);
}

static bool number_fits(const char *rule, yyjson_val *arg, yyjson_val *have, const char *path,
                        char **why)
{
    bool least = strcmp(rule, "$min") == 0;
    double limit = yyjson_get_num(arg), number = yyjson_get_num(have);
    if (yyjson_is_num(have) && (least ? number >= limit : number <= limit))
        return true;
    return misfit(why, path, have, "a number of %s %g", least ? "at least" : "at most", limit);
}

static bool length_fits(yyjson_val *arg, yyjson_val *have, const char *path, char **why)
{
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    ABX_AUTO_JSON count = yyjson_mut_val_imut_copy(yyjson_mut_uint(d, yyjson_get_len(have)), NULL);
    ABX_AUTO_FREE char *inner = NULL;
    if (yyjson_is_str(have) || yyjson_is_ctn(have))
        if (fits(arg, yyjson_doc_get_root(count), path, &inner))
            return true;
    ABX_AUTO_FREE char *text = shown(arg);
    return misfit(why, path, have, "a length of %s", text);
}

static bool rule_fits(const char *rule, yyjson_val *arg, yyjson_val *have, const char *path,
                      char **why)
{
    if (strcmp(rule, "$absent") == 0)
        return (have == NULL) == yyjson_get_bool(arg) ||
               misfit(why, path, have, yyjson_get_bool(arg) ? "nothing" : "something");
    if (strcmp(rule, "$type") == 0) {
        const char *type = yyjson_get_str(arg);
        bool is =
            abx_str_eq(type, type_of(have)) || (abx_str_eq(type, "number") && yyjson_is_num(have));
        return is || misfit(why, path, have, "a value of type %s", type ? type : "?");
    }
    if (strcmp(rule, "$oneOf") == 0) {
        ABX_AUTO_FREE char *text = shown(arg);
        return is_one_of(arg, have, path) || misfit(why, path, have, "one of %s", text);
    }
    if (strcmp(rule, "$not") == 0) {
        ABX_AUTO_FREE char *not_this = NULL;
        ABX_AUTO_FREE char *text = shown(arg);
        return !fits(arg, have, path, &not_this) || misfit(why, path, have, "not %s", text);
    }
    if (strcmp(rule, "$has") == 0 || strcmp(rule, "$lacks") == 0)
        return elements_fit(strcmp(rule, "$has") == 0, arg, have, path, why);
    if (strcmp(rule, "$min") == 0 || strcmp(rule, "$max") == 0)
        return number_fits(rule, arg, have, path, why);
    if (strcmp(rule, "$length") == 0)
        return length_fits(arg, have, path, why);
    if (strcmp(rule, "$fromNowMs") == 0)
        return time_fits(arg, have, path, why);
    return text_fits(rule, arg, have, path, why);
}

/* --- values ------------------------------------------------------------------------------------------------ */

static bool object_fits(yyjson_val *want, yyjson_val *have, const char *path, char **why)
{
    size_t i, n;
    yyjson_val *key, *value;
    bool plain = yyjson_obj_size(want) == 0;
    yyjson_obj_foreach(want, i, n, key, value)
    {
        const char *name = yyjson_get_str(key);
        if (name[0] == '$') {
            if (!rule_fits(name, value, have, path, why))
                return false;
            continue;
        }
        ABX_AUTO_FREE char *below = abx_format("%s.%s", path, name);
        if (!yyjson_is_obj(have))
            return misfit(why, path, have, "an object");
        if (!fits(value, yyjson_obj_get(have, name), below, why))
            return false;
    }
    return !plain || yyjson_is_obj(have) || misfit(why, path, have, "an object");
}

static bool array_fits(yyjson_val *want, yyjson_val *have, const char *path, char **why)
{
    size_t i, n;
    yyjson_val *item;
    if (!yyjson_is_arr(have))
        return misfit(why, path, have, "an array");
    if (yyjson_arr_size(want) != yyjson_arr_size(have))
        return misfit(why, path, have, "%zu elements", yyjson_arr_size(want));
    yyjson_arr_foreach(want, i, n, item)
    {
        ABX_AUTO_FREE char *below = abx_format("%s.%zu", path, i);
        if (!fits(item, yyjson_arr_get(have, i), below, why))
            return false;
    }
    return true;
}

static bool fits(yyjson_val *want, yyjson_val *have, const char *path, char **why)
{
    if (yyjson_is_obj(want))
        return object_fits(want, have, path, why);
    if (yyjson_is_arr(want))
        return array_fits(want, have, path, why);
    bool equal;
    if (yyjson_is_num(want) && yyjson_is_num(have))
        equal = yyjson_get_num(want) == yyjson_get_num(have);
    else
        equal = have && yyjson_equals(want, have);
    ABX_AUTO_FREE char *text = equal ? NULL : shown(want);
    return equal || misfit(why, path, have, "%s", text);
}

bool abx_suite_fits(yyjson_val *want, yyjson_val *have, const char *path, char **why)
{
    return fits(want, have, path, why);
}

yyjson_val *abx_suite_at(yyjson_val *root, const char *path)
{
    while (root && *path) {
        size_t n = strcspn(path, ".");
        if (yyjson_is_arr(root)) {
            ABX_AUTO_FREE char *word = abx_strndup(path, n);
            uint64_t index;
            if (abx_parse_uint(word, 1000000, &index) < 0)
                return NULL;
            root = yyjson_arr_get(root, index);
        } else {
            root = yyjson_obj_getn(root, path, n);
        }
        path += n + (path[n] == '.');
    }
    return root;
}
