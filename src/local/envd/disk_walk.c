/* A walk over the private layer, in small steps. One folder is open at a time: on the way up the parent is opened by
 * "..", which leads nowhere else, since the layer is the root of a mount of its own. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "local/envd/usage.h"

enum { MAX_DEPTH = 2048, ENTRY_BYTES = 512 };

struct abx__walk {
    DIR *dir;
    long *back; /* where to go on in each folder above */
    size_t depth, room;
    abx__walked sum;
};

static DIR *open_dir(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !dir)
        close(fd);
    return dir;
}

abx__walk *abx__walk_new(int root_fd)
{
    DIR *dir = open_dir(root_fd, ".");
    if (!dir)
        return NULL;
    abx__walk *w = ABX_NEW(abx__walk);
    w->dir = dir;
    return w;
}

void abx__walk_free(abx__walk *w)
{
    if (!w)
        return;
    if (w->dir)
        closedir(w->dir);
    free(w->back);
    free(w);
}

/* Into a folder; one that cannot be opened is left out. */
static void go_down(abx__walk *w, const char *name)
{
    DIR *next = w->depth < MAX_DEPTH ? open_dir(dirfd(w->dir), name) : NULL;
    if (!next)
        return;
    if (w->depth == w->room) {
        w->room = w->room ? w->room * 2 : 16;
        w->back = abx_realloc(w->back, w->room * sizeof(*w->back));
    }
    w->back[w->depth++] = telldir(w->dir);
    closedir(w->dir);
    w->dir = next;
}

/* False: this was the top. */
static bool go_up(abx__walk *w)
{
    if (w->depth == 0)
        return false;
    DIR *up = open_dir(dirfd(w->dir), "..");
    closedir(w->dir);
    w->dir = up;
    if (!up)
        return false;
    seekdir(up, w->back[--w->depth]);
    return true;
}

static void count_entry(abx__walk *w, const struct stat *st)
{
    uint64_t bytes = (uint64_t)st->st_blocks * 512;
    if (st->st_nlink > 1 && !S_ISDIR(st->st_mode))
        bytes /= st->st_nlink;
    w->sum.bytes += bytes + ENTRY_BYTES;
    w->sum.entries++;
}

abx__walked abx__walk_so_far(const abx__walk *w)
{
    return w->sum;
}

bool abx__walk_step(abx__walk *w, size_t n, abx__walked *out)
{
    while (n > 0 && w->dir) {
        struct dirent *d = readdir(w->dir);
        if (!d) {
            if (go_up(w))
                continue;
            *out = w->sum;
            return true;
        }
        struct stat st;
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        n--;
        if (fstatat(dirfd(w->dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        count_entry(w, &st);
        if (S_ISDIR(st.st_mode))
            go_down(w, d->d_name);
    }
    if (w->dir)
        return false;
    *out = w->sum;
    return true;
}
