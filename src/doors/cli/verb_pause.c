/* pause, resume: each sandbox is tried; the code is that of the first failure. */
#include "base/clock.h"
#include "base/mem.h"
#include "doors/cli/print.h"
#include "doors/cli/verbs.h"

/* key: the list of --json. timeout_ms < 0: none is sent. */
static int each(abx_cli *cli, abx_op_id op, const char *key, int64_t timeout_ms, abx_error **err)
{
    const abx_args *a = cli->args;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, key);
    int code = 0;
    for (size_t i = 0; i < a->word_count; i++) {
        yyjson_mut_val *o = NULL;
        ABX_AUTO_ERROR failed = NULL;
        yyjson_mut_doc *params = abx_cli_params(a->words[i], &o);
        if (timeout_ms >= 0)
            abx_mut_int(params, o, "timeoutMs", timeout_ms);
        if (abx_cli_call(cli, op, params, NULL, &failed) == 0) {
            yyjson_mut_arr_add_strcpy(d, list, a->words[i]);
            continue;
        }
        if (a->word_count == 1 || failed->id == ABX_ERR_CANCELLED)
            return abx_error_take(err, ABX_TAKE(failed));
        int rc = abx_cli_report(cli, failed);
        code = code ? code : rc;
    }
    if (abx_cli_json(cli) && abx_print_json_mut(cli, root, err) < 0)
        return -1;
    return code;
}

int abx_verb_pause(abx_cli *cli, abx_error **err)
{
    return each(cli, ABX_OP_SANDBOX_PAUSE, "paused", -1, err);
}

int abx_verb_resume(abx_cli *cli, abx_error **err)
{
    int64_t timeout_ms = -1;
    if (abx_has_flag(cli->args, ABX_FLAG_TIMEOUT)) {
        uint64_t ms = abx_flag_number(cli->args, ABX_FLAG_TIMEOUT, 0);
        timeout_ms = ms == ABX_FOREVER ? 0 : (int64_t)ms;
    }
    return each(cli, ABX_OP_SANDBOX_CONNECT, "resumed", timeout_ms, err);
}
