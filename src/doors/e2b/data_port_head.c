/* What travels between a client and the service on a port: the head of the request, written anew, and the answer, parsed. */
#include "doors/e2b/data_inner.h"

#include <llhttp.h>
#include <string.h>

enum { MAX_HEAD = 128 * 1024, MAX_LINES = 256 };

static bool frames(const char *line)
{
    static const char *const names[] = {
        "Connection:", "Keep-Alive:", "Proxy-Connection:", "Transfer-Encoding:", "Content-Length:",
        "Trailer:",    "Date:"};
    for (size_t i = 0; i < ABX_COUNT(names); i++)
        if (strncasecmp(line, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

void e2b_lines_add(e2b_lines *l, const char *name, const char *value)
{
    char *line = abx_format("%s: %s", name, value ? value : "");
    if (l->count >= MAX_LINES || frames(line)) {
        free(line);
        return;
    }
    if (!l->items)
        l->items = abx_alloc_array(MAX_LINES, sizeof(*l->items));
    l->items[l->count++] = line;
}

void e2b_lines_clear(e2b_lines *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i]);
    free(l->items);
    *l = (e2b_lines){0};
}

/* --- the request --------------------------------------------------------------------------------------------- */
static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcasecmp(name, *names) == 0)
            return true;
    return false;
}

static bool is_ours(const char *name)
{
    static const char *const names[] = {"Connection",
                                        "Keep-Alive",
                                        "Proxy-Connection",
                                        "Proxy-Authorization",
                                        "Transfer-Encoding",
                                        "Content-Length",
                                        "Expect",
                                        "Upgrade",
                                        "TE",
                                        "Trailer",
                                        "E2b-Sandbox-Id",
                                        "E2b-Sandbox-Port",
                                        "E2b-Traffic-Access-Token",
                                        NULL};
    return is_one_of(name, names);
}

/* A service may have keys of its own under the same names: what opens the door or the sandbox is told by its value. */
bool e2b_port_passes(const e2b_box *box, const char *name, const char *value)
{
    const char *word = strncasecmp(value, "Bearer ", 7) == 0 ? value + 7 : value;
    return !is_ours(name) && !e2b_key_fits(box->door, word) &&
           !(box->token && abx_equal_secret(word, strlen(word), box->token, strlen(box->token)));
}

char *e2b_port_head(const e2b_box *box, const abx_exchange *x, const char *host, size_t *len)
{
    const abx_http_headers *h = abx_exchange_headers(x);
    const char *upgrade = abx_exchange_header(x, "Upgrade");
    bool leaves = upgrade && abx_http_headers_has(h, "Connection", "upgrade");
    int64_t length = abx_exchange_content_length(x);
    ABX_AUTO_BUF out = ABX_BUF(MAX_HEAD);
    int rc =
        abx_buf_addf(&out, "%s %s HTTP/1.1\r\n", abx_exchange_method(x), abx_exchange_target(x));
    for (size_t i = 0; rc == 0 && i < h->count; i++) {
        const char *name = h->items[i].name, *value = h->items[i].value;
        if (!e2b_port_passes(box, name, value))
            continue;
        if (host && strcasecmp(name, "Host") == 0)
            value = host;
        rc = abx_buf_addf(&out, "%s: %s\r\n", name, value);
    }
    if (rc == 0 && leaves)
        rc = abx_buf_addf(&out, "Connection: Upgrade\r\nUpgrade: %s\r\n", upgrade);
    else if (rc == 0)
        rc = abx_buf_add_str(&out, "Connection: close\r\n");
    if (rc == 0 && length < 0)
        rc = abx_buf_add_str(&out, "Transfer-Encoding: chunked\r\n");
    else if (rc == 0 && (length > 0 || abx_exchange_header(x, "Content-Length")))
        rc = abx_buf_addf(&out, "Content-Length: %lld\r\n", (long long)length);
    if (rc < 0 || abx_buf_add_str(&out, "\r\n") < 0)
        return NULL;
    *len = out.len;
    return abx_buf_take(&out);
}

