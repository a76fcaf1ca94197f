#include "net/http_range.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"

static const char DATE_FORMAT[] = "%a, %d %b %Y %H:%M:%S GMT";

/* "-N": the last N bytes. */
static abx_range last_bytes(const char *v, int64_t size, int64_t *from, int64_t *len)
{
    char *end = NULL;
    int64_t last = strtoll(v, &end, 10);
    if (!isdigit((unsigned char)*v) || *end)
        return ABX_RANGE_BROKEN;
    if (last == 0)
        return ABX_RANGE_OUTSIDE;
    *len = last < size ? last : size;
    *from = size - *len;
    return ABX_RANGE_PART;
}

abx_range abx_http_range(const char *header, int64_t size, int64_t *from, int64_t *len)
{
    if (!abx_has_prefix(header, "bytes="))
        return ABX_RANGE_BROKEN;
    const char *v = header + 6;
    if (strchr(v, ',') || size == 0)
        return ABX_RANGE_WHOLE;
    if (*v == '-')
        return last_bytes(v + 1, size, from, len);
    if (!isdigit((unsigned char)*v))
        return ABX_RANGE_BROKEN;
    char *end = NULL;
    *from = strtoll(v, &end, 10);
    if (*end != '-')
        return ABX_RANGE_BROKEN;
    v = end + 1;
    int64_t to = size - 1;
    if (*v) {
        if (!isdigit((unsigned char)*v))
            return ABX_RANGE_BROKEN;
        to = strtoll(v, &end, 10);
        if (*end || to < *from)
            return ABX_RANGE_BROKEN;
        if (to > size - 1)
            to = size - 1;
    }
    if (*from >= size)
        return ABX_RANGE_OUTSIDE;
    *len = to - *from + 1;
    return ABX_RANGE_PART;
}

int64_t abx_http_date_read(const char *s)
{
    struct tm tm = {0};
    const char *end = s ? strptime(s, DATE_FORMAT, &tm) : NULL;
    return end && !*end ? (int64_t)timegm(&tm) : -1;
}

void abx_http_date_line(int64_t seconds, char *out, size_t size)
{
    static const char name[] = "Last-Modified: ";
    struct tm tm;
    *out = 0;
    if (size < sizeof name || abx_utc(seconds, &tm) < 0)
        return;
    memcpy(out, name, sizeof name);
    if (strftime(out + sizeof name - 1, size - (sizeof name - 1), DATE_FORMAT, &tm) == 0)
        *out = 0;
}
