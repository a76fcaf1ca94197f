/* fs.watch by listing: the folder is listed again and again and compared with what it held before. What came and went
 * between two looks was never there; a name that is gone while the same file came under another was renamed. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "host/emulate_inner.h"

#define PAUSE_MS  500 /* between two looks; four times as long as a look takes, if that is more */
#define PAUSE_MAX 10000
#define DEPTH     64                    /* levels of a recursive watch */
#define PAIRS_MAX ((size_t)1000 * 1000) /* more are not compared to find what was renamed */

typedef struct watch {
    abx__emulation e;
    uv_timer_t timer;
    yyjson_doc *before; /* {"files"}; NULL: the first look */
    uint64_t look_began;
    bool held; /* the door takes no more */
} watch;

static void look(watch *w);

static void on_timer(uv_timer_t *t)
{
    look(t->data);
}

static void wait_for_next(watch *w)
{
    uv_update_time(w->e.host->loop);
    uint64_t took = uv_now(w->e.host->loop) - w->look_began;
    uint64_t pause = took * 4 > PAUSE_MS ? took * 4 : PAUSE_MS;
    uv_timer_start(&w->timer, on_timer, pause > PAUSE_MAX ? PAUSE_MAX : pause, 0);
}

/* The folder that was listed: what its own children stand in. Length of its path without a slash at the end. */
static size_t folder_length(yyjson_val *files)
{
    size_t best_depth = SIZE_MAX, length = 0, i, n;
    yyjson_val *file;
    yyjson_arr_foreach(files, i, n, file)
    {
        const char *path = abx_json_str(file, "path", "");
        const char *slash = strrchr(path, '/');
        size_t depth = 0;
        for (const char *p = path; *p; p++)
            depth += *p == '/';
        if (slash && depth < best_depth) {
            best_depth = depth;
            length = (size_t)(slash - path);
        }
    }
    return length;
}

static void tell(watch *w, const char *kind, const char *path, size_t folder, yyjson_val *file)
{
    if (!w->e.outer || strlen(path) <= folder + 1)
        return;
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "kind", kind);
    abx_mut_str(d, root, "name", path + folder + 1);
    if (file && abx_json_bool(abx_call_params(w->e.outer), "entries", false))
        abx_mut_val(d, root, "file", file);
    if (!abx_call_event(w->e.outer, "change", d))
        w->held = true;
}

static bool differs(yyjson_val *a, yyjson_val *b, const char *member)
{
    yyjson_val *was = yyjson_obj_get(a, member), *is = yyjson_obj_get(b, member);
    return was && is ? !yyjson_equals(was, is) : was != is;
}

static void compare_file(watch *w, yyjson_val *was, yyjson_val *is, size_t folder)
{
    const char *path = abx_json_str(is, "path", "");
    bool folder_now = abx_str_eq(abx_json_str(is, "type", NULL), "dir");
    if (differs(was, is, "type")) {
        tell(w, "remove", path, folder, NULL);
        tell(w, "create", path, folder, is);
        return;
    }
    /* A folder's time and size change with what is in it, which is told by itself. */
    if (!folder_now &&
        (differs(was, is, "size") || differs(was, is, "modifiedAt") || differs(was, is, "target")))
        tell(w, "write", path, folder, is);
    if (differs(was, is, "mode") || differs(was, is, "owner") || differs(was, is, "group"))
        tell(w, "chmod", path, folder, is);
}

typedef struct names {
    yyjson_val **files;
    size_t count;
} names;

static void add(names *n, yyjson_val *file)
{
    n->files[n->count++] = file;
}

/* Is it the same file under another name, as far as a listing can tell? */
static bool is_same(yyjson_val *was, yyjson_val *is)
{
    static const char *const members[] = {"type", "size", "modifiedAt", "mode", "owner", "group"};
    for (size_t i = 0; i < ABX_COUNT(members); i++)
        if (differs(was, is, members[i]))
            return false;
    return true;
}

static void tell_created(watch *w, yyjson_val *file, size_t folder)
{
    const char *path = abx_json_str(file, "path", "");
    tell(w, "create", path, folder, file);
    if (abx_json_int(file, "size", 0) > 0 && abx_str_eq(abx_json_str(file, "type", NULL), "file"))
        tell(w, "write", path, folder, file);
}

