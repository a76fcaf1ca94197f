#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/uio.h>

#include "net/http_server_inner.h"

enum { SMALL_HEAD = 2048 };

const char *abx__status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } texts[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {426, "Upgrade Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {499, "Client Closed Request"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };

    for (size_t i = 0; i < ABX_COUNT(texts); i++)
        if (texts[i].status == status)
            return texts[i].text;
    return "Status";
}

/* --- heads -------------------------------------------------------------------------------------- */

static bool is_named(const char *line, const char *name)
{
    size_t n = strlen(name);

    return strncasecmp(line, name, n) == 0 && line[n] == ':';
}

/* Headers that frame the message are ours; a line with a control character would forge others. */
static bool may_pass(const char *line)
{
    if (!strchr(line, ':') || strpbrk(line, "\r\n"))
        return false;
    switch (line[0] | 0x20) {
    case 'c': return !is_named(line, "Content-Length") && !is_named(line, "Connection");
    case 't': return !is_named(line, "Transfer-Encoding");
    case 'd': return !is_named(line, "Date");
    default: return true;
    }
}

static bool asks_close(const char *const *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_named(headers[i], "Connection") && strcasestr(headers[i] + 11, "close"))
            return true;
    return false;
}

typedef struct head_text {
    char small[SMALL_HEAD];
    char *text;
    size_t len, cap;
} head_text;

static void put(head_text *h, const char *s, size_t n)
{
    if (h->len + n > h->cap) {
        size_t cap = (h->len + n) * 2;
        char *larger = abx_alloc(cap);
        memcpy(larger, h->text, h->len);
        if (h->text != h->small)
            free(h->text);
        h->text = larger;
        h->cap = cap;
    }
    memcpy(h->text + h->len, s, n);
    h->len += n;
}

static void put_str(head_text *h, const char *s)
{
    put(h, s, strlen(s));
}

static void head_clear(head_text *h)
{
    if (h->text != h->small)
        free(h->text);
}

static bool old_peer(const abx_exchange *x)
{
    return x->conn->parser.http_minor == 0;
}

/* How the body is framed: by length, by chunks, for an old peer by the end of the connection. */
static void put_framing(head_text *h, abx_exchange *x, int status, int64_t length)
{
    abx__conn *c = x->conn;
    char line[64];
    bool bare = status < 200 || status == 204 || status == 304;

    x->no_body = bare || c->parser.method == HTTP_HEAD;
    x->out_left = length;
    if (length >= 0 && !bare) {
        put(h, line,
            (size_t)snprintf(line, sizeof line, "Content-Length: %lld\r\n", (long long)length));
    } else if (length < 0 && !bare && !old_peer(x)) {
        x->chunked = !x->no_body;
        put_str(h, "Transfer-Encoding: chunked\r\n");
    } else if (length < 0 && !bare) {
        c->keep = false;
    }
    if (!c->keep || !llhttp_should_keep_alive(&c->parser)) {
        c->keep = false;
        put_str(h, "Connection: close\r\n");
    } else if (old_peer(x)) {
        put_str(h, "Connection: keep-alive\r\n");
    }
}

static void make_head(head_text *h, abx_exchange *x, int status, const char *const *headers,
                      size_t count, int64_t length)
{
    abx_http_server *s = x->conn->server;
    char line[64];

    h->text = h->small;
    h->len = 0;
    h->cap = sizeof h->small;
    x->head_sent = true;
    x->expects_100 = x->expects_100 && !x->body_done;
    if (asks_close(headers, count))
        x->conn->keep = false;
    put(h, line,
        (size_t)snprintf(line, sizeof line, "HTTP/1.1 %d %s\r\n", status,
                         abx__status_text(status)));
    put_str(h, s->server_line);
    put_str(h, abx__server_date(s));
    for (size_t i = 0; i < count; i++) {
        if (!may_pass(headers[i]))
            continue;
        put_str(h, headers[i]);
        put(h, "\r\n", 2);
    }
    put_framing(h, x, status, length);
    put(h, "\r\n", 2);
}

/* --- the public side ---------------------------------------------------------------------------- */

void abx_exchange_head(abx_exchange *x, int status, const char *const *headers, size_t count,
                       int64_t length)
{
    head_text h;

    ABX_CHECK(!x->head_sent);
    make_head(&h, x, status, headers, count, length);
    /* Kept for the first write, or sent before the loop waits. */
    abx__conn_queue(x->conn, h.text, h.len);
    head_clear(&h);
}

static int mark_backlog(abx_exchange *x)
{
    if (abx__conn_backlog(x->conn) <= ABX__HIGH_MARK)
        return 1;
    x->over_high = true;
    return 0;
}

