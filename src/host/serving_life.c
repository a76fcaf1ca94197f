#include "host/serving_life.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/give_back.h"
#include "base/mem.h"

#define LOOK_MS  250 /* between two looks whether it is idle, or drained */
#define DRAIN_MS 5000
#define LAST_MS  1000 /* for the last words to arrive */

struct abx_serving_life {
    const abx_serving_hooks *hooks;
    void *door;
    uv_loop_t *loop;
    abx_serving *serving;
    uint64_t idle_ms;
    uint64_t used_ms;  /* monotonic: the last time that something was asked */
    uint64_t drain_ms; /* monotonic: when draining ends; 0: not draining */
    abx_give_back memory;
    uv_timer_t timer;
    bool timer_open, told, is_closing, said;
    void (*on_end)(void *data);
    void *data;
    int closing; /* parts that are still open */
    void (*closed)(void *data);
    void *closed_data;
};

int abx_serving_listen(abx_http_server *http, int port, int *got, abx_error **err)
{
    abx_error *why = NULL;
    if (abx_http_server_listen_tcp(http, ABX_SERVING_ADDRESS, port, got, &why) == 0)
        return 0;
    if (why->sys_errno != EADDRINUSE)
        return abx_error_take(err, why);
    abx_error_free(why);
    abx_fail(err, ABX_ERR_CONFLICT, "port %d is in use by another program", port);
    return abx_hint(err, "choose another one, or leave --port out: any free one is taken");
}

abx_serving_life *abx_serving_life_new(const abx_serve_options *o, abx_serving *serving,
                                       const abx_serving_hooks *hooks, void *door)
{
    abx_serving_life *life = ABX_NEW(abx_serving_life);
    *life = (abx_serving_life){.hooks = hooks,
                               .door = door,
                               .loop = o->loop,
                               .serving = serving,
                               .idle_ms = o->idle_ms,
                               .used_ms = abx_now_mono_ms(),
                               .on_end = o->on_end,
                               .data = o->data};
    return life;
}

void abx_serving_life_touch(abx_serving_life *life)
{
    life->used_ms = abx_now_mono_ms();
}

/* --- looks ------------------------------------------------------------------------------------------------------- */
static void tell_end(abx_serving_life *life)
{
    if (!life->told)
        life->on_end(life->data);
    life->told = true;
}

static void on_look(uv_timer_t *timer)
{
    abx_serving_life *life = timer->data;
    uint64_t now = abx_now_mono_ms();
    (void)abx_give_back_tick(&life->memory, now);
    bool busy = life->hooks->busy(life->door);
    life->hooks->tick(life->door, now);
    if (life->drain_ms > 0) {
        if (busy && now >= life->drain_ms && !life->said && life->hooks->last_words) {
            life->said = true;
            life->drain_ms = now + LAST_MS;
            life->hooks->last_words(life->door);
        } else if (!busy || now >= life->drain_ms) {
            tell_end(life);
        }
        return;
    }
    if (busy)
        life->used_ms = now;
    else if (life->idle_ms != ABX_FOREVER && now - life->used_ms >= life->idle_ms)
        tell_end(life);
}

void abx_serving_life_start(abx_serving_life *life)
{
    ABX_CHECK(uv_timer_init(life->loop, &life->timer) == 0);
    life->timer.data = life;
    life->timer_open = true;
    uv_timer_start(&life->timer, on_look, LOOK_MS, LOOK_MS);
}

void abx_serving_life_drain(abx_serving_life *life, abx_http_server *http)
{
    abx_http_server_stop(http);
    if (life->drain_ms == 0)
        life->drain_ms = abx_now_mono_ms() + DRAIN_MS;
}

/* --- its end ----------------------------------------------------------------------------------------------------- */
void abx_serving_life_check(abx_serving_life *life)
{
    if (!life->is_closing || life->closing > 0 || !life->hooks->gone(life->door))
        return;
    void (*closed)(void *) = life->closed;
    void *data = life->closed_data;
    abx_serving_end(life->serving);
    life->hooks->free(life->door);
    free(life);
    if (closed)
        closed(data);
}

void abx_serving_life_part(abx_serving_life *life)
{
    life->closing++;
}

void abx_serving_life_part_closed(abx_serving_life *life)
{
    life->closing--;
    abx_serving_life_check(life);
}

static void on_http_closed(void *data)
{
    abx_serving_life_part_closed(data);
}

static void on_timer_closed(uv_handle_t *handle)
{
    abx_serving_life_part_closed(handle->data);
}

void abx_serving_life_close(abx_serving_life *life, abx_http_server *http, void (*cb)(void *data),
                            void *data)
{
    life->closed = cb;
    life->closed_data = data;
    life->is_closing = true;
    life->closing++; /* this function's own, until all is begun */
    if (http) {
        life->closing++;
        abx_http_server_close(http, on_http_closed, life);
    }
    if (life->timer_open) {
        life->closing++;
        uv_close((uv_handle_t *)&life->timer, on_timer_closed);
    }
    abx_serving_life_part_closed(life);
}
