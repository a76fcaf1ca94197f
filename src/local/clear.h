/* Finding the sandboxes and clearing those that ended without anybody to clear them. */
#ifndef ABX_LOCAL_CLEAR_H
#define ABX_LOCAL_CLEAR_H

#include <stdbool.h>
#include <stddef.h>

#include "local/backend.h"

/* Call fn for each folder of sandboxes (opened as `folder`, closed after it); limit 0: all, else at most that many,
 * starting anywhere. No folder at all: 0. -1 with errno. */
int abx_each_sandbox(abx_local *local, size_t limit,
                     void (*fn)(void *data, const char *id, int folder, bool alive), void *data);
/* Move the folder of a sandbox that does not live to the trash, under its lock, so that one that is just being made is
 * not taken. True if it was moved. */
bool abx_clear_dead(abx_local *local, const char *id, int folder);
/* A sandbox that serves although nobody ever wrote down what it is: its maker was killed in between. It is ended if its folder is
 * not so young that the maker may still be at it; a later command clears what it had. */
void abx_clear_unborn(int folder);

#endif
