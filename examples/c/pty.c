/* pty LINE: open a shell on a terminal of 100 columns, type a line, show what it answers, leave. */
#include "example.h"

static void type(abx_provider *p, const char *sandbox, const char *pty, const char *line)
{
    abx_error *err = NULL;
    char *params = text("{\"sandboxId\":\"%s\",\"ptyId\":\"%s\"}", sandbox, pty);
    abx_call *call = abx_call_start(p, "pty.write", params, 0, NULL, NULL, &err);
    if (!call)
        fail(err);
    abx_call_send(call, line, strlen(line), -1);
    abx_call_send(call, "\n", 1, -1);
    abx_call_send_end(call);
    abx_event event = {.size = sizeof(event)};
    while (abx_call_next(call, &event, -1) >= 0)
        ;
    abx_call_free(call);
    free(params);
}

int main(int argc, char **argv)
{
    abx_error *err = NULL;
    if (argc != 2) {
        fprintf(stderr, "usage: pty LINE\n");
        return 2;
    }
    abx_context *ctx = abx_context_new(NULL, &err);
    abx_provider *p = ctx ? abx_provider_open(ctx, "{\"provider\":\"local\"}", &err) : NULL;
    if (!p)
        fail(err);
    char *sandbox = new_sandbox(p);
    char *params = text("{\"sandboxId\":\"%s\",\"cmd\":[\"sh\"],\"cols\":100,\"rows\":30}", sandbox);
    abx_call *call = abx_call_start(p, "pty.open", params, 0, NULL, NULL, &err);
    if (!call)
        fail(err);
    abx_event event = {.size = sizeof(event)};
    while (abx_call_next(call, &event, -1) >= 0) {
        if (event.kind == ABX_KIND_CHUNK)
            fwrite(event.data, 1, event.length, stdout);
        if (event.kind == ABX_KIND_EVENT && strcmp(event.name, "started") == 0) {
            char *pty = abx_json_member(event.data, "id");
            type(p, sandbox, pty, argv[1]);
            type(p, sandbox, pty, "exit");
            abx_free(pty);
        }
        if (event.kind == ABX_KIND_END)
            printf("ended: %s\n", event.data);
    }
    abx_call_free(call);
    free(params);
    end_sandbox(p, sandbox);
    abx_context_free(ctx);
    return 0;
}
