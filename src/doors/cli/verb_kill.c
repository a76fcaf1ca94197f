#include <stdlib.h>

#include "base/mem.h"
#include "doors/cli/ask.h"
#include "doors/cli/print.h"
#include "doors/cli/verbs.h"

typedef struct killing {
    yyjson_mut_doc *d;
    yyjson_mut_val *ids;
    int code; /* of the first failure */
} killing;

/* 0, or -1 when the run was interrupted. A sandbox that is gone is what was wanted. provider NULL: the one that the ledger
 * names. */
static int kill_one(abx_cli *cli, const char *provider, const char *word, killing *k,
                    abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_ERROR failed = NULL;
    if (abx_cli_call_at(cli, provider, ABX_OP_SANDBOX_KILL, abx_cli_params(word, &root), NULL,
                        &failed) == 0) {
        yyjson_mut_arr_add_strcpy(k->d, k->ids, word);
        return 0;
    }
    if (failed->id == ABX_ERR_SANDBOX_NOT_FOUND) {
        abx_cli_note(cli, "abx: no sandbox '%s' lives: nothing to do", word);
        return 0;
    }
    if (failed->id == ABX_ERR_CANCELLED)
        return abx_error_take(err, ABX_TAKE(failed));
    int rc = abx_cli_report(cli, failed);
    k->code = k->code ? k->code : rc;
    return 0;
}

static int kill_all(abx_cli *cli, killing *k, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_JSON found = NULL;
    if (abx_cli_call(cli, ABX_OP_SANDBOX_LIST, abx_mut_new(&root), &found, err) < 0)
        return -1;
    yyjson_val *list = abx_json_get(yyjson_doc_get_root(found), "sandboxes");
    size_t count = yyjson_arr_size(list);
    if (count == 0) {
        abx_cli_note(cli, "abx: no sandbox lives: nothing to do");
        return 0;
    }
    ABX_AUTO_FREE char *question =
        abx_format("end %zu sandbox%s of provider '%s'", count, count == 1 ? "" : "es",
                   abx_host_provider(cli->_host, NULL));
    int yes = cli->dry_run ? 1 : abx_confirm(cli, question, "-y", err);
    if (yes == 0) {
        abx_cli_note(cli, "abx: nothing was ended");
        k->code = 1;
    }
    if (yes <= 0)
        return yes;
    size_t i, n;
    yyjson_val *item;
    /* By the provider's own list: it also knows those whose entry in the ledger is lost. */
    const char *provider = abx_host_provider(cli->_host, NULL);
    yyjson_arr_foreach(list, i, n, item)
    {
        if (kill_one(cli, provider, abx_json_str(item, "id", ""), k, err) < 0)
            return -1;
    }
    return 0;
}

int abx_verb_kill(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    bool all = abx_has_flag(a, ABX_FLAG_ALL);
    if (all == (a->word_count > 0)) {
        abx_fail(err, ABX_ERR_USAGE,
                 all ? "'--all' does not go together with ids"
                     : "'abx kill' needs a sandbox, or --all");
        return abx_hint(err, "usage: abx %s", a->verb->usage);
    }
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    killing k = {d, abx_mut_arr(d, root, "killed"), 0};
    if (all && kill_all(cli, &k, err) < 0)
        return -1;
    for (size_t i = 0; i < a->word_count; i++)
        if (kill_one(cli, NULL, a->words[i], &k, err) < 0)
            return -1;
    if (abx_cli_json(cli) && abx_print_json_mut(cli, root, err) < 0)
        return -1;
    return k.code;
}
