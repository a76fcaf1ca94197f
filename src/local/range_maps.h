/* The id maps of a range for an ordinary user: newuidmap and newgidmap, side by side. */
#ifndef ABX_LOCAL_RANGE_MAPS_H
#define ABX_LOCAL_RANGE_MAPS_H

#include <sys/types.h>
#include <uv.h>

#include "local/plan.h"

typedef struct abx_range_maps abx_range_maps;

/* Write the maps of plan for process pid. 0: cb runs once, on the loop, err NULL or why; the object is gone after it.
 * -1 and *err: cb never runs. */
int abx_range_maps_start(uv_loop_t *loop, pid_t pid, const abx_plan *plan,
                         void (*cb)(void *data, const abx_error *err), void *data,
                         abx_range_maps **out, abx_error **err);
/* Forget it: cb does not run. NULL allowed. */
void abx_range_maps_stop(abx_range_maps *maps);

#endif
