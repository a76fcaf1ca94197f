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
    FIRST_MS = 100,
    WATCH_MS = 250,
    NEAR_MS = 50,
    LEAST_MS = 25,
    WALK_EVERY_MS = 10000,
    WALK_STEP = 1000, /* each NEAR_MS: 20,000 a second */
    WALK_AT_ONCE = 20000,
    BYTES_A_MS = 4 << 20,    /* no disk is filled faster */
    SOME_BYTES = 64 << 10,   /* written between two looks */
    MAPPED_BYTES = 16 << 20, /* the same, where nothing was given to write(2) */
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
    for (abx_link *n = e->procs.next; n != &e->procs; n = n->next) {
        abx__proc *p = ABX_OF(n, abx__proc, node);
        if (!p->reaped && (p->mark == mark.rlim_max || p->pid == pid))
            p->limit = limit;
    }
}

static void kill_one(abx_envd *e, pid_t pid, const char *limit)
{
    e->guard.baseline = false;
    abx__walk_free(ABX_TAKE(e->guard.walk));
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

/* Whom to kill: nobody; who writes contents; or who writes anything at all. A process that only removes files writes to
 * the disk as well: it must be left alone, when that is what the full disk needs. */
typedef enum stop { STOP_NONE, STOP_CONTENTS, STOP_ALL } stop;

static const abx__used *former(const abx__guard *g, pid_t pid)
{
    static const abx__used none;
    for (size_t i = 0; i < g->writers.count; i++)
        if (g->writers.list[i].pid == pid)
            return &g->writers.list[i];
    return g->has_writers ? &none : NULL; /* new: all that it wrote counts */
}

static uint64_t more(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

/* How much each process wrote since the last look; those whom `whom` means are killed. Returns how much of it was
 * contents. */
static uint64_t look_at_writers(abx_envd *e, stop whom)
{
    abx__guard *g = &e->guard;
    abx__usage now;
    uint64_t sum = 0, most = 0;
    pid_t worst = 0;
    abx__usage_read(&now, ABX__USE_WRITTEN, false);
    for (size_t i = 0; i < now.count; i++) {
        const abx__used *p = &now.list[i], *before = former(g, p->pid);
        if (!before)
            before = p;
        uint64_t wrote = more(p->written, before->written);
        bool contents = wrote >= MAPPED_BYTES ||
                        (wrote >= SOME_BYTES && more(p->passed, before->passed) >= SOME_BYTES);
        sum += contents ? wrote : 0;
        if (wrote > most) {
            most = wrote;
            worst = p->pid;
        }
        if (whom != STOP_NONE && contents)
            kill_one(e, p->pid, "disk");
    }
    if (whom == STOP_ALL && most > 0)
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

typedef struct room {
    uint64_t total, bytes, files; /* of the file system; the last two are free for us */
    bool full;                    /* less is left than the host shall keep */
} room;

static room look_for_room(const abx__guard *g)
{
    struct statvfs st;
    room r = {0, UINT64_MAX, UINT64_MAX, false};
    if (statvfs("/", &st) < 0)
        return r;
    r.total = (uint64_t)st.f_blocks * st.f_frsize;
    r.bytes = (uint64_t)st.f_bavail * st.f_frsize;
    r.files = st.f_favail;
    /* a small disk, or one that counts no files, is not kept so */
    r.full = (r.bytes < g->reserve_bytes && r.total > 2 * g->reserve_bytes) ||
             (st.f_files > 10 * LEAST_FREE_FILES && r.files < LEAST_FREE_FILES);
    return r;
}

static void walk_begin(abx__guard *g, uint64_t free)
{
    if (g->walk || g->layer_fd < 0)
        return;
    g->walk = abx__walk_new(g->layer_fd);
    g->walk_free = free;
    g->walk_wrote = 0;
    g->put = 0;
}

static void walk_on(abx__guard *g, size_t n)
{
    abx__walked sum;
    abx__usage u;
    if (!g->walk)
        return;
    if (!abx__walk_step(g->walk, n, &sum)) {
        sum = abx__walk_so_far(g->walk);
        if (g->over || sum.bytes <= g->disk_limit)
            return; /* else it is enough to know: who makes files fast might never let it end */
    }
    abx__walk_free(ABX_TAKE(g->walk));
    abx__usage_read(&u, ABX__USE_DELETED, false);
    uint64_t bytes = sum.bytes + u.deleted;
    /* of two walks while it is over, with nobody killed between them */
    g->grows = g->baseline && bytes > g->known_bytes;
    g->baseline = g->over;
    g->known = true;
    g->known_bytes = bytes;
    g->passed = g->passed && bytes > g->disk_limit;
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
    stop whom = g->grows ? STOP_ALL : g->over ? STOP_CONTENTS : STOP_NONE;
    g->grows = false;
    uint64_t wrote = look_at_writers(e, whom);
    g->wrote += wrote;
    g->walk_wrote += wrote;
    uint64_t bound = g->known_bytes + lost(g, free);
    if (!g->known || bound > g->disk_limit || abx_now_mono_ms() - g->walked_ms > WALK_EVERY_MS)
        walk_begin(g, free);
    walk_on(g, WALK_STEP);
    bound = g->known_bytes + lost(g, free);
    uint64_t sure = g->known_bytes + least(lost(g, free), g->wrote);
    bool over = g->known && sure > g->disk_limit;
    /* Who writes at this moment passed the limit; but not if it was passed before and only what others on the same file
     * system took and gave back hid it: then who writes may be the one that removes files. */
    g->grows = g->grows || (over && !g->passed);
    g->passed = g->passed || over;
    g->over = over;
    if (g->walk && !g->grows)
        return NEAR_MS;
    if (over)
        return LEAST_MS;
    return look_after(bound < g->disk_limit ? g->disk_limit - bound : 0, WATCH_MS);
}

static uint64_t watch_disk(abx_envd *e)
{
    abx__guard *g = &e->guard;
    uint64_t next = MOST_MS;
    if (g->disk_is_memory)
        return MOST_MS; /* the kernel holds it */
    room r = look_for_room(g);
    if (g->disk_limit)
        next = watch_limit(e, r.bytes);
    if (!r.full) {
        if (!g->disk_limit)
            forget_writers(g);
        return least(next, look_after(r.bytes - least(r.bytes, g->reserve_bytes), MOST_MS));
    }
    (void)look_at_writers(e, g->has_writers ? STOP_CONTENTS : STOP_NONE);
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

int abx__guard_may_write(abx_envd *e, uint64_t wrote)
{
    abx__guard *g = &e->guard;
    if (!e->is_init || g->disk_is_memory)
        return 0;
    room r = look_for_room(g);
    g->put += wrote;
    if (r.full)
        return -1;
    if (!g->disk_limit)
        return 0;
    /* Others on the same file system may have given back more than was written here. */
    uint64_t more = lost(g, r.bytes) > g->put ? lost(g, r.bytes) : g->put;
    if (g->known && g->known_bytes + more <= g->disk_limit)
        return 0;
    walk_begin(g, r.bytes);
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
