/* network: what a living sandbox may reach from now on. */
#include "base/mem.h"
#include "doors/cli/params.h"
#include "doors/cli/print.h"
#include "doors/cli/verbs.h"

int abx_verb_network(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_cli_params(a->words[0], &root);
    if (abx_params_network(params, root, (const char *const *)a->words + 1, a->word_count - 1,
                           err) < 0) {
        yyjson_mut_doc_free(params);
        return -1;
    }
    ABX_AUTO_FREE char *network =
        abx_strdup(yyjson_mut_get_str(yyjson_mut_obj_get(root, "network")));
    if (abx_cli_call(cli, ABX_OP_SANDBOX_SET_NETWORK, params, NULL, err) < 0)
        return -1;
    if (!abx_cli_json(cli))
        return 0;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "id", a->words[0]);
    abx_mut_str(d, root, "network", network);
    return abx_print_json_mut(cli, root, err);
}
