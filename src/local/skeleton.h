/* The skeleton: the lower layer of every sandbox of template "host", built once for a host and kind of ids, named by a
 * digest of what it was made from:
 *   root/   the root file system without /usr: /etc, empty mount points, files for device nodes
 *   usr/    lies over the host's /usr (root caller) or usr/local over /usr/local: hides what must not be seen there
 * It is never changed in use: a new host state gives a new one. */
#ifndef ABX_LOCAL_SKELETON_H
#define ABX_LOCAL_SKELETON_H

#include "local/backend.h"
#include "local/plan.h"

/* Find or build the skeleton for plan->ids and fill in plan->digest and plan->skeleton. Returns a descriptor that
 * holds a shared lock on all skeletons (close it when the sandbox is mounted), or -1 and *err. Building takes up to
 * some hundred ms; the first time only. */
int abx_skeleton_use(abx_local *local, abx_plan *plan, abx_error **err);
/* Copy skeleton `digest` to `to` (an existing folder's descriptor) for a machine without overlay; owners are moved by
 * `shift` (0: the caller's own). */
int abx_skeleton_copy(abx_local *local, const char *digest, int to, uid_t shift, abx_error **err);
/* Remove skeletons that no digest of `used` names, unless a sandbox is just being made. Returns how many; dry: would
 * be. */
int abx_skeleton_sweep(abx_local *local, char *const *used, size_t n, bool dry);

/* Build one in the empty folder `dirfd`, for a host whose files lie below `host` ("" for the real one). For tests too. */
int abx_skeleton_build(int dirfd, const char *host, abx_ids ids, abx_error **err);

#endif
