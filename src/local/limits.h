/* Limits of a sandbox: what was asked for, and by what each one holds. */
#ifndef ABX_LOCAL_LIMITS_H
#define ABX_LOCAL_LIMITS_H

#include "base/json.h"
#include "local/cgroup.h"
#include "local/local.h"

/* By what a limit holds. The last two are the best that an ordinary user without control groups gets. */
typedef enum abx_hold {
    ABX_HOLD_NONE,
    ABX_HOLD_RLIMIT,
    ABX_HOLD_CGROUP1,
    ABX_HOLD_CGROUP2,
    ABX_HOLD_TMPFS,
    ABX_HOLD_WATCH,    /* pid 1 looks at it several times a second, and kills */
    ABX_HOLD_AFFINITY, /* so many processors, by habit: programs inside can change it */
    ABX_HOLD_COUNT
} abx_hold;

typedef struct abx_limits {
    abx_local_sizes asked; /* processes and open_files: filled with the defaults */
    bool chosen;           /* anything at all was asked for */
    abx_hold memory, cpus, disk, processes, open_files;
    uint64_t shm_bytes; /* of /dev/shm */
} abx_limits;

/* Check what is asked for and begin with what needs no control group. 0, or -1 and *err (USAGE; QUOTA: the caller's own
 * limit is below). */
int abx_limits_choose(const abx_local_sizes *asked, abx_limits *out, abx_error **err);
/* Does any of it need a control group? */
bool abx_limits_want_cgroup(const abx_limits *limits, bool single_id);

/* Note which limits the groups hold. */
void abx_limits_use_cgroups(abx_limits *limits, const abx_cgroups *groups);

/* As a member of the state, and back. */
void abx_limits_write(yyjson_mut_doc *d, yyjson_mut_val *o, const abx_limits *limits);
void abx_limits_read(yyjson_val *v, abx_limits *out);
/* Members of `limits` in the sandbox object. */
void abx_limits_show(yyjson_mut_doc *d, yyjson_mut_val *o, const abx_limits *limits);

#endif
