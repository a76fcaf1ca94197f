/* snapshot create, ls, rm; fork. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/each.h"
#include "doors/cli/params.h"
#include "doors/cli/print.h"
#include "doors/cli/verbs.h"
#include "doors/cli/work_call.h"

int abx_verb_snapshot_create(abx_cli *cli, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_cli_params(cli->args->words[0], &root);
    abx_mut_str(params, root, "name", abx_flag_value(cli->args, ABX_FLAG_NAME, NULL));
    ABX_AUTO_JSON result = NULL;
    if (abx_work_call(cli, ABX_OP_SANDBOX_SNAPSHOT_CREATE, params, "copying", &result, err) < 0)
        return -1;
    yyjson_val *s = yyjson_doc_get_root(result);
    if (abx_cli_json(cli))
        return abx_print_json(cli, s, err);
    return abx_print_line(cli, abx_json_str(s, "id", ""), err);
}

static int print_table(abx_cli *cli, yyjson_val *array, abx_error **err)
{
    static const char *const headers[] = {"ID",   "NAME",    "SANDBOX", "TEMPLATE",
                                          "SIZE", "CREATED", NULL};
    abx_table table;
    abx_table_init(&table, headers);
    int64_t now = abx_now_wall_ms(), when;
    size_t i, n;
    yyjson_val *s;
    yyjson_arr_foreach(array, i, n, s)
    {
        char created[32] = "", size[32];
        if (abx_parse_rfc3339(abx_json_str(s, "createdAt", ""), &when) == 0)
            abx_format_relative(when, now, created);
        abx_format_size((uint64_t)abx_json_int(s, "size", 0), size);
        const char *cells[] = {abx_json_str(s, "id", NULL),
                               abx_json_str(s, "name", NULL),
                               abx_json_str(s, "sandbox", NULL),
                               abx_json_str(s, "template", NULL),
                               size,
                               created};
        abx_table_add(&table, cells);
    }
    return abx_print_table(cli, &table, err);
}

int abx_verb_snapshot_ls(abx_cli *cli, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_JSON found = NULL;
    if (abx_cli_call(cli, ABX_OP_SANDBOX_SNAPSHOT_LIST, abx_mut_new(&root), &found, err) < 0)
        return -1;
    yyjson_val *array = abx_json_get(yyjson_doc_get_root(found), "snapshots");
    int rc = abx_print_list(cli, "snapshots", array, "id", err);
    return rc == 0 ? print_table(cli, array, err) : rc < 0 ? -1 : 0;
}

int abx_verb_snapshot_rm(abx_cli *cli, abx_error **err)
{
    return abx_each_call(cli, ABX_OP_SANDBOX_SNAPSHOT_REMOVE, "snapshotId", NULL, err);
}

int abx_verb_fork(abx_cli *cli, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT params = abx_params_fork(cli, cli->args->words[0], &root, err);
    ABX_AUTO_JSON sandbox = NULL;
    if (!params || abx_cli_call(cli, ABX_OP_SANDBOX_FORK, ABX_TAKE(params), &sandbox, err) < 0)
        return -1;
    yyjson_val *s = yyjson_doc_get_root(sandbox);
    if (abx_cli_json(cli))
        return abx_print_json(cli, s, err);
    return abx_print_line(cli, abx_json_str(s, "id", ""), err);
}
