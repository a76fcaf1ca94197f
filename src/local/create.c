/* Making a sandbox: everything from the folder to the first answer of pid 1. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/create.h"
#include "local/folder.h"
#include "local/range_maps.h"
#include "local/remover.h"
#include "local/skeleton.h"
#include "local/slots.h"
#include "local/starter.h"
#include "local/template/stack.h"
#include "local/trash.h"

#define SETUP_LIMIT_MS 30000u

typedef struct creation {
    abx_local *local;
    abx_plan *plan;
    yyjson_val *metadata;
    const char *idempotency_key;
    abx_local_created_cb cb;
    void *data;
    abx_attempt *attempt; /* doctor asks how it went; or NULL */

    abx_folder folder;
    int skeleton_lock;
    int pair; /* our end; pid 1's report comes here, then it is the first connection */
    pid_t pid;
    int pidfd;
    abx_range_maps *maps; /* newuidmap and newgidmap run */
    int hold;             /* what the helper of a network gets; -1 */
    abx_uplink *uplink;   /* the helper is on its way */
    abx_cgroups groups;
    abx_layers layers; /* closed at the end: closing one takes the lock that pid 1's mounts need */
    abx_setup_report report;
    size_t report_len;
    abx_state state;

    uv_poll_t poll;
    uv_timer_t timer;
    bool has_poll, ended;
    int open_handles;
    abx_error *error; /* why it failed, once it did */
} creation;

static const abx_layers no_layers = {-1, -1, -1, false};

static void close_layers(creation *c)
{
    abx_close_fd(&c->layers.skeleton);
    abx_close_fd(&c->layers.usr);
    abx_close_fd(&c->layers.layers);
}

static void creation_free(creation *c)
{
    close_layers(c);
    abx_cgroups_clear(&c->groups);
    abx_folder_clear(&c->folder);
    abx_close_fd(&c->skeleton_lock);
    abx_close_fd(&c->pair);
    abx_close_fd(&c->pidfd);
    abx_close_fd(&c->hold);
    abx_plan_free(c->plan);
    abx_state_clear(&c->state);
    abx_error_free(c->error);
    free(c);
}

/* End what was started and remove what was made. */
static void undo(creation *c)
{
    abx_range_maps_stop(ABX_TAKE(c->maps));
    abx_uplink_stop(ABX_TAKE(c->uplink));
    (void)abx_uplink_end(&c->state.helper, c->state.boot_id);
    abx_close_fd(&c->hold);
    if (c->pidfd >= 0) {
        siginfo_t info;
        syscall(SYS_pidfd_send_signal, c->pidfd, SIGKILL, NULL, 0);
        while (waitid((idtype_t)P_PIDFD, (id_t)c->pidfd, &info, WEXITED) < 0 && errno == EINTR)
            ;
    }
    abx_close_fd(&c->pidfd);
    abx_close_fd(&c->pair);
    abx_close_fd(&c->skeleton_lock);
    close_layers(c);
    abx_cgroups_clear(&c->groups);
    if (c->folder.fd >= 0)
        abx_trash_sandbox(c->local, c->plan->id, c->plan->slot);
    abx_folder_clear(&c->folder);
    abx_state_clear(&c->state);
    c->plan->slot = -1;
}

static void finish(creation *c)
{
    abx_local_created_cb cb = c->cb;
    if (c->attempt) {
        c->attempt->report = c->report;
        c->attempt->copied_root = c->plan->copied_root;
    }
    if (c->error || c->plan->only_try) {
        cb(c->data, NULL, -1, c->error);
    } else {
        yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
        yyjson_mut_doc_set_root(d, abx_state_object(d, &c->state));
        ABX_AUTO_JSON info = abx_json_freeze(d);
        yyjson_mut_doc_free(d);
        cb(c->data, yyjson_doc_get_root(info), abx_take_fd(&c->pair), NULL);
    }
    creation_free(c);
}

