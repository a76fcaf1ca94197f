/* A context: opened, asked for its descriptor, closed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "doors/capi/inner.h"

#define CLOSE_MS 5000 /* for a child that was let go of to end */

/* --- log ------------------------------------------------------------------------------------------------ */

static void write_log(abx_log_level level, const char *text, void *data)
{
    const capi_context *ctx = data;
    if (ctx->log_write)
        ctx->log_write((int)level, text, ctx->log_user);
}

void capi_context_set_log(capi_context *ctx, int level,
                          void (*write)(int level, const char *line, void *user), void *user)
{
    capi_section s;
    if (capi_enter(&s, ctx, NULL) < 0)
        return;
    int wanted = level < 0 ? 0 : level > ABX_LOG_TRACE ? ABX_LOG_TRACE : level;
    ctx->log.level = write ? (abx_log_level)wanted : ABX_LOG_OFF;
    ctx->log_write = write;
    ctx->log_user = user;
    capi_leave(&s);
}

/* --- open ----------------------------------------------------------------------------------------------- */

static int take_text(yyjson_val *options, const char *key, char **out, abx_error **err)
{
    yyjson_val *v = abx_json_get(options, key);
    if (v && (!yyjson_is_str(v) || strlen(yyjson_get_str(v)) != yyjson_get_len(v)))
        return abx_fail(err, ABX_ERR_USAGE, "'%s' must be a text", key);
    *out = abx_strdup(yyjson_get_str(v));
    return 0;
}

static int read_options(capi_context *ctx, const char *text, abx_error **err)
{
    static const char *const known[] = {"home", "config", "configFile", "profile", "program", NULL};
    ABX_AUTO_FREE char *home = NULL;
    ABX_AUTO_JSON doc = capi_object(text, "the options of the context", known, err);
    if (!doc)
        return -1;
    yyjson_val *o = yyjson_doc_get_root(doc), *config = abx_json_get(o, "config");
    if (take_text(o, "home", &home, err) < 0 ||
        take_text(o, "configFile", &ctx->config_file, err) < 0 ||
        take_text(o, "profile", &ctx->profile, err) < 0 ||
        take_text(o, "program", &ctx->program, err) < 0)
        return -1;
    if (config && !yyjson_is_bool(config))
        return abx_fail(err, ABX_ERR_USAGE, "'config' must be a boolean");
    ctx->reads_config = !config || yyjson_get_bool(config);
    if (home && home[0] != '/')
        return abx_fail(err, ABX_ERR_USAGE, "'home' must be an absolute path");
    ctx->home = home ? abx_home_open_at(home, NULL, err) : abx_home_open(NULL, err);
    return ctx->home ? 0 : -1;
}

static void on_prepare(uv_prepare_t *alive)
{
    (void)alive;
}

static int open_loop(capi_context *ctx, abx_error **err)
{
    int rc = uv_loop_init(&ctx->loop);
    if (rc == 0) {
        ctx->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (ctx->wake_fd >= 0) {
            ctx->keeper = abx_keeper_new();
            uv_prepare_init(&ctx->loop, &ctx->alive);
            uv_prepare_start(&ctx->alive, on_prepare);
            return 0;
        }
        rc = -errno;
        (void)uv_loop_close(&ctx->loop);
    }
    return abx_fail_errno(err, ABX_ERR_QUOTA, -rc, "cannot open the event loop");
}

static void free_context(capi_context *ctx)
{
    abx_close_fd(&ctx->wake_fd);
    abx_close_fd(&ctx->outer_fd);
    abx_close_fd(&ctx->notify_fd);
    abx_close_fd(&ctx->time_fd);
    pthread_mutex_destroy(&ctx->lock);
    pthread_cond_destroy(&ctx->delivered);
    free(ctx->home);
    free(ctx->config_file);
    free(ctx->profile);
    free(ctx->program);
    free(ctx);
}

