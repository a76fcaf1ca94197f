/* Text and JSON: what epp.c and the rest need of it. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "epp.h"

#define NEST_MAX 32

static void *must(void *p)
{
    if (!p) {
        perror("memory");
        abort();
    }
    return p;
}

void epp_add(epp_text *t, const void *bytes, size_t n)
{
    if (t->len + n + 1 > t->size) {
        t->size = (t->len + n + 1) * 2;
        t->data = must(realloc(t->data, t->size));
    }
    if (n)
        memcpy(t->data + t->len, bytes, n);
    t->len += n;
    t->data[t->len] = 0;
}

void epp_addf(epp_text *t, const char *format, ...)
{
    va_list args;
    char *text = NULL;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    must(n < 0 ? NULL : text);
    epp_add(t, text, (size_t)n);
    free(text);
}

/* Length of the character of UTF-8 at s, 0 when it is none. */
static size_t character(const unsigned char *s, size_t n)
{
    if (s[0] < 0x80)
        return 1;
    size_t len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool beyond = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
    return overlong || beyond ? 0 : len;
}

bool epp_is_utf8(const void *bytes, size_t n)
{
    const unsigned char *s = bytes;
    for (size_t len; n > 0; s += len, n -= len)
        if ((len = character(s, n)) == 0)
            return false;
    return true;
}

void epp_add_json(epp_text *t, const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    epp_add(t, "\"", 1);
    while (n > 0) {
        size_t plain = 0;
        while (plain < n && s[plain] >= 0x20 && s[plain] < 0x80 && s[plain] != '"' && s[plain] != '\\')
            plain++;
        epp_add(t, s, plain);
        s += plain;
        n -= plain;
        if (n == 0)
            break;
        size_t len = character(s, n);
        if (len > 1)
            epp_add(t, s, len);
        else if (len == 0)
            epp_add(t, "\xef\xbf\xbd", 3);
        else
            epp_addf(t, s[0] < 0x20 ? "\\u%04x" : "\\%c", s[0]);
        s += len ? len : 1;
        n -= len ? len : 1;
    }
    epp_add(t, "\"", 1);
}

static void add_name(epp_text *t, const char *name)
{
    bool first = t->len == 0 || t->data[t->len - 1] == '{';
    epp_addf(t, "%s\"%s\":", first ? "" : ",", name);
}

void epp_member(epp_text *t, const char *name, const char *value)
{
    if (!value)
        return;
    add_name(t, name);
    epp_add_json(t, value, strlen(value));
}

void epp_number(epp_text *t, const char *name, long long value)
{
    add_name(t, name);
    epp_addf(t, "%lld", value);
}

/* --- reading ------------------------------------------------------------------------------------------------ */

typedef struct reader {
    const char *at, *end;
    int nest;
} reader;

static void blanks(reader *r)
{
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at)
        r->at++;
}

