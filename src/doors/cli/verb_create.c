#include <unistd.h>

#include "base/mem.h"
#include "doors/cli/params.h"
#include "doors/cli/print.h"
#include "doors/cli/verbs.h"

int abx_verb_create(abx_cli *cli, abx_error **err)
{
    yyjson_mut_doc *params = abx_params_create(cli, false, true, err);
    if (!params)
        return -1;
    ABX_AUTO_JSON sandbox = NULL;
    if (abx_cli_call(cli, ABX_OP_SANDBOX_CREATE, params, &sandbox, err) < 0)
        return -1;
    yyjson_val *root = yyjson_doc_get_root(sandbox);
    abx_note_watched(cli, root);
    if (abx_cli_json(cli))
        return abx_print_json(cli, root, err);
    const char *id = abx_json_str(root, "id", "");
    if (abx_print_line(cli, id, err) < 0)
        return -1;
    if (isatty(STDOUT_FILENO) && isatty(STDERR_FILENO)) {
        const char *name = abx_flag_value(cli->args, ABX_FLAG_NAME, id);
        abx_cli_note(cli, "hint: abx exec %s -- COMMAND, abx shell %s, abx kill %s", name, name,
                     name);
    }
    return 0;
}
