/* The form of the cases: which members each part may have. What a value means is seen when the case runs. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/suite/suite.h"

#define STEP_NEST 8

static const struct {
    const char *name; /* the member that makes a step one of this kind */
    const char *members;
} kinds[ABX_STEP_COUNT] = {
    [ABX_STEP_CALL] = {"call", "params input deadlineMs expect save eventually"},
    [ABX_STEP_START] = {"start", "as params input paused deadlineMs"},
    [ABX_STEP_AWAIT] = {"await", "event stdout stderr pty body save"},
    [ABX_STEP_END] = {"end", "expect save"},
    [ABX_STEP_FEED] = {"feed", "input close"},
    [ABX_STEP_CANCEL] = {"cancel", ""},
    [ABX_STEP_PAUSE] = {"pause", ""},
    [ABX_STEP_RESUME] = {"resume", ""},
    [ABX_STEP_SLEEP] = {"sleepMs", ""},
    [ABX_STEP_CHECK] = {"check", "is"},
    [ABX_STEP_REPEAT] = {"repeat", "steps"},
    [ABX_STEP_PARALLEL] = {"parallel", "steps"},
};

const char *abx_step_kind_name(abx_step_kind kind)
{
    return kinds[kind].name;
}

abx_step_kind abx_step_kind_of(yyjson_val *step)
{
    int kind = 0;
    while (kind < ABX_STEP_COUNT && !yyjson_obj_get(step, kinds[kind].name))
        kind++;
    return (abx_step_kind)kind;
}

static bool is_word_of(const char *words, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += len)
        if ((at == words || at[-1] == ' ') && (at[len] == ' ' || at[len] == 0) && len > 0)
            return true;
    return false;
}

/* Every member of obj is `own` or one of `words`. */
static int check_members(yyjson_val *obj, const char *own, const char *words, const char *what,
                         abx_error **err)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (!yyjson_is_obj(obj))
        return abx_fail(err, ABX_ERR_USAGE, "%s is no object", what);
    yyjson_obj_foreach(obj, i, n, key, value)
    {
        const char *name = yyjson_get_str(key);
        if (!abx_str_eq(own, name) && strcmp(name, "note") != 0 && !is_word_of(words, name))
            return abx_fail(err, ABX_ERR_USAGE, "%s has an unknown member '%s'", what, name);
    }
    return 0;
}

static int check_bytes(yyjson_val *v, const char *what, abx_error **err)
{
    if (!v || yyjson_is_str(v))
        return 0;
    if (check_members(v, NULL,
                      "text base64 hex repeat times pattern seed join length contains startsWith "
                      "endsWith lacks sha256 oneOf",
                      what, err) < 0)
        return -1;
    static const char *const inner[] = {"repeat", "contains", "startsWith", "endsWith", "lacks"};
    for (size_t k = 0; k < ABX_COUNT(inner); k++)
        if (check_bytes(yyjson_obj_get(v, inner[k]), what, err) < 0)
            return -1;
    static const char *const lists[] = {"join", "oneOf"};
    for (size_t k = 0; k < ABX_COUNT(lists); k++) {
        size_t i, n;
        yyjson_val *item;
        yyjson_arr_foreach(yyjson_obj_get(v, lists[k]), i, n, item)
        {
            if (check_bytes(item, what, err) < 0)
                return -1;
        }
    }
    return 0;
}

/* The members of a value that begin with '$'. */
static int check_value(yyjson_val *v, const char *what, abx_error **err)
{
    static const char rules[] =
        "$absent $type $oneOf $not $has $lacks $min $max $length $fromNowMs "
        "$prefix $suffix $contains";
    size_t i, n;
    yyjson_val *key, *item;
    if (yyjson_is_arr(v)) {
        yyjson_arr_foreach(v, i, n, item)
        {
            if (check_value(item, what, err) < 0)
                return -1;
        }
    }
    if (!yyjson_is_obj(v))
        return 0;
    yyjson_obj_foreach(v, i, n, key, item)
    {
        const char *name = yyjson_get_str(key);
        if (name[0] == '$' && !is_word_of(rules, name))
            return abx_fail(err, ABX_ERR_USAGE, "%s: there is no rule '%s'", what, name);
        if (check_value(item, what, err) < 0)
            return -1;
    }
    return 0;
}

