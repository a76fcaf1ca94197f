/* WatchDir and the polled watchers. */
#include "local/envd/inner.h"

#include <errno.h>
#include <string.h>

#include "base/id.h"

enum { MAX_POLLED = 128, MAX_EVENTS = 64 * 1024 };

/* The user and the absolute path of a folder to watch. 0, -1: the call was failed. */
static int take_folder(abx_envd *e, abx_e2b_call *c, yyjson_val *q, abx__user *u, char **out)
{
    const char *asked = NULL;
    char text[96];
    struct stat st;
    if (abx__user_of(e, c, u) < 0 || abx__path_member(c, q, "path", "stat", &asked) < 0)
        return -1;
    char *path = abx__path_resolve(e, asked, u);
    if (!path) {
        abx_e2b_fail(c, ABX_E2B_CODE_INVALID_ARGUMENT, ABX__NO_TILDE, u->name);
        return -1;
    }
    abx__power(e, u, true);
    int rc = stat(path, &st), err = errno;
    abx__power(e, u, false);
    if (rc == 0 && S_ISDIR(st.st_mode)) {
        size_t n = strlen(path);
        while (n > 1 && path[n - 1] == '/')
            path[--n] = 0;
        *out = path;
        return 0;
    }
    if (rc == 0)
        abx_e2b_fail(c, ABX_E2B_CODE_INVALID_ARGUMENT, "path %s not a directory: %%!w(<nil>)",
                     path);
    else if (err == ENOENT)
        abx_e2b_fail(c, ABX_E2B_CODE_NOT_FOUND, "path %s not found: stat %s: %s", path, path,
                     abx__errno_text(err, text));
    else
        abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL, "error getting path info: stat %s: %s", path,
                     abx__errno_text(err, text));
    free(path);
    return -1;
}

static void fail_open(abx_e2b_call *c, int err)
{
    char text[96];
    abx_e2b_fail(c,
                 err == EMFILE || err == ENFILE || err == ENOSPC ? ABX_E2B_CODE_RESOURCE_EXHAUSTED
                                                                 : ABX_E2B_CODE_INTERNAL,
                 "error adding path to watcher: %s", abx__errno_text(err, text));
}

static void put_event(abx_envd *e, yyjson_mut_doc *d, yyjson_mut_val *obj, const char *type,
                      const char *name, const char *path, bool with_entry)
{
    ABX_AUTO_FREE char *shown =
        abx_utf8_valid(name, strlen(name)) ? abx_strdup(name) : abx_printable(name);
    abx_mut_str(d, obj, "name", shown);
    abx_mut_str(d, obj, "type", type);
    if (!with_entry || strcmp(type, "EVENT_TYPE_REMOVE") == 0 ||
        strcmp(type, "EVENT_TYPE_RENAME") == 0)
        return;
    struct stat st;
    if (lstat(path, &st) == 0)
        (void)abx__entry_put(e, d, abx_mut_obj(d, obj, "entry"), path, NULL);
}

/* --- WatchDir --------------------------------------------------------------------------------------------- */
typedef struct streamed {
    abx_envd *envd;
    abx_e2b_call *call;
    abx__watch *watch;
    bool with_entry;
} streamed;

static void streamed_end(streamed *s)
{
    abx__watch_close(s->watch);
    free(s);
}

static void on_event(void *data, const char *type, const char *name, const char *path)
{
    streamed *s = data;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    put_event(s->envd, d, abx_mut_obj(d, root, "filesystem"), type, name, path, s->with_entry);
    if (abx_e2b_send(s->call, root) == 0)
        abx__watch_pause(s->watch, true);
}

/* Events are missing: a stream that goes on would lie. */
static void on_lost(void *data)
{
    streamed *s = data;
    abx_e2b_call *c = s->call;
    streamed_end(s);
    abx_e2b_fail(c, ABX_E2B_CODE_DATA_LOSS, "fsnotify: queue or buffer overflow");
}

static void on_writable(abx_e2b_call *c, void *data)
{
    (void)c;
    streamed *s = data;
    abx__watch_pause(s->watch, false);
}

static void on_close(abx_e2b_call *c, bool expired, void *data)
{
    (void)c;
    (void)expired;
    streamed_end(data);
}

static const abx__watch_handlers STREAM_EVENTS = {on_event, on_lost};
static const abx_e2b_call_handlers STREAM_CALL = {.on_writable = on_writable, .on_close = on_close};

