/* The processes that live in the pid namespace, by /proc. */
#include "local/envd/inner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* parent, session and state of a process by its stat line. 0, -1: gone. */
static int read_stat(int proc, const char *name, abx__seen *out)
{
    char path[32], text[512];
    (void)snprintf(path, sizeof(path), "%.16s/stat", name);
    errno = 0;
    ABX_AUTO_FD fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return -1;
    text[n] = 0;
    const char *at = strrchr(text, ')'); /* the name before it may hold anything */
    int parent = 0, session = 0;
    if (!at || sscanf(at + 1, " %c %d %*d %d", &out->state, &parent, &session) != 3)
        return -1;
    out->parent = parent;
    out->session = session;
    return 0;
}

abx__seen *abx__look(size_t *count)
{
    *count = 0;
    DIR *dir = opendir("/proc");
    if (!dir)
        return NULL;
    size_t room = 64;
    abx__seen *list = abx_alloc_array(room, sizeof(*list));
    pid_t self = getpid();
    for (struct dirent *d; (d = readdir(dir));) {
        uint64_t pid = 0;
        abx__seen s = {0};
        if (abx_parse_uint(d->d_name, INT32_MAX, &pid) < 0 || (pid_t)pid == self)
            continue;
        if (read_stat(dirfd(dir), d->d_name, &s) < 0) {
            if (errno == ENOENT || errno == ESRCH || errno == 0)
                continue; /* it has gone */
            free(list);
            closedir(dir);
            return NULL;
        }
        if (s.state == 'Z' || s.state == 'X')
            continue;
        s.pid = (pid_t)pid;
        if (*count == room) {
            room *= 2;
            list = abx_realloc(list, room * sizeof(*list));
        }
        list[(*count)++] = s;
    }
    closedir(dir);
    return list;
}
