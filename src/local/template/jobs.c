/* The jobs by their names. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/template/snapshot.h"
#include "local/template/template.h"
#include "local/template/work.h"

#define TELL_EVERY_MS 100u

typedef struct telling {
    abx_work *work;
    uint64_t last_ms;
    size_t last_layer;
} telling;

static int tell(void *data, size_t layer, size_t layers, uint64_t bytes, abx_error **err)
{
    telling *t = (telling *)data;
    uint64_t now = abx_now_mono_ms();
    if (t->last_ms && layer == t->last_layer && now - t->last_ms < TELL_EVERY_MS)
        return 0;
    t->last_ms = now;
    t->last_layer = layer;
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_int(d, root, "layer", (int64_t)layer + 1);
    abx_mut_int(d, root, "layers", (int64_t)layers);
    abx_mut_int(d, root, "bytes", (int64_t)bytes);
    return abx_work_tell(t->work, d) == 0
               ? 0
               : abx_fail(err, ABX_ERR_CANCELLED, "who asked for this is gone");
}

static int show(abx_work *w, abx_store *s, const char *id, const char *name, abx_error **err)
{
    yyjson_mut_val *o = abx_template_object(s, w->d, name ? name : id, err);
    w->result = o;
    return o ? 0 : -1;
}

static int template_add(abx_work *w, abx_store *s, const abx_template_progress *p, abx_error **err)
{
    char id[ABX_STORE_ID + 1];
    const char *name = abx_json_str(w->params, "name", NULL);
    if (abx_template_add(s, name, abx_json_str(w->params, "source", ""), w->ids, p, id, err) < 0)
        return -1;
    return show(w, s, id, name, err);
}

static int template_prepare(abx_work *w, abx_store *s, const abx_template_progress *p,
                            abx_error **err)
{
    char id[ABX_STORE_ID + 1];
    abx_ids kind = (abx_ids)abx_json_int(w->params, "for", w->ids);
    ABX_AUTO_FD lock = abx_store_take(s, ABX_LOCK_LAYERS, false, true, err);
    if (lock < 0)
        return -1;
    if (abx_store_find(s, abx_json_str(w->params, "template", ""), id) != 1)
        return abx_fail(err, ABX_ERR_TEMPLATE_NOT_FOUND, "the template is gone");
    return abx_template_prepare(s, id, kind, p, err);
}

static int template_remove(abx_work *w, abx_store *s, const abx_template_progress *p,
                           abx_error **err)
{
    (void)p;
    return abx_template_remove(s, abx_json_str(w->params, "template", ""), err);
}

static int snapshot_create(abx_work *w, abx_store *s, const abx_template_progress *p,
                           abx_error **err)
{
    char id[ABX_STORE_ID + 1];
    if (abx_snapshot_make(s, abx_json_str(w->params, "sandboxId", ""),
                          abx_json_str(w->params, "name", NULL), p, id, err) < 0)
        return -1;
    ABX_AUTO_JSON record = abx_snapshot_read(s, id, err);
    if (record)
        w->result = abx_snapshot_object(w->d, yyjson_doc_get_root(record));
    return record ? 0 : -1;
}

static int snapshot_remove(abx_work *w, abx_store *s, const abx_template_progress *p,
                           abx_error **err)
{
    (void)p;
    return abx_snapshot_remove(s, abx_json_str(w->params, "snapshotId", ""), err);
}

int abx_work_run(abx_work *w, const char *job, abx_error **err)
{
    static const struct {
        const char *name;
        int (*run)(abx_work *w, abx_store *s, const abx_template_progress *p, abx_error **err);
    } jobs[] = {
        {"template_add", template_add},       {"template_prepare", template_prepare},
        {"template_remove", template_remove}, {"snapshot_create", snapshot_create},
        {"snapshot_remove", snapshot_remove},
    };
    telling t = {.work = w};
    abx_template_progress progress = {tell, &t};
    abx_store s;
    for (size_t i = 0; i < ABX_COUNT(jobs); i++) {
        if (!abx_str_eq(job, jobs[i].name))
            continue;
        if (abx_store_open(w->local, true, &s, err) < 0)
            return -1;
        int rc = jobs[i].run(w, &s, &progress, err);
        abx_store_close(&s);
        return rc;
    }
    return abx_fail(err, ABX_ERR_INTERNAL, "there is no job '%s'", job);
}
