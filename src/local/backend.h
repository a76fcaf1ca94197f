/* The opened backend, shared by the files of local/. */
#ifndef ABX_LOCAL_BACKEND_H
#define ABX_LOCAL_BACKEND_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "local/local.h"

/* How ids inside come from ids outside. */
typedef enum abx_ids {
    ABX_IDS_SINGLE, /* user 1000 is the caller, nobody else exists */
    ABX_IDS_RANGE,  /* 0..65535, from the caller's line in /etc/subuid */
    ABX_IDS_SLOT    /* 0..65535, from the register of the machine; for a root caller */
} abx_ids;

#define ABX_INSIDE_UID 1000u /* of `user`, and its group */
#define ABX_SLOT_SIZE  65536u

#define ABX_MAX_PROCESSES   4096u
#define ABX_SOFT_FILES      1024u
#define ABX_HARD_FILES      65536u
#define ABX_SHM_BYTES       (64ULL << 20)
#define ABX_FREE_DISK_BYTES (200ULL << 20) /* left to the host: below it no sandbox starts */

struct abx_local {
    uv_loop_t *loop;
    char *home; /* absolute */
    char *base; /* HOME/local */
    bool may_fork;
    char *starter; /* or NULL */
    struct abx_keeper *keeper;
    const abx_log *log;
    /* Folders below HOME/local; -1 while they do not exist. */
    int base_fd, sandboxes_fd, trash_fd, skeleton_fd;
    struct {
        int orders; /* pipe to the remover of sandbox id; -1: none */
        char id[40];
    } remover;
};

/* Open the folders, making them where they are not there. 0, or -1: the home cannot be written. */
int abx_local_prepare(abx_local *local, abx_error **err);
/* Open those that exist. */
void abx_local_look(abx_local *local);

#endif
