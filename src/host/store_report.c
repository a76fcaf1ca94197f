#include "host/store_report.h"

#include <string.h>

#include "base/mem.h"

static const char *const step_names[] = {"new", "same", "upgrade", "downgrade", "replace"};

yyjson_mut_doc *abx_store_change_report(const abx_store_change *c)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    const abx_store_entry *e = &c->now;
    abx_mut_str(d, root, "id", e->id);
    abx_mut_str(d, root, "version", e->version);
    abx_mut_str(d, root, "step", step_names[c->step]);
    abx_mut_str(d, root, "previousVersion", c->then.version);
    abx_mut_str(d, root, "kind", abx_kind_name(e->kind));
    abx_mut_str(d, root, "trust", abx_trust_name(e->trust));
    abx_mut_str(d, root, "source", e->source);
    abx_mut_str(d, root, "treeSha256", e->tree_sha256);
    abx_mut_str(d, root, "folder", e->folder);
    yyjson_mut_val *consent = abx_mut_arr(d, root, "consent");
    for (int k = 0; k < ABX_CORE_COUNT; k++)
        if (e->consent[k])
            yyjson_mut_arr_add_str(d, consent, abx_core_key_name((abx_core_key)k));
    return d;
}

int abx_store_judge(const char *home, const char *id, const abx_store_task *task, yyjson_mut_doc *d,
                    yyjson_mut_val *list, abx_store_verdict *out, abx_error **err)
{
    abx_plugin *p = NULL;
    ABX_AUTO_ERROR why = NULL;
    int rc = abx_store_load_task(home, id, task, &p, &why);
    if (rc < 0 && (why->id == ABX_ERR_CANCELLED || why->id == ABX_ERR_TIMEOUT))
        return abx_error_take(err, ABX_TAKE(why));
    bool compared = rc == 0 && p->trust != ABX_TRUST_LINK;
    *out = (abx_store_verdict){
        .version = p ? abx_strdup(p->manifest->version) : NULL,
        .trust = p ? abx_trust_name(p->trust) : NULL,
        .status = rc < 0     ? "failed"
                  : compared ? "ok"
                             : "not compared",
    };
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
    abx_mut_str(d, o, "id", id);
    abx_mut_str(d, o, "version", out->version);
    abx_mut_str(d, o, "trust", out->trust);
    abx_mut_bool(d, o, "ok", rc == 0);
    abx_mut_bool(d, o, "compared", compared);
    if (why)
        abx_mut_put(d, o, "problem", abx_error_json(d, why));
    out->problem = ABX_TAKE(why);
    abx_plugin_free(p);
    return 0;
}

void abx_store_verdict_clear(abx_store_verdict *v)
{
    free(v->version);
    abx_error_free(v->problem);
    memset(v, 0, sizeof(*v));
}
