/* Bytes as a conformance case writes them (docs/providers/conformance.md, "Bytes"): given by value or by a generator, and what is
 * expected of bytes that came. */
#ifndef ABX_SUITE_BYTES_H
#define ABX_SUITE_BYTES_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/json.h"

#define ABX_SUITE_BYTES_MAX ((size_t)64 * 1024 * 1024) /* of one text, input or output */
#define ABX_SUITE_PATTERN   65521 /* length of the block that a pattern repeats: a prime */

/* Append what the spec stands for. 0, or -1 and *err (USAGE). */
int abx_suite_bytes(yyjson_val *spec, abx_buf *out, abx_error **err);
/* True when the bytes are as expected; else *why (owned) tells the difference. */
bool abx_suite_bytes_fit(yyjson_val *spec, const void *have, size_t n, char **why);

#endif
