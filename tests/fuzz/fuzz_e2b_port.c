/* Any bytes as the answer of a service on a port of a sandbox: whole and in pieces it is the same answer. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doors/e2b/data_inner.h"

typedef struct sum {
    uint64_t hash;
    int heads, ends;
} sum;

static void mix(sum *s, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        s->hash = s->hash * 31 + ((const uint8_t *)bytes)[i];
}

static void on_head(void *data, int status, const char *const *lines, size_t count, int64_t length)
{
    sum *s = data;
    ABX_CHECK(s->heads++ == 0 && status >= 0 && length >= -1);
    mix(s, &status, sizeof(status));
    for (size_t i = 0; i < count; i++)
        mix(s, lines[i], strlen(lines[i]) + 1);
}

static void on_body(void *data, const uint8_t *bytes, size_t n)
{
    sum *s = data;
    ABX_CHECK(s->heads == 1 && s->ends == 0 && n > 0);
    mix(s, bytes, n);
}

static void on_end(void *data)
{
    sum *s = data;
    ABX_CHECK(s->heads == 1 && s->ends++ == 0);
}

/* The count of bytes that were taken; -1: it is no answer. */
static ssize_t run(const uint8_t *data, size_t size, size_t step, bool head_only, sum *s)
{
    static const e2b_answer_handlers on = {on_head, on_body, on_end};
    e2b_answer_parser *p = e2b_answer_new(&on, s, head_only);
    size_t at = 0;
    ssize_t taken = 0;
    while (at < size && taken >= 0) {
        size_t len = size - at < step ? size - at : step;
        taken = e2b_answer_feed(p, data + at, len);
        ABX_CHECK(taken <= (ssize_t)len);
        at += taken > 0 ? (size_t)taken : 0;
        if (taken < (ssize_t)len)
            break;
    }
    if (taken >= 0)
        (void)e2b_answer_eof(p);
    e2b_answer_free(p);
    return taken < 0 ? -1 : (ssize_t)at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    bool head_only = data[0] & 1;
    size_t step = (size_t)(data[1] % 16) + 1;
    sum whole = {0}, pieces = {0};
    ssize_t all = run(data + 2, size - 2, size, head_only, &whole);
    ssize_t some = run(data + 2, size - 2, step, head_only, &pieces);
    ABX_CHECK(all == some);
    if (all >= 0)
        ABX_CHECK(whole.hash == pieces.hash && whole.heads == pieces.heads &&
                  whole.ends == pieces.ends);
    return 0;
}
