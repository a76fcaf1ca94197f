/* Which attributes of files a copy takes along. */
#ifndef ABX_LOCAL_TEMPLATE_TREE_XATTR_H
#define ABX_LOCAL_TEMPLATE_TREE_XATTR_H

#include <stdbool.h>

/* The user.* attributes of in to out, 64 and 64 KiB at most. layer: the source is a layer of an overlay, whose own marks (opaque,
 * whiteout, escaped names) are kept; those that would lead an overlay elsewhere (redirect, metacopy) never. last: nor its marks.
 * 0, or -1 with errno. */
int abx_tree_xattr_copy(int in, int out, bool layer, bool last);

#endif
