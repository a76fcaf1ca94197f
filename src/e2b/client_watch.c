/* fs.watch */
#include "e2b/client_inner.h"

#include <string.h>

#include "base/mem.h"

typedef struct watch {
    bool started;
} watch;

static const char *kind_of(const char *type)
{
    static const char *const rows[][2] = {{"EVENT_TYPE_CREATE", "create"},
                                          {"EVENT_TYPE_WRITE", "write"},
                                          {"EVENT_TYPE_REMOVE", "remove"},
                                          {"EVENT_TYPE_RENAME", "rename"},
                                          {"EVENT_TYPE_CHMOD", "chmod"}};
    for (size_t i = 0; i < ABX_COUNT(rows); i++)
        if (strcmp(rows[i][0], type) == 0)
            return rows[i][1];
    return NULL;
}

static int on_message(abx__envd_job *job, yyjson_val *message, abx_error **err)
{
    watch *w = job->state;
    yyjson_val *change = yyjson_obj_get(message, "filesystem");
    if (yyjson_obj_get(message, "start") && !w->started) {
        w->started = true;
        (void)abx_call_event(job->call, "started", NULL);
    }
    if (!change)
        return abx__envd_stream_idle(job, err); /* also keepalives, and events of a later version */
    yyjson_val *name = yyjson_obj_get(change, "name");
    const char *kind = kind_of(abx_json_str(change, "type", ""));
    if (!w->started || !abx__envd_is_inside(name))
        return abx_fail(err, ABX_ERR_BACKEND_ANSWER, "a change has an unfit name");
    if (!kind)
        return 0;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "kind", kind);
    abx_mut_str(d, root, "name", yyjson_get_str(name));
    if (!abx_call_event(job->call, "change", d) && job->main)
        abx_http_pause(job->main->transfer);
    return 0;
}

static void on_end(abx__envd_job *job, abx_error *err, const char *code)
{
    if (err)
        abx__envd_job_fail(job, err);
    else
        abx__envd_job_end(job, NULL);
}

static int watch_start(abx__envd_job *job, abx_error **err)
{
    static const abx__envd_stream_spec spec = {
        .path = "/filesystem.Filesystem/WatchDir",
        .request = ABX_E2B_WATCH_DIR_REQUEST,
        .answer = ABX_E2B_WATCH_DIR_RESPONSE,
        .has_user = true,
        .message = on_message,
        .end = on_end,
        .kind = ABX__ENVD_FILE,
    };
    const char *path = abx__envd_text(abx_call_params(job->call), "path");
    if (!path)
        return abx_fail(err, ABX_ERR_USAGE, "'path' cannot be a path");
    bool recursive = abx_json_bool(abx_call_params(job->call), "recursive", false);
    if (recursive && abx__envd_need(job->client, ABX__ENVD_V(0, 1, 4),
                                    "watching the folders below another", err) < 0)
        return -1;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "path", path);
    if (recursive)
        abx_mut_bool(d, root, "recursive", true);
    if (job->client->abx)
        abx_mut_bool(d, root, "abx", true);
    return abx__envd_stream_start(job, &spec, d, 0, err);
}

const abx__envd_op abx__envd_fs_watch = {.state_size = sizeof(watch), .start = watch_start};
