/* Copying a prepared tree of ours, for machines without overlay. */
#ifndef ABX_LOCAL_COPY_TREE_H
#define ABX_LOCAL_COPY_TREE_H

#include <sys/types.h>

#include "base/error.h"

/* Copy folder `name` below from as to_name below to: folders, files, links, modes. shift > 0: owner and group become
 * what they are plus shift. 0 or -1 and *err. */
int abx_copy_tree(int from, const char *name, int to, const char *to_name, uid_t shift,
                  abx_error **err);

#endif