static void tell_names(watch *w, const names *gone, names *came, size_t folder)
{
    bool pair = gone->count > 0 && came->count <= PAIRS_MAX / gone->count;
    for (size_t i = 0; i < gone->count; i++) {
        const char *old = abx_json_str(gone->files[i], "path", "");
        size_t k = 0;
        while (pair && k < came->count &&
               !(came->files[k] && is_same(gone->files[i], came->files[k])))
            k++;
        if (!pair || k == came->count) {
            tell(w, "remove", old, folder, NULL);
            continue;
        }
        tell(w, "rename", old, folder, NULL);
        tell(w, "create", abx_json_str(came->files[k], "path", ""), folder, came->files[k]);
        came->files[k] = NULL;
    }
    for (size_t i = 0; i < came->count; i++)
        if (came->files[i])
            tell_created(w, came->files[i], folder);
}

/* Both lists are sorted by path. */
static void compare(watch *w, yyjson_val *was, yyjson_val *is)
{
    size_t folder = folder_length(yyjson_arr_size(is) ? is : was);
    names gone = {abx_alloc_array(yyjson_arr_size(was) + 1, sizeof(yyjson_val *)), 0};
    names came = {abx_alloc_array(yyjson_arr_size(is) + 1, sizeof(yyjson_val *)), 0};
    yyjson_arr_iter a = yyjson_arr_iter_with(was), b = yyjson_arr_iter_with(is);
    yyjson_val *old = yyjson_arr_iter_next(&a), *now = yyjson_arr_iter_next(&b);
    while (old || now) {
        int order = !old   ? 1
                    : !now ? -1
                           : strcmp(abx_json_str(old, "path", ""), abx_json_str(now, "path", ""));
        if (order < 0)
            add(&gone, old);
        else if (order > 0)
            add(&came, now);
        else
            compare_file(w, old, now, folder);
        if (order <= 0)
            old = yyjson_arr_iter_next(&a);
        if (order >= 0)
            now = yyjson_arr_iter_next(&b);
    }
    tell_names(w, &gone, &came, folder);
    free(gone.files);
    free(came.files);
}

static void on_look(abx__emulation *e, yyjson_val *result, const abx_buf *output)
{
    watch *w = (watch *)e;
    (void)output;
    yyjson_doc *now = abx_json_copy(result);
    if (w->before)
        compare(w, yyjson_obj_get(yyjson_doc_get_root(w->before), "files"),
                yyjson_obj_get(yyjson_doc_get_root(now), "files"));
    else
        w->held = !abx_call_event(e->outer, "started", NULL);
    yyjson_doc_free(w->before);
    w->before = now;
    if (!w->held)
        wait_for_next(w);
}

static void look(watch *w)
{
    static const char *const kept[] = {"sandboxId", "path", "user", NULL};
    if (!w->e.outer || w->e.done)
        return;
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx__emulation_params(&w->e, &root, kept);
    if (abx_json_bool(abx_call_params(w->e.outer), "recursive", false))
        abx_mut_int(d, root, "depth", DEPTH);
    uv_update_time(w->e.host->loop);
    w->look_began = uv_now(w->e.host->loop);
    abx__emulation_ask(&w->e, ABX_OP_FS_LIST, d, NULL, 0, 0, on_look);
}

static void on_resume(abx__emulation *e)
{
    watch *w = (watch *)e;
    w->held = false;
    if (!e->inner && !uv_is_active((uv_handle_t *)&w->timer))
        wait_for_next(w);
}

static void release(abx__emulation *e)
{
    watch *w = (watch *)e;
    yyjson_doc_free(w->before);
    abx__emulation_clear(e);
    free(w);
}

static void on_timer_closed(uv_handle_t *h)
{
    watch *w = h->data;
    abx__emulation_unpin(&w->e);
}

static void on_release(abx_call *c, void *state)
{
    watch *w = state;
    uv_close((uv_handle_t *)&w->timer, on_timer_closed);
    abx__emulation_on_release(c, state);
}

void abx__emulate_watch(abx_host *host, const char *provider, abx_call *call)
{
    static const abx_call_backend backend = {.on_cancel = abx__emulation_on_cancel,
                                             .on_resume = abx__emulation_on_resume,
                                             .on_release = on_release};
    watch *w = ABX_NEW(watch);
    abx__emulation_init(&w->e, host, provider, call);
    w->e.release = release;
    w->e.on_resume = on_resume;
    uv_timer_init(host->loop, &w->timer);
    w->timer.data = w;
    w->e.pins = 1; /* the timer */
    abx_call_accept(call, &backend, w);
    look(w);
}
