/* A small command in the sandbox, for what a stranger's envd has no call for: run by the shell there, its words and its code are
 * kept. */
#include "e2b/client_inner.h"

#include "base/mem.h"

#define COMMAND_MS 30000
#define MAX_WORDS  ((size_t)4096)

static int on_data(abx__envd_job *job, abx_e2b_channel channel, const uint8_t *bytes, size_t n)
{
    abx_buf *words = &job->command.words;
    size_t room = MAX_WORDS - words->len;
    if (channel == ABX_E2B_STDERR && room > 0)
        ABX_CHECK(abx_buf_add(words, bytes, n < room ? n : room) == 0);
    return 1;
}

static int on_message(abx__envd_job *job, yyjson_val *message, abx_error **err)
{
    yyjson_val *end = yyjson_obj_get(yyjson_obj_get(message, "event"), "end");
    if (!end)
        return abx__envd_stream_idle(job, err);
    job->command.exit =
        abx_json_bool(end, "exited", false) ? abx_json_int(end, "exitCode", 0) : 255;
    return 0;
}

static void on_end(abx__envd_job *job, abx_error *err, const char *code)
{
    if (!err && job->command.exit < 0)
        err = abx__envd_bad_answer(job->client, "the command ended without a result");
    job->command.done(job, job->command.exit, err);
}

int abx__envd_command(abx__envd_job *job, const char *script, const char *word,
                      void (*done)(abx__envd_job *job, int64_t exit, abx_error *err),
                      abx_error **err)
{
    static const abx__envd_stream_spec spec = {
        .path = "/process.Process/Start",
        .request = ABX_E2B_START_REQUEST,
        .answer = ABX_E2B_START_RESPONSE,
        .has_user = true,
        .data = on_data,
        .message = on_message,
        .end = on_end,
        .kind = ABX__ENVD_START,
    };
    const char *const words[] = {"-c", script, "sh", word};
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    yyjson_mut_val *config = abx_mut_obj(d, root, "process");
    abx_mut_str(d, config, "cmd", "/bin/sh");
    yyjson_mut_val *args = abx_mut_arr(d, config, "args");
    for (size_t i = 0; i < ABX_COUNT(words); i++)
        yyjson_mut_arr_add_strcpy(d, args, words[i]);
    if (abx__envd_has(job->client, ABX__ENVD_V(0, 3, 0)))
        abx_mut_bool(d, root, "stdin", false);
    abx_buf_clear(&job->command.words);
    abx_buf_init(&job->command.words, MAX_WORDS);
    job->command.exit = -1;
    job->command.done = done;
    return abx__envd_stream_start(job, &spec, d, COMMAND_MS, err);
}
