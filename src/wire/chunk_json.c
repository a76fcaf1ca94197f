#include "wire/chunk_json.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "wire/base64.h"

/* The escape of one byte that a JSON string cannot hold as it is. */
static int add_escape(abx_buf *out, uint8_t c)
{
    char text[8];
    switch (c) {
    case '"': return abx_buf_add(out, "\\\"", 2);
    case '\\': return abx_buf_add(out, "\\\\", 2);
    case '\n': return abx_buf_add(out, "\\n", 2);
    case '\r': return abx_buf_add(out, "\\r", 2);
    case '\t': return abx_buf_add(out, "\\t", 2);
    default: snprintf(text, sizeof text, "\\u%04x", c); return abx_buf_add(out, text, 6);
    }
}

static int add_text(abx_buf *out, const uint8_t *at, size_t n)
{
    while (n > 0) {
        size_t plain = abx_json_plain(at, n);
        if (abx_buf_add(out, at, plain) < 0)
            return -1;
        at += plain;
        n -= plain;
        if (n == 0)
            break;
        if (add_escape(out, *at) < 0)
            return -1;
        at++;
        n--;
    }
    return 0;
}

static int add_base64(abx_buf *out, const void *bytes, size_t n)
{
    uint8_t *room = abx_buf_room(out, ABX_BASE64_ROOM(n));
    if (!room)
        return -1;
    abx_buf_grow(out, abx_base64_encode(bytes, n, (char *)room, ABX_BASE64_STANDARD, true));
    return 0;
}

int abx_chunk_json(abx_buf *out, const char *type, const void *bytes, size_t n, bool text)
{
    if (abx_buf_addf(out, "{\"type\":\"%s\",\"%s\":\"", type, text ? "text" : "base64") < 0 ||
        (text ? add_text(out, bytes, n) : add_base64(out, bytes, n)) < 0)
        return -1;
    return abx_buf_add(out, "\"}", 2);
}
