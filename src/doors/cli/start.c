#include "doors/cli/start.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/params.h"
#include "doors/cli/session.h"

#define AT_ONCE_MS 1000

int abx_start_plan(abx_cli *cli, abx_stdin_plan *plan, abx_error **err)
{
    const abx_args *a = cli->args;
    if (abx_cli_open_config(cli, err) < 0) /* the setting `stdin` */
        return -1;
    abx_stdin_facts facts = {
        .shell = a->verb->id == ABX_VERB_SHELL,
        .in = cli->stdin_closed ? ABX_FD_CLOSED : abx_fd_kind_of(STDIN_FILENO),
        .out_is_tty = isatty(STDOUT_FILENO) == 1,
        .detach = abx_has_flag(a, ABX_FLAG_DETACH),
        .interactive = abx_has_flag(a, ABX_FLAG_INTERACTIVE),
        .no_stdin = abx_has_flag(a, ABX_FLAG_NO_STDIN),
        .tty = abx_has_flag(a, ABX_FLAG_TTY),
        .no_tty = abx_has_flag(a, ABX_FLAG_NO_TTY),
        .off = cli->stdin_off,
    };
    return abx_stdin_decide(&facts, plan, err);
}

/* The advice that the sandbox cannot give: what the caller may have meant. */
static void explain(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    if (!err || !*err || (*err)->id != ABX_ERR_START_FAILED || (*err)->hint ||
        a->command_count == 0)
        return;
    if (abx_has_flag(a, ABX_FLAG_VERBOSE) && strchr(a->command[0], ':'))
        abx_hint(err, "abx mounts nothing, -v is --verbose: copy with abx cp");
    else if (a->command_count == 1 && strpbrk(a->command[0], " \t\n"))
        abx_hint(err, "the whole text is taken as the name of one program; give each word on its "
                      "own, or use a shell: sh -c '...'");
    else if (strstr(abx_error_text(*err), "argument list too long"))
        abx_hint(err,
                 "the kernel takes 128 KiB in a word and about 2 MiB in all words and variables: "
                 "pass more by standard input or a file");
    else if ((*err)->sys_errno == ENOENT)
        abx_hint(err, strchr(a->command[0], '/')
                          ? "the path is one inside the sandbox, not on this machine"
                          : "it is looked up on the PATH inside the sandbox, not on this machine");
}

static void hint_input(abx_cli *cli, const abx_stdin_plan *plan, const abx_session_result *result)
{
    if (plan->forward || plan->pty || result->code != 0 || result->had_output ||
        result->took_ms > AT_ONCE_MS || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO) ||
        !abx_wants_input(cli->args->command))
        return;
    abx_cli_note(cli, "hint: '%s' ended for want of input; add -it to talk to it",
                 cli->args->command[0]);
}

/* The shell of the user without a terminal: its commands come from standard input. */
static void add_plain_shell(yyjson_mut_doc *d, yyjson_mut_val *root)
{
    abx_mut_str(d, root, "cmd", "exec \"${SHELL:-/bin/sh}\"");
    abx_mut_bool(d, root, "shell", true);
}

/* --detach-keys, else the setting. */
static int read_keys(abx_cli *cli, abx_detach_keys *keys, abx_error **err)
{
    if (abx_cli_open_config(cli, err) < 0)
        return -1;
    const char *set = abx_config_get(cli->_config, "detach_keys", NULL, NULL);
    return abx_detach_keys_parse(
        keys, abx_flag_value(cli->args, ABX_FLAG_DETACH_KEYS, set ? set : ""), err);
}

static void tell_detached(abx_cli *cli, const char *sandbox, abx_session_result *result)
{
    cli->detached = true;
    if (!cli->quiet && isatty(STDERR_FILENO))
        fputs("\n", stderr); /* behind what stands on the line */
    abx_cli_note(cli, "abx: detached from %s; 'abx attach %s %s' goes back", result->detached,
                 sandbox, result->detached);
    free(ABX_TAKE(result->detached));
}

