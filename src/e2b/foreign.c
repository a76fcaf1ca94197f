#include "e2b/foreign.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"

#define MAX_TEXT 1000 /* bytes */

char *abx__foreign_line(const char *text)
{
    size_t n = strlen(text);
    ABX_AUTO_FREE char *head = abx_strndup(text, n < MAX_TEXT ? n : abx_utf8_whole(text, MAX_TEXT));
    for (char *p = head; *p; p++)
        if (*p == '\n' || *p == '\r' || *p == '\t')
            *p = ' ';
    n = strlen(head);
    while (n > 0 && head[n - 1] == ' ')
        head[--n] = 0;
    return abx_printable(head);
}

void abx__foreign_hide(char *text, const char *secret)
{
    size_t n = secret ? strlen(secret) : 0;
    for (char *at = text; n > 0 && at && (at = strstr(at, secret)); at += n)
        memset(at, '*', n);
}

bool abx__foreign_is_page(const char *content_type, const abx_buf *body)
{
    if (content_type && strncasecmp(content_type, "text/html", 9) == 0)
        return true;
    const char *p = abx_buf_cstr(body);
    while (isspace((unsigned char)*p))
        p++;
    return strncasecmp(p, "<!doctype", 9) == 0 || strncasecmp(p, "<html", 5) == 0;
}

/* The text between <title> and </title>, or "". */
static char *page_title(const abx_buf *body)
{
    const char *from = strcasestr(abx_buf_cstr(body), "<title>");
    const char *to = from ? strcasestr(from, "</title>") : NULL;
    if (!to)
        return abx_strdup("");
    ABX_AUTO_FREE char *title = abx_strndup(from + 7, (size_t)(to - from - 7));
    return abx__foreign_line(title);
}

abx_error *abx__foreign_page_error(int status, const abx_buf *body)
{
    ABX_AUTO_FREE char *title = page_title(body);
    abx_err_id id = status >= 500 ? ABX_ERR_NETWORK : ABX_ERR_BACKEND_ANSWER;
    abx_error *err =
        *title ? abx_error_new(id, "a web page came instead of an answer (status %d): '%s'", status,
                               title)
               : abx_error_new(id, "a web page came instead of an answer (status %d)", status);
    (void)abx_hint(&err, "a proxy on the way may have sent it: see HTTPS_PROXY and NO_PROXY");
    return err;
}
