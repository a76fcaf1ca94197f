#include "doors/e2b/network.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define EVERYTHING "0.0.0.0/0"
#define TEXT_MAX   ((size_t)64 * 1024)

static bool refuse_list(e2b_request *r, const char *name)
{
    e2b_reply_refuse(r, 400, "validation error: 'network.%s' is no list of strings", name);
    return false;
}

static bool read_list(e2b_request *r, yyjson_val *network, const char *name, yyjson_val **out)
{
    yyjson_val *list = abx_json_get(network, name), *item;
    size_t i, n;
    *out = list;
    if (list && !yyjson_is_arr(list))
        return refuse_list(r, name);
    yyjson_arr_foreach(list, i, n, item)
    {
        if (!yyjson_is_str(item) || yyjson_get_len(item) == 0 || strchr(yyjson_get_str(item), ','))
            return refuse_list(r, name);
    }
    return true;
}

static bool has(yyjson_val *list, const char *text)
{
    yyjson_val *item;
    size_t i, n;
    yyjson_arr_foreach(list, i, n, item)
    {
        if (yyjson_equals_str(item, text))
            return true;
    }
    return false;
}

/* An address or a range of them, not a name. */
static bool is_address(const char *text)
{
    return strchr(text, ':') || strspn(text, "0123456789./") == strlen(text);
}

static bool has_name(yyjson_val *list)
{
    yyjson_val *item;
    size_t i, n;
    yyjson_arr_foreach(list, i, n, item)
    {
        if (!is_address(yyjson_get_str(item)))
            return true;
    }
    return false;
}

static bool unsupported(e2b_request *r, const char *what)
{
    ABX_AUTO_ERROR err =
        abx_error_new(ABX_ERR_FEATURE_MISSING, "this server does not have '%s'", what);
    abx_error *hint = err;
    abx_hint(&hint, "allow_internet_access, and allowOut with denyOut '" EVERYTHING
                    "', are what it knows");
    e2b_reply_error(r, err);
    return false;
}

/* "allow:A,allow:B" */
static char *join_allowed(yyjson_val *list)
{
    ABX_AUTO_BUF text = ABX_BUF(TEXT_MAX);
    yyjson_val *item;
    size_t i, n;
    yyjson_arr_foreach(list, i, n, item)
    {
        if (abx_buf_addf(&text, "%sallow:%s", text.len ? "," : "", yyjson_get_str(item)) < 0)
            return NULL;
    }
    return abx_buf_take(&text);
}

/* What is a matter of the way out. *word: the parameter, owned; NULL: the door's own. */
static bool read_way_out(e2b_request *r, yyjson_val *network, bool denied, char **word)
{
    yyjson_val *allow, *deny;
    if (!read_list(r, network, "allowOut", &allow) || !read_list(r, network, "denyOut", &deny))
        return false;
    bool all_denied = denied || has(deny, EVERYTHING);
    if (has_name(allow) && !has(deny, EVERYTHING)) {
        e2b_reply_refuse(
            r, 400, "validation error: a domain in 'allowOut' needs '" EVERYTHING "' in 'denyOut'");
        return false;
    }
    if (yyjson_arr_size(deny) > (has(deny, EVERYTHING) ? 1u : 0u))
        return unsupported(r, "network.denyOut");
    if (abx_json_get(network, "egressProxy"))
        return unsupported(r, "network.egressProxy");
    if (yyjson_obj_size(abx_json_get(network, "rules")) > 0)
        return unsupported(r, "network.rules");
    if (!all_denied)
        *word = abx_strdup(abx_json_str(yyjson_doc_get_root(r->door->defaults), "network", NULL));
    else if (yyjson_arr_size(allow) == 0)
        *word = abx_strdup("none");
    else if (!(*word = join_allowed(allow)))
        return refuse_list(r, "allowOut");
    return true;
}

bool e2b_network_read(e2b_request *r, yyjson_mut_doc *params, yyjson_mut_doc *notes)
{
    bool allowed = true;
    ABX_AUTO_FREE char *word = NULL;
    yyjson_val *network = abx_json_get(r->body, "network");
    yyjson_mut_val *o = yyjson_mut_doc_get_root(notes);
    int given = e2b_body_bool(r, "allow_internet_access", &allowed);
    if (given < 0)
        return false;
    if (network && !yyjson_is_obj(network)) {
        e2b_reply_refuse(r, 400, "validation error: 'network' is no object");
        return false;
    }
    if (!read_way_out(r, network, given && !allowed, &word))
        return false;
    yyjson_mut_obj_remove_key(yyjson_mut_doc_get_root(params), "network");
    abx_mut_str(params, yyjson_mut_doc_get_root(params), "network", word);
    if (given)
        abx_mut_bool(notes, o, "internet", allowed);
    if (network) {
        abx_mut_val(notes, o, "network", network);
        abx_mut_bool(notes, o, "publicTraffic", abx_json_bool(network, "allowPublicTraffic", true));
    }
    return true;
}

/* --- PUT /sandboxes/{id}/network: the whole way out anew ------------------------------------------------------------ */
static void on_changed(void *data, yyjson_val *result, const abx_error *err)
{
    e2b_request *r = data;
    (void)result;
    if (err) {
        e2b_reply_error(r, err);
        return;
    }
    yyjson_mut_val *root;
    yyjson_mut_doc *notes = e2b_notes_copy(r->box, &root);
    yyjson_val *old = abx_json_get(yyjson_doc_get_root(r->box->notes), "network"), *key, *value;
    size_t i, n;
    yyjson_mut_obj_remove_key(root, "network");
    yyjson_mut_obj_remove_key(root, "internet");
    abx_mut_val(notes, root, "internet", abx_json_get(r->body, "allow_internet_access"));
    yyjson_mut_val *network = abx_mut_obj(notes, root, "network");
    static const char *const kept[] = {"allowPublicTraffic", "maskRequestHost", "httpsPorts"};
    for (size_t k = 0; k < ABX_COUNT(kept); k++)
        abx_mut_val(notes, network, kept[k], abx_json_get(old, kept[k]));
    yyjson_obj_foreach(r->body, i, n, key, value)
    {
        if (!yyjson_equals_str(key, "allow_internet_access"))
            abx_mut_val(notes, network, yyjson_get_str(key), value);
    }
    ABX_AUTO_ERROR why = NULL;
    if (e2b_box_note(r->box, notes, &why) < 0)
        e2b_reply_error(r, why);
    else
        e2b_reply(r, 204, NULL);
}

static void change(e2b_request *r)
{
    bool allowed = true;
    ABX_AUTO_FREE char *word = NULL;
    int given = e2b_body_bool(r, "allow_internet_access", &allowed);
    if (given < 0 || !read_way_out(r, r->body, given && !allowed, &word))
        return;
    yyjson_mut_val *root;
    yyjson_mut_doc *params = e2b_box_params(r->box, &root);
    abx_mut_str(params, root, "network", word ? word : "internet");
    e2b_request_ask(r, ABX_OP_SANDBOX_SET_NETWORK, params, on_changed);
}

void e2b_do_network(e2b_request *r)
{
    e2b_with_box(r, false, change);
}
