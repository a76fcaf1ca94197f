#include "base/json_names.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

#define FEW 8 /* up to so many members every pair is compared */

typedef struct name {
    const char *text;
    size_t n;
    size_t place; /* in the object */
    yyjson_val *key;
} name;

static int by_text(const void *a, const void *b)
{
    const name *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);

    return order ? order : (x->n > y->n) - (x->n < y->n);
}

static int by_text_and_place(const void *a, const void *b)
{
    const name *x = a, *y = b;
    int order = by_text(a, b);

    return order ? order : (x->place > y->place) - (x->place < y->place);
}

static yyjson_val *twice_of_few(yyjson_val *obj)
{
    yyjson_val *seen[FEW];
    size_t count = 0;
    yyjson_obj_iter it = yyjson_obj_iter_with(obj);
    for (yyjson_val *key; (key = yyjson_obj_iter_next(&it)); seen[count++] = key)
        for (size_t i = 0; i < count; i++)
            if (yyjson_get_len(seen[i]) == yyjson_get_len(key) &&
                memcmp(yyjson_get_str(seen[i]), yyjson_get_str(key), yyjson_get_len(key)) == 0)
                return key;
    return NULL;
}

yyjson_val *abx_json_twice(yyjson_val *obj)
{
    size_t size = yyjson_obj_size(obj), count = 0;
    if (size < 2)
        return NULL;
    if (size <= FEW)
        return twice_of_few(obj);
    ABX_AUTO_FREE name *names = abx_alloc_array(size, sizeof *names);
    yyjson_obj_iter it = yyjson_obj_iter_with(obj);
    for (yyjson_val *key; (key = yyjson_obj_iter_next(&it)); count++)
        names[count] = (name){yyjson_get_str(key), yyjson_get_len(key), count, key};
    qsort(names, count, sizeof *names, by_text);
    for (size_t i = 1; i < count; i++)
        if (by_text(&names[i - 1], &names[i]) == 0)
            return names[i].key;
    return NULL;
}

yyjson_val *abx_json_twice_within(yyjson_val *v)
{
    yyjson_val *found = abx_json_twice(v);
    yyjson_arr_iter items = yyjson_arr_iter_with(v);
    for (yyjson_val *item; !found && (item = yyjson_arr_iter_next(&items));)
        found = yyjson_is_ctn(item) ? abx_json_twice_within(item) : NULL;
    yyjson_obj_iter members = yyjson_obj_iter_with(v);
    for (yyjson_val *key; !found && (key = yyjson_obj_iter_next(&members));)
        if (yyjson_is_ctn(yyjson_obj_iter_get_val(key)))
            found = abx_json_twice_within(yyjson_obj_iter_get_val(key));
    return found;
}

void abx_mut_keep_last(yyjson_mut_val *obj)
{
    size_t size = yyjson_mut_obj_size(obj), count = 0, dropped = 0;
    if (size < 2)
        return;
    ABX_AUTO_FREE name *names = abx_alloc_array(size, sizeof *names);
    ABX_AUTO_FREE bool *stale = abx_alloc_array(size, sizeof *stale);
    yyjson_mut_obj_iter it = yyjson_mut_obj_iter_with(obj);
    for (yyjson_mut_val *key; (key = yyjson_mut_obj_iter_next(&it)); count++)
        names[count] = (name){yyjson_mut_get_str(key), yyjson_mut_get_len(key), count, NULL};
    qsort(names, count, sizeof *names, by_text_and_place);
    for (size_t i = 1; i < count; i++)
        if (by_text(&names[i - 1], &names[i]) == 0) {
            stale[names[i - 1].place] = true;
            dropped++;
        }
    it = yyjson_mut_obj_iter_with(obj);
    for (size_t i = 0; dropped && yyjson_mut_obj_iter_next(&it); i++)
        if (stale[i])
            (void)yyjson_mut_obj_iter_remove(&it);
}
