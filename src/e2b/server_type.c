#include "e2b/server_type.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

typedef struct ending {
    const char *ending;
    const char *type;
} ending;

static const ending ENDINGS[] = {
    {"avif", "image/avif"},
    {"css", "text/css; charset=utf-8"},
    {"gif", "image/gif"},
    {"gz", "application/gzip"},
    {"htm", "text/html; charset=utf-8"},
    {"html", "text/html; charset=utf-8"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript; charset=utf-8"},
    {"json", "application/json"},
    {"mjs", "text/javascript; charset=utf-8"},
    {"pdf", "application/pdf"},
    {"png", "image/png"},
    {"svg", "image/svg+xml"},
    {"txt", "text/plain; charset=utf-8"},
    {"wasm", "application/wasm"},
    {"webp", "image/webp"},
    {"xml", "text/xml; charset=utf-8"},
    {"zip", "application/zip"},
};

const char *abx__type_of_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    if (!dot)
        return NULL;
    for (size_t i = 0; i < ABX_COUNT(ENDINGS); i++)
        if (strcasecmp(dot + 1, ENDINGS[i].ending) == 0)
            return ENDINGS[i].type;
    return NULL;
}

typedef struct magic {
    const char *bytes;
    size_t n;
    const char *type;
} magic;

static const magic MAGICS[] = {
    {"\x89PNG\r\n\x1a\n", 8, "image/png"},
    {"\xff\xd8\xff", 3, "image/jpeg"},
    {"GIF87a", 6, "image/gif"},
    {"GIF89a", 6, "image/gif"},
    {"%PDF-", 5, "application/pdf"},
    {"PK\x03\x04", 4, "application/zip"},
    {"\x1f\x8b\x08", 3, "application/x-gzip"},
    {"\0asm", 4, "application/wasm"},
    {"\xef\xbb\xbf", 3, "text/plain; charset=utf-8"},
};

static const char *const HTML[] = {"<!doctype html", "<html", "<head", "<script", "<body"};

const char *abx__type_of_bytes(const uint8_t *bytes, size_t n)
{
    if (n > 512)
        n = 512;
    for (size_t i = 0; i < ABX_COUNT(MAGICS); i++)
        if (n >= MAGICS[i].n && memcmp(bytes, MAGICS[i].bytes, MAGICS[i].n) == 0)
            return MAGICS[i].type;
    size_t at = 0;
    while (at < n && isspace(bytes[at]))
        at++;
    for (size_t i = 0; i < ABX_COUNT(HTML); i++)
        if (n - at > strlen(HTML[i]) &&
            strncasecmp((const char *)bytes + at, HTML[i], strlen(HTML[i])) == 0)
            return "text/html; charset=utf-8";
    if (n - at >= 5 && memcmp(bytes + at, "<?xml", 5) == 0)
        return "text/xml; charset=utf-8";
    for (size_t i = 0; i < n; i++)
        if (bytes[i] < 0x20 && bytes[i] != '\t' && bytes[i] != '\n' && bytes[i] != '\f' &&
            bytes[i] != '\r' && bytes[i] != 0x1b)
            return "application/octet-stream";
    return "text/plain; charset=utf-8";
}

static bool is_token(unsigned char c)
{
    return c > 0x20 && c < 0x7f && !strchr("()<>@,;:\\\"/[]?=", c);
}

char *abx__disposition(const char *name)
{
    bool token = *name != 0, plain = true;
    for (const char *p = name; *p; p++) {
        unsigned char c = (unsigned char)*p;
        token = token && is_token(c);
        plain = plain && c >= 0x20 && c < 0x7f;
    }
    if (token)
        return abx_format("inline; filename=%s", name);
    ABX_AUTO_BUF b = ABX_BUF((size_t)64 * 1024);
    int rc = abx_buf_add_str(&b, plain ? "inline; filename=\"" : "inline; filename*=utf-8''");
    for (const char *p = name; *p && rc == 0; p++) {
        unsigned char c = (unsigned char)*p;
        if (plain) {
            if (c == '"' || c == '\\')
                rc = abx_buf_add_byte(&b, '\\');
            rc |= abx_buf_add_byte(&b, c);
        } else if (is_token(c) && c != '*' && c != '\'' && c != '%') {
            rc = abx_buf_add_byte(&b, c);
        } else {
            rc = abx_buf_addf(&b, "%%%02X", c);
        }
    }
    if (plain && rc == 0)
        rc = abx_buf_add_byte(&b, '"');
    return rc == 0 ? abx_buf_take(&b) : abx_strdup("inline");
}
