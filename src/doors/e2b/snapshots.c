/* Snapshots. The provider keeps their files under ids of its own; the names that E2B's callers give belong to the door, since there a
 * name may be given again and then means the newer one. HOME/e2b/snapshots.json: id → {name, sandboxID, provider}. */
#include "doors/e2b/snapshots.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/e2b/page.h"
#include "doors/e2b/templates.h"

#define FILE_MAX    ((size_t)16 * 1024 * 1024)
#define NAME_LENGTH 200
#define TAG         ":default"

/* --- names ----------------------------------------------------------------------------------------------------------- */
static char *path_of(const e2b_door *door)
{
    return abx_format("%s/e2b/snapshots.json", door->home);
}

void e2b_snapshots_load(e2b_door *door)
{
    ABX_AUTO_FREE char *path = path_of(door);
    ABX_AUTO_BUF text = ABX_BUF(FILE_MAX);
    ABX_AUTO_ERROR why = NULL;
    if (abx_read_file(path, FILE_MAX, &text, &why) == 0)
        door->snapshots = abx_json_parse(text.data, text.len, ABX_ERR_HOME, path, &why);
    if (door->snapshots && !yyjson_is_obj(yyjson_doc_get_root(door->snapshots))) {
        yyjson_doc_free(ABX_TAKE(door->snapshots));
        abx_fail(&why, ABX_ERR_HOME, "'%s' is no object", path);
    }
    if (why)
        abx_logf(door->log, ABX_LOG_WARN, "e2b: names of snapshots: %s", abx_error_text(why));
}

/* Put this in the place of what was noted. */
static void note(e2b_door *door, yyjson_mut_doc *d)
{
    ABX_AUTO_FREE char *path = path_of(door);
    ABX_AUTO_BUF text = ABX_BUF(FILE_MAX);
    ABX_AUTO_ERROR why = NULL;
    yyjson_doc_free(door->snapshots);
    door->snapshots = abx_json_freeze(d);
    if (abx_json_write(yyjson_doc_get_root(door->snapshots), &text) < 0)
        abx_fail(&why, ABX_ERR_TOO_LARGE, "they are too many");
    else
        (void)abx_write_atomic(path, text.data, text.len, 0600, false, &why);
    if (why)
        abx_logf(door->log, ABX_LOG_WARN, "e2b: names of snapshots: %s", abx_error_text(why));
}

static yyjson_mut_doc *copy_notes(const e2b_door *door, yyjson_mut_val **root)
{
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    yyjson_val *old = yyjson_doc_get_root(door->snapshots);
    *root = old ? yyjson_val_mut_copy(d, old) : yyjson_mut_obj(d);
    yyjson_mut_doc_set_root(d, *root);
    return d;
}

static void remember(e2b_door *door, const char *id, const char *name, const char *sandbox)
{
    yyjson_mut_val *root, *key, *value;
    size_t i, n;
    ABX_AUTO_MUT d = copy_notes(door, &root);
    yyjson_mut_obj_foreach(root, i, n, key, value)
    {
        if (name && yyjson_mut_equals_str(yyjson_mut_obj_get(value, "name"), name) &&
            yyjson_mut_equals_str(yyjson_mut_obj_get(value, "provider"), door->provider))
            yyjson_mut_obj_remove_key(value, "name"); /* it means the new one now */
    }
    yyjson_mut_obj_remove_key(root, id);
    yyjson_mut_val *o = abx_mut_obj(d, root, id);
    abx_mut_str(d, o, "name", name);
    abx_mut_str(d, o, "sandboxID", sandbox);
    abx_mut_str(d, o, "provider", door->provider);
    note(door, d);
}

static void forget(e2b_door *door, const char *id)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = copy_notes(door, &root);
    if (yyjson_mut_obj_remove_key(root, id))
        note(door, d);
}

const char *e2b_snapshot_named(const e2b_door *door, const char *name)
{
    yyjson_val *key, *value;
    size_t i, n;
    yyjson_obj_foreach(yyjson_doc_get_root(door->snapshots), i, n, key, value)
    {
        if (!abx_str_eq(abx_json_str(value, "provider", NULL), door->provider))
            continue;
        if (yyjson_equals_str(key, name) || abx_str_eq(abx_json_str(value, "name", NULL), name))
            return yyjson_get_str(key);
    }
    return NULL;
}

