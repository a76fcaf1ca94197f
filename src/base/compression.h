/* Which compression bytes have, by their first ones. */
#ifndef ABX_BASE_COMPRESSION_H
#define ABX_BASE_COMPRESSION_H

#include <stddef.h>

/* "gzip", "zstd", "bzip2", "xz", "lz4", "zip", or NULL for none that is known. */
const char *abx_compression_of(const void *bytes, size_t n);

#endif
