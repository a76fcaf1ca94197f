#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "net/ca.h"
#include "wire/base64.h"

#define DER_SEQUENCE 0x30
#define DER_INTEGER  0x02
#define DER_VERSION  0xa0

struct abx_ca_bundle {
    abx_ca_entry *entries;
    size_t count, cap;
    uint8_t *der; /* of all */
};

/* --- DER -------------------------------------------------------------------------------------------- */

typedef struct span {
    const uint8_t *at, *end;
} span;

/* Take one element off s. *whole: with tag and length; *inside: what it holds. False: there is none. */
static bool take(span *s, uint8_t tag, span *whole, span *inside)
{
    const uint8_t *p = s->at;
    size_t left = (size_t)(s->end - p), head = 2, n;

    if (left < 2 || p[0] != tag)
        return false;
    n = p[1];
    if (n & 0x80) {
        size_t digits = n & 0x7f;
        if (digits == 0 || digits > 4 || left < 2 + digits)
            return false;
        n = 0;
        for (size_t i = 0; i < digits; i++)
            n = n << 8 | p[2 + i];
        head += digits;
    }
    if (n > left - head)
        return false;
    *whole = (span){p, p + head + n};
    *inside = (span){p + head, p + head + n};
    s->at = whole->end;
    return true;
}

/* The subject's name of a certificate, and the certificate's own length: more may lie behind it. */
static bool find_subject(abx_ca_entry *e)
{
    span all = {e->der, e->der + e->len}, whole, certificate, body, skip, inside;

    if (!take(&all, DER_SEQUENCE, &whole, &certificate))
        return false;
    if (!e->with_trust)
        e->len = (size_t)(whole.end - whole.at);
    if (!take(&certificate, DER_SEQUENCE, &skip, &body))
        return false;
    (void)take(&body, DER_VERSION, &skip, &inside);
    if (!take(&body, DER_INTEGER, &skip, &inside) ||  /* serial number */
        !take(&body, DER_SEQUENCE, &skip, &inside) || /* algorithm */
        !take(&body, DER_SEQUENCE, &skip, &inside) || /* issuer */
        !take(&body, DER_SEQUENCE, &skip, &inside) || /* validity */
        !take(&body, DER_SEQUENCE, &whole, &inside))
        return false;
    e->subject = whole.at;
    e->subject_len = (size_t)(whole.end - whole.at);
    return true;
}

/* --- PEM -------------------------------------------------------------------------------------------- */

static const char *find(const char *at, const char *end, const char *word)
{
    return memmem(at, (size_t)(end - at), word, strlen(word));
}

static bool is_word(const char *at, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(at, word, n) == 0;
}

/* The bytes of a block without line breaks. Returns their count, or 0: it is no base64. */
static size_t decode(const char *at, const char *end, char *text, uint8_t *to)
{
    size_t n = 0;

    for (; at < end; at++)
        if (*at != '\n' && *at != '\r' && *at != ' ' && *at != '\t')
            text[n++] = *at;
    ssize_t got = abx_base64_decode(text, n, to, ABX_BASE64_STANDARD);
    return got > 0 ? (size_t)got : 0;
}

static void add(abx_ca_bundle *b, const abx_ca_entry *e)
{
    if (b->count == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 256;
        b->entries = abx_realloc(b->entries, b->cap * sizeof *b->entries);
    }
    b->entries[b->count++] = *e;
}

abx_ca_bundle *abx_ca_bundle_parse(const char *text, size_t n)
{
    static const char begin[] = "-----BEGIN ", dashes[] = "-----", stop[] = "-----END ";
    abx_ca_bundle *b = ABX_NEW(abx_ca_bundle);
    ABX_AUTO_FREE char *line = abx_alloc(n + 1);
    const char *at = text, *end = text + n, *type;
    size_t used = 0;

    b->der = abx_alloc(ABX_BASE64_BYTES(n)); /* all of it together is no longer */
    while ((type = find(at, end, begin))) {
        type += sizeof begin - 1;
        const char *body = find(type, end, dashes);
        const char *last = body ? find(body + sizeof dashes - 1, end, stop) : NULL;
        if (!last)
            break;
        abx_ca_entry e = {.der = b->der + used,
                          .with_trust =
                              is_word(type, (size_t)(body - type), "TRUSTED CERTIFICATE")};
        at = last;
        if (!e.with_trust && !is_word(type, (size_t)(body - type), "CERTIFICATE") &&
            !is_word(type, (size_t)(body - type), "X509 CERTIFICATE"))
            continue;
        e.len = decode(body + sizeof dashes - 1, last, line, b->der + used);
        used += e.len;
        if (e.len && find_subject(&e))
            add(b, &e);
    }
    return b;
}

void abx_ca_bundle_free(abx_ca_bundle *b)
{
    if (!b)
        return;
    free(b->entries);
    free(b->der);
    free(b);
}

size_t abx_ca_bundle_count(const abx_ca_bundle *b)
{
    return b->count;
}

const abx_ca_entry *abx_ca_bundle_entry(const abx_ca_bundle *b, size_t at)
{
    return &b->entries[at];
}

size_t abx_ca_bundle_find(const abx_ca_bundle *b, size_t at, const void *subject, size_t n)
{
    while (at < b->count &&
           (b->entries[at].subject_len != n || memcmp(b->entries[at].subject, subject, n) != 0))
        at++;
    return at;
}
