/* Names of foreign origin below a folder: every step is made by descriptor, and no link is followed. */
#ifndef ABX_CLI_SAFE_PLACE_H
#define ABX_CLI_SAFE_PLACE_H

#include "base/beneath.h" /* abx_safe_parent */
#include "base/error.h"

/* A name without "." parts and double slashes. Owned; "" for the folder itself. NULL and *err (FILE) when it is absolute,
 * has a ".." part, or is over the limits of the system. */
char *abx_safe_name(const char *name, abx_error **err);

#endif