static bool take(reader *r, char c)
{
    blanks(r);
    if (r->at >= r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static void add_code(epp_text *t, unsigned long c)
{
    unsigned char out[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (unsigned char)(0x80 | (c & 0x3f));
    out[0] = (unsigned char)(n == 1 ? c : (0xf00UL >> n & 0xff) | c);
    epp_add(t, out, n);
}

static bool read_code(reader *r, unsigned long *out)
{
    char hex[5] = {0}, *end;
    if (r->end - r->at < 4)
        return false;
    memcpy(hex, r->at, 4);
    *out = strtoul(hex, &end, 16);
    r->at += 4;
    return *end == 0;
}

static bool read_escape(reader *r, epp_text *t)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at++ : 0;
    const char *known = c ? strchr(from, c) : NULL;
    unsigned long code, low;
    if (known) {
        epp_add(t, to + (known - from), 1);
        return true;
    }
    if (c != 'u' || !read_code(r, &code))
        return false;
    if (code >= 0xd800 && code < 0xdc00) {
        if (r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u')
            return false;
        r->at += 2;
        if (!read_code(r, &low) || low < 0xdc00 || low > 0xdfff)
            return false;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    add_code(t, code);
    return true;
}

/* The text behind an opening quote. */
static char *read_string(reader *r, size_t *len)
{
    epp_text t = {0};
    epp_add(&t, "", 0);
    while (r->at < r->end && *r->at != '"') {
        const char *from = r->at;
        while (r->at < r->end && *r->at != '"' && *r->at != '\\')
            r->at++;
        epp_add(&t, from, (size_t)(r->at - from));
        if (r->at < r->end && *r->at == '\\') {
            r->at++;
            if (!read_escape(r, &t))
                break;
        }
    }
    if (r->at < r->end && *r->at == '"') {
        r->at++;
        *len = t.len;
        return t.data;
    }
    free(t.data);
    return NULL;
}

static epp_json *read_value(reader *r);

/* The inside of an object or a list, behind its bracket. */
static bool read_inside(reader *r, epp_json *v)
{
    char closing = v->type == '{' ? '}' : ']';
    epp_json **last = &v->first;
    if (take(r, closing))
        return true;
    do {
        size_t len;
        char *name = NULL;
        if (v->type == '{' && (!take(r, '"') || !(name = read_string(r, &len)) || !take(r, ':'))) {
            free(name);
            return false;
        }
        if (!(*last = read_value(r))) {
            free(name);
            return false;
        }
        (*last)->name = name;
        last = &(*last)->next;
    } while (take(r, ','));
    return take(r, closing);
}

static bool read_word(reader *r, epp_json *v)
{
    const char *from = r->at;
    while (r->at < r->end && !strchr(",]} \t\r\n", *r->at))
        r->at++;
    v->len = (size_t)(r->at - from);
    v->text = must(strndup(from, v->len));
    v->type = strcmp(v->text, "true") == 0 ? 't' : strcmp(v->text, "false") == 0 ? 'f' : strcmp(v->text, "null") == 0 ? 'n' : '0';
    return v->type != '0' || strchr("-0123456789", v->text[0]);
}

static epp_json *read_value(reader *r)
{
    epp_json *v = must(calloc(1, sizeof *v));
    bool good = false;
    blanks(r);
    if (r->at < r->end && r->nest++ < NEST_MAX) {
        v->type = *r->at;
        if (v->type == '{' || v->type == '[') {
            r->at++;
            good = read_inside(r, v);
        } else if (v->type == '"') {
            r->at++;
            good = (v->text = read_string(r, &v->len)) != NULL;
        } else {
            good = read_word(r, v) && v->len > 0;
        }
        r->nest--;
    }
    if (good)
        return v;
    epp_free(v);
    return NULL;
}

epp_json *epp_parse(const char *text, size_t n)
{
    reader r = {text, text + n, 0};
    epp_json *v = read_value(&r);
    blanks(&r);
    if (v && r.at == r.end)
        return v;
    epp_free(v);
    return NULL;
}

void epp_free(epp_json *v)
{
    while (v) {
        epp_json *next = v->next;
        epp_free(v->first);
        free(v->name);
        free(v->text);
        free(v);
        v = next;
    }
}

const epp_json *epp_get(const epp_json *object, const char *name)
{
    const epp_json *v = object ? object->first : NULL;
    while (v && (!v->name || strcmp(v->name, name) != 0))
        v = v->next;
    return v && v->type != 'n' ? v : NULL;
}

const char *epp_str(const epp_json *object, const char *name, const char *otherwise)
{
    const epp_json *v = epp_get(object, name);
    return v && v->type == '"' ? v->text : otherwise;
}

long long epp_int(const epp_json *object, const char *name, long long otherwise)
{
    const epp_json *v = epp_get(object, name);
    return v && v->type == '0' ? strtoll(v->text, NULL, 10) : otherwise;
}

bool epp_is(const epp_json *object, const char *name)
{
    const epp_json *v = epp_get(object, name);
    return v && v->type == 't';
}

uint8_t *epp_bytes(const epp_json *object, size_t *n)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const epp_json *text = epp_get(object, "text"), *coded = epp_get(object, "base64");
    const epp_json *v = text ? text : coded;
    uint8_t *out = must(malloc(v ? v->len + 1 : 1));
    *n = 0;
    if (text) {
        memcpy(out, text->text, text->len);
        *n = text->len;
    } else if (coded) {
        unsigned long bits = 0;
        int have = 0;
        for (const char *s = coded->text; *s && *s != '='; s++) {
            const char *digit = strchr(alphabet, *s);
            bits = bits << 6 | (unsigned long)(digit ? digit - alphabet : 0);
            if ((have += 6) >= 8)
                out[(*n)++] = (uint8_t)(bits >> (have -= 8));
        }
    }
    return out;
}
