#include "doors/cli/detach_keys.h"

#include <ctype.h>
#include <string.h>

/* One key of n bytes: its byte, or -1. */
static int key_of(const char *text, size_t n)
{
    if (n == 1 && text[0] > ' ' && text[0] < 0x7f)
        return (unsigned char)text[0];
    if (n != 6 || strncmp(text, "ctrl-", 5) != 0)
        return -1;
    int c = tolower((unsigned char)text[5]);
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 1;
    return c == '@' || (c >= '[' && c <= '_') ? c & 0x1f : -1;
}

int abx_detach_keys_parse(abx_detach_keys *k, const char *text, abx_error **err)
{
    *k = (abx_detach_keys){0};
    if (!text[0])
        return 0;
    for (const char *p = text;; p++) {
        size_t n = strcspn(p, ",");
        int key = key_of(p, n);
        if (key < 0 || k->count == ABX_DETACH_KEYS_MAX) {
            abx_fail(err, ABX_ERR_USAGE, "'%s' are no keys to detach with", text);
            return abx_hint(err, "single characters or ctrl-a to ctrl-z, separated by commas; '' "
                                 "for none");
        }
        k->keys[k->count++] = (uint8_t)key;
        p += n;
        if (!*p)
            return 0;
    }
}

static void pass(abx_buf *out, uint8_t byte)
{
    int rc = abx_buf_add_byte(out, byte);
    (void)rc; /* a buffer without a limit of its own */
}

/* One byte. What was held back may begin again behind its first byte. */
static void feed_one(abx_detach_keys *k, uint8_t byte, abx_buf *out)
{
    while (k->matched > 0 && byte != k->keys[k->matched]) {
        size_t shift = 1;
        while (shift < k->matched && memcmp(k->keys + shift, k->keys, k->matched - shift) != 0)
            shift++;
        for (size_t i = 0; i < shift; i++)
            pass(out, k->keys[i]);
        k->matched -= shift;
    }
    if (byte == k->keys[k->matched])
        k->matched++;
    else
        pass(out, byte);
}

bool abx_detach_keys_feed(abx_detach_keys *k, const uint8_t *bytes, size_t n, abx_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        if (k->count == 0) {
            pass(out, bytes[i]);
            continue;
        }
        feed_one(k, bytes[i], out);
        if (k->matched == k->count) {
            k->matched = 0;
            return true;
        }
    }
    return false;
}

void abx_detach_keys_flush(abx_detach_keys *k, abx_buf *out)
{
    for (size_t i = 0; i < k->matched; i++)
        pass(out, k->keys[i]);
    k->matched = 0;
}
