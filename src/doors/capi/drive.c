/* Who drives the loop: one thread at a time has the seat, the others sleep until their own event is there or the seat is free. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "doors/capi/inner.h"

static void ring(int fd)
{
    const uint64_t one = 1;
    if (fd >= 0)
        (void)!write(fd, &one, sizeof(one)); /* full: it rings already */
}

static void silence(int fd)
{
    uint64_t count;
    if (fd >= 0)
        (void)!read(fd, &count, sizeof(count));
}

static bool is_driver(const capi_context *ctx)
{
    return ctx->driven && pthread_equal(ctx->driver, pthread_self());
}

void capi_poke(capi_context *ctx)
{
    if (!ctx->driven)
        ring(ctx->notify_fd);
    else if (!is_driver(ctx))
        ring(ctx->wake_fd);
}

void capi_context_wake(capi_context *ctx)
{
    if (capi_is_inherited(ctx))
        return;
    __atomic_store_n(&ctx->woken, 1, __ATOMIC_SEQ_CST);
    ring(ctx->wake_fd);
    ring(ctx->notify_fd);
}

static void wake(capi_waiter *w)
{
    if (w->woken)
        return;
    w->woken = true;
    sem_post(&w->sem);
}

/* The seat is free: the first who waits for something takes it. */
static void offer_seat(const capi_context *ctx)
{
    if (!ctx->driven && ctx->waiters)
        wake(ctx->waiters);
}

void capi_announce(capi_call *call)
{
    capi_context *ctx = call->ctx;
    for (capi_waiter *w = ctx->waiters; w; w = w->next)
        if (w->call == call || !w->call)
            wake(w);
    if (call->listed || call->freed || (call->on_event && (call->in_callback || call->held_back)))
        return;
    capi_call **first = call->on_event ? &ctx->to_give : &ctx->ready;
    capi_call **last = call->on_event ? &ctx->to_give_last : &ctx->ready_last;
    call->listed = true;
    call->list_next = NULL;
    if (*first)
        (*last)->list_next = call;
    else
        *first = call;
    *last = call;
}

/* --- callbacks ------------------------------------------------------------------------------------------ */

static void give(capi_section *s, capi_call *call)
{
    capi_item *item;
    call->in_callback = true;
    call->giver = pthread_self();
    while (!call->freed && !call->held_back && (item = capi_queue_take(call)) != NULL) {
        capi_event event;
        capi_item_show(item, &event);
        s->ctx->happened++;
        capi_step_out(s);
        capi_hand_over(call->on_event, call, &event, call->user);
        capi_step_in(s);
        capi_item_free(item);
    }
    call->in_callback = false;
    pthread_cond_broadcast(&s->ctx->delivered);
    if (call->freed)
        capi_call_discard(call);
}

static void give_all(capi_section *s)
{
    for (capi_call *call; (call = s->ctx->to_give) != NULL;) {
        capi_call_unlist(call);
        give(s, call);
    }
}

/* --- the seat ------------------------------------------------------------------------------------------- */

static void turn(capi_section *s)
{
    uv_run(&s->ctx->loop, UV_RUN_NOWAIT);
    give_all(s);
}

/* Whoever polls the context's descriptor must hear when the loop wants to be run again. */
static void arm(capi_context *ctx)
{
    if (ctx->outer_fd < 0)
        return;
    int timeout = uv_backend_timeout(&ctx->loop);
    if (timeout == 0) {
        ring(ctx->notify_fd);
        return;
    }
    uint64_t at = timeout < 0 ? ABX_FOREVER : abx_now_mono_ms() + (uint64_t)timeout;
    if (at == ctx->armed)
        return;
    struct itimerspec when = {{0, 0}, {0, 0}};
    if (at != ABX_FOREVER) {
        when.it_value.tv_sec = (time_t)(at / 1000);
        when.it_value.tv_nsec = (long)(at % 1000) * 1000000L;
    }
    (void)timerfd_settime(ctx->time_fd, TFD_TIMER_ABSTIME, &when, NULL);
    ctx->armed = at;
}

/* Milliseconds that the driver may sleep. */
static int time_to_sleep(const capi_context *ctx, uint64_t until)
{
    int timeout = uv_backend_timeout(&ctx->loop);
    uint64_t now = abx_now_mono_ms();
    uint64_t left = until == ABX_FOREVER ? 60000 : until > now ? until - now : 0;
    return timeout < 0 || left < (uint64_t)timeout ? (int)(left > 60000 ? 60000 : left) : timeout;
}

/* 0, or -1 when a signal came. */
static int sleep_by_poll(capi_section *s, int timeout)
{
    capi_context *ctx = s->ctx;
    struct pollfd fds[] = {{uv_backend_fd(&ctx->loop), POLLIN, 0}, {ctx->wake_fd, POLLIN, 0}};
    pthread_mutex_unlock(&ctx->lock);
    int rc = poll(fds, 2, timeout);
    bool interrupted = rc < 0 && errno == EINTR;
    if (rc > 0 && fds[1].revents)
        silence(ctx->wake_fd);
    pthread_mutex_lock(&ctx->lock);
    uv_update_time(&ctx->loop);
    return interrupted ? -1 : 0;
}

