#include "base/compression.h"

#include <string.h>

#include "base/mem.h"

const char *abx_compression_of(const void *bytes, size_t n)
{
    static const struct {
        const char *magic;
        size_t len;
        const char *name;
    } rows[] = {{"\x1f\x8b", 2, "gzip"},
                {"\x28\xb5\x2f\xfd", 4, "zstd"},
                {"BZh", 3, "bzip2"},
                {"\xfd"
                 "7zXZ",
                 5, "xz"},
                {"\x04\x22\x4d\x18", 4, "lz4"},
                {"PK\x03\x04", 4, "zip"}};
    for (size_t i = 0; i < ABX_COUNT(rows); i++)
        if (n >= rows[i].len && memcmp(bytes, rows[i].magic, rows[i].len) == 0)
            return rows[i].name;
    return NULL;
}
