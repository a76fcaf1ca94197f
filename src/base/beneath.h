/* Names that others chose: opened never outside of a folder, never through a link, never over to another mount. */
#ifndef ABX_BASE_BENEATH_H
#define ABX_BASE_BENEATH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Most levels of folders that a tree of foreign origin may have; each costs a walk two descriptors. */
#define ABX_TREE_DEPTH 256

/* openat2 with these rules; O_CLOEXEC is added. A descriptor, or -1 with errno (ELOOP: a link is on the way, EXDEV: it leads
 * out). */
int abx_open_beneath(int dirfd, const char *path, int flags, mode_t mode);

/* The same, but links are followed as long as they lead to something below dirfd, and other mounts are entered. */
int abx_open_within(int dirfd, const char *path, int flags);

/* Where the link `path` (its last part is one; none is on the way to it) leads. 0: to something below dirfd, or to nothing; -1 with
 * errno: EXDEV when it leaves, ELOOP for a circle, or the failure. Only the text of links is followed; nothing is opened but as a
 * place (O_PATH). */
int abx_link_stays_beneath(int dirfd, const char *path, const char *target);

/* The folder that holds `name` (cleaned, not ""), opened step by step, through no link; *base is its last part (borrowed from name).
 * make: folders on the way are made with 0700. -1 and errno when a part is no folder (a link is none). */
int abx_safe_parent(int root, const char *name, bool make, const char **base);

/* The name of an entry of an archive as a path: no "." parts, no double slash, no slash at the end; "" is the archive's root. A "/" in
 * front is dropped (who must refuse it, looks before). Owned by the caller. NULL when it may not be used: *why says it. */
char *abx_entry_path(const char *raw, const char **why);
#define ABX_ENTRY_PATH_MAX 4095 /* bytes */

#endif