int abx_start_foreground(abx_cli *cli, const char *sandbox, const abx_stdin_plan *plan,
                         bool with_env, abx_error **err)
{
    abx_detach_keys keys;
    if (read_keys(cli, &keys, err) < 0)
        return -1;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_cli_params(sandbox, &root);
    if (plan->pty)
        abx_params_terminal(d, root);
    else if (plan->forward)
        abx_mut_str(d, root, "stdin", "stream");
    if (abx_params_process(cli, d, root, with_env, err) < 0)
        return -1;
    if (!plan->pty && cli->args->command_count == 0 && !cli->command)
        add_plain_shell(d, root);
    abx_session_options options = {
        .detach_keys = keys,
        .sandbox = sandbox,
        .op = plan->pty ? ABX_OP_PTY_OPEN : ABX_OP_PROCESS_START,
        .params = ABX_TAKE(d),
        .plan = *plan,
    };
    abx_session_result result;
    if (abx_session_run(cli, &options, &result, err) < 0) {
        explain(cli, err);
        return -1;
    }
    if (result.detached)
        tell_detached(cli, sandbox, &result);
    else
        hint_input(cli, plan, &result);
    return result.code;
}

/* Is it a terminal that runs? 0, or -1 and *err. */
static int check_terminal(yyjson_val *list, const char *sandbox, const char *job, abx_error **err)
{
    size_t i, n;
    yyjson_val *p;
    yyjson_arr_foreach(list, i, n, p)
    {
        if (!abx_str_eq(abx_json_str(p, "id", NULL), job))
            continue;
        if (abx_str_eq(abx_json_str(p, "state", ""), "exited")) {
            abx_fail(err, ABX_ERR_CONFLICT, "process '%s' has ended", job);
            return abx_hint(err, "'abx logs %s %s' prints what is kept of its output", sandbox,
                            job);
        }
        if (abx_json_bool(p, "tty", false))
            return 0;
        abx_fail(err, ABX_ERR_CONFLICT, "process '%s' has no terminal", job);
        return abx_hint(err, "'abx logs -f %s %s' follows its output", sandbox, job);
    }
    return abx_fail(err, ABX_ERR_PROCESS_NOT_FOUND, "no process '%s' in sandbox '%s'", job,
                    sandbox);
}

int abx_start_attach(abx_cli *cli, const char *sandbox, const char *job, const abx_stdin_plan *plan,
                     abx_error **err)
{
    abx_detach_keys keys;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_JSON found = NULL;
    if (read_keys(cli, &keys, err) < 0 ||
        abx_cli_call(cli, ABX_OP_PROCESS_LIST, abx_cli_params(sandbox, &root), &found, err) < 0 ||
        check_terminal(abx_json_get(yyjson_doc_get_root(found), "processes"), sandbox, job, err) <
            0)
        return -1;
    yyjson_mut_doc *d = abx_cli_params(sandbox, &root);
    abx_mut_str(d, root, "processId", job);
    abx_mut_bool(d, root, "missed", true);
    abx_session_options options = {
        .detach_keys = keys,
        .sandbox = sandbox,
        .op = ABX_OP_PROCESS_ATTACH,
        .params = d,
        .plan = *plan,
        .leave = true, /* it lived without us before */
    };
    options.plan.pty = true;
    abx_session_result result;
    if (abx_session_run(cli, &options, &result, err) < 0)
        return -1;
    if (result.detached)
        tell_detached(cli, sandbox, &result);
    return result.code;
}

int abx_start_background(abx_cli *cli, const char *sandbox, bool with_env, yyjson_doc **result,
                         abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_cli_params(sandbox, &root);
    abx_mut_bool(d, root, "background", true);
    if (abx_params_process(cli, d, root, with_env, err) < 0)
        return -1;
    if (abx_cli_call(cli, ABX_OP_PROCESS_START, ABX_TAKE(d), result, err) == 0)
        return 0;
    explain(cli, err);
    return -1;
}
