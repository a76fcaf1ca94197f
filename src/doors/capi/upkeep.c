/* The ledger as it is, and clearing up at all providers that are in use. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "doors/capi/inner.h"
#include "host/ledger.h"

static void add_entry(yyjson_mut_doc *d, yyjson_mut_val *list, const abx_ledger_entry *e)
{
    char when[ABX_RFC3339_SIZE];
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
    abx_format_rfc3339(e->created_wall_ms, when);
    abx_mut_str(d, o, "id", e->id);
    abx_mut_str(d, o, "key", e->key);
    abx_mut_str(d, o, "name", e->name);
    abx_mut_str(d, o, "provider", e->provider);
    abx_mut_str(d, o, "profile", e->profile);
    abx_mut_str(d, o, "url", e->url);
    abx_mut_bool(d, o, "complete", e->complete);
    abx_mut_str(d, o, "createdAt", when);
}

char *capi_ledger(capi_context *ctx, abx_error **err)
{
    abx_ledger *ledger = NULL;
    abx_ledger_entry *entries = NULL;
    size_t count = 0, bad_count = 0;
    char **bad = NULL;
    if (capi_check_process(ctx, err) < 0 || abx_ledger_open(ctx->home, &ledger, err) < 0)
        return NULL;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, "sandboxes");
    int rc = abx_ledger_read(ledger, &entries, &count, &bad, &bad_count, err);
    for (size_t i = 0; i < count; i++)
        add_entry(d, list, &entries[i]);
    yyjson_mut_val *broken = abx_mut_arr(d, root, "broken");
    for (size_t i = 0; i < bad_count; i++) {
        yyjson_mut_arr_add_strcpy(d, broken, bad[i]);
        free(bad[i]);
    }
    free(bad);
    abx_ledger_entries_free(entries, count);
    abx_ledger_free(ledger);
    ABX_AUTO_JSON frozen = abx_json_freeze(d);
    return rc < 0 ? NULL : abx_json_text(yyjson_doc_get_root(frozen));
}

/* --- gc ------------------------------------------------------------------------------------------------- */

/* The chosen provider and those in use; else local, which needs no account. Owned; NULL at the end. */
static char **choose(capi_provider *p, abx_error **err)
{
    capi_section s;
    const char *const *used = NULL;
    if (capi_enter(&s, p->ctx, err) < 0)
        return NULL;
    char **ids = NULL;
    if (abx_host_used_providers(p->host, &used, err) == 0) {
        size_t n = 0;
        while (used[n])
            n++;
        ids = abx_alloc_array(n + 2, sizeof(*ids));
        for (size_t i = 0; i < n; i++)
            ids[i] = abx_strdup(used[i]);
        if (n == 0)
            ids[0] = abx_strdup("local");
    }
    capi_leave(&s);
    return ids;
}

static int gc_at(capi_provider *p, const char *id, bool dry, yyjson_mut_doc *d,
                 yyjson_mut_val *removed, abx_error **err)
{
    capi_call *call = capi_call_start_at(p, id, "provider.gc", dry ? "{\"dryRun\":true}" : NULL, 0,
                                         NULL, NULL, err);
    ABX_AUTO_FREE char *text = capi_call_finish(call, err);
    if (!text)
        return -1;
    ABX_AUTO_JSON doc = abx_json_parse(text, strlen(text), ABX_ERR_INTERNAL, "gc", NULL);
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(abx_json_get(yyjson_doc_get_root(doc), "removed"), i, n, item)
    {
        yyjson_mut_arr_append(removed, yyjson_val_mut_copy(d, item));
    }
    return 0;
}

char *capi_gc(capi_context *ctx, bool dry, abx_error **err)
{
    capi_provider *p = capi_provider_open(ctx, NULL, err);
    char **ids = p ? choose(p, err) : NULL;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *removed = abx_mut_arr(d, root, "removed");
    int rc = ids ? 0 : -1;
    for (char **id = ids; id && *id; id++) {
        ABX_AUTO_ERROR failed = NULL;
        bool others = ids[1] != NULL; /* one that keeps nothing on this machine is no fault then */
        if (rc == 0 && gc_at(p, *id, dry, d, removed, &failed) < 0 &&
            !(others && failed->id == ABX_ERR_FEATURE_MISSING))
            rc = abx_error_take(err, ABX_TAKE(failed));
    }
    for (char **id = ids; id && *id; id++)
        free(*id);
    free(ids);
    capi_provider_close(p);
    ABX_AUTO_JSON frozen = abx_json_freeze(d);
    return rc < 0 ? NULL : abx_json_text(yyjson_doc_get_root(frozen));
}
