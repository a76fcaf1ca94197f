/* Sandboxes that the door does not know yet: made by the command line, by another door, before its files were lost. */
#include <string.h>

#include "base/id.h"
#include "base/mem.h"
#include "doors/e2b/control.h"

#define MADE_LENGTH 25 /* of an id that e2b_id_of made */

typedef struct search {
    e2b_door *door;
    char *id;
    e2b_find_cb cb;
    void *data;
} search;

static void finish(search *s, const abx_error *err)
{
    s->cb(s->data, e2b_door_box(s->door, s->id), err);
    free(s->id);
    free(s);
}

static void on_listed(void *data, const abx_error *err)
{
    finish(data, err && err->id != ABX_ERR_FEATURE_MISSING ? err : NULL);
}

static void on_info(void *data, yyjson_val *result, const abx_error *err)
{
    search *s = data;
    if (result && strcmp(abx_json_str(result, "id", s->id), s->id) != 0) {
        finish(s, NULL); /* the provider takes it for another one: its id is not this */
    } else if (result) {
        e2b_box *box = e2b_door_box(s->door, s->id);
        e2b_box_see(box ? box : e2b_box_add(s->door, s->id, NULL), result);
        finish(s, NULL);
    } else if (err->id == ABX_ERR_SANDBOX_NOT_FOUND && s->id[0] == 'x' &&
               strlen(s->id) == MADE_LENGTH) {
        e2b_list_all(s->door, on_listed, s);
    } else {
        finish(s, err->id == ABX_ERR_SANDBOX_NOT_FOUND ? NULL : err);
    }
}

void e2b_find(e2b_door *door, const char *id, e2b_find_cb cb, void *data)
{
    e2b_box *box = e2b_door_box(door, id);
    if (box || !abx_is_id(id)) {
        cb(data, box, NULL);
        return;
    }
    search *s = ABX_NEW(search);
    *s = (search){door, abx_strdup(id), cb, data};
    yyjson_mut_val *root;
    yyjson_mut_doc *params = abx_mut_new(&root);
    abx_mut_str(params, root, "sandboxId", id);
    e2b_ask(door, ABX_OP_SANDBOX_INFO, params, on_info, s);
}

/* --- the list ------------------------------------------------------------------------------------------------ */
typedef struct listing {
    e2b_door *door;
    e2b_listed_cb cb;
    void *data;
    e2b_box **known; /* that were in the table when the list was asked for; referenced */
    size_t count;
    size_t waiting; /* for a look at some of them, and for the list */
    abx_error *err;
} listing;

static bool is_in(yyjson_val *list, const char *host_id)
{
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(list, i, n, item)
    {
        const char *id = abx_json_str(item, "id", NULL);
        if (id && strcmp(id, host_id) == 0)
            return true;
    }
    return false;
}

static void see_all(e2b_door *door, yyjson_val *list)
{
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(list, i, n, item)
    {
        const char *id = abx_json_str(item, "id", NULL);
        if (!id)
            continue;
        e2b_box *box = e2b_door_box_of(door, id);
        e2b_box_see(box ? box : e2b_box_add(door, id, NULL), item);
    }
}

static void step(listing *l)
{
    if (--l->waiting > 0)
        return;
    l->cb(l->data, l->err);
    for (size_t i = 0; i < l->count; i++)
        e2b_box_unref(l->known[i]);
    abx_error_free(l->err);
    free(l->known);
    free(l);
}

static void on_looked(void *data, e2b_box *box, const abx_error *err)
{
    (void)box;
    (void)err;
    step(data);
}

/* What is missing in the list is looked at: a list may be late, or leave paused ones out. So is everything where a provider cannot
 * list. */
static void on_list(void *data, yyjson_val *result, const abx_error *err)
{
    listing *l = data;
    yyjson_val *list = abx_json_get(result, "sandboxes");
    bool whole = result || err->id == ABX_ERR_FEATURE_MISSING;
    if (result)
        see_all(l->door, list);
    if (!whole)
        l->err = abx_error_copy(err);
    for (size_t i = 0; whole && i < l->count; i++)
        if (l->known[i]->state != E2B_GONE && !is_in(list, l->known[i]->host_id)) {
            l->waiting++;
            e2b_box_look(l->known[i], on_looked, l);
        }
    step(l);
}

void e2b_list_all(e2b_door *door, e2b_listed_cb cb, void *data)
{
    listing *l = ABX_NEW(listing);
    *l = (listing){.door = door, .cb = cb, .data = data, .waiting = 1};
    l->known = abx_alloc_array(door->box_count + 1, sizeof(e2b_box *));
    for (size_t i = 0; i < E2B_BUCKETS; i++)
        for (e2b_box *box = door->boxes[i]; box; box = box->next) {
            e2b_box_ref(box);
            l->known[l->count++] = box;
        }
    yyjson_mut_val *root;
    e2b_ask(door, ABX_OP_SANDBOX_LIST, abx_mut_new(&root), on_list, l);
}
