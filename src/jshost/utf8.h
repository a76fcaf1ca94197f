/* UTF-8 as the web's encoding standard decodes it: what is wrong becomes U+FFFD, one for each maximal part. No I/O. */
#ifndef ABX_JSHOST_UTF8_H
#define ABX_JSHOST_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct abx_utf8_decoder {
    uint32_t point;
    uint8_t needed, seen, lower, upper; /* lower 0: 0x80; upper 0: 0xBF */
    bool wrong;                         /* out: a replacement was made */
} abx_utf8_decoder;

/* Decode n bytes to UTF-16 units: out has room for n + 1. last: the stream ends here. How many were written. */
size_t abx_utf8_decode(abx_utf8_decoder *d, const uint8_t *bytes, size_t n, bool last,
                       uint16_t *out);
/* The character at units (n > 0 of them) as UTF-8, a lone surrogate as U+FFFD: how many bytes of out; *taken: units. */
size_t abx_utf8_encode_one(const uint16_t *units, size_t n, size_t *taken, uint8_t out[4]);
/* Lone surrogates that the engine writes as three bytes become U+FFFD, in place (the same length). */
void abx_utf8_repair(char *text, size_t n);

#endif
