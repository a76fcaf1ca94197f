/* The end of a sandbox's life comes from its provider; the door looks at that moment, so that streams end and requests are refused
 * at once. One timer for all. */
#include "base/clock.h"
#include "doors/e2b/control.h"

#define AGAIN_MS 200   /* between two looks at one whose end has passed */
#define LATE_MS  10000 /* … but no longer: its provider has another opinion */
#define MOST_MS  ((int64_t)24 * 3600 * 1000)

static int64_t wait_for(const e2b_box *box, int64_t now)
{
    if (box->state != E2B_RUNNING || box->ends_ms == 0 || box->ends_ms == INT64_MAX)
        return MOST_MS;
    if (box->ends_ms > now)
        return box->ends_ms - now;
    return now - box->ends_ms < LATE_MS ? AGAIN_MS : MOST_MS;
}

static void on_time(uv_timer_t *timer)
{
    e2b_door *door = timer->data;
    int64_t now = abx_now_wall_ms();
    for (size_t i = 0; i < E2B_BUCKETS; i++)
        for (e2b_box *box = door->boxes[i]; box; box = box->next)
            if (box->state == E2B_RUNNING && box->ends_ms != 0 && box->ends_ms <= now)
                e2b_box_suspect(box);
    e2b_expiry_arm(door);
}

void e2b_expiry_arm(e2b_door *door)
{
    if (!door->expiry_open)
        return;
    int64_t now = abx_now_wall_ms(), wait = MOST_MS;
    for (size_t i = 0; i < E2B_BUCKETS; i++)
        for (const e2b_box *box = door->boxes[i]; box; box = box->next) {
            int64_t own = wait_for(box, now);
            wait = own < wait ? own : wait;
        }
    uv_timer_start(&door->expiry, on_time, (uint64_t)wait, 0);
}

void e2b_expiry_open(e2b_door *door)
{
    ABX_CHECK(uv_timer_init(door->loop, &door->expiry) == 0);
    door->expiry.data = door;
    door->expiry_open = true;
    uv_unref((uv_handle_t *)&door->expiry);
}

void e2b_expiry_close(e2b_door *door, uv_close_cb cb)
{
    door->expiry_open = false;
    uv_close((uv_handle_t *)&door->expiry, cb);
}
