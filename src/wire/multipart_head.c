#include "wire/multipart_head.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

/* One parameter of a header value: ;name=value or ;name="value". *at moves behind it. Returns 1, 0 when
 * there are no more, -1 when it is malformed. *value is owned by the caller. */
static int next_parameter(const char **at, char name[32], char **value)
{
    const char *p = *at;

    p += strspn(p, "; \t");
    size_t n = strcspn(p, "=; \t");
    if (n == 0)
        return *p ? -1 : 0;
    if (n > 31)
        n = 31; /* none that we know is so long */
    memcpy(name, p, n);
    name[n] = 0;
    p += strcspn(p, "=;");
    *value = NULL;
    if (*p != '=') {
        *at = p;
        *value = abx_strdup("");
        return 1;
    }
    p++;
    p += strspn(p, " \t");
    if (*p != '"') {
        n = strcspn(p, "; \t");
        *value = abx_strndup(p, n);
        *at = p + n;
        return 1;
    }
    char *out = abx_alloc(strlen(p) + 1), *to = out;
    for (p++; *p && *p != '"'; p++) {
        if (*p == '\\' && (p[1] == '"' || p[1] == '\\'))
            p++;
        *to++ = *p;
    }
    if (*p != '"') {
        free(out);
        return -1;
    }
    *at = p + 1;
    *value = out;
    return 1;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* filename*=UTF-8''percent%20encoded (RFC 5987). NULL for another charset or broken escapes. */
static char *extended_value(const char *text)
{
    if (strncasecmp(text, "utf-8'", 6) != 0)
        return NULL;
    const char *p = strchr(text + 6, '\'');
    if (!p)
        return NULL;
    char *out = abx_alloc(strlen(p)), *to = out;
    for (p++; *p; p++) {
        if (*p != '%') {
            *to++ = *p;
            continue;
        }
        int high = hex(p[1]), low = high < 0 ? -1 : hex(p[2]);
        if (low < 0 || (high == 0 && low == 0)) {
            free(out);
            return NULL;
        }
        *to++ = (char)(high << 4 | low);
        p += 2;
    }
    return out;
}

static void keep(char **slot, char *value)
{
    free(*slot);
    *slot = value;
}

static int read_disposition(abx_multipart_head *h, const char *value)
{
    char name[32], *text;
    bool extended = false;
    int rc;

    value += strcspn(value, ";");
    while ((rc = next_parameter(&value, name, &text)) > 0) {
        if (strcasecmp(name, "name") == 0) {
            keep(&h->name, text);
        } else if (strcasecmp(name, "filename") == 0 && !extended) {
            keep(&h->filename, text);
        } else if (strcasecmp(name, "filename*") == 0) {
            char *plain = extended_value(text);
            free(text);
            if (!plain)
                return -1;
            extended = true;
            keep(&h->filename, plain);
        } else {
            free(text);
        }
    }
    return rc;
}

static int read_line(abx_multipart_head *h, char *line)
{
    char *colon = strchr(line, ':');

    if (!colon || colon == line)
        return -1;
    *colon++ = 0;
    colon += strspn(colon, " \t");
    if (strcasecmp(line, "Content-Disposition") == 0)
        return read_disposition(h, colon);
    if (strcasecmp(line, "Content-Type") == 0)
        keep(&h->content_type, abx_strdup(colon));
    return 0;
}

int abx__multipart_head_read(abx_multipart_head *h, const void *bytes, size_t n)
{
    ABX_AUTO_FREE char *text = abx_strndup(bytes, n);
    char *rest = text, *line;
    int rc = strlen(text) == n ? 0 : -1;

    memset(h, 0, sizeof *h);
    while (rc == 0 && (line = strsep(&rest, "\n"))) {
        size_t len = strlen(line);
        if (len && line[len - 1] == '\r')
            line[len - 1] = 0;
        if (*line)
            rc = read_line(h, line);
    }
    if (rc < 0) {
        abx__multipart_head_clear(h);
        return -1;
    }
    h->part.name = h->name ? h->name : "";
    h->part.filename = h->filename;
    h->part.content_type = h->content_type;
    return 0;
}

void abx__multipart_head_clear(abx_multipart_head *h)
{
    free(h->name);
    free(h->filename);
    free(h->content_type);
    memset(h, 0, sizeof *h);
}

int abx_multipart_boundary(const char *content_type, char out[ABX_MULTIPART_BOUNDARY_MAX + 1])
{
    char name[32], *value;
    int found = -1;

    if (!content_type || strncasecmp(content_type, "multipart/", 10) != 0)
        return -1;
    content_type += strcspn(content_type, ";");
    while (found < 0 && next_parameter(&content_type, name, &value) > 0) {
        size_t n = strlen(value);
        if (strcasecmp(name, "boundary") == 0) {
            if (n == 0 || n > ABX_MULTIPART_BOUNDARY_MAX || strpbrk(value, "\r\n")) {
                free(value);
                return -1;
            }
            memcpy(out, value, n + 1);
            found = 0;
        }
        free(value);
    }
    return found;
}
