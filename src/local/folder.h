/* The folder of one sandbox, HOME/local/sandboxes/ID: its lock says whether the sandbox lives. */
#ifndef ABX_LOCAL_FOLDER_H
#define ABX_LOCAL_FOLDER_H

#include <stdbool.h>

#include "local/backend.h"
#include "local/plan.h"

/* A folder that is being made: 0700, locked by us. */
typedef struct abx_folder {
    int fd;   /* the folder */
    int lock; /* its lock, held; pid 1 inherits it */
} abx_folder;

/* Make and lock the folder of plan->id. A name that exists: CONFLICT. */
int abx_folder_make(abx_local *local, const char *id, abx_folder *out, abx_error **err);
/* Make the layers in it that the plan needs, owned as the plan says. */
int abx_folder_fill(const abx_folder *folder, const abx_plan *plan, abx_error **err);
void abx_folder_clear(abx_folder *folder); /* closes; the lock stays with whoever inherited it */

/* Is the sandbox of this open folder alive: 1, or 0 when nobody holds its lock. One that cannot be looked at counts as alive. */
int abx_folder_alive(int folder_fd);
/* Open the folder of a sandbox; -1 with errno. */
int abx_folder_open(abx_local *local, const char *id);
/* The error for that errno: SANDBOX_NOT_FOUND, or QUOTA where nothing can be opened. Returns -1. */
int abx_folder_not_there(const char *id, abx_error **err);
/* The host pid of who listens on the folder's socket, by the kernel's word; 0: nobody. dial.c */
pid_t abx_folder_peer(int folder_fd);
/* A listening address in the folder: bound, not listening. -1 and *err. */
int abx_folder_socket(const abx_folder *folder, abx_error **err);

#endif
