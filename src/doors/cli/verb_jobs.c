/* jobs, signal, wait. */
#include "doors/cli/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/print.h"
#include "doors/cli/session.h"
#include "doors/cli/signals.h"
#include "doors/cli/verbs.h"

int abx_jobs_list(abx_cli *cli, const char *sandbox, yyjson_doc **out, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    return abx_cli_call(cli, ABX_OP_PROCESS_LIST, abx_cli_params(sandbox, &root), out, err);
}

/* Lists come in the order of starts where a provider keeps one; times tell where it does not. Times a little apart tell
 * nothing: the clock of a machine may be set back between two starts. */
#define CLOCK_STEP_MS 2000

yyjson_val *abx_jobs_last_background(yyjson_val *list)
{
    yyjson_val *last = NULL, *p;
    size_t i, n;
    int64_t last_time = 0;
    yyjson_arr_foreach(list, i, n, p)
    {
        int64_t started = 0;
        if (!abx_json_bool(p, "background", false))
            continue;
        (void)abx_parse_rfc3339(abx_json_str(p, "startedAt", ""), &started);
        if (!last || started >= last_time - CLOCK_STEP_MS) {
            last = p;
            last_time = started > last_time ? started : last_time;
        }
    }
    return last;
}

/* --- jobs ---------------------------------------------------------------------------------------------- */

/* The command as a person would type it: words with blanks or quotes are quoted. */
static char *command_text(yyjson_val *cmd)
{
    if (yyjson_is_str(cmd))
        return abx_strdup(yyjson_get_str(cmd));
    ABX_AUTO_BUF out = ABX_BUF(SIZE_MAX / 2);
    size_t i, n;
    yyjson_val *word;
    yyjson_arr_foreach(cmd, i, n, word)
    {
        const char *text = yyjson_is_str(word) ? yyjson_get_str(word) : "";
        bool quote = !text[0] || strpbrk(text, " \t\n'\"\\$`*?[](){}<>|&;");
        int rc = i ? abx_buf_add_byte(&out, ' ') : 0;
        rc |= quote ? abx_buf_add_byte(&out, '\'') : 0;
        for (const char *p = text; *p; p++)
            rc |= *p == '\'' ? abx_buf_add_str(&out, "'\\''") : abx_buf_add_byte(&out, (uint8_t)*p);
        rc |= quote ? abx_buf_add_byte(&out, '\'') : 0;
        ABX_CHECK(rc == 0);
    }
    return abx_buf_take(&out);
}

static void state_text(yyjson_val *p, char out[32])
{
    const char *sig = abx_json_str(p, "signal", NULL);
    int64_t code = abx_json_int(p, "exitCode", -1);
    if (abx_json_bool(p, "timedOut", false))
        snprintf(out, 32, "timed out");
    else if (sig)
        snprintf(out, 32, "%.31s", sig);
    else if (code >= 0)
        snprintf(out, 32, "exit %d", (int)(code & 0xff));
    else
        snprintf(out, 32, "%.31s", abx_json_str(p, "state", "running"));
}

static int print_jobs(abx_cli *cli, yyjson_val *array, abx_error **err)
{
    static const char *const headers[] = {"JOB",  "PID",     "STATE", "STARTED",
                                          "KIND", "COMMAND", NULL};
    abx_table t;
    abx_table_init(&t, headers);
    int64_t now = abx_now_wall_ms(), when;
    size_t i, n;
    yyjson_val *p;
    yyjson_arr_foreach(array, i, n, p)
    {
        char pid[32] = "", state[32], started[32] = "";
        if (abx_json_int(p, "pid", 0) > 0)
            snprintf(pid, sizeof pid, "%lld", (long long)abx_json_int(p, "pid", 0));
        state_text(p, state);
        if (abx_parse_rfc3339(abx_json_str(p, "startedAt", ""), &when) == 0)
            abx_format_relative(when, now, started);
        ABX_AUTO_FREE char *command = command_text(abx_json_get(p, "cmd"));
        const char *kind = !abx_json_get(p, "background")          ? ""
                           : abx_json_bool(p, "background", false) ? "background"
                                                                   : "foreground";
        const char *cells[] = {abx_json_str(p, "id", NULL), pid, state, started, kind, command};
        abx_table_add(&t, cells);
    }
    return abx_print_table(cli, &t, err);
}

/* Without commands of the foreground that have ended: their caller has had all of them. */
static yyjson_doc *without_ended_commands(yyjson_val *array)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, "processes");
    size_t i, n;
    yyjson_val *p;
    yyjson_arr_foreach(array, i, n, p)
    {
        if (abx_json_bool(p, "background", false) ||
            !abx_str_eq(abx_json_str(p, "state", "running"), "exited"))
            yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, p));
    }
    return abx_json_freeze(d);
}

