/* provider test. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "doors/cli/print.h"
#include "doors/cli/suite/report.h"
#include "doors/cli/table.h"
#include "doors/cli/verbs.h"

#define JOBS 4 /* cases at once */

static bool shows_progress(const abx_cli *cli)
{
    return !cli->quiet && !cli->verbose && !abx_cli_json(cli) && !getenv("CI") &&
           isatty(STDERR_FILENO);
}

static void on_case(const abx_suite_result *result, size_t done, size_t total, void *data)
{
    const abx_cli *cli = data;
    if (shows_progress(cli))
        fprintf(stderr, "\r%zu of %zu  %s\033[K", done, total, result->item->name);
}

static int write_junit(const abx_suite_report *report, const char *file, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    abx_suite_junit(report, &text);
    return abx_write_atomic(file, text.data, text.len, 0644, false, err);
}

static int tell(abx_cli *cli, const abx_suite *suite, const abx_suite_report *report,
                abx_error **err)
{
    const char *junit = abx_flag_value(cli->args, ABX_FLAG_JUNIT, NULL);
    if (junit && write_junit(report, junit, err) < 0)
        return -1;
    if (abx_suite_print(cli, suite, report, err) < 0)
        return -1;
    return report->failed > 0;
}

/* --dry-run: the cases, not run. */
static int list_cases(abx_cli *cli, const abx_suite *suite, const abx_suite_options *options,
                      abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, "cases");
    abx_table t;
    static const char *const headers[] = {"CASE", "TITLE", NULL};
    abx_table_init(&t, headers);
    for (size_t i = 0; i < suite->count; i++) {
        const abx_suite_case *item = &suite->cases[i];
        if (!abx_suite_wants(item, options))
            continue;
        yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
        abx_mut_str(d, o, "name", item->name);
        abx_mut_str(d, o, "group", item->group);
        abx_mut_str(d, o, "title", item->title);
        abx_mut_val(d, o, "needs", yyjson_obj_get(item->data, "needs"));
        const char *cells[] = {item->name, item->title};
        abx_table_add(&t, cells);
    }
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    abx_table_write(&t, abx_print_width(cli), &text);
    abx_table_clear(&t);
    ABX_AUTO_JSON doc = abx_json_freeze(d);
    int rc =
        abx_print_list(cli, "cases", abx_json_get(yyjson_doc_get_root(doc), "cases"), "name", err);
    if (rc == 0)
        rc = abx_print_buf(cli, &text, err);
    return rc < 0 ? -1 : 0;
}

static int run_cases(abx_cli *cli, const abx_suite *suite, const abx_suite_options *options,
                     abx_error **err)
{
    abx_suite_report report;
    int rc = abx_suite_run(cli, suite, options, &report, err);
    if (shows_progress(cli))
        fputs("\r\033[K", stderr);
    if (rc == 0)
        rc = tell(cli, suite, &report, err);
    abx_suite_report_clear(&report);
    return rc;
}

int abx_verb_provider_test(abx_cli *cli, abx_error **err)
{
    abx_suite suite;
    if (abx_suite_open(&suite, err) < 0)
        return -1;
    abx_suite_options options = {
        .provider = cli->args->words[0],
        .only = abx_flag_value(cli->args, ABX_FLAG_ONLY, NULL),
        .name = abx_flag_value(cli->args, ABX_FLAG_CASE, NULL),
        .lanes = (size_t)abx_flag_number(cli->args, ABX_FLAG_JOBS, JOBS),
        .on_case = on_case,
        .data = cli,
    };
    if (options.lanes == 0)
        options.lanes = 1;
    int rc = abx_suite_check_choice(&suite, &options, err);
    if (rc == 0 && abx_has_flag(cli->args, ABX_FLAG_DRY_RUN)) {
        rc = list_cases(cli, &suite, &options, err);
    } else if (rc == 0) {
        cli->strict = true;
        rc = abx_cli_provider_word(cli, options.provider, &options.provider, err);
        if (rc == 0)
            rc = run_cases(cli, &suite, &options, err);
    }
    abx_suite_clear(&suite);
    return rc;
}
