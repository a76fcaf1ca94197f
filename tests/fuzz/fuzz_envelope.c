/* Any bytes as a Connect stream: whole and in pieces it gives the same messages. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "wire/envelope.h"

typedef struct sum {
    uint64_t hash;
    size_t count;
} sum;

static int on_message(uint8_t flags, const uint8_t *bytes, size_t n, void *user)
{
    sum *s = user;

    s->hash = s->hash * 31 + flags;
    for (size_t i = 0; i < n; i++)
        s->hash = s->hash * 31 + bytes[i];
    s->count++;
    return 0;
}

static int run(const uint8_t *data, size_t size, size_t step, sum *s)
{
    abx_envelope_decoder d;
    int rc = 0;

    abx_envelope_decoder_init(&d, 1000, on_message, s);
    for (size_t at = 0; rc == 0 && at < size; at += step)
        rc = abx_envelope_decoder_feed(&d, data + at, size - at < step ? size - at : step, NULL,
                                       NULL);
    abx_envelope_decoder_clear(&d);
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
    ABX_CHECK(a == b && whole.hash == pieces.hash && whole.count == pieces.count);
    return 0;
}
