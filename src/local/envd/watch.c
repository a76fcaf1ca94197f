/* One watched folder, by inotify; recursive: one kernel watch a folder below it. The order in which one kernel event is
 * told, the names and what happens to folders that move are E2B's. */
#include "local/envd/inner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define WATCH_MASK                                                                                 \
    (IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_MODIFY | IN_ATTRIB | IN_DELETE |                 \
     IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
enum { MAX_FOLDERS = 16 * 1024, MAX_DEPTH = 64 };

typedef struct folder {
    int wd;
    char *name; /* relative, "" for the watched one */
} folder;

struct abx__watch {
    abx_link node;
    abx_envd *envd;
    abx__user user;
    uv_poll_t poll;
    int fd;
    char *path;
    bool recursive, paused, closed;
    uint32_t aside; /* the kernel's number of a move of a file that was written aside; 0: none */
    bool aside_old; /* it takes the place of another file */
    folder *folders;
    size_t count, room;
    const abx__watch_handlers *on;
    void *data;
};

static folder *by_wd(abx__watch *w, int wd)
{
    for (size_t i = w->count; i > 0; i--)
        if (w->folders[i - 1].wd == wd)
            return &w->folders[i - 1];
    return NULL;
}

static char *join(const char *a, const char *b)
{
    return *a ? abx_format("%s/%s", a, b) : abx_strdup(b);
}

/* Watch the folder NAME below the root. 0, -1 with errno. */
static int add_folder(abx__watch *w, const char *name)
{
    if (w->count >= MAX_FOLDERS) {
        errno = ENOSPC;
        return -1;
    }
    ABX_AUTO_FREE char *path = *name ? abx_format("%s/%s", w->path, name) : abx_strdup(w->path);
    int wd = inotify_add_watch(w->fd, path, WATCH_MASK | (*name ? IN_DONT_FOLLOW : 0U));
    if (wd < 0)
        return -1;
    folder *known = by_wd(w, wd);
    if (known) { /* the same folder under a new name */
        free(known->name);
        known->name = abx_strdup(name);
        return 0;
    }
    if (w->count == w->room) {
        w->room = w->room ? w->room * 2 : 4;
        w->folders = abx_realloc(w->folders, w->room * sizeof(*w->folders));
    }
    w->folders[w->count++] = (folder){wd, abx_strdup(name)};
    return 0;
}

static void tell(abx__watch *w, const char *type, const char *name)
{
    if (w->closed)
        return;
    ABX_AUTO_FREE char *path =
        strcmp(name, ".") == 0 ? abx_strdup(w->path) : abx_format("%s/%s", w->path, name);
    w->on->on_event(w->data, type, name, path);
}

/* Watch NAME and what lies below it; told: also say that they are there. */
static int add_tree(abx__watch *w, const char *name, bool told, int depth)
{
    if (add_folder(w, name) < 0)
        return -1;
    if (!w->recursive || depth > MAX_DEPTH)
        return 0;
    ABX_AUTO_FREE char *path = *name ? abx_format("%s/%s", w->path, name) : abx_strdup(w->path);
    DIR *dir = opendir(path);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        struct stat st;
        if (fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        ABX_AUTO_FREE char *sub = join(name, d->d_name);
        if (told)
            tell(w, "EVENT_TYPE_CREATE", sub);
        if (S_ISDIR(st.st_mode))
            (void)add_tree(w, sub, told, depth + 1);
    }
    if (dir)
        closedir(dir);
    return 0;
}

/* The last one of the list takes its place. */
static void take_out(abx__watch *w, folder *f)
{
    free(f->name);
    folder *last = &w->folders[--w->count];
    if (f != last)
        *f = *last;
}

/* A folder was moved away: its kernel watches follow it, out of the tree; forget them. */
static void drop_tree(abx__watch *w, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = w->count; i > 0; i--) {
        folder *f = &w->folders[i - 1];
        if (strncmp(f->name, name, n) != 0 || (f->name[n] && f->name[n] != '/'))
            continue;
        (void)inotify_rm_watch(w->fd, f->wd);
        take_out(w, f); /* what comes to this place was looked at before */
    }
}

static void forget(abx__watch *w, int wd)
{
    folder *f = by_wd(w, wd);
    if (!f)
        return;
    take_out(w, f);
}

/* The watched folder itself, or a sub-folder as seen by its own watch. */
static void on_self(abx__watch *w, const folder *f, uint32_t mask)
{
    const char *name = *f->name ? f->name : ".";
    if (mask & IN_MOVE_SELF && !*f->name)
        tell(w, "EVENT_TYPE_RENAME", ".");
    else if (mask & IN_DELETE_SELF)
        tell(w, "EVENT_TYPE_REMOVE", name);
    else if (mask & IN_ATTRIB && !*f->name)
        tell(w, "EVENT_TYPE_CHMOD", ".");
}

