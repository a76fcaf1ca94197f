/* pause, resume. */
#include "base/clock.h"
#include "doors/cli/each.h"
#include "doors/cli/verbs.h"

int abx_verb_pause(abx_cli *cli, abx_error **err)
{
    return abx_each_call(cli, ABX_OP_SANDBOX_PAUSE, "sandboxId", "paused", err);
}

static int resume_one(abx_cli *cli, const char *word, void *data, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_cli_params(word, &root);
    (void)data;
    if (abx_has_flag(cli->args, ABX_FLAG_TIMEOUT)) {
        uint64_t ms = abx_flag_number(cli->args, ABX_FLAG_TIMEOUT, 0);
        abx_mut_int(params, root, "timeoutMs", ms == ABX_FOREVER ? 0 : (int64_t)ms);
    }
    return abx_cli_call(cli, ABX_OP_SANDBOX_CONNECT, params, NULL, err);
}

int abx_verb_resume(abx_cli *cli, abx_error **err)
{
    return abx_each_word(cli, resume_one, NULL, "resumed", err);
}
