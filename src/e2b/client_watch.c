/* fs.watch: a stream of changes; where a server has no such stream, or what stands before it keeps the first message back,
 * a watcher that is asked again and again. */
#include "e2b/client_inner.h"

#include <string.h>

#include "base/mem.h"

#define FIRST_MS 10000 /* a stream whose start does not come by then is kept back on the way */
#define ASK_MS   500

typedef struct watch {
    bool started, cancelled;
    char *id;     /* of the watcher */
    bool waiting; /* the caller takes no more now */
} watch;

/* --- changes ------------------------------------------------------------------------------------------------- */
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

/* 1: go on, 0: hold; -1 and *err. */
static int tell(abx__envd_job *job, yyjson_val *change, abx_error **err)
{
    yyjson_val *name = yyjson_obj_get(change, "name");
    const char *kind = kind_of(abx_json_str(change, "type", ""));
    if (!abx__envd_is_inside(name))
        return abx_fail(err, ABX_ERR_BACKEND_ANSWER, "a change has an unfit name");
    if (!kind)
        return 1;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "kind", kind);
    abx_mut_str(d, root, "name", yyjson_get_str(name));
    yyjson_val *entry = abx_json_get(change, "entry");
    yyjson_mut_val *file = entry ? abx__envd_file(job->client, d, entry, false, err) : NULL;
    if (entry && !file) {
        yyjson_mut_doc_free(d);
        return -1;
    }
    if (file)
        abx_mut_put(d, root, "file", file);
    return abx_call_event(job->call, "change", d);
}

static void tell_start(abx__envd_job *job)
{
    watch *w = job->state;
    if (!w->started)
        (void)abx_call_event(job->call, "started", NULL);
    w->started = true;
}

static int put_request(abx__envd_job *job, yyjson_mut_doc *d, yyjson_mut_val *root, abx_error **err)
{
    yyjson_val *params = abx_call_params(job->call);
    const char *path = abx__envd_text(params, "path");
    bool recursive = abx_json_bool(params, "recursive", false);
    if (!path)
        return abx_fail(err, ABX_ERR_USAGE, "'path' cannot be a path");
    if (recursive && abx__envd_need(job->client, ABX__ENVD_V(0, 1, 4),
                                    "watching the folders below another", err) < 0)
        return -1;
    bool entries = abx_json_bool(params, "entries", false);
    if (entries &&
        abx__envd_need(job->client, ABX__ENVD_V(0, 6, 3), "telling what a change left", err) < 0)
        return -1;
    abx_mut_str(d, root, "path", path);
    if (recursive)
        abx_mut_bool(d, root, "recursive", true);
    if (entries)
        abx_mut_bool(d, root, "includeEntry", true);
    return 0;
}

/* --- by asking ----------------------------------------------------------------------------------------------- */
static void ask(abx__envd_job *job);

/* The watcher goes with the call; the server must not keep it. */
static void on_removed(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    abx_error_free(err);
    abx__envd_job_stop(job);
}

static void remove_watcher(abx__envd_job *job)
{
    static const abx__envd_unary unary = {
        .path = "/filesystem.Filesystem/RemoveWatcher",
        .request = ABX_E2B_REMOVE_WATCHER_REQUEST,
        .answer = ABX_E2B_REMOVE_WATCHER_RESPONSE,
        .kind = ABX__ENVD_FILE,
        .timeout_ms = ABX__ENVD_LINGER_MS,
    };
    watch *w = job->state;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "watcherId", w->id);
    abx__envd_job_after(job, 0, NULL);
    if (abx__envd_unary_start(job, &unary, d, on_removed, NULL) < 0)
        abx__envd_job_stop(job);
}

static void on_events(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    watch *w = job->state;
    size_t i = 0, n = 0;
    yyjson_val *change = NULL;
    if (w->cancelled) {
        abx_error_free(err);
        remove_watcher(job);
        return;
    }
    yyjson_arr_foreach(yyjson_obj_get(answer, "events"), i, n, change)
    {
        int rc = err ? 1 : tell(job, change, &err);
        w->waiting = w->waiting || rc == 0;
    }
    if (err)
        abx__envd_job_fail(job, err);
    else if (!w->waiting)
        abx__envd_job_after(job, ASK_MS, ask);
}

