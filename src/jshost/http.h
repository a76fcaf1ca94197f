/* Headers between JavaScript and the wire, for the natives of the network. */
#ifndef ABX_JSHOST_HTTP_H
#define ABX_JSHOST_HTTP_H

#include "jshost/js.h"

#define ABX_JS_HEADERS_MAX 1000

/* "Name: value" of each pair of [name, value, …]. Owned; NULL with an exception pending. */
char **abx__js_header_lines(JSContext *ctx, JSValueConst list, size_t *count);
void abx__js_lines_free(char **lines, size_t count); /* NULL allowed */

#endif
