/* logs: the kept output of background processes, and what comes. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/jobs.h"
#include "doors/cli/log_view.h"
#include "doors/cli/sandbox_logs.h"
#include "doors/cli/out_writer.h"
#include "doors/cli/pager.h"
#include "doors/cli/session.h"
#include "doors/cli/verbs.h"

struct logs;

typedef struct log_job {
    struct logs *l;
    const char *id;
    abx_call *call;
    bool ended;
    abx_log_view view;
    yyjson_doc *result;
    abx_error *err;
} log_job;

typedef struct logs {
    abx_cli *cli;
    const char *sandbox;
    bool follow, tail, paused;
    int64_t since_ms;
    log_job *jobs;
    size_t count;
    abx_out_writer out, err_out;
    abx_buf bytes;
} logs;

/* --- output -------------------------------------------------------------------------------------------- */

static void hold_or_go(logs *l)
{
    bool wait = abx_out_is_waiting(&l->out) || abx_out_is_waiting(&l->err_out);
    bool failed = abx_out_error(&l->out) || abx_out_error(&l->err_out);
    for (size_t i = 0; i < l->count; i++) {
        if (!l->jobs[i].call)
            continue;
        if (failed)
            abx_call_cancel(l->jobs[i].call); /* nobody reads */
        else if (wait && !l->paused)
            abx_call_pause(l->jobs[i].call);
        else if (!wait && l->paused)
            abx_call_resume(l->jobs[i].call);
    }
    l->paused = wait;
}

static void on_drain(void *data)
{
    hold_or_go(data);
}

static void flush(logs *l, bool to_stderr)
{
    if (l->bytes.len == 0)
        return;
    abx_out_write(to_stderr ? &l->err_out : &l->out, l->bytes.data, l->bytes.len);
    abx_buf_reset(&l->bytes);
    hold_or_go(l);
}

static bool is_json(const logs *l)
{
    return abx_cli_json(l->cli);
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    (void)c;
    log_job *j = data;
    abx_log_view_bytes(&j->view, channel, bytes, n, &j->l->bytes);
    flush(j->l, channel == ABX_CH_STDERR && !is_json(j->l));
}

static void add_names(yyjson_mut_doc *d, yyjson_mut_val *o, void *data)
{
    const log_job *j = data;
    abx_mut_str(d, o, "sandbox", j->l->sandbox);
    abx_mut_str(d, o, "job", j->view.label);
}

static int channel_of(const char *name)
{
    for (int i = 0; i < ABX_CH_COUNT; i++)
        if (strcmp(abx_channel_name((abx_channel)i), name) == 0)
            return i;
    return -1;
}

static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    (void)c;
    log_job *j = data;
    logs *l = j->l;
    if (strcmp(type, "time") == 0) {
        int channel = channel_of(abx_json_str(event, "stream", ""));
        if (channel >= 0)
            abx_log_view_time(&j->view, (abx_channel)channel, abx_json_str(event, "time", ""));
        return;
    }
    if (j->view.count_only || strcmp(type, "exit") == 0)
        return;
    if (is_json(l)) {
        abx_event_object(&l->bytes, type, event, strcmp(type, "started") == 0 ? add_names : NULL,
                         j);
        flush(l, false);
    } else if (strcmp(type, "gap") == 0) {
        abx_cli_note(l->cli, "abx: %lld bytes of %s are no longer kept",
                     (long long)abx_json_int(event, "bytes", 0),
                     abx_json_str(event, "stream", "output"));
    }
}

static void add_exit(yyjson_mut_doc *d, yyjson_mut_val *o, void *data)
{
    const log_job *j = data;
    abx_add_exit(d, o, yyjson_doc_get_root(j->result));
    abx_mut_str(d, o, "job", j->view.label);
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    log_job *j = data;
    logs *l = j->l;
    j->call = NULL;
    j->ended = true;
    for (int i = 0; i < ABX_CH_COUNT; i++) {
        abx_log_view_end(&j->view, (abx_channel)i, &l->bytes);
        flush(l, i == ABX_CH_STDERR && !is_json(l));
    }
    if (err)
        j->err = abx_error_copy(err);
    else
        j->result = abx_json_copy(result);
    if (!err && is_json(l) && !j->view.count_only && abx_process_code(result) >= 0) {
        abx_event_object(&l->bytes, "exit", NULL, add_exit, j);
        flush(l, false);
    }
}

