/* sandbox.create on `local`. */
#include <string.h>

#include "adapters/builtin/local.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"

typedef struct creation {
    local_wait wait; /* first */
    local_provider *p;
    abx_local_spec spec;
    char id[ABX_ID_LEN + 1];
    yyjson_doc *params; /* own copy: spec borrows from it */
    const char **weaker;
    abx_local_job *job;       /* what the sandbox is made from is made first; or NULL */
    char *template_id;        /* of an image that was given by its path */
    local_snapshot *snapshot; /* fork: of the sandbox whose files it gets */
    char *snapshot_id;        /* … when it is there; it goes when the new sandbox is made */
    bool made;                /* the new sandbox lives */
    abx_error *why;           /* why it failed */
    yyjson_doc *info;         /* … or what is told of it */
} creation;

static void free_creation(local_wait *w)
{
    creation *k = (creation *)w;
    yyjson_doc_free(k->params);
    free(k->weaker);
    free(k->template_id);
    free(k->snapshot_id);
    abx_error_free(k->why);
    yyjson_doc_free(k->info);
    free(k);
}

static void on_unwanted_killed(void *data, const abx_error *err)
{
    creation *k = data;
    if (err)
        abx_logf(k->p->log, ABX_LOG_WARN, "sandbox '%s': %s", k->id, err->message);
    if (!k->why)
        k->why = abx_error_new(ABX_ERR_CANCELLED, "cancelled");
    local_wait_end(&k->wait, NULL, k->why);
}

static void drop_box(creation *k)
{
    local_box *box = local_box_find(k->p, k->id);
    if (box)
        local_box_close(box, NULL, NULL);
}

/* The caller went away while the sandbox was made, or it cannot be talked to. */
static void undo(creation *k)
{
    drop_box(k);
    abx_error *why = NULL;
    if (abx_local_kill(k->p->local, k->id, on_unwanted_killed, k, NULL, &why) == 0)
        return;
    on_unwanted_killed(k, why);
    abx_error_free(why);
}

/* The end of the whole, as on_created found it. */
static void tell_end(creation *k)
{
    if (k->made && (!k->info || !k->wait.call || abx_call_is_cancelled(k->wait.call))) {
        undo(k);
        return;
    }
    if (k->wait.call && k->info)
        local_end(k->wait.call, ABX_TAKE(k->info));
    else if (k->wait.call)
        abx_call_fail(k->wait.call, ABX_TAKE(k->why));
    local_wait_finish(&k->wait);
}

static void on_snapshot_dropped(void *data, yyjson_val *result, const abx_error *err)
{
    creation *k = data;
    (void)result;
    k->job = NULL;
    if (err)
        abx_logf(k->p->log, ABX_LOG_WARN, "snapshot '%s': %s", k->snapshot_id, err->message);
    tell_end(k);
}

/* What was kept for a fork alone. The new sandbox keeps its layers. */
static int drop_snapshot(creation *k)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "snapshotId", k->snapshot_id);
    ABX_AUTO_JSON params = abx_json_freeze(d);
    abx_local_job_options options = {.job = "snapshot_remove",
                                     .params = yyjson_doc_get_root(params),
                                     .on_done = on_snapshot_dropped,
                                     .data = k};
    return abx_local_job_start(k->p->local, &options, &k->job, NULL);
}

static void on_created(void *data, yyjson_val *info, int first_fd, const abx_error *err)
{
    creation *k = data;
    k->made = !err;
    k->why = abx_error_copy(err);
    if (err)
        drop_box(k);
    else if (local_box_adopt(k->p, k->id, first_fd, k->spec.tied, &k->why) == 0)
        k->info = abx_json_copy(info);
    if (!k->snapshot_id || drop_snapshot(k) < 0)
        tell_end(k);
}

/* The set-up is short and undoes itself: its end is waited for. What comes before it may take long. */
static void on_cancel(local_wait *w)
{
    creation *k = (creation *)w;
    if (k->job && !k->snapshot_id)
        abx_local_job_cancel(k->job);
    if (k->snapshot)
        local_snapshot_cancel(k->snapshot);
}

