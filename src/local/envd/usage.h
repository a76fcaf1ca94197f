/* What the processes and the files of this sandbox use. Reads /proc and the private layer; each call returns at once. */
#ifndef ABX_LOCAL_ENVD_USAGE_H
#define ABX_LOCAL_ENVD_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* --- usage.c: processes ------------------------------------------------------------------------------ */
typedef struct abx__used {
    pid_t pid;
    uint64_t anon, shared; /* bytes: its own memory, and what it maps of shared memory */
    uint64_t held;         /* bytes of files in memory that it has open (memfd) */
    uint64_t written; /* bytes of the disk, since it began, with those of its children that ended */
    uint64_t passed;  /* bytes given to write(2), the same */
    uint64_t cpu_us;  /* the same */
} abx__used;

typedef struct abx__usage {
    abx__used *list; /* all processes but pid 1 */
    size_t count;
    uint64_t memory;  /* bytes in all; an upper bound unless it was asked to be exact */
    uint64_t deleted; /* bytes on the disk of files that have no name any more */
    uint64_t cpu_us;  /* since the sandbox began, pid 1 with it */
} abx__usage;

enum {
    ABX__USE_MEMORY = 1,
    ABX__USE_EXACT = 2,
    ABX__USE_CPU = 4,
    ABX__USE_WRITTEN = 8,
    ABX__USE_DELETED = 16
};

/* what: bits of ABX__USE_…. disk_is_memory: files of the sandbox lie in memory and count as such. */
void abx__usage_read(abx__usage *u, int what, bool disk_is_memory);
void abx__usage_clear(abx__usage *u);
/* Bytes of memory that a program behind this text of /proc/PID/smaps maps and that are no file with a name, no memory
 * of its own and not among `files`. text is changed. For tests too. */
typedef struct abx__inodes abx__inodes;
uint64_t abx__smaps_shared(char *text, const abx__inodes *files);

/* --- disk_walk.c: files ------------------------------------------------------------------------------ */
typedef struct abx__walk abx__walk;

typedef struct abx__walked {
    uint64_t bytes; /* blocks of all, and half a KiB for each entry */
    uint64_t entries;
} abx__walked;

/* Begin at the folder of root_fd (borrowed until the end). NULL: cannot be read. */
abx__walk *abx__walk_new(int root_fd);
/* Look at up to n more entries. True: done, *out is filled. */
bool abx__walk_step(abx__walk *w, size_t n, abx__walked *out);
abx__walked abx__walk_so_far(const abx__walk *w);
void abx__walk_free(abx__walk *w); /* NULL: nothing */

#endif
