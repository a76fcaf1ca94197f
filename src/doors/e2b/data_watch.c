/* A folder that is watched, and WatchDir. */
#include "doors/e2b/data_inner.h"

#include <string.h>

struct e2b_watch {
    e2b_data *data;
    int refs;
    abx_call *call; /* NULL: over */
    bool with_entry, closed;
    bool asked; /* the provider tells what is there */
    bool started, recursive;
    bool held; /* the one who listens takes no more now */
    char *path, *user;
    yyjson_mut_doc *waiting; /* an event whose entry is being looked at */
    const e2b_watch_handlers *on;
    void *arg;
};

static void watch_unref(e2b_watch *w)
{
    if (--w->refs > 0)
        return;
    e2b_data *d = w->data;
    yyjson_mut_doc_free(w->waiting);
    free(w->path);
    free(w->user);
    free(w);
    e2b_plane_release(d);
}

static const char *type_of(const char *kind)
{
    static const char *const rows[][2] = {{"create", "EVENT_TYPE_CREATE"},
                                          {"write", "EVENT_TYPE_WRITE"},
                                          {"remove", "EVENT_TYPE_REMOVE"},
                                          {"rename", "EVENT_TYPE_RENAME"},
                                          {"chmod", "EVENT_TYPE_CHMOD"}};
    for (size_t i = 0; i < ABX_COUNT(rows); i++)
        if (strcmp(rows[i][0], kind) == 0)
            return rows[i][1];
    return NULL;
}

/* The parameters of a look at what an event is about; NULL: there is nothing to look at. */
static yyjson_mut_doc *look_at(const e2b_watch *w, yyjson_mut_val *event)
{
    const char *type = yyjson_mut_get_str(yyjson_mut_obj_get(event, "type"));
    const char *name = yyjson_mut_get_str(yyjson_mut_obj_get(event, "name"));
    if (!type || !name || strcmp(type, "EVENT_TYPE_REMOVE") == 0 ||
        strcmp(type, "EVENT_TYPE_RENAME") == 0)
        return NULL;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = e2b_params(w->data, NULL, &root);
    ABX_AUTO_FREE char *path =
        strcmp(name, ".") == 0 ? abx_strdup(w->path) : abx_format("%s/%s", w->path, name);
    abx_mut_str(d, root, "path", path);
    abx_mut_str(d, root, "user", w->user);
    return d;
}

static void deliver(e2b_watch *w, yyjson_mut_doc *event)
{
    if (!w->on->event(w->arg, event) && !w->closed)
        w->held = true;
}

static void on_entry(void *arg, yyjson_val *file, const abx_error *err)
{
    e2b_watch *w = arg;
    yyjson_mut_doc *event = ABX_TAKE(w->waiting);
    if (event && !w->closed) {
        if (!err)
            e2b_entry_put(event, abx_mut_obj(event, yyjson_mut_doc_get_root(event), "entry"), file);
        deliver(w, event);
        if (!w->held && w->call)
            abx_call_resume(w->call);
    } else {
        yyjson_mut_doc_free(event);
    }
    watch_unref(w);
}

static void on_change(e2b_watch *w, yyjson_val *change)
{
    const char *type = type_of(abx_json_str(change, "kind", ""));
    yyjson_mut_val *root = NULL;
    if (!type)
        return;
    yyjson_mut_doc *event = abx_mut_new(&root);
    abx_mut_str(event, root, "name", abx_json_str(change, "name", "."));
    abx_mut_str(event, root, "type", type);
    yyjson_val *file = abx_json_get(change, "file");
    if (w->with_entry && file)
        e2b_entry_put(event, abx_mut_obj(event, root, "entry"), file);
    yyjson_mut_doc *look = w->with_entry && !w->asked ? look_at(w, root) : NULL;
    if (look) {
        w->waiting = event;
        w->refs++;
        abx_call_pause(w->call);
        e2b_run(w->data, ABX_OP_FS_STAT, look, on_entry, w);
        return;
    }
    deliver(w, event);
    if (w->held && w->call)
        abx_call_pause(w->call);
}

static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    (void)c;
    e2b_watch *w = data;
    if (w->closed)
        return;
    if (strcmp(type, "started") == 0) {
        w->started = true;
        w->on->started(w->arg);
    } else if (strcmp(type, "change") == 0) {
        on_change(w, event);
    }
}

