#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

bool abx_has_prefix(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool abx_has_suffix(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

/* Length of the character that begins at p (1 to 4) if it is whole and well-formed; 0 if it is broken; -1 if it
 * is a correct beginning that the end of the text cuts off. */
static int utf8_step(const uint8_t *p, size_t left)
{
    uint8_t c = p[0];
    if (c < 0x80)
        return 1;
    int n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4)
        return 0;
    for (int i = 1; i < n; i++) {
        if ((size_t)i >= left)
            return -1;
        uint8_t low = 0x80, high = 0xbf;
        if (i == 1) {
            if (c == 0xe0)
                low = 0xa0;
            if (c == 0xed)
                high = 0x9f;
            if (c == 0xf0)
                low = 0x90;
            if (c == 0xf4)
                high = 0x8f;
        }
        if (p[i] < low || p[i] > high)
            return 0;
    }
    return n;
}

#define EACH_BYTE(value) (0x0101010101010101ULL * (uint64_t)(value))

static uint64_t eight(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Not 0 when a byte of the word is 0. */
static uint64_t has_zero(uint64_t word)
{
    return (word - EACH_BYTE(1)) & ~word & EACH_BYTE(0x80);
}

size_t abx_json_plain(const void *data, size_t n)
{
    const uint8_t *p = data;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t w = eight(p + i);
        uint64_t control = (w - EACH_BYTE(0x20)) & ~w & EACH_BYTE(0x80);
        if (control | has_zero(w ^ EACH_BYTE('"')) | has_zero(w ^ EACH_BYTE('\\')))
            break;
    }
    while (i < n && p[i] >= 0x20 && p[i] != '"' && p[i] != '\\')
        i++;
    return i;
}

bool abx_utf8_valid(const void *data, size_t n)
{
    const uint8_t *p = data;
    size_t i = 0;
    while (i < n) {
        while (i + 8 <= n && !(eight(p + i) & EACH_BYTE(0x80)))
            i += 8;
        if (i == n)
            return true;
        int step = utf8_step(p + i, n - i);
        if (step <= 0)
            return false;
        i += (size_t)step;
    }
    return true;
}

size_t abx_utf8_whole(const void *data, size_t n)
{
    const uint8_t *p = data;
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        uint8_t c = p[n - back];
        if (c < 0x80)
            return n;
        if (c >= 0xc0)
            return utf8_step(p + n - back, back) == -1 ? n - back : n;
    }
    return n;
}

static bool is_zero_width(uint32_t c)
{
    return (c >= 0x300 && c <= 0x36f) || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0xfe00 && c <= 0xfe0f);
}

static bool is_wide(uint32_t c)
{
    return (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) ||
           (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xf900 && c <= 0xfaff) ||
           (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
           (c >= 0x1f300 && c <= 0x1faff) || (c >= 0x20000 && c <= 0x3fffd);
}

/* The character of n bytes at p; n <= 1: the byte itself. */
static uint32_t utf8_char(const uint8_t *p, int n)
{
    if (n <= 1)
        return p[0];
    uint32_t c = p[0] & (0xffU >> (n + 1));
    for (int i = 1; i < n; i++)
        c = c << 6 | (p[i] & 0x3f);
    return c;
}

/* Marks that turn the direction of what follows, so that a text looks like another one. */
static bool is_direction(uint32_t c)
{
    return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

size_t abx_utf8_columns(const char *s)
{
    const uint8_t *p = (const uint8_t *)s;
    size_t left = strlen(s), columns = 0;
    while (left > 0) {
        int n = utf8_step(p, left);
        uint32_t c = utf8_char(p, n);
        if (n <= 0)
            n = 1;
        columns += is_zero_width(c) ? 0 : is_wide(c) ? 2 : 1;
        p += n;
        left -= (size_t)n;
    }
    return columns;
}

bool abx_has_control(const char *s)
{
    for (; s && *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            return true;
    return false;
}

char *abx_printable(const char *s)
{
    abx_buf out = ABX_BUF(SIZE_MAX / 2);
    const uint8_t *p = (const uint8_t *)s;
    size_t left = strlen(s);
    while (left > 0) {
        int n = utf8_step(p, left);
        bool c1 = n == 2 && p[0] == 0xc2 && p[1] < 0xa0; /* C1 controls */
        int rc;
        if (n <= 0 || p[0] < 0x20 || p[0] == 0x7f || c1) {
            size_t bytes = c1 ? 2 : 1;
            rc = 0;
            for (size_t i = 0; i < bytes && rc == 0; i++)
                rc = p[i] == '\n'   ? abx_buf_add_str(&out, "\\n")
                     : p[i] == '\t' ? abx_buf_add_str(&out, "\\t")
                     : p[i] == '\r' ? abx_buf_add_str(&out, "\\r")
                                    : abx_buf_addf(&out, "\\x%02x", p[i]);
            n = (int)bytes;
        } else if (n > 1 && is_direction(utf8_char(p, n))) {
            rc = abx_buf_addf(&out, "\\u%04x", (unsigned)utf8_char(p, n));
        } else {
            rc = abx_buf_add(&out, p, (size_t)n);
        }
        ABX_CHECK(rc == 0);
        p += n;
        left -= (size_t)n;
    }
    return abx_buf_take(&out);
}

/* Edit distance with neighbour swaps; words longer than 63 characters count as far. */
static size_t distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > 63 || m > 63)
        return SIZE_MAX;
    size_t row[3][64];
    for (size_t j = 0; j <= m; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);
            if (up[j] + 1 < best)
                best = up[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

const char *abx_nearest(const char *word, const char *const *words, size_t n)
{
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        size_t d = distance(word, words[i]);
        if (d < best_distance) {
            best_distance = d;
            best = words[i];
        }
    }
    size_t limit = strlen(word) / 3;
    if (limit < 1)
        limit = 1;
    return best_distance <= limit ? best : NULL;
}

int abx_parse_uint(const char *s, uint64_t max, uint64_t *out)
{
    if (!*s)
        return -1;
    uint64_t value = 0;
    for (; *s; s++) {
        if (*s < '0' || *s > '9')
            return -1;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*s - '0'), &value))
            return -1;
    }
    if (value > max)
        return -1;
    *out = value;
    return 0;
}

