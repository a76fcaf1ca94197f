#include "doors/e2b/page.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "wire/base64.h"

#define LIMIT_MOST 100
#define BETWEEN    "__"

/* "TIME__ID[__KIND]", decoded; 0 or -1. */
static int read_cursor(char *text, const char *kind, e2b_cursor *out)
{
    char *id = strstr(text, BETWEEN);
    if (!id)
        return -1;
    *id = 0;
    id += strlen(BETWEEN);
    char *tail = strstr(id, BETWEEN);
    if (tail) {
        *tail = 0;
        tail += strlen(BETWEEN);
    }
    if (!abx_str_eq(tail, kind) && (tail || kind))
        return -1;
    size_t n = strlen(id);
    if (n == 0 || n >= sizeof out->id || abx_parse_rfc3339(text, &out->ms) < 0)
        return -1;
    memcpy(out->id, id, n + 1);
    return 0;
}

bool e2b_page_read(e2b_request *r, const char *kind, e2b_page *out)
{
    uint64_t limit = LIMIT_MOST;
    ABX_AUTO_FREE char *count = e2b_query(r, "limit");
    ABX_AUTO_FREE char *token = e2b_query(r, "nextToken");
    if (count && (abx_parse_uint(count, LIMIT_MOST, &limit) < 0 || limit == 0)) {
        e2b_reply_refuse(r, 400, "validation error: 'limit' is 1 to %d", LIMIT_MOST);
        return false;
    }
    out->limit = (size_t)limit;
    if (!token || !*token)
        return true;
    size_t n = 0;
    ABX_AUTO_FREE uint8_t *text = abx_base64_bytes(token, strlen(token), ABX_BASE64_URL, &n);
    if (!text || strlen((char *)text) != n || read_cursor((char *)text, kind, &out->after) < 0) {
        e2b_reply_refuse(r, 400, "Invalid next token");
        return false;
    }
    out->has_after = true;
    return true;
}

void e2b_page_next(const e2b_cursor *last, const char *kind, char out[E2B_TOKEN_LINE])
{
    char time[ABX_RFC3339_SIZE];
    abx_format_rfc3339(last->ms, time);
    ABX_AUTO_FREE char *text =
        abx_format("%s" BETWEEN "%s%s%s", time, last->id, kind ? BETWEEN : "", kind ? kind : "");
    ABX_AUTO_FREE char *token = abx_base64_text(text, strlen(text), ABX_BASE64_URL, false);
    snprintf(out, E2B_TOKEN_LINE, "X-Next-Token: %s", token);
}
