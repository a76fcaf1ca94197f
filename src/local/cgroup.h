/* Control groups: where the caller may make some, a sandbox that was given limits gets a group of its own, and its
 * limits are the kernel's. A sandbox without limits has none and pays nothing.
 *
 * In each hierarchy that is used (version 2: one tree; version 1: one a controller) the folder is BASE/abx/ID. pid 1
 * sits in it. Commands sit in its child BASE/abx/ID/c in the one hierarchy that can freeze: so a pause never stops
 * pid 1. The sandbox's folder keeps a note of all of them (written first), by which who comes later clears them.
 *
 * Everything here works on files of /sys/fs/cgroup and returns at once. Any thread; no state. */
#ifndef ABX_LOCAL_CGROUP_H
#define ABX_LOCAL_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/mem.h"

/* --- finding: cgroup_find.c ------------------------------------------------------------------------- */

/* One hierarchy, as this process sees it. */
typedef struct abx_cgroup_tree {
    int version; /* 0: not there, 1 or 2 */
    char *top;   /* its mount point */
    char *own;   /* folder of this process in it; NULL: cannot be seen from here */
} abx_cgroup_tree;

typedef enum abx_cgroup_use {
    ABX_CGROUP_UNIFIED, /* the tree of version 2 */
    ABX_CGROUP_MEMORY,  /* of version 1, from here on */
    ABX_CGROUP_CPU,
    ABX_CGROUP_PIDS,
    ABX_CGROUP_FREEZER,
    ABX_CGROUP_CPUACCT,
    ABX_CGROUP_USES
} abx_cgroup_use;

typedef struct abx_cgroup_map {
    abx_cgroup_tree trees[ABX_CGROUP_USES];
} abx_cgroup_map;

/* Read the text of /proc/self/cgroup and /proc/self/mountinfo. Never fails: what is not understood is not there. */
void abx_cgroup_map_parse(const char *cgroup, const char *mountinfo, abx_cgroup_map *out);
/* The same from /proc. */
void abx_cgroup_map_read(abx_cgroup_map *out);
void abx_cgroup_map_clear(abx_cgroup_map *map);

/* --- making: cgroup_make.c --------------------------------------------------------------------------- */

/* What is asked for; 0: no such limit. */
typedef struct abx_cgroup_want {
    uint64_t memory_bytes;
    uint32_t cpu_millis; /* 1000: one processor */
    uint32_t processes;
} abx_cgroup_want;

enum { ABX_CGROUP_FOLDERS = 8, ABX_CGROUP_ENTER = 6 };

/* A sandbox's groups while it is made. */
typedef struct abx_cgroups {
    char *folders[ABX_CGROUP_FOLDERS]; /* in the order of making */
    size_t count;
    /* which version holds a limit; 0: none does */
    int memory, cpu, processes;
    char *freezer; /* folder of the commands, or NULL: they cannot be frozen */
    int enter
        [ABX_CGROUP_ENTER]; /* cgroup.procs of each hierarchy, for pid 1 to write "0" to; -1 at the end */
    int commands;           /* the same of `freezer`, for each command; -1 */
    int freeze,
        frozen;    /* of `freezer`: where pid 1 asks for it, and reads whether it is done; -1 */
    int events;    /* counts processes killed for memory: abx_cgroup_kills; -1 */
    char why[160]; /* why the memory or the cpu limit is not held, "" */
} abx_cgroups;

void abx_cgroups_init(abx_cgroups *g); /* empty */
/* Make the groups of sandbox `id`. note_fd: its folder, where the note goes first. What cannot be had is left out and
 * told in g->why; that is no error. 0, or -1 and *err: the note cannot be written. */
int abx_cgroups_make(abx_cgroups *g, const abx_cgroup_map *map, const char *id, int note_fd,
                     const abx_cgroup_want *want, abx_error **err);
/* Close the descriptors, forget the rest. The groups stay. */
void abx_cgroups_clear(abx_cgroups *g);
/* Enter the groups (for the calling process); then nothing of g->enter is open. 0, or -1 with errno. */
int abx_cgroups_enter(abx_cgroups *g);

/* --- a living sandbox's: cgroup_use.c ---------------------------------------------------------------- */

/* Freeze the commands of a sandbox, or let them go on. freezer: the folder that its state names. pid 1 is not in it
 * and runs on. Only asks: whether it is done says abx_cgroup_is_frozen, to be asked again every few milliseconds
 * (version 1 may need to be asked to freeze again, too). pid 1 must not start a command meanwhile: its vfork would
 * wait for one that is frozen. 0, or -1 and *err (ISOLATION). */
int abx_cgroup_freeze(const char *freezer, bool frozen, abx_error **err);
/* 1: all are frozen; 0: they run, or not all are frozen yet; -1: there is no such group. */
int abx_cgroup_is_frozen(const char *freezer);
/* The same two by the descriptors of abx_cgroups, for pid 1 itself; a cgroup without a member is frozen at once. */
int abx_cgroup_ask_freeze(int freeze_fd, bool frozen);
int abx_cgroup_see_frozen(int frozen_fd);
/* How many processes were killed for memory, by abx_cgroups.events. -1: cannot be read. Async-signal-safe. */
int64_t abx_cgroup_kills(int events_fd);

/* Numbers of a group, -1 where there is none. */
typedef struct abx_cgroup_usage {
    int64_t memory_bytes; /* without the cache of files */
    int64_t cache_bytes;
    int64_t cpu_usec; /* since it was made */
    int64_t processes;
} abx_cgroup_usage;
/* Of the groups in the note of a sandbox's folder. 0; 1: it has none. */
int abx_cgroup_usage_read(int folder_fd, abx_cgroup_usage *out);

/* Thaw what is frozen, kill what still lives in them, and remove the groups of the note. 0: they are gone, or there is
 * no note; 1: some still hold processes that are ending: to be called again. */
int abx_cgroup_remove(int folder_fd);
/* Remove groups below our bases in which nothing lives and nothing was made for a minute. Returns how many. */
int abx_cgroup_sweep(const abx_cgroup_map *map, bool dry);

#endif
