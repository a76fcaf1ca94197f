/* Signals and ends of processes by name. */
#include "e2b/client_inner.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"
#include "e2b/signal_words.h"

void abx__envd_signal_name(int number, char out[16])
{
    const char *name = number > 0 && number < 32 ? sigabbrev_np(number) : NULL;
    if (name)
        snprintf(out, 16, "SIG%s", name);
    else
        snprintf(out, 16, "SIG%d", number);
}

/* How envd words a signal: "signal: killed", "signal: segmentation fault (core dumped)". */
static int number_of_words(const char *status)
{
    if (!abx_has_prefix(status, "signal: "))
        return 0;
    ABX_AUTO_FREE char *words = abx_strdup(status + 8);
    size_t n = strlen(words);
    if (abx_has_suffix(words, " (core dumped)"))
        words[n - strlen(" (core dumped)")] = 0;
    uint64_t number = 0;
    if (abx_has_prefix(words, "signal ") && abx_parse_uint(words + 7, 64, &number) == 0)
        return (int)number;
    for (int i = 1; i < 32; i++)
        if (abx_str_eq(abx_e2b_signal_words(i), words))
            return i;
    return 0;
}

/* Of the other end's words only those that are known. */
void abx__envd_put_limit(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *limit)
{
    if (abx_str_eq(limit, "memory") || abx_str_eq(limit, "disk"))
        abx_mut_str(d, obj, "limit", limit);
}

void abx__envd_put_exit(yyjson_mut_doc *d, yyjson_mut_val *obj, yyjson_val *end)
{
    const char *own = abx_json_str(end, "abxSignal", NULL);
    int number = own ? abx_e2b_signal_number(own) : 0;
    bool exited = abx_json_bool(end, "exited", false);
    if (number == 0 && !exited)
        number = number_of_words(abx_json_str(end, "status", ""));
    if (number > 0) {
        char name[16];
        abx__envd_signal_name(number, name);
        abx_mut_str(d, obj, "signal", name);
    } else {
        abx_mut_int(d, obj, "exitCode", abx_json_int(end, "exitCode", 0));
    }
    if (abx_json_bool(end, "abxTimedOut", false))
        abx_mut_bool(d, obj, "timedOut", true);
    abx__envd_put_limit(d, obj, abx_json_str(end, "abxLimit", NULL));
}

/* --- process.signal, pty.close ----------------------------------------------------------------------------- */
static void on_sent(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    if (err)
        abx__envd_job_fail(job, err);
    else
        abx__envd_job_end(job, NULL);
}

static int send_signal(abx__envd_job *job, const char *id, int number, abx_error **err)
{
    static const abx__envd_unary unary = {
        .path = "/process.Process/SendSignal",
        .request = ABX_E2B_SEND_SIGNAL_REQUEST,
        .answer = ABX_E2B_SEND_SIGNAL_RESPONSE,
        .kind = ABX__ENVD_PROCESS,
        .timeout_ms = ABX__ENVD_UNARY_MS,
    };
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (abx__envd_put_selector(job->client, d, root, id, err) < 0)
        return -1;
    if (job->client->abx) {
        abx_mut_bool(d, root, "abx", true);
        abx_mut_int(d, root, "abxSignal", number);
    } else {
        abx_mut_int(d, root, "signal", number);
    }
    return abx__envd_unary_start(job, &unary, ABX_TAKE(d), on_sent, err);
}

/* --- by a command -------------------------------------------------------------------------------------------- */
/* A stranger's envd sends KILL and TERM. Others a command in the sandbox sends, to a process that envd has started: to its group,
 * where it leads one, else to the process alone. */
typedef struct signalling {
    int number;
    uint64_t pid;
} signalling;

static int run_kill(abx__envd_job *job, abx_error **err);

