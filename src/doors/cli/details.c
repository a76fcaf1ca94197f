#include "doors/cli/details.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

static void add_line(const char *name, size_t width, const char *value, abx_buf *out)
{
    ABX_AUTO_FREE char *safe = abx_printable(value);
    ABX_AUTO_FREE char *label = abx_printable(name);
    ABX_CHECK(abx_buf_addf(out, "%s:%*s%s\n", label,
                           (int)(width > strlen(label) ? width - strlen(label) : 0) + 1, "",
                           safe[0] ? safe : "-") == 0);
}

static char *value_text(yyjson_val *v)
{
    if (yyjson_is_str(v))
        return abx_strdup(yyjson_get_str(v));
    return abx_json_text(v);
}

/* A list of scalars in one line: "a, b". */
static char *list_text(yyjson_val *list)
{
    ABX_AUTO_BUF out = ABX_BUF(SIZE_MAX / 2);
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(list, i, n, item)
    {
        ABX_AUTO_FREE char *text = value_text(item);
        ABX_CHECK(abx_buf_addf(&out, "%s%s", i ? ", " : "", text) == 0);
    }
    return abx_buf_take(&out);
}

static size_t widest(yyjson_val *object, size_t head)
{
    size_t width = 0;
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(object, i, n, key, value)
    {
        size_t w = head + yyjson_get_len(key);
        if (yyjson_is_obj(value))
            w = widest(value, w + 1);
        width = w > width ? w : width;
    }
    return width;
}

static void add_members(yyjson_val *object, const char *prefix, size_t width, abx_buf *out)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(object, i, n, key, value)
    {
        ABX_AUTO_FREE char *name = abx_format("%s%s", prefix, yyjson_get_str(key));
        if (yyjson_is_obj(value) && yyjson_obj_size(value) > 0) {
            ABX_AUTO_FREE char *deeper = abx_format("%s.", name);
            add_members(value, deeper, width, out);
            continue;
        }
        ABX_AUTO_FREE char *text = yyjson_is_arr(value)   ? list_text(value)
                                   : yyjson_is_obj(value) ? abx_strdup("")
                                                          : value_text(value);
        add_line(name, width, text, out);
    }
}

void abx_details(yyjson_val *object, abx_buf *out)
{
    add_members(object, "", widest(object, 0), out);
}
