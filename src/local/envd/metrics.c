/* /metrics, /abx/metrics, /envs, /abx/info. */
#include "local/envd/inner.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "local/envd/usage.h"

/* A share of the processors is measured over at least so long, and a former sample is good for so long. */
enum {
    SAMPLE_MS = 250,
    FRESH_MS = 200,
    OLD_MS = 3000,
    WALK_MS = 1500,
    TURN_MS = 2,
    WALK_STEP = 2000
};

static uint64_t mem_field(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    unsigned long long kb = 0;
    if (at && sscanf(at + strlen(name), " %llu", &kb) == 1)
        return kb * 1024;
    return 0;
}

static uint64_t host_memory(void)
{
    char text[4096];
    FILE *f = fopen("/proc/meminfo", "re");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    return mem_field(text, "MemTotal:");
}

/* Processors that it may use: a limit of a half counts as one. */
static int64_t cpu_count(const abx_envd *e)
{
    int64_t n = sysconf(_SC_NPROCESSORS_ONLN), limit = (e->guard.cpu_millis + 999) / 1000;
    return limit > 0 && limit < n ? limit : n;
}

static uint64_t memory_total(const abx_envd *e)
{
    uint64_t host = host_memory(), limit = e->guard.memory_size;
    return limit > 0 && limit < host ? limit : host;
}

static double share(uint64_t cpu_us, uint64_t wall_us, int64_t cpus)
{
    double percent = wall_us > 0 ? 100.0 * (double)cpu_us / (double)wall_us / (double)cpus : 0.0;
    if (percent > 100.0)
        percent = 100.0;
    return (double)(int64_t)(percent * 100.0 + 0.5) / 100.0;
}

static uint64_t now_us(void)
{
    return uv_hrtime() / 1000;
}

/* --- /metrics, as E2B has it -------------------------------------------------------------------------- */

void abx__rpc_metrics(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    (void)q;
    struct statvfs disk = {0};
    abx__usage u;
    uint64_t total = memory_total(e), now = now_us();
    uint64_t since = e->cpu_at_us ? e->cpu_at_us : e->opened_us;
    abx__usage_read(&u, ABX__USE_MEMORY | ABX__USE_EXACT | ABX__USE_CPU, e->guard.disk_is_memory);
    (void)statvfs("/", &disk);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_int(d, root, "ts", abx_now_wall_ms() / 1000);
    abx_mut_int(d, root, "cpu_count", cpu_count(e));
    (void)yyjson_mut_obj_add_real(
        d, root, "cpu_used_pct",
        share(u.cpu_us > e->cpu_us ? u.cpu_us - e->cpu_us : 0, now - since, cpu_count(e)));
    abx_mut_int(d, root, "mem_total_mib", (int64_t)(total >> 20));
    abx_mut_int(d, root, "mem_used_mib", (int64_t)(u.memory >> 20));
    abx_mut_int(d, root, "mem_total", (int64_t)total);
    abx_mut_int(d, root, "mem_used", (int64_t)u.memory);
    abx_mut_int(d, root, "mem_cache", 0);
    abx_mut_int(d, root, "disk_used", (int64_t)((disk.f_blocks - disk.f_bfree) * disk.f_frsize));
    abx_mut_int(d, root, "disk_total", (int64_t)(disk.f_blocks * disk.f_frsize));
    e->cpu_us = u.cpu_us;
    e->cpu_at_us = now;
    abx__usage_clear(&u);
    abx_e2b_answer(c, root);
}

/* --- /abx/metrics ------------------------------------------------------------------------------------- */

typedef struct asking {
    abx_envd *envd;
    abx_e2b_call *call; /* NULL: it is gone */
    uv_timer_t timer;
    uint64_t cpu_us, at_us; /* the first sample */
    uint64_t begin_ms;
    abx__walk *walk;
    abx__walked files;
    bool has_files;
} asking;

static void asking_gone(uv_handle_t *handle)
{
    asking *a = handle->data;
    abx_envd *e = a->envd;
    abx__walk_free(a->walk);
    free(a);
    abx__envd_released(e);
}

static void on_call_closed(abx_e2b_call *call, bool expired, void *data)
{
    (void)call;
    (void)expired;
    asking *a = data;
    a->call = NULL;
    uv_close((uv_handle_t *)&a->timer, asking_gone);
}

static const abx_e2b_call_handlers ASKING = {.on_close = on_call_closed};

