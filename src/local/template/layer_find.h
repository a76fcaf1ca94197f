/* Looking up a path in several layers as an overlay of them would show it. Links are not followed: a path that leads through one
 * is not there. */
#ifndef ABX_LOCAL_TEMPLATE_LAYER_FIND_H
#define ABX_LOCAL_TEMPLATE_LAYER_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/buf.h"

typedef struct abx_layer_set {
    const int *fds; /* open folders, the highest first */
    size_t count;
} abx_layer_set;

/* The highest layer's entry of this path: true, its status, and an O_PATH descriptor (NULL: not wanted). */
bool abx_layers_find(const abx_layer_set *set, const char *path, struct stat *st, int *fd);
/* The text of a regular file; false: there is none, or it is longer than out takes. */
bool abx_layers_read(const abx_layer_set *set, const char *path, abx_buf *out);

#endif
