#include "base/mem.h"
#include "doors/cli/details.h"
#include "doors/cli/print.h"
#include "doors/cli/verbs.h"

static int print_one(abx_cli *cli, yyjson_val *sandbox, bool first, abx_error **err)
{
    if (cli->format == ABX_OUT_JSONL || cli->format == ABX_OUT_JSON)
        return abx_print_json(cli, sandbox, err);
    if (cli->format == ABX_OUT_NAME || cli->quiet)
        return abx_print_line(cli, abx_json_str(sandbox, "id", "-"), err);
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    if (!first)
        ABX_CHECK(abx_buf_add_byte(&text, '\n') == 0);
    abx_details(sandbox, &text);
    return abx_print_buf(cli, &text, err);
}

int abx_verb_info(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    bool as_list = a->word_count > 1 && cli->format == ABX_OUT_JSON;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, "sandboxes");
    int code = 0;
    for (size_t i = 0; i < a->word_count; i++) {
        yyjson_mut_val *params_root = NULL;
        ABX_AUTO_JSON found = NULL;
        ABX_AUTO_ERROR failed = NULL;
        if (abx_cli_call(cli, ABX_OP_SANDBOX_INFO, abx_cli_params(a->words[i], &params_root),
                         &found, &failed) < 0) {
            if (a->word_count == 1 || failed->id == ABX_ERR_CANCELLED)
                return abx_error_take(err, ABX_TAKE(failed));
            int rc = abx_cli_report(cli, failed);
            code = code ? code : rc;
            continue;
        }
        yyjson_val *sandbox = yyjson_doc_get_root(found);
        if (as_list)
            yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, sandbox));
        else if (print_one(cli, sandbox, i == 0, err) < 0)
            return -1;
    }
    if (as_list && abx_print_json_mut(cli, root, err) < 0)
        return -1;
    return code;
}