/* SnapshotInfo of a snapshot object of the provider's. */
static yyjson_mut_val *view(const e2b_door *door, yyjson_mut_doc *d, yyjson_val *snapshot)
{
    const char *id = abx_json_str(snapshot, "id", "");
    yyjson_val *own = abx_json_get(yyjson_doc_get_root(door->snapshots), id);
    const char *name = abx_json_str(own, "name", abx_json_str(snapshot, "name", NULL));
    ABX_AUTO_FREE char *tagged = abx_format("%s" TAG, id);
    yyjson_mut_val *o = yyjson_mut_obj(d);
    abx_mut_str(d, o, "snapshotID", tagged);
    yyjson_mut_val *names = abx_mut_arr(d, o, "names");
    if (name)
        yyjson_mut_arr_add_strcpy(d, names, name);
    return o;
}

/* --- create -------------------------------------------------------------------------------------------------------- */
static void on_created(void *data, yyjson_val *result, const abx_error *err)
{
    e2b_request *r = data;
    const char *id = abx_json_str(result, "id", NULL);
    if (err) {
        e2b_reply_error(r, err);
        return;
    }
    if (!id) {
        e2b_reply_refuse(r, 500, "the provider told no id");
        return;
    }
    remember(r->door, id, r->state, r->box->id);
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *o = view(r->door, d, result);
    yyjson_mut_doc_set_root(d, o);
    e2b_reply(r, 201, o);
}

/* [namespace/]alias[:tag] */
static bool is_reference(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n <= NAME_LENGTH &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_./:") == n && name[0] != ':' &&
           name[0] != '/';
}

static void create(e2b_request *r)
{
    yyjson_val *name = abx_json_get(r->body, "name");
    if (name && !yyjson_is_str(name)) {
        e2b_reply_refuse(r, 400, "validation error: 'name' is no string");
        return;
    }
    char *plain = name ? e2b_plain_name(yyjson_get_str(name)) : NULL;
    r->state = plain;
    r->free_state = free;
    if (plain && !is_reference(plain)) {
        e2b_reply_refuse(r, 400, "validation error: 'name' is no reference of a template");
        return;
    }
    yyjson_mut_val *root;
    e2b_request_ask(r, ABX_OP_SANDBOX_SNAPSHOT_CREATE, e2b_box_params(r->box, &root), on_created);
}

void e2b_do_snapshot_create(e2b_request *r)
{
    e2b_with_box(r, false, create);
}

/* --- list ------------------------------------------------------------------------------------------------------------ */
typedef struct listing {
    e2b_page page;
    char *sandbox, *name; /* or NULL */
} listing;

typedef struct item {
    yyjson_val *snapshot;
    e2b_cursor at;
} item;

static void free_listing(void *state)
{
    listing *l = state;
    free(l->sandbox);
    free(l->name);
    free(l);
}

static bool fits(const e2b_door *door, const listing *l, yyjson_val *snapshot)
{
    const char *id = abx_json_str(snapshot, "id", ""),
               *of = abx_json_str(snapshot, "sandbox", NULL);
    yyjson_val *own = abx_json_get(yyjson_doc_get_root(door->snapshots), id);
    ABX_AUTO_FREE char *source = of ? e2b_id_of(door, of) : NULL;
    if (l->sandbox && !abx_str_eq(abx_json_str(own, "sandboxID", source), l->sandbox))
        return false;
    return !l->name ||
           abx_str_eq(abx_json_str(own, "name", abx_json_str(snapshot, "name", NULL)), l->name);
}

static int newest_first(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->at.ms != y->at.ms)
        return x->at.ms > y->at.ms ? -1 : 1;
    return strcmp(x->at.id, y->at.id);
}

