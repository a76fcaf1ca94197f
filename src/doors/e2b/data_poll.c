/* Polled watchers: the events wait here until they are asked for. */
#include "doors/e2b/data_inner.h"

#include <string.h>

#include "base/id.h"

enum { MAX_WATCHERS = 1024, MAX_EVENTS = 64 * 1024, MAX_BYTES = 8 * 1024 * 1024, LOOKS = 2 };

typedef struct watcher {
    abx_link node;
    int refs;
    e2b_data *data;
    char id[24];
    e2b_watch *watch; /* NULL: it has ended */
    abx_error *why;   /* it ended so */
    e2b_task *making; /* who waits for its first moment; or NULL */
    bool lost;
    size_t bytes;
    yyjson_mut_doc *doc; /* NULL: no events wait */
    yyjson_mut_val *events;
} watcher;

static void watcher_unref(watcher *w)
{
    if (--w->refs > 0)
        return;
    abx_error_free(w->why);
    yyjson_mut_doc_free(w->doc);
    free(w);
}

static void watcher_end(watcher *w)
{
    abx_link_remove(&w->node);
    w->data->watcher_count--;
    e2b_watch_close(ABX_TAKE(w->watch));
    if (w->making)
        e2b_task_say(ABX_TAKE(w->making), ABX_E2B_CODE_ABORTED, "the watcher is closed");
    watcher_unref(w);
}

void e2b_watchers_close(e2b_data *d)
{
    while (d->watchers.next != &d->watchers)
        /* counted references: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        watcher_end(ABX_OF(d->watchers.next, watcher, node));
}

/* --- what the watch says --------------------------------------------------------------------------------------- */
static void on_started(void *data)
{
    watcher *w = data;
    if (!w->making)
        return;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "watcherId", w->id);
    bool wanted = w->making->call != NULL;
    e2b_task_answer(ABX_TAKE(w->making), root);
    if (!wanted)
        watcher_end(w); /* nobody knows its name */
}

static int on_event(void *data, yyjson_mut_doc *event)
{
    watcher *w = data;
    ABX_AUTO_MUT d = event;
    yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
    size_t size = 64 + yyjson_mut_get_len(yyjson_mut_obj_get(root, "name"));
    size += yyjson_mut_obj_get(root, "entry") ? 1024 : 0;
    if (!w->doc) {
        yyjson_mut_val *all = NULL;
        w->doc = abx_mut_new(&all);
        w->events = abx_mut_arr(w->doc, all, "events");
        w->bytes = 0;
    }
    w->bytes += size;
    if (yyjson_mut_arr_size(w->events) >= MAX_EVENTS || w->bytes > MAX_BYTES)
        w->lost = true;
    else
        yyjson_mut_arr_append(w->events, yyjson_mut_val_mut_copy(w->doc, root));
    return 1;
}

static void on_end(void *data, const abx_error *err)
{
    watcher *w = data;
    w->watch = NULL;
    w->why = err ? abx_error_copy(err) : NULL;
    if (!w->making)
        return;
    if (err)
        e2b_task_fail(ABX_TAKE(w->making), E2B_ABOUT_FILE, err);
    watcher_end(w);
}

/* --- CreateWatcher, RemoveWatcher -------------------------------------------------------------------------------- */
void e2b_rpc_create_watcher(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    static const e2b_watch_handlers on = {on_started, on_event, on_end};
    if (d->watcher_count >= MAX_WATCHERS) {
        abx_e2b_fail(c, ABX_E2B_CODE_RESOURCE_EXHAUSTED, "there are %d watchers already",
                     (int)MAX_WATCHERS);
        return;
    }
    watcher *w = ABX_NEW(watcher);
    w->refs = 1;
    w->data = d;
    w->id[0] = 'w';
    abx_random_id(w->id + 1, 20);
    ABX_AUTO_ERROR err = NULL;
    if (e2b_watch_open(d, c, q, &on, w, &w->watch, &err) < 0) {
        free(w);
        e2b_fail(d, c, E2B_ABOUT_FILE, err);
        return;
    }
    w->making = e2b_task_new(d, c, q);
    abx_link_append(&d->watchers, &w->node);
    d->watcher_count++;
}

static watcher *find(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    const char *id = abx_json_str(q, "watcherId", "");
    for (abx_link *n = d->watchers.next; n != &d->watchers; n = n->next) {
        watcher *w = ABX_OF(n, watcher, node);
        if (!w->making && strcmp(w->id, id) == 0)
            return w;
    }
    abx_e2b_fail(c, ABX_E2B_CODE_NOT_FOUND, "watcher with id %s not found", id);
    return NULL;
}

void e2b_rpc_remove_watcher(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    watcher *w = find(d, c, q);
    if (!w)
        return;
    watcher_end(w);
    abx_e2b_answer(c, NULL);
}

/* --- GetWatcherEvents ----------------------------------------------------------------------------------------------- */
/* What happened before the question belongs into the answer, but comes on another way than what told the client that it had
 * happened: two short calls, one after the other, and a turn of the loop let it arrive. */
typedef struct asking {
    watcher *watcher;
    e2b_task *task;
    int looks;
    uv_timer_t turn;
} asking;

static void asking_gone(uv_handle_t *h)
{
    asking *a = h->data;
    e2b_data *d = a->watcher->data;
    watcher_unref(a->watcher);
    free(a);
    e2b_plane_release(d);
}

static void asking_end(asking *a)
{
    uv_close((uv_handle_t *)&a->turn, asking_gone);
}

static void on_turn(uv_timer_t *timer)
{
    asking *a = timer->data;
    watcher *w = a->watcher;
    if (w->lost) {
        w->lost = false;
        yyjson_mut_doc_free(ABX_TAKE(w->doc));
        e2b_task_say(a->task, ABX_E2B_CODE_DATA_LOSS, "fsnotify: queue or buffer overflow");
        asking_end(a);
        return;
    }
    if (!w->doc && w->why) {
        e2b_task_fail(a->task, E2B_ABOUT_FILE, w->why);
        asking_end(a);
        return;
    }
    ABX_AUTO_MUT doc = ABX_TAKE(w->doc);
    w->events = NULL;
    e2b_task_answer(a->task, doc ? yyjson_mut_doc_get_root(doc) : NULL);
    asking_end(a);
}

static void on_look(void *arg, yyjson_val *file, const abx_error *err)
{
    (void)file;
    (void)err;
    asking *a = arg;
    if (++a->looks >= LOOKS || a->watcher->data->closing) {
        ABX_CHECK(uv_timer_start(&a->turn, on_turn, 0, 0) == 0);
        return;
    }
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = e2b_params(a->watcher->data, NULL, &root);
    abx_mut_str(d, root, "path", "/");
    e2b_run(a->watcher->data, ABX_OP_FS_STAT, d, on_look, a);
}

void e2b_rpc_get_watcher_events(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    watcher *w = find(d, c, q);
    if (!w)
        return;
    asking *a = ABX_NEW(asking);
    w->refs++;
    a->watcher = w;
    a->task = e2b_task_new(d, c, q);
    a->looks = -1;
    e2b_plane_hold(d);
    ABX_CHECK(uv_timer_init(d->door->loop, &a->turn) == 0);
    a->turn.data = a;
    on_look(a, NULL, NULL);
}
