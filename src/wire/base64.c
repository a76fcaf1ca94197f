#include "wire/base64.h"

#include <stdlib.h>

#include "base/mem.h"

static const char letters[2][65] = {
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
};

/* The value of each letter plus one, so that 0 stands for "no letter". */
#define AZ(first, value)                                                                           \
    [first] = (value) + 1, [first + 1] = (value) + 2, [first + 2] = (value) + 3,                   \
    [first + 3] = (value) + 4, [first + 4] = (value) + 5, [first + 5] = (value) + 6,               \
    [first + 6] = (value) + 7, [first + 7] = (value) + 8, [first + 8] = (value) + 9,               \
    [first + 9] = (value) + 10, [first + 10] = (value) + 11, [first + 11] = (value) + 12,          \
    [first + 12] = (value) + 13
#define COMMON                                                                                     \
    AZ('A', 0), AZ('N', 13), AZ('a', 26),                                                          \
        AZ('n', 39), ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56, ['4'] = 57, ['5'] = 58,       \
                     ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62

static const uint8_t values[2][256] = {
    {COMMON, ['+'] = 63, ['/'] = 64},
    {COMMON, ['-'] = 63, ['_'] = 64},
};

size_t abx_base64_encode(const void *data, size_t n, char *out, abx_base64_alphabet alphabet,
                         bool padding)
{
    const uint8_t *in = data;
    const char *letter = letters[alphabet];
    char *to = out;

    for (; n >= 3; n -= 3, in += 3) {
        uint32_t v = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
        to[0] = letter[v >> 18];
        to[1] = letter[v >> 12 & 63];
        to[2] = letter[v >> 6 & 63];
        to[3] = letter[v & 63];
        to += 4;
    }
    if (n) {
        uint32_t v = (uint32_t)in[0] << 16 | (n == 2 ? (uint32_t)in[1] << 8 : 0);
        *to++ = letter[v >> 18];
        *to++ = letter[v >> 12 & 63];
        if (n == 2)
            *to++ = letter[v >> 6 & 63];
        for (size_t i = n; padding && i < 3; i++)
            *to++ = '=';
    }
    *to = 0;
    return (size_t)(to - out);
}

ssize_t abx_base64_decode(const char *text, size_t n, void *out, abx_base64_alphabet alphabet)
{
    const uint8_t *value = values[alphabet], *in = (const uint8_t *)text;
    uint8_t *to = out;

    if (n && n % 4 == 0 && in[n - 1] == '=')
        n -= in[n - 2] == '=' ? 2 : 1;
    if (n % 4 == 1)
        return -1;
    for (; n >= 4; n -= 4, in += 4) {
        uint32_t a = value[in[0]], b = value[in[1]], c = value[in[2]], d = value[in[3]];
        if (!a || !b || !c || !d)
            return -1;
        uint32_t v = (a - 1) << 18 | (b - 1) << 12 | (c - 1) << 6 | (d - 1);
        to[0] = (uint8_t)(v >> 16);
        to[1] = (uint8_t)(v >> 8);
        to[2] = (uint8_t)v;
        to += 3;
    }
    if (n) {
        uint32_t a = value[in[0]], b = value[in[1]], c = n == 3 ? value[in[2]] : 1;
        if (!a || !b || !c)
            return -1;
        uint32_t v = (a - 1) << 18 | (b - 1) << 12 | (c - 1) << 6;
        if (v & (n == 3 ? 0xffU : 0xffffU))
            return -1;
        *to++ = (uint8_t)(v >> 16);
        if (n == 3)
            *to++ = (uint8_t)(v >> 8);
    }
    return to - (uint8_t *)out;
}

char *abx_base64_text(const void *data, size_t n, abx_base64_alphabet alphabet, bool padding)
{
    char *out = abx_alloc(ABX_BASE64_ROOM(n));

    abx_base64_encode(data, n, out, alphabet, padding);
    return out;
}

uint8_t *abx_base64_bytes(const char *text, size_t n, abx_base64_alphabet alphabet, size_t *out_len)
{
    uint8_t *out = abx_alloc(ABX_BASE64_BYTES(n) + 1);
    ssize_t len = abx_base64_decode(text, n, out, alphabet);

    if (len < 0) {
        free(out);
        return NULL;
    }
    out[len] = 0;
    *out_len = (size_t)len;
    return out;
}
