#include <string.h>

#include "base/mem.h"
#include "doors/cli/copy.h"
#include "doors/cli/print.h"
#include "doors/cli/verbs.h"

static int copy(abx_copy *c, const char *from_word, const char *to_word, abx_error **err)
{
    ABX_AUTO_REMOTE from = {NULL, NULL}, to = {NULL, NULL};
    abx_remote_path_init(&from, from_word);
    abx_remote_path_init(&to, to_word);
    if (from.sandbox && to.sandbox)
        return abx_copy_between(c, from_word, &from, &to, err);
    if (from.sandbox)
        return abx_copy_out(c, from_word, &from, to_word, err);
    if (to.sandbox)
        return abx_copy_in(c, from_word, &to, err);
    abx_fail(err, ABX_ERR_USAGE, "neither '%s' nor '%s' names a sandbox", from_word, to_word);
    return abx_hint(err, "write ID:PATH for a path in a sandbox, as box:/work");
}

int abx_verb_cp(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    abx_copy c = {.cli = cli, .user = abx_flag_value(a, ABX_FLAG_USER, NULL)};
    if (abx_cli_open(cli, err) < 0)
        return -1;
    abx_transfer_begin(&c.transfer, cli, "copying");
    int rc = copy(&c, a->words[0], a->words[1], err);
    abx_transfer_end(&c.transfer);
    if (rc < 0)
        return -1;
    if (!abx_cli_json(cli) || strcmp(a->words[1], "-") == 0)
        return 0;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_int(d, root, "files", c.files);
    abx_mut_int(d, root, "bytes", c.bytes);
    return abx_print_json_mut(cli, root, err);
}
