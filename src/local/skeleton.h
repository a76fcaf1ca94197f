/* The skeleton: the lower layer of every sandbox of template "host", built once for a host and kind of
 * ids, named by a digest of what it was made from:
 *   usr/        lies over the host's /usr in one overlay:
 *     .abx/       the root file system: /etc, empty mount points, files for device nodes
 *     local/      hides what must not be seen of the host's /usr/local
 *   m r l       empty: mount points that every sandbox uses in its own mount namespace
 * One overlay for all of it is cheaper than two. A root caller's /usr is
 * the overlay itself (with .abx covered); an ordinary user's is the host's own, and only `local` is
 * taken from the overlay.
 * A skeleton is never changed in use: a new state of the host gives a new one. */
#ifndef ABX_LOCAL_SKELETON_H
#define ABX_LOCAL_SKELETON_H

#include <stdbool.h>

#include "local/backend.h"
#include "local/plan.h"

#define ABX_SKELETON_ROOT "usr/.abx"
#define ABX_SKELETON_BARE "bare" /* is there: no overlay can be made of this one, only copies */

/* The folders of the host's /usr/local that are shown; all else there is covered. */
bool abx_local_is_shown(const char *name);

/* Find or build the skeleton for plan->ids and fill in plan->digest and plan->skeleton. Returns a descriptor that
 * holds a shared lock on all skeletons (close it when the sandbox is mounted), or -1 and *err. Building takes up to
 * some hundred ms; the first time only. */
int abx_skeleton_use(abx_local *local, abx_plan *plan, abx_error **err);
/* Copy skeleton `digest` to `up` in the folder `to` for a machine without overlay; owners are moved by
 * `shift` (0: the caller's own). */
int abx_skeleton_copy(abx_local *local, const char *digest, int to, uid_t shift, abx_error **err);
/* Remove skeletons that no digest of `used` names, unless a sandbox is just being made. Returns how many; dry: would
 * be. */
int abx_skeleton_sweep(abx_local *local, char *const *used, size_t n, bool dry);

/* Build one in the empty folder `dirfd`, for a host whose files lie below `host` ("" for the real one). */
int abx_skeleton_build(int dirfd, const char *host, abx_ids ids, abx_error **err);

#endif
