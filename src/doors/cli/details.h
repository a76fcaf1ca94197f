/* One object for people: "key: value" lines, nested members indented by their path. */
#ifndef ABX_CLI_DETAILS_H
#define ABX_CLI_DETAILS_H

#include "base/buf.h"
#include "base/json.h"

/* Append one line a member; those of nested objects as "features.pty". */
void abx_details(yyjson_val *object, abx_buf *out);

#endif
