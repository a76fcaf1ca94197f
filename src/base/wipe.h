/* Memory that is overwritten when it is given back: for a process that outlives the secrets it is told. */
#ifndef ABX_BASE_WIPE_H
#define ABX_BASE_WIPE_H

#include <stdbool.h>

/* From now on all blocks of this process that may hold a secret are overwritten when they are freed, whatever library frees them.
 * Of the released program only, which has its C library inside (cmake/lazy/wipe.c); elsewhere nothing changes. Before the
 * first thread. */
void abx_wipe_freed(void);
extern bool abx__wipes_freed;

#endif
