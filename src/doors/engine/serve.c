/* The life of the engine: lock, token, listener and file at its start; idle time; drain and close. */
#include "doors/engine/serve.h"

#include <string.h>
#include <sys/resource.h>

#include "abx_build.h"
#include "base/mem.h"
#include "base/wipe.h"
#include "doors/engine/engine.h"
#include "doors/engine/stream.h"
#include "host/serving_life.h"

#define MAX_CONNECTIONS 40000
#define MAX_HEAD        ((size_t)128 * 1024) /* X-Abx-Connection is the longest of it */

void engine_life_touch(engine *e)
{
    abx_serving_life_touch(e->life);
}

/* --- its end ----------------------------------------------------------------------------------------------------- */
static void free_engine(void *data)
{
    engine *e = data;
    engine_router_free(e->router);
    engine_streams_free(e->streams);
    engine_made_free(e->made);
    free(e->health);
    free(e->home);
    free(e->self);
    explicit_bzero(e, sizeof *e);
    free(e);
}

/* First the requests whose calls end, then the sessions. */
static bool parts_gone(void *data)
{
    engine *e = data;
    if (e->requests > 0)
        return false;
    if (e->sessions) {
        engine_sessions_close(e);
        return false;
    }
    return e->closing_sessions == 0;
}

void engine_life_part_gone(engine *e)
{
    abx_serving_life_check(e->life);
}

static void close_engine(void *data, void (*cb)(void *data), void *cb_data)
{
    engine *e = data;
    abx_logf(e->log, ABX_LOG_INFO, "the engine ends");
    abx_serving_life_close(e->life, e->http, cb, cb_data);
}

/* New clients start another engine: the file that leads here goes first. */
void engine_life_drain(engine *e)
{
    if (e->draining)
        return;
    e->draining = true;
    abx_serving_retire(e->serving);
    abx_serving_life_drain(e->life, e->http);
}

static void drain(void *data)
{
    engine_life_drain(data);
}

/* --- looks --------------------------------------------------------------------------------------------------------------- */
static bool is_busy(void *data)
{
    const engine *e = data;
    return abx_http_server_exchanges(e->http) > 0 || e->requests > 0;
}

static void on_look(void *data, uint64_t now)
{
    engine *e = data;
    engine_streams_tick(e->streams, now);
    engine_bodies_tick(&e->bodies, now);
    if (!e->draining)
        engine_sessions_tick(e, now);
}

/* Streams hear why they end. */
static void last_words(void *data)
{
    engine *e = data;
    ABX_AUTO_ERROR why = abx_error_new(ABX_ERR_NOT_SERVED, "the engine ends");
    abx_error *hinted = why;
    abx_hint(&hinted, "'abx provider engine serve --detach' starts another one");
    abx_link *next;
    for (abx_link *n = e->all.next; n != &e->all; n = next) {
        next = n->next;
        engine_request *r = ABX_OF(n, engine_request, node);
        if (r->x && r->last_words)
            r->last_words(r, why);
    }
}

static const abx_serving_hooks HOOKS = {.busy = is_busy,
                                        .tick = on_look,
                                        .last_words = last_words,
                                        .gone = parts_gone,
                                        .free = free_engine};

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

static int publish(engine *e, abx_error **err)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "protocol", ENGINE_PROTOCOL);
    abx_mut_int(d, root, "port", e->port);
    abx_mut_str(d, root, "token", e->token);
    return abx_serving_publish(e->serving, d, err);
}

static int open_parts(engine *e, const abx_serve_options *o, abx_error **err)
{
    abx_http_server_options options = {.max_connections = MAX_CONNECTIONS,
                                       .max_head_bytes = MAX_HEAD,
                                       .refusal = engine_refusal,
                                       .wipe = true,
                                       .awake = true,
                                       .log = o->log};
    engine_token_make(e);
    e->router = engine_router_new();
    e->streams = engine_streams_new();
    e->made = engine_made_new();
    engine_bodies_init(&e->bodies);
    abx_link_init(&e->all);
    e->health = abx_format("{\"status\":\"ok\",\"protocol\":\"%s\",\"version\":\"%s\"}",
                           ENGINE_PROTOCOL, ABX_VERSION);
    if (abx_http_server_open(e->loop, &options, dispatch, e, &e->http, err) < 0 ||
        abx_serving_listen(e->http, o->port, &e->port, err) < 0)
        return -1;
    abx_serving_life_start(e->life);
    return publish(e, err);
}

static int open_engine(const abx_serve_options *o, void **out, abx_error **err)
{
    abx_serving *serving;
    int rc = abx_serving_begin(o->home, engine_server_door.name, &serving, err);
    if (rc != 0)
        return rc;
    raise_files();
    abx_wipe_freed();
    engine *e = ABX_NEW(engine);
    e->loop = o->loop;
    e->home = abx_strdup(o->home);
    e->self = abx_strdup(o->self);
    e->adapters = o->adapters;
    e->log = o->log;
    e->tells_requests = o->tells_requests;
    e->session_idle_ms = o->session_idle_ms;
    e->serving = serving;
    e->life = abx_serving_life_new(o, serving, &HOOKS, e);
    *out = e;
    if (open_parts(e, o, err) == 0) {
        abx_logf(e->log, ABX_LOG_INFO, "the engine listens on %s:%d", ABX_SERVING_ADDRESS, e->port);
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
