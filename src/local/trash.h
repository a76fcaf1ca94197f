/* Removing what a sandbox had. Each step can be repeated by anybody: rename to HOME/local/trash, remove the tree, free
 * the slot. */
#ifndef ABX_LOCAL_TRASH_H
#define ABX_LOCAL_TRASH_H

#include "local/backend.h"

/* Move the folder of sandbox id to the trash; *name (room for 64) is its name there. 0; 1 when there is none; -1 with
 * errno. */
int abx_trash_move(abx_local *local, const char *id, char name[64]);
/* Remove one entry of the trash; names in it are hostile. Gone already: success. 0; 1: control
 * groups of it are still in use, to be called again; -1 and *err. */
int abx_trash_remove(abx_local *local, const char *name, abx_error **err);
/* Both, and free the slot (-1: none). For a sandbox whose processes are gone. */
void abx_trash_sandbox(abx_local *local, const char *id, int slot);

/* Remove what lies in the trash, until limit_ms have passed and only if nobody else does (0: all, in any
 * case). Returns how many entries are gone. */
int abx_trash_empty(abx_local *local, uint64_t limit_ms);

#endif
