/* Removing files that belong to the caller's subordinate ids. */
#ifndef ABX_LOCAL_RANGE_REMOVE_H
#define ABX_LOCAL_RANGE_REMOVE_H

/* Remove the tree `name` below dirfd in a child that has the caller's whole range of ids. Waits for it. 0, or -1 when
 * there is no range or something stays. */
int abx_range_remove(int dirfd, const char *name);

#endif