static int read_on_timeout(yyjson_val *params, abx_local_spec *spec, abx_error **err)
{
    const char *what = abx_json_str(params, "onTimeout", "kill");
    spec->pause_on_limit = strcmp(what, "pause") == 0;
    if (spec->pause_on_limit || strcmp(what, "kill") == 0)
        return 0;
    return abx_fail(err, ABX_ERR_USAGE, "'onTimeout' is kill or pause, not '%s'", what);
}

static int read_weaker(creation *k, yyjson_val *params, abx_error **err)
{
    yyjson_val *list = abx_json_get(params, "allowWeaker"), *item;
    size_t i, n;
    if (!list)
        return 0;
    k->weaker = abx_alloc_array(yyjson_arr_size(list) + 1, sizeof(char *));
    yyjson_arr_foreach(list, i, n, item)
    {
        if (!yyjson_is_str(item))
            return abx_fail(err, ABX_ERR_USAGE, "'allowWeaker' must hold names of layers");
        k->weaker[k->spec.weaker_count++] = yyjson_get_str(item);
    }
    k->spec.weaker = k->weaker;
    return 0;
}

/* Sizes that are too large to be meant are refused with those that are too small: limits_plan.c. */
static uint32_t read_count(yyjson_val *params, const char *name)
{
    int64_t n = abx_json_int(params, name, 0);
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static void read_sizes(const local_provider *p, yyjson_val *params, abx_local_sizes *out)
{
    yyjson_val *cpus = abx_json_get(params, "cpus");
    double millis = yyjson_get_num(cpus) * 1000.0 + 0.5;
    out->memory_bytes = (uint64_t)abx_json_int(params, "memoryBytes", 0);
    out->disk_bytes = (uint64_t)abx_json_int(params, "diskBytes", 0);
    out->cpu_millis = millis < 4e9 ? (uint32_t)millis : UINT32_MAX;
    out->processes = read_count(params, "processes");
    out->open_files = read_count(params, "openFiles");
    out->disk_in_memory = p->disk_in_memory;
}

static int read_spec(creation *k, yyjson_val *params, abx_error **err)
{
    abx_local_spec *spec = &k->spec;
    const char *id = abx_json_str(params, "id", NULL);
    if (id && strlen(id) == ABX_ID_LEN)
        memcpy(k->id, id, ABX_ID_LEN + 1);
    else
        abx_random_id(k->id, ABX_ID_LEN);
    spec->id = k->id;
    spec->name = abx_json_str(params, "name", NULL);
    spec->idempotency_key = abx_json_str(params, "idempotencyKey", NULL);
    spec->metadata = abx_json_get(params, "metadata");
    spec->env = abx_json_get(params, "env");
    int64_t timeout = abx_json_int(params, "timeoutMs", (int64_t)ABX_LOCAL_TIMEOUT_MS);
    spec->timeout_ms = timeout == 0 ? ABX_FOREVER : (uint64_t)timeout;
    spec->idle_ms = (uint64_t)abx_json_int(params, "idleMs", 0);
    if (read_on_timeout(params, spec, err) < 0)
        return -1;
    spec->with_root = k->p->id_range;
    spec->tied = abx_json_bool(params, "tied", false);
    read_sizes(k->p, params, &spec->sizes);
    spec->network = abx_json_str(params, "network", NULL);
    return read_weaker(k, params, err);
}

/* --- what it is made from ------------------------------------------------------------------------------- */

static void end_early(creation *k, abx_error *why)
{
    if (k->wait.call)
        abx_call_fail(k->wait.call, why);
    else
        abx_error_free(why);
    local_wait_finish(&k->wait);
}

static void on_source_ready(void *data, yyjson_val *result, const abx_error *err)
{
    creation *k = data;
    abx_error *why = abx_error_copy(err);
    k->job = NULL;
    if (!why && (!k->wait.call || abx_call_is_cancelled(k->wait.call)))
        why = abx_error_new(ABX_ERR_CANCELLED, "cancelled");
    if (!why && !k->spec.template_name) {
        k->template_id = abx_strdup(abx_json_str(result, "id", NULL));
        k->spec.template_name = k->template_id;
    }
    if (!why && abx_local_create(k->p->local, &k->spec, on_created, k, &why) == 0)
        local_box_prepare(k->p, k->id);
    else
        end_early(k, why);
}

/* A fork's files are there. */
static void on_forked(void *data, yyjson_val *result, const abx_error *err)
{
    creation *k = data;
    k->snapshot = NULL;
    if (err) {
        end_early(k, abx_error_copy(err));
        return;
    }
    k->snapshot_id = abx_strdup(abx_json_str(result, "id", NULL));
    k->spec.snapshot = k->snapshot_id;
    if (!k->wait.call || abx_call_is_cancelled(k->wait.call))
        k->why = abx_error_new(ABX_ERR_CANCELLED, "cancelled");
    else if (abx_local_create(k->p->local, &k->spec, on_created, k, &k->why) == 0)
        return;
    if (drop_snapshot(k) < 0)
        tell_end(k);
}

static int begin_fork(creation *k, abx_error **err)
{
    const char *source = abx_json_str(yyjson_doc_get_root(k->params), "sandboxId", "");
    ABX_AUTO_JSON info = abx_local_info(k->p->local, source, err);
    if (!info)
        return -1;
    yyjson_val *isolation = abx_json_get(yyjson_doc_get_root(info), "isolation");
    k->spec.with_root = strcmp(abx_json_str(isolation, "ids", ""), "range") == 0;
    /* it is as its source in what it may reach, too */
    if (!k->spec.network &&
        strcmp(abx_json_str(yyjson_doc_get_root(info), "network", ""), "internet") == 0)
        k->spec.network = "internet";
    local_snapshot_options o = {.sandbox = source, .on_done = on_forked, .data = k};
    return local_snapshot_start(k->p, &o, &k->snapshot, err) < 0 ? -1 : 1;
}

/* The job that must be done before: adding the image, or making its layers usable with these ids. 1: started, 0: none, -1. */
static int prepare_source(creation *k, abx_error **err)
{
    yyjson_val *params = yyjson_doc_get_root(k->params);
    const char *image = abx_json_str(params, "image", NULL);
    abx_local_job_options options = {.job = image ? "template_add" : "template_prepare",
                                     .with_root = k->p->id_range,
                                     .on_done = on_source_ready,
                                     .data = k};
    int missing = image != NULL;
    if (!image && k->spec.template_name)
        missing =
            abx_local_template_missing(k->p->local, k->spec.template_name, k->p->id_range, err);
    if (missing <= 0)
        return missing;
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, image ? "source" : "template", image ? image : k->spec.template_name);
    ABX_AUTO_JSON job_params = abx_json_freeze(d);
    options.params = yyjson_doc_get_root(job_params);
    return abx_local_job_start(k->p->local, &options, &k->job, err) < 0 ? -1 : 1;
}

