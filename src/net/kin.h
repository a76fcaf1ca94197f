/* What a child has started, also what has left its group and its parent. Each bears the child's mark: a number of its
 * own as hard limit of RLIMIT_LOCKS, a limit by which Linux counts nothing any more. Children inherit it over fork, exec and
 * setsid; without a capability it can only be lowered. Linux, /proc. Blocking, some milliseconds with thousands of processes. */
#ifndef ABX_NET_KIN_H
#define ABX_NET_KIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A mark that no other child of this user has. */
uint64_t abx_kin_mark(void);
/* One walk: KILL those that bear the mark and are in this session; all: in any session. Returns how many were found; who
 * was KILLed needs a moment to go, and may have started another meanwhile: walk again until there is none. */
size_t abx_kin_kill(uint64_t mark, pid_t session, bool all);

#endif
