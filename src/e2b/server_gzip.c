#include "e2b/server_inner.h"

#include <zlib.h>

struct abx__gunzip {
    z_stream z;
    bool whole;
    uint8_t out[32 * 1024];
};

abx__gunzip *abx__gunzip_new(void)
{
    abx__gunzip *g = ABX_NEW(abx__gunzip);
    ABX_CHECK(inflateInit2(&g->z, 16 + MAX_WBITS) == Z_OK);
    return g;
}

void abx__gunzip_free(abx__gunzip *g)
{
    if (!g)
        return;
    (void)inflateEnd(&g->z);
    free(g);
}

bool abx__gunzip_whole(const abx__gunzip *g)
{
    return g->whole;
}

int abx__gunzip_feed(abx__gunzip *g, const uint8_t *bytes, size_t n,
                     int (*sink)(void *arg, const uint8_t *bytes, size_t n), void *arg)
{
    g->z.next_in = (Bytef *)(uintptr_t)bytes;
    g->z.avail_in = (uInt)n;
    do {
        if (g->whole) { /* a further member may follow */
            if (g->z.avail_in == 0)
                return 0;
            if (inflateReset(&g->z) != Z_OK)
                return -1;
            g->whole = false;
        }
        g->z.next_out = g->out;
        g->z.avail_out = sizeof(g->out);
        int rc = inflate(&g->z, Z_NO_FLUSH);
        if (rc == Z_BUF_ERROR)
            return 0;
        if (rc != Z_OK && rc != Z_STREAM_END)
            return -1;
        g->whole = rc == Z_STREAM_END;
        size_t got = sizeof(g->out) - g->z.avail_out;
        if (got > 0 && sink(arg, g->out, got) < 0)
            return -2;
    } while (g->z.avail_in > 0 || g->z.avail_out == 0);
    return 0;
}

static int to_buf(void *arg, const uint8_t *bytes, size_t n)
{
    return abx_buf_add(arg, bytes, n);
}

int abx__gunzip_all(const uint8_t *bytes, size_t n, abx_buf *out)
{
    abx__gunzip *g = abx__gunzip_new();
    int rc = abx__gunzip_feed(g, bytes, n, to_buf, out);
    bool whole = g->whole;
    abx__gunzip_free(g);
    return rc == 0 && whole ? 0 : -1;
}
