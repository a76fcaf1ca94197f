/* Pause and resume: every process of the sandbox is stopped, pid 1 goes on and answers. Where the commands have a control
 * group that can freeze, it does; else signals do.
 *
 * One SIGSTOP to all misses who is being born at that moment. So it is sent again and again, until two looks at /proc, one
 * right after the other, find nobody who could run. Who was stopped before, by its user, stays so afterwards. Processes
 * go on children first: no shell then sees a child that is stopped. */
#include "local/envd/inner.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "local/cgroup.h"
#include "local/record.h"

enum { MAX_ROUNDS = 50, DEEPEST = 256 };

typedef struct waiter {
    abx_link node;
    abx_e2b_call *call;
    bool resume;
    int64_t timeout_ms;
} waiter;

typedef struct abx__pause {
    abx_envd *envd;
    uv_timer_t timer;
    unsigned rounds;
    abx_pause_way way;
    pid_t *before; /* who was stopped already, ascending */
    size_t before_count;
    abx_link waiters; /* calls that are answered when it is done */
} abx__pause;

/* --- stopping ------------------------------------------------------------------------------------------ */
/* D: it waits in the kernel, and the signal for it does too; it takes it before it does anything else. */
static bool is_still(const abx__seen *s)
{
    return s->state == 'T' || s->state == 't' || s->state == 'D';
}

static bool all_still(void)
{
    size_t count = 0, still = 0;
    abx__seen *list = abx__look(&count);
    if (!list)
        return false;
    for (size_t i = 0; i < count; i++)
        still += is_still(&list[i]);
    free(list);
    return still == count;
}

static int by_number(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
    return (x > y) - (x < y);
}

static void remember_stopped(abx__pause *p)
{
    size_t count = 0;
    abx__seen *list = abx__look(&count);
    p->before = abx_alloc_array(count + 1, sizeof(*p->before));
    for (size_t i = 0; i < count; i++)
        if (list[i].state == 'T')
            p->before[p->before_count++] = list[i].pid;
    free(list);
    qsort(p->before, p->before_count, sizeof(*p->before), by_number);
}

/* --- going on ------------------------------------------------------------------------------------------ */
static int by_pid(const void *a, const void *b)
{
    return by_number(&((const abx__seen *)a)->pid, &((const abx__seen *)b)->pid);
}

/* Deepest first; `session` holds how deep. */
static int by_depth(const void *a, const void *b)
{
    return -by_number(&((const abx__seen *)a)->session, &((const abx__seen *)b)->session);
}

static const abx__seen *find(const abx__seen *list, size_t count, pid_t pid)
{
    abx__seen key = {.pid = pid};
    return bsearch(&key, list, count, sizeof(*list), by_pid);
}

static void let_all_go(const abx__pause *p)
{
    if (p->way == ABX_PAUSE_FREEZER) {
        (void)abx_cgroup_ask_freeze(p->envd->freeze_fd, false);
        return;
    }
    size_t count = 0;
    abx__seen *list = abx__look(&count);
    if (!list)
        return;
    qsort(list, count, sizeof(*list), by_pid);
    for (size_t i = 0; i < count; i++) {
        list[i].session = 0;
        for (const abx__seen *up = &list[i]; up && list[i].session < DEEPEST;
             up = find(list, count, up->parent))
            list[i].session++;
    }
    qsort(list, count, sizeof(*list), by_depth);
    for (size_t i = 0; i < count; i++)
        if (!bsearch(&list[i].pid, p->before, p->before_count, sizeof(*p->before), by_number))
            (void)kill(list[i].pid, SIGCONT);
    free(list);
}

/* --- the states ------------------------------------------------------------------------------------------- */
static void timer_gone(uv_handle_t *handle)
{
    abx__pause *p = handle->data;
    abx_envd *e = p->envd;
    free(p->before);
    free(p);
    abx__envd_released(e);
}

static void leave(abx_envd *e)
{
    abx__pause *p = ABX_TAKE(e->pause);
    e->pause_state = ABX__RUNNING;
    uv_close((uv_handle_t *)&p->timer, timer_gone);
}

/* All that wait, to a list of the caller's. */
static void take_waiters(abx__pause *p, abx_link *list)
{
    abx_link_init(list);
    if (p->waiters.next == &p->waiters)
        return;
    *list = p->waiters;
    /* the list lets go of what is freed: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    list->next->prev = list->prev->next = list;
    abx_link_init(&p->waiters);
}

/* The waiter's call, which is to be answered now. */
static abx_e2b_call *release(waiter *w)
{
    abx_e2b_call *call = w->call;
    abx_link_remove(&w->node);
    free(w);
    return call;
}

static void go_on(abx_envd *e, int64_t timeout_ms)
{
    abx__hold_end(e);
    let_all_go(e->pause);
    leave(e);
    if (timeout_ms < 0)
        (void)abx__life_go_on(e);
    else
        (void)abx__envd_set_limit(e, timeout_ms == 0 ? ABX_FOREVER : (uint64_t)timeout_ms);
    abx__procs_hold(e, false);
    abx__code_hold(e, false);
}

static void answer_resume(abx_envd *e, abx_e2b_call *c, bool was_paused)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    int64_t expires = abx__life_note(e);
    abx_mut_bool(d, root, "wasPaused", was_paused);
    if (expires != INT64_MAX)
        abx_mut_int(d, root, "expiresAtMs", expires);
    abx_e2b_answer(c, root);
}

