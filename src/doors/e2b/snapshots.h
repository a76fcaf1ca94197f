/* Names of snapshots. */
#ifndef ABX_DOORS_E2B_SNAPSHOTS_H
#define ABX_DOORS_E2B_SNAPSHOTS_H

#include "doors/e2b/control.h"

void e2b_snapshots_load(e2b_door *door);
/* The provider's id of the snapshot with this id or name, if this door made it; else NULL. Borrowed until the next one is made or
 * removed. */
const char *e2b_snapshot_named(const e2b_door *door, const char *name);

#endif
