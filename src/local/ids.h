/* Which ids a sandbox gets: what the caller is, what its range is, and the texts of the maps. */
#ifndef ABX_LOCAL_IDS_H
#define ABX_LOCAL_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* One line of an id map: inside, outside, count. */
typedef struct abx_id_line {
    uint32_t inside, outside, count;
} abx_id_line;

/* "INSIDE OUTSIDE COUNT\n" for each line. Returns the length, or -1 when it does not fit. */
int abx_id_map_text(const abx_id_line *lines, size_t n, char *out, size_t room);
/* The three lines of a range: 0..999 from sub, 1000 the caller, the rest from sub + 1000. Returns their number, or
 * 0 when count is too small (below 1,001). */
size_t abx_id_range_lines(uint32_t caller, uint32_t sub, uint32_t count, abx_id_line out[3]);

/* The caller's line in a text of the form of /etc/subuid (NAME-OR-ID:FIRST:COUNT): the largest one. True when there
 * is one. name may be NULL. */
bool abx_subid_find(const char *text, const char *name, uint32_t id, uint32_t *first,
                    uint32_t *count);
/* The same from the files, for this process's user; 0, or -1 and *err (ISOLATION, layer range). */
int abx_subid_read(uint32_t *uid_first, uint32_t *uid_count, uint32_t *gid_first,
                   uint32_t *gid_count, abx_error **err);

/* True if the ids FIRST..FIRST+COUNT-1 are mapped where this process runs (/proc/self/uid_map). */
bool abx_ids_mapped(const char *map_text, uint32_t first, uint32_t count);
/* The id outside of this namespace that `id` is, by that text; UINT32_MAX: none. */
uint32_t abx_id_outside(const char *map_text, uint32_t id);

#endif
