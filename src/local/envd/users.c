#include "local/envd/inner.h"

#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

/* The files are read and cut up by us: the C library's own look-up would load modules into pid 1, and its readers make
 * a system call a line. */
enum { MAX_NAMES_FILE = 1024 * 1024, MAX_FIELDS = 7 };

typedef struct name_line {
    const char *at; /* where the next line begins */
    char text[4096];
    char *fields[MAX_FIELDS];
    size_t count;
} name_line;

/* The next line, cut at its colons. False at the end. Lines that are too long are left out. */
static bool next_line(name_line *l)
{
    while (*l->at) {
        size_t n = strcspn(l->at, "\n");
        const char *from = l->at;
        l->at += n + (l->at[n] == '\n');
        if (n == 0 || n >= sizeof(l->text))
            continue;
        memcpy(l->text, from, n);
        l->text[n] = 0;
        l->count = 0;
        for (char *at = l->text; at && l->count < MAX_FIELDS;) {
            l->fields[l->count++] = at;
            at = strchr(at, ':');
            if (at)
                *at++ = 0;
        }
        return true;
    }
    return false;
}

static int read_names(const char *path, abx_buf *out)
{
    abx_buf_init(out, MAX_NAMES_FILE);
    return abx_read_file(path, MAX_NAMES_FILE, out, NULL) == 0 ? 0 : -1;
}

static bool read_id(const char *text, uint32_t *id)
{
    uint64_t value = 0;
    if (abx_parse_uint(text, UINT32_MAX, &value) < 0)
        return false;
    *id = (uint32_t)value;
    return true;
}

static void copy(char *out, size_t room, const char *text)
{
    (void)snprintf(out, room, "%s", text);
}

/* Is name one of a comma list? */
static bool is_member(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == 0))
            return true;
    return false;
}

static void find_groups(const abx_envd *e, abx__user *u)
{
    ABX_AUTO_BUF file = ABX_BUF(0);
    u->groups[0] = u->gid;
    u->group_count = 1;
    if (read_names(e->group, &file) < 0)
        return;
    name_line l = {.at = abx_buf_cstr(&file)};
    uint32_t id = 0;
    while (u->group_count < ABX__MAX_GROUPS && next_line(&l))
        if (l.count >= 4 && read_id(l.fields[2], &id) && id != u->gid &&
            is_member(l.fields[3], u->name))
            u->groups[u->group_count++] = id;
}

int abx__user_find(const abx_envd *e, const char *name, abx__user *out)
{
    ABX_AUTO_BUF file = ABX_BUF(0);
    if (!*name || strlen(name) >= sizeof(out->name) || read_names(e->passwd, &file) < 0)
        return 0;
    name_line l = {.at = abx_buf_cstr(&file)};
    while (next_line(&l)) {
        uint32_t uid = 0, gid = 0;
        if (l.count < 7 || strcmp(l.fields[0], name) != 0 || !read_id(l.fields[2], &uid) ||
            !read_id(l.fields[3], &gid))
            continue;
        copy(out->name, sizeof(out->name), name);
        copy(out->home, sizeof(out->home), *l.fields[5] ? l.fields[5] : "/");
        copy(out->shell, sizeof(out->shell), *l.fields[6] ? l.fields[6] : "/bin/sh");
        out->uid = uid;
        out->gid = gid;
        find_groups(e, out);
        return 1;
    }
    return 0;
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

static int read_name(const abx_envd *e, uint32_t id, bool is_group, char *out, size_t room)
{
    ABX_AUTO_BUF file = ABX_BUF(0);
    if (read_names(is_group ? e->group : e->passwd, &file) < 0)
        return 0;
    name_line l = {.at = abx_buf_cstr(&file)};
    uint32_t found = 0;
    while (next_line(&l)) {
        if (l.count < 3 || !read_id(l.fields[2], &found) || found != id)
            continue;
        copy(out, room, l.fields[0]);
        return abx_utf8_valid(out, strlen(out));
    }
    return 0;
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