static int check_expect(yyjson_val *expect, const char *what, abx_error **err)
{
    static const char *const channels[] = {"stdout", "stderr", "pty", "body"};
    static const char *const values[] = {"result", "error", "events", "eventsHave", "event"};
    if (!expect)
        return 0;
    for (size_t i = 0; i < ABX_COUNT(channels); i++)
        if (check_bytes(yyjson_obj_get(expect, channels[i]), what, err) < 0)
            return -1;
    for (size_t i = 0; i < ABX_COUNT(values); i++)
        if (check_value(yyjson_obj_get(expect, values[i]), what, err) < 0)
            return -1;
    return 0;
}

static int check_steps(yyjson_val *steps, const char *what, int nest, abx_error **err);

static int check_step(yyjson_val *step, const char *what, int nest, abx_error **err)
{
    abx_step_kind kind = abx_step_kind_of(step);
    if (kind == ABX_STEP_COUNT)
        return abx_fail(err, ABX_ERR_USAGE, "%s does nothing that is known", what);
    if (check_members(step, kinds[kind].name, kinds[kind].members, what, err) < 0 ||
        check_bytes(yyjson_obj_get(step, "input"), what, err) < 0)
        return -1;
    yyjson_val *expect = yyjson_obj_get(step, "expect");
    static const char expected[] = "result error stdout stderr pty body events eventsHave order";
    if (expect && check_members(expect, NULL, expected, what, err) < 0)
        return -1;
    if (check_expect(expect, what, err) < 0 ||
        (kind == ABX_STEP_AWAIT && check_expect(step, what, err) < 0) ||
        check_value(yyjson_obj_get(step, "is"), what, err) < 0)
        return -1;
    yyjson_val *steps = yyjson_obj_get(step, "steps"), *branches = yyjson_obj_get(step, "parallel");
    if (steps && check_steps(steps, what, nest + 1, err) < 0)
        return -1;
    size_t i, n;
    yyjson_val *branch;
    yyjson_arr_foreach(branches, i, n, branch)
    {
        if (check_steps(branch, what, nest + 1, err) < 0)
            return -1;
    }
    return 0;
}

static int check_steps(yyjson_val *steps, const char *what, int nest, abx_error **err)
{
    size_t i, n;
    yyjson_val *step;
    if (!yyjson_is_arr(steps) || nest > STEP_NEST)
        return abx_fail(err, ABX_ERR_USAGE, "%s: steps must be a list, not nested deeply", what);
    yyjson_arr_foreach(steps, i, n, step)
    {
        ABX_AUTO_FREE char *where = abx_format("%s, step %zu", what, i + 1);
        if (check_step(step, where, nest, err) < 0)
            return -1;
    }
    return 0;
}

static int check_case(yyjson_val *item, const char *group, abx_error **err)
{
    const char *name = abx_json_str(item, "name", "");
    ABX_AUTO_FREE char *what = abx_format("case '%s'", name);
    size_t n = strlen(group);
    if (strncmp(name, group, n) != 0 || name[n] != '.' || !abx_json_str(item, "title", NULL))
        return abx_fail(err, ABX_ERR_USAGE, "%s needs a title and a name '%s.WORD'", what, group);
    if (check_members(item, NULL, "name title needs programs sandbox steps cleanup notOver limitMs",
                      what, err) < 0)
        return -1;
    yyjson_val *cleanup = yyjson_obj_get(item, "cleanup");
    if (cleanup && check_steps(cleanup, what, 0, err) < 0)
        return -1;
    return check_steps(yyjson_obj_get(item, "steps"), what, 0, err);
}

int abx_suite_check_file(yyjson_val *file, abx_error **err)
{
    const char *group = abx_json_str(file, "group", "");
    ABX_AUTO_FREE char *what = abx_format("the file of group '%s'", group);
    if (check_members(file, NULL, "group cases", what, err) < 0)
        return -1;
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(yyjson_obj_get(file, "cases"), i, n, item)
    {
        if (check_case(item, group, err) < 0)
            return -1;
    }
    return 0;
}
