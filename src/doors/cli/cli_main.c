/* From the words to a verb, and from its answer to the exit code. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "doors/cli/cli.h"
#include "doors/cli/complete.h"
#include "doors/cli/dry_run.h"
#include "doors/cli/errors.h"
#include "doors/cli/event_lines.h"
#include "doors/cli/fd_kind.h"
#include "doors/cli/help.h"
#include "doors/cli/pager.h"
#include "doors/cli/print.h"
#include "doors/cli/signals.h"
#include "doors/cli/verbs.h"

static int (*const run_verb[ABX_VERB_COUNT])(abx_cli *cli, abx_error **err) = {
#define ABX_VERB(id, name, aliases, args, min, max, exits, fn, usage, summary)                     \
    [ABX_VERB_##id] = abx_verb_##fn,
#include "doors/cli/spec_begin.h"
#include "doors/cli/verbs.def"
#include "doors/cli/spec_end.h"
};

static int show_help(abx_cli *cli, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    if (abx_pager_start(cli, err) < 0)
        return -1;
    if (cli->args->verb)
        abx_help_verb(cli->args->verb, &text);
    else if (cli->args->group)
        abx_help_group(cli->args->group, &text);
    else
        abx_help_short(&text);
    return abx_print_buf(cli, &text, err);
}

static int check_stack(abx_error **err)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_STACK, &r) < 0 || r.rlim_cur >= ABX_CLI_STACK_MIN)
        return 0;
    (void)abx_fail(err, ABX_ERR_QUOTA, "the limit of the stack is too small: %llu KiB",
                   (unsigned long long)r.rlim_cur >> 10);
    return abx_hint(err, "raise it ('ulimit -s 8192', its hard limit too); %llu KiB is the least",
                    (unsigned long long)ABX_CLI_STACK_MIN >> 10);
}

static int dispatch(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    if (abx_has_flag(a, ABX_FLAG_HELP))
        return show_help(cli, err);
    if (abx_has_flag(a, ABX_FLAG_VERSION))
        return abx_verb_version(cli, err);
    if (!a->verb)
        return show_help(cli, err);
    if (check_stack(err) < 0)
        return -1;
    return run_verb[a->verb->id](cli, err);
}

typedef struct own_exit {
    int code;
} own_exit;

static void add_own_exit(yyjson_mut_doc *d, yyjson_mut_val *o, void *data)
{
    abx_mut_int(d, o, "exitCode", ((own_exit *)data)->code);
    abx_mut_str(d, o, "source", "abx");
}

/* The last line of run, exec and shell with --json when the code is ours. */
static void print_own_exit(abx_cli *cli, int code)
{
    ABX_AUTO_BUF line = ABX_BUF(4096);
    own_exit e = {code};
    const char *type = cli->args->verb->id == ABX_VERB_CODE ? "end" : "exit";
    abx_event_object(&line, type, NULL, add_own_exit, &e);
    abx_error *err = NULL;
    if (abx_print_buf(cli, &line, &err) < 0)
        abx_error_free(err); /* the error is out on stderr, and the code says it too */
}

/* A verb's answer → exit code; its error is printed. */
static int conclude(abx_cli *cli, int code, abx_error *err)
{
    if (cli->output_closed) {
        abx_error_free(err);
        return cli->_pager > 0 ? 0 : 128 + SIGPIPE; /* who leaves a pager has read enough */
    }
    if (cli->dry_run && (code >= 0 || abx_is_dry_run(cli, err))) {
        abx_error_free(ABX_TAKE(err));
        code = abx_dry_run_print(cli, &err) < 0 ? -1 : code < 0 ? 0 : code;
    }
    if (code >= 0)
        return code;
    const abx_verb *verb = cli->args->verb;
    if (cli->_expired && err && err->id == ABX_ERR_CANCELLED) {
        abx_error_free(err);
        err = abx_error_new(ABX_ERR_TIMEOUT, "the time limit of the command passed");
        cli->_interrupted = 0;
    }
    if (abx_cli_interrupted(cli) && err && err->id == ABX_ERR_CANCELLED) {
        const char *name = abx_signal_name(abx_cli_interrupted(cli));
        abx_error_free(err);
        err = abx_error_new(ABX_ERR_CANCELLED, "interrupted by SIG%s", name ? name : "?");
    }
    int exit_code = abx_cli_report(cli, err);
    if (verb && verb->exits == ABX_EXITS_PROCESS && abx_cli_json(cli))
        print_own_exit(cli, exit_code);
    abx_error_free(err);
    return exit_code;
}

int abx_cli_main(int argc, char **argv, const abx_adapter *const *adapters,
                 const struct abx_server_door *e2b, const struct abx_server_door *engine)
{
    bool stdin_closed;
    abx_fd_fill_standard(&stdin_closed);
    if (argc > 1 &&
        strcmp(argv[1], "__complete") == 0) /* no verb: what the completion scripts ask */
        return abx_complete_main(argc, argv, adapters);
    /* A reader that goes away is an answer of write, not the end of this process: what runs is ended first. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* likewise a file that may not grow (ulimit -f): EFBIG */
    abx_args args;
    abx_error *err = NULL;
    if (abx_args_parse(argc, argv, &args, &err) < 0) {
        abx_error_style style = {.json = abx_args_want_json(argc, argv),
                                 .color = abx_color_on(&args, NULL, STDERR_FILENO)};
        abx_error_name_verb(&err, args.verb);
        abx_error_print(stderr, err, &style);
        int code = abx_exit_code_of(err, false, false, 0);
        abx_error_free(err);
        abx_args_clear(&args);
        return code;
    }
    abx_cli cli;
    abx_cli_init(&cli, &args, adapters);
    cli.stdin_closed = stdin_closed;
    cli.e2b = e2b;
    cli.engine = engine;
    int code = dispatch(&cli, &err);
    abx_pager_finish(&cli);
    code = conclude(&cli, code, err);
    abx_cli_close(&cli);
    abx_args_clear(&args);
    return code;
}
