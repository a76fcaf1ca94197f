/* What the tests of the C library share: cmocka, a context with a home of its own, calls in one line. */
#ifndef TESTS_CAPI_RIG_H
#define TESTS_CAPI_RIG_H

#include <abx/abx.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the headers above */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define RIG_LONG 60000 /* milliseconds: nobody waits that long unless something hangs */

typedef struct rig {
    char home[64];
    abx_context *ctx;
    abx_provider *local;
    char sandbox[64];
} rig;

static inline void rig_must(const void *answer, abx_error *err)
{
    if (!answer)
        fail_msg("%s %s", abx_error_code(err), abx_error_message(err));
}

/* An error with this code is there; it is freed. */
static inline void rig_fails(abx_error **err, const char *code)
{
    assert_non_null(*err);
    assert_string_equal(abx_error_code(*err), code);
    abx_error_free(*err);
    *err = NULL;
}

static inline abx_context *rig_context(const char *home)
{
    char options[160];
    abx_error *err = NULL;
    snprintf(options, sizeof(options), "{\"home\":\"%s\",\"config\":false}", home);
    abx_context *ctx = abx_context_new(options, &err);
    rig_must(ctx, err);
    return ctx;
}

static inline abx_provider *rig_open(abx_context *ctx, const char *connection)
{
    abx_error *err = NULL;
    abx_provider *p = abx_provider_open(ctx, connection, &err);
    rig_must(p, err);
    return p;
}

/* A sandbox of `local`; its id goes to id (room for 64). */
static inline void rig_sandbox(abx_provider *p, char *id)
{
    abx_error *err = NULL;
    char *made = abx_provider_call(p, "sandbox.create", NULL, 0, &err);
    rig_must(made, err);
    assert_int_equal(sscanf(strstr(made, "\"id\":\"") + 6, "%63[^\"]", id), 1);
    abx_free(made);
}

static inline void rig_kill(abx_provider *p, const char *id)
{
    char params[128];
    abx_error *err = NULL;
    snprintf(params, sizeof(params), "{\"sandboxId\":\"%s\"}", id);
    char *gone = abx_provider_call(p, "sandbox.kill", params, 0, &err);
    rig_must(gone, err);
    abx_free(gone);
}

static inline int rig_setup(void **state)
{
    rig *r = calloc(1, sizeof(*r));
    strcpy(r->home, "/tmp/abx-capi-XXXXXX");
    assert_non_null(mkdtemp(r->home));
    r->ctx = rig_context(r->home);
    r->local = rig_open(r->ctx, "{\"provider\":\"local\"}");
    rig_sandbox(r->local, r->sandbox);
    *state = r;
    return 0;
}

static inline int rig_teardown(void **state)
{
    rig *r = *state;
    char command[128];
    rig_kill(r->local, r->sandbox);
    abx_context_free(r->ctx);
    snprintf(command, sizeof(command), "rm -rf '%s'", r->home);
    int rc = system(command);
    free(r);
    return rc;
}

/* process.start of a shell command, with more members ("" or ",\"stdin\":\"stream\""). */
static inline abx_call *rig_shell(const rig *r, const char *command, const char *more,
                                  abx_event_fn on_event, void *user)
{
    char params[1024];
    abx_error *err = NULL;
    snprintf(params, sizeof(params), "{\"sandboxId\":\"%s\",\"cmd\":[\"sh\",\"-c\",\"%s\"]%s}",
             r->sandbox, command, more);
    abx_call *c = abx_call_start(r->local, "process.start", params, 0, on_event, user, &err);
    rig_must(c, err);
    return c;
}

/* Take all events up to the end. Output goes to out (room for n), the end's text to end (room for 512; NULL allowed). Returns the bytes
 * of output. */
static inline size_t rig_finish(abx_call *c, char *out, size_t n, char *end)
{
    abx_event e = {.size = sizeof(e)};
    size_t total = 0;
    int rc;
    while ((rc = abx_call_next(c, &e, RIG_LONG)) == 1) {
        if (e.kind == ABX_KIND_CHUNK) {
            for (size_t i = 0; i < e.length; i++, total++)
                if (total + 1 < n)
                    out[total] = e.data[i];
        } else if (e.kind == ABX_KIND_END && end) {
            snprintf(end, 512, "%s", e.data);
        }
    }
    assert_int_equal(rc, -1);
    if (n > 0)
        out[total < n ? total : n - 1] = 0;
    return total;
}

#endif
