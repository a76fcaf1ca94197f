/* The bytes of an input as a row of choices, for targets that build what they send. At the end of the input every choice
 * is the first. */
#ifndef ABX_TESTS_FUZZ_PICKS_H
#define ABX_TESTS_FUZZ_PICKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/mem.h"

typedef struct picks {
    const uint8_t *at;
    size_t left;
} picks;

static inline uint8_t pick_byte(picks *p)
{
    if (p->left == 0)
        return 0;
    p->left--;
    return *p->at++;
}

/* 0 to n-1. */
static inline size_t pick(picks *p, size_t n)
{
    return pick_byte(p) % n;
}

/* Some bytes of the input as they are: a view of *n bytes, at most 255. */
static inline const uint8_t *pick_bytes(picks *p, size_t *n)
{
    size_t want = pick_byte(p);
    const uint8_t *at = p->at;
    *n = want < p->left ? want : p->left;
    p->at += *n;
    p->left -= *n;
    return at;
}

/* One of a list of texts, or bytes of the input. */
#define PICK_TEXT(p, list, out) pick_text(p, list, ABX_COUNT(list), out)
static inline void pick_text(picks *p, const char *const *list, size_t count, abx_buf *out)
{
    size_t k = pick(p, count + 1), n = 0;
    if (k < count) {
        ABX_CHECK(abx_buf_add_str(out, list[k]) == 0);
        return;
    }
    const uint8_t *bytes = pick_bytes(p, &n);
    ABX_CHECK(abx_buf_add(out, bytes, n) == 0);
}

/* The same as what stands between the quotes of a JSON text: mostly valid. */
static inline void pick_json_text(picks *p, const char *const *list, size_t count, abx_buf *out)
{
    ABX_AUTO_BUF text = ABX_BUF(4096);
    pick_text(p, list, count, &text);
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        int rc = c < 0x20   ? abx_buf_addf(out, "\\u%04x", c)
                 : c == '"' ? abx_buf_add_str(out, "\\\"")
                            : abx_buf_add_byte(out, c);
        ABX_CHECK(rc == 0);
    }
}

#endif
