/* Watching limits from pid 1: guard.c. */
#ifndef ABX_LOCAL_ENVD_GUARD_H
#define ABX_LOCAL_ENVD_GUARD_H

#include "local/envd/inner.h"

/* A process was started: watch while anything runs. */
void abx__guard_started(abx_envd *e);
/* May pid 1 itself write more files? wrote: bytes that it has written since it asked last. 0; -1: the disk of the
 * sandbox, or of the host, is full. */
int abx__guard_may_write(abx_envd *e, uint64_t wrote);
void abx__guard_open(abx_envd *e, const abx_envd_config *config); /* takes layer_fd over */
void abx__guard_close(abx_envd *e);

#endif