void abx__rpc_watch_dir(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    abx__user u;
    ABX_AUTO_FREE char *path = NULL;
    if (take_folder(e, c, q, &u, &path) < 0)
        return;
    streamed *s = ABX_NEW(streamed);
    s->envd = e;
    s->call = c;
    s->with_entry = abx_json_bool(q, "includeEntry", false);
    if (abx__watch_open(e, &u, path, abx_json_bool(q, "recursive", false), &STREAM_EVENTS, s,
                        &s->watch) < 0) {
        free(s);
        fail_open(c, errno);
        return;
    }
    abx_e2b_call_handle(c, &STREAM_CALL, s);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    (void)abx_mut_obj(d, root, "start");
    (void)abx_e2b_send(c, root);
}

/* --- polled watchers ---------------------------------------------------------------------------------------- */
typedef struct polled {
    abx_link node;
    abx_envd *envd;
    char id[24];
    abx__watch *watch;
    bool with_entry, lost;
    yyjson_mut_doc *doc; /* NULL: no events wait */
    yyjson_mut_val *events;
} polled;

static void queue_event(void *data, const char *type, const char *name, const char *path)
{
    polled *w = data;
    if (!w->doc) {
        yyjson_mut_val *root = NULL;
        w->doc = abx_mut_new(&root);
        w->events = abx_mut_arr(w->doc, root, "events");
    }
    if (yyjson_mut_arr_size(w->events) >= MAX_EVENTS) {
        w->lost = true;
        return;
    }
    put_event(w->envd, w->doc, yyjson_mut_arr_add_obj(w->doc, w->events), type, name, path,
              w->with_entry);
}

static void queue_lost(void *data)
{
    polled *w = data;
    w->lost = true;
}

static const abx__watch_handlers QUEUE_EVENTS = {queue_event, queue_lost};

static polled *find(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    const char *id = abx_json_str(q, "watcherId", "");
    for (abx_link *n = e->polled.next; n != &e->polled; n = n->next) {
        polled *w = ABX_OF(n, polled, node);
        if (strcmp(w->id, id) == 0)
            return w;
    }
    abx_e2b_fail(c, ABX_E2B_CODE_NOT_FOUND, "watcher with id %s not found", id);
    return NULL;
}

static void polled_end(polled *w)
{
    abx_link_remove(&w->node);
    w->envd->polled_count--;
    abx__watch_close(w->watch);
    yyjson_mut_doc_free(w->doc);
    free(w);
}

void abx__polled_close(abx_envd *e)
{
    while (e->polled.next != &e->polled)
        /* the list lets go of what is freed: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        polled_end(ABX_OF(e->polled.next, polled, node));
}

void abx__rpc_create_watcher(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    abx__user u;
    ABX_AUTO_FREE char *path = NULL;
    if (take_folder(e, c, q, &u, &path) < 0)
        return;
    if (e->polled_count >= MAX_POLLED) {
        abx_e2b_fail(c, ABX_E2B_CODE_RESOURCE_EXHAUSTED, "too many watchers");
        return;
    }
    polled *w = ABX_NEW(polled);
    w->envd = e;
    w->with_entry = abx_json_bool(q, "includeEntry", false);
    w->id[0] = 'w';
    abx_random_id(w->id + 1, 20);
    if (abx__watch_open(e, &u, path, abx_json_bool(q, "recursive", false), &QUEUE_EVENTS, w,
                        &w->watch) < 0) {
        free(w);
        fail_open(c, errno);
        return;
    }
    abx_link_append(&e->polled, &w->node);
    e->polled_count++;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "watcherId", w->id);
    abx_e2b_answer(c, root);
}

void abx__rpc_get_watcher_events(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    polled *w = find(e, c, q);
    if (!w)
        return;
    abx__watch_flush(w->watch); /* what happened before the question is in the answer */
    if (w->lost) {
        w->lost = false;
        yyjson_mut_doc_free(ABX_TAKE(w->doc));
        abx_e2b_fail(c, ABX_E2B_CODE_DATA_LOSS, "fsnotify: queue or buffer overflow");
        return;
    }
    ABX_AUTO_MUT d = ABX_TAKE(w->doc);
    w->events = NULL;
    abx_e2b_answer(c, d ? yyjson_mut_doc_get_root(d) : NULL);
}

void abx__rpc_remove_watcher(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    polled *w = find(e, c, q);
    if (!w)
        return;
    polled_end(w);
    abx_e2b_answer(c, NULL);
}
