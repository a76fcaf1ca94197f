#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "doors/cli/copy.h"
#include "doors/cli/dry_run.h"
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

/* A path in a sandbox must be there (only the folder above it where it is the target: not asked); one of this machine too. */
static int check_source(abx_cli *cli, const char *word, abx_error **err)
{
    ABX_AUTO_REMOTE p = {NULL, NULL};
    struct stat st;
    abx_remote_path_init(&p, word);
    if (!p.sandbox && strcmp(word, "-") != 0 && lstat(word, &st) < 0)
        return abx_fail_errno(err, errno == ENOENT ? ABX_ERR_FILE_NOT_FOUND : ABX_ERR_FILE, errno,
                              "cannot read '%s'", word);
    if (!p.sandbox)
        return 0;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_cli_params(p.sandbox, &root);
    abx_mut_str(d, root, "path", p.path);
    abx_mut_str(d, root, "user", abx_flag_value(cli->args, ABX_FLAG_USER, NULL));
    return abx_cli_call(cli, ABX_OP_FS_STAT, d, NULL, err);
}

static int plan_copy(abx_cli *cli, const char *from, const char *to, abx_error **err)
{
    ABX_AUTO_REMOTE a = {NULL, NULL}, b = {NULL, NULL};
    abx_remote_path_init(&a, from);
    abx_remote_path_init(&b, to);
    if (!a.sandbox && !b.sandbox)
        return copy(NULL, from, to, err); /* tells what is wrong with that */
    if (check_source(cli, from, err) < 0)
        return -1;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "from", from);
    abx_mut_str(d, root, "to", to);
    return abx_dry_run_add(cli, "cp", NULL, d, err);
}

int abx_verb_cp(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    if (cli->dry_run)
        return plan_copy(cli, a->words[0], a->words[1], err);
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
