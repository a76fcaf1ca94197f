/* From the birth of pid 1 to envd. */
#include "local/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "local/create.h"
#include "local/descriptors.h"
#include "local/envd/envd.h"

int abx_refused(abx_setup *s, abx_layer layer, const char *step, ...)
{
    int e = errno;
    /* a shortage is no reason to go on without a layer */
    if ((s->plan->weaker & ABX_LAYER_BIT(layer)) && !abx_is_shortage(e)) {
        s->report.weakened |= ABX_LAYER_BIT(layer);
        return 0;
    }
    s->report.layer = layer;
    s->report.error = e;
    va_list ap;
    va_start(ap, step);
    vsnprintf(s->report.step, sizeof(s->report.step), step, ap);
    va_end(ap);
    return -1;
}

void abx_setup_tell(abx_setup *s, abx_report_kind kind)
{
    s->report.magic = ABX_REPORT_MAGIC;
    s->report.kind = kind;
    const char *at = (const char *)&s->report;
    size_t left = sizeof(s->report);
    while (left > 0) {
        ssize_t n = write(s->pair, at, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            _exit(1); /* the creator is gone: so are we */
        at += n;
        left -= (size_t)n;
    }
}

static void reset_signals(void)
{
    for (int sig = 1; sig < NSIG; sig++)
        if (sig != SIGKILL && sig != SIGSTOP)
            signal(sig, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Of the creator's descriptors only what is served stays. */
static int keep_only(abx_setup *s)
{
    int *const kept[] = {&s->pair,
                         &s->listener,
                         &s->lock,
                         &s->root_userns,
                         &s->groups->commands,
                         &s->groups->events,
                         &s->groups->freeze,
                         &s->groups->frozen,
                         &s->layer,
                         &s->hold};
    if (abx_keep_only(kept, ABX_COUNT(kept)) < 0)
        return abx_refused(s, ABX_LAYER_DEV, "closing the creator's descriptors");
    s->skeleton = s->usr = s->layers = -1;
    return 0;
}

typedef int (*step_fn)(abx_setup *s);

/* The order has reasons: ids before mounts (files belong to them), all of /proc before pivot (masks use the
 * host's /dev/null), the net namespace before the root changes under its maker, settings below /proc/sys
 * before it turns read-only, a helper of the network asked for early and met late, limits before capabilities go (hard limits), the nested namespace while this
 * process may still be looked at by itself, the filter last. */
static const step_fn steps[] = {
    abx_enter_groups,     abx_set_affinity, abx_raise_rlimits, abx_take_inside_ids,
    abx_note_own_routes,  abx_start_net,    abx_mount_root,    abx_show_layer,
    abx_mount_usr,        abx_mount_proc,   abx_mount_dev,     abx_mask_proc,
    abx_join_net,         abx_ask_uplink,   abx_enter_root,    abx_write_own_files,
    abx_set_sysctls,      abx_set_names,    abx_join_uplink,   abx_lock_proc,
    abx_make_root_userns, abx_set_rlimits,  keep_only,         abx_drop_caps,
    abx_bound_exec,       abx_base_filter,
};

static void on_ready(void *data)
{
    abx_setup *s = (abx_setup *)data;
    abx_setup_tell(s, ABX_REPORT_READY);
    if (s->plan->only_try)
        _exit(0);
}

static int root_userns(void *data)
{
    const abx_setup *s = (const abx_setup *)data;
    if (s->root_userns < 0)
        errno = ENOSYS;
    return s->root_userns;
}

static _Noreturn void serve(abx_setup *s)
{
    const abx_plan *p = s->plan;
    abx_envd_config config = {
        .listen_fd = s->listener,
        .first_fd = s->pair,
        .tied = p->tied,
        .lock_fd = s->lock,
        .log_fd = -1,
        .id = p->id,
        .name = p->name,
        .token = p->token,
        .timeout_ms = p->timeout_ms,
        .idle_ms = p->idle_ms,
        .pause_on_limit = p->pause_on_limit,
        .env = (const char *const *)p->env,
        .workdir = p->workdir ? p->workdir : "/home/user",
        .default_user = p->user,
        .has_range = p->ids != ABX_IDS_SINGLE,
        .max_processes = p->limits.asked.processes,
        .commands_fd = s->groups->commands,
        .events_fd = s->groups->events,
        .layer_fd = s->layer,
        .memory_size = p->limits.asked.memory_bytes,
        .memory_limit = p->limits.memory == ABX_HOLD_WATCH ? p->limits.asked.memory_bytes : 0,
        .disk_size = p->limits.asked.disk_bytes,
        .disk_limit = p->limits.disk == ABX_HOLD_WATCH ? p->limits.asked.disk_bytes : 0,
        .cpu_millis = p->limits.asked.cpu_millis,
        .reserve_bytes = ABX_FREE_DISK_BYTES,
        .disk_is_memory = p->limits.disk == ABX_HOLD_TMPFS,
        .freeze_fd = s->groups->freeze,
        .frozen_fd = s->groups->frozen,
        .ready = on_ready,
        .ready_data = s,
        .root_userns = p->ids == ABX_IDS_SINGLE ? root_userns : NULL,
        .root_userns_data = s,
        .lock_child = abx_lock_child,
        .lock_child_data = s,
    };
    abx_envd_main(&config);
}

_Noreturn void abx_setup_main(abx_setup *s)
{
    abx_close_fd(&s->creator_end);
    setsid();
    umask(0);
    reset_signals();
    prctl(PR_SET_NAME, "abx");
    /* Until it is hidden for good this process must reach its own files in /proc; a creator that changed its ids, or
     * hides itself, handed that on. Nothing foreign runs inside yet. */
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    abx_wipe_origin();
    int rc = abx_wait_for_maps(s);
    for (size_t i = 0; rc == 0 && i < ABX_COUNT(steps); i++)
        rc = steps[i](s);
    if (rc < 0) {
        abx_setup_tell(s, ABX_REPORT_REFUSED);
        _exit(1);
    }
    umask(022);
    serve(s);
}
