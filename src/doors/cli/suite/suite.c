#include "doors/cli/suite/suite.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "conformance.h"

void abx_suite_clear(abx_suite *s)
{
    free(s->cases);
    yyjson_doc_free(s->doc);
    memset(s, 0, sizeof *s);
}

static size_t count_cases(yyjson_val *files)
{
    size_t count = 0, i, n;
    yyjson_val *file;
    yyjson_arr_foreach(files, i, n, file)
    {
        count += yyjson_arr_size(yyjson_obj_get(file, "cases"));
    }
    return count;
}

static int add_case(abx_suite *s, const char *group, yyjson_val *data, abx_error **err)
{
    abx_suite_case *c = &s->cases[s->count];
    *c = (abx_suite_case){group, abx_json_str(data, "name", ""), abx_json_str(data, "title", ""),
                          data};
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->cases[i].name, c->name) == 0)
            return abx_fail(err, ABX_ERR_USAGE, "two cases have the name '%s'", c->name);
    s->count++;
    return 0;
}

/* The cases of one group. */
static int add_group(abx_suite *s, const char *group, yyjson_val *files, abx_error **err)
{
    size_t i, n, k, m;
    yyjson_val *file, *item;
    yyjson_arr_foreach(files, i, n, file)
    {
        if (!abx_str_eq(abx_json_str(file, "group", NULL), group))
            continue;
        if (abx_suite_check_file(file, err) < 0)
            return -1;
        yyjson_arr_foreach(yyjson_obj_get(file, "cases"), k, m, item)
        {
            if (add_case(s, group, item, err) < 0)
                return -1;
        }
    }
    return 0;
}

static int fill(abx_suite *s, abx_error **err)
{
    yyjson_val *root = yyjson_doc_get_root(s->doc), *suite = yyjson_obj_get(root, "suite");
    yyjson_val *files = yyjson_obj_get(root, "files");
    s->groups = yyjson_obj_get(suite, "groups");
    s->without = yyjson_obj_get(suite, "withoutSandbox");
    s->optional = yyjson_obj_get(suite, "optional");
    size_t total = count_cases(files), i, n;
    s->cases = abx_alloc_array(total + 1, sizeof *s->cases);
    yyjson_val *group;
    yyjson_arr_foreach(s->groups, i, n, group)
    {
        if (add_group(s, abx_json_str(group, "name", ""), files, err) < 0)
            return -1;
    }
    if (s->count < total)
        return abx_fail(err, ABX_ERR_USAGE, "the suite does not name the group of each file");
    return 0;
}

int abx_suite_read(const char *text, size_t n, abx_suite *out, abx_error **err)
{
    memset(out, 0, sizeof *out);
    out->doc = abx_json_parse(text, n, ABX_ERR_USAGE, "the conformance suite", err);
    if (!out->doc || fill(out, err) < 0) {
        abx_suite_clear(out);
        return -1;
    }
    return 0;
}

int abx_suite_open(abx_suite *out, abx_error **err)
{
    size_t n = 0;
    ABX_AUTO_FREE char *text = abx_conformance_text(&n);
    if (!text)
        return abx_fail(err, ABX_ERR_INTERNAL, "no conformance cases were built in");
    return abx_suite_read(text, n, out, err);
}