/* --- the answer ----------------------------------------------------------------------------------------------- */
struct e2b_answer_parser {
    llhttp_t http;
    const e2b_answer_handlers *on;
    void *data;
    abx_buf head; /* "Name: value" each with a 0 */
    size_t line_at;
    size_t count;
    bool head_only;
    bool told; /* the final head */
    bool done; /* takes no more */
};

static int add(e2b_answer_parser *p, const char *at, size_t n)
{
    return abx_buf_add(&p->head, at, n) < 0 ? HPE_USER : 0;
}

static int on_field(llhttp_t *h, const char *at, size_t n)
{
    e2b_answer_parser *p = h->data;
    return p->told ? 0 : add(p, at, n); /* trailers are dropped */
}

static int on_field_end(llhttp_t *h)
{
    e2b_answer_parser *p = h->data;
    return p->told ? 0 : add(p, ": ", 2);
}

static int on_value_end(llhttp_t *h)
{
    e2b_answer_parser *p = h->data;
    if (p->told)
        return 0;
    return ++p->count > MAX_LINES ? HPE_USER : add(p, "", 1);
}

static int on_head(llhttp_t *h)
{
    e2b_answer_parser *p = h->data;
    int status = h->status_code;
    if (status < 200 && status != 101) { /* the real one follows */
        abx_buf_reset(&p->head);
        p->count = 0;
        return 0;
    }
    const char *lines[MAX_LINES];
    size_t count = 0;
    const char *at = abx_buf_cstr(&p->head);
    for (size_t i = 0; i < p->count; i++, at += strlen(at) + 1)
        if (!frames(at))
            lines[count++] = at;
    p->told = true;
    bool known = (h->flags & F_CONTENT_LENGTH) && h->content_length <= INT64_MAX;
    p->done = status == 101;
    p->on->head(p->data, status, lines, count, known ? (int64_t)h->content_length : -1);
    abx_buf_clear(&p->head);
    if (status == 101) {
        h->upgrade = 1;
        return 2; /* bytes of another protocol follow */
    }
    h->upgrade = 0;
    return p->head_only ? 1 : 0;
}

static int on_bytes(llhttp_t *h, const char *at, size_t n)
{
    const e2b_answer_parser *p = h->data;
    if (n > 0 && p->told && !p->done) /* of the answer itself, not of one that goes before it */
        p->on->body(p->data, (const uint8_t *)at, n);
    return 0;
}

static int on_complete(llhttp_t *h)
{
    e2b_answer_parser *p = h->data;
    if (!p->told)
        return 0;
    if (p->done)
        return HPE_PAUSED;
    p->done = true;
    p->on->end(p->data);
    return HPE_PAUSED;
}

e2b_answer_parser *e2b_answer_new(const e2b_answer_handlers *on, void *data, bool head_only)
{
    static const llhttp_settings_t settings = {.on_header_field = on_field,
                                               .on_header_field_complete = on_field_end,
                                               .on_header_value = on_field,
                                               .on_header_value_complete = on_value_end,
                                               .on_headers_complete = on_head,
                                               .on_body = on_bytes,
                                               .on_message_complete = on_complete};
    e2b_answer_parser *p = ABX_NEW(e2b_answer_parser);
    llhttp_init(&p->http, HTTP_RESPONSE, &settings);
    p->http.data = p;
    p->on = on;
    p->data = data;
    p->head_only = head_only;
    abx_buf_init(&p->head, MAX_HEAD);
    return p;
}

void e2b_answer_free(e2b_answer_parser *p)
{
    if (!p)
        return;
    abx_buf_clear(&p->head);
    free(p);
}

ssize_t e2b_answer_feed(e2b_answer_parser *p, const uint8_t *bytes, size_t n)
{
    if (p->done)
        return 0;
    llhttp_errno_t e = llhttp_execute(&p->http, (const char *)bytes, n);
    if (e == HPE_OK)
        return (ssize_t)n;
    if (p->done && (e == HPE_PAUSED || e == HPE_PAUSED_UPGRADE))
        return (const uint8_t *)llhttp_get_error_pos(&p->http) - bytes;
    return -1;
}

int e2b_answer_eof(e2b_answer_parser *p)
{
    if (p->done)
        return 0;
    return p->told && llhttp_finish(&p->http) != HPE_INVALID_EOF_STATE && p->done ? 0 : -1;
}
