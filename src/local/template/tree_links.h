/* Which files of a tree are one file with several names. */
#ifndef ABX_LOCAL_TEMPLATE_TREE_LINKS_H
#define ABX_LOCAL_TEMPLATE_TREE_LINKS_H

#include <stddef.h>
#include <sys/stat.h>

typedef struct abx_tree_links {
    struct abx_tree_link_item *_items; /* open hashing; room is a power of two */
    size_t _count, _room;
} abx_tree_links;

/* The path under which this file was seen first; NULL: now, and `path` is remembered (copied). */
const char *abx_tree_links_find(abx_tree_links *links, const struct stat *st, const char *path);
void abx_tree_links_clear(abx_tree_links *links);
/* Make `name` in folder `to` a second name of the file `first` below `root`; no link is followed. 0 or -1 with errno. */
int abx_tree_link(int root, const char *first, int to, const char *name);

#endif
