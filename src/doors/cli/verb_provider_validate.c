/* provider validate: all mistakes of a plugin's folder at once. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "doors/cli/print.h"
#include "doors/cli/verbs.h"
#include "host/plugin.h"

static yyjson_mut_doc *as_json(const abx_manifest *m, const abx_problems *problems)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_bool(d, root, "valid", problems->errors == 0);
    if (m) {
        abx_mut_str(d, root, "id", m->id);
        abx_mut_str(d, root, "version", m->version);
        abx_mut_str(d, root, "kind", abx_kind_name(m->kind));
    }
    abx_mut_int(d, root, "errors", (int64_t)problems->errors);
    abx_mut_int(d, root, "warnings", (int64_t)problems->warnings);
    yyjson_mut_val *list = abx_mut_arr(d, root, "problems");
    for (size_t i = 0; i < problems->count; i++)
        yyjson_mut_arr_append(list, abx_problem_json(d, &problems->items[i]));
    return d;
}

static int print_text(abx_cli *cli, const abx_manifest *m, const abx_problems *problems,
                      abx_error **err)
{
    ABX_AUTO_BUF out = ABX_BUF(SIZE_MAX / 2);
    for (size_t i = 0; i < problems->count; i++) {
        const abx_problem *p = &problems->items[i];
        ABX_AUTO_FREE char *line = abx_problem_line(p);
        (void)!abx_buf_addf(&out, "%s\n", line);
        if (p->hint)
            (void)!abx_buf_addf(&out, "  hint: %s\n", p->hint);
    }
    size_t left = problems->errors + problems->warnings - problems->count;
    if (left)
        (void)!abx_buf_addf(&out, "and %zu more\n", left);
    if (m && problems->errors == 0 && !cli->quiet)
        (void)!abx_buf_addf(&out, "%s %s (%s, %s): no mistakes\n", m->id, m->version,
                            abx_kind_name(m->kind), m->protocol);
    return abx_print_buf(cli, &out, err);
}

int abx_verb_provider_validate(abx_cli *cli, abx_error **err)
{
    const char *folder = cli->args->words[0];
    ABX_AUTO_FD fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        int why = errno;
        abx_fail_errno(err, ABX_ERR_PROVIDER_NOT_FOUND, why, "cannot open the folder '%s'", folder);
        return abx_hint(err, "DIR is a folder with a file " ABX_MANIFEST_NAME);
    }
    ABX_AUTO_PROBLEMS problems = ABX_PROBLEMS;
    ABX_AUTO(abx_manifest, abx_manifest_free) m = abx_manifest_read(fd, folder, &problems);
    if (m)
        abx_plugin_find_program(m, fd, folder, NULL, &problems);
    abx_problems_sort(&problems);
    ABX_AUTO_MUT d = as_json(m, &problems);
    int rc = abx_cli_json(cli) ? abx_print_json_mut(cli, yyjson_mut_doc_get_root(d), err)
                               : print_text(cli, m, &problems, err);
    if (rc < 0)
        return -1;
    return problems.errors ? abx_err_row_of(ABX_ERR_PROVIDER_MANIFEST)->exit_code : 0;
}