static int drive(capi_section *s, bool (*done)(void *), void *data, bool runs, uint64_t until)
{
    capi_context *ctx = s->ctx;
    bool nested = ctx->driven; /* from a callback */
    int rc = 0, interrupted = 0;
    ctx->driven = true;
    ctx->driver = pthread_self();
    for (;;) {
        turn(s);
        if (ctx->ready && !runs)
            ring(ctx->notify_fd); /* somebody may watch that */
        if (done(data)) {
            rc = 1;
            break;
        }
        if (interrupted || (until != ABX_FOREVER && abx_now_mono_ms() >= until))
            break;
        int timeout = time_to_sleep(ctx, until);
        interrupted = timeout > 0 ? sleep_by_poll(s, timeout) : 0;
    }
    if (nested)
        return rc;
    ctx->driven = false;
    arm(ctx);
    offer_seat(ctx);
    return rc;
}

/* Sleep until the event or the seat is there. -1: the time is over, or a signal came. */
static int sleep_by_turn(capi_section *s, capi_call *call, uint64_t until)
{
    capi_context *ctx = s->ctx;
    capi_waiter w = {.call = call};
    capi_waiter **at = &ctx->waiters;
    sem_init(&w.sem, 0, 0);
    while (*at)
        at = &(*at)->next;
    *at = &w;
    pthread_mutex_unlock(&ctx->lock);
    uint64_t wait_until = until == ABX_FOREVER ? abx_now_mono_ms() + 60000 : until;
    struct timespec when = {(time_t)(wait_until / 1000), (long)(wait_until % 1000) * 1000000L};
    int rc = sem_clockwait(&w.sem, CLOCK_MONOTONIC, &when);
    int why = rc < 0 ? errno : 0;
    pthread_mutex_lock(&ctx->lock);
    uv_update_time(&ctx->loop);
    for (at = &ctx->waiters; *at != &w;)
        at = &(*at)->next;
    *at = w.next;
    sem_destroy(&w.sem);
    if (w.woken) /* also when it came at the last moment */
        return 0;
    return why == EINTR || until != ABX_FOREVER ? -1 : 0;
}

int capi_wait(capi_section *s, bool (*done)(void *), void *data, capi_call *call, bool runs,
              int timeout_ms)
{
    capi_context *ctx = s->ctx;
    uint64_t until = timeout_ms < 0 ? ABX_FOREVER : abx_now_mono_ms() + (uint64_t)timeout_ms;
    for (bool last = false;;) {
        if (done(data)) {
            offer_seat(ctx); /* it may have been offered to this thread */
            return 1;
        }
        if (!ctx->driven || is_driver(ctx))
            return drive(s, done, data, runs, until);
        if (last || timeout_ms == 0)
            return 0;
        last = sleep_by_turn(s, call, until) < 0;
    }
}

/* --- for loops of the caller's own -------------------------------------------------------------------- */

typedef struct run_wish {
    capi_context *ctx;
    uint64_t happened;
    bool woken;
} run_wish;

static bool run_is_done(void *data)
{
    run_wish *r = data;
    if (__atomic_exchange_n(&r->ctx->woken, 0, __ATOMIC_SEQ_CST))
        r->woken = true;
    return r->woken || r->ctx->ready || r->ctx->happened != r->happened;
}

int capi_context_run(capi_context *ctx, int timeout_ms)
{
    capi_section s;
    if (capi_enter(&s, ctx, NULL) < 0)
        return -1;
    silence(ctx->notify_fd);
    if (ctx->time_fd >= 0 && ctx->armed != ABX_FOREVER && ctx->armed <= abx_now_mono_ms()) {
        silence(ctx->time_fd);
        ctx->armed = ABX_FOREVER;
    }
    run_wish r = {ctx, ctx->happened, false};
    /* What is ready already is no reason not to look for more. */
    if (!ctx->driven || is_driver(ctx))
        (void)drive(&s, run_is_done, &r, true,
                    timeout_ms < 0 ? ABX_FOREVER : abx_now_mono_ms() + (uint64_t)timeout_ms);
    else
        (void)capi_wait(&s, run_is_done, &r, NULL, true, timeout_ms);
    int something = ctx->ready || ctx->happened != r.happened;
    capi_leave(&s);
    return something;
}

capi_call *capi_context_ready(capi_context *ctx)
{
    capi_section s;
    if (capi_enter(&s, ctx, NULL) < 0)
        return NULL;
    capi_call *call = ctx->ready;
    if (call)
        capi_call_unlist(call);
    capi_leave(&s);
    return call;
}
