/* providers: the providers that can be used here, and what each can do. */
#include "example.h"

int main(void)
{
    abx_error *err = NULL;
    abx_context *ctx = abx_context_new(NULL, &err);
    char *list = ctx ? abx_provider_caps(ctx, &err) : NULL;
    if (!list)
        fail(err);
    for (int i = 0;; i++) {
        char *at = text("providers.%d.id", i), *id = abx_json_member(list, at);
        free(at);
        if (!id)
            break;
        at = text("providers.%d.features.pause", i);
        char *pause = abx_json_member(list, at);
        printf("%s: pause %s\n", id, pause ? pause : "not known without credentials");
        free(at);
        abx_free(id);
        abx_free(pause);
    }
    abx_free(list);
    abx_context_free(ctx);
    return 0;
}
