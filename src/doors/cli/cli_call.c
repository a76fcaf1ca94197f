/* Calls as straight code: start, turn the loop, take the end. */
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "doors/cli/cli.h"
#include "doors/cli/dry_run.h"
#include "doors/cli/progress.h"

#define SMALL_MS 60000 /* a small question that is not answered after this never will be */

typedef struct unary {
    bool ended;
    yyjson_doc *result;
    abx_error *err;
    abx_call *call;
} unary;

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    unary *u = data;
    u->ended = true;
    u->call = NULL;
    if (err)
        u->err = abx_error_copy(err);
    else
        u->result = abx_json_copy(result);
}

static void on_signal(abx_cli *cli, int sig, void *data)
{
    unary *u = data;
    if (sig == SIGWINCH)
        return;
    /* What cleans up after a first signal is ended only by a second one. */
    bool first = abx_cli_interrupted(cli) == 0;
    abx_cli_interrupt(cli, sig);
    if (u->call && (!cli->_cleaning || !first))
        abx_call_cancel(u->call);
}

yyjson_mut_doc *abx_cli_params(const char *sandbox, yyjson_mut_val **root)
{
    yyjson_mut_doc *d = abx_mut_new(root);
    abx_mut_str(d, *root, "sandboxId", sandbox);
    return d;
}

/* -v: the operation; -vv: its parameters too, variables by their names only. */
static void log_call(abx_cli *cli, abx_op_id op, yyjson_mut_val *params)
{
    if (cli->log.level < ABX_LOG_DEBUG)
        return;
    const char *method = abx_op_row_of(op)->method;
    if (cli->log.level < ABX_LOG_TRACE) {
        const char *sandbox = yyjson_mut_get_str(yyjson_mut_obj_get(params, "sandboxId"));
        abx_logf(&cli->log, ABX_LOG_DEBUG, "call %s%s%s", method, sandbox ? " " : "",
                 sandbox ? sandbox : "");
        return;
    }
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *shown = yyjson_mut_val_mut_copy(d, params);
    abx_params_blank(shown);
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    if (abx_json_write_mut(shown, &text) == 0)
        abx_logf(&cli->log, ABX_LOG_TRACE, "call %s %s", method, abx_buf_cstr(&text));
}

void abx_cli_log_end(const abx_cli *cli, abx_op_id op, uint64_t since_ms, yyjson_doc *answer,
                     const abx_error *failed)
{
    if (cli->log.level < ABX_LOG_DEBUG)
        return;
    const char *method = abx_op_row_of(op)->method;
    unsigned long long took = abx_now_mono_ms() - since_ms;
    ABX_AUTO_FREE char *result = cli->log.level >= ABX_LOG_TRACE && answer
                                     ? abx_json_text(yyjson_doc_get_root(answer))
                                     : NULL;
    if (failed)
        abx_logf(&cli->log, ABX_LOG_DEBUG, "end %s after %llu ms: %s", method, took,
                 abx_error_code(failed));
    else
        abx_logf(&cli->log, ABX_LOG_DEBUG, "end %s after %llu ms%s%s", method, took,
                 result ? " " : "", result ? result : "");
}

uint64_t abx_cli_time_for(const abx_cli *cli, abx_op_id op)
{
    if (cli->deadline != ABX_FOREVER) {
        uint64_t now = abx_now_mono_ms();
        return cli->deadline > now ? cli->deadline - now : 1;
    }
    switch (op) {
    case ABX_OP_SANDBOX_SET_TIMEOUT:
    case ABX_OP_SANDBOX_PAUSE:
    case ABX_OP_SANDBOX_HOST:
    case ABX_OP_SANDBOX_LOGS:
    case ABX_OP_SANDBOX_SET_NETWORK:
    case ABX_OP_PROCESS_LIST:
    case ABX_OP_PROCESS_SIGNAL:
    case ABX_OP_CODE_INTERRUPT:
    case ABX_OP_CODE_CONTEXT_LIST:
    case ABX_OP_CODE_CONTEXT_RESTART:
    case ABX_OP_CODE_CONTEXT_REMOVE:
    case ABX_OP_FS_STAT:
    case ABX_OP_FS_LIST:
    case ABX_OP_FS_MAKE_DIR:
    case ABX_OP_FS_RENAME: return SMALL_MS; /* not fs.remove: a large tree takes its time */
    default: return ABX_FOREVER;
    }
}

/* A call with the deadline of the command line. params is freed. NULL and *err when a signal came already. */
static abx_call *new_call(abx_cli *cli, abx_op_id op, yyjson_mut_doc *params,
                          const abx_call_handlers *handlers, void *data, abx_error **err)
{
    ABX_AUTO_MUT taken = params;
    if (abx_cli_interrupted(cli) && !cli->_cleaning) {
        abx_fail(err, ABX_ERR_CANCELLED, "interrupted");
        return NULL;
    }
    if (abx_cli_open(cli, err) < 0)
        return NULL;
    log_call(cli, op, yyjson_mut_doc_get_root(taken));
    abx_call *c = abx_call_new(&cli->_loop, op, abx_json_freeze(taken), handlers, data);
    if (!cli->_cleaning)
        abx_call_set_deadline(c, abx_cli_time_for(cli, op));
    return c;
}

abx_call *abx_cli_start(abx_cli *cli, abx_op_id op, yyjson_mut_doc *params,
                        const abx_call_handlers *handlers, void *data, abx_error **err)
{
    abx_call *c = new_call(cli, op, params, handlers, data, err);
    if (!c)
        return NULL;
    if (abx_dry_run_holds(cli, op)) {
        abx_dry_run_note(cli, NULL, c, err);
    } else if (abx_host_start(cli->_host, c, err) == 0) {
        cli->remote = true;
        return c;
    }
    abx_call_discard(c);
    return NULL;
}

int abx_cli_call_at(abx_cli *cli, const char *provider, abx_op_id op, yyjson_mut_doc *params,
                    yyjson_doc **result, abx_error **err)
{
    if (result)
        *result = NULL;
    unary u = {0};
    abx_call_handlers handlers = {.on_end = on_end};
    u.call = new_call(cli, op, params, &handlers, &u, err);
    if (!u.call)
        return -1;
    int rc = abx_dry_run_holds(cli, op) ? abx_dry_run_note(cli, provider, u.call, err)
             : provider                 ? abx_host_start_at(cli->_host, provider, u.call, err)
                                        : abx_host_start(cli->_host, u.call, err);
    if (rc < 0) {
        abx_call_discard(u.call);
        return -1;
    }
    cli->remote = true;
    uint64_t since_ms = abx_now_mono_ms();
    void *former_data = NULL;
    abx_cli_signal_cb former = abx_cli_take_signals(cli, on_signal, &u, &former_data);
    abx_progress progress;
    abx_progress_begin(&progress, cli, op);
    while (!u.ended)
        abx_cli_turn(cli);
    abx_progress_end(&progress);
    abx_cli_log_end(cli, op, since_ms, u.result, u.err);
    abx_cli_take_signals(cli, former, former_data, NULL);
    if (u.err)
        return abx_error_take(err, u.err);
    if (result)
        *result = u.result;
    else
        yyjson_doc_free(u.result);
    return 0;
}

int abx_cli_call(abx_cli *cli, abx_op_id op, yyjson_mut_doc *params, yyjson_doc **result,
                 abx_error **err)
{
    return abx_cli_call_at(cli, NULL, op, params, result, err);
}
