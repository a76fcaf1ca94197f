/* process.list */
#include "e2b/client_inner.h"

#include <string.h>

#include "base/mem.h"
#include "e2b/signal_words.h"

static void put_command(yyjson_mut_doc *d, yyjson_mut_val *obj, yyjson_val *config)
{
    const char *cwd = abx_json_str(config, "cwd", NULL);
    yyjson_mut_val *words = abx_mut_arr(d, obj, "cmd");
    yyjson_mut_arr_add_strcpy(d, words, abx_json_str(config, "cmd", ""));
    size_t i = 0, n = 0;
    yyjson_val *word = NULL;
    yyjson_arr_foreach(yyjson_obj_get(config, "args"), i, n, word)
    {
        yyjson_mut_arr_append(words,
                              yyjson_mut_strncpy(d, yyjson_get_str(word), yyjson_get_len(word)));
    }
    if (cwd && *cwd)
        abx_mut_str(d, obj, "cwd", cwd);
}

static void put_state(const abx_envd_client *c, yyjson_mut_doc *d, yyjson_mut_val *obj,
                      yyjson_val *info)
{
    const char *state = abx_json_str(info, "abxState", "running");
    bool exited = c->abx && strcmp(state, "exited") == 0;
    abx_mut_str(d, obj, "state", exited ? "exited" : "running");
    if (!c->abx)
        return;
    const char *started = abx_json_str(info, "abxStartedAt", NULL);
    abx_mut_str(d, obj, "startedAt", started);
    abx_mut_bool(d, obj, "background", abx_json_bool(info, "abxBackground", false));
    if (abx_json_bool(info, "abxTty", false))
        abx_mut_bool(d, obj, "tty", true);
    if (!exited)
        return;
    int number = abx_e2b_signal_number(abx_json_str(info, "abxSignal", ""));
    char name[16];
    abx__envd_signal_name(number, name);
    if (number > 0)
        abx_mut_str(d, obj, "signal", name);
    else
        abx_mut_int(d, obj, "exitCode", abx_json_int(info, "abxExitCode", 0));
    if (abx_json_bool(info, "abxTimedOut", false))
        abx_mut_bool(d, obj, "timedOut", true);
    abx__envd_put_limit(d, obj, abx_json_str(info, "abxLimit", NULL));
}

static int put_process(const abx_envd_client *c, yyjson_mut_doc *d, yyjson_mut_val *list,
                       yyjson_val *info, abx_error **err)
{
    ABX_AUTO_FREE char *id = abx__envd_process_id(c, info);
    if (!id)
        return abx_fail(err, ABX_ERR_BACKEND_ANSWER, "the id of a process does not fit");
    yyjson_mut_val *obj = yyjson_mut_arr_add_obj(d, list);
    int64_t pid = abx_json_int(info, "pid", 0);
    abx_mut_str(d, obj, "id", id);
    if (pid > 0)
        abx_mut_int(d, obj, "pid", pid);
    put_command(d, obj, yyjson_obj_get(info, "config"));
    put_state(c, d, obj, info);
    return 0;
}

static void on_list(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    if (err) {
        abx__envd_job_fail(job, err);
        return;
    }
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, "processes");
    size_t i = 0, n = 0;
    yyjson_val *info = NULL;
    yyjson_arr_foreach(yyjson_obj_get(answer, "processes"), i, n, info)
    {
        if (put_process(job->client, d, list, info, &err) < 0) {
            abx__envd_job_fail(job, err);
            return;
        }
    }
    abx__envd_job_end(job, ABX_TAKE(d));
}

static int list_start(abx__envd_job *job, abx_error **err)
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
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    if (job->client->abx)
        abx_mut_bool(d, root, "abx", true);
    return abx__envd_unary_start(job, &unary, d, on_list, err);
}

const abx__envd_op abx__envd_process_list = {.start = list_start};
