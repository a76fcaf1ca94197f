/* Removing what a sandbox had. Each step can be repeated by anybody: rename to HOME/local/trash, remove the tree, free
 * the slot. */
#ifndef ABX_LOCAL_TRASH_H
#define ABX_LOCAL_TRASH_H

#include "local/backend.h"

/* Move the folder of sandbox id to the trash; *name (room for 64) is its name there. 0; 1 when there is none; -1 with
 * errno. */
int abx_trash_move(abx_local *local, const char *id, char name[64]);
typedef enum abx_trash_left {
    ABX_TRASH_GONE,
    ABX_TRASH_BUSY, /* control groups of it are still in use: try again later */
    ABX_TRASH_MORE  /* the time is over: go on when the loop has turned */
} abx_trash_left;
/* Remove one entry of the trash, until this time of abx_now_mono_ms at the most (ABX_FOREVER: all of it); names in it are
 * hostile. Gone already: success. An abx_trash_left; -1 and *err. */
int abx_trash_remove(abx_local *local, const char *name, uint64_t until_ms, abx_error **err);
/* Both, and free the slot (-1: none). For a sandbox whose processes are gone. */
void abx_trash_sandbox(abx_local *local, const char *id, int slot);

/* Remove what lies in the trash, until limit_ms have passed and only if nobody else does (0: all, in any
 * case). Returns how many entries are gone. */
int abx_trash_empty(abx_local *local, uint64_t limit_ms);

#endif