static void on_entry(abx__watch *w, const folder *f, uint32_t mask, const char *entry)
{
    ABX_AUTO_FREE char *name = join(f->name, entry);
    bool is_dir = mask & IN_ISDIR;
    if (mask & (IN_CREATE | IN_MOVED_TO))
        tell(w, "EVENT_TYPE_CREATE", name);
    if (mask & IN_MOVED_FROM)
        tell(w, "EVENT_TYPE_RENAME", name);
    if (mask & IN_ATTRIB)
        tell(w, "EVENT_TYPE_CHMOD", name);
    if (mask & IN_MODIFY)
        tell(w, "EVENT_TYPE_WRITE", name);
    if (mask & IN_DELETE)
        tell(w, "EVENT_TYPE_REMOVE", name);
    if (!w->recursive || !is_dir || w->closed)
        return;
    if (mask & IN_MOVED_FROM)
        drop_tree(w, name);
    if (mask & (IN_CREATE | IN_MOVED_TO))
        (void)add_tree(w, name, mask & IN_CREATE, 0);
}

/* A file that is written aside is told when it takes its place, as if it had been written there. True: nothing else is to be told
 * of this event. */
static bool on_aside(abx__watch *w, const folder *f, const struct inotify_event *e)
{
    bool old = false;
    if (abx__is_aside(e->name, &old)) {
        if (e->mask & IN_MOVED_FROM) {
            w->aside = e->cookie;
            w->aside_old = old;
        }
        return true;
    }
    if (!(e->mask & IN_MOVED_TO) || e->cookie == 0 || e->cookie != w->aside)
        return false;
    ABX_AUTO_FREE char *name = join(f->name, e->name);
    w->aside = 0;
    if (!w->aside_old)
        tell(w, "EVENT_TYPE_CREATE", name);
    tell(w, "EVENT_TYPE_CHMOD", name);
    tell(w, "EVENT_TYPE_WRITE", name);
    return true;
}

static void on_kernel(abx__watch *w, const struct inotify_event *e)
{
    if (e->mask & IN_Q_OVERFLOW) {
        if (!w->closed && w->on->on_lost)
            w->on->on_lost(w->data);
        return;
    }
    folder *f = by_wd(w, e->wd);
    if (!f)
        return;
    if (e->mask & IN_IGNORED) {
        forget(w, e->wd);
        return;
    }
    folder copy = {f->wd, abx_strdup(f->name)}; /* the list may move under us */
    if (e->len == 0)
        on_self(w, &copy, e->mask);
    else if (!on_aside(w, &copy, e))
        on_entry(w, &copy, e->mask, e->name);
    free(copy.name);
}

void abx__watch_flush(abx__watch *w)
{
    union {
        struct inotify_event event;
        char bytes[16 * 1024];
    } room;
    while (!w->closed && !w->paused) {
        ssize_t n = read(w->fd, room.bytes, sizeof(room.bytes));
        if (n <= 0)
            return;
        abx__power(w->envd, &w->user, true); /* new folders and entries below what is the user's */
        for (ssize_t at = 0; at < n && !w->closed;) {
            const struct inotify_event *e = (const void *)(room.bytes + at);
            at += (ssize_t)(sizeof(*e) + e->len);
            on_kernel(w, e);
        }
        abx__power(w->envd, &w->user, false);
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    abx__watch_flush(poll->data);
}

void abx__watch_pause(abx__watch *w, bool paused)
{
    if (w->paused == paused || w->closed)
        return;
    w->paused = paused;
    if (paused)
        (void)uv_poll_stop(&w->poll);
    else
        (void)uv_poll_start(&w->poll, UV_READABLE, on_poll);
}

static void watch_gone(uv_handle_t *h)
{
    abx__watch *w = h->data;
    abx_envd *e = w->envd;
    for (size_t i = 0; i < w->count; i++)
        free(w->folders[i].name);
    free(w->folders);
    free(w->path);
    free(w);
    abx__envd_released(e);
}

int abx__watch_open(abx_envd *e, const abx__user *user, const char *path, bool recursive,
                    const abx__watch_handlers *handlers, void *data, abx__watch **out)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0)
        return -1;
    abx__watch *w = ABX_NEW(abx__watch);
    w->envd = e;
    w->user = *user;
    w->fd = fd;
    w->path = abx_strdup(path);
    w->recursive = recursive;
    w->on = handlers;
    w->data = data;
    w->closed = true; /* nothing is told before the caller has it */
    ABX_CHECK(uv_poll_init(e->loop, &w->poll, fd) == 0);
    w->poll.data = w;
    e->handles++;
    abx_link_append(&e->watchers, &w->node);
    abx__power(e, user, true);
    int rc = add_tree(w, "", false, 0), err = errno;
    abx__power(e, user, false);
    if (rc < 0) {
        abx__watch_close(w);
        errno = err;
        return -1;
    }
    w->closed = false;
    ABX_CHECK(uv_poll_start(&w->poll, UV_READABLE, on_poll) == 0);
    *out = w;
    return 0;
}

void abx__watch_close(abx__watch *w)
{
    if (uv_is_closing((uv_handle_t *)&w->poll))
        return;
    w->closed = true;
    abx_link_remove(&w->node);
    (void)uv_poll_stop(&w->poll);
    abx_close_fd(&w->fd);
    uv_close((uv_handle_t *)&w->poll, watch_gone);
}

void abx__watches_close(abx_envd *e)
{
    while (e->watchers.next != &e->watchers)
        abx__watch_close(ABX_OF(e->watchers.next, abx__watch, node));
}
