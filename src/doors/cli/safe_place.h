/* Names of foreign origin below a folder: every step is made by descriptor, and no link is followed. */
#ifndef ABX_CLI_SAFE_PLACE_H
#define ABX_CLI_SAFE_PLACE_H

#include <stdbool.h>

#include "base/error.h"

/* A name without "." parts and double slashes. Owned; "" for the folder itself. NULL and *err (FILE) when it is absolute,
 * has a ".." part, or is over the limits of the system. */
char *abx_safe_name(const char *name, abx_error **err);
/* The folder that holds `name` (as abx_safe_name gives it, not ""), opened; *base is its last part (borrowed from name). make: folders
 * on the way are made with 0700. -1 and errno when a part is no folder (a link is none). */
int abx_safe_parent(int root, const char *name, bool make, const char **base);

#endif
