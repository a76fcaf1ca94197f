/* Any bytes as a multipart body: whole and in pieces it gives the same parts; and any text as a Content-Type. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "wire/multipart.h"

typedef struct sum {
    uint64_t hash;
    int open;
} sum;

static void mix(sum *s, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        s->hash = s->hash * 31 + ((const uint8_t *)bytes)[i];
}

static int on_part(const abx_multipart_part *p, void *user)
{
    sum *s = user;

    ABX_CHECK(!s->open);
    s->open = 1;
    mix(s, p->name, strlen(p->name) + 1);
    if (p->filename)
        mix(s, p->filename, strlen(p->filename) + 1);
    if (p->content_type)
        mix(s, p->content_type, strlen(p->content_type) + 1);
    return 0;
}

static int on_data(const uint8_t *bytes, size_t n, void *user)
{
    ABX_CHECK(((sum *)user)->open && n > 0);
    mix(user, bytes, n);
    return 0;
}

static int on_part_end(void *user)
{
    sum *s = user;

    ABX_CHECK(s->open);
    s->open = 0;
    mix(s, "end", 3);
    return 0;
}

static int run(const uint8_t *data, size_t size, size_t step, sum *s)
{
    static const abx_multipart_handlers handlers = {on_part, on_data, on_part_end};
    abx_multipart m;
    int rc = 0;

    abx_multipart_init(&m, "b", &handlers, s);
    for (size_t at = 0; rc == 0 && at < size; at += step)
        rc = abx_multipart_feed(&m, data + at, size - at < step ? size - at : step, NULL);
    if (rc == 0)
        rc = abx_multipart_end(&m, NULL);
    abx_multipart_clear(&m);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sum whole = {0}, pieces = {0};
    char boundary[ABX_MULTIPART_BOUNDARY_MAX + 1];

    if (size < 1)
        return 0;
    ABX_AUTO_FREE char *text = abx_strndup((const char *)data, size);
    if (abx_multipart_boundary(text, boundary) == 0)
        ABX_CHECK(*boundary);
    int a = run(data + 1, size - 1, size, &whole);
    int b = run(data + 1, size - 1, data[0] % 16 + 1, &pieces);
    ABX_CHECK(a == b && whole.hash == pieces.hash);
    return 0;
}
