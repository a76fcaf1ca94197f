/* Stat, ListDir, MakeDir, Move, Remove. Words of failures are the provider's own, which over E2B's envd and over ours are
 * those that E2B's clients know. */
#include "doors/e2b/data_inner.h"

#include <stdlib.h>
#include <string.h>

/* The member of the request into the parameters. 0, or -1: the call was failed. */
static int put_path(abx_e2b_call *c, yyjson_val *q, const char *key, const char *param,
                    yyjson_mut_doc *d, yyjson_mut_val *root)
{
    yyjson_val *v = abx_json_get(q, key);
    const char *path = yyjson_get_str(v);
    if (abx_json_has_nul(v)) {
        abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL, "%s: invalid argument", key);
        return -1;
    }
    abx_mut_str(d, root, param, path && *path ? path : ".");
    return 0;
}

static void answer_file(void *arg, yyjson_val *file, const abx_error *err)
{
    e2b_task *t = arg;
    if (err) {
        e2b_task_fail(t, E2B_ABOUT_FILE, err);
        return;
    }
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    e2b_entry_put(d, abx_mut_obj(d, root, "entry"), file);
    e2b_task_answer(t, root);
}

/* Answer with what is at this path now. */
static void stat_path(e2b_task *t, const char *path)
{
    yyjson_mut_val *root = NULL;
    if (!t->call) {
        e2b_task_free(t);
        return;
    }
    yyjson_mut_doc *d = e2b_params(t->data, t->call, &root);
    abx_mut_str(d, root, "path", path);
    e2b_run(t->data, ABX_OP_FS_STAT, d, answer_file, t);
}

/* Start op with the path(s) of the request. */
static void begin(e2b_data *d, abx_e2b_call *c, yyjson_val *q, abx_op_id op, e2b_run_cb cb)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT params = e2b_params(d, c, &root);
    bool move = op == ABX_OP_FS_RENAME;
    if (put_path(c, q, move ? "source" : "path", move ? "from" : "path", params, root) < 0 ||
        (move && put_path(c, q, "destination", "to", params, root) < 0))
        return;
    if (op == ABX_OP_FS_LIST) {
        int64_t depth = abx_json_int(q, "depth", 0);
        abx_mut_int(params, root, "depth", depth > 0 ? depth : 1);
    }
    e2b_run(d, op, ABX_TAKE(params), cb, e2b_task_new(d, c, q));
}

void e2b_rpc_stat(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    begin(d, c, q, ABX_OP_FS_STAT, answer_file);
}

/* --- ListDir --------------------------------------------------------------------------------------------------- */
/* Depth first: a folder's own come right after it. */
static int by_depth(const void *a, const void *b)
{
    const char *x = abx_json_str(*(yyjson_val *const *)a, "path", "");
    const char *y = abx_json_str(*(yyjson_val *const *)b, "path", "");
    while (*x && *x == *y) {
        x++;
        y++;
    }
    int left = *x == '/' ? 1 : (unsigned char)*x, right = *y == '/' ? 1 : (unsigned char)*y;
    return left - right;
}

typedef struct listing {
    e2b_task *task;
    yyjson_doc *doc;
    yyjson_val **files;
    size_t count, next;
} listing;

static void listing_free(listing *l)
{
    e2b_task *t = l->task;
    yyjson_doc_free(l->doc);
    free(l->files);
    free(l);
    e2b_task_free(t);
}

static void listing_go_on(listing *l)
{
    while (l->next < l->count) {
        yyjson_mut_val *root = NULL;
        ABX_AUTO_MUT d = abx_mut_new(&root);
        yyjson_mut_val *list = abx_mut_arr(d, root, "entries");
        e2b_entry_put(d, yyjson_mut_arr_add_obj(d, list), l->files[l->next++]);
        if (!abx_e2b_part(l->task->call, root))
            return;
    }
    abx_e2b_parts_end(ABX_TAKE(l->task->call));
    listing_free(l);
}

