/* KILL of a process and of all that it started, also what left its session and its parent.
 *
 * Every command gets a number of its own as hard limit of RLIMIT_LOCKS, a limit that Linux counts nothing by any
 * more. Children inherit it over fork, exec, setsid and the death of their parents; without a capability it can
 * only be lowered. A walk over /proc takes who bears the number, who is of the session of the process, and the
 * children of those, KILLs them, and walks again until a walk finds nobody alive. What a program can do against
 * it: lower the limit in a descendant that also left session and parent before the walk. */
#include "local/envd/inner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct hunt {
    abx_link node;
    abx_envd *envd;
    uint64_t mark;
    pid_t pid; /* the direct child; 0 once it was reaped: its number may be another's then */
    unsigned rounds;
    uv_timer_t timer;
} hunt;

enum { HUNT_FAST_ROUNDS = 50, HUNT_MAX_ROUNDS = 3000, HUNT_PAUSE_MS = 10 };

static bool bears(int proc, pid_t pid, const char *name, uint64_t mark)
{
    struct rlimit64 limit;
    if (prlimit64(pid, RLIMIT_LOCKS, NULL, &limit) == 0)
        return limit.rlim_max == mark;
    if (errno != EPERM) /* other ids: the file may still be read */
        return false;
    char path[32], text[2048];
    (void)snprintf(path, sizeof(path), "%.16s/limits", name);
    ABX_AUTO_FD fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : abx_read_full(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return false;
    text[n] = 0;
    const char *line = strstr(text, "Max file locks");
    unsigned long long soft = 0, hard = 0;
    return line && sscanf(line + 14, " %llu %llu", &soft, &hard) == 2 && hard == mark;
}

/* Mark the children of those who are ours, and theirs. */
static void add_children(abx__seen *list, size_t count)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < count; i++) {
            for (size_t k = 0; k < count && !list[i].ours; k++)
                list[i].ours = list[k].ours && list[k].pid == list[i].parent;
            more = more || (list[i].ours && list[i].session != -1);
            if (list[i].ours)
                list[i].session = -1; /* looked at */
        }
    }
}

/* One walk. Returns how many were found alive. */
static size_t walk(hunt *h)
{
    size_t count = 0, found = 0;
    abx__seen *list = abx__look(&count);
    if (!list)
        return 1; /* not to be seen now: not the end */
    ABX_AUTO_FD proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < count; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "%d", list[i].pid);
        list[i].ours = (h->pid > 0 && (list[i].pid == h->pid || list[i].session == h->pid)) ||
                       bears(proc, list[i].pid, name, h->mark);
    }
    add_children(list, count);
    for (size_t i = 0; i < count; i++) {
        if (!list[i].ours)
            continue;
        found++;
        (void)kill(list[i].pid, SIGKILL);
    }
    free(list);
    return found;
}

static void timer_gone(uv_handle_t *handle)
{
    hunt *h = handle->data;
    abx_envd *e = h->envd;
    free(h);
    abx__envd_released(e);
}

static void finish(hunt *h)
{
    abx_link_remove(&h->node);
    uv_close((uv_handle_t *)&h->timer, timer_gone);
}

static void round_again(uv_timer_t *timer)
{
    hunt *h = timer->data;
    if (h->pid > 0 && !abx__proc_by_pid(h->envd, h->pid))
        h->pid = 0;
    h->rounds++;
    if (walk(h) == 0 || h->rounds >= HUNT_MAX_ROUNDS) {
        finish(h);
        return;
    }
    /* who was KILLed needs a moment to go; who forks on is met again at once */
    uint64_t pause = h->rounds < 3 ? 1 : h->rounds < HUNT_FAST_ROUNDS ? 2 : HUNT_PAUSE_MS;
    ABX_CHECK(uv_timer_start(timer, round_again, pause, 0) == 0);
}

void abx__hunt_start(abx_envd *e, uint64_t mark, pid_t pid)
{
    hunt *h = ABX_NEW(hunt);
    h->envd = e;
    h->mark = mark;
    h->pid = pid;
    h->timer.data = h;
    abx_link_append(&e->hunts, &h->node);
    ABX_CHECK(uv_timer_init(e->loop, &h->timer) == 0);
    e->handles++;
    /* two walks at once: the second catches what was born during the first */
    (void)walk(h);
    round_again(&h->timer);
}

void abx__hunts_close(abx_envd *e)
{
    while (e->hunts.next != &e->hunts) {
        hunt *h = ABX_OF(e->hunts.next, hunt, node);
        (void)walk(h);
        finish(h);
    }
}
