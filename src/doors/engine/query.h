/* Parameters in the query of a URL. */
#ifndef ABX_DOORS_ENGINE_QUERY_H
#define ABX_DOORS_ENGINE_QUERY_H

#include "base/json.h"
#include "ops/ops.h"

/* Put each NAME=VALUE of a query into an object, with the type that the table gives NAME: text as it is; INT and NUMBER as digits; BOOL as true
 * or false (no value: true); ARGV, LIST: one item each time that it is there; MAP: NAME=KEY=VALUE each time; OBJECT: JSON. '+' is a blank. 0,
 * or -1 and USAGE. */
int engine_query_read(const abx_op_row *row, const char *query, yyjson_mut_doc *d,
                      yyjson_mut_val *root, abx_error **err);

#endif