static void listing_writable(abx_e2b_call *c, void *data)
{
    (void)c;
    listing_go_on(data);
}

static void listing_gone(abx_e2b_call *c, bool expired, void *data)
{
    (void)c;
    (void)expired;
    listing *l = data;
    l->task->call = NULL;
    listing_free(l);
}

static void on_list(void *arg, yyjson_val *result, const abx_error *err)
{
    static const abx_e2b_call_handlers on = {.on_writable = listing_writable,
                                             .on_close = listing_gone};
    e2b_task *t = arg;
    if (err || !t->call) {
        if (err)
            e2b_task_fail(t, E2B_ABOUT_FILE, err);
        else
            e2b_task_free(t);
        return;
    }
    listing *l = ABX_NEW(listing);
    l->task = t;
    l->doc = abx_json_copy(abx_json_get(result, "files"));
    yyjson_val *files = yyjson_doc_get_root(l->doc), *file = NULL;
    l->files = abx_alloc_array(yyjson_arr_size(files) + 1, sizeof(yyjson_val *));
    size_t i = 0, n = 0;
    yyjson_arr_foreach(files, i, n, file)
    {
        l->files[l->count++] = file;
    }
    qsort(l->files, l->count, sizeof(yyjson_val *), by_depth);
    abx_e2b_call_handle(t->call, &on, l);
    listing_go_on(l);
}

void e2b_rpc_list_dir(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    begin(d, c, q, ABX_OP_FS_LIST, on_list);
}

/* --- MakeDir --------------------------------------------------------------------------------------------------------- */
static void on_there(void *arg, yyjson_val *file, const abx_error *err)
{
    e2b_task *t = arg;
    const char *asked = t->request ? abx_json_str(t->request, "path", "") : "";
    const char *path = abx_json_str(file, "path", asked);
    (void)err;
    e2b_task_say(t, ABX_E2B_CODE_ALREADY_EXISTS, "directory already exists: %s", path);
}

static void on_made(void *arg, yyjson_val *result, const abx_error *err)
{
    e2b_task *t = arg;
    if (err) {
        e2b_task_fail(t, E2B_ABOUT_FILE, err);
        return;
    }
    const char *path = t->request ? abx_json_str(t->request, "path", "") : "";
    if (!*path)
        path = ".";
    if (abx_json_bool(result, "created", true)) {
        stat_path(t, path);
        return;
    }
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = e2b_params(t->data, t->call, &root);
    abx_mut_str(d, root, "path", path);
    e2b_run(t->data, ABX_OP_FS_STAT, d, on_there, t);
}

void e2b_rpc_make_dir(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    begin(d, c, q, ABX_OP_FS_MAKE_DIR, on_made);
}

/* --- Move, Remove ------------------------------------------------------------------------------------------------------ */
static void on_moved(void *arg, yyjson_val *result, const abx_error *err)
{
    (void)result;
    e2b_task *t = arg;
    if (err)
        e2b_task_fail(t, E2B_ABOUT_FILE, err);
    else
        stat_path(t, t->request ? abx_json_str(t->request, "destination", ".") : ".");
}

void e2b_rpc_move(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    begin(d, c, q, ABX_OP_FS_RENAME, on_moved);
}

static void on_removed(void *arg, yyjson_val *result, const abx_error *err)
{
    (void)result;
    if (err &&
        err->id != ABX_ERR_FILE_NOT_FOUND) /* who removes what is not there has what he wants */
        e2b_task_fail(arg, E2B_ABOUT_FILE, err);
    else
        e2b_task_answer(arg, NULL);
}

/* Without a path it were the whole home: asked for by nobody. */
void e2b_rpc_remove(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    if (!*abx_json_str(q, "path", "")) {
        abx_e2b_fail(c, ABX_E2B_CODE_INVALID_ARGUMENT, "a path is needed");
        return;
    }
    begin(d, c, q, ABX_OP_FS_REMOVE, on_removed);
}
