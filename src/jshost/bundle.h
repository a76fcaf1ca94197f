/* The files of a module as the host hands them over: a JSON head {id, entry, features} and path → bytes. No I/O. */
#ifndef ABX_JSHOST_BUNDLE_H
#define ABX_JSHOST_BUNDLE_H

#include "base/buf.h"
#include "base/json.h"

#define ABX_JS_BUNDLE_MAX ((size_t)160 << 20)

/* Writing. 0, or -1: over the buffer's limit. */
int abx_js_bundle_begin(abx_buf *out, yyjson_mut_val *head);
int abx_js_bundle_add(abx_buf *out, const char *path, const char *text, size_t n);

typedef struct abx_js_file {
    const char *path,
        *text; /* borrowed from the bytes that were read; each with a 0 byte behind it */
    size_t len;
} abx_js_file;

typedef struct abx_js_bundle {
    yyjson_doc *head;
    abx_js_file *files;
    size_t count;
} abx_js_bundle;

/* bytes: borrowed, must stay. 0, or -1 and *err. */
int abx_js_bundle_read(abx_js_bundle *b, const void *bytes, size_t n, abx_error **err);
const abx_js_file *abx_js_bundle_find(const abx_js_bundle *b, const char *path); /* or NULL */
void abx_js_bundle_clear(abx_js_bundle *b);

#endif
