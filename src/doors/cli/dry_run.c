#include "doors/cli/dry_run.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/print.h"

static const char mark[] = "dry run: noted";

static bool reads_only(abx_op_id op)
{
    switch (op) {
    case ABX_OP_PTY_OPEN: return false; /* a GET, since it is a WebSocket */
    case ABX_OP_PROVIDER_GC:            /* has a dry run of its own */
    case ABX_OP_PROVIDER_DOCTOR: return true;
    default: return strcmp(abx_op_row_of(op)->http, "GET") == 0;
    }
}

bool abx_dry_run_holds(const abx_cli *cli, abx_op_id op)
{
    return cli->dry_run && !reads_only(op);
}

bool abx_is_dry_run(const abx_cli *cli, const abx_error *e)
{
    return cli->dry_run && e && e->id == ABX_ERR_CONFLICT && strcmp(abx_error_text(e), mark) == 0;
}

void abx_params_blank(yyjson_mut_val *params)
{
    yyjson_mut_obj_iter at;
    yyjson_mut_obj_iter_init(yyjson_mut_obj_get(params, "env"), &at);
    for (yyjson_mut_val *key; (key = yyjson_mut_obj_iter_next(&at)) != NULL;)
        yyjson_mut_set_str(yyjson_mut_obj_iter_get_val(key), "...");
}

static yyjson_mut_val *new_action(abx_cli *cli, const char *what, const char *provider)
{
    yyjson_mut_val *root = NULL;
    if (!cli->_plan) {
        cli->_plan = abx_mut_new(&root);
        abx_mut_bool(cli->_plan, root, "dryRun", true);
        abx_mut_arr(cli->_plan, root, "actions");
    }
    root = yyjson_mut_doc_get_root(cli->_plan);
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(cli->_plan, yyjson_mut_obj_get(root, "actions"));
    abx_mut_str(cli->_plan, o, "operation", what);
    abx_mut_str(cli->_plan, o, "provider", provider);
    return o;
}

int abx_dry_run_add(abx_cli *cli, const char *what, const char *provider, yyjson_mut_doc *params,
                    abx_error **err)
{
    ABX_AUTO_MUT taken = params;
    yyjson_mut_val *o = new_action(cli, what, provider);
    yyjson_mut_val *copy = taken
                               ? yyjson_mut_val_mut_copy(cli->_plan, yyjson_mut_doc_get_root(taken))
                               : yyjson_mut_obj(cli->_plan);
    const char *sandbox = yyjson_mut_get_str(yyjson_mut_obj_get(copy, "sandboxId"));
    abx_mut_str(cli->_plan, o, "sandbox", sandbox);
    yyjson_mut_obj_remove_key(copy, "sandboxId");
    abx_params_blank(copy);
    abx_mut_put(cli->_plan, o, "params", copy);
    return abx_fail(err, ABX_ERR_CONFLICT, mark);
}

int abx_dry_run_note(abx_cli *cli, const char *provider, abx_call *call, abx_error **err)
{
    ABX_AUTO_FREE char *chosen = NULL;
    ABX_AUTO_FREE char *sandbox = NULL;
    if (abx_host_check(cli->_host, provider, call, &chosen, &sandbox, err) < 0)
        return -1;
    ABX_AUTO_MUT params = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_val_mut_copy(params, abx_call_params(call));
    yyjson_mut_doc_set_root(params, root);
    if (sandbox)
        abx_mut_str(params, root, "sandboxId", sandbox);
    return abx_dry_run_add(cli, abx_call_op(call)->method, chosen, ABX_TAKE(params), err);
}

/* --- printing -------------------------------------------------------------------------------------------- */

static int print_table(abx_cli *cli, yyjson_val *actions, abx_error **err)
{
    static const char *const headers[] = {"OPERATION", "PROVIDER", "SANDBOX", "PARAMETERS", NULL};
    abx_table t;
    abx_table_init(&t, headers);
    size_t i, n;
    yyjson_val *a;
    yyjson_arr_foreach(actions, i, n, a)
    {
        yyjson_val *params = abx_json_get(a, "params");
        ABX_AUTO_FREE char *text = yyjson_obj_size(params) > 0 ? abx_json_text(params) : NULL;
        const char *cells[] = {abx_json_str(a, "operation", NULL),
                               abx_json_str(a, "provider", NULL), abx_json_str(a, "sandbox", NULL),
                               text};
        abx_table_add(&t, cells);
    }
    abx_cli_note(cli, "abx: dry run: nothing was changed");
    return abx_print_table(cli, &t, err);
}

int abx_dry_run_print(abx_cli *cli, abx_error **err)
{
    if (!cli->_plan)
        return 0;
    ABX_AUTO_JSON doc = abx_json_freeze(cli->_plan);
    yyjson_mut_doc_free(ABX_TAKE(cli->_plan)); /* printing is allowed again */
    yyjson_val *root = yyjson_doc_get_root(doc);
    yyjson_val *actions = abx_json_get(root, "actions");
    if (cli->format == ABX_OUT_JSON)
        return abx_print_json(cli, root, err);
    int rc = abx_print_list(cli, "actions", actions, "operation", err);
    if (rc == 0)
        rc = print_table(cli, actions, err);
    return rc < 0 ? -1 : 0;
}