int abx_parse_size(const char *s, uint64_t *bytes)
{
    size_t digits = strspn(s, "0123456789");
    if (digits == 0 || digits > 15)
        return -1;
    double value = strtod(s, NULL);
    const char *unit = s + digits;
    if (*unit == '.') {
        size_t fraction = strspn(unit + 1, "0123456789");
        if (fraction == 0)
            return -1;
        unit += 1 + fraction;
    }
    static const char letters[] = "kmgt";
    int shift = 0;
    if (*unit) {
        const char *at = strchr(letters, tolower((unsigned char)*unit));
        if (!at)
            return -1;
        shift = 10 * (int)(at - letters + 1);
        if (unit[1] && strcasecmp(unit + 1, "ib") != 0 && strcasecmp(unit + 1, "b") != 0)
            return -1;
    }
    value *= (double)(1ULL << shift);
    if (value >= 9e18)
        return -1;
    *bytes = (uint64_t)value;
    return 0;
}

int abx_parse_millis(const char *s, uint64_t max, uint64_t *millis)
{
    size_t digits = strspn(s, "0123456789");
    if (digits == 0 || digits > 12)
        return -1;
    uint64_t value = strtoull(s, NULL, 10) * 1000;
    if (s[digits] == '.') {
        const char *fraction = s + digits + 1;
        size_t n = strspn(fraction, "0123456789");
        if (n == 0 || fraction[n])
            return -1;
        for (uint64_t i = 0, unit = 100; i < n && unit > 0; i++, unit /= 10)
            value += (uint64_t)(fraction[i] - '0') * unit;
    } else if (s[digits]) {
        return -1;
    }
    if (value > max)
        return -1;
    *millis = value;
    return 0;
}

void abx_format_size(uint64_t bytes, char out[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t u = 0;
    double value = (double)bytes;
    /* From 1023.5 on it would be shown as 1024 of the smaller unit. */
    while (value >= (u == 0 ? 1024 : 1023.5) && u + 1 < ABX_COUNT(units)) {
        value /= 1024;
        u++;
    }
    snprintf(out, 32, u == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, units[u]);
}

bool abx_is_name(const char *s)
{
    size_t n = strlen(s);
    if (n < 1 || n > 63 || s[0] == '-')
        return false;
    return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

char *abx_percent_encode(const char *text, const char *also)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    static const char hex[] = "0123456789ABCDEF";
    char *out = abx_alloc_array(strlen(text) + 1, 3), *to = out;
    for (; *text; text++) {
        if (strchr(plain, *text) || strchr(also, *text)) {
            *to++ = *text;
        } else {
            *to++ = '%';
            *to++ = hex[(unsigned char)*text >> 4];
            *to++ = hex[(unsigned char)*text & 15];
        }
    }
    *to = 0;
    return out;
}
