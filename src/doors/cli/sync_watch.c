/* --watch: something has changed, wherever it was. What exactly is found by the next scan, so that a burst, a full queue of
 * the kernel or a renamed tree cost a scan and nothing else. On this machine each folder is watched before it is read; in
 * the sandbox one fs.watch follows the whole tree, or, where that is not possible, it is looked at every few seconds. */
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "doors/cli/sync_inner.h"

#define QUIET_MS 200  /* nothing new for so long: go */
#define AT_MOST  2000 /* of waiting for quiet */
#define POLL_MS  3000 /* where the sandbox cannot be watched */
#define AGAIN_MS 1000 /* before a broken watch is begun anew */
#define EVENTS                                                                                     \
    (IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB |            \
     IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

struct abx_sync_watch {
    abx_sync *s;
    int fd; /* inotify; -1: this machine is not watched */
    uv_poll_t poll;
    uv_timer_t timer;
    unsigned open;  /* handles */
    bool full;      /* the kernel takes no more watches: look every few seconds */
    abx_call *call; /* fs.watch, until its end */
    bool remote, started, cannot;
    uint64_t retry_ms;             /* when the call may begin again */
    uint64_t changed_ms, first_ms; /* last and first change since the last run; 0: none */
    abx_error *err;
};

static void changed(abx_sync_watch *w)
{
    w->changed_ms = abx_now_mono_ms();
    if (!w->first_ms)
        w->first_ms = w->changed_ms;
}

/* --- this machine -------------------------------------------------------------------------------------------- */

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    abx_sync_watch *w = poll->data;
    char room[16 * 1024] __attribute__((aligned(8)));
    while (read(w->fd, room, sizeof room) > 0)
        changed(w); /* also a full queue */
}

void abx__sync_watch_folder(abx_sync_watch *w, int fd)
{
    char path[64];
    if (w->fd < 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (inotify_add_watch(w->fd, path, EVENTS) >= 0 || w->full)
        return;
    w->full = true;
    abx_cli_warn(w->s->cli,
                 "abx: not every folder can be watched (fs.inotify.max_user_watches); looking "
                 "every %d seconds",
                 POLL_MS / 1000);
}

/* --- the sandbox ----------------------------------------------------------------------------------------------- */

static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    (void)c;
    (void)event;
    abx_sync_watch *w = data;
    if (strcmp(type, "started") == 0)
        w->started = true;
    changed(w);
}

/* Lost events, a lost connection, a folder that is gone: begin anew and look. */
static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    abx_sync_watch *w = data;
    w->call = NULL;
    if (err && (err->id == ABX_ERR_FEATURE_MISSING || err->id == ABX_ERR_QUOTA))
        w->cannot = true;
    if (err && err->id == ABX_ERR_SANDBOX_NOT_FOUND && !w->err)
        w->err = abx_error_copy(err);
    w->retry_ms = abx_now_mono_ms() + AGAIN_MS;
    changed(w);
}

static void begin_remote(abx_sync_watch *w)
{
    if (!w->remote || w->call || w->cannot || w->s->remote_missing ||
        abx_now_mono_ms() < w->retry_ms)
        return;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_cli_params(w->s->sandbox, &root);
    abx_mut_str(d, root, "path", w->s->remote);
    abx_mut_bool(d, root, "recursive", true);
    abx_mut_str(d, root, "user", w->s->copy.user);
    abx_call_handlers handlers = {.on_event = on_event, .on_end = on_end};
    ABX_AUTO_ERROR err = NULL;
    w->call = abx_cli_start(w->s->cli, ABX_OP_FS_WATCH, d, &handlers, w, &err);
    if (w->call)
        return;
    w->cannot = err->id == ABX_ERR_FEATURE_MISSING;
    w->retry_ms = abx_now_mono_ms() + AGAIN_MS;
}

/* --- the wait -------------------------------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    (void)timer; /* it only turns the loop */
}

int abx__sync_watch_open(abx_sync *s, bool local, bool remote, abx_error **err)
{
    abx_sync_watch *w = s->watch = ABX_NEW(abx_sync_watch);
    w->s = s;
    w->remote = remote;
    w->fd = local ? inotify_init1(IN_NONBLOCK | IN_CLOEXEC) : -1;
    if (local && w->fd < 0) {
        free(ABX_TAKE(s->watch));
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot watch '%s'", s->local);
    }
    uv_timer_init(&s->cli->_loop, &w->timer);
    w->timer.data = w;
    w->open = 1;
    if (local) {
        ABX_CHECK(uv_poll_init(&s->cli->_loop, &w->poll, w->fd) == 0);
        w->poll.data = w;
        ABX_CHECK(uv_poll_start(&w->poll, UV_READABLE, on_readable) == 0);
        w->open++;
    }
    begin_remote(w); /* before the first scan: what changes during it is seen */
    while (w->call && !w->started && !abx_cli_interrupted(s->cli))
        abx_cli_turn(s->cli);
    w->first_ms = w->changed_ms = 0;
    return 0;
}

/* Milliseconds until it is time for a run; 0: now. */
static uint64_t time_left(const abx_sync_watch *w, uint64_t began_ms, uint64_t now)
{
    bool polled = w->full || (w->remote && (w->cannot || w->s->remote_missing));
    uint64_t until = polled ? began_ms + POLL_MS : UINT64_MAX;
    if (w->first_ms) {
        uint64_t quiet = w->changed_ms + QUIET_MS, latest = w->first_ms + AT_MOST;
        uint64_t go = quiet < latest ? quiet : latest;
        until = go < until ? go : until;
    }
    if (w->remote && !w->call && !w->cannot && w->retry_ms < until)
        until = w->retry_ms > now ? w->retry_ms : now + AGAIN_MS;
    return until <= now ? 0 : until - now;
}

int abx__sync_watch_wait(abx_sync *s, abx_error **err)
{
    abx_sync_watch *w = s->watch;
    uint64_t began = abx_now_mono_ms();
    for (;;) {
        if (abx_cli_interrupted(s->cli))
            return abx_fail(err, ABX_ERR_CANCELLED, "interrupted");
        if (w->err)
            return abx_error_take(err, ABX_TAKE(w->err));
        begin_remote(w);
        uint64_t left = time_left(w, began, abx_now_mono_ms());
        if (left == 0)
            break;
        uv_timer_start(&w->timer, on_timer, left < POLL_MS ? left : POLL_MS, 0);
        abx_cli_turn(s->cli);
    }
    uv_timer_stop(&w->timer);
    w->first_ms = w->changed_ms = 0;
    return 0;
}

static void on_close(uv_handle_t *handle)
{
    ((abx_sync_watch *)handle->data)->open--;
}

void abx__sync_watch_close(abx_sync *s)
{
    abx_sync_watch *w = s->watch;
    if (!w)
        return;
    if (w->call)
        abx_call_cancel(w->call);
    while (w->call)
        abx_cli_turn(s->cli);
    uv_close((uv_handle_t *)&w->timer, on_close);
    if (w->fd >= 0)
        uv_close((uv_handle_t *)&w->poll, on_close);
    while (w->open > 0)
        uv_run(&s->cli->_loop, UV_RUN_NOWAIT);
    abx_close_fd(&w->fd);
    abx_error_free(w->err);
    free(ABX_TAKE(s->watch));
}