static void answer_pause(abx_envd *e, abx_e2b_call *c, bool was_paused)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_bool(d, root, "wasPaused", was_paused);
    abx_mut_bool(d, root, "held", e->hold != NULL);
    abx_e2b_answer(c, root);
}

static void done(abx__pause *p)
{
    abx_envd *e = p->envd;
    bool resume = false;
    int64_t timeout_ms = -1;
    e->pause_state = ABX__PAUSED;
    e->paused_wall_ms = abx_now_wall_ms();
    abx__life_rest(e);
    e->pause_way = p->way;
    (void)abx__life_note(e);
    for (abx_link *n = p->waiters.next, *next; n != &p->waiters; n = next) {
        next = n->next;
        waiter *w = ABX_OF(n, waiter, node);
        if (!w->resume) {
            answer_pause(e, release(w), false);
        } else {
            resume = true;
            timeout_ms = w->timeout_ms;
        }
    }
    if (!resume)
        return;
    abx_link resumers;
    take_waiters(p, &resumers);
    go_on(e, timeout_ms);
    while (resumers.next != &resumers)
        answer_resume(e, release(ABX_OF(resumers.next, waiter, node)), true);
}

/* Somebody cannot be stopped: it all goes on. */
static void give_up(abx__pause *p)
{
    abx_envd *e = p->envd;
    e->pause_state = ABX__PAUSED; /* for what is left of the time limit */
    abx_link waiters;
    take_waiters(p, &waiters);
    go_on(e, -1);
    while (waiters.next != &waiters) {
        waiter *w = ABX_OF(waiters.next, waiter, node);
        bool resume = w->resume;
        abx_e2b_call *c = release(w);
        if (resume)
            answer_resume(e, c, true);
        else
            abx_e2b_refuse(c, 500, "some processes of sandbox '%s' cannot be stopped", e->id);
    }
}

static void round_again(uv_timer_t *timer);

static bool try_once(const abx__pause *p)
{
    if (p->way == ABX_PAUSE_FREEZER) /* version 1 may need to be asked more than once */
        return abx_cgroup_ask_freeze(p->envd->freeze_fd, true) == 0 &&
               abx_cgroup_see_frozen(p->envd->frozen_fd) == 1;
    (void)kill(-1, SIGSTOP);
    return all_still() && all_still();
}

static void round_once(abx__pause *p)
{
    p->rounds++;
    if (try_once(p)) {
        if (p->envd->pause_state == ABX__PAUSING)
            done(p);
        return;
    }
    if (p->rounds >= MAX_ROUNDS) {
        if (p->envd->pause_state == ABX__PAUSING)
            give_up(p);
        return;
    }
    /* most stop at once; a busy machine lets others wait for their turn to stop */
    uint64_t wait_ms = p->rounds < 10 ? 1 : p->rounds < 25 ? 10 : 200;
    ABX_CHECK(uv_timer_start(&p->timer, round_again, wait_ms, 0) == 0);
}

static void round_again(uv_timer_t *timer)
{
    round_once(timer->data);
}

void abx__pause_begin(abx_envd *e)
{
    if (e->pause_state != ABX__RUNNING || !e->is_init)
        return;
    abx__pause *p = ABX_NEW(abx__pause);
    p->envd = e;
    p->timer.data = p;
    abx_link_init(&p->waiters);
    ABX_CHECK(uv_timer_init(e->loop, &p->timer) == 0);
    e->handles++;
    abx__life_hold(e);
    abx__procs_hold(e, true);
    abx__code_hold(e, true);
    e->pause = p;
    e->pause_state = ABX__PAUSING;
    if (e->freeze_fd >= 0 && e->frozen_fd >= 0)
        p->way = ABX_PAUSE_FREEZER;
    else
        remember_stopped(p);
    round_once(p);
}

void abx__pause_check(abx_envd *e)
{
    if (e->pause_state != ABX__PAUSED || e->closing || e->pause->way == ABX_PAUSE_FREEZER)
        return;
    e->pause->rounds = 0;
    round_once(e->pause);
}

void abx__pause_let_go(abx_envd *e)
{
    if (e->pause_state == ABX__PAUSED)
        go_on(e, -1);
    (void)abx__life_note(e);
}

void abx__pause_close(abx_envd *e)
{
    abx__hold_end(e);
    if (e->pause)
        leave(e); /* the calls that waited are closed already */
}

