#include "local/template/tree_links.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/mem.h"

typedef struct abx_tree_link_item {
    dev_t dev;
    ino_t ino;
    char *path; /* NULL: empty */
} item;

static size_t place_of(const abx_tree_links *l, dev_t dev, ino_t ino)
{
    uint64_t h = ((uint64_t)ino ^ (uint64_t)dev << 32) * 0x9e3779b97f4a7c15ULL;
    size_t at = (size_t)(h >> 20) & (l->_room - 1);
    while (l->_items[at].path && (l->_items[at].ino != ino || l->_items[at].dev != dev))
        at = (at + 1) & (l->_room - 1);
    return at;
}

static void grow(abx_tree_links *l)
{
    abx_tree_links bigger = {._room = l->_room ? 2 * l->_room : 64};
    bigger._items = (item *)abx_alloc_array(bigger._room, sizeof(item));
    for (size_t i = 0; i < l->_room; i++)
        if (l->_items[i].path)
            bigger._items[place_of(&bigger, l->_items[i].dev, l->_items[i].ino)] = l->_items[i];
    bigger._count = l->_count;
    free(l->_items);
    *l = bigger;
}

const char *abx_tree_links_find(abx_tree_links *l, const struct stat *st, const char *path)
{
    if (2 * (l->_count + 1) > l->_room)
        grow(l);
    size_t at = place_of(l, st->st_dev, st->st_ino);
    if (l->_items[at].path)
        return l->_items[at].path;
    l->_items[at] = (item){st->st_dev, st->st_ino, abx_strdup(path)};
    l->_count++;
    return NULL;
}

void abx_tree_links_clear(abx_tree_links *l)
{
    for (size_t i = 0; i < l->_room; i++)
        free(l->_items[i].path);
    free(l->_items);
    memset(l, 0, sizeof(*l));
}

int abx_tree_link(int root, const char *first, int to, const char *name)
{
    const char *slash = strrchr(first, '/');
    ABX_AUTO_FREE char *dir = slash ? abx_strndup(first, (size_t)(slash - first)) : abx_strdup(".");
    ABX_AUTO_FD fd = abx_open_beneath(root, dir, O_PATH | O_DIRECTORY, 0);
    return fd < 0 ? -1 : linkat(fd, slash ? slash + 1 : first, to, name, 0);
}
