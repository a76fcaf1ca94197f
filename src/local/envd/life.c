/* How long the sandbox lives: its time limit and, where one was asked for, the time that it may lie idle. At the end of
 * either it ends or is paused. One timer on the clock of boot serves both; none exists while there is no limit. */
#include "local/envd/inner.h"

#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "local/record.h"

#define RETRY_MS 5000u /* when it could not be paused */

void abx__envd_tell_end(abx_envd *e)
{
    if (e->ended || e->closing)
        return;
    e->ended = true;
    if (e->on_end)
        e->on_end(e->on_end_data);
}

static void on_limit(uv_poll_t *poll, int status, int events);

static int set_timer(abx_envd *e, uint64_t in_ms)
{
    struct itimerspec when = {0};
    if (e->limit_fd < 0 && in_ms == ABX_FOREVER)
        return 0;
    if (e->limit_fd < 0) {
        e->limit_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
        if (e->limit_fd < 0)
            return -1;
        ABX_CHECK(uv_poll_init(e->loop, &e->limit_poll, e->limit_fd) == 0);
        e->limit_poll.data = e;
        e->handles++;
        ABX_CHECK(uv_poll_start(&e->limit_poll, UV_READABLE, on_limit) == 0);
    }
    if (in_ms == 0)
        in_ms = 1; /* 0 would disarm */
    if (in_ms != ABX_FOREVER) {
        when.it_value.tv_sec = (time_t)(in_ms / 1000);
        when.it_value.tv_nsec = (long)(in_ms % 1000) * 1000000;
    }
    return timerfd_settime(e->limit_fd, 0, &when, NULL);
}

/* Milliseconds until the idle time may be over. */
static uint64_t idle_left(const abx_envd *e)
{
    if (e->idle_ms == ABX_FOREVER)
        return ABX_FOREVER;
    uint64_t idle = abx_e2b_server_idle_ms(e->server);
    return idle < e->idle_ms ? e->idle_ms - idle : 0;
}

uint64_t abx__life_left(const abx_envd *e)
{
    if (e->pause_state != ABX__RUNNING)
        return e->left_ms;
    if (e->limit_boot_ms == ABX_FOREVER)
        return ABX_FOREVER;
    uint64_t now = abx_now_boot_ms();
    return e->limit_boot_ms > now ? e->limit_boot_ms - now : 0;
}

static int arm(abx_envd *e)
{
    uint64_t left = abx__life_left(e), idle = idle_left(e);
    return set_timer(e, e->pause_state != ABX__RUNNING ? ABX_FOREVER : idle < left ? idle : left);
}

static void on_limit(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    abx_envd *e = poll->data;
    uint64_t times = 0;
    if (read(e->limit_fd, &times, sizeof(times)) <= 0 || e->pause_state != ABX__RUNNING)
        return;
    if (abx__life_left(e) > 0 && idle_left(e) > 0) {
        (void)arm(e);
        return;
    }
    if (!e->pause_on_limit) {
        abx__envd_tell_end(e);
        return;
    }
    (void)set_timer(e, RETRY_MS);
    abx__pause_begin(e);
}

static int start_limit(abx_envd *e, uint64_t in_ms)
{
    e->limit_boot_ms = ABX_FOREVER;
    if (in_ms != ABX_FOREVER) {
        uint64_t now = abx_now_boot_ms();
        e->limit_boot_ms = in_ms < UINT64_MAX - now ? now + in_ms : ABX_FOREVER;
    }
    return arm(e);
}

int abx__envd_set_limit(abx_envd *e, uint64_t in_ms)
{
    e->limit_ms = in_ms;
    return start_limit(e, in_ms);
}

void abx__life_hold(abx_envd *e)
{
    e->left_ms = abx__life_left(e);
}

int abx__life_go_on(abx_envd *e)
{
    /* it was paused because nothing was left: the same time again */
    return start_limit(e, e->left_ms > 0 ? e->left_ms : e->limit_ms);
}

void abx__life_rest(abx_envd *e)
{
    (void)set_timer(e, ABX_FOREVER);
}

static int64_t expires_wall_ms(const abx_envd *e)
{
    uint64_t left = abx__life_left(e);
    return left < (uint64_t)INT64_MAX / 2 ? abx_now_wall_ms() + (int64_t)left : INT64_MAX;
}

int64_t abx__life_note(abx_envd *e)
{
    abx_record record = {.paused = e->pause_state == ABX__PAUSED,
                         .way = (uint32_t)e->pause_way,
                         .paused_wall_ms = e->paused_wall_ms,
                         .expires_wall_ms = expires_wall_ms(e),
                         .left_ms = abx__life_left(e)};
    if (e->is_init && e->lock_fd > 2)
        (void)abx_record_write(e->lock_fd, &record);
    return record.expires_wall_ms;
}
