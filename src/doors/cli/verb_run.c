#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/dry_run.h"
#include "doors/cli/params.h"
#include "doors/cli/print.h"
#include "doors/cli/start.h"
#include "doors/cli/verbs.h"

/* End the sandbox of this run. Its failure never hides the code of the command. */
static void end_sandbox(abx_cli *cli, const char *id)
{
    yyjson_mut_val *root = NULL;
    abx_error *err = NULL;
    abx_cli_begin_cleanup(cli);
    if (abx_cli_call(cli, ABX_OP_SANDBOX_KILL, abx_cli_params(id, &root), NULL, &err) < 0 &&
        err->id != ABX_ERR_SANDBOX_NOT_FOUND)
        abx_cli_warn(cli, "warning: sandbox '%s' could not be ended: %s", id, abx_error_text(err));
    abx_error_free(err);
}

/* run -d: the id of the sandbox goes to stdout. */
static int detach(abx_cli *cli, yyjson_val *sandbox, abx_error **err)
{
    const char *id = abx_json_str(sandbox, "id", "");
    ABX_AUTO_JSON job = NULL;
    if (abx_start_background(cli, id, false, &job, err) < 0)
        return -1;
    if (!abx_cli_json(cli))
        return abx_print_line(cli, id, err);
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_val_mut_copy(d, sandbox);
    abx_mut_str(d, root, "job", abx_json_str(yyjson_doc_get_root(job), "id", NULL));
    return abx_print_json_mut(cli, root, err);
}

/* What a run would do: none of its later steps has a sandbox to be checked against. */
static int plan_run(abx_cli *cli, yyjson_mut_doc *create, const abx_stdin_plan *plan, bool keep,
                    abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_ERROR noted = NULL;
    (void)abx_cli_call(cli, ABX_OP_SANDBOX_CREATE, create, NULL, &noted);
    if (!abx_is_dry_run(cli, noted))
        return abx_error_take(err, ABX_TAKE(noted));
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (abx_has_flag(cli->args, ABX_FLAG_DETACH))
        abx_mut_bool(d, root, "background", true);
    if (abx_params_process(cli, d, root, !keep, err) < 0)
        return -1;
    const char *provider = abx_host_provider(cli->_host, NULL);
    const char *start = abx_op_row_of(plan->pty ? ABX_OP_PTY_OPEN : ABX_OP_PROCESS_START)->method;
    int rc = abx_dry_run_add(cli, start, provider, ABX_TAKE(d), keep ? err : NULL);
    if (!keep)
        rc = abx_dry_run_add(cli, abx_op_row_of(ABX_OP_SANDBOX_KILL)->method, provider, NULL, err);
    return rc;
}

/* No command was given: the one that the sandbox's image is made to run. */
static int take_command(abx_cli *cli, yyjson_val *sandbox, abx_error **err)
{
    cli->command = abx_json_get(sandbox, "command");
    if (yyjson_arr_size(cli->command) > 0)
        return 0;
    ABX_AUTO_FREE char *name = abx_printable(abx_json_str(sandbox, "template", ""));
    abx_fail(err, ABX_ERR_USAGE, "template '%.80s' names no command to run", name);
    return abx_hint(err, "give one: abx run --template %.80s -- COMMAND", name);
}

/* The sandbox is gone before its command ended: was its life over? begun_ms: before it was made. */
static void explain_end(const abx_cli *cli, uint64_t begun_ms, abx_error **err)
{
    uint64_t life = abx_flag_number(cli->args, ABX_FLAG_TIMEOUT, ABX_FOREVER);
    if (!err || !*err || (*err)->id != ABX_ERR_SANDBOX_ENDED || abx_now_mono_ms() - begun_ms < life)
        return;
    char *message = abx_format("%s: its life of %s is over", (*err)->message,
                               abx_flag_value(cli->args, ABX_FLAG_TIMEOUT, ""));
    free((*err)->message);
    (*err)->message = message;
    (void)abx_hint(err, "--timeout is the life of the sandbox; --command-timeout is the time limit "
                        "of the command");
}

int abx_verb_run(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    bool background = abx_has_flag(a, ABX_FLAG_DETACH);
    bool keep = background || abx_has_flag(a, ABX_FLAG_KEEP) || abx_has_flag(a, ABX_FLAG_NAME);
    abx_stdin_plan plan;
    if (abx_start_plan(cli, &plan, err) < 0)
        return -1;
    /* In a sandbox that stays, the variables are for every process in it. */
    yyjson_mut_doc *params = abx_params_create(cli, !keep, keep, err);
    if (!params)
        return -1;
    if (cli->dry_run)
        return plan_run(cli, params, &plan, keep, err);
    uint64_t begun_ms = abx_now_mono_ms();
    ABX_AUTO_JSON sandbox = NULL;
    if (abx_cli_call(cli, ABX_OP_SANDBOX_CREATE, params, &sandbox, err) < 0)
        return -1;
    const char *id = abx_json_str(yyjson_doc_get_root(sandbox), "id", "");
    abx_note_watched(cli, yyjson_doc_get_root(sandbox));
    if (a->command_count == 0 && take_command(cli, yyjson_doc_get_root(sandbox), err) < 0) {
        end_sandbox(cli, id);
        return -1;
    }
    int code = background ? detach(cli, yyjson_doc_get_root(sandbox), err)
                          : abx_start_foreground(cli, id, &plan, !keep, err);
    if (cli->detached)
        return code;
    if (code < 0)
        explain_end(cli, begun_ms, err);
    if (!keep || (background && code < 0))
        end_sandbox(cli, id);
    else if (!background)
        abx_cli_note(cli, "abx: sandbox %s is kept; 'abx kill %s' ends it", id,
                     abx_flag_value(a, ABX_FLAG_NAME, id));
    return code;
}
