#include "net/kin.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"

uint64_t abx_kin_mark(void)
{
    struct rlimit now;
    uint64_t random = 0, most = (uint64_t)1 << 62;
    abx_random_bytes(&random, sizeof random);
    /* what is lower already (a child of a child) cannot be raised */
    if (getrlimit(RLIMIT_LOCKS, &now) == 0 && now.rlim_max < most)
        most = now.rlim_max;
    return most > 1 ? 1 + random % (most - 1) : most;
}

/* Session and state of a process. 0, or -1: it has gone. */
static int look(int proc, const char *name, pid_t *session, char *state)
{
    char path[32], text[512];
    int sid = 0;
    (void)snprintf(path, sizeof path, "%.16s/stat", name);
    ABX_AUTO_FD fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return -1;
    text[n] = 0;
    const char *at = strrchr(text, ')'); /* the name before it may hold anything */
    if (!at || sscanf(at + 1, " %c %*d %*d %d", state, &sid) != 2)
        return -1;
    *session = sid;
    return 0;
}

static bool bears(pid_t pid, uint64_t mark)
{
    struct rlimit limit;
    return prlimit(pid, RLIMIT_LOCKS, NULL, &limit) == 0 && limit.rlim_max == mark;
}

size_t abx_kin_kill(uint64_t mark, pid_t session, bool all)
{
    size_t found = 0;
    DIR *dir = opendir("/proc");
    if (!dir)
        return 0;
    for (struct dirent *d; (d = readdir(dir));) {
        uint64_t pid = 0;
        pid_t sid = 0;
        char state = 0;
        if (abx_parse_uint(d->d_name, INT32_MAX, &pid) < 0 || !bears((pid_t)pid, mark) ||
            look(dirfd(dir), d->d_name, &sid, &state) < 0 || state == 'Z' || state == 'X' ||
            (!all && sid != session))
            continue;
        found++;
        (void)kill((pid_t)pid, SIGKILL);
    }
    closedir(dir);
    return found;
}
