/* Base64 (RFC 4648), standard and URL alphabet. */
#ifndef ABX_WIRE_BASE64_H
#define ABX_WIRE_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef enum abx_base64_alphabet {
    ABX_BASE64_STANDARD, /* + and / */
    ABX_BASE64_URL       /* - and _ */
} abx_base64_alphabet;

/* Room that n bytes take when encoded, padding and the ending 0 included. */
#define ABX_BASE64_ROOM(n)  (((size_t)(n) + 2) / 3 * 4 + 1)
/* Bytes that n characters can decode to at most. */
#define ABX_BASE64_BYTES(n) ((size_t)(n) / 4 * 3 + 3)

/* Write n bytes as text, 0-terminated, to out (ABX_BASE64_ROOM(n)). Returns the text's length. */
size_t abx_base64_encode(const void *data, size_t n, char *out, abx_base64_alphabet alphabet,
                         bool padding);
/* Read n characters into out (ABX_BASE64_BYTES(n)). Padding may be there or not; blanks and line breaks
 * are not base64, neither are set bits behind the last byte. Returns the count of bytes, or -1. */
ssize_t abx_base64_decode(const char *text, size_t n, void *out, abx_base64_alphabet alphabet);

/* The same with memory of their own, 0-terminated; the caller frees. decode answers NULL for broken text. */
char *abx_base64_text(const void *data, size_t n, abx_base64_alphabet alphabet, bool padding);
uint8_t *abx_base64_bytes(const char *text, size_t n, abx_base64_alphabet alphabet,
                          size_t *out_len);

#endif
