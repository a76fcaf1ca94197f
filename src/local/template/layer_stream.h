/* The bytes of a layer: a blob, maybe compressed (gzip, zstd), as the tar stream that it holds, with both digests counted on the
 * way. */
#ifndef ABX_LOCAL_TEMPLATE_LAYER_STREAM_H
#define ABX_LOCAL_TEMPLATE_LAYER_STREAM_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/sha256.h"

/* Where bytes come from. */
typedef struct abx_blob {
    /* The next bytes, valid until the next call: their number, 0 at the end, -1 and *err. */
    ssize_t (*read)(void *data, const void **bytes, abx_error **err);
    void *data;
} abx_blob;

typedef struct abx_layer_stream abx_layer_stream;

/* most: bytes that may come out, more is an error. NULL and *err. */
abx_layer_stream *abx_layer_stream_open(const abx_blob *blob, uint64_t most, abx_error **err);
/* As abx_blob.read. */
ssize_t abx_layer_stream_read(abx_layer_stream *s, const void **bytes, abx_error **err);
/* Read what is left and tell the digests of the blob and of what came out. 0 or -1 and *err. */
int abx_layer_stream_finish(abx_layer_stream *s, char blob_hex[65], char diff_hex[65],
                            abx_error **err);
void abx_layer_stream_close(abx_layer_stream *s); /* NULL allowed */

#endif