static void on_closed(uv_handle_t *handle)
{
    creation *c = (creation *)handle->data;
    if (--c->open_handles == 0)
        finish(c);
}

static void end(creation *c)
{
    c->ended = true;
    if (c->error || c->plan->only_try)
        undo(c);
    if (c->has_poll)
        uv_close((uv_handle_t *)&c->poll, on_closed);
    uv_close((uv_handle_t *)&c->timer, on_closed);
}

/* --- the steps outside ------------------------------------------------------------------------------- */

static void note_state(creation *c)
{
    abx_state *s = &c->state;
    const abx_plan *p = c->plan;
    bool is_zombie;
    struct stat st;
    char path[40];
    memset(s, 0, sizeof(*s));
    s->id = abx_strdup(p->id);
    s->name = abx_strdup(p->name);
    s->idempotency_key = abx_strdup(c->idempotency_key);
    s->pid = c->pid;
    (void)abx_process_start(c->pid, &s->start, &is_zombie);
    abx_boot_id(s->boot_id);
    snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)c->pid);
    s->pid_ns = stat(path, &st) == 0 ? st.st_ino : 0;
    s->ids = p->ids;
    s->uid = p->outer_uid;
    s->slot = p->slot;
    memcpy(s->skeleton, p->digest, sizeof(s->skeleton));
    s->upper = abx_strdup(p->upper);
    s->token = abx_strdup(p->token);
    s->created_wall_ms = abx_now_wall_ms();
    s->expires_wall_ms = INT64_MAX;
    s->expires_boot_ms = UINT64_MAX;
    if (p->timeout_ms < (uint64_t)INT64_MAX / 2) {
        s->expires_wall_ms = s->created_wall_ms + (int64_t)p->timeout_ms;
        s->expires_boot_ms = abx_now_boot_ms() + p->timeout_ms;
    }
    s->idle_ms = p->idle_ms;
    s->pause_on_limit = p->pause_on_limit;
    s->tied = p->tied;
    s->limits = p->limits;
    s->network = p->network;
    s->freezer = abx_strdup(c->groups.freezer);
    s->copied_root = p->copied_root;
    s->plain_usr = !p->usr_overlay;
    s->metadata = c->metadata ? abx_json_copy(c->metadata) : NULL;
    s->origin = p->stack ? abx_json_copy(yyjson_doc_get_root(p->stack->origin)) : NULL;
}

/* A root without an overlay. */
static int copy_root(creation *c, uid_t shift, abx_error **err)
{
    abx_plan *p = c->plan;
    if (!p->stack)
        return abx_skeleton_copy(c->local, p->digest, c->folder.fd, shift, err);
    if ((p->stack->on_host && !p->stack->flat) || p->ids == ABX_IDS_RANGE)
        return abx_fail(err, ABX_ERR_ISOLATION, "layer 'overlay' is refused: it is needed for %s",
                        p->stack->on_host ? "this snapshot" : "a template with a range of ids");
    abx_store store;
    if (abx_store_open(c->local, false, &store, err) < 0)
        return -1;
    int rc = abx_stack_copy(&store, p->stack, c->folder.fd, shift, err);
    abx_store_close(&store);
    return rc;
}

static int make_folder(creation *c, abx_error **err)
{
    abx_plan *p = c->plan;
    if (abx_folder_make(c->local, p->id, &c->folder, err) < 0)
        return -1;
    if (p->ids == ABX_IDS_SLOT) {
        int slot = abx_slot_take(ABX_SLOTS_DIR, c->local->base, p->id, err);
        if (slot < 0)
            return -1;
        abx_plan_use_slot(p, slot);
    }
    if (p->copied_root && p->limits.disk == ABX_HOLD_TMPFS) {
        abx_fail(err, ABX_ERR_FEATURE_MISSING, "this machine has no overlay for a disk in memory");
        return abx_hint(err, "leave the option disk=memory out: then --disk is watched");
    }
    if (!p->copied_root && p->limits.disk != ABX_HOLD_TMPFS &&
        abx_upper_choose(c->local, c->folder.fd, p, err) < 0)
        return -1;
    if (p->copied_root) {
        uid_t shift = p->ids == ABX_IDS_SLOT ? p->outer_uid - ABX_INSIDE_UID : 0;
        p->usr_overlay = !abx_plan_on_host(p);
        if (copy_root(c, shift, err) < 0)
            return -1;
    }
    return abx_folder_fill(&c->folder, p, err);
}