static int read_source(yyjson_val *params, abx_local_spec *spec, abx_error **err)
{
    static const char *const keys[] = {"template", "image", "snapshot"};
    size_t n = 0;
    for (size_t i = 0; i < ABX_COUNT(keys); i++)
        n += abx_json_get(params, keys[i]) != NULL;
    if (n > 1)
        return abx_fail(err, ABX_ERR_USAGE,
                        "only one of 'template', 'image' and 'snapshot' can be given");
    spec->template_name = abx_json_str(params, "template", NULL);
    spec->snapshot = abx_json_str(params, "snapshot", NULL);
    return 0;
}

int local_create(local_provider *p, abx_call *call, abx_error **err)
{
    creation *k = ABX_NEW(creation);
    k->wait.cancel = on_cancel;
    k->wait.free = free_creation;
    k->p = p;
    k->params = abx_json_copy(abx_call_params(call));
    yyjson_val *params = yyjson_doc_get_root(k->params);
    int rc = read_spec(k, params, err) < 0 || read_source(params, &k->spec, err) < 0 ? -1
             : abx_call_op(call)->id == ABX_OP_SANDBOX_FORK ? begin_fork(k, err)
                                                            : prepare_source(k, err);
    bool is_prepared = rc == 0;
    if (is_prepared)
        rc = abx_local_create(p->local, &k->spec, on_created, k, err);
    if (rc < 0) {
        free_creation(&k->wait);
        return -1;
    }
    local_wait_accept(&k->wait, call);
    if (is_prepared)
        local_box_prepare(p, k->id);
    return 0;
}
