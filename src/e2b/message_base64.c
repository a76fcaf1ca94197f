#include "e2b/message_base64.h"

static const char alphabet[64] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* 0..63, or 0x80 for what is no digit. */
static uint8_t digit_of(uint8_t c)
{
#define NONE_8 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80
    static const uint8_t table[256] = {
        NONE_8, NONE_8, NONE_8, NONE_8,                                     /* 0x00 */
        NONE_8, 0x80,   0x80,   0x80,   62,     0x80,   62,     0x80,   63, /* 0x20: + - / */
        52,     53,     54,     55,     56,     57,     58,     59,     60,
        61,     0x80,   0x80,   0x80,   0x80,   0x80,   0x80, /* 0x30 */
        0x80,   0,      1,      2,      3,      4,      5,      6,      7,
        8,      9,      10,     11,     12,     13,     14, /* 0x40 */
        15,     16,     17,     18,     19,     20,     21,     22,     23,
        24,     25,     0x80,   0x80,   0x80,   0x80,   63, /* 0x50: _ */
        0x80,   26,     27,     28,     29,     30,     31,     32,     33,
        34,     35,     36,     37,     38,     39,     40, /* 0x60 */
        41,     42,     43,     44,     45,     46,     47,     48,     49,
        50,     51,     0x80,   0x80,   0x80,   0x80,   0x80,           /* 0x70 */
        NONE_8, NONE_8, NONE_8, NONE_8, NONE_8, NONE_8, NONE_8, NONE_8, /* 0x80 */
        NONE_8, NONE_8, NONE_8, NONE_8, NONE_8, NONE_8, NONE_8, NONE_8, /* 0xc0 */
    };
#undef NONE_8
    return table[c];
}

size_t abx_e2b_base64_size(size_t n)
{
    return (n + 2) / 3 * 4;
}

void abx_e2b_base64_write(const void *bytes, size_t n, char *out)
{
    const uint8_t *in = bytes;
    for (; n >= 3; n -= 3, in += 3, out += 4) {
        uint32_t v = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
        out[0] = alphabet[v >> 18];
        out[1] = alphabet[v >> 12 & 63];
        out[2] = alphabet[v >> 6 & 63];
        out[3] = alphabet[v & 63];
    }
    if (n == 0)
        return;
    uint32_t v = (uint32_t)in[0] << 16 | (n == 2 ? (uint32_t)in[1] << 8 : 0);
    out[0] = alphabet[v >> 18];
    out[1] = alphabet[v >> 12 & 63];
    out[2] = n == 2 ? alphabet[v >> 6 & 63] : '=';
    out[3] = '=';
}

/* Two or three digits that are left at the end. */
static int read_tail(const uint8_t *in, size_t n, uint8_t *to, size_t *len)
{
    if (n == 0)
        return 0;
    if (n == 1)
        return -1;
    uint8_t a = digit_of(in[0]), b = digit_of(in[1]), c = n == 3 ? digit_of(in[2]) : 0;
    if ((a | b | c) & 0x80)
        return -1;
    to[(*len)++] = (uint8_t)(a << 2 | b >> 4);
    if (n == 3)
        to[(*len)++] = (uint8_t)(b << 4 | c >> 2);
    return 0;
}

int abx_e2b_base64_read(const char *text, size_t n, abx_buf *out)
{
    const uint8_t *in = (const uint8_t *)text;
    if (n > 0 && n % 4 == 0 && in[n - 1] == '=')
        n -= in[n - 2] == '=' ? 2 : 1;
    uint8_t *to = abx_buf_room(out, n / 4 * 3 + 3);
    if (!to)
        return -1;
    size_t len = 0;
    for (; n >= 4; n -= 4, in += 4) {
        uint8_t a = digit_of(in[0]), b = digit_of(in[1]), c = digit_of(in[2]), d = digit_of(in[3]);
        if ((a | b | c | d) & 0x80)
            return -1;
        to[len++] = (uint8_t)(a << 2 | b >> 4);
        to[len++] = (uint8_t)(b << 4 | c >> 2);
        to[len++] = (uint8_t)(c << 6 | d);
    }
    if (read_tail(in, n, to, &len) < 0)
        return -1;
    abx_buf_grow(out, len);
    return 0;
}
