#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/params.h"
#include "doors/cli/print.h"
#include "doors/cli/verbs.h"

/* The sandboxes of one provider, added to `list`. */
static int list_at(abx_cli *cli, const char *provider, yyjson_mut_doc *d, yyjson_mut_val *list,
                   abx_error **err)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_mut_new(&root);
    abx_params_labels(cli, params, root);
    ABX_AUTO_JSON found = NULL;
    if (abx_cli_call_at(cli, provider, ABX_OP_SANDBOX_LIST, params, &found, err) < 0)
        return -1;
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(abx_json_get(yyjson_doc_get_root(found), "sandboxes"), i, n, item)
    {
        yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, item));
    }
    return 0;
}

/* The providers to ask: all, the one that was chosen, or those that are in use. */
static int choose(abx_cli *cli, const char *const **ids, abx_error **err)
{
    if (abx_cli_open(cli, err) < 0)
        return -1;
    if (abx_has_flag(cli->args, ABX_FLAG_ALL_PROVIDERS)) {
        *ids = abx_host_providers(cli->_host);
        return 0;
    }
    return abx_host_used_providers(cli->_host, ids, err);
}

/* One provider that fails is an error of its own if there are others: they are listed all the same. */
static int collect(abx_cli *cli, yyjson_mut_doc *d, yyjson_mut_val *list, int *code,
                   abx_error **err)
{
    const char *const *borrowed = NULL;
    if (choose(cli, &borrowed, err) < 0)
        return -1;
    size_t n = 0;
    while (borrowed[n])
        n++;
    ABX_AUTO_FREE const char **ids = abx_alloc_array(n + 1, sizeof *ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = borrowed[i];
    bool all = abx_has_flag(cli->args, ABX_FLAG_ALL_PROVIDERS);
    for (size_t i = 0; i < n; i++) {
        ABX_AUTO_ERROR failed = NULL;
        if (list_at(cli, ids[i], d, list, &failed) == 0)
            continue;
        if (n == 1 || failed->id == ABX_ERR_CANCELLED)
            return abx_error_take(err, ABX_TAKE(failed));
        /* A provider that was never set up has nothing to list. */
        if (all && failed->id == ABX_ERR_API_KEY && cli->verbose == 0)
            continue;
        if (all && (failed->id == ABX_ERR_FEATURE_MISSING || failed->id == ABX_ERR_PROVIDER_KIND)) {
            abx_cli_note(cli, "abx: nothing of '%s' is listed: %s", ids[i], abx_error_text(failed));
            continue;
        }
        int rc = abx_cli_report(cli, failed);
        *code = *code ? *code : rc;
    }
    return 0;
}

static int print_table(abx_cli *cli, yyjson_val *array, abx_error **err)
{
    static const char *const plain[] = {"ID",      "NAME",    "PROVIDER", "STATE",
                                        "CREATED", "EXPIRES", NULL};
    static const char *const wide[] = {"ID",      "NAME",     "PROVIDER", "STATE", "CREATED",
                                       "EXPIRES", "TEMPLATE", "LABELS",   NULL};
    abx_table t;
    abx_table_init(&t, cli->format == ABX_OUT_WIDE ? wide : plain);
    int64_t now = abx_now_wall_ms(), when;
    size_t i, n;
    yyjson_val *s;
    yyjson_arr_foreach(array, i, n, s)
    {
        char created[32] = "", expires[32] = "";
        if (abx_parse_rfc3339(abx_json_str(s, "createdAt", ""), &when) == 0)
            abx_format_relative(when, now, created);
        if (abx_parse_rfc3339(abx_json_str(s, "expiresAt", ""), &when) == 0)
            abx_format_relative(when, now, expires);
        ABX_AUTO_FREE char *labels = NULL;
        yyjson_val *metadata = abx_json_get(s, "metadata");
        if (metadata && yyjson_obj_size(metadata) > 0)
            labels = abx_json_text(metadata);
        const char *cells[] = {abx_json_str(s, "id", NULL),
                               abx_json_str(s, "name", NULL),
                               abx_json_str(s, "provider", NULL),
                               abx_json_str(s, "state", NULL),
                               created,
                               expires,
                               abx_json_str(s, "template", NULL),
                               labels};
        abx_table_add(&t, cells);
    }
    return abx_print_table(cli, &t, err);
}

/* Without -a: only what runs. */
static void hide_paused(abx_cli *cli, yyjson_mut_val *list)
{
    size_t hidden = 0;
    if (abx_has_flag(cli->args, ABX_FLAG_ALL))
        return;
    yyjson_mut_arr_iter at;
    yyjson_mut_arr_iter_init(list, &at);
    for (yyjson_mut_val *s; (s = yyjson_mut_arr_iter_next(&at)) != NULL;) {
        if (abx_str_eq(yyjson_mut_get_str(yyjson_mut_obj_get(s, "state")), "paused")) {
            (void)yyjson_mut_arr_iter_remove(&at);
            hidden++;
        }
    }
    if (hidden > 0)
        abx_cli_note(cli, "abx: %zu paused %s not shown; -a shows %s", hidden,
                     hidden == 1 ? "sandbox is" : "sandboxes are", hidden == 1 ? "it" : "them");
}

int abx_verb_ls(abx_cli *cli, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, "sandboxes");
    int code = 0;
    if (collect(cli, d, list, &code, err) < 0)
        return -1;
    hide_paused(cli, list);
    ABX_AUTO_JSON all = abx_json_freeze(d);
    ABX_AUTO_JSON doc =
        abx_limit_list(cli, "sandboxes", abx_json_get(yyjson_doc_get_root(all), "sandboxes"));
    yyjson_val *array = abx_json_get(yyjson_doc_get_root(doc), "sandboxes");
    int rc = abx_print_list(cli, "sandboxes", array, "id", err);
    if (rc == 0)
        rc = print_table(cli, array, err);
    return rc < 0 ? -1 : code;
}
