/* What a conformance case expects of a JSON value (docs/providers/conformance.md, "Values"): an object holds at least these
 * members, everything else is equal, and members that begin with '$' ask for less than equality. */
#ifndef ABX_SUITE_MATCH_H
#define ABX_SUITE_MATCH_H

#include <stdbool.h>

#include "base/json.h"

/* True when `have` (NULL: absent) is as `want` says; else *why (owned) tells where, beginning with `path`. */
bool abx_suite_fits(yyjson_val *want, yyjson_val *have, const char *path, char **why);
/* The value at "a.b.0.c" below root, or NULL. */
yyjson_val *abx_suite_at(yyjson_val *root, const char *path);

#endif