capi_context *capi_context_new(const char *options, abx_error **err)
{
    capi_context *ctx = ABX_NEW(capi_context);
    ctx->pid = getpid();
    ctx->wake_fd = ctx->outer_fd = ctx->notify_fd = ctx->time_fd = -1;
    ctx->armed = ABX_FOREVER;
    ctx->log = (abx_log){ABX_LOG_OFF, write_log, ctx};
    pthread_mutex_init(&ctx->lock, NULL);
    pthread_cond_init(&ctx->delivered, NULL);
    if (read_options(ctx, options, err) == 0 && open_loop(ctx, err) == 0)
        return ctx;
    free_context(ctx);
    return NULL;
}

const char *capi_context_home(const capi_context *ctx)
{
    return ctx->home;
}

/* --- the descriptor ------------------------------------------------------------------------------------- */

static int add_fd(int outer, int fd)
{
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    return fd < 0 ? -1 : epoll_ctl(outer, EPOLL_CTL_ADD, fd, &e);
}

static int open_outer(capi_context *ctx, abx_error **err)
{
    int outer = epoll_create1(EPOLL_CLOEXEC);
    ctx->notify_fd =
        eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK); /* what was begun before is to be seen to */
    ctx->time_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (outer >= 0 && add_fd(outer, uv_backend_fd(&ctx->loop)) == 0 &&
        add_fd(outer, ctx->notify_fd) == 0 && add_fd(outer, ctx->time_fd) == 0) {
        ctx->outer_fd = outer;
        return 0;
    }
    int why = errno;
    abx_close_fd(&outer);
    abx_close_fd(&ctx->notify_fd);
    abx_close_fd(&ctx->time_fd);
    return abx_fail_errno(err, ABX_ERR_QUOTA, why, "cannot make a descriptor to wait for");
}

int capi_context_fd(capi_context *ctx, abx_error **err)
{
    capi_section s;
    if (capi_enter(&s, ctx, err) < 0)
        return -1;
    int rc = ctx->outer_fd >= 0 ? 0 : open_outer(ctx, err);
    int fd = rc < 0 ? -1 : ctx->outer_fd;
    capi_leave(&s);
    return fd;
}

/* --- close ---------------------------------------------------------------------------------------------- */

static bool nothing_runs(void *data)
{
    const capi_context *ctx = data;
    for (const capi_call *c = ctx->calls; c; c = c->next)
        if (c->inner)
            return false;
    return true;
}

/* Children that were let go of are watched without holding the loop: they are about to end, wait for that. */
static void hold(uv_handle_t *handle, void *data)
{
    if (uv_handle_get_type(handle) == UV_POLL && uv_is_active(handle) && !uv_has_ref(handle)) {
        uv_ref(handle);
        *(bool *)data = true;
    }
}

static void on_waited(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static void close_loop(capi_context *ctx)
{
    uv_close((uv_handle_t *)&ctx->alive, NULL);
    uv_run(&ctx->loop, UV_RUN_DEFAULT);
    bool holding = false;
    uv_walk(&ctx->loop, hold, &holding);
    if (holding) {
        uv_timer_t timer;
        uv_timer_init(&ctx->loop, &timer);
        uv_timer_start(&timer, on_waited, CLOSE_MS, 0);
        uv_unref((uv_handle_t *)&timer);
        uv_run(&ctx->loop, UV_RUN_DEFAULT);
        uv_close((uv_handle_t *)&timer, NULL);
        uv_run(&ctx->loop, UV_RUN_NOWAIT);
    }
    abx_keeper_free(ctx->keeper);
    (void)uv_loop_close(&ctx->loop);
}

void capi_context_free(capi_context *ctx)
{
    capi_section s;
    if (!ctx || capi_is_inherited(ctx))
        return;
    while (ctx->providers)
        capi_provider_close(ctx->providers);
    if (capi_enter(&s, ctx, NULL) < 0)
        return;
    while (!capi_wait(&s, nothing_runs, ctx, NULL, false, -1))
        ;
    capi_leave(&s);
    while (ctx->calls)
        capi_call_free(ctx->calls);
    if (capi_enter(&s, ctx, NULL) < 0)
        return;
    close_loop(ctx);
    capi_leave(&s);
    free_context(ctx);
}
