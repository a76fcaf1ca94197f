/* The life of the engine: lock, token, listener and file at its start; idle time; drain and close. */
#include "doors/engine/serve.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "abx_build.h"
#include "base/clock.h"
#include "base/give_back.h"
#include "base/mem.h"
#include "doors/engine/engine.h"
#include "doors/engine/stream.h"

#define ADDRESS         "127.0.0.1"
#define LOOK_MS         250 /* between two looks whether it is idle, or drained */
#define DRAIN_MS        5000
#define MAX_CONNECTIONS 40000
#define MAX_HEAD        ((size_t)128 * 1024) /* X-Abx-Connection is the longest of it */

typedef struct engine_life {
    abx_serving *serving;
    uint64_t idle_ms;
    uint64_t used_ms;  /* monotonic: the last time that something was asked */
    uint64_t drain_ms; /* monotonic: when draining ends; 0: not draining */
    abx_give_back memory;
    uv_timer_t timer;
    bool timer_open, told, is_closing;
    void (*on_end)(void *data);
    void *data;
    int closing; /* what is still open */
    void (*closed)(void *data);
    void *closed_data;
} engine_life;

void engine_life_touch(engine *e)
{
    e->life->used_ms = abx_now_mono_ms();
}

/* --- its end ----------------------------------------------------------------------------------------------------- */
static void free_engine(engine *e)
{
    engine_life *life = e->life;
    void (*closed)(void *) = life->closed;
    void *data = life->closed_data;
    abx_serving_end(life->serving);
    engine_router_free(e->router);
    engine_streams_free(e->streams);
    engine_made_free(e->made);
    free(e->health);
    free(e->home);
    free(e->self);
    free(life);
    explicit_bzero(e, sizeof *e);
    free(e);
    if (closed)
        closed(data);
}

/* First the listener and all exchanges, then the requests whose calls end, then the sessions. */
void engine_life_part_gone(engine *e)
{
    engine_life *life = e->life;
    if (!life->is_closing || life->closing > 0 || e->requests > 0)
        return;
    if (e->sessions)
        engine_sessions_close(e);
    else if (e->closing_sessions == 0)
        free_engine(e);
}

static void part_closed(engine *e)
{
    e->life->closing--;
    engine_life_part_gone(e);
}

static void on_handle_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

static void on_http_closed(void *data)
{
    part_closed(data);
}

static void close_engine(void *data, void (*cb)(void *data), void *cb_data)
{
    engine *e = data;
    engine_life *life = e->life;
    life->closed = cb;
    life->closed_data = cb_data;
    life->closing = 1;
    life->is_closing = true;
    abx_logf(e->log, ABX_LOG_INFO, "the engine ends");
    if (e->http) {
        life->closing++;
        abx_http_server_close(e->http, on_http_closed, e);
    }
    if (life->timer_open) {
        life->closing++;
        uv_close((uv_handle_t *)&life->timer, on_handle_closed);
    }
    part_closed(e);
}

static void tell_end(engine_life *life)
{
    if (!life->told)
        life->on_end(life->data);
    life->told = true;
}

/* New clients start another engine: the file that leads here goes first. */
void engine_life_drain(engine *e)
{
    if (e->draining)
        return;
    e->draining = true;
    abx_serving_retire(e->life->serving);
    abx_http_server_stop(e->http);
    e->life->drain_ms = abx_now_mono_ms() + DRAIN_MS;
}

static void drain(void *data)
{
    engine_life_drain(data);
}

static void on_look(uv_timer_t *timer)
{
    engine *e = timer->data;
    engine_life *life = e->life;
    uint64_t now = abx_now_mono_ms();
    bool busy = abx_http_server_exchanges(e->http) > 0 || e->requests > 0;
    (void)abx_give_back_tick(&life->memory, now);
    engine_streams_tick(e->streams, now);
    if (life->drain_ms > 0) {
        if (!busy || now >= life->drain_ms)
            tell_end(life);
        return;
    }
    engine_sessions_tick(e, now);
    if (busy)
        life->used_ms = now;
    else if (life->idle_ms != ABX_FOREVER && now - life->used_ms >= life->idle_ms)
        tell_end(life);
}

