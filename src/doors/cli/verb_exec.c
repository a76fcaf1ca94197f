#include "base/mem.h"
#include "doors/cli/print.h"
#include "doors/cli/start.h"
#include "doors/cli/verbs.h"

int abx_verb_exec(abx_cli *cli, abx_error **err)
{
    const char *id = cli->args->words[0];
    abx_stdin_plan plan;
    if (abx_start_plan(cli, &plan, err) < 0)
        return -1;
    if (!abx_has_flag(cli->args, ABX_FLAG_DETACH))
        return abx_start_foreground(cli, id, &plan, true, err);
    ABX_AUTO_JSON job = NULL;
    if (abx_start_background(cli, id, true, &job, err) < 0)
        return -1;
    yyjson_val *root = yyjson_doc_get_root(job);
    if (abx_cli_json(cli))
        return abx_print_json(cli, root, err);
    return abx_print_line(cli, abx_json_str(root, "id", ""), err);
}

int abx_verb_shell(abx_cli *cli, abx_error **err)
{
    const char *id = cli->args->words[0];
    abx_stdin_plan plan;
    if (abx_start_plan(cli, &plan, err) < 0)
        return -1;
    yyjson_mut_val *root = NULL;
    if (!cli->dry_run &&
        abx_cli_call(cli, ABX_OP_SANDBOX_CONNECT, abx_cli_params(id, &root), NULL, err) < 0)
        return -1;
    if (cli->args->word_count > 1)
        return abx_start_attach(cli, id, cli->args->words[1], &plan, err);
    return abx_start_foreground(cli, id, &plan, true, err);
}
