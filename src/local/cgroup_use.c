/* Groups of a living sandbox, and their end. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/id.h"
#include "base/text.h"
#include "local/cgroup_inner.h"

#define NOTE_MAX     65536u
#define SWEEP_AGE_S  60
#define EVENTS_BYTES 512

#ifndef CGROUP_SUPER_MAGIC
#define CGROUP_SUPER_MAGIC 0x27e0eb
#endif
#ifndef CGROUP2_SUPER_MAGIC
#define CGROUP2_SUPER_MAGIC 0x63677270
#endif

int abx_cgroup_freeze(const char *freezer, bool frozen, abx_error **err)
{
    if (abx__cgroup_write(freezer, "cgroup.freeze", frozen ? "1" : "0") == 0)
        return 0;
    if (errno == ENOENT &&
        abx__cgroup_write(freezer, "freezer.state", frozen ? "FROZEN" : "THAWED") == 0)
        return 0;
    return abx_fail_errno(err, ABX_ERR_ISOLATION, errno, "cannot freeze control group '%s'",
                          freezer);
}

int abx_cgroup_is_frozen(const char *freezer)
{
    char text[32];
    int64_t n = abx__cgroup_number(freezer, "cgroup.events", "frozen");
    if (n >= 0)
        return n == 1;
    if (abx__cgroup_read(freezer, "freezer.state", text, sizeof(text)) < 0)
        return -1;
    return strncmp(text, "FROZEN", 6) == 0;
}

int abx_cgroup_ask_freeze(int freeze_fd, bool frozen)
{
    /* version 2 takes numbers, version 1 words */
    const char *number = frozen ? "1" : "0", *word = frozen ? "FROZEN" : "THAWED";
    if (pwrite(freeze_fd, number, 1, 0) == 1)
        return 0;
    return pwrite(freeze_fd, word, 6, 0) == 6 ? 0 : -1;
}

int abx_cgroup_see_frozen(int frozen_fd)
{
    char text[EVENTS_BYTES];
    ssize_t n = pread(frozen_fd, text, sizeof(text) - 1, 0);
    if (n <= 0)
        return -1;
    text[n] = 0;
    return strncmp(text, "FROZEN", 6) == 0 || strstr(text, "frozen 1") != NULL;
}

int64_t abx_cgroup_kills(int events_fd)
{
    char text[EVENTS_BYTES];
    ssize_t n = pread(events_fd, text, sizeof(text) - 1, 0);
    if (n <= 0)
        return -1;
    text[n] = 0;
    const char *at = strstr(text, "oom_kill ");
    if (!at)
        return -1;
    int64_t kills = 0;
    for (at += 9; *at >= '0' && *at <= '9'; at++)
        kills = kills * 10 + (*at - '0');
    return kills;
}

/* --- the note ---------------------------------------------------------------------------------------- */

/* Is it a folder that a note of ours may name: ".../abx/ID", in a file system of control groups? */
static bool is_ours(const char *folder)
{
    struct statfs fs;
    ABX_AUTO_FREE char *parent = abx_path_dir(folder);
    return folder[0] == '/' && abx_is_id(abx_path_base(folder)) &&
           abx_str_eq(abx_path_base(parent), ABX__CGROUP_PARENT) && !strstr(folder, "/../") &&
           statfs(folder, &fs) == 0 &&
           (fs.f_type == CGROUP_SUPER_MAGIC || fs.f_type == CGROUP2_SUPER_MAGIC);
}

/* Calls fn for each group in the note that is there. 1: there is no note. */
static int each_noted(int folder_fd, void (*fn)(void *data, const char *folder), void *data)
{
    ABX_AUTO_BUF note = ABX_BUF(NOTE_MAX);
    if (abx_read_file_at(folder_fd, ABX__CGROUP_NOTE, note.max, &note, NULL) != 0)
        return 1;
    char *save = NULL;
    for (char *line = strtok_r((char *)note.data, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save))
        if (is_ours(line))
            fn(data, line);
    return 0;
}

/* --- numbers ----------------------------------------------------------------------------------------- */

static void use_if_known(int64_t *out, int64_t value)
{
    if (*out < 0 && value >= 0)
        *out = value;
}

