/* The public names of abx/abx.h. Objects are the same pointers under other names; an event is copied as far as the caller's structure
 * goes. */
#include <abx/abx.h>

#include <stdlib.h>
#include <string.h>

#include "abx_build.h"
#include "base/error.h"
#include "base/json.h"
#include "doors/capi/capi.h"

_Static_assert(ABX_KIND_EVENT == (int)CAPI_EVENT && ABX_KIND_CHUNK == (int)CAPI_CHUNK &&
                   ABX_KIND_END == (int)CAPI_END && ABX_KIND_WRITABLE == (int)CAPI_WRITABLE,
               "the kinds of events are the same on both sides");

/* --- library, errors: abx_error_code, _type, _hint and _free are those of base/error.c -------------------- */

const char *abx_version(void)
{
    return ABX_VERSION;
}

char *abx_operations(void)
{
    return capi_operations();
}

char *abx_json_member(const char *json, const char *path)
{
    return capi_json_member(json, path);
}

char *abx_json_string(const char *text)
{
    return capi_json_string(text);
}

void abx_free(void *text)
{
    free(text);
}

const char *abx_error_message(const abx_error *e)
{
    return abx_error_text(e);
}

int abx_error_retryable(const abx_error *e)
{
    return e->retryable;
}

char *abx_error_to_json(const abx_error *e)
{
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(d, abx_error_json(d, e));
    ABX_AUTO_JSON frozen = abx_json_freeze(d);
    return abx_json_text(yyjson_doc_get_root(frozen));
}

/* --- context -------------------------------------------------------------------------------------------- */

abx_context *abx_context_new(const char *options, abx_error **err)
{
    return (abx_context *)capi_context_new(options, err);
}

void abx_context_free(abx_context *ctx)
{
    capi_context_free((capi_context *)ctx);
}

const char *abx_context_home(const abx_context *ctx)
{
    return capi_context_home((const capi_context *)ctx);
}

void abx_context_set_log(abx_context *ctx, int level,
                         void (*write)(int level, const char *line, void *user), void *user)
{
    capi_context_set_log((capi_context *)ctx, level, write, user);
}

int abx_context_fd(abx_context *ctx, abx_error **err)
{
    return capi_context_fd((capi_context *)ctx, err);
}

int abx_context_run(abx_context *ctx, int timeout_ms)
{
    return capi_context_run((capi_context *)ctx, timeout_ms);
}

abx_call *abx_context_ready(abx_context *ctx)
{
    return (abx_call *)capi_context_ready((capi_context *)ctx);
}

void abx_context_wake(abx_context *ctx)
{
    capi_context_wake((capi_context *)ctx);
}

/* --- providers ------------------------------------------------------------------------------------------ */

abx_provider *abx_provider_open(abx_context *ctx, const char *connection, abx_error **err)
{
    return (abx_provider *)capi_provider_open((capi_context *)ctx, connection, err);
}

void abx_provider_close(abx_provider *p)
{
    capi_provider_close((capi_provider *)p);
}

const char *abx_provider_id(const abx_provider *p)
{
    return capi_provider_id((const capi_provider *)p);
}

char *abx_provider_describe(abx_provider *p, abx_error **err)
{
    return capi_provider_describe((capi_provider *)p, err);
}

char *abx_provider_connection(abx_provider *p, abx_error **err)
{
    return capi_provider_connection((capi_provider *)p, err);
}

char *abx_sandbox_find(abx_provider *p, const char *word, abx_error **err)
{
    return capi_sandbox_find((capi_provider *)p, word, err);
}

char *abx_provider_call(abx_provider *p, const char *method, const char *params, int64_t timeout_ms,
                        abx_error **err)
{
    return capi_provider_call((capi_provider *)p, method, params, timeout_ms, err);
}

char *abx_provider_list(abx_context *ctx, abx_error **err)
{
    return capi_provider_list((capi_context *)ctx, err);
}

char *abx_provider_info(abx_context *ctx, const char *provider, abx_error **err)
{
    return capi_provider_info((capi_context *)ctx, provider, err);
}

char *abx_provider_caps(abx_context *ctx, abx_error **err)
{
    return capi_provider_caps((capi_context *)ctx, err);
}

char *abx_provider_verify(abx_context *ctx, const char *provider, abx_error **err)
{
    return capi_provider_verify((capi_context *)ctx, provider, err);
}

char *abx_provider_install(abx_context *ctx, const char *source, const char *options,
                           abx_error **err)
{
    return capi_provider_install((capi_context *)ctx, source, options, err);
}

int abx_provider_remove(abx_context *ctx, const char *provider, int force, abx_error **err)
{
    return capi_provider_remove((capi_context *)ctx, provider, force != 0, err);
}

/* --- upkeep --------------------------------------------------------------------------------------------- */

char *abx_settings_list(abx_context *ctx, abx_error **err)
{
    return capi_settings((capi_context *)ctx, err);
}

char *abx_ledger_list(abx_context *ctx, abx_error **err)
{
    return capi_ledger((capi_context *)ctx, err);
}

char *abx_gc(abx_context *ctx, int dry_run, abx_error **err)
{
    return capi_gc((capi_context *)ctx, dry_run != 0, err);
}

/* --- calls ---------------------------------------------------------------------------------------------- */

static void show(const capi_event *from, abx_event *to)
{
    to->kind = from->kind;
    to->name = from->name;
    to->data = from->data;
    to->length = from->length;
    to->error = from->error;
}

void capi_hand_over(void (*fn)(void), capi_call *call, const capi_event *event, void *user)
{
    abx_event shown = {.size = sizeof(shown)};
    show(event, &shown);
    ((abx_event_fn)fn)((abx_call *)call, &shown, user);
}

abx_call *abx_call_start(abx_provider *p, const char *method, const char *params,
                         int64_t timeout_ms, abx_event_fn on_event, void *user, abx_error **err)
{
    return (abx_call *)capi_call_start((capi_provider *)p, method, params, timeout_ms,
                                       (void (*)(void))on_event, user, err);
}

int abx_call_next(abx_call *call, abx_event *event, int timeout_ms)
{
    capi_event got = {0};
    if (event->size < sizeof(*event))
        return -1; /* no version had a smaller one */
    int rc = capi_call_next((capi_call *)call, &got, timeout_ms);
    if (rc == 1)
        show(&got, event);
    return rc;
}

int abx_call_send(abx_call *call, const void *bytes, size_t length, int timeout_ms)
{
    return capi_call_send((capi_call *)call, bytes, length, timeout_ms);
}

void abx_call_send_end(abx_call *call)
{
    capi_call_send_end((capi_call *)call);
}

void abx_call_stop(abx_call *call)
{
    capi_call_stop((capi_call *)call);
}

void abx_call_flow(abx_call *call, int on)
{
    capi_call_flow((capi_call *)call, on != 0);
}

void *abx_call_user(const abx_call *call)
{
    return capi_call_user((const capi_call *)call);
}

void abx_call_free(abx_call *call)
{
    capi_call_free((capi_call *)call);
}