int abx_exchange_write(abx_exchange *x, const void *bytes, size_t n)
{
    abx__conn *c = x->conn;
    char size[24];

    ABX_CHECK(x->head_sent);
    if (c->dead)
        return 0; /* nobody is there: on_close comes next */
    if (x->ended || x->no_body || n == 0)
        return 1;
    if (x->out_left >= 0) {
        /* More than was announced would be taken for the next answer. */
        if (n > (uint64_t)x->out_left)
            n = (size_t)x->out_left;
        x->out_left -= (int64_t)n;
        if (n == 0)
            return 1;
    }
    if (x->chunked) {
        int len = snprintf(size, sizeof size, "%zx\r\n", n);
        struct iovec pieces[3] = {abx__piece(size, (size_t)len), abx__piece(bytes, n),
                                  abx__piece("\r\n", 2)};
        abx__conn_send_soon(c, pieces, 3);
    } else {
        struct iovec piece = abx__piece(bytes, n);
        abx__conn_send(c, &piece, 1);
    }
    return mark_backlog(x);
}

size_t abx_exchange_pending(const abx_exchange *x)
{
    return abx__conn_backlog(x->conn);
}

/* The answer is whole; what is left of the body is dropped on the way. */
static void finish(abx_exchange *x)
{
    abx__conn *c = x->conn;

    x->ended = true;
    if (x->paused) {
        x->paused = false;
        c->kick = true;
    }
    abx__conn_pend(c);
}

void abx_exchange_end(abx_exchange *x)
{
    abx__conn *c = x->conn;

    ABX_CHECK(x->head_sent);
    if (x->ended)
        return;
    if (x->chunked && !c->dead) {
        struct iovec piece = abx__piece("0\r\n\r\n", 5);
        abx__conn_send_soon(c, &piece, 1);
    }
    if (x->out_left > 0 && !x->no_body)
        abx__conn_kill(c, true); /* shorter than announced: the peer must not take it for whole */
    finish(x);
}

void abx_exchange_reply_with(abx_exchange *x, int status, const char *const *headers, size_t count,
                             const void *body, size_t n)
{
    abx__conn *c = x->conn;
    head_text h;

    ABX_CHECK(!x->head_sent);
    /* Not worth reading what nobody wants; of chunks nobody knows how many come. */
    if (!x->body_done &&
        (x->expects_100 || x->content_length < 0 || x->content_length > ABX__DRAIN_LIMIT))
        c->keep = false;
    make_head(&h, x, status, headers, count, (int64_t)n);
    struct iovec pieces[2] = {abx__piece(h.text, h.len), abx__piece(body, n)};
    abx__conn_send(c, pieces, x->no_body || n == 0 ? 1 : 2);
    head_clear(&h);
    finish(x);
}

void abx_exchange_reply(abx_exchange *x, int status, const char *type, const void *body, size_t n)
{
    char line[160];
    const char *headers[1] = {line};

    if (type)
        snprintf(line, sizeof line, "Content-Type: %s", type);
    abx_exchange_reply_with(x, status, headers, type ? 1 : 0, body, n);
}

void abx_exchange_switch(abx_exchange *x, const char *const *headers, size_t count)
{
    abx__conn *c = x->conn;
    static const char first[] = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n";

    ABX_CHECK(!x->head_sent);
    abx__conn_queue(c, first, sizeof first - 1);
    for (size_t i = 0; i < count; i++) {
        if (!may_pass(headers[i]))
            continue;
        abx__conn_queue(c, headers[i], strlen(headers[i]));
        abx__conn_queue(c, "\r\n", 2);
    }
    abx__conn_queue(c, "\r\n", 2);
    x->head_sent = x->raw = true;
    x->out_left = -1;
    c->keep = false;
    c->kick = true;
    abx__conn_pend(c);
}

void abx_exchange_abort(abx_exchange *x)
{
    abx__conn_flush(x->conn); /* what was answered before belongs to the peer */
    abx__conn_kill(x->conn, true);
}

void abx__answer_refuse(abx__conn *c, int status)
{
    abx__answer_refuse_with(c, status, abx__status_text(status));
}

void abx__answer_refuse_with(abx__conn *c, int status, const char *what)
{
    char text[1024], body[640];
    size_t (*refusal)(int, const char *, char *, size_t) = c->server->options.refusal;

    if (c->x)
        abx__exchange_recycle(ABX_TAKE(c->x));
    c->keep = false;
    c->fail_status = (uint16_t)status;
    size_t len = refusal ? refusal(status, what, body, sizeof body)
                         : (size_t)snprintf(body, sizeof body, "%s\n", what);
    int n = snprintf(text, sizeof text,
                     "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                     "Connection: close\r\n\r\n%.*s",
                     status, abx__status_text(status), refusal ? "application/json" : "text/plain",
                     len, (int)len, body);
    struct iovec piece = {text, (size_t)n};
    abx__conn_send(c, &piece, 1);
}
