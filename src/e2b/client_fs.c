/* fs.stat, fs.list, fs.make_dir, fs.rename, fs.remove */
#include "e2b/client_inner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* A request with one or two paths, and an optional depth. */
static int send_paths(abx__envd_job *job, const abx__envd_unary *unary, const char *const fields[2],
                      const char *const params[2],
                      void (*done)(abx__envd_job *, yyjson_val *, abx_error *), abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    for (int i = 0; i < 2 && fields[i]; i++) {
        const char *path = abx__envd_text(abx_call_params(job->call), params[i]);
        if (!path)
            return abx_fail(err, ABX_ERR_USAGE, "'%s' cannot be a path", params[i]);
        abx_mut_str(d, root, fields[i], path);
    }
    if (unary->request == ABX_E2B_LIST_DIR_REQUEST) {
        int64_t depth = abx__envd_param_int(job, "depth", 1);
        if (depth < 1 || depth > UINT32_MAX)
            return abx_fail(err, ABX_ERR_USAGE, "'depth' begins at 1");
        abx_mut_int(d, root, "depth", depth);
    }
    if (job->client->abx)
        abx_mut_bool(d, root, "abx", true);
    return abx__envd_unary_start(job, unary, ABX_TAKE(d), done, err);
}

#define UNARY(name, ID, bytes, repeat)                                                             \
    {                                                                                              \
        .path = "/filesystem.Filesystem/" name, .request = ABX_E2B_##ID##_REQUEST,                 \
        .answer = ABX_E2B_##ID##_RESPONSE, .kind = ABX__ENVD_FILE, .has_user = true,               \
        .timeout_ms = ABX__ENVD_UNARY_MS, .max_body = (bytes), .safe = (repeat)                    \
    }

static const char *const path_field[2] = {"path", NULL};

/* --- stat -------------------------------------------------------------------------------------------------- */
static void on_stat(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    ABX_AUTO_MUT d = abx_mut_new(NULL);
    yyjson_mut_val *file =
        err ? NULL : abx__envd_file(job->client, d, yyjson_obj_get(answer, "entry"), false, &err);
    if (!file) {
        abx__envd_job_fail(job, err);
        return;
    }
    yyjson_mut_doc_set_root(d, file);
    abx__envd_job_end(job, ABX_TAKE(d));
}

static int stat_start(abx__envd_job *job, abx_error **err)
{
    static const abx__envd_unary unary = UNARY("Stat", STAT, 0, true);
    return send_paths(job, &unary, path_field, path_field, on_stat, err);
}

/* --- list ---------------------------------------------------------------------------------------------------- */
typedef struct listed {
    const char *path;
    yyjson_mut_val *file;
} listed;

static int by_path(const void *a, const void *b)
{
    return strcmp(((const listed *)a)->path, ((const listed *)b)->path);
}

static int put_files(abx__envd_job *job, yyjson_mut_doc *d, yyjson_mut_val *root,
                     yyjson_val *entries, abx_error **err)
{
    size_t count = yyjson_arr_size(entries), i = 0, n = 0;
    ABX_AUTO_FREE listed *files = abx_alloc_array(count + 1, sizeof(listed));
    yyjson_val *entry = NULL;
    yyjson_arr_foreach(entries, i, n, entry)
    {
        files[i].file = abx__envd_file(job->client, d, entry, true, err);
        if (!files[i].file)
            return -1;
        files[i].path = yyjson_mut_get_str(yyjson_mut_obj_get(files[i].file, "path"));
    }
    qsort(files, count, sizeof(listed), by_path);
    yyjson_mut_val *list = abx_mut_arr(d, root, "files");
    for (i = 0; i < count; i++)
        yyjson_mut_arr_append(list, files[i].file);
    return 0;
}

static void on_list(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (!err)
        (void)put_files(job, d, root, yyjson_obj_get(answer, "entries"), &err);
    if (err)
        abx__envd_job_fail(job, err);
    else
        abx__envd_job_end(job, ABX_TAKE(d));
}

static int list_start(abx__envd_job *job, abx_error **err)
{
    static const abx__envd_unary unary = UNARY("ListDir", LIST_DIR, ABX__ENVD_MAX_LIST, true);
    return send_paths(job, &unary, path_field, path_field, on_list, err);
}

/* --- make_dir, rename, remove -------------------------------------------------------------------------------------- */
static void on_made(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    bool there = err && err->sys_errno == EEXIST;
    if (err && !there) {
        abx__envd_job_fail(job, err);
        return;
    }
    abx_error_free(err);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_bool(d, root, "created", !there);
    abx__envd_job_end(job, d);
}

static int make_dir_start(abx__envd_job *job, abx_error **err)
{
    static const abx__envd_unary unary = UNARY("MakeDir", MAKE_DIR, 0, false);
    return send_paths(job, &unary, path_field, path_field, on_made, err);
}

static void on_done(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    if (err)
        abx__envd_job_fail(job, err);
    else
        abx__envd_job_end(job, NULL);
}

static int rename_start(abx__envd_job *job, abx_error **err)
{
    static const abx__envd_unary unary = UNARY("Move", MOVE, 0, false);
    static const char *const fields[2] = {"source", "destination"}, *const params[2] = {"from",
                                                                                        "to"};
    return send_paths(job, &unary, fields, params, on_done, err);
}

static int remove_start(abx__envd_job *job, abx_error **err)
{
    static const abx__envd_unary unary = UNARY("Remove", REMOVE, 0, true);
    return send_paths(job, &unary, path_field, path_field, on_done, err);
}

const abx__envd_op abx__envd_fs_stat = {.start = stat_start};
const abx__envd_op abx__envd_fs_list = {.start = list_start};
const abx__envd_op abx__envd_fs_make_dir = {.start = make_dir_start};
const abx__envd_op abx__envd_fs_rename = {.start = rename_start};
const abx__envd_op abx__envd_fs_remove = {.start = remove_start};
