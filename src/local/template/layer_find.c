#include "local/template/layer_find.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/mem.h"
#include "local/template/marks.h"

typedef enum answer { FOUND, HIDDEN, FURTHER } answer;

static bool folder_is_opaque(int layer, const char *path)
{
    ABX_AUTO_FD fd = abx_open_beneath(layer, path, O_RDONLY | O_DIRECTORY, 0);
    return fd >= 0 && abx_is_opaque(fd);
}

/* What one layer says of the path: it has it, it hides what lies below, or it knows nothing. */
static answer ask(int layer, const char *path, struct stat *st, int *out)
{
    ABX_AUTO_FREE char *part = abx_strdup(path);
    bool opaque = false;
    for (char *p = part;; p++) {
        if (*p != '/' && *p)
            continue;
        char keep = *p;
        *p = 0;
        ABX_AUTO_FD fd = abx_open_beneath(layer, part, O_PATH | O_NOFOLLOW, 0);
        if (fd < 0 || fstat(fd, st) < 0)
            return errno == ENOENT && !opaque ? FURTHER : HIDDEN;
        if (abx_is_whiteout(st))
            return HIDDEN;
        if (!keep) {
            if (out)
                *out = abx_take_fd(&fd);
            return FOUND;
        }
        if (!S_ISDIR(st->st_mode))
            return HIDDEN;
        opaque = opaque || folder_is_opaque(layer, part);
        *p = keep;
    }
}

bool abx_layers_find(const abx_layer_set *set, const char *path, struct stat *st, int *fd)
{
    for (size_t i = 0; i < set->count; i++) {
        answer a = ask(set->fds[i], path, st, fd);
        if (a != FURTHER)
            return a == FOUND;
    }
    return false;
}

bool abx_layers_read(const abx_layer_set *set, const char *path, abx_buf *out)
{
    struct stat st;
    char name[40];
    ABX_AUTO_FD at = -1;
    if (!abx_layers_find(set, path, &st, &at) || !S_ISREG(st.st_mode) || st.st_size < 0 ||
        (uint64_t)st.st_size > out->max)
        return false;
    (void)snprintf(name, sizeof(name), "/proc/self/fd/%d", at);
    ABX_AUTO_FD fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    uint8_t *room = fd < 0 ? NULL : abx_buf_room(out, (size_t)st.st_size);
    ssize_t n = room ? abx_read_full(fd, room, (size_t)st.st_size) : -1;
    if (n < 0)
        return false;
    abx_buf_grow(out, (size_t)n);
    return true;
}
