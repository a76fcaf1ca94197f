/* What the kernel does not hold for this caller, pid 1 watches: the limits of memory and of the disk, and that the
 * host's disk keeps some space. It looks only while something runs, the oftener the nearer a limit is, and kills who
 * passes it.
 *
 * The disk: a walk over the private layer counts exactly, but takes its time. Between two walks what the file system
 * lost is an upper bound, and what our processes wrote of it is ours for sure. */
#include "local/envd/guard.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MOST_MS = 10000,
    FIRST_MS = 1000,
    WATCH_MS = 250,
    NEAR_MS = 50,
    LEAST_MS = 25,
    WALK_EVERY_MS = 10000,
    WALK_STEP = 1000, /* each NEAR_MS: 20,000 a second */
    WALK_AT_ONCE = 20000,
    BYTES_A_MS = 4 << 20, /* no disk is filled faster */
    WRITER_BYTES = 1 << 20,
    LEAST_FREE_FILES = 1000
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When to look again with so many bytes left. */
static uint64_t look_after(uint64_t left, uint64_t most)
{
    uint64_t ms = left / BYTES_A_MS;
    return ms < LEAST_MS ? LEAST_MS : least(ms, most);
}

/* --- who is killed ----------------------------------------------------------------------------------- */

/* The command that the process belongs to, by the mark that it bears. */
static void blame(abx_envd *e, pid_t pid, const char *limit)
{
    struct rlimit64 mark = {0};
    if (prlimit64(pid, RLIMIT_LOCKS, NULL, &mark) < 0)
        mark.rlim_max = 0;
    for (abx__node *n = e->procs.next; n != &e->procs; n = n->next) {
        abx__proc *p = ABX__IN(n, abx__proc, node);
        if (!p->reaped && (p->mark == mark.rlim_max || p->pid == pid))
            p->limit = limit;
    }
}

static void kill_one(abx_envd *e, pid_t pid, const char *limit)
{
    blame(e, pid, limit);
    (void)kill(pid, SIGKILL);
}

static uint64_t size_of(const abx__used *p)
{
    return p->anon + p->shared + p->held;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = size_of(a), y = size_of(b);
    return x < y ? 1 : x > y ? -1 : 0;
}

/* --- memory ------------------------------------------------------------------------------------------ */

/* The largest, until the rest fits. What is twice over its limit is out of hand: all of it ends. */
static void kill_for_memory(abx_envd *e, abx__usage *u)
{
    uint64_t limit = e->guard.memory_limit;
    bool all = u->memory / 2 > limit;
    uint64_t over = u->memory - limit, freed = 0;
    qsort(u->list, u->count, sizeof(*u->list), by_size);
    for (size_t i = 0; i < u->count && (all || freed < over); i++) {
        freed += size_of(&u->list[i]);
        kill_one(e, u->list[i].pid, "memory");
    }
    if (all) /* those that were born meanwhile */
        (void)kill(-1, SIGKILL);
}

static uint64_t watch_memory(abx_envd *e)
{
    abx__guard *g = &e->guard;
    abx__usage u;
    abx__usage_read(&u, ABX__USE_MEMORY, g->disk_is_memory);
    if (u.memory > g->memory_limit) {
        abx__usage_clear(&u);
        abx__usage_read(&u, ABX__USE_MEMORY | ABX__USE_EXACT, g->disk_is_memory);
        if (u.memory > g->memory_limit)
            kill_for_memory(e, &u);
    }
    uint64_t next = u.memory > g->memory_limit / 2 ? NEAR_MS : WATCH_MS;
    abx__usage_clear(&u);
    return next;
}

/* --- writers ----------------------------------------------------------------------------------------- */

static uint64_t former(const abx__guard *g, pid_t pid)
{
    for (size_t i = 0; i < g->writers.count; i++)
        if (g->writers.list[i].pid == pid)
            return g->writers.list[i].written;
    return UINT64_MAX;
}

/* How much each process wrote since the last look; over: those that wrote most are killed. Returns the sum. */
static uint64_t look_at_writers(abx_envd *e, bool over)
{
    abx__guard *g = &e->guard;
    abx__usage now;
    uint64_t sum = 0, most = 0;
    pid_t worst = 0;
    abx__usage_read(&now, ABX__USE_WRITTEN, false);
    for (size_t i = 0; i < now.count; i++) {
        const abx__used *p = &now.list[i];
        uint64_t before = former(g, p->pid);
        if (before == UINT64_MAX) /* new: all of it */
            before = g->has_writers ? 0 : p->written;
        uint64_t wrote = p->written > before ? p->written - before : 0;
        sum += wrote;
        if (wrote > most) {
            most = wrote;
            worst = p->pid;
        }
        if (over && wrote >= WRITER_BYTES)
            kill_one(e, p->pid, "disk");
    }
    if (over && most > 0 && most < WRITER_BYTES)
        kill_one(e, worst, "disk");
    abx__usage_clear(&g->writers);
    g->writers = now;
    g->has_writers = true;
    return sum;
}

static void forget_writers(abx__guard *g)
{
    abx__usage_clear(&g->writers);
    g->has_writers = false;
}

/* --- the disk ---------------------------------------------------------------------------------------- */

