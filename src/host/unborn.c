#include "host/unborn.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

/* --- the label ---------------------------------------------------------------------------------------- */
void abx__unborn_mark(yyjson_mut_doc *d, yyjson_mut_val *params, const char *key)
{
    yyjson_mut_val *labels = yyjson_mut_obj_get(params, "metadata");
    if (!yyjson_mut_is_obj(labels))
        labels = abx_mut_obj(d, params, "metadata");
    yyjson_mut_obj_remove_key(labels, ABX_KEY_LABEL);
    abx_mut_str(d, labels, ABX_KEY_LABEL, key);
}

static const char *label_of(yyjson_mut_val *sandbox)
{
    return yyjson_mut_get_str(
        yyjson_mut_obj_get(yyjson_mut_obj_get(sandbox, "metadata"), ABX_KEY_LABEL));
}

void abx__unborn_hide(yyjson_mut_val *sandbox)
{
    yyjson_mut_val *labels = yyjson_mut_obj_get(sandbox, "metadata");
    if (yyjson_mut_is_obj(labels))
        yyjson_mut_obj_remove_key(labels, ABX_KEY_LABEL);
}

bool abx__unborn_listed(yyjson_mut_val *list, const char *key)
{
    size_t i, n;
    yyjson_mut_val *sandbox;
    yyjson_mut_arr_foreach(list, i, n, sandbox) if (abx_str_eq(label_of(sandbox), key)) return true;
    return false;
}

/* --- found and ended, one after the other --------------------------------------------------------------- */
typedef struct hunt {
    abx_host *host;
    char *provider, *key;
    bool dry;
    char **ids; /* NULL at the end */
    size_t next;
    abx_error *why; /* of the first that could not be ended */
    abx__unborn_cb cb;
    void *data;
} hunt;

static void end(hunt *h, const abx_error *err)
{
    static char *const none[] = {NULL};
    h->cb(h->data, h->ids ? h->ids : none, err);
    for (char **id = h->ids; id && *id; id++)
        free(*id);
    free(h->ids);
    free(h->provider);
    free(h->key);
    abx_error_free(h->why);
    free(h);
}

static void kill_next(hunt *h);

static void on_killed(void *data, yyjson_val *result, const abx_error *err)
{
    (void)result;
    hunt *h = data;
    if (err && err->id != ABX_ERR_SANDBOX_NOT_FOUND && !h->why)
        h->why = abx_error_copy(err);
    h->next++;
    kill_next(h);
}

static void kill_next(hunt *h)
{
    const char *id = h->ids[h->next];
    if (h->dry || !id) {
        end(h, h->why);
        return;
    }
    yyjson_mut_val *root;
    yyjson_mut_doc *params = abx_mut_new(&root);
    abx_mut_str(params, root, "sandboxId", id);
    abx__host_ask(h->host, h->provider, ABX_OP_SANDBOX_KILL, params, on_killed, h);
}

static void on_list(void *data, yyjson_val *result, const abx_error *err)
{
    hunt *h = data;
    if (err) {
        end(h, err);
        return;
    }
    yyjson_val *list = abx_json_get(result, "sandboxes"), *sandbox;
    size_t i, n, count = 0;
    h->ids = abx_alloc_array(yyjson_arr_size(list) + 1, sizeof *h->ids);
    yyjson_arr_foreach(list, i, n, sandbox)
    {
        /* a provider that does not know the filter lists others, too */
        const char *id = abx_json_str(sandbox, "id", NULL);
        const char *bears = abx_json_str(abx_json_get(sandbox, "metadata"), ABX_KEY_LABEL, NULL);
        if (id && abx_str_eq(bears, h->key))
            h->ids[count++] = abx_strdup(id);
    }
    kill_next(h);
}

void abx__unborn_end(abx_host *host, const char *provider_id, const char *key, bool dry,
                     abx__unborn_cb cb, void *data)
{
    hunt *h = ABX_NEW(hunt);
    h->host = host;
    h->provider = abx_strdup(provider_id);
    h->key = abx_strdup(key);
    h->dry = dry;
    h->cb = cb;
    h->data = data;
    yyjson_mut_val *root;
    yyjson_mut_doc *params = abx_mut_new(&root);
    abx_mut_str(params, abx_mut_obj(params, root, "metadata"), ABX_KEY_LABEL, key);
    abx__host_ask(host, provider_id, ABX_OP_SANDBOX_LIST, params, on_list, h);
}