static abx_error *kill_error(abx__envd_job *job, int64_t exit)
{
    const char *words = abx_buf_cstr(&job->command.words);
    ABX_AUTO_FREE char *line = abx_printable(words);
    if (exit >= 126)
        return abx_error_new(ABX_ERR_FEATURE_MISSING,
                             "the sandbox takes only SIGKILL and SIGTERM for a process, and has no "
                             "shell to send another signal");
    abx_err_id id = strcasestr(words, "no such process") ? ABX_ERR_PROCESS_NOT_FOUND
                    : strcasestr(words, "permitted")     ? ABX_ERR_FORBIDDEN
                                                         : ABX_ERR_BACKEND;
    return abx_error_new(id, "the signal could not be sent: %.200s", line);
}

static void on_kill_ran(abx__envd_job *job, int64_t exit, abx_error *err)
{
    if (err && err->id == ABX_ERR_START_FAILED &&
        job->as_user) { /* nobody of that name: as who else the calls run */
        abx_error_free(ABX_TAKE(err));
        job->as_user = NULL;
        if (run_kill(job, &err) == 0)
            return;
    } else if (!err && exit != 0) {
        err = kill_error(job, exit);
    }
    on_sent(job, NULL, err);
}

static int run_kill(abx__envd_job *job, abx_error **err)
{
    const signalling *s = job->state;
    ABX_AUTO_FREE char *script =
        abx_format("kill -%d -%llu 2>/dev/null || kill -%d %llu", s->number,
                   (unsigned long long)s->pid, s->number, (unsigned long long)s->pid);
    return abx__envd_command(job, script, "", on_kill_ran, err);
}

static void on_listed(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    const signalling *s = job->state;
    yyjson_val *process = NULL;
    size_t i = 0, n = 0;
    bool found = false;
    yyjson_arr_foreach(yyjson_obj_get(answer, "processes"), i, n, process)
    {
        found = found || (uint64_t)abx_json_int(process, "pid", 0) == s->pid;
    }
    if (!err && !found)
        err = abx_error_new(ABX_ERR_PROCESS_NOT_FOUND, "no process '%llu' in the sandbox",
                            (unsigned long long)s->pid);
    job->as_user = "root";
    if (err || run_kill(job, &err) < 0)
        abx__envd_job_fail(job, err);
}

static int list_first(abx__envd_job *job, int number, abx_error **err)
{
    static const abx__envd_unary unary = {
        .path = "/process.Process/List",
        .request = ABX_E2B_LIST_REQUEST,
        .answer = ABX_E2B_LIST_RESPONSE,
        .kind = ABX__ENVD_PROCESS,
        .timeout_ms = ABX__ENVD_UNARY_MS,
        .max_body = ABX__ENVD_MAX_LIST,
        .safe = true,
    };
    signalling *s = job->state;
    const char *id = abx__envd_param(job, "processId");
    if (abx_parse_uint(id, UINT32_MAX, &s->pid) < 0 || s->pid < 2)
        return abx_fail(err, ABX_ERR_PROCESS_NOT_FOUND, "no process '%s' in the sandbox", id);
    s->number = number;
    return abx__envd_unary_start(job, &unary, abx_mut_new(NULL), on_listed, err);
}

static int signal_start(abx__envd_job *job, abx_error **err)
{
    const char *text = abx__envd_param(job, "signal");
    int number = abx_e2b_signal_number(text);
    if (number == 0)
        return abx_fail(err, ABX_ERR_USAGE, "no signal is named '%s'", text);
    if (!job->client->abx && number != SIGKILL && number != SIGTERM)
        return list_first(job, number, err);
    return send_signal(job, abx__envd_param(job, "processId"), number, err);
}

static int close_start(abx__envd_job *job, abx_error **err)
{
    return send_signal(job, abx__envd_param(job, "ptyId"), SIGKILL, err);
}

const abx__envd_op abx__envd_process_signal = {.state_size = sizeof(signalling),
                                               .start = signal_start};
const abx__envd_op abx__envd_pty_close = {.start = close_start};
