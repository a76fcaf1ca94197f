/* Names of members that stand more than once in an object, found in time that grows with n log n: whoever puts many members
 * into an object looks here first, and then adds them without a look (abx_mut_add). */
#ifndef ABX_BASE_JSON_NAMES_H
#define ABX_BASE_JSON_NAMES_H

#include <yyjson.h>

/* A name (its key) that stands twice in this object itself; NULL: none does, or it is no object. */
yyjson_val *abx_json_twice(yyjson_val *obj);
/* The same in v and in all that it holds. v is no deeper than ABX_JSON_DEPTH. */
yyjson_val *abx_json_twice_within(yyjson_val *v);
/* Of members of obj with the same name only the last one stays. The order of what stays is kept. */
void abx_mut_keep_last(yyjson_mut_val *obj);

#endif