static size_t gather(e2b_request *r, yyjson_val *list, item *out)
{
    const listing *l = r->state;
    size_t i, n, count = 0;
    yyjson_val *snapshot;
    yyjson_arr_foreach(list, i, n, snapshot)
    {
        item one = {.snapshot = snapshot};
        const char *id = abx_json_str(snapshot, "id", NULL);
        if (!id || strlen(id) >= sizeof one.at.id || !fits(r->door, l, snapshot))
            continue;
        (void)abx_parse_rfc3339(abx_json_str(snapshot, "createdAt", ""), &one.at.ms);
        snprintf(one.at.id, sizeof one.at.id, "%s", id);
        if (!l->page.has_after || newest_first(&one, &(item){.at = l->page.after}) > 0)
            out[count++] = one;
    }
    qsort(out, count, sizeof *out, newest_first);
    return count;
}

static void on_list(void *data, yyjson_val *result, const abx_error *err)
{
    e2b_request *r = data;
    const listing *l = r->state;
    if (err) {
        e2b_reply_error(r, err);
        return;
    }
    yyjson_val *list = abx_json_get(result, "snapshots");
    ABX_AUTO_FREE item *items = abx_alloc_array(yyjson_arr_size(list) + 1, sizeof *items);
    size_t count = gather(r, list, items), n = 0;
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *out = yyjson_mut_arr(d);
    yyjson_mut_doc_set_root(d, out);
    for (; n < count && n < l->page.limit; n++)
        yyjson_mut_arr_append(out, view(r->door, d, items[n].snapshot));
    char next[E2B_TOKEN_LINE];
    const char *headers[1] = {next};
    if (n < count)
        e2b_page_next(&items[n - 1].at, NULL, next);
    e2b_reply_with(r, 200, out, headers, n < count);
}

void e2b_do_snapshot_list(e2b_request *r)
{
    listing *l = ABX_NEW(listing);
    r->state = l;
    r->free_state = free_listing;
    ABX_AUTO_FREE char *name = e2b_query(r, "name");
    l->sandbox = e2b_query(r, "sandboxID");
    l->name = name ? e2b_plain_name(name) : NULL;
    yyjson_mut_val *root;
    if (e2b_page_read(r, NULL, &l->page))
        e2b_request_ask(r, ABX_OP_SANDBOX_SNAPSHOT_LIST, abx_mut_new(&root), on_list);
}

/* --- DELETE /templates/{id}: of snapshots, and of templates ------------------------------------------------------------ */
static void no_template(e2b_request *r)
{
    ABX_AUTO_FREE char *shown = abx_printable(r->word);
    e2b_reply_refuse(r, 404, "template '%s' not found", shown);
}

static void on_template_removed(void *data, yyjson_val *result, const abx_error *err)
{
    (void)result;
    if (!err)
        e2b_reply(data, 204, NULL);
    else if (err->id == ABX_ERR_TEMPLATE_NOT_FOUND || err->id == ABX_ERR_FEATURE_MISSING)
        no_template(data);
    else
        e2b_reply_error(data, err);
}

static void on_removed(void *data, yyjson_val *result, const abx_error *err)
{
    e2b_request *r = data;
    (void)result;
    bool unknown =
        err && (err->id == ABX_ERR_SNAPSHOT_NOT_FOUND || err->id == ABX_ERR_FEATURE_MISSING ||
                err->id == ABX_ERR_TEMPLATE_NOT_FOUND);
    if (!err || unknown)
        forget(r->door, r->state);
    if (unknown) {
        yyjson_mut_val *root;
        yyjson_mut_doc *params = abx_mut_new(&root);
        abx_mut_str(params, root, "template", r->state);
        e2b_request_ask(r, ABX_OP_SANDBOX_TEMPLATE_REMOVE, params, on_template_removed);
    } else if (err) {
        e2b_reply_error(r, err);
    } else {
        e2b_reply(r, 204, NULL);
    }
}

void e2b_do_template_remove(e2b_request *r)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *params = abx_mut_new(&root);
    char *name = e2b_plain_name(r->word);
    const char *known = e2b_snapshot_named(r->door, name);
    if (known) {
        char *id = abx_strdup(known);
        free(name);
        name = id;
    }
    r->state = name;
    r->free_state = free;
    abx_mut_str(params, root, "snapshotId", name);
    e2b_request_ask(r, ABX_OP_SANDBOX_SNAPSHOT_REMOVE, params, on_removed);
}