static void ask(abx__envd_job *job)
{
    static const abx__envd_unary unary = {
        .path = "/filesystem.Filesystem/GetWatcherEvents",
        .request = ABX_E2B_GET_WATCHER_EVENTS_REQUEST,
        .answer = ABX_E2B_GET_WATCHER_EVENTS_RESPONSE,
        .kind = ABX__ENVD_FILE,
        .timeout_ms = ABX__ENVD_UNARY_MS,
        .max_body = ABX__ENVD_MAX_LIST,
    };
    watch *w = job->state;
    abx_error *err = NULL;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "watcherId", w->id);
    if (abx__envd_unary_start(job, &unary, d, on_events, &err) < 0)
        abx__envd_job_fail(job, err);
}

static void on_created(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    watch *w = job->state;
    const char *id = abx__envd_text(answer, "watcherId");
    if (!err && (!id || !*id))
        err = abx__envd_bad_answer(job->client, "the watcher has no id");
    if (err) {
        abx__envd_job_fail(job, err);
        return;
    }
    w->id = abx_strdup(id);
    if (w->cancelled) {
        remove_watcher(job);
        return;
    }
    tell_start(job);
    ask(job);
}

static int create_watcher(abx__envd_job *job, abx_error **err)
{
    static const abx__envd_unary unary = {
        .path = "/filesystem.Filesystem/CreateWatcher",
        .request = ABX_E2B_CREATE_WATCHER_REQUEST,
        .answer = ABX_E2B_CREATE_WATCHER_RESPONSE,
        .kind = ABX__ENVD_FILE,
        .has_user = true,
        .timeout_ms = ABX__ENVD_UNARY_MS,
    };
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (put_request(job, d, root, err) < 0)
        return -1;
    return abx__envd_unary_start(job, &unary, ABX_TAKE(d), on_created, err);
}

/* --- by a stream --------------------------------------------------------------------------------------------- */
static int on_message(abx__envd_job *job, yyjson_val *message, abx_error **err)
{
    watch *w = job->state;
    yyjson_val *change = yyjson_obj_get(message, "filesystem");
    if (yyjson_obj_get(message, "start"))
        tell_start(job);
    if (!change)
        return abx__envd_stream_idle(job, err); /* also keepalives, and events of a later version */
    if (!w->started)
        return abx_fail(err, ABX_ERR_BACKEND_ANSWER, "a change came before the start");
    int rc = tell(job, change, err);
    if (rc == 0 && job->main)
        abx_http_pause(job->main->transfer);
    return rc < 0 ? -1 : 0;
}

static void on_end(abx__envd_job *job, abx_error *err, const char *code)
{
    watch *w = job->state;
    bool other = err && !w->started && !w->cancelled && !job->client->abx &&
                 (err->id == ABX_ERR_FEATURE_MISSING || err->id == ABX_ERR_TIMEOUT);
    if (other) {
        job->client->poll_watch = true;
        abx_error_free(ABX_TAKE(err));
        if (create_watcher(job, &err) == 0)
            return;
    }
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
        .first_ms = FIRST_MS,
    };
    if (job->client->poll_watch)
        return create_watcher(job, err);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (put_request(job, d, root, err) < 0)
        return -1;
    if (job->client->abx)
        abx_mut_bool(d, root, "abx", true);
    return abx__envd_stream_start(job, &spec, ABX_TAKE(d), 0, err);
}

/* --- the call ------------------------------------------------------------------------------------------------ */
static void watch_cancel(abx__envd_job *job)
{
    watch *w = job->state;
    w->cancelled = true;
    if (job->unary_done)
        return; /* the answer that is under way comes first */
    if (w->id)
        remove_watcher(job);
    else
        abx__envd_job_stop(job);
}

static void watch_resume(abx__envd_job *job)
{
    watch *w = job->state;
    if (job->main && !job->unary_done)
        abx__envd_stream_resume(job);
    else if (w->waiting && !w->cancelled)
        abx__envd_job_after(job, 0, ask);
    w->waiting = false;
}

static void watch_clear(abx__envd_job *job)
{
    watch *w = job->state;
    free(w->id);
}

const abx__envd_op abx__envd_fs_watch = {.state_size = sizeof(watch),
                                         .start = watch_start,
                                         .cancel = watch_cancel,
                                         .resume = watch_resume,
                                         .clear = watch_clear};