/* Control groups, where a limit wants them and the caller may have them; else pid 1 watches. */
static int make_groups(creation *c, abx_error **err)
{
    abx_limits *l = &c->plan->limits;
    bool single = c->plan->ids == ABX_IDS_SINGLE;
    if (!abx_limits_want_cgroup(l, single))
        return 0;
    abx_cgroup_map map;
    abx_cgroup_want want = {.memory_bytes = l->asked.memory_bytes,
                            .cpu_millis = l->asked.cpu_millis,
                            .processes = l->asked.processes};
    abx_cgroup_map_read(&map);
    int rc = abx_cgroups_make(&c->groups, &map, c->plan->id, c->folder.fd, &want, err);
    abx_cgroup_map_clear(&map);
    abx_limits_use_cgroups(l, &c->groups);
    return rc;
}

/* The pipe of a network's helper: our end, and the one that the sandbox holds. Nothing without a network. */
static int make_hold(creation *c, int *theirs, abx_error **err)
{
    int ends[2];
    if (c->plan->network == ABX_NETWORK_NONE)
        return 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot make a pipe");
    c->hold = ends[0];
    *theirs = ends[1];
    return 0;
}

/* Descriptors of the new process; it lives in a copy of our memory, so `s` may be on our stack. */
static int start_process(creation *c, abx_error **err)
{
    int ends[2];
    ABX_AUTO_FD listener = abx_folder_socket(&c->folder, err);
    if (listener < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot make a socket");
    c->pair = ends[0];
    ABX_AUTO_FD theirs = ends[1];
    ABX_AUTO_FD hold = -1;
    if (make_hold(c, &hold, err) < 0)
        return -1;
    ABX_AUTO_FD place =
        c->plan->upper ? open(c->plan->upper, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    ABX_AUTO_FREE char *layers = c->plan->stack && c->plan->ids != ABX_IDS_SLOT
                                     ? abx_format("%s/layers", c->local->base)
                                     : NULL;
    ABX_AUTO_FREE char *skeleton =
        c->plan->upper ? abx_format("%s/skeleton/%s", c->local->base, c->plan->digest) : NULL;
    abx_setup s = {
        .plan = c->plan,
        .folder = place >= 0 ? place : c->folder.fd,
        .pair = theirs,
        .creator_end = c->pair,
        .listener = listener,
        .lock = c->folder.lock,
        .skeleton = -1,
        .skeleton_path = skeleton,
        .usr = -1,
        .layers = -1,
        .layers_path = layers,
        .root_userns = -1,
        .groups = &c->groups,
        .layer = -1,
        .hold = hold,
    };
    c->pid = abx_clone(&s, c->plan, &c->pidfd, err);
    return c->pid < 0 ? -1 : 0;
}

static void fail(creation *c, abx_error *why)
{
    if (!c->error)
        c->error = why;
    else
        abx_error_free(why);
    end(c);
}

static void on_range_mapped(void *data, const abx_error *why)
{
    creation *c = (creation *)data;
    abx_error *err = NULL;
    c->maps = NULL;
    if (why)
        fail(c, abx_error_copy(why));
    else if (abx_send_go(c->pair, &no_layers, &err) < 0)
        fail(c, err);
}

static int map_ids(creation *c, abx_error **err)
{
    abx_plan *p = c->plan;
    if (p->ids == ABX_IDS_SINGLE)
        return 0;
    if (p->ids == ABX_IDS_RANGE)
        return abx_range_maps_start(c->local->loop, c->pid, p, on_range_mapped, c, &c->maps, err);
    if (abx_write_maps(c->pid, p, err) < 0)
        return -1;
    int rc = abx_idmapped_layers(c->local, c->pid, p, &c->layers, err);
    return rc != 0 ? rc : abx_send_go(c->pair, &c->layers, err);
}

static int begin_steps(creation *c, abx_error **err)
{
    bool on_host = abx_plan_on_host(c->plan);
    if (on_host)
        c->skeleton_lock = abx_skeleton_use(c->local, c->plan, err);
    if ((on_host && c->skeleton_lock < 0) || make_folder(c, err) < 0 || make_groups(c, err) < 0 ||
        start_process(c, err) < 0)
        return -1;
    int rc = map_ids(c, err);
    if (rc != 0)
        return rc;
    note_state(c);
    if (abx_state_begin(c->folder.fd, &c->state, err) < 0)
        return -1;
    abx_close_fd(&c->plan->stack_lock); /* from now on the state says what is used */
    return 0;
}

/* 0: pid 1 is on its way. 1: the machine has no layers for this, the skeleton must be copied. -1 and *err. The modes of
 * what is made are those written here, whatever the caller masks: only a one-shot program comes here. */
static int begin(creation *c, abx_error **err)
{
    mode_t mask = umask(0);
    int rc = begin_steps(c, err);
    umask(mask);
    return rc;
}

/* Once more from the start, with a copied root: an overlay is refused on this machine. */
static int begin_copied(creation *c, abx_error **err)
{
    undo(c);
    c->report_len = 0;
    c->plan->copied_root = true;
    free(ABX_TAKE(c->plan->upper));
    return begin(c, err);
}

/* --- what pid 1 says --------------------------------------------------------------------------------- */

static void on_poll(uv_poll_t *poll, int status, int events);

static int watch_pair(creation *c, abx_error **err)
{
    if (fcntl(c->pair, F_SETFL, O_RDWR | O_NONBLOCK) < 0 ||
        uv_poll_init(c->local->loop, &c->poll, c->pair) < 0)
        return abx_fail(err, ABX_ERR_LOCAL_STATE, "cannot watch the sandbox's first process");
    c->poll.data = c;
    c->has_poll = true;
    c->open_handles++;
    uv_poll_start(&c->poll, UV_READABLE, on_poll);
    return 0;
}

static void on_poll_closed(uv_handle_t *handle)
{
    creation *c = (creation *)handle->data;
    abx_error *err = NULL;
    if (c->ended) { /* the time limit came first */
        on_closed(handle);
        return;
    }
    c->open_handles--;
    if (begin_copied(c, &err) != 0 || watch_pair(c, &err) < 0) {
        if (!err)
            err = abx_error_new(ABX_ERR_ISOLATION, "layer 'overlay' is refused");
        fail(c, err);
    }
}

static void on_refused(creation *c)
{
    const abx_setup_report *r = &c->report;
    abx_error *err = NULL;
    if ((r->layer == ABX_LAYER_OVERLAY || r->layer == ABX_LAYER_USR) && !c->plan->copied_root) {
        c->has_poll = false;
        uv_close((uv_handle_t *)&c->poll, on_poll_closed);
        return;
    }
    abx_layer layer = (unsigned)r->layer < ABX_LAYER_COUNT ? (abx_layer)r->layer : ABX_LAYER_ENVD;
    abx_layer_error(&err, layer, r->error, r->step);
    fail(c, err);
}

static void on_helper(void *data, const abx_uplink_helper *helper, const abx_error *why)
{
    creation *c = (creation *)data;
    abx_error *err = NULL;
    c->uplink = NULL;
    if (why) {
        fail(c, abx_error_copy(why));
        return;
    }
    c->state.helper = *helper;
    if (abx_state_write(c->folder.fd, &c->state, &err) < 0 ||
        abx_send_go(c->pair, &no_layers, &err) < 0)
        fail(c, err);
}

/* pid 1 goes on meanwhile; what it says next is the end of its set-up. */
static void on_uplink_asked(creation *c)
{
    abx_error *err = NULL;
    c->report_len = 0;
    if (abx_uplink_start(c->local->loop, &c->plan->uplink, c->pid, c->hold, on_helper, c,
                         &c->uplink, &err) < 0)
        fail(c, err);
    abx_close_fd(&c->hold);
}

static void on_ready(creation *c)
{
    abx_state *s = &c->state;
    abx_error *err = NULL;
    uv_poll_stop(&c->poll);
    if (c->report.weakened != s->weakened || (c->report.plain_usr != 0) != s->plain_usr) {
        s->weakened = c->report.weakened;
        s->plain_usr = c->report.plain_usr != 0;
        if (abx_state_write(c->folder.fd, s, &err) < 0)
            c->error = err;
    }
    end(c);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    creation *c = (creation *)poll->data;
    char *at = (char *)&c->report + c->report_len;
    ssize_t n = read(c->pair, at, sizeof(c->report) - c->report_len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        c->report_len += (size_t)n;
    if (n > 0 && c->report_len < sizeof(c->report))
        return;
    if (n > 0 && c->report.magic == ABX_REPORT_MAGIC && c->report.kind == ABX_REPORT_UPLINK) {
        on_uplink_asked(c);
        return;
    }
    uv_poll_stop(poll);
    c->report.step[sizeof(c->report.step) - 1] = 0;
    if (n <= 0 || c->report.magic != ABX_REPORT_MAGIC)
        fail(c, abx_error_new(ABX_ERR_ISOLATION,
                              "the sandbox's first process ended while it was set up"));
    else if (c->report.kind == ABX_REPORT_READY)
        on_ready(c);
    else
        on_refused(c);
}

static void on_timer(uv_timer_t *timer)
{
    creation *c = (creation *)timer->data;
    if (c->has_poll)
        uv_poll_stop(&c->poll);
    fail(c, abx_error_new(ABX_ERR_ISOLATION, "setting up the sandbox took more than %u s",
                          SETUP_LIMIT_MS / 1000));
}

int abx_create_planned(abx_local *local, abx_plan *plan, const abx_local_spec *spec,
                       abx_attempt *attempt, abx_local_created_cb cb, void *data, abx_error **err)
{
    creation *c = ABX_NEW(creation);
    c->local = local;
    c->metadata = spec->metadata;
    c->idempotency_key = spec->idempotency_key;
    c->cb = cb;
    c->data = data;
    c->attempt = attempt;
    c->folder.fd = c->folder.lock = c->skeleton_lock = c->pair = c->pidfd = c->hold = -1;
    c->plan = plan;
    abx_cgroups_init(&c->groups);
    c->layers = no_layers;
    int rc = begin(c, err);
    if (rc == 1)
        rc = begin_copied(c, err);
    if (rc != 0 || watch_pair(c, err) < 0) {
        undo(c);
        creation_free(c);
        return -1;
    }
    uv_timer_init(local->loop, &c->timer);
    c->timer.data = c;
    c->open_handles++;
    uv_timer_start(&c->timer, on_timer, SETUP_LIMIT_MS, 0);
    if (plan->tied)
        abx_remover_start(local, plan->id, c->pidfd, plan->slot, plan->network != ABX_NETWORK_NONE);
    return 0;
}

int abx_local_create(abx_local *local, const abx_local_spec *spec, abx_local_created_cb cb,
                     void *data, abx_error **err)
{
    if (!local->may_fork)
        return abx_starter_create(local, spec, cb, data, err);
    if (abx_local_prepare(local, err) < 0)
        return -1;
    abx_local_tidy(local);
    abx_plan *plan = abx_plan_new(local, spec, err);
    return plan ? abx_create_planned(local, plan, spec, NULL, cb, data, err) : -1;
}