int abx_verb_jobs(abx_cli *cli, abx_error **err)
{
    ABX_AUTO_JSON found = NULL;
    if (abx_jobs_list(cli, cli->args->words[0], &found, err) < 0)
        return -1;
    ABX_AUTO_JSON kept =
        without_ended_commands(abx_json_get(yyjson_doc_get_root(found), "processes"));
    ABX_AUTO_JSON doc =
        abx_limit_list(cli, "processes", abx_json_get(yyjson_doc_get_root(kept), "processes"));
    yyjson_val *array = abx_json_get(yyjson_doc_get_root(doc), "processes");
    int rc = abx_print_list(cli, "processes", array, "id", err);
    if (rc == 0)
        rc = print_jobs(cli, array, err);
    return rc < 0 ? -1 : 0;
}

/* Parameters of process.attach: the end only. */
static yyjson_mut_doc *end_params(const char *sandbox, const char *job)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_cli_params(sandbox, &root);
    abx_mut_str(d, root, "processId", job);
    abx_mut_bool(d, root, "follow", true);
    return d;
}

/* --- signal -------------------------------------------------------------------------------------------- */

int abx_verb_signal(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    if (abx_signal_number(a->words[2]) < 0) {
        abx_fail(err, ABX_ERR_USAGE, "no signal is called '%s'", a->words[2]);
        return abx_hint(err, "a name as TERM or SIGTERM, or a number");
    }
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_cli_params(a->words[0], &root);
    abx_mut_str(params, root, "processId", a->words[1]);
    abx_mut_str(params, root, "signal", a->words[2]);
    if (abx_cli_call(cli, ABX_OP_PROCESS_SIGNAL, params, NULL, err) < 0)
        return -1;
    if (!abx_cli_json(cli))
        return 0;
    const char *name = abx_signal_name(abx_signal_number(a->words[2]));
    ABX_AUTO_FREE char *whole = name ? abx_format("SIG%s", name) : abx_strdup(a->words[2]);
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "id", a->words[1]);
    abx_mut_str(d, root, "signal", whole);
    return abx_print_json_mut(cli, root, err);
}

/* --- wait ---------------------------------------------------------------------------------------------- */

/* Wait for one: its code, or -1 and *err. The object is added to list. */
static int wait_one(abx_cli *cli, const char *job, yyjson_mut_doc *d, yyjson_mut_val *list,
                    abx_error **err)
{
    const char *sandbox = cli->args->words[0];
    ABX_AUTO_JSON ended = NULL;
    if (abx_cli_call(cli, ABX_OP_PROCESS_ATTACH, end_params(sandbox, job), &ended, err) < 0)
        return -1;
    yyjson_val *root = yyjson_doc_get_root(ended);
    yyjson_mut_val *o = yyjson_val_mut_copy(d, root);
    if (!yyjson_mut_obj_get(o, "id"))
        abx_mut_str(d, o, "id", job);
    yyjson_mut_arr_append(list, o);
    if (abx_json_bool(root, "timedOut", false) && !abx_cli_json(cli)) {
        ABX_AUTO_FREE char *what = abx_format("process '%s'", job);
        abx_cli_note_timeout(cli, what);
    }
    int code = abx_process_code(root);
    if (code < 0)
        return abx_fail(err, ABX_ERR_BACKEND_ANSWER, "the end of process '%s' came without a code",
                        job);
    return code;
}

static int wait_all(abx_cli *cli, yyjson_mut_doc *d, yyjson_mut_val *list, abx_error **err)
{
    ABX_AUTO_JSON found = NULL;
    if (abx_jobs_list(cli, cli->args->words[0], &found, err) < 0)
        return -1;
    int code = 0;
    size_t i, n;
    yyjson_val *p;
    yyjson_arr_foreach(abx_json_get(yyjson_doc_get_root(found), "processes"), i, n, p)
    {
        bool running = !abx_str_eq(abx_json_str(p, "state", "running"), "exited");
        if (!running || !abx_json_bool(p, "background", false))
            continue;
        int one = wait_one(cli, abx_json_str(p, "id", ""), d, list, err);
        if (one < 0)
            return -1;
        code = code ? code : one;
    }
    return code;
}

int abx_verb_wait(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, "processes");
    int code =
        a->word_count > 1 ? wait_one(cli, a->words[1], d, list, err) : wait_all(cli, d, list, err);
    if (code >= 0 && abx_cli_json(cli) && abx_print_json_mut(cli, root, err) < 0)
        return -1;
    return code;
}
