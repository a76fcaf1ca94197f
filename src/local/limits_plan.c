#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "base/text.h"
#include "local/backend.h"
#include "local/limits.h"

#define LEAST_MEMORY     (16ULL << 20) /* pid 1, the namespaces and a shell need about 4 */
#define LEAST_DISK       (1ULL << 20)
#define LEAST_CPU_MILLIS 10u
#define MOST_CPU_MILLIS  (1024u * 1000u)
#define LEAST_PROCESSES  4u
#define MOST_PROCESSES   (1u << 22)
#define LEAST_FILES      16u

static const char *const names[ABX_HOLD_COUNT] = {
    [ABX_HOLD_NONE] = "nothing",      [ABX_HOLD_RLIMIT] = "rlimit",
    [ABX_HOLD_CGROUP1] = "cgroup v1", [ABX_HOLD_CGROUP2] = "cgroup v2",
    [ABX_HOLD_TMPFS] = "tmpfs",       [ABX_HOLD_WATCH] = "watch",
    [ABX_HOLD_AFFINITY] = "affinity",
};

static int too_small(abx_error **err, const char *what, const char *least)
{
    return abx_fail(err, ABX_ERR_USAGE, "a sandbox cannot do with so %s: at least %s", what, least);
}

static int check(const abx_local_sizes *a, abx_error **err)
{
    if (a->memory_bytes && a->memory_bytes < LEAST_MEMORY)
        return too_small(err, "little memory", "16m");
    if (a->disk_bytes && a->disk_bytes < LEAST_DISK)
        return too_small(err, "little disk", "1m");
    if (a->cpu_millis && (a->cpu_millis < LEAST_CPU_MILLIS || a->cpu_millis > MOST_CPU_MILLIS))
        return abx_fail(err, ABX_ERR_USAGE, "cpus must be between 0.01 and 1024");
    if (a->processes && a->processes < LEAST_PROCESSES)
        return too_small(err, "few processes", "4");
    if (a->processes > MOST_PROCESSES)
        return abx_fail(err, ABX_ERR_USAGE, "no Linux has so many processes");
    if (a->open_files && a->open_files < LEAST_FILES)
        return too_small(err, "few open files", "16");
    if (a->disk_in_memory && !a->disk_bytes) {
        abx_fail(err, ABX_ERR_USAGE, "a disk in memory needs a size");
        return abx_hint(err, "add --disk SIZE");
    }
    return 0;
}

/* A limit that the caller itself is under cannot be raised. */
static int check_caller(__rlimit_resource_t what, uint32_t asked, const char *name,
                        const char *letter, abx_error **err)
{
    struct rlimit own;
    if (getrlimit(what, &own) < 0 || asked <= own.rlim_max)
        return 0;
    abx_fail(err, ABX_ERR_QUOTA, "%u %s are asked for, and this caller may have %llu itself", asked,
             name, (unsigned long long)own.rlim_max);
    return abx_hint(err, "raise its hard limit ('ulimit -H%s'), or ask for less", letter);
}

int abx_limits_choose(const abx_local_sizes *asked, abx_limits *out, abx_error **err)
{
    memset(out, 0, sizeof(*out));
    out->asked = *asked;
    if (check(asked, err) < 0 ||
        check_caller(RLIMIT_NOFILE, asked->open_files, "open files", "n", err) < 0 ||
        check_caller(RLIMIT_NPROC, asked->processes, "processes", "u", err) < 0)
        return -1;
    out->chosen = asked->memory_bytes || asked->disk_bytes || asked->cpu_millis ||
                  asked->processes || asked->open_files;
    if (!asked->processes)
        out->asked.processes = ABX_MAX_PROCESSES;
    if (!asked->open_files)
        out->asked.open_files = ABX_HARD_FILES;
    out->processes = out->open_files = ABX_HOLD_RLIMIT;
    out->memory = asked->memory_bytes ? ABX_HOLD_WATCH : ABX_HOLD_NONE;
    out->cpus = asked->cpu_millis ? ABX_HOLD_AFFINITY : ABX_HOLD_NONE;
    out->disk = asked->disk_in_memory ? ABX_HOLD_TMPFS
                : asked->disk_bytes   ? ABX_HOLD_WATCH
                                      : ABX_HOLD_NONE;
    out->shm_bytes = ABX_SHM_BYTES;
    if (asked->memory_bytes && asked->memory_bytes / 2 < out->shm_bytes)
        out->shm_bytes = asked->memory_bytes / 2;
    return 0;
}

/* The limit of processes counts each id on its own: with a range of ids a group must hold the sum. */
bool abx_limits_want_cgroup(const abx_limits *l, bool single_id)
{
    return l->chosen && (l->asked.memory_bytes || l->asked.cpu_millis ||
                         (!single_id && l->asked.processes != ABX_MAX_PROCESSES));
}

