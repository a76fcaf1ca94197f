/* The library behind abx/abx.h, under names of its own: inside of this program `abx_call` and `abx_provider` are other things. exports.c
 * puts the public names in front; abx.h is the manual of what is not said here. */
#ifndef ABX_CAPI_CAPI_H
#define ABX_CAPI_CAPI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct capi_context capi_context;
typedef struct capi_provider capi_provider;
typedef struct capi_call capi_call;

enum { CAPI_EVENT = 1, CAPI_CHUNK, CAPI_END, CAPI_WRITABLE };

typedef struct capi_event {
    int kind;
    const char *name, *data;
    size_t length;
    const abx_error *error;
} capi_event;

/* Give an event to a callback of the caller (exports.c: it knows the public types). */
void capi_hand_over(void (*fn)(void), capi_call *call, const capi_event *event, void *user);

capi_context *capi_context_new(const char *options, abx_error **err);
void capi_context_free(capi_context *ctx);
const char *capi_context_home(const capi_context *ctx);
void capi_context_set_log(capi_context *ctx, int level,
                          void (*write)(int level, const char *line, void *user), void *user);
int capi_context_fd(capi_context *ctx, abx_error **err);
int capi_context_run(capi_context *ctx, int timeout_ms);
capi_call *capi_context_ready(capi_context *ctx);
void capi_context_wake(capi_context *ctx);

capi_provider *capi_provider_open(capi_context *ctx, const char *connection, abx_error **err);
void capi_provider_close(capi_provider *p);
const char *capi_provider_id(const capi_provider *p);
char *capi_provider_describe(capi_provider *p, abx_error **err);
char *capi_provider_connection(capi_provider *p, abx_error **err);
char *capi_sandbox_find(capi_provider *p, const char *word, abx_error **err);

capi_call *capi_call_start(capi_provider *p, const char *method, const char *params,
                           int64_t timeout_ms, void (*on_event)(void), void *user, abx_error **err);
int capi_call_next(capi_call *call, capi_event *event, int timeout_ms);
int capi_call_send(capi_call *call, const void *bytes, size_t length, int timeout_ms);
void capi_call_send_end(capi_call *call);
void capi_call_stop(capi_call *call);
void capi_call_flow(capi_call *call, bool on);
void *capi_call_user(const capi_call *call);
void capi_call_free(capi_call *call);
char *capi_provider_call(capi_provider *p, const char *method, const char *params,
                         int64_t timeout_ms, abx_error **err);

char *capi_provider_list(capi_context *ctx, abx_error **err);
char *capi_provider_info(capi_context *ctx, const char *provider, abx_error **err);
char *capi_provider_caps(capi_context *ctx, abx_error **err);
char *capi_provider_verify(capi_context *ctx, const char *provider, abx_error **err);
char *capi_provider_install(capi_context *ctx, const char *source, const char *options,
                            abx_error **err);
int capi_provider_remove(capi_context *ctx, const char *provider, bool force, abx_error **err);
char *capi_settings(capi_context *ctx, abx_error **err);
char *capi_ledger(capi_context *ctx, abx_error **err);
char *capi_gc(capi_context *ctx, bool dry, abx_error **err);

char *capi_operations(void);
char *capi_json_member(const char *json, const char *path);
char *capi_json_string(const char *text);

#endif
