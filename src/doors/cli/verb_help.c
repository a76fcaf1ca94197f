#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "doors/cli/dry_run.h"
#include "doors/cli/help.h"
#include "doors/cli/man.h"
#include "doors/cli/pager.h"
#include "doors/cli/print.h"
#include "doors/cli/suggest.h"
#include "doors/cli/verbs.h"

static int write_page(const char *dir, const char *name, const abx_buf *text, abx_error **err)
{
    ABX_AUTO_FREE char *path = abx_path_join(dir, name);
    return abx_write_atomic(path, text->data, text->len, 0644, false, err);
}

static int write_manual(const char *dir, abx_error **err)
{
    if (abx_make_dirs(dir, 0755, err) < 0)
        return -1;
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    abx_man_main(&text);
    if (write_page(dir, "abx.1", &text, err) < 0)
        return -1;
    for (int i = 0; i < ABX_VERB_COUNT; i++) {
        const abx_verb *v = abx_verb_row((abx_verb_id)i);
        ABX_AUTO_FREE char *name = abx_man_file(v);
        abx_buf_reset(&text);
        abx_man_verb(v, &text);
        if (write_page(dir, name, &text, err) < 0)
            return -1;
    }
    return 0;
}

int abx_verb_help(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    const char *dir = abx_flag_value(a, ABX_FLAG_MAN, NULL);
    if (dir && cli->dry_run) {
        yyjson_mut_val *root = NULL;
        yyjson_mut_doc *d = abx_mut_new(&root);
        abx_mut_str(d, root, "folder", dir);
        return abx_dry_run_add(cli, "help.man", NULL, d, err);
    }
    if (dir)
        return write_manual(dir, err);
    if (abx_pager_start(cli, err) < 0)
        return -1;
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    if (a->word_count == 0) {
        abx_help_short(&text);
        return abx_print_buf(cli, &text, err);
    }
    const char *first = a->words[0];
    const char *second = a->word_count > 1 ? a->words[1] : NULL;
    const char *inner = second ? abx_verb_subgroup(first, second) : NULL;
    if (inner) {
        first = inner;
        second = a->word_count > 2 ? a->words[2] : NULL;
    } else if (a->word_count > 2) {
        return abx_fail(err, ABX_ERR_USAGE, "'%s' is one word too many", a->words[2]);
    }
    int words = 0;
    const abx_verb *verb = abx_verb_find(first, second, &words);
    if (!verb && !second && abx_is_verb_group(first))
        abx_help_group(first, &text);
    else if (!verb || (second && words == 1))
        return abx_fail_unknown_verb(verb || !abx_is_verb_group(first) ? NULL : first,
                                     second ? second : first, err);
    else
        abx_help_verb(verb, &text);
    return abx_print_buf(cli, &text, err);
}
