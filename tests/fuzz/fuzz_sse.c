/* Any bytes as an event stream: whole and in pieces it gives the same events, and an event that is written again
 * is read as the same. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "wire/sse.h"

typedef struct sum {
    uint64_t hash;
    bool again;
} sum;

static void mix(sum *s, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        s->hash = s->hash * 31 + ((const uint8_t *)bytes)[i];
}

static void on_event(const abx_sse_event *e, void *user)
{
    sum *s = user, inner = {.again = true};

    mix(s, e->event, strlen(e->event) + 1);
    mix(s, e->data, e->data_len);
    if (s->again)
        return;
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX);
    abx_sse_parser p;
    abx_sse_format(&text, e->event, NULL, e->data, e->data_len);
    abx_sse_parser_init(&p, 1 << 20, on_event, &inner);
    ABX_CHECK(abx_sse_parser_feed(&p, text.data, text.len, NULL) == 0);
    abx_sse_parser_clear(&p);
    sum plain = {0};
    mix(&plain, e->event, strlen(e->event) + 1);
    mix(&plain, e->data, e->data_len);
    ABX_CHECK(plain.hash == inner.hash);
}

static int run(const uint8_t *data, size_t size, size_t step, sum *s)
{
    abx_sse_parser p;
    int rc = 0;

    abx_sse_parser_init(&p, 1000, on_event, s);
    for (size_t at = 0; rc == 0 && at < size; at += step)
        rc = abx_sse_parser_feed(&p, data + at, size - at < step ? size - at : step, NULL);
    abx_sse_parser_clear(&p);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sum whole = {0}, pieces = {0};

    if (size < 1)
        return 0;
    int a = run(data + 1, size - 1, size, &whole);
    int b = run(data + 1, size - 1, data[0] % 16 + 1, &pieces);
    ABX_CHECK(a == b && whole.hash == pieces.hash);
    return 0;
}
