/* Removing files that belong to the caller's subordinate ids. */
#ifndef ABX_LOCAL_RANGE_REMOVE_H
#define ABX_LOCAL_RANGE_REMOVE_H

#include <stdint.h>

/* Remove the tree `name` below dirfd in a child that has the caller's whole range of ids, until this time of abx_now_mono_ms at
 * the most. Waits for it. 0; 1: the time is over; -1: there is no range, or something stays. */
int abx_range_remove(int dirfd, const char *name, uint64_t until_ms);

#endif
