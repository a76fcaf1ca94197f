/* What pid 1 itself says about the sandbox's life: it pauses by itself when its time is over, and nobody of ours may be
 * there to write that down. The record lies in the sandbox's lock file, the one file of the host that pid 1 holds; an
 * empty file means that nothing has changed since the state was written. What is read comes from the inside: it is
 * checked, and believed in nothing but the state and the times that are shown. */
#ifndef ABX_LOCAL_RECORD_H
#define ABX_LOCAL_RECORD_H

#include <stdbool.h>
#include <stdint.h>

typedef enum abx_pause_way {
    ABX_PAUSE_SIGSTOP, /* pid 1 stopped every process */
    ABX_PAUSE_FREEZER, /* a cgroup's freezer holds them */
    ABX_PAUSE_WAY_COUNT
} abx_pause_way;

typedef struct abx_record {
    uint32_t magic, version; /* set by abx_record_write */
    uint32_t paused;         /* 0 or 1 */
    uint32_t way;            /* abx_pause_way, while paused */
    int64_t paused_wall_ms;  /* since when, while paused */
    int64_t expires_wall_ms; /* while running; INT64_MAX: never */
    uint64_t left_ms;        /* of the time limit, while paused; UINT64_MAX: none */
    uint64_t check;          /* over the bytes before; set by abx_record_write */
} abx_record;

/* Write it into the open lock file. 0, -1 with errno. */
int abx_record_write(int lock_fd, abx_record *record);
/* Read that of an open sandbox folder. 1 and *out; 0: there is none, or it is broken. */
int abx_record_read(int folder_fd, abx_record *out);

#endif
