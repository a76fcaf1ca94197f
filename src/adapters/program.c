#include "adapters/program.h"

#include <string.h>

#include "abx_build.h"
#include "base/mem.h"
#include "host/plugin_log.h"

/* Somebody who waits for the program to be ready. */
typedef struct waiter {
    struct waiter *next;
    void (*cb)(void *data, const abx_error *err);
    void *data;
} waiter;

typedef struct program {
    abx_provider base; /* first */
    const abx_program_kind *kind;
    void *state; /* the kind's */
    abx_connection connection;
    yyjson_doc *greeting;
    yyjson_doc *declared; /* features of the manifest */
    yyjson_doc *features; /* of the program that runs; or NULL */
    abx_plugin_log *log;
    abx_epp_session *session; /* starting or ready; NULL: none */
    waiter *waiters;
    int closing; /* sessions that are not gone yet, and one while close has not been asked for */
    void (*close_cb)(void *data);
    void *close_data;
} program;

int abx_program_open(const abx_program_kind *kind, const abx_connection *connection,
                     abx_provider **out, abx_error **err)
{
    program *p = ABX_NEW(program);
    p->kind = kind;
    p->base.adapter = kind->adapter;
    p->base.opening = true;
    p->connection = *connection;
    p->state = kind->prepare(&p->connection, err);
    if (!p->state) {
        free(p);
        return -1;
    }
    p->greeting = abx_program_greeting(connection);
    p->declared = abx_manifest_features(connection->plugin->manifest);
    p->base.features = yyjson_doc_get_root(p->declared);
    p->log = abx_plugin_log_new(connection->home, connection->provider);
    p->closing = 1;
    *out = &p->base;
    return 0;
}

static void free_provider(program *p)
{
    p->kind->free(p->state);
    abx_json_wipe(p->greeting);
    yyjson_doc_free(p->declared);
    yyjson_doc_free(p->features);
    abx_plugin_log_free(p->log);
    free(p);
}

static void on_gone(void *data)
{
    program *p = data;
    if (--p->closing > 0)
        return;
    void (*cb)(void *) = p->close_cb;
    void *cb_data = p->close_data;
    free_provider(p);
    if (cb)
        cb(cb_data);
}

static void tell_waiters(program *p, const abx_error *err)
{
    waiter *list = ABX_TAKE(p->waiters);
    while (list) {
        waiter *w = list;
        list = w->next;
        w->cb(w->data, err);
        free(w);
    }
}

/* The program is not there (any more): the next call starts another one. */
static void let_go(program *p)
{
    abx_epp_session *s = ABX_TAKE(p->session);
    p->base.opening = true;
    p->base.features = yyjson_doc_get_root(p->declared);
    yyjson_doc_free(ABX_TAKE(p->features));
    if (s) {
        p->closing++;
        abx_epp_session_close(s, on_gone, p);
    }
}

static void on_log(abx_log_level level, const char *line, void *data)
{
    program *p = data;
    abx_plugin_log_write(p->log, level, line);
    abx_log_level shown = level <= ABX_LOG_WARN ? ABX_LOG_INFO : ABX_LOG_DEBUG;
    abx_logf(p->connection.log, shown, "%s: %s", p->connection.provider, line);
}

static void on_unknown(const char *name, void *data)
{
    program *p = data;
    ABX_AUTO_FREE char *line = abx_format(
        "its program names a feature that this version of abx does not know: '%.80s'", name);
    on_log(ABX_LOG_WARN, line, p);
}

static void on_ready(abx_epp_session *s, yyjson_val *result, const abx_error *err, void *data)
{
    program *p = data;
    if (err) {
        ABX_AUTO_ERROR why = abx_error_copy(err);
        let_go(p);
        tell_waiters(p, why);
        return;
    }
    yyjson_doc_free(p->features);
    p->features = abx_program_features(p->connection.plugin->manifest, result, on_unknown, p);
    p->base.features = yyjson_doc_get_root(p->features);
    p->base.flow = abx_epp_session_has_flow(s);
    p->base.opening = false;
    tell_waiters(p, NULL);
}

static void on_fault(abx_epp_session *s, const abx_error *why, void *data)
{
    (void)s;
    (void)why; /* the calls tell it */
    let_go(data);
}

static void start_session(program *p)
{
    const abx_connection *c = &p->connection;
    abx_epp_session_options options = {
        .loop = c->loop,
        .keeper = c->keeper,
        .name = c->provider,
        .program_fd = -1,
        .greeting = yyjson_doc_get_root(p->greeting),
        .secrets = c->secrets,
        .host_version = ABX_VERSION,
        .call_ms = c->plugin->manifest->call_timeout_ms,
        .strict = c->strict,
        .on_ready = on_ready,
        .on_fault = on_fault,
        .on_log = on_log,
        .data = p,
    };
    p->kind->fill(p->state, &options);
    p->session = abx_epp_session_open(&options);
}

void abx_program_prepare(abx_provider *provider, void (*cb)(void *data, const abx_error *err),
                         void *data)
{
    program *p = (program *)provider;
    waiter *w = ABX_NEW(waiter), **at = &p->waiters;
    *w = (waiter){.cb = cb, .data = data};
    while (*at)
        at = &(*at)->next;
    *at = w;
    if (!p->session)
        start_session(p);
}

int abx_program_start(abx_provider *provider, abx_call *call, abx_error **err)
{
    program *p = (program *)provider;
    if (p->session && !p->base.opening)
        return abx_epp_session_start(p->session, call, err);
    return abx_fail(err, ABX_ERR_PROVIDER_CRASHED, "provider '%s': its program has just ended",
                    p->connection.provider);
}

void abx_program_close(abx_provider *provider, void (*cb)(void *data), void *data)
{
    program *p = (program *)provider;
    p->close_cb = cb;
    p->close_data = data;
    let_go(p);
    abx_error *why =
        abx_error_new(ABX_ERR_CANCELLED, "provider '%s' was closed", p->connection.provider);
    tell_waiters(p, why);
    abx_error_free(why);
    on_gone(p);
}