/* --- the routes ------------------------------------------------------------------------------------------ */
static void on_waiter_close(abx_e2b_call *c, bool expired, void *data)
{
    (void)c;
    (void)expired;
    (void)release(data); /* what it asked for happens all the same */
}

static void wait_for_it(abx_envd *e, abx_e2b_call *c, bool resume, int64_t timeout_ms)
{
    static const abx_e2b_call_handlers handlers = {.on_close = on_waiter_close};
    waiter *w = ABX_NEW(waiter);
    w->call = c;
    w->resume = resume;
    w->timeout_ms = timeout_ms;
    abx_link_append(&e->pause->waiters, &w->node);
    abx_e2b_call_handle(c, &handlers, w);
}

void abx__rpc_abx_pause(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    int64_t hold_ms = abx_json_int(q, "holdMs", 0);
    bool was_held = e->hold != NULL, renew = abx_json_bool(q, "renew", false);
    if (!e->is_init) {
        abx_e2b_refuse(c, 501, "this server cannot pause what it runs");
        return;
    }
    if (hold_ms <= 0) /* a person's pause takes over from one that is only held */
        abx__hold_end(e);
    else if (was_held || (e->pause_state == ABX__RUNNING && !renew))
        abx__hold_begin(e, (uint64_t)hold_ms);
    if (e->pause_state == ABX__PAUSED || renew) {
        answer_pause(e, c, e->pause_state == ABX__PAUSED && (hold_ms > 0 || !was_held));
        return;
    }
    if (e->pause_state == ABX__RUNNING)
        abx__pause_begin(e);
    if (e->pause_state == ABX__PAUSING)
        wait_for_it(e, c, false, 0);
    else
        answer_pause(e, c, false);
}

void abx__rpc_abx_resume(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    int64_t timeout_ms = abx_json_int(q, "timeoutMs", -1);
    if (abx_json_bool(q, "held", false) && !e->hold) {
        answer_resume(e, c, false); /* it was taken over, or went on by itself */
        return;
    }
    if (e->pause_state == ABX__PAUSING) {
        wait_for_it(e, c, true, timeout_ms);
    } else if (e->pause_state == ABX__PAUSED) {
        go_on(e, timeout_ms);
        answer_resume(e, c, true);
    } else {
        /* who only connects never shortens a life */
        uint64_t left = abx__life_left(e);
        if (timeout_ms == 0 && left != ABX_FOREVER)
            (void)abx__envd_set_limit(e, ABX_FOREVER);
        else if (timeout_ms > 0 && left != ABX_FOREVER && (uint64_t)timeout_ms > left)
            (void)abx__envd_set_limit(e, (uint64_t)timeout_ms);
        answer_resume(e, c, false);
    }
}

void abx__rpc_abx_timeout(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    int64_t ms = abx_json_int(q, "timeoutMs", -1);
    char text[96];
    if (ms < 0) {
        abx_e2b_refuse(c, 400, "timeoutMs is required");
        return;
    }
    if (abx__envd_set_limit(e, ms == 0 ? ABX_FOREVER : (uint64_t)ms) < 0) {
        abx_e2b_refuse(c, 500, "cannot set the time limit: %s", abx__errno_text(errno, text));
        return;
    }
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    int64_t expires = abx__life_note(e);
    if (expires != INT64_MAX)
        abx_mut_int(d, root, "expiresAtMs", expires);
    abx_e2b_answer(c, root);
}

/* Signals by which one would wake what is paused, or lose a stop. */
static bool wakes(yyjson_val *request)
{
    int64_t sig = abx_json_int(request, "abxSignal", 0);
    return sig == SIGCONT || sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU;
}

bool abx__pause_allows(abx_envd *e, abx_e2b_call *c, yyjson_val *request)
{
    if (e->pause_state == ABX__RUNNING)
        return true;
    switch (abx_e2b_call_method(c)) {
    case ABX_E2B_M_EXECUTE:
    case ABX_E2B_M_CONTEXT_NEW:
    case ABX_E2B_M_CONTEXT_RESTART:
    case ABX_E2B_M_COMPOSE:
    case ABX_E2B_M_CONTEXT_REMOVE:
    case ABX_E2B_M_ABX_INTERRUPT:
    case ABX_E2B_M_ABX_TIMEOUT: abx_e2b_refuse(c, 409, ABX__IS_PAUSED, e->id); return false;
    case ABX_E2B_M_SEND_SIGNAL:
        if (!wakes(request))
            return true;
        break;
    case ABX_E2B_M_START:
    case ABX_E2B_M_STAT:
    case ABX_E2B_M_LIST_DIR:
    case ABX_E2B_M_MAKE_DIR:
    case ABX_E2B_M_MOVE:
    case ABX_E2B_M_REMOVE:
    case ABX_E2B_M_WATCH_DIR:
    case ABX_E2B_M_CREATE_WATCHER: break;
    default: return true;
    }
    abx_e2b_fail(c, ABX_E2B_CODE_FAILED_PRECONDITION, ABX__IS_PAUSED, e->id);
    return false;
}
