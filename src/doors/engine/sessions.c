/* Sessions: one for each connection that clients use, a host of its own with all that its provider holds (programs, addresses, tokens). The
 * secrets end with it: its configuration overwrites them. */
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "doors/engine/engine.h"

#define SESSIONS_MAX 4096

static void touch(engine_session *s)
{
    s->uses++;
}

engine_session *engine_session_by_header(engine *e, const uint8_t header[ENGINE_DIGEST_BYTES])
{
    for (engine_session *s = e->sessions; s; s = s->next)
        if (memcmp(s->header, header, ENGINE_DIGEST_BYTES) == 0) {
            touch(s);
            return s;
        }
    return NULL;
}

engine_session *engine_session_by_digest(engine *e, const uint8_t digest[ENGINE_DIGEST_BYTES],
                                         const uint8_t header[ENGINE_DIGEST_BYTES])
{
    for (engine_session *s = e->sessions; s; s = s->next)
        if (memcmp(s->digest, digest, ENGINE_DIGEST_BYTES) == 0) {
            memcpy(s->header, header, ENGINE_DIGEST_BYTES);
            touch(s);
            return s;
        }
    return NULL;
}

/* --- closing ------------------------------------------------------------------------------------------------------------ */
static void on_host_closed(void *data)
{
    engine_session *s = data;
    engine *e = s->engine;
    abx_config_free(s->config);
    free(s->provider);
    explicit_bzero(s, sizeof *s);
    free(s);
    e->closing_sessions--;
    engine_life_part_gone(e);
}

/* Nobody finds it from now on: the same connection would get a new one. */
static void close_session(engine_session **at)
{
    engine_session *s = *at;
    engine *e = s->engine;
    *at = s->next;
    e->session_count--;
    e->closing_sessions++;
    abx_logf(e->log, ABX_LOG_INFO, "session of provider '%s' closed", s->provider);
    abx_host_close(s->host, on_host_closed, s);
}

void engine_sessions_tick(engine *e, uint64_t now_ms)
{
    for (engine_session **at = &e->sessions; *at;) {
        const engine_session *s = *at;
        bool idle = s->uses == 0 && e->session_idle_ms != ABX_FOREVER &&
                    now_ms - s->used_ms >= e->session_idle_ms;
        if (idle)
            close_session(at);
        else
            at = &(*at)->next;
    }
}

void engine_sessions_close(engine *e)
{
    while (e->sessions)
        close_session(&e->sessions);
}

/* Room for one more: the one that was not used for longest goes. */
static int make_room(engine *e, abx_error **err)
{
    engine_session **oldest = NULL;
    if (e->session_count < SESSIONS_MAX)
        return 0;
    for (engine_session **at = &e->sessions; *at; at = &(*at)->next)
        if ((*at)->uses == 0 && (!oldest || (*at)->used_ms < (*oldest)->used_ms))
            oldest = at;
    if (!oldest)
        return abx_fail(err, ABX_ERR_QUOTA, "too many connections to providers are in use");
    close_session(oldest);
    return 0;
}

/* --- opening --------------------------------------------------------------------------------------------------------------- */
engine_session *engine_session_open(engine *e, const char *provider, abx_config *config,
                                    const uint8_t digest[ENGINE_DIGEST_BYTES],
                                    const uint8_t header[ENGINE_DIGEST_BYTES], abx_error **err)
{
    engine_session *s = ABX_NEW(engine_session);
    abx_host_options options = {.loop = e->loop,
                                .home = e->home,
                                .config = config,
                                .adapters = e->adapters,
                                .self = e->self,
                                .exact_ids = true,
                                .log = e->log};
    if (make_room(e, err) < 0 || abx_host_open(&options, &s->host, err) < 0) {
        free(s);
        abx_config_free(config);
        return NULL;
    }
    s->engine = e;
    s->config = config;
    s->provider = abx_strdup(provider);
    memcpy(s->digest, digest, ENGINE_DIGEST_BYTES);
    memcpy(s->header, header, ENGINE_DIGEST_BYTES);
    s->opened_ms = s->used_ms = abx_now_mono_ms();
    s->next = e->sessions;
    e->sessions = s;
    e->session_count++;
    touch(s);
    abx_logf(e->log, ABX_LOG_INFO, "session of provider '%s' opened", s->provider);
    return s;
}

void engine_session_release(engine_session *s)
{
    ABX_CHECK(s->uses > 0);
    s->uses--;
    s->used_ms = abx_now_mono_ms();
}
