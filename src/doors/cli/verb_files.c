/* files: the verbs that change or tell; the bytes are in verb_files_bytes.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/details.h"
#include "doors/cli/each.h"
#include "doors/cli/file_text.h"
#include "doors/cli/print.h"
#include "doors/cli/remote_path.h"
#include "doors/cli/verbs.h"

/* {"sandboxId", "path", "user"} */
static yyjson_mut_doc *path_params(abx_cli *cli, const abx_remote_path *p, yyjson_mut_val **root)
{
    yyjson_mut_doc *d = abx_cli_params(p->sandbox, root);
    abx_mut_str(d, *root, "path", p->path);
    abx_mut_str(d, *root, "user", abx_flag_value(cli->args, ABX_FLAG_USER, NULL));
    return d;
}

static int stat_path(abx_cli *cli, const abx_remote_path *p, yyjson_doc **out, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    return abx_cli_call(cli, ABX_OP_FS_STAT, path_params(cli, p, &root), out, err);
}

static int print_files(abx_cli *cli, yyjson_val *array, abx_error **err)
{
    static const char *const headers[] = {"MODE", "OWNER", "SIZE", "MODIFIED", "NAME", NULL};
    abx_table t;
    abx_table_init(&t, headers);
    int64_t now = abx_now_wall_ms();
    size_t i, n;
    yyjson_val *f;
    yyjson_arr_foreach(array, i, n, f)
    {
        char mode[11], modified[32], size[32];
        abx_file_mode_text(f, mode);
        abx_file_time_text(f, now, modified);
        snprintf(size, sizeof size, "%lld", (long long)abx_json_int(f, "size", 0));
        ABX_AUTO_FREE char *name =
            abx_file_name_text(f, abx_flag_number(cli->args, ABX_FLAG_DEPTH, 1) > 1);
        const char *cells[] = {mode, abx_json_str(f, "owner", NULL), size, modified, name};
        abx_table_add(&t, cells);
    }
    return abx_print_table(cli, &t, err);
}

int abx_verb_files_ls(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    ABX_AUTO_REMOTE p = {NULL, NULL};
    if (a->word_count == 2) /* ID PATH */
        p = (abx_remote_path){abx_strdup(a->words[0]), abx_strdup(a->words[1])};
    else if (abx_remote_path_parse(&p, a->words[0], true, err) < 0)
        return -1;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = path_params(cli, &p, &root);
    if (abx_has_flag(cli->args, ABX_FLAG_DEPTH))
        abx_mut_int(params, root, "depth", (int64_t)abx_flag_number(cli->args, ABX_FLAG_DEPTH, 1));
    ABX_AUTO_JSON found = NULL;
    if (abx_cli_call(cli, ABX_OP_FS_LIST, params, &found, err) < 0)
        return -1;
    ABX_AUTO_JSON doc =
        abx_limit_list(cli, "files", abx_json_get(yyjson_doc_get_root(found), "files"));
    yyjson_val *array = abx_json_get(yyjson_doc_get_root(doc), "files");
    int rc = abx_print_list(cli, "files", array, "name", err);
    if (rc == 0)
        rc = print_files(cli, array, err);
    return rc < 0 ? -1 : 0;
}

int abx_verb_files_stat(abx_cli *cli, abx_error **err)
{
    ABX_AUTO_REMOTE p = {NULL, NULL};
    ABX_AUTO_JSON found = NULL;
    if (abx_remote_path_parse(&p, cli->args->words[0], false, err) < 0 ||
        stat_path(cli, &p, &found, err) < 0)
        return -1;
    yyjson_val *root = yyjson_doc_get_root(found);
    if (abx_cli_json(cli))
        return abx_print_json(cli, root, err);
    if (cli->format == ABX_OUT_NAME || cli->quiet)
        return abx_print_name(cli, abx_json_str(root, "path", "-"), err);
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    abx_file_details(root, &text);
    return abx_print_buf(cli, &text, err);
}

/* A folder goes only with -r: asked before, since the operation takes both. */
static int remove_one(abx_cli *cli, const char *word, void *data, abx_error **err)
{
    (void)data;
    ABX_AUTO_REMOTE p = {NULL, NULL};
    ABX_AUTO_JSON found = NULL;
    ABX_AUTO_ERROR failed = NULL;
    if (abx_remote_path_parse(&p, word, false, err) < 0)
        return -1;
    if (stat_path(cli, &p, &found, &failed) < 0) {
        if (failed->id == ABX_ERR_FILE_NOT_FOUND && abx_has_flag(cli->args, ABX_FLAG_FORCE))
            return 0;
        return abx_error_take(err, ABX_TAKE(failed));
    }
    bool folder = abx_str_eq(abx_json_str(yyjson_doc_get_root(found), "type", ""), "dir");
    if (folder && !abx_has_flag(cli->args, ABX_FLAG_RECURSIVE)) {
        abx_fail(err, ABX_ERR_CONFLICT, "cannot remove '%s': it is a folder", word);
        return abx_hint(err, "-r removes a folder with all in it");
    }
    yyjson_mut_val *root = NULL;
    return abx_cli_call(cli, ABX_OP_FS_REMOVE, path_params(cli, &p, &root), NULL, err);
}

static int make_one(abx_cli *cli, const char *word, void *data, abx_error **err)
{
    (void)data;
    ABX_AUTO_REMOTE p = {NULL, NULL};
    ABX_AUTO_JSON made = NULL;
    yyjson_mut_val *root = NULL;
    if (abx_remote_path_parse(&p, word, false, err) < 0 ||
        abx_cli_call(cli, ABX_OP_FS_MAKE_DIR, path_params(cli, &p, &root), &made, err) < 0)
        return -1;
    if (abx_json_bool(yyjson_doc_get_root(made), "created", true) ||
        abx_has_flag(cli->args, ABX_FLAG_PARENTS))
        return 0;
    abx_fail(err, ABX_ERR_CONFLICT, "cannot make '%s': it exists", word);
    return abx_hint(err, "with -p a folder that exists is no error");
}

int abx_verb_files_rm(abx_cli *cli, abx_error **err)
{
    return abx_each_word(cli, remove_one, NULL, "removed", err);
}

int abx_verb_files_mkdir(abx_cli *cli, abx_error **err)
{
    return abx_each_word(cli, make_one, NULL, "created", err);
}

int abx_verb_files_mv(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    ABX_AUTO_REMOTE from = {NULL, NULL}, to = {NULL, NULL};
    if (abx_remote_path_parse(&from, a->words[0], false, err) < 0)
        return -1;
    abx_remote_path_init(&to, a->words[1]);
    if (to.sandbox && strcmp(to.sandbox, from.sandbox) != 0) {
        abx_fail(err, ABX_ERR_USAGE, "cannot move from '%s' to another sandbox '%s'", from.sandbox,
                 to.sandbox);
        return abx_hint(err, "abx cp %s %s copies between sandboxes", a->words[0], a->words[1]);
    }
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_cli_params(from.sandbox, &root);
    abx_mut_str(params, root, "from", from.path);
    abx_mut_str(params, root, "to", to.path);
    abx_mut_str(params, root, "user", abx_flag_value(a, ABX_FLAG_USER, NULL));
    ABX_AUTO_JSON moved = NULL;
    if (abx_cli_call(cli, ABX_OP_FS_RENAME, params, &moved, err) < 0)
        return -1;
    return abx_cli_json(cli) ? abx_print_json(cli, yyjson_doc_get_root(moved), err) : 0;
}