/* Memory without what the cache of files holds; shared memory belongs to that cache, but is in use. */
static void read_memory(abx_cgroup_usage *u, const char *folder)
{
    bool second = true;
    int64_t all = abx__cgroup_number(folder, "memory.current", "");
    if (all < 0) {
        second = false;
        all = abx__cgroup_number(folder, "memory.usage_in_bytes", "");
    }
    if (all < 0 || u->memory_bytes >= 0)
        return;
    int64_t cache = abx__cgroup_number(folder, "memory.stat", second ? "file" : "total_cache");
    int64_t shared = abx__cgroup_number(folder, "memory.stat", second ? "shmem" : "total_shmem");
    if (cache < 0)
        cache = 0;
    cache -= shared > 0 && shared < cache ? shared : 0;
    u->cache_bytes = cache < all ? cache : all;
    u->memory_bytes = all - u->cache_bytes;
}

static void read_usage(void *data, const char *folder)
{
    abx_cgroup_usage *u = (abx_cgroup_usage *)data;
    read_memory(u, folder);
    use_if_known(&u->cpu_usec, abx__cgroup_number(folder, "cpu.stat", "usage_usec"));
    int64_t ns = abx__cgroup_number(folder, "cpuacct.usage", "");
    use_if_known(&u->cpu_usec, ns < 0 ? -1 : ns / 1000);
    use_if_known(&u->processes, abx__cgroup_number(folder, "pids.current", ""));
}

int abx_cgroup_usage_read(int folder_fd, abx_cgroup_usage *out)
{
    *out = (abx_cgroup_usage){-1, -1, -1, -1};
    return each_noted(folder_fd, read_usage, out);
}

/* --- the end ----------------------------------------------------------------------------------------- */

/* 0: it is gone; -1: it is still in use. */
static int remove_group(const char *folder)
{
    ABX_AUTO_FREE char *child = abx_path_join(folder, ABX__CGROUP_CHILD);
    if (rmdir(child) < 0 && errno == EBUSY)
        return -1;
    if (rmdir(folder) < 0 && errno != ENOENT)
        return -1;
    ABX_AUTO_FREE char *parent = abx_path_dir(folder);
    (void)rmdir(parent); /* the last one's */
    return 0;
}

static void end_group(void *data, const char *folder)
{
    int *busy = (int *)data;
    ABX_AUTO_FREE char *child = abx_path_join(folder, ABX__CGROUP_CHILD);
    if (remove_group(folder) == 0)
        return;
    /* of version 1 the frozen do not die before they thaw */
    (void)abx__cgroup_write(child, "freezer.state", "THAWED");
    (void)abx__cgroup_write(folder, "cgroup.kill", "1");
    if (remove_group(folder) < 0)
        *busy = 1;
}

int abx_cgroup_remove(int folder_fd)
{
    int busy = 0;
    (void)each_noted(folder_fd, end_group, &busy);
    return busy;
}

/* --- what nobody knows any more ---------------------------------------------------------------------- */

static bool is_old_and_empty(const char *folder)
{
    struct stat st;
    char text[32];
    ABX_AUTO_FREE char *child = abx_path_join(folder, ABX__CGROUP_CHILD);
    return stat(folder, &st) == 0 && time(NULL) - st.st_mtime > SWEEP_AGE_S &&
           abx__cgroup_read(folder, "cgroup.procs", text, sizeof(text)) == 0 &&
           abx__cgroup_read(child, "cgroup.procs", text, sizeof(text)) <= 0;
}

static int sweep_base(const char *base, bool dry)
{
    int n = 0;
    ABX_AUTO_FREE char *parent = abx_path_join(base, ABX__CGROUP_PARENT);
    DIR *d = opendir(parent);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!abx_is_id(e->d_name))
            continue;
        ABX_AUTO_FREE char *folder = abx_path_join(parent, e->d_name);
        if (is_old_and_empty(folder) && (dry || remove_group(folder) == 0))
            n++;
    }
    if (d)
        closedir(d);
    return n;
}

int abx_cgroup_sweep(const abx_cgroup_map *map, bool dry)
{
    int n = 0;
    for (int use = 0; use < ABX_CGROUP_USES; use++) {
        char **bases = abx__cgroup_bases(&map->trees[use]);
        for (char **b = bases; *b; b++)
            n += sweep_base(*b, dry);
        abx__cgroup_bases_free(bases);
    }
    return n;
}
