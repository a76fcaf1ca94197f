/* Into a context and out of it again. Whatever the loop writes to may be gone: SIGPIPE is blocked for the thread that is inside, and one
 * that came meanwhile is taken away, so that the process's disposition need not be touched. */
#include <time.h>
#include <unistd.h>

#include "doors/capi/inner.h"

bool capi_is_inherited(const capi_context *ctx)
{
    return ctx->pid != getpid();
}

static void only_pipe(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGPIPE);
}

static bool pipe_is_pending(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
}

static void block_pipe(capi_section *s)
{
    sigset_t pipe;
    only_pipe(&pipe);
    pthread_sigmask(SIG_BLOCK, &pipe, &s->mask);
    /* Only who had it blocked can have one of its own that waits. */
    s->pipe_pending = sigismember(&s->mask, SIGPIPE) == 1 && pipe_is_pending();
}

static void unblock_pipe(const capi_section *s)
{
    const struct timespec at_once = {0, 0};
    sigset_t pipe;
    only_pipe(&pipe);
    if (!s->pipe_pending && pipe_is_pending())
        (void)sigtimedwait(&pipe, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &s->mask, NULL);
}

void capi_step_in(capi_section *s)
{
    block_pipe(s);
    pthread_mutex_lock(&s->ctx->lock);
    uv_update_time(&s->ctx->loop); /* it may have stood still: timers count from now */
}

void capi_step_out(capi_section *s)
{
    pthread_mutex_unlock(&s->ctx->lock);
    unblock_pipe(s);
}

int capi_check_process(const capi_context *ctx, abx_error **err)
{
    if (!capi_is_inherited(ctx))
        return 0;
    return abx_fail(err, ABX_ERR_FORKED,
                    "this context was made by process %d, of which this one is a fork",
                    (int)ctx->pid);
}

int capi_enter(capi_section *s, capi_context *ctx, abx_error **err)
{
    s->ctx = ctx;
    if (capi_check_process(ctx, err) < 0)
        return -1;
    capi_step_in(s);
    return 0;
}

void capi_leave(capi_section *s)
{
    capi_step_out(s);
}
