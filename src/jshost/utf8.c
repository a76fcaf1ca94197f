#include "jshost/utf8.h"

static void begin(abx_utf8_decoder *d, uint8_t b, uint16_t **out)
{
    d->lower = 0x80;
    d->upper = 0xBF;
    d->seen = 0;
    if (b < 0x80) {
        *(*out)++ = b;
    } else if (b >= 0xC2 && b <= 0xDF) {
        d->needed = 1;
        d->point = b & 0x1F;
    } else if (b >= 0xE0 && b <= 0xEF) {
        d->lower = b == 0xE0 ? 0xA0 : 0x80;
        d->upper = b == 0xED ? 0x9F : 0xBF;
        d->needed = 2;
        d->point = b & 0x0F;
    } else if (b >= 0xF0 && b <= 0xF4) {
        d->lower = b == 0xF0 ? 0x90 : 0x80;
        d->upper = b == 0xF4 ? 0x8F : 0xBF;
        d->needed = 3;
        d->point = b & 0x07;
    } else {
        *(*out)++ = 0xFFFD;
        d->wrong = true;
    }
}

static void put_point(uint32_t point, uint16_t **out)
{
    if (point < 0x10000) {
        *(*out)++ = (uint16_t)point;
        return;
    }
    *(*out)++ = (uint16_t)(0xD800 + ((point - 0x10000) >> 10));
    *(*out)++ = (uint16_t)(0xDC00 + ((point - 0x10000) & 0x3FF));
}

size_t abx_utf8_decode(abx_utf8_decoder *d, const uint8_t *bytes, size_t n, bool last,
                       uint16_t *out)
{
    uint16_t *at = out;
    for (size_t i = 0; i < n; i++) {
        uint8_t b = bytes[i];
        if (d->needed == 0) {
            begin(d, b, &at);
            continue;
        }
        if (b < d->lower || b > d->upper) { /* the part before it is wrong, it begins anew */
            d->needed = 0;
            d->wrong = true;
            *at++ = 0xFFFD;
            begin(d, b, &at);
            continue;
        }
        d->lower = 0x80;
        d->upper = 0xBF;
        d->point = d->point << 6 | (b & 0x3F);
        if (++d->seen == d->needed) {
            d->needed = 0;
            put_point(d->point, &at);
        }
    }
    if (last && d->needed) {
        d->needed = 0;
        d->wrong = true;
        *at++ = 0xFFFD;
    }
    return (size_t)(at - out);
}

void abx_utf8_repair(char *text, size_t n)
{
    uint8_t *p = (uint8_t *)text;
    for (size_t i = 0; i + 2 < n; i++)
        if (p[i] == 0xED && p[i + 1] >= 0xA0) {
            p[i] = 0xEF;
            p[i + 1] = 0xBF;
            p[i + 2] = 0xBD;
        }
}

size_t abx_utf8_encode_one(const uint16_t *units, size_t n, size_t *taken, uint8_t out[4])
{
    uint32_t c = units[0];
    *taken = 1;
    if (c >= 0xD800 && c <= 0xDFFF) {
        bool pair = c <= 0xDBFF && n > 1 && units[1] >= 0xDC00 && units[1] <= 0xDFFF;
        *taken = pair ? 2 : 1;
        c = pair ? 0x10000 + ((c - 0xD800) << 10) + (units[1] - 0xDC00u) : 0xFFFD;
    }
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    size_t len = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, c >>= 6)
        out[i] = (uint8_t)(0x80 | (c & 0x3F));
    out[0] = (uint8_t)((0xF00 >> len & 0xFF) | c);
    return len;
}