/* --- requests ---------------------------------------------------------------------------------------------------------- */
static void dispatch(abx_exchange *x, void *data)
{
    engine *e = data;
    engine_life_touch(e);
    if (!engine_admits(e, x))
        return;
    if (e->draining) {
        ABX_AUTO_ERROR err = abx_error_new(ABX_ERR_NOT_SERVED, "the engine is about to end");
        abx_error *hinted = err;
        abx_hint(&hinted, "'abx provider engine serve --detach' starts another one");
        engine_refuse(x, err);
        return;
    }
    if (!engine_own_route(e, x))
        engine_route(e, x);
}

/* --- its start ---------------------------------------------------------------------------------------------------- */
/* As many clients as the kernel allows; children get what they are given. */
static void raise_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

static int start_listening(engine *e, int port, abx_error **err)
{
    abx_error *why = NULL;
    if (abx_http_server_listen_tcp(e->http, ADDRESS, port, &e->port, &why) == 0)
        return 0;
    if (why->sys_errno != EADDRINUSE)
        return abx_error_take(err, why);
    abx_error_free(why);
    abx_fail(err, ABX_ERR_CONFLICT, "port %d is in use by another program", port);
    return abx_hint(err, "choose another one, or leave --port out: any free one is taken");
}

static int publish(engine *e, abx_error **err)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "protocol", ENGINE_PROTOCOL);
    abx_mut_int(d, root, "port", e->port);
    abx_mut_str(d, root, "token", e->token);
    return abx_serving_publish(e->life->serving, d, err);
}

static int open_parts(engine *e, const abx_serve_options *o, abx_error **err)
{
    abx_http_server_options options = {.max_connections = MAX_CONNECTIONS,
                                       .max_head_bytes = MAX_HEAD,
                                       .refusal = engine_refusal,
                                       .wipe = true,
                                       .log = o->log};
    engine_token_make(e);
    e->router = engine_router_new();
    e->streams = engine_streams_new();
    e->made = engine_made_new();
    e->health = abx_format("{\"status\":\"ok\",\"protocol\":\"%s\",\"version\":\"%s\"}",
                           ENGINE_PROTOCOL, ABX_VERSION);
    if (abx_http_server_open(e->loop, &options, dispatch, e, &e->http, err) < 0 ||
        start_listening(e, o->port, err) < 0)
        return -1;
    ABX_CHECK(uv_timer_init(e->loop, &e->life->timer) == 0);
    e->life->timer.data = e;
    e->life->timer_open = true;
    uv_timer_start(&e->life->timer, on_look, LOOK_MS, LOOK_MS);
    return publish(e, err);
}

static int open_engine(const abx_serve_options *o, void **out, abx_error **err)
{
    abx_serving *serving;
    int rc = abx_serving_begin(o->home, engine_server_door.name, &serving, err);
    if (rc != 0)
        return rc;
    raise_files();
    engine *e = ABX_NEW(engine);
    e->loop = o->loop;
    e->home = abx_strdup(o->home);
    e->self = abx_strdup(o->self);
    e->adapters = o->adapters;
    e->log = o->log;
    e->tells_requests = o->tells_requests;
    e->session_idle_ms = o->session_idle_ms;
    e->life = ABX_NEW(engine_life);
    *e->life = (engine_life){.serving = serving,
                             .idle_ms = o->idle_ms,
                             .used_ms = abx_now_mono_ms(),
                             .on_end = o->on_end,
                             .data = o->data};
    *out = e;
    if (open_parts(e, o, err) == 0) {
        abx_logf(e->log, ABX_LOG_INFO, "the engine listens on %s:%d", ADDRESS, e->port);
        return 0;
    }
    *out = NULL;
    close_engine(e, NULL, NULL);
    return -1;
}

const abx_server_door engine_server_door = {.name = "engine",
                                            .own_hosts = true,
                                            .protocol = ENGINE_PROTOCOL,
                                            .open = open_engine,
                                            .drain = drain,
                                            .close = close_engine};
