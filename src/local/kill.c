/* Ending a sandbox: KILL by pidfd; its folder is moved away at once and removed beside or behind its end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "local/cgroup.h"
#include "local/folder.h"
#include "local/remover.h"
#include "local/slots.h"
#include "local/state.h"
#include "local/trash.h"

struct abx_local_killing {
    abx_local *local;
    char *id;
    char trash[64]; /* its folder's name there */
    int slot, pidfd;
    bool was_alive;
    void (*cb)(void *data, const abx_error *err);
    void *data;
    uv_poll_t poll;
    uv_timer_t timer;
    unsigned tries; /* control groups were still in use */
    bool left;      /* remove no more */
    int open_handles;
};
typedef abx_local_killing killing;

static void on_closed(uv_handle_t *handle)
{
    killing *k = (killing *)handle->data;
    if (--k->open_handles > 0)
        return;
    ABX_AUTO_ERROR err = NULL;
    if (!k->was_alive)
        abx_fail(&err, ABX_ERR_SANDBOX_NOT_FOUND, "sandbox '%s' does not live", k->id);
    k->cb(k->data, err);
    abx_close_fd(&k->pidfd);
    free(k->id);
    free(k);
}

#define BUSY_TRIES    200u
#define BUSY_PAUSE_MS 10u
#define SLICE_MS      20u /* of removing, between two turns of the loop */

static void on_timer(uv_timer_t *timer);

static int remove_slice(killing *k)
{
    return abx_trash_remove(k->local, k->trash, abx_now_mono_ms() + SLICE_MS, NULL);
}

/* The processes are gone: what they made meanwhile goes too. */
static void finish(killing *k)
{
    siginfo_t info;
    if (k->pidfd >= 0) /* ours to reap, if it was made by this very process */
        (void)waitid((idtype_t)P_PIDFD, (id_t)k->pidfd, &info, WEXITED | WNOHANG);
    int rc = k->trash[0] && !k->left ? remove_slice(k) : -1;
    bool again = rc == ABX_TRASH_MORE || (rc == ABX_TRASH_BUSY && k->tries++ < BUSY_TRIES);
    if (again) {
        uv_timer_start(&k->timer, on_timer, rc == ABX_TRASH_MORE ? 0 : BUSY_PAUSE_MS, 0);
        return;
    }
    if (rc == ABX_TRASH_GONE && k->slot >= 0)
        abx_slot_free(ABX_SLOTS_DIR, k->slot, k->local->base, k->id);
    if (k->pidfd >= 0)
        uv_close((uv_handle_t *)&k->poll, on_closed);
    uv_close((uv_handle_t *)&k->timer, on_closed);
}

static void on_end(uv_poll_t *poll, int status, int events)
{
    killing *k = (killing *)poll->data;
    uv_poll_stop(poll);
    finish(k);
}

static void on_timer(uv_timer_t *timer)
{
    finish((killing *)timer->data);
}

static int start(killing *k, abx_error **err)
{
    uv_loop_t *loop = k->local->loop;
    if (k->pidfd >= 0) {
        if (uv_poll_init(loop, &k->poll, k->pidfd) < 0)
            return abx_fail(err, ABX_ERR_LOCAL_STATE, "cannot watch sandbox '%s'", k->id);
        k->poll.data = k;
        k->open_handles++;
        uv_poll_start(&k->poll, UV_READABLE, on_end);
    }
    uv_timer_init(loop, &k->timer);
    k->timer.data = k;
    k->open_handles++;
    if (k->pidfd < 0) /* nothing to wait for; the answer still comes later */
        uv_timer_start(&k->timer, on_timer, 0, 0);
    return 0;
}

/* By the state; where that is broken, by who serves the socket, as long as the lock is held. */
static void find_process(killing *k, int folder, bool alive, abx_state *s)
{
    if (abx_state_read(folder, s, NULL) == 0) {
        k->slot = s->slot;
        k->pidfd = abx_state_pidfd(s);
    }
    pid_t pid = alive && k->pidfd < 0 ? abx_folder_peer(folder) : 0;
    if (pid > 1) {
        k->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (!abx_folder_alive(folder))
            abx_close_fd(&k->pidfd);
    }
}

void abx_local_kill_leave(abx_local_killing *k)
{
    k->left = true;
}

int abx_local_kill(abx_local *local, const char *id, void (*cb)(void *data, const abx_error *err),
                   void *data, abx_local_killing **out, abx_error **err)
{
    ABX_AUTO_FD folder = abx_folder_open(local, id);
    ABX_AUTO_STATE s = {0};
    if (folder < 0)
        return abx_folder_not_there(id, err);
    killing *k = ABX_NEW(killing);
    k->local = local;
    k->id = abx_strdup(id);
    k->cb = cb;
    k->data = data;
    k->slot = k->pidfd = -1;
    bool alive = abx_folder_alive(folder);
    find_process(k, folder, alive, &s);
    k->was_alive = alive && k->pidfd >= 0;
    if (k->pidfd >= 0 && syscall(SYS_pidfd_send_signal, k->pidfd, SIGKILL, NULL, 0) < 0 &&
        errno != ESRCH) {
        abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot end sandbox '%s'", id);
        abx_close_fd(&k->pidfd);
        free(k->id);
        free(k);
        return -1;
    }
    /* of version 1 the frozen do not die before they thaw */
    if (k->pidfd >= 0 && s.freezer)
        (void)abx_cgroup_freeze(s.freezer, false, NULL);
    /* A lock that is held without a process that we can name: it is being made, or its state is broken. */
    if (alive && k->pidfd < 0) {
        free(k->id);
        free(k);
        return abx_fail(err, ABX_ERR_CONFLICT, "sandbox '%s' is being made", id);
    }
    (void)abx_uplink_end(&s.helper, s.boot_id);
    if (abx_trash_move(local, id, k->trash) != 0) {
        k->trash[0] = 0;
    } else if (s.tied && abx_remover_hand_over(local, id, k->trash) == 0) {
        /* Its death is sure, and nobody comes back to it: the remover waits for it, we do not. */
        k->trash[0] = 0;
        abx_close_fd(&k->pidfd);
    } else {
        (void)remove_slice(k); /* beside the end; the rest after it */
    }
    if (start(k, err) < 0) {
        abx_close_fd(&k->pidfd);
        free(k->id);
        free(k);
        return -1;
    }
    if (out)
        *out = k;
    return 0;
}
