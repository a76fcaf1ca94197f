#include "e2b/server_inner.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void timer_gone(uv_handle_t *h)
{
    abx_e2b_server *s = h->data;
    free(h);
    s->handles--;
    abx__server_released(s);
}

void abx__clock_stop(abx_e2b_call *c)
{
    if (!c->timer)
        return;
    uv_timer_t *t = ABX_TAKE(c->timer);
    t->data = c->server;
    uv_close((uv_handle_t *)t, timer_gone);
}

static void tick(uv_timer_t *t)
{
    abx_e2b_call *c = t->data;
    uint64_t now = uv_now(c->server->loop);
    if (c->deadline > 0 && now >= c->deadline) {
        const abx_e2b_call_handlers *on = c->on;
        c->on = NULL;
        if (on && on->on_close)
            on->on_close(c, true, c->data);
        abx__fail_text(c, ABX_E2B_CODE_DEADLINE_EXCEEDED, "context deadline exceeded");
        return;
    }
    if (c->keepalive_ms > 0 && now >= c->last_ms + c->keepalive_ms) {
        /* a peer that takes nothing needs no sign of life */
        if (abx_exchange_pending(c->x) < (size_t)64 * 1024)
            abx__send_keepalive(c);
        c->last_ms = now;
    }
    if (c->route->kind == ABX__KIND_CLIENT)
        abx__call_feed(c);
    if (c->live)
        abx__clock_arm(c);
}

static void start(abx_e2b_call *c, uint64_t in_ms)
{
    if (!c->timer) {
        c->timer = ABX_NEW(uv_timer_t);
        c->timer->data = c;
        ABX_CHECK(uv_timer_init(c->server->loop, c->timer) == 0);
        c->server->handles++;
    }
    ABX_CHECK(uv_timer_start(c->timer, tick, in_ms, 0) == 0);
}

void abx__clock_arm(abx_e2b_call *c)
{
    uint64_t now = uv_now(c->server->loop);
    uint64_t next = UINT64_MAX;
    if (c->deadline > 0)
        next = c->deadline;
    if (c->keepalive_ms > 0 && c->last_ms + c->keepalive_ms < next)
        next = c->last_ms + c->keepalive_ms;
    if (next != UINT64_MAX)
        start(c, next > now ? next - now : 0);
}

void abx__clock_kick(abx_e2b_call *c)
{
    start(c, 0);
}

int abx__clock_read(abx_e2b_call *c, char text[160])
{
    const char *v = abx_exchange_header(c->x, "Connect-Timeout-Ms");
    c->timeout_ms = ABX_FOREVER;
    if (v && *v) {
        size_t len = strlen(v);
        if (len > 10) {
            (void)snprintf(text, 160, "parse timeout: \"%.40s\" has >10 digits", v);
            return -1;
        }
        char *end = NULL;
        long long ms = strtoll(v, &end, 10);
        if (*end || isspace((unsigned char)*v)) {
            (void)snprintf(text, 160,
                           "parse timeout: strconv.ParseInt: parsing \"%.40s\": invalid syntax", v);
            return -1;
        }
        c->timeout_ms = ms > 0 ? (uint64_t)ms : 0;
        uv_update_time(c->server->loop);
        c->deadline = uv_now(c->server->loop) + c->timeout_ms;
    }
    if (c->route->kind != ABX__KIND_SERVER)
        return 0;
    uint64_t seconds = 0;
    v = abx_exchange_header(c->x, "Keepalive-Ping-Interval");
    if (v && abx_parse_uint(v, 86400, &seconds) == 0 && seconds > 0)
        c->keepalive_ms = seconds * 1000;
    else
        c->keepalive_ms = ABX__KEEPALIVE_MS;
    c->last_ms = uv_now(c->server->loop);
    return 0;
}
