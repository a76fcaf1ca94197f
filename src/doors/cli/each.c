#include "doors/cli/each.h"

#include "base/mem.h"
#include "doors/cli/print.h"

int abx_each_word(abx_cli *cli, abx_each_cb one, void *data, const char *done, abx_error **err)
{
    const abx_args *a = cli->args;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, done ? done : "done");
    int code = 0;
    for (size_t i = 0; i < a->word_count; i++) {
        ABX_AUTO_ERROR failed = NULL;
        if (one(cli, a->words[i], data, &failed) == 0) {
            yyjson_mut_arr_add_strcpy(d, list, a->words[i]);
            continue;
        }
        if (a->word_count == 1 || failed->id == ABX_ERR_CANCELLED)
            return abx_error_take(err, ABX_TAKE(failed));
        int rc = abx_cli_report(cli, failed);
        code = code ? code : rc;
    }
    if (done && abx_cli_json(cli) && abx_print_json_mut(cli, root, err) < 0)
        return -1;
    return code;
}

typedef struct called {
    abx_op_id op;
    const char *param;
} called;

static int call_one(abx_cli *cli, const char *word, void *data, abx_error **err)
{
    const called *c = data;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_mut_new(&root);
    abx_mut_str(params, root, c->param, word);
    return abx_cli_call(cli, c->op, params, NULL, err);
}

int abx_each_call(abx_cli *cli, abx_op_id op, const char *param, const char *done, abx_error **err)
{
    called c = {op, param};
    return abx_each_word(cli, call_one, &c, done, err);
}
