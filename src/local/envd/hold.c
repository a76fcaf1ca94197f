/* A pause that somebody holds for a piece of work (a snapshot): it ends by itself when he does not renew it, so that nobody's death
 * leaves a sandbox that stands still. */
#include "local/envd/inner.h"

#include <stdlib.h>

typedef struct abx__hold {
    abx_envd *envd;
    uv_timer_t timer;
} abx__hold;

static void timer_gone(uv_handle_t *handle)
{
    abx__hold *h = handle->data;
    abx_envd *e = h->envd;
    free(h);
    abx__envd_released(e);
}

static void on_timer(uv_timer_t *timer)
{
    abx__hold *h = timer->data;
    abx_envd *e = h->envd;
    abx__hold_end(e);
    abx__pause_let_go(e);
}

void abx__hold_begin(abx_envd *e, uint64_t ms)
{
    if (!e->hold) {
        abx__hold *h = ABX_NEW(abx__hold);
        h->envd = e;
        h->timer.data = h;
        ABX_CHECK(uv_timer_init(e->loop, &h->timer) == 0);
        e->handles++;
        e->hold = h;
    }
    ABX_CHECK(uv_timer_start(&e->hold->timer, on_timer, ms, 0) == 0);
}

void abx__hold_end(abx_envd *e)
{
    abx__hold *h = ABX_TAKE(e->hold);
    if (h)
        uv_close((uv_handle_t *)&h->timer, timer_gone);
}
