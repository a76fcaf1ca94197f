/* provider remove, verify. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "doors/cli/ask.h"
#include "doors/cli/dry_run.h"
#include "doors/cli/errors.h"
#include "doors/cli/print.h"
#include "doors/cli/store_task.h"
#include "doors/cli/table.h"
#include "doors/cli/verbs.h"
#include "host/ledger.h"
#include "host/store_report.h"

/* --- remove --------------------------------------------------------------------------------------------- */

static int remove_one(abx_cli *cli, const char *home, const char *id, const abx_store_task *task,
                      abx_error **err)
{
    size_t left = abx_store_has(home, id) ? abx_ledger_count_of(home, id) : 0;
    if (left > 0 && !cli->dry_run) {
        ABX_AUTO_FREE char *question = abx_format(
            "provider '%s' has %zu sandbox%s, which cannot be reached without it; remove it?", id,
            left, left == 1 ? "" : "es");
        int yes = abx_confirm(cli, question, "--yes", err);
        if (yes <= 0)
            return yes < 0 ? -1 : abx_fail(err, ABX_ERR_CANCELLED, "'%s' was not removed", id);
    }
    if (!cli->dry_run)
        return abx_store_uninstall(home, id, task, err);
    if (!abx_store_has(home, id))
        return abx_fail(err, ABX_ERR_PROVIDER_NOT_FOUND, "no provider '%s' is installed", id);
    return abx_dry_run_add(cli, "provider.remove", id, NULL, err);
}

int abx_verb_provider_remove(abx_cli *cli, abx_error **err)
{
    abx_cli_task t;
    int code = 0;
    ABX_AUTO_FREE char *home = NULL;
    if (abx_cli_task_begin(&t, cli, "removing", &home, err) < 0)
        return -1;
    abx_cli_task_end(&t);
    for (size_t i = 0; i < cli->args->word_count; i++) {
        ABX_AUTO_ERROR failed = NULL;
        if (remove_one(cli, home, cli->args->words[i], &t.task, &failed) == 0 ||
            abx_is_dry_run(cli, failed))
            continue;
        if (cli->args->word_count == 1 || failed->id == ABX_ERR_CANCELLED)
            return abx_error_take(err, ABX_TAKE(failed));
        int rc = abx_cli_report(cli, failed);
        code = code ? code : rc;
    }
    return code;
}

/* --- verify --------------------------------------------------------------------------------------------- */

typedef struct report {
    yyjson_mut_doc *d;
    yyjson_mut_val *list;
    abx_table table;
    size_t bad;
    abx_error *first; /* of those that failed */
} report;

static int verify_one(report *r, const char *home, const char *id, const abx_store_task *task,
                      abx_error **err)
{
    abx_store_verdict v = {0};
    if (abx_store_judge(home, id, task, r->d, r->list, &v, err) < 0)
        return -1;
    const char *cells[] = {id, v.version, v.trust, v.status, v.problem ? v.problem->message : NULL};
    abx_table_add(&r->table, cells);
    if (v.problem && r->bad++ == 0)
        r->first = ABX_TAKE(v.problem);
    abx_store_verdict_clear(&v);
    return 0;
}

static int verify_all(report *r, const char *home, const abx_store_task *task, abx_error **err)
{
    abx_store_entry *entries;
    size_t count;
    if (abx_store_list(home, &entries, &count, err) < 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = verify_one(r, home, entries[i].id, task, err);
    abx_store_entries_free(entries, count);
    return rc;
}

static int print_report(abx_cli *cli, const report *r, abx_error **err)
{
    ABX_AUTO_JSON doc = abx_json_freeze(r->d);
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    int rc = abx_print_list(cli, "providers", abx_json_get(yyjson_doc_get_root(doc), "providers"),
                            "id", err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    abx_table_write(&r->table, abx_print_width(cli), &text);
    return abx_print_buf(cli, &text, err);
}

int abx_verb_provider_verify(abx_cli *cli, abx_error **err)
{
    static const char *const headers[] = {"ID", "VERSION", "TRUST", "STATUS", "PROBLEM", NULL};
    abx_cli_task t;
    report r = {0};
    yyjson_mut_val *root = NULL;
    ABX_AUTO_FREE char *home = NULL;
    if (abx_cli_task_begin(&t, cli, "reading", &home, err) < 0)
        return -1;
    r.d = abx_mut_new(&root);
    r.list = abx_mut_arr(r.d, root, "providers");
    abx_table_init(&r.table, headers);
    int rc = cli->args->word_count ? verify_one(&r, home, cli->args->words[0], &t.task, err)
                                   : verify_all(&r, home, &t.task, err);
    abx_cli_task_end(&t);
    /* One that was asked for by name fails as a use of it would; of all, the table says which. */
    if (rc == 0 && cli->args->word_count && r.first && !abx_cli_json(cli))
        rc = abx_error_take(err, ABX_TAKE(r.first));
    else if (rc == 0)
        rc = print_report(cli, &r, err);
    if (rc == 0 && r.first)
        rc = abx_cli_exit_code(cli, r.first);
    abx_error_free(r.first);
    abx_table_clear(&r.table);
    yyjson_mut_doc_free(r.d);
    return rc;
}