/* --- calls --------------------------------------------------------------------------------------------- */

static int start(log_job *j, bool follow, abx_error **err)
{
    logs *l = j->l;
    const abx_args *a = l->cli->args;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_cli_params(l->sandbox, &root);
    abx_mut_str(d, root, "processId", j->id);
    abx_mut_bool(d, root, "follow", follow);
    /* The last lines of two streams are known only by their times. */
    if (l->since_ms != INT64_MIN || l->tail || abx_has_flag(a, ABX_FLAG_TIMESTAMPS))
        abx_mut_bool(d, root, "timestamps", true);
    yyjson_mut_val *from = abx_mut_obj(d, root, "fromOffset");
    abx_mut_int(d, from, "stdout", 0);
    abx_mut_int(d, from, "stderr", 0);
    abx_mut_int(d, from, "pty", 0);
    abx_call_handlers handlers = {.on_event = on_event, .on_chunk = on_chunk, .on_end = on_end};
    j->ended = false;
    j->call = abx_cli_start(l->cli, ABX_OP_PROCESS_ATTACH, d, &handlers, j, err);
    if (j->call && l->paused)
        abx_call_pause(j->call);
    return j->call ? 0 : -1;
}

static void on_signal(abx_cli *cli, int sig, void *data)
{
    (void)data;
    if (sig != SIGWINCH)
        abx_cli_interrupt(cli, sig);
}

static bool all_ended(const logs *l)
{
    for (size_t i = 0; i < l->count; i++)
        if (!l->jobs[i].ended)
            return false;
    return true;
}

/* Wait for all that was started (the others count as ended). 0, or -1 and the first error. */
static int wait_for_all(logs *l, abx_error **err)
{
    bool cancelled = false;
    while (!all_ended(l)) {
        abx_cli_turn(l->cli);
        if (!abx_cli_interrupted(l->cli) || cancelled)
            continue;
        cancelled = true;
        for (size_t i = 0; i < l->count; i++)
            if (l->jobs[i].call)
                abx_call_cancel(l->jobs[i].call);
    }
    for (size_t i = 0; i < l->count; i++) {
        abx_error *failed = ABX_TAKE(l->jobs[i].err);
        if (failed)
            return abx_error_take(err, failed);
    }
    return 0;
}

static int run_one(log_job *j, bool follow, abx_error **err)
{
    if (start(j, follow, err) < 0)
        return -1;
    return wait_for_all(j->l, err);
}

static void prepare_view(log_job *j, bool count_only, uint64_t skip)
{
    abx_log_view_clear(&j->view);
    abx_log_view_init(&j->view);
    j->view.since_ms = j->l->since_ms;
    j->view.stamps = abx_has_flag(j->l->cli->args, ABX_FLAG_TIMESTAMPS);
    j->view.label = j->l->count > 1 ? j->id : NULL;
    j->view.json = is_json(j->l);
    j->view.count_only = count_only;
    j->view.skip = skip;
}

/* --tail needs the number of lines: they are counted first, then all but the last are left out. What comes between the
 * two readings is shown. */
static int count_lines(log_job *j, uint64_t keep, uint64_t *skip, abx_error **err)
{
    prepare_view(j, true, 0);
    if (run_one(j, false, err) < 0)
        return -1;
    yyjson_doc_free(ABX_TAKE(j->result));
    *skip = j->view.lines > keep ? j->view.lines - keep : 0;
    return 0;
}

static int show(logs *l, abx_error **err)
{
    uint64_t keep = abx_flag_number(l->cli->args, ABX_FLAG_TAIL, 0);
    for (size_t i = 0; i < l->count; i++) {
        log_job *j = &l->jobs[i];
        uint64_t skip = 0;
        if (l->tail && count_lines(j, keep, &skip, err) < 0)
            return -1;
        prepare_view(j, false, skip);
        if (!l->follow && run_one(j, false, err) < 0)
            return -1;
    }
    for (size_t i = 0; l->follow && i < l->count; i++)
        if (start(&l->jobs[i], true, err) < 0)
            break;
    return wait_for_all(l, err);
}