static int launch(e2b_watch *w, abx_error **err);

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    e2b_watch *w = data;
    w->call = NULL;
    ABX_AUTO_ERROR again = NULL;
    if (err && err->id == ABX_ERR_FEATURE_MISSING && w->asked && !w->started && !w->closed) {
        w->asked = false; /* it cannot: we look ourselves */
        if (launch(w, &again) == 0)
            return;
        err = again;
    }
    if (!w->closed) {
        w->closed = true;
        w->on->end(w->arg, err);
    }
    watch_unref(w);
}

static int launch(e2b_watch *w, abx_error **err)
{
    static const abx_call_handlers follow = {.on_event = on_event, .on_end = on_end};
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = e2b_params(w->data, NULL, &root);
    abx_mut_str(params, root, "user", w->user);
    abx_mut_str(params, root, "path", w->path);
    if (w->recursive)
        abx_mut_bool(params, root, "recursive", true);
    if (w->asked)
        abx_mut_bool(params, root, "entries", true);
    return e2b_launch(w->data, ABX_OP_FS_WATCH, params, &follow, w, &w->call, err);
}

int e2b_watch_open(e2b_data *d, const abx_e2b_call *c, yyjson_val *q, const e2b_watch_handlers *on,
                   void *data, e2b_watch **out, abx_error **err)
{
    const char *path = abx_json_str(q, "path", "");
    if (abx_json_has_nul(abx_json_get(q, "path")))
        return abx_fail(err, ABX_ERR_USAGE, "path: invalid argument");
    e2b_watch *w = ABX_NEW(e2b_watch);
    w->data = d;
    w->refs = 1;
    w->with_entry = w->asked = abx_json_bool(q, "includeEntry", false);
    w->recursive = abx_json_bool(q, "recursive", false);
    w->path = abx_strdup(*path ? path : ".");
    w->user = abx_strdup(abx_e2b_call_user(c));
    w->on = on;
    w->arg = data;
    e2b_plane_hold(d);
    if (launch(w, err) == 0) {
        *out = w;
        return 0;
    }
    watch_unref(w);
    return -1;
}

void e2b_watch_resume(e2b_watch *w)
{
    w->held = false;
    if (!w->waiting && w->call)
        abx_call_resume(w->call);
}

void e2b_watch_close(e2b_watch *w)
{
    if (!w || w->closed)
        return;
    w->closed = true;
    if (w->call)
        abx_call_cancel(w->call);
}

/* --- WatchDir -------------------------------------------------------------------------------------------------------- */
typedef struct streamed {
    e2b_data *data;
    abx_e2b_call *call;
    e2b_watch *watch;
} streamed;

static void streamed_start(void *data)
{
    const streamed *s = data;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    (void)abx_mut_obj(d, root, "start");
    (void)abx_e2b_send(s->call, root);
}

static int streamed_event(void *data, yyjson_mut_doc *event)
{
    const streamed *s = data;
    ABX_AUTO_MUT d = event;
    yyjson_mut_val *root = yyjson_mut_obj(d);
    abx_mut_put(d, root, "filesystem", yyjson_mut_doc_get_root(d));
    return abx_e2b_send(s->call, root);
}

static void streamed_end(void *data, const abx_error *err)
{
    streamed *s = data;
    abx_e2b_call *c = s->call;
    e2b_data *d = s->data;
    free(s);
    abx_e2b_call_handle(c, NULL, NULL);
    if (err)
        e2b_fail(d, c, E2B_ABOUT_FILE, err);
    else
        abx_e2b_end(c);
}

static void on_writable(abx_e2b_call *c, void *data)
{
    (void)c;
    e2b_watch_resume(((streamed *)data)->watch);
}

static void on_close(abx_e2b_call *c, bool expired, void *data)
{
    (void)c;
    (void)expired;
    streamed *s = data;
    e2b_watch_close(s->watch);
    free(s);
}

void e2b_rpc_watch_dir(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    static const e2b_watch_handlers events = {streamed_start, streamed_event, streamed_end};
    static const abx_e2b_call_handlers on = {.on_writable = on_writable, .on_close = on_close};
    streamed *s = ABX_NEW(streamed);
    s->data = d;
    s->call = c;
    ABX_AUTO_ERROR err = NULL;
    if (e2b_watch_open(d, c, q, &events, s, &s->watch, &err) < 0) {
        free(s);
        e2b_fail(d, c, E2B_ABOUT_FILE, err);
        return;
    }
    abx_e2b_call_handle(c, &on, s);
}
