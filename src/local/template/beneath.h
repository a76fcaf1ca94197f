/* Opening names that others chose: never outside of a folder, never through a link, never over to another mount. */
#ifndef ABX_LOCAL_TEMPLATE_BENEATH_H
#define ABX_LOCAL_TEMPLATE_BENEATH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Most levels of folders that a layer or an upper layer may have; each costs a walk two descriptors. */
#define ABX_TREE_DEPTH 256

/* openat2 with these rules; O_CLOEXEC is added. A descriptor, or -1 with errno (ELOOP: a link is on the way, EXDEV: it leads
 * out). */
int abx_open_beneath(int dirfd, const char *path, int flags, mode_t mode);
/* Is this status that of an overlay's whiteout: a character device 0:0? */
struct stat;
bool abx_is_whiteout(const struct stat *st);
/* Is the open folder marked as hiding what lies below it? */
bool abx_is_opaque(int fd);
/* Mark it. 0, or -1 with errno. */
int abx_make_opaque(int fd);

#endif