static int take_writers(logs *l, abx_error **err)
{
    while ((abx_out_is_waiting(&l->out) || abx_out_is_waiting(&l->err_out)) &&
           !abx_cli_interrupted(l->cli))
        abx_cli_turn(l->cli);
    int error = abx_out_error(&l->out), error_of_err = abx_out_error(&l->err_out);
    abx_out_close(&l->out);
    abx_out_close(&l->err_out);
    while (!abx_out_is_closed(&l->out) || !abx_out_is_closed(&l->err_out))
        uv_run(&l->cli->_loop, UV_RUN_NOWAIT);
    if (!error && !error_of_err)
        return 0;
    if (error == EPIPE || error_of_err == EPIPE)
        l->cli->output_closed = true;
    return abx_fail_errno(err, ABX_ERR_FILE, error ? error : error_of_err, "cannot write to %s",
                          error ? "standard output" : "standard error");
}

/* --- the verb ------------------------------------------------------------------------------------------ */

/* The last background process. Owned; NULL and *err. */
static char *last_job(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    ABX_AUTO_JSON found = NULL;
    if (abx_jobs_list(cli, a->words[0], &found, err) < 0)
        return NULL;
    yyjson_val *last =
        abx_jobs_last_background(abx_json_get(yyjson_doc_get_root(found), "processes"));
    if (last)
        return abx_strdup(abx_json_str(last, "id", ""));
    abx_fail(err, ABX_ERR_PROCESS_NOT_FOUND, "sandbox '%s' has no background process", a->words[0]);
    abx_hint(err, "'abx exec -d %s -- COMMAND' starts one", a->words[0]);
    return NULL;
}

static int follow_jobs(logs *l, abx_error **err)
{
    void *former_data = NULL;
    abx_error *why = NULL;
    abx_out_writer_init(&l->out, &l->cli->_loop, STDOUT_FILENO, on_drain, l);
    abx_out_writer_init(&l->err_out, &l->cli->_loop, STDERR_FILENO, on_drain, l);
    abx_cli_signal_cb former = abx_cli_take_signals(l->cli, on_signal, l, &former_data);
    int rc = show(l, &why);
    if (take_writers(l, err) < 0) {
        abx_error_free(why); /* cancelled, since nobody reads */
        rc = -1;
    } else if (rc < 0) {
        abx_error_take(err, why);
    }
    abx_cli_take_signals(l->cli, former, former_data, NULL);
    return rc;
}

int abx_verb_logs(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    logs l = {.cli = cli, .sandbox = a->words[0], .since_ms = INT64_MIN};
    const char *since = abx_flag_value(a, ABX_FLAG_SINCE, NULL);
    if (abx_has_flag(a, ABX_FLAG_OF_SANDBOX))
        return abx_logs_of_sandbox(cli, err);
    if (since && abx_log_since(since, abx_now_wall_ms(), &l.since_ms, err) < 0)
        return -1;
    l.follow = abx_has_flag(a, ABX_FLAG_FOLLOW);
    l.tail = abx_has_flag(a, ABX_FLAG_TAIL);
    ABX_AUTO_FREE char *last = a->word_count > 1 ? NULL : last_job(cli, err);
    if ((a->word_count < 2 && !last) || (!l.follow && abx_pager_start(cli, err) < 0))
        return -1;
    l.count = last ? 1 : a->word_count - 1;
    l.jobs = abx_alloc_array(l.count, sizeof *l.jobs);
    abx_buf_init(&l.bytes, SIZE_MAX / 2);
    for (size_t i = 0; i < l.count; i++) {
        memset(&l.jobs[i], 0, sizeof l.jobs[i]);
        l.jobs[i].l = &l;
        l.jobs[i].id = last ? last : a->words[1 + i];
        l.jobs[i].ended = true; /* nothing was started */
        abx_log_view_init(&l.jobs[i].view);
    }
    int rc = follow_jobs(&l, err);
    for (size_t i = 0; i < l.count; i++) {
        abx_log_view_clear(&l.jobs[i].view);
        yyjson_doc_free(l.jobs[i].result);
        abx_error_free(l.jobs[i].err);
    }
    free(l.jobs);
    abx_buf_clear(&l.bytes);
    return rc;
}
