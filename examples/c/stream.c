/* stream: two commands at once in one sandbox, their output as it comes, in a loop of this program's own. */
#include "example.h"

#include <poll.h>

static int running;

static void on_event(abx_call *call, const abx_event *event, void *user)
{
    const char *name = user;
    if (event->kind == ABX_KIND_CHUNK)
        printf("%s: %.*s", name, (int)event->length, event->data);
    if (event->kind != ABX_KIND_END)
        return;
    printf("%s has ended: %s\n", name, event->data);
    abx_call_free(call);
    running--;
}

static void start(abx_provider *p, const char *sandbox, const char *command, char *name)
{
    abx_error *err = NULL;
    char *params =
        text("{\"sandboxId\":\"%s\",\"cmd\":\"%s\",\"shell\":true}", sandbox, command);
    if (!abx_call_start(p, "process.start", params, 0, on_event, name, &err))
        fail(err);
    free(params);
    running++;
}

int main(void)
{
    abx_error *err = NULL;
    abx_context *ctx = abx_context_new(NULL, &err);
    abx_provider *p = ctx ? abx_provider_open(ctx, "{\"provider\":\"local\"}", &err) : NULL;
    if (!p)
        fail(err);
    char *sandbox = new_sandbox(p);
    static char numbers[] = "numbers", word[] = "word";
    start(p, sandbox, "for i in 1 2 3; do echo $i; sleep 0.2; done", numbers);
    start(p, sandbox, "sleep 0.3; echo a word", word);

    struct pollfd fd = {abx_context_fd(ctx, &err), POLLIN, 0}; /* and whatever else this program waits for */
    if (fd.fd < 0)
        fail(err);
    while (running > 0 && poll(&fd, 1, -1) >= 0)
        abx_context_run(ctx, 0);

    end_sandbox(p, sandbox);
    abx_context_free(ctx);
    return 0;
}