/* Free bytes of the file system for us, 0 also where it has no room for more files. */
static uint64_t free_bytes(uint64_t *total)
{
    struct statvfs st;
    if (statvfs("/", &st) < 0)
        return UINT64_MAX;
    *total = (uint64_t)st.f_blocks * st.f_frsize;
    if (st.f_files > 0 && st.f_favail < LEAST_FREE_FILES && st.f_files > 10 * LEAST_FREE_FILES)
        return 0;
    return (uint64_t)st.f_bavail * st.f_frsize;
}

static void walk_begin(abx__guard *g, uint64_t free)
{
    if (g->walk || g->layer_fd < 0)
        return;
    g->walk = abx__walk_new(g->layer_fd);
    g->walk_free = free;
    g->walk_wrote = 0;
}

static void walk_on(abx__guard *g, size_t n)
{
    abx__walked sum;
    abx__usage u;
    if (!g->walk || !abx__walk_step(g->walk, n, &sum))
        return;
    abx__walk_free(ABX_TAKE(g->walk));
    abx__usage_read(&u, ABX__USE_DELETED, false);
    g->known = true;
    g->known_bytes = sum.bytes + u.deleted;
    g->known_free = g->walk_free;
    g->wrote = g->walk_wrote;
    g->walked_ms = abx_now_mono_ms();
    abx__usage_clear(&u);
}

static uint64_t lost(const abx__guard *g, uint64_t free)
{
    return g->known_free > free ? g->known_free - free : 0;
}

static uint64_t watch_limit(abx_envd *e, uint64_t free)
{
    abx__guard *g = &e->guard;
    uint64_t wrote = look_at_writers(e, g->over);
    g->wrote += wrote;
    g->walk_wrote += wrote;
    uint64_t bound = g->known_bytes + lost(g, free);
    if (!g->known || bound > g->disk_limit || abx_now_mono_ms() - g->walked_ms > WALK_EVERY_MS)
        walk_begin(g, free);
    walk_on(g, WALK_STEP);
    bound = g->known_bytes + lost(g, free);
    uint64_t sure = g->known_bytes + least(lost(g, free), g->wrote);
    g->over = g->known && sure > g->disk_limit;
    if (g->over)
        return LEAST_MS;
    if (g->walk)
        return NEAR_MS;
    return look_after(bound < g->disk_limit ? g->disk_limit - bound : 0, WATCH_MS);
}

static uint64_t watch_disk(abx_envd *e)
{
    abx__guard *g = &e->guard;
    uint64_t total = 0, free = free_bytes(&total), next = MOST_MS;
    if (g->disk_is_memory)
        return MOST_MS; /* the kernel holds it */
    bool full = free < g->reserve_bytes && total > 2 * g->reserve_bytes;
    if (g->disk_limit)
        next = watch_limit(e, free);
    if (!full) {
        if (!g->disk_limit)
            forget_writers(g);
        return least(next, look_after(free - least(free, g->reserve_bytes), MOST_MS));
    }
    (void)look_at_writers(e, g->has_writers);
    return LEAST_MS;
}

/* --- when -------------------------------------------------------------------------------------------- */

static bool anything_runs(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

static void on_tick(uv_timer_t *timer)
{
    abx_envd *e = timer->data;
    abx__guard *g = &e->guard;
    uint64_t next = MOST_MS;
    g->active = anything_runs();
    if (!g->active) {
        forget_writers(g);
        abx__walk_free(ABX_TAKE(g->walk));
        return;
    }
    if (g->memory_limit)
        next = watch_memory(e);
    next = least(next, watch_disk(e));
    ABX_CHECK(uv_timer_start(timer, on_tick, next, 0) == 0);
}

void abx__guard_started(abx_envd *e)
{
    abx__guard *g = &e->guard;
    if (g->active || !e->is_init)
        return;
    g->active = true;
    uint64_t first = g->memory_limit || g->disk_limit ? NEAR_MS : FIRST_MS;
    ABX_CHECK(uv_timer_start(&g->timer, on_tick, first, 0) == 0);
}

int abx__guard_may_write(abx_envd *e)
{
    abx__guard *g = &e->guard;
    uint64_t total = 0, free = free_bytes(&total);
    if (!e->is_init || g->disk_is_memory)
        return 0;
    if (free < g->reserve_bytes && total > 2 * g->reserve_bytes)
        return -1;
    if (!g->disk_limit || (g->known && g->known_bytes + lost(g, free) <= g->disk_limit))
        return 0;
    walk_begin(g, free);
    walk_on(g, WALK_AT_ONCE);
    return g->known && g->known_bytes > g->disk_limit ? -1 : 0;
}

void abx__guard_open(abx_envd *e, const abx_envd_config *config)
{
    abx__guard *g = &e->guard;
    g->memory_limit = config->memory_limit;
    g->disk_limit = config->disk_limit;
    g->disk_size = config->disk_size;
    g->memory_size = config->memory_size;
    g->cpu_millis = config->cpu_millis;
    g->reserve_bytes = config->reserve_bytes;
    g->disk_is_memory = config->disk_is_memory;
    g->layer_fd = config->layer_fd > 0 ? config->layer_fd : -1;
    ABX_CHECK(uv_timer_init(e->loop, &g->timer) == 0);
    g->timer.data = e;
    e->handles++;
}

static void timer_gone(uv_handle_t *handle)
{
    abx__envd_released(handle->data);
}

void abx__guard_close(abx_envd *e)
{
    abx__guard *g = &e->guard;
    forget_writers(g);
    abx__walk_free(ABX_TAKE(g->walk));
    abx_close_fd(&g->layer_fd);
    uv_close((uv_handle_t *)&g->timer, timer_gone);
}
