/* What the examples share: end with the error, a sandbox and its end. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <abx/abx.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline _Noreturn void fail(abx_error *err)
{
    fprintf(stderr, "%s: %s\n", abx_error_code(err), abx_error_message(err));
    if (abx_error_hint(err))
        fprintf(stderr, "  %s\n", abx_error_hint(err));
    abx_error_free(err);
    exit(1);
}

/* A text built like printf does it; the caller frees it. */
static inline __attribute__((format(printf, 1, 2))) char *text(const char *format, ...)
{
    va_list words, again;
    va_start(words, format);
    va_copy(again, words);
    size_t size = (size_t)vsnprintf(NULL, 0, format, words) + 1;
    char *out = malloc(size);
    if (!out)
        abort();
    vsnprintf(out, size, format, again);
    va_end(words);
    va_end(again);
    return out;
}

/* A new sandbox: its id; the caller frees it. It ends by itself after five minutes, whatever happens to this program. */
static inline char *new_sandbox(abx_provider *p)
{
    abx_error *err = NULL;
    char *made = abx_provider_call(p, "sandbox.create", "{\"timeoutMs\":300000}", 0, &err);
    if (!made)
        fail(err);
    char *id = abx_json_member(made, "id");
    abx_free(made);
    return id;
}

static inline void end_sandbox(abx_provider *p, char *id)
{
    char *params = text("{\"sandboxId\":\"%s\"}", id);
    abx_free(abx_provider_call(p, "sandbox.kill", params, 0, NULL));
    free(params);
    abx_free(id);
}

#endif
