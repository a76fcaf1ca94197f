#include "doors/cli/complete.h"
#include "doors/cli/print.h"
#include "doors/cli/verbs.h"

int abx_verb_completion(abx_cli *cli, abx_error **err)
{
    const char *shell = cli->args->words[0];
    const char *text = abx_completion_script(shell);
    if (text)
        return abx_print_str(cli, text, err);
    abx_fail(err, ABX_ERR_USAGE, "no completion for '%s'", shell);
    return abx_hint(err, "one of: bash, zsh, fish");
}