static void put_disk(const asking *a, const abx__usage *u, yyjson_mut_doc *d, yyjson_mut_val *root)
{
    const abx__guard *g = &a->envd->guard;
    struct statvfs st;
    if (statvfs("/", &st) < 0)
        return;
    uint64_t free = (uint64_t)st.f_bavail * st.f_frsize;
    if (g->disk_is_memory) {
        abx_mut_int(d, root, "diskUsed", (int64_t)((st.f_blocks - st.f_bfree) * st.f_frsize));
        abx_mut_int(d, root, "diskTotal", (int64_t)(st.f_blocks * st.f_frsize));
        return;
    }
    uint64_t used = a->files.bytes + u->deleted;
    if (a->has_files)
        abx_mut_int(d, root, "diskUsed", (int64_t)used);
    if (g->disk_size)
        abx_mut_int(d, root, "diskTotal", (int64_t)g->disk_size);
    else if (a->has_files)
        abx_mut_int(d, root, "diskTotal", (int64_t)(used + free));
}

static void answer(asking *a)
{
    abx_envd *e = a->envd;
    abx__usage u;
    uint64_t now = now_us();
    char time[ABX_RFC3339_SIZE];
    abx__usage_read(&u, ABX__USE_MEMORY | ABX__USE_EXACT | ABX__USE_CPU | ABX__USE_DELETED,
                    e->guard.disk_is_memory);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_format_rfc3339(abx_now_wall_ms(), time);
    abx_mut_str(d, root, "timestamp", time);
    abx_mut_int(d, root, "cpuCount", cpu_count(e));
    (void)yyjson_mut_obj_add_real(
        d, root, "cpuUsedPct",
        share(u.cpu_us > a->cpu_us ? u.cpu_us - a->cpu_us : 0, now - a->at_us, cpu_count(e)));
    abx_mut_int(d, root, "memTotal", (int64_t)memory_total(e));
    abx_mut_int(d, root, "memUsed", (int64_t)u.memory);
    put_disk(a, &u, d, root);
    abx_mut_int(d, root, "processes", (int64_t)u.count);
    e->cpu_us = u.cpu_us;
    e->cpu_at_us = now;
    abx__usage_clear(&u);
    abx_e2b_call *call = ABX_TAKE(a->call);
    abx_e2b_answer(call, root);
    uv_close((uv_handle_t *)&a->timer, asking_gone);
}

static void on_turn(uv_timer_t *timer)
{
    asking *a = timer->data;
    uint64_t now = now_us(), took_ms = abx_now_mono_ms() - a->begin_ms;
    if (a->walk && abx__walk_step(a->walk, WALK_STEP, &a->files)) {
        a->has_files = true;
        abx__walk_free(ABX_TAKE(a->walk));
    }
    uint64_t since = (now - a->at_us) / 1000;
    if (a->walk && took_ms < WALK_MS)
        ABX_CHECK(uv_timer_start(timer, on_turn, TURN_MS, 0) == 0);
    else if (since < FRESH_MS)
        ABX_CHECK(uv_timer_start(timer, on_turn, SAMPLE_MS - since, 0) == 0);
    else
        answer(a);
}

void abx__rpc_abx_metrics(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    (void)q;
    asking *a = ABX_NEW(asking);
    a->envd = e;
    a->call = c;
    a->begin_ms = abx_now_mono_ms();
    a->cpu_us = e->cpu_us;
    a->at_us = e->cpu_at_us;
    uint64_t now = now_us();
    if (now - a->at_us > OLD_MS * 1000ULL) {
        abx__usage u;
        abx__usage_read(&u, ABX__USE_CPU, false);
        a->cpu_us = u.cpu_us;
        a->at_us = now;
        abx__usage_clear(&u);
    }
    if (e->guard.layer_fd >= 0 && !e->guard.disk_is_memory)
        a->walk = abx__walk_new(e->guard.layer_fd);
    ABX_CHECK(uv_timer_init(e->loop, &a->timer) == 0);
    a->timer.data = a;
    e->handles++;
    abx_e2b_call_handle(c, &ASKING, a);
    on_turn(&a->timer);
}

void abx__rpc_envs(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    (void)q;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    for (size_t i = 0; e->env && e->env[i]; i++) {
        const char *eq = strchr(e->env[i], '=');
        if (!eq)
            continue;
        ABX_AUTO_FREE char *key = abx_strndup(e->env[i], (size_t)(eq - e->env[i]));
        abx_mut_str(d, root, key, eq + 1);
    }
    abx_e2b_answer(c, root);
}

void abx__rpc_abx_info(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    (void)q;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    int64_t live = 0;
    for (abx_link *n = e->procs.next; n != &e->procs; n = n->next)
        live += !ABX_OF(n, abx__proc, node)->ended;
    abx_mut_str(d, root, "id", e->id);
    abx_mut_str(d, root, "version", ABX_ENVD_VERSION);
    abx_mut_int(d, root, "pid", getpid());
    uint64_t left = abx__life_left(e);
    if (left != ABX_FOREVER)
        abx_mut_int(d, root, "timeoutLeftMs", (int64_t)left);
    abx_mut_str(d, root, "state", e->pause_state == ABX__RUNNING ? "running" : "paused");
    abx_mut_int(d, root, "processes", live);
    abx_e2b_answer(c, root);
}
