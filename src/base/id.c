#include "base/id.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

#include "base/error.h"

void abx_random_bytes(void *out, size_t n)
{
    uint8_t *p = out;
    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        ABX_CHECK(got > 0);
        p += got;
        n -= (size_t)got;
    }
}

void abx_random_id(char *out, size_t n)
{
    static const char set[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    uint8_t pool[64];
    size_t have = 0;
    for (size_t i = 0; i < n;) {
        if (have == 0) {
            abx_random_bytes(pool, sizeof(pool));
            have = sizeof(pool);
        }
        uint8_t b = pool[--have];
        size_t kinds = i == 0 ? 26 : 36;
        if (b >= 256 / kinds * kinds) /* equal chances for each character */
            continue;
        out[i++] = set[b % kinds];
    }
    out[n] = 0;
}

bool abx_is_id(const char *s)
{
    size_t n = strlen(s);
    return n >= 12 && n <= 32 && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789") == n;
}

void abx_hex(const void *data, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *p = data;
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[p[i] >> 4];
        out[2 * i + 1] = digits[p[i] & 15];
    }
    out[2 * n] = 0;
}

bool abx_equal_secret(const void *a, size_t a_len, const void *b, size_t b_len)
{
    if (a_len != b_len)
        return false;
    const volatile uint8_t *x = a, *y = b;
    uint8_t diff = 0;
    for (size_t i = 0; i < a_len; i++)
        diff |= (uint8_t)(x[i] ^ y[i]);
    return diff == 0;
}
