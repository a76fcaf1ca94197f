#include "e2b/server_inner.h"

#include <zlib.h>

struct abx__gunzip {
    z_stream z;
    bool whole;
    abx_buf rest; /* of a feed that was held */
    uint8_t out[32 * 1024];
};

abx__gunzip *abx__gunzip_new(void)
{
    abx__gunzip *g = ABX_NEW(abx__gunzip);
    ABX_CHECK(inflateInit2(&g->z, 16 + MAX_WBITS) == Z_OK);
    abx_buf_init(&g->rest, ABX__MAX_MESSAGE);
    return g;
}

void abx__gunzip_free(abx__gunzip *g)
{
    if (!g)
        return;
    (void)inflateEnd(&g->z);
    abx_buf_clear(&g->rest);
    free(g);
}

bool abx__gunzip_whole(const abx__gunzip *g)
{
    return g->whole;
}

typedef int (*sink_fn)(void *arg, const uint8_t *bytes, size_t n);

static int unpack(abx__gunzip *g, sink_fn sink, void *arg)
{
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
        rc = got > 0 ? sink(arg, g->out, got) : 0;
        if (rc < 0)
            return -2;
        if (rc > 0) {
            ABX_CHECK(abx_buf_add(&g->rest, g->z.next_in, g->z.avail_in) == 0);
            return 1;
        }
    } while (g->z.avail_in > 0 || g->z.avail_out == 0);
    return 0;
}

int abx__gunzip_feed(abx__gunzip *g, const uint8_t *bytes, size_t n, sink_fn sink, void *arg)
{
    g->z.next_in = (Bytef *)(uintptr_t)bytes;
    g->z.avail_in = (uInt)n;
    return unpack(g, sink, arg);
}

int abx__gunzip_go_on(abx__gunzip *g, sink_fn sink, void *arg)
{
    ABX_AUTO_BUF rest = g->rest;
    abx_buf_init(&g->rest, ABX__MAX_MESSAGE);
    return abx__gunzip_feed(g, rest.data, rest.len, sink, arg);
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
