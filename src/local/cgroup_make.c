/* Making the groups of one sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "local/cgroup_inner.h"

#define NOTE_MAX  65536u
#define PERIOD_US 100000u

typedef struct making {
    abx_cgroups *g;
    const abx_cgroup_map *map;
    const abx_cgroup_want *want;
    const char *id;
    char **bases[ABX_CGROUP_USES];
} making;

void abx_cgroups_init(abx_cgroups *g)
{
    memset(g, 0, sizeof(*g));
    for (size_t i = 0; i < ABX_CGROUP_ENTER; i++)
        g->enter[i] = -1;
    g->commands = g->events = g->freeze = g->frozen = -1;
}

static void close_enter(abx_cgroups *g)
{
    for (size_t i = 0; i < ABX_CGROUP_ENTER; i++)
        abx_close_fd(&g->enter[i]);
}

void abx_cgroups_clear(abx_cgroups *g)
{
    close_enter(g);
    abx_close_fd(&g->commands);
    abx_close_fd(&g->freeze);
    abx_close_fd(&g->frozen);
    abx_close_fd(&g->events);
    for (size_t i = 0; i < g->count; i++)
        free(g->folders[i]);
    free(g->freezer);
    abx_cgroups_init(g);
}

int abx_cgroups_enter(abx_cgroups *g)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < ABX_CGROUP_ENTER && g->enter[i] >= 0; i++)
        if (write(g->enter[i], "0", 1) < 0)
            rc = -1;
    int e = errno;
    close_enter(g);
    errno = e;
    return rc;
}

/* Why a limit is not held; the first reason stays. */
static void note_why(abx_cgroups *g, const char *what, const char *folder, int e)
{
    if (!g->why[0])
        snprintf(g->why, sizeof(g->why), "%s '%.90s': %s", what, folder, strerror(e));
}

static char *folder_of(const making *m, const char *base)
{
    return abx_format("%s/" ABX__CGROUP_PARENT "/%s", base, m->id);
}

/* --- the note ---------------------------------------------------------------------------------------- */

static int write_note(const making *m, int note_fd, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(NOTE_MAX);
    for (int use = 0; use < ABX_CGROUP_USES; use++) {
        for (char **b = m->bases[use]; b && *b; b++) {
            ABX_AUTO_FREE char *folder = folder_of(m, *b);
            if (abx_buf_addf(&text, "%s\n", folder) < 0)
                return abx_fail(err, ABX_ERR_TOO_LARGE, "too many control groups");
        }
    }
    return abx_write_atomic_at(note_fd, ABX__CGROUP_NOTE, text.data, text.len, 0600, false, err);
}

/* --- folders ----------------------------------------------------------------------------------------- */

/* BASE/abx may be removed by another sandbox's end at any moment. */
static int make_folder(const char *base, const char *folder)
{
    ABX_AUTO_FREE char *parent = abx_path_join(base, ABX__CGROUP_PARENT);
    for (int attempt = 0; attempt < 16; attempt++) {
        if (mkdir(parent, 0755) < 0 && errno != EEXIST)
            return -1;
        if (mkdir(folder, 0755) == 0 || errno == EEXIST)
            return 0;
        if (errno != ENOENT)
            return -1;
    }
    return -1;
}

static bool has_folder(const abx_cgroups *g, const char *folder)
{
    for (size_t i = 0; i < g->count; i++)
        if (strcmp(g->folders[i], folder) == 0)
            return true;
    return false;
}

static int open_file(const char *folder, const char *file, int flags)
{
    ABX_AUTO_FREE char *path = abx_path_join(folder, file);
    return open(path, flags | O_CLOEXEC | O_NOFOLLOW);
}

/* Note the folder as made, and open its door for pid 1. Takes the folder. */
static int add_folder(abx_cgroups *g, char *folder)
{
    size_t i = 0;
    while (i < ABX_CGROUP_ENTER && g->enter[i] >= 0)
        i++;
    int fd = i < ABX_CGROUP_ENTER && g->count < ABX_CGROUP_FOLDERS
                 ? open_file(folder, "cgroup.procs", O_WRONLY)
                 : -1;
    if (fd < 0) {
        int e = errno;
        (void)rmdir(folder);
        free(folder);
        errno = e;
        return -1;
    }
    g->enter[i] = fd;
    g->folders[g->count++] = folder;
    return 0;
}

/* The folder of an older hierarchy, made; borrowed. NULL with errno: none can be. */
static const char *make_old(making *m, int use)
{
    char **bases = m->bases[use];
    errno = m->map->trees[use].version ? EACCES : ENOENT;
    if (!bases || !bases[0])
        return NULL;
    ABX_AUTO_FREE char *folder = folder_of(m, bases[0]);
    if (!has_folder(m->g, folder) &&
        (make_folder(bases[0], folder) < 0 || add_folder(m->g, abx_strdup(folder)) < 0))
        return NULL;
    for (size_t i = 0; i < m->g->count; i++)
        if (strcmp(m->g->folders[i], folder) == 0)
            return m->g->folders[i];
    return NULL;
}

/* --- version 2 --------------------------------------------------------------------------------------- */

