/* /metrics, /envs, /abx/info. */
#include "local/envd/inner.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

static uint64_t mem_field(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    unsigned long long kb = 0;
    if (at && sscanf(at + strlen(name), " %llu", &kb) == 1)
        return kb * 1024;
    return 0;
}

static size_t read_proc(const char *path, char *out, size_t room)
{
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(out, 1, room - 1, f) : 0;
    if (f)
        fclose(f);
    out[n] = 0;
    return n;
}

/* Busy share of all processors since the last time, in percent. */
static double cpu_share(abx_envd *e)
{
    char text[512];
    unsigned long long v[8] = {0};
    (void)read_proc("/proc/stat", text, sizeof(text));
    (void)sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3],
                 &v[4], &v[5], &v[6], &v[7]);
    uint64_t total = 0;
    for (size_t i = 0; i < ABX_COUNT(v); i++)
        total += v[i];
    uint64_t busy = total - v[3] - v[4];
    double share = total > e->cpu_total
                       ? 100.0 * (double)(busy - e->cpu_busy) / (double)(total - e->cpu_total)
                       : 0.0;
    e->cpu_busy = busy;
    e->cpu_total = total;
    return (double)(int64_t)(share * 100.0 + 0.5) / 100.0;
}

void abx__rpc_metrics(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    (void)q;
    char text[4096];
    struct statvfs disk = {0};
    (void)read_proc("/proc/meminfo", text, sizeof(text));
    uint64_t total = mem_field(text, "MemTotal:");
    uint64_t used = total - mem_field(text, "MemAvailable:");
    (void)statvfs("/", &disk);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_int(d, root, "ts", abx_now_wall_ms() / 1000);
    abx_mut_int(d, root, "cpu_count", sysconf(_SC_NPROCESSORS_ONLN));
    (void)yyjson_mut_obj_add_real(d, root, "cpu_used_pct", cpu_share(e));
    abx_mut_int(d, root, "mem_total_mib", (int64_t)(total >> 20));
    abx_mut_int(d, root, "mem_used_mib", (int64_t)(used >> 20));
    abx_mut_int(d, root, "mem_total", (int64_t)total);
    abx_mut_int(d, root, "mem_used", (int64_t)used);
    abx_mut_int(d, root, "mem_cache", (int64_t)mem_field(text, "\nCached:"));
    abx_mut_int(d, root, "disk_used", (int64_t)((disk.f_blocks - disk.f_bfree) * disk.f_frsize));
    abx_mut_int(d, root, "disk_total", (int64_t)(disk.f_blocks * disk.f_frsize));
    abx_e2b_answer(c, root);
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
    for (abx__node *n = e->procs.next; n != &e->procs; n = n->next)
        live += !ABX__IN(n, abx__proc, node)->ended;
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
