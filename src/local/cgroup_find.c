/* Which hierarchies of control groups there are, and where this process is in them. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "local/cgroup.h"

#define TEXT_MAX (4u << 20)

static const char *const controllers[ABX_CGROUP_USES] = {
    [ABX_CGROUP_MEMORY] = "memory",   [ABX_CGROUP_CPU] = "cpu",         [ABX_CGROUP_PIDS] = "pids",
    [ABX_CGROUP_FREEZER] = "freezer", [ABX_CGROUP_CPUACCT] = "cpuacct",
};

/* Is `name` in a list with commas? */
static bool in_list(const char *list, size_t len, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list, *end = list + len; p < end;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        size_t part = (size_t)((comma ? comma : end) - p);
        if (part == n && memcmp(p, name, n) == 0)
            return true;
        p += part + 1;
    }
    return false;
}

/* The next line of *at without its end, or NULL. Owned. */
static char *next_line(const char **at)
{
    if (!**at)
        return NULL;
    size_t n = strcspn(*at, "\n");
    char *line = abx_strndup(*at, n);
    *at += n + ((*at)[n] == '\n');
    return line;
}

/* The path of this process in the hierarchy: "3:cpu,cpuacct:/a/b", "0::/a/b". Owned; NULL: none. */
static char *own_path(const char *cgroup, int use)
{
    char *line;
    while ((line = next_line(&cgroup))) {
        ABX_AUTO_FREE char *held = line;
        char *list = strchr(held, ':');
        char *path = list ? strchr(list + 1, ':') : NULL;
        if (!path || path[1] != '/')
            continue;
        size_t len = (size_t)(path - list) - 1;
        bool fits = use == ABX_CGROUP_UNIFIED ? len == 0 && strncmp(held, "0:", 2) == 0
                                              : in_list(list + 1, len, controllers[use]);
        if (!fits)
            continue;
        if (abx_has_suffix(path, " (deleted)"))
            return NULL;
        return abx_strdup(path + 1);
    }
    return NULL;
}

/* "\040" and its like, in place. */
static void unescape(char *s)
{
    char *out = s;
    for (; *s; s++) {
        unsigned code;
        if (*s == '\\' && sscanf(s + 1, "%3o", &code) == 1 && code < 256) {
            *out++ = (char)code;
            s += 3;
        } else {
            *out++ = *s;
        }
    }
    *out = 0;
}

typedef struct mount_line {
    char *root, *point, *type, *super;
} mount_line;

/* Cut a line of mountinfo: "31 23 0:28 ROOT POINT OPTIONS TAGS... - TYPE SOURCE SUPER". False: another form. */
static bool cut_mount(char *line, mount_line *out)
{
    char *fields[8] = {0};
    size_t n = 0;
    char *tail = strstr(line, " - ");
    if (!tail)
        return false;
    *tail = 0;
    tail += 3;
    char *save = NULL;
    for (char *f = strtok_r(line, " ", &save); f && n < 5; f = strtok_r(NULL, " ", &save))
        fields[n++] = f;
    if (n < 5)
        return false;
    out->root = fields[3];
    out->point = fields[4];
    out->type = strtok_r(tail, " ", &save);
    if (!out->type || !strtok_r(NULL, " ", &save))
        return false;
    out->super = strtok_r(NULL, " ", &save);
    unescape(out->root);
    unescape(out->point);
    return out->super != NULL;
}

static bool serves(const mount_line *m, int use)
{
    if (use == ABX_CGROUP_UNIFIED)
        return strcmp(m->type, "cgroup2") == 0;
    return strcmp(m->type, "cgroup") == 0 && in_list(m->super, strlen(m->super), controllers[use]);
}

/* Where `path` is seen through a mount of `root` at `point`. Owned, or NULL: not below it. */
static char *seen_at(const mount_line *m, const char *path)
{
    if (!path || strstr(path, "/.."))
        return NULL;
    size_t n = strcmp(m->root, "/") == 0 ? 0 : strlen(m->root);
    if (strncmp(path, m->root, n) != 0 || (path[n] != '/' && path[n] != 0))
        return NULL;
    const char *rest = path + n;
    if (!*rest || strcmp(rest, "/") == 0)
        return abx_strdup(m->point);
    return abx_format("%s%s", m->point, rest);
}

/* A mount that shows where we are wins over one that does not; else the first. */
static void look_at(const mount_line *m, const char *path, int use, abx_cgroup_tree *t)
{
    ABX_AUTO_FREE char *own = seen_at(m, path);
    if (t->version && (t->own || !own))
        return;
    free(t->top);
    free(t->own);
    t->version = use == ABX_CGROUP_UNIFIED ? 2 : 1;
    t->top = abx_strdup(m->point);
    t->own = ABX_TAKE(own);
}

void abx_cgroup_map_parse(const char *cgroup, const char *mountinfo, abx_cgroup_map *out)
{
    char *paths[ABX_CGROUP_USES];
    char *line;
    memset(out, 0, sizeof(*out));
    for (int use = 0; use < ABX_CGROUP_USES; use++)
        paths[use] = own_path(cgroup, use);
    while ((line = next_line(&mountinfo))) {
        ABX_AUTO_FREE char *held = line;
        mount_line m;
        if (!strstr(held, " - cgroup") || !cut_mount(held, &m))
            continue;
        for (int use = 0; use < ABX_CGROUP_USES; use++)
            if (serves(&m, use))
                look_at(&m, paths[use], use, &out->trees[use]);
    }
    for (int use = 0; use < ABX_CGROUP_USES; use++)
        free(paths[use]);
}

void abx_cgroup_map_read(abx_cgroup_map *out)
{
    ABX_AUTO_BUF cgroup = ABX_BUF(TEXT_MAX);
    ABX_AUTO_BUF mounts = ABX_BUF(TEXT_MAX);
    memset(out, 0, sizeof(*out));
    if (abx_read_file("/proc/self/cgroup", cgroup.max, &cgroup, NULL) == 0 &&
        abx_read_file("/proc/self/mountinfo", mounts.max, &mounts, NULL) == 0)
        abx_cgroup_map_parse(abx_buf_cstr(&cgroup), abx_buf_cstr(&mounts), out);
}

void abx_cgroup_map_clear(abx_cgroup_map *map)
{
    for (int use = 0; use < ABX_CGROUP_USES; use++) {
        free(map->trees[use].top);
        free(map->trees[use].own);
    }
    memset(map, 0, sizeof(*map));
}
