/* upload FILE: write a file of this machine into a sandbox, and count its lines there. */
#include "example.h"

static char *finish(abx_call *call)
{
    abx_event event = {.size = sizeof(event)};
    char *result = NULL;
    while (abx_call_next(call, &event, -1) >= 0) {
        if (event.kind == ABX_KIND_CHUNK)
            fwrite(event.data, 1, event.length, stdout);
        if (event.kind == ABX_KIND_END && event.error)
            fprintf(stderr, "%s\n", abx_error_message(event.error));
        if (event.kind == ABX_KIND_END)
            result = strdup(event.data);
    }
    abx_call_free(call);
    return result;
}

static abx_call *start(abx_provider *p, const char *method, const char *params)
{
    abx_error *err = NULL;
    abx_call *call = abx_call_start(p, method, params, 0, NULL, NULL, &err);
    if (!call)
        fail(err);
    return call;
}

int main(int argc, char **argv)
{
    abx_error *err = NULL;
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (!file) {
        fprintf(stderr, "usage: upload FILE\n");
        return 2;
    }
    abx_context *ctx = abx_context_new(NULL, &err);
    abx_provider *p = ctx ? abx_provider_open(ctx, "{\"provider\":\"local\"}", &err) : NULL;
    if (!p)
        fail(err);
    char *sandbox = new_sandbox(p);

    char *params = text("{\"sandboxId\":\"%s\",\"path\":\"data/file\"}", sandbox);
    abx_call *call = start(p, "fs.write", params);
    static char block[65536];
    size_t n;
    while ((n = fread(block, 1, sizeof(block), file)) > 0)
        abx_call_send(call, block, n, -1); /* waits while the other side does */
    abx_call_send_end(call);
    char *written = finish(call);
    char *size = abx_json_member(written, "size");
    printf("%s bytes\n", size ? size : "no");
    free(params);

    params = text("{\"sandboxId\":\"%s\",\"cmd\":[\"wc\",\"-l\",\"data/file\"]}", sandbox);
    free(finish(start(p, "process.start", params)));
    free(params);
    free(written);
    abx_free(size);
    fclose(file);
    end_sandbox(p, sandbox);
    abx_context_free(ctx);
    return 0;
}