static void hold_by(abx_hold *hold, int version)
{
    if (version)
        *hold = version == 2 ? ABX_HOLD_CGROUP2 : ABX_HOLD_CGROUP1;
}

void abx_limits_use_cgroups(abx_limits *l, const abx_cgroups *g)
{
    hold_by(&l->memory, g->memory);
    hold_by(&l->cpus, g->cpu);
    hold_by(&l->processes, g->processes);
}

/* --- as text ----------------------------------------------------------------------------------------- */

typedef struct row {
    const char *name;
    size_t hold; /* offset */
} row;

static const row rows[] = {
    {"memory", offsetof(abx_limits, memory)},
    {"cpus", offsetof(abx_limits, cpus)},
    {"disk", offsetof(abx_limits, disk)},
    {"processes", offsetof(abx_limits, processes)},
    {"openFiles", offsetof(abx_limits, open_files)},
};

static abx_hold *hold_of(const abx_limits *l, const row *r)
{
    return (abx_hold *)(void *)((char *)(uintptr_t)l + r->hold);
}

static void put_sizes(yyjson_mut_doc *d, yyjson_mut_val *o, const abx_limits *l)
{
    const abx_local_sizes *a = &l->asked;
    if (a->memory_bytes)
        abx_mut_int(d, o, "memoryBytes", (int64_t)a->memory_bytes);
    if (a->cpu_millis && a->cpu_millis % 1000 == 0)
        abx_mut_int(d, o, "cpus", a->cpu_millis / 1000);
    else if (a->cpu_millis)
        (void)yyjson_mut_obj_add_real(d, o, "cpus", a->cpu_millis / 1000.0);
    if (a->disk_bytes)
        abx_mut_int(d, o, "diskBytes", (int64_t)a->disk_bytes);
}

void abx_limits_write(yyjson_mut_doc *d, yyjson_mut_val *o, const abx_limits *l)
{
    if (!l->chosen)
        return;
    yyjson_mut_val *m = abx_mut_obj(d, o, "limits");
    abx_mut_int(d, m, "memory", (int64_t)l->asked.memory_bytes);
    abx_mut_int(d, m, "disk", (int64_t)l->asked.disk_bytes);
    abx_mut_int(d, m, "cpuMillis", l->asked.cpu_millis);
    abx_mut_int(d, m, "processes", l->asked.processes);
    abx_mut_int(d, m, "openFiles", l->asked.open_files);
    abx_mut_int(d, m, "shm", (int64_t)l->shm_bytes);
    yyjson_mut_val *by = abx_mut_obj(d, m, "by");
    for (size_t i = 0; i < ABX_COUNT(rows); i++)
        abx_mut_int(d, by, rows[i].name, *hold_of(l, &rows[i]));
}

void abx_limits_read(yyjson_val *v, abx_limits *l)
{
    static const abx_local_sizes none;
    (void)abx_limits_choose(&none, l, NULL);
    if (!v)
        return;
    l->chosen = true;
    l->asked.memory_bytes = (uint64_t)abx_json_int(v, "memory", 0);
    l->asked.disk_bytes = (uint64_t)abx_json_int(v, "disk", 0);
    l->asked.cpu_millis = (uint32_t)abx_json_int(v, "cpuMillis", 0);
    l->asked.processes = (uint32_t)abx_json_int(v, "processes", ABX_MAX_PROCESSES);
    l->asked.open_files = (uint32_t)abx_json_int(v, "openFiles", ABX_HARD_FILES);
    l->shm_bytes = (uint64_t)abx_json_int(v, "shm", (int64_t)ABX_SHM_BYTES);
    yyjson_val *by = abx_json_get(v, "by");
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        int64_t hold = abx_json_int(by, rows[i].name, 0);
        *hold_of(l, &rows[i]) = hold > 0 && hold < ABX_HOLD_COUNT ? (abx_hold)hold : ABX_HOLD_NONE;
    }
}

void abx_limits_show(yyjson_mut_doc *d, yyjson_mut_val *o, const abx_limits *l)
{
    put_sizes(d, o, l);
    abx_mut_int(d, o, "shmBytes", (int64_t)l->shm_bytes);
    yyjson_mut_val *by = abx_mut_obj(d, o, "enforcedBy");
    yyjson_mut_val *watched = abx_mut_arr(d, o, "watched");
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        abx_hold hold = *hold_of(l, &rows[i]);
        if (hold == ABX_HOLD_NONE)
            continue;
        abx_mut_str(d, by, rows[i].name, names[hold]);
        if (hold >= ABX_HOLD_WATCH)
            yyjson_mut_arr_add_str(d, watched, rows[i].name);
    }
}
