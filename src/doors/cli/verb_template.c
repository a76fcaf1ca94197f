/* template add, ls, info, rm. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/details.h"
#include "doors/cli/each.h"
#include "doors/cli/params.h"
#include "doors/cli/print.h"
#include "doors/cli/verbs.h"
#include "doors/cli/work_call.h"

int abx_verb_template_add(abx_cli *cli, abx_error **err)
{
    const abx_args *args = cli->args;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_mut_new(&root);
    ABX_AUTO_FREE char *path = abx_params_path(args->words[1]);
    abx_mut_str(params, root, "name", args->words[0]);
    abx_mut_str(params, root, "source", path);
    ABX_AUTO_JSON result = NULL;
    if (abx_work_call(cli, ABX_OP_SANDBOX_TEMPLATE_ADD, params, "unpacking", &result, err) < 0)
        return -1;
    yyjson_val *t = yyjson_doc_get_root(result);
    if (abx_cli_json(cli))
        return abx_print_json(cli, t, err);
    return abx_print_line(cli, abx_json_str(t, "id", ""), err);
}

/* --- ls, info ------------------------------------------------------------------------------------------- */

static void add_row(abx_table *table, yyjson_val *t, int64_t now)
{
    char created[32] = "", size[32] = "";
    int64_t when;
    if (abx_parse_rfc3339(abx_json_str(t, "createdAt", ""), &when) == 0)
        abx_format_relative(when, now, created);
    if (abx_json_int(t, "size", -1) >= 0)
        abx_format_size((uint64_t)abx_json_int(t, "size", 0), size);
    ABX_AUTO_FREE char *layers =
        abx_json_get(t, "layers") ? abx_json_text(abx_json_get(t, "layers")) : NULL;
    const char *cells[] = {abx_json_str(t, "name", NULL),
                           abx_json_str(t, "id", NULL),
                           abx_json_str(t, "kind", NULL),
                           size,
                           created,
                           layers,
                           abx_json_str(t, "source", NULL)};
    abx_table_add(table, cells);
}

static int print_table(abx_cli *cli, yyjson_val *array, abx_error **err)
{
    static const char *const plain[] = {"NAME", "ID", "KIND", "SIZE", "CREATED", NULL};
    static const char *const wide[] = {"NAME",    "ID",     "KIND",   "SIZE",
                                       "CREATED", "LAYERS", "SOURCE", NULL};
    abx_table table;
    abx_table_init(&table, cli->format == ABX_OUT_WIDE ? wide : plain);
    int64_t now = abx_now_wall_ms();
    size_t i, n;
    yyjson_val *t;
    yyjson_arr_foreach(array, i, n, t)
    {
        add_row(&table, t, now);
    }
    return abx_print_table(cli, &table, err);
}

int abx_verb_template_ls(abx_cli *cli, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_JSON found = NULL;
    if (abx_cli_call(cli, ABX_OP_SANDBOX_TEMPLATE_LIST, abx_mut_new(&root), &found, err) < 0)
        return -1;
    yyjson_val *array = abx_json_get(yyjson_doc_get_root(found), "templates");
    int rc = abx_print_list(cli, "templates", array, "id", err);
    return rc == 0 ? print_table(cli, array, err) : rc < 0 ? -1 : 0;
}

int abx_verb_template_info(abx_cli *cli, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_mut_new(&root);
    abx_mut_str(params, root, "template", cli->args->words[0]);
    ABX_AUTO_JSON found = NULL;
    if (abx_cli_call(cli, ABX_OP_SANDBOX_TEMPLATE_INFO, params, &found, err) < 0)
        return -1;
    yyjson_val *t = yyjson_doc_get_root(found);
    if (abx_cli_json(cli))
        return abx_print_json(cli, t, err);
    if (cli->format == ABX_OUT_NAME || cli->quiet)
        return abx_print_line(cli, abx_json_str(t, "id", "-"), err);
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    abx_details(t, &text);
    return abx_print_buf(cli, &text, err);
}

/* --- rm ------------------------------------------------------------------------------------------------- */

int abx_verb_template_rm(abx_cli *cli, abx_error **err)
{
    return abx_each_call(cli, ABX_OP_SANDBOX_TEMPLATE_REMOVE, "template", NULL, err);
}
