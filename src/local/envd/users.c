#include "local/envd/inner.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The files are read by us: the C library's own look-up would load modules into pid 1. */
static FILE *open_names(const char *path)
{
    return fopen(path, "re");
}

static void copy(char *out, size_t room, const char *text)
{
    (void)snprintf(out, room, "%s", text ? text : "");
}

static void find_groups(const abx_envd *e, abx__user *u)
{
    FILE *f = open_names(e->group);
    u->groups[0] = u->gid;
    u->group_count = 1;
    if (!f)
        return;
    struct group g, *found = NULL;
    char room[16 * 1024];
    while (u->group_count < ABX__MAX_GROUPS && fgetgrent_r(f, &g, room, sizeof(room), &found) == 0)
        for (char **m = g.gr_mem; *m && u->group_count < ABX__MAX_GROUPS; m++)
            if (strcmp(*m, u->name) == 0 && g.gr_gid != u->gid)
                u->groups[u->group_count++] = g.gr_gid;
    fclose(f);
}

int abx__user_find(const abx_envd *e, const char *name, abx__user *out)
{
    FILE *f = *name && strlen(name) < sizeof(out->name) ? open_names(e->passwd) : NULL;
    if (!f)
        return 0;
    int rc = 0;
    struct passwd p, *found = NULL;
    char room[4096];
    while (rc == 0 && fgetpwent_r(f, &p, room, sizeof(room), &found) == 0) {
        if (strcmp(p.pw_name, name) != 0)
            continue;
        copy(out->name, sizeof(out->name), p.pw_name);
        copy(out->home, sizeof(out->home), *p.pw_dir ? p.pw_dir : "/");
        copy(out->shell, sizeof(out->shell), *p.pw_shell ? p.pw_shell : "/bin/sh");
        out->uid = p.pw_uid;
        out->gid = p.pw_gid;
        rc = 1;
    }
    fclose(f);
    if (rc == 1)
        find_groups(e, out);
    return rc;
}

int abx__user_of(abx_envd *e, abx_e2b_call *c, abx__user *out)
{
    const char *name = abx_e2b_call_user(c);
    if (abx__user_find(e, name ? name : e->default_user, out) == 1)
        return 0;
    abx_e2b_fail(c, ABX_E2B_CODE_UNAUTHENTICATED,
                 name ? "invalid username: '%s'" : "invalid default user: '%s'",
                 name ? name : e->default_user);
    return -1;
}

static int read_name(const abx_envd *e, uint32_t id, bool is_group, char *out, size_t room_len)
{
    FILE *f = open_names(is_group ? e->group : e->passwd);
    if (!f)
        return 0;
    char room[16 * 1024];
    int rc = 0;
    struct passwd p, *pw = NULL;
    struct group g, *gr = NULL;
    while (rc == 0) {
        if (is_group ? fgetgrent_r(f, &g, room, sizeof(room), &gr) != 0
                     : fgetpwent_r(f, &p, room, sizeof(room), &pw) != 0)
            break;
        if ((is_group ? g.gr_gid : p.pw_uid) != id)
            continue;
        copy(out, room_len, is_group ? g.gr_name : p.pw_name);
        rc = 1;
    }
    fclose(f);
    return rc;
}

const char *abx__owner_name(abx_envd *e, uint32_t id, bool is_group)
{
    abx__name_cache *cache = &e->names;
    for (size_t i = 0; i < cache->count; i++)
        if (cache->items[i].id == id && cache->items[i].is_group == is_group)
            return cache->items[i].name;
    if (cache->count == ABX_COUNT(cache->items))
        cache->count = 0;
    size_t i = cache->count++;
    cache->items[i].id = id;
    cache->items[i].is_group = is_group;
    if (!read_name(e, id, is_group, cache->items[i].name, sizeof(cache->items[i].name)))
        (void)snprintf(cache->items[i].name, sizeof(cache->items[i].name), "%u", id);
    return cache->items[i].name;
}

void abx__power(const abx_envd *e, const abx__user *u, bool on)
{
    if (!e->has_range || u->uid == geteuid() || geteuid() == 0)
        return;
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct caps[2];
    if (syscall(SYS_capget, &head, caps) < 0)
        return;
    const uint32_t idle = 1U << CAP_KILL | 1U << CAP_SETUID | 1U << CAP_SETGID;
    for (int i = 0; i < 2; i++)
        caps[i].effective = on ? caps[i].permitted : i == 0 ? caps[i].permitted & idle : 0;
    (void)syscall(SYS_capset, &head, caps);
}

/* With one id only there is nothing to change: all that we make is the user's already. */
static bool can_own(const abx_envd *e, const abx__user *u)
{
    return e->has_range || u->uid == geteuid();
}

int abx__own_fd(const abx_envd *e, int fd, const abx__user *u)
{
    return can_own(e, u) ? fchown(fd, u->uid, u->gid) : 0;
}

int abx__own_path(const abx_envd *e, const char *path, const abx__user *u)
{
    return can_own(e, u) ? chown(path, u->uid, u->gid) : 0;
}
