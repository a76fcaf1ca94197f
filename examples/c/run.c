/* run COMMAND [ARGUMENT...]: run a command in a sandbox of its own, show its output, end with its exit code. */
#include "example.h"

/* ["word","word"…] */
static char *json_list(char **words)
{
    char *list = strdup("[");
    for (; *words; words++) {
        char *word = abx_json_string(*words), *longer = text("%s%s%s", list, word, words[1] ? "," : "]");
        abx_free(word);
        free(list);
        list = longer;
    }
    return list;
}

int main(int argc, char **argv)
{
    abx_error *err = NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: run COMMAND [ARGUMENT...]\n");
        return 2;
    }
    abx_context *ctx = abx_context_new(NULL, &err);
    abx_provider *p = ctx ? abx_provider_open(ctx, "{\"provider\":\"local\"}", &err) : NULL;
    if (!p)
        fail(err);

    char *sandbox = new_sandbox(p), *cmd = json_list(argv + 1);
    char *params = text("{\"sandboxId\":\"%s\",\"cmd\":%s}", sandbox, cmd);
    abx_call *call = abx_call_start(p, "process.start", params, 0, NULL, NULL, &err);
    if (!call)
        fail(err);

    int code = 125;
    abx_event event = {.size = sizeof(event)};
    while (abx_call_next(call, &event, -1) >= 0) {
        if (event.kind == ABX_KIND_CHUNK)
            fwrite(event.data, 1, event.length, strcmp(event.name, "stderr") == 0 ? stderr : stdout);
        if (event.kind == ABX_KIND_END && event.error)
            fprintf(stderr, "%s\n", abx_error_message(event.error));
        if (event.kind == ABX_KIND_END && !event.error) {
            char *exit_code = abx_json_member(event.data, "exitCode");
            code = exit_code ? atoi(exit_code) : 128; /* no code: a signal ended it */
            abx_free(exit_code);
        }
    }
    abx_call_free(call);
    end_sandbox(p, sandbox);
    free(cmd);
    free(params);
    abx_provider_close(p);
    abx_context_free(ctx);
    return code;
}
