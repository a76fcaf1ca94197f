/* Prepared folders: making files on a disk is a good part of a short sandbox's life, so whoever clears one away in the
 * background also makes the next one, in HOME/local/pool. They are always new, never used before. */
#ifndef ABX_LOCAL_POOL_H
#define ABX_LOCAL_POOL_H

#include <stdbool.h>

#include "local/backend.h"

/* Move a prepared folder (lock, up, wk in it) to sandboxes/ID. True if there was one. */
bool abx_pool_take(abx_local *local, const char *id);
/* Prepare what is missing. Nothing is said when that fails: a sandbox does without. */
void abx_pool_fill(abx_local *local);
/* Remove what a killed filler left half made. */
void abx_pool_sweep(abx_local *local);

#endif
