/* What is written down about a sandbox: state.json in its folder, 0600, replaced whole. */
#ifndef ABX_LOCAL_STATE_H
#define ABX_LOCAL_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/json.h"
#include "local/backend.h"
#include "local/limits.h"
#include "local/record.h"
#include "local/uplink.h"

typedef struct abx_state {
    char *id, *name, *idempotency_key; /* name, key: or NULL */
    pid_t pid;                         /* of pid 1, as the host sees it */
    uint64_t start;                    /* its start time, field 22 of /proc/PID/stat */
    char boot_id[40];
    uint64_t pid_ns; /* inode of its pid namespace; 0: not known */
    int ids;         /* abx_ids */
    uid_t uid;       /* host id of pid 1 */
    int slot;        /* or -1 */
    char skeleton[17];
    char *upper; /* folder of the layers outside of the sandbox's, or NULL */
    char *token;
    int64_t created_wall_ms;
    int64_t expires_wall_ms;  /* INT64_MAX: never */
    uint64_t expires_boot_ms; /* the same on the clock of boot; UINT64_MAX */
    uint64_t idle_ms;         /* 0: none */
    bool pause_on_limit;
    bool tied, copied_root, plain_usr;
    uint32_t weakened;
    abx_limits limits;
    abx_network network;
    abx_uplink_helper helper; /* of its network; pid 0: none */
    char *freezer;            /* control group of the commands (local/cgroup.h), or NULL */
    yyjson_doc *metadata;     /* object, or NULL */
    yyjson_doc *origin; /* what it was made from (template/stack.h); NULL: the host's system */
    /* not in the file: abx_state_add_record */
    bool paused;
    abx_pause_way pause_way;
    int64_t paused_wall_ms;
    uint64_t left_ms; /* of the time limit, UINT64_MAX: none */
} abx_state;

/* Read; 0, 1 when there is none (no error), -1 and *err (LOCAL_STATE: names the file). */
int abx_state_read(int folder_fd, abx_state *out, abx_error **err);
int abx_state_write(int folder_fd, const abx_state *state, abx_error **err);
/* The first one, where none is there yet: no rename; readers take an empty file for none. */
int abx_state_begin(int folder_fd, const abx_state *state, abx_error **err);
void abx_state_clear(abx_state *state);
/* Take in what pid 1 has written down since (see local/record.h): pauses, and a time limit that was moved. */
void abx_state_add_record(abx_state *state, int folder_fd);

/* The boot id of this machine, "" where /proc has none. */
void abx_boot_id(char out[40]);
/* Start time of a process and whether it is more than a zombie: 0, or -1 when there is none. */
int abx_process_start(pid_t pid, uint64_t *start, bool *is_zombie);
/* A pidfd of the very process that the state names, checked after it is open; -1 when it is gone. */
int abx_state_pidfd(const abx_state *state);

static inline void abx_state_auto_(abx_state *s)
{
    abx_state_clear(s);
}
#define ABX_AUTO_STATE __attribute__((cleanup(abx_state_auto_))) abx_state

#endif
