/* What the two ends of the starter say to each other. */
#ifndef ABX_LOCAL_STARTER_MESSAGE_H
#define ABX_LOCAL_STARTER_MESSAGE_H

#include "base/buf.h"
#include "base/json.h"
#include "local/local.h"

#define ABX_STARTER_MAX (8u << 20) /* bytes of one message */

/* Append 4 bytes of length and the JSON text of v. 0, or -1: too long. */
int abx_starter_frame(yyjson_mut_val *v, abx_buf *out);
/* A whole frame at the start of in? Its JSON in *doc. 1, 0 when bytes are missing, -1 and *err. */
int abx_starter_parse(const abx_buf *in, yyjson_doc **doc, abx_error **err);

/* A spec as an object, and back: strings and lists are borrowed from the object; *weaker is a list that the caller
 * frees. */
yyjson_mut_val *abx_starter_spec(yyjson_mut_doc *d, const abx_local_spec *spec);
void abx_starter_read_spec(yyjson_val *v, abx_local_spec *spec, const char ***weaker);

#endif