static bool has_word(const char *folder, const char *file, const char *word)
{
    char text[512];
    if (abx__cgroup_read(folder, file, text, sizeof(text)) < 0)
        return false;
    size_t n = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p += n)
        if ((p == text || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\n' || p[n] == 0))
            return true;
    return false;
}

/* Is the calling process the only one in it? */
static bool is_alone(const char *folder)
{
    char text[256], self[32];
    snprintf(self, sizeof(self), "%d\n", (int)getpid());
    return abx__cgroup_read(folder, "cgroup.procs", text, sizeof(text)) > 0 &&
           strcmp(text, self) == 0;
}

/* Hand a controller down to the groups below. A group that holds processes cannot: if that is only this one, as in a
 * unit of its own, it moves aside. 0, or -1 with errno. */
static int hand_down(const char *base, const char *controller)
{
    char word[24];
    if (has_word(base, "cgroup.subtree_control", controller))
        return 0;
    if (!has_word(base, "cgroup.controllers", controller)) {
        errno = ENOENT;
        return -1;
    }
    snprintf(word, sizeof(word), "+%s", controller);
    if (abx__cgroup_write(base, "cgroup.subtree_control", word) == 0)
        return 0;
    if (errno != EBUSY || !is_alone(base))
        return -1;
    ABX_AUTO_FREE char *aside = abx_path_join(base, ABX__CGROUP_CALLER);
    if ((mkdir(aside, 0755) < 0 && errno != EEXIST) ||
        abx__cgroup_write(aside, "cgroup.procs", "0") < 0)
        return -1;
    return abx__cgroup_write(base, "cgroup.subtree_control", word);
}

typedef struct unified_base {
    const char *path;
    bool memory, cpu, pids;
} unified_base;

static bool hand_down_all(const char *base, const char *controller)
{
    ABX_AUTO_FREE char *parent = abx_path_join(base, ABX__CGROUP_PARENT);
    if (hand_down(base, controller) < 0)
        return false;
    if (mkdir(parent, 0755) < 0 && errno != EEXIST)
        return false;
    return hand_down(parent, controller) == 0;
}

/* The base that can give most of what no older hierarchy gives. */
static unified_base choose_base(making *m)
{
    const abx_cgroup_want *w = m->want;
    const abx_cgroup_tree *trees = m->map->trees;
    unified_base best = {0};
    int most = -1;
    for (char **b = m->bases[ABX_CGROUP_UNIFIED]; b && *b; b++) {
        unified_base u = {.path = *b};
        errno = 0;
        u.memory =
            w->memory_bytes && !trees[ABX_CGROUP_MEMORY].version && hand_down_all(*b, "memory");
        if (!u.memory && w->memory_bytes && !trees[ABX_CGROUP_MEMORY].version)
            note_why(m->g, "no memory limit can be set in", *b, errno);
        u.cpu = w->cpu_millis && !trees[ABX_CGROUP_CPU].version && hand_down_all(*b, "cpu");
        u.pids = w->processes && !trees[ABX_CGROUP_PIDS].version && hand_down_all(*b, "pids");
        int n = u.memory * 4 + u.cpu * 2 + u.pids;
        if (n > most) {
            most = n;
            best = u;
        }
    }
    return best;
}

static void limit_unified(making *m, const char *folder, const unified_base *u)
{
    char text[64];
    abx_cgroups *g = m->g;
    if (u->memory) {
        snprintf(text, sizeof(text), "%llu", (unsigned long long)m->want->memory_bytes);
        if (abx__cgroup_write(folder, "memory.max", text) == 0)
            g->memory = 2;
        else
            note_why(g, "memory.max in", folder, errno);
        (void)abx__cgroup_write(folder, "memory.swap.max", "0");
        g->events = open_file(folder, "memory.events", O_RDONLY);
    }
    if (u->cpu) {
        snprintf(text, sizeof(text), "%llu %u",
                 (unsigned long long)m->want->cpu_millis * (PERIOD_US / 1000), PERIOD_US);
        if (abx__cgroup_write(folder, "cpu.max", text) == 0)
            g->cpu = 2;
    }
    if (u->pids) {
        snprintf(text, sizeof(text), "%u", m->want->processes);
        if (abx__cgroup_write(folder, "pids.max", text) == 0)
            g->processes = 2;
    }
}

static void make_unified(making *m)
{
    unified_base u = choose_base(m);
    if (!u.path)
        return;
    ABX_AUTO_FREE char *folder = folder_of(m, u.path);
    if (make_folder(u.path, folder) < 0 || add_folder(m->g, abx_strdup(folder)) < 0) {
        note_why(m->g, "no control group can be made in", u.path, errno);
        return;
    }
    limit_unified(m, folder, &u);
}

/* --- version 1 --------------------------------------------------------------------------------------- */

static void limit_memory(making *m)
{
    char text[32];
    const char *folder = make_old(m, ABX_CGROUP_MEMORY);
    if (!folder) {
        note_why(m->g, "no control group can be made in", m->map->trees[ABX_CGROUP_MEMORY].top,
                 errno);
        return;
    }
    snprintf(text, sizeof(text), "%llu", (unsigned long long)m->want->memory_bytes);
    if (abx__cgroup_write(folder, "memory.limit_in_bytes", text) < 0) {
        note_why(m->g, "memory.limit_in_bytes in", folder, errno);
        return;
    }
    (void)abx__cgroup_write(folder, "memory.memsw.limit_in_bytes", text);
    m->g->memory = 1;
    m->g->events = open_file(folder, "memory.oom_control", O_RDONLY);
}

static void limit_cpu(making *m)
{
    char period[32], quota[32];
    const char *folder = make_old(m, ABX_CGROUP_CPU);
    snprintf(period, sizeof(period), "%u", PERIOD_US);
    snprintf(quota, sizeof(quota), "%llu",
             (unsigned long long)m->want->cpu_millis * (PERIOD_US / 1000));
    if (folder && abx__cgroup_write(folder, "cpu.cfs_period_us", period) == 0 &&
        abx__cgroup_write(folder, "cpu.cfs_quota_us", quota) == 0)
        m->g->cpu = 1;
}

static void limit_processes(making *m)
{
    char text[32];
    const char *folder = make_old(m, ABX_CGROUP_PIDS);
    snprintf(text, sizeof(text), "%u", m->want->processes);
    if (folder && abx__cgroup_write(folder, "pids.max", text) == 0)
        m->g->processes = 1;
}

/* --- the commands' own ------------------------------------------------------------------------------- */

/* From 5.16 on it counts who opened cgroup.procs, not who writes to it: before, pid 1 could not let commands in. */
static bool may_hand_on(void)
{
    struct utsname u;
    int major = 0, minor = 0;
    return uname(&u) == 0 && sscanf(u.release, "%d.%d", &major, &minor) == 2 &&
           (major > 5 || (major == 5 && minor >= 16));
}

static void make_commands(making *m)
{
    abx_cgroups *g = m->g;
    const char *folder = NULL;
    const char *file = "cgroup.freeze";
    if (!may_hand_on())
        return;
    if (m->map->trees[ABX_CGROUP_UNIFIED].version)
        for (size_t i = 0; i < g->count && !folder; i++)
            if (abx__cgroup_number(g->folders[i], file, "") >= 0)
                folder = g->folders[i];
    if (!folder) {
        file = "freezer.state";
        folder = make_old(m, ABX_CGROUP_FREEZER);
    }
    if (!folder)
        return;
    ABX_AUTO_FREE char *child = abx_path_join(folder, ABX__CGROUP_CHILD);
    if (mkdir(child, 0755) < 0 && errno != EEXIST)
        return;
    g->commands = open_file(child, "cgroup.procs", O_WRONLY);
    if (g->commands < 0) {
        (void)rmdir(child);
        return;
    }
    g->freeze = open_file(child, file, O_RDWR);
    g->frozen =
        open_file(child, strcmp(file, "freezer.state") == 0 ? file : "cgroup.events", O_RDONLY);
    g->freezer = ABX_TAKE(child);
}

/* Nothing holds a limit: then no group is kept. */
static void remove_all(abx_cgroups *g)
{
    char why[sizeof(g->why)];
    memcpy(why, g->why, sizeof(why));
    for (size_t i = g->count; i > 0; i--) {
        ABX_AUTO_FREE char *parent = abx_path_dir(g->folders[i - 1]);
        (void)rmdir(g->folders[i - 1]);
        (void)rmdir(parent);
    }
    abx_cgroups_clear(g);
    memcpy(g->why, why, sizeof(why));
}

int abx_cgroups_make(abx_cgroups *g, const abx_cgroup_map *map, const char *id, int note_fd,
                     const abx_cgroup_want *want, abx_error **err)
{
    making m = {.g = g, .map = map, .want = want, .id = id};
    bool any = false;
    for (int use = 0; use < ABX_CGROUP_USES; use++) {
        m.bases[use] = abx__cgroup_bases(&map->trees[use]);
        any = any || m.bases[use][0];
    }
    int rc = any ? write_note(&m, note_fd, err) : 0;
    if (any && rc == 0) {
        make_unified(&m);
        if (want->memory_bytes && map->trees[ABX_CGROUP_MEMORY].version)
            limit_memory(&m);
        if (want->cpu_millis && map->trees[ABX_CGROUP_CPU].version)
            limit_cpu(&m);
        if (want->processes && map->trees[ABX_CGROUP_PIDS].version)
            limit_processes(&m);
        if (!g->memory && !g->cpu && !g->processes)
            remove_all(g);
        else
            make_commands(&m);
        if (g->count && !map->trees[ABX_CGROUP_UNIFIED].version)
            (void)make_old(&m, ABX_CGROUP_CPUACCT);
        if (g->count == 0)
            (void)unlinkat(note_fd, ABX__CGROUP_NOTE, 0);
    } else if (!any) {
        snprintf(g->why, sizeof(g->why), "this caller may make no control group");
    }
    for (int use = 0; use < ABX_CGROUP_USES; use++)
        abx__cgroup_bases_free(m.bases[use]);
    return rc;
}
