#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "net/http_server_inner.h"

enum { KEEP_HEAD_BYTES = 4096, DEFAULT_BODY_MAX = 64 * 1024 };

abx_exchange *abx__exchange_new(abx__conn *c)
{
    abx_exchange *x = ABX_TAKE(c->server->spare);

    if (!x)
        x = ABX_NEW(abx_exchange);
    x->conn = c;
    x->body_max = DEFAULT_BODY_MAX;
    return x;
}

static void wipe_head(abx_exchange *x)
{
    if (x->conn->server->options.wipe && x->head)
        explicit_bzero(x->head, x->head_len);
    x->head_len = 0;
}

void abx__exchange_free(abx_exchange *x)
{
    free(x->head);
    free(x->headers.items);
    free(x);
}

/* Back to the state of a fresh one, as the server's spare if that place is free and it is small. */
void abx__exchange_recycle(abx_exchange *x)
{
    abx_http_server *s = x->conn->server;

    wipe_head(x);
    free(x->path_copy);
    abx_buf_clear(&x->collected);
    if (x->ws)
        abx__ws_free(x->ws);
    if (s->spare || s->closing || x->head_cap > KEEP_HEAD_BYTES) {
        abx__exchange_free(x);
        return;
    }
    char *head = x->head;
    size_t head_cap = x->head_cap;
    abx_http_header *items = x->headers.items;
    size_t items_cap = x->headers.cap;
    *x = (abx_exchange){.conn = x->conn, .head = head, .head_cap = head_cap};
    x->headers.items = items;
    x->headers.cap = items_cap;
    s->spare = x;
}

void abx__exchange_close(abx_exchange *x, bool complete)
{
    abx__conn *c = x->conn;

    if (x->dispatched) {
        c->server->exchange_count--;
        if (x->ws)
            abx__ws_closed(x);
        else if (x->on.on_close)
            x->on.on_close(x, complete, x->data);
    }
    c->x = NULL;
    if (complete && c->keep && c->server->options.awake)
        abx__awake_answered(&c->server->awake, c);
    abx__exchange_recycle(x);
}

int abx_exchange_detach(abx_exchange *x)
{
    abx__conn *c = x->conn;

    if (x->head_sent || c->dead || c->finished || c->on_gone || c->tls || abx__conn_backlog(c)) {
        errno = EBUSY;
        return -1;
    }
    int fd = fcntl(c->fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return -1;
    x->on = (abx_exchange_handlers){0};
    abx__conn_kill(c, false); /* closes its own descriptor: the connection lives in ours */
    return fd;
}

/* --- the head ----------------------------------------------------------------------------------- */

static void index_headers(abx_exchange *x)
{
    char *at = x->head + strlen(x->head) + 1;

    if (x->field_count > x->headers.cap) {
        x->headers.cap = x->field_count < 16 ? 16 : x->field_count;
        x->headers.items = abx_realloc(x->headers.items, x->headers.cap * sizeof *x->headers.items);
    }
    for (size_t i = 0; i < x->field_count; i++) {
        x->headers.items[i].name = at;
        at += strlen(at) + 1;
        x->headers.items[i].value = at;
        at += strlen(at) + 1;
    }
    x->headers.count = x->field_count;
}

/* Behind scheme and host, if a client (as to a proxy) has sent a whole URL. */
static const char *path_of(const char *target)
{
    if (strncasecmp(target, "http://", 7) != 0 && strncasecmp(target, "https://", 8) != 0)
        return target;
    const char *host = strstr(target, "//") + 2;
    const char *path = host + strcspn(host, "/?");
    return *path == '/' ? path : "/";
}

static void split_target(abx_exchange *x)
{
    const char *path = path_of(x->head), *mark = strchr(path, '?');

    x->target = x->head;
    x->query = mark ? mark + 1 : "";
    if (mark)
        x->path_copy = abx_strndup(path, (size_t)(mark - path));
    x->path = mark ? x->path_copy : path;
}

int abx__exchange_read_head(abx_exchange *x)
{
    const llhttp_t *p = &x->conn->parser;
    size_t hosts = 0;
    const char *te, *expect;

    if (p->http_major != 1 || p->http_minor > 1)
        return 505;
    split_target(x);
    index_headers(x);
    for (size_t i = 0; i < x->headers.count; i++)
        hosts += strcasecmp(x->headers.items[i].name, "Host") == 0;
    if (hosts > 1 || (hosts == 0 && p->http_minor == 1))
        return 400;
    te = abx_http_headers_get(&x->headers, "Transfer-Encoding");
    if (te && strcasecmp(te, "chunked") != 0)
        return 501;
    if (p->flags & F_CHUNKED)
        x->content_length = -1;
    else if (p->flags & F_CONTENT_LENGTH)
        x->content_length = p->content_length > INT64_MAX ? INT64_MAX : (int64_t)p->content_length;
    expect = abx_http_headers_get(&x->headers, "Expect");
    if (expect && strcasecmp(expect, "100-continue") != 0)
        return 417;
    x->expects_100 = expect && p->http_minor == 1 && x->content_length != 0;
    return 0;
}

const char *abx_exchange_method(const abx_exchange *x)
{
    return llhttp_method_name((llhttp_method_t)x->conn->parser.method);
}

const char *abx_exchange_target(const abx_exchange *x)
{
    return x->target;
}

const char *abx_exchange_path(const abx_exchange *x)
{
    return x->path;
}

void abx_exchange_strip(abx_exchange *x, size_t n)
{
    ABX_CHECK(n < strlen(x->path) && x->path[n] == '/');
    x->path += n;
    if (x->target[0] == '/')
        x->target += n;
}

const char *abx_exchange_query(const abx_exchange *x)
{
    return x->query;
}

const abx_http_headers *abx_exchange_headers(const abx_exchange *x)
{
    return &x->headers;
}

const char *abx_exchange_header(const abx_exchange *x, const char *name)
{
    return abx_http_headers_get(&x->headers, name);
}

int64_t abx_exchange_content_length(const abx_exchange *x)
{
    return x->content_length;
}

uv_loop_t *abx_exchange_loop(const abx_exchange *x)
{
    return x->conn->server->loop;
}

bool abx_exchange_is_tls(const abx_exchange *x)
{
    return x->conn->tls != NULL;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

char *abx_percent_decode(const char *s, size_t n, size_t *out_len)
{
    char *out = abx_alloc(n + 1), *to = out;

    for (size_t i = 0; i < n; i++) {
        if (s[i] != '%') {
            *to++ = s[i];
            continue;
        }
        int high = n - i > 2 ? hex_digit(s[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(s[i + 2]) : -1;
        if (low < 0) {
            free(out);
            return NULL;
        }
        *to++ = (char)(high << 4 | low);
        i += 2;
    }
    *to = 0;
    if (out_len)
        *out_len = (size_t)(to - out);
    return out;
}

/* One part of a query as a form writes it: '+' is a blank. A 0 byte in it counts as broken. */
static char *form_decode(const char *s, size_t n)
{
    size_t len = 0;
    char *plain = abx_strndup(s, n);

    for (char *p = plain; *p; p++)
        if (*p == '+')
            *p = ' ';
    char *out = abx_percent_decode(plain, n, &len);
    free(plain);
    if (out && strlen(out) != len) {
        free(out);
        return NULL;
    }
    return out;
}

char *abx_exchange_query_get(const abx_exchange *x, const char *name)
{
    for (const char *at = x->query; *at;) {
        size_t n = strcspn(at, "&");
        const char *eq = memchr(at, '=', n);
        size_t key_len = eq ? (size_t)(eq - at) : n;
        ABX_AUTO_FREE char *key = form_decode(at, key_len);
        if (key && strcmp(key, name) == 0)
            return eq ? form_decode(eq + 1, n - key_len - 1) : abx_strdup("");
        at += n;
        at += *at == '&';
    }
    return NULL;
}

/* --- the body ----------------------------------------------------------------------------------- */

void abx_exchange_handle(abx_exchange *x, const abx_exchange_handlers *handlers, void *data)
{
    x->on = *handlers;
    x->data = data;
}

void abx_exchange_pause(abx_exchange *x)
{
    x->paused = true;
}

void abx_exchange_resume(abx_exchange *x)
{
    if (!x->paused)
        return;
    x->paused = false;
    x->conn->kick = true;
    abx__conn_pend(x->conn);
}

void abx_exchange_last(abx_exchange *x)
{
    x->conn->keep = false;
}

void abx_exchange_limit_body(abx_exchange *x, uint64_t max_bytes)
{
    x->body_max = max_bytes;
}

void abx_exchange_collect(abx_exchange *x, size_t max_bytes,
                          void (*cb)(abx_exchange *x, const uint8_t *bytes, size_t n, void *data),
                          void *data)
{
    x->body_max = x->collect_max = max_bytes;
    x->collect_cb = cb;
    x->collect_data = data;
    abx_buf_init(&x->collected, max_bytes);
    if (x->body_done)
        abx__conn_pend(x->conn);
}

void abx_exchange_drop_body(abx_exchange *x)
{
    abx_buf_clear(&x->collected);
}

void abx__exchange_body(abx_exchange *x, const uint8_t *bytes, size_t n)
{
    abx__conn *c = x->conn;

    if (x->ended) {
        /* Answered already: the rest is dropped, as long as that is cheaper than a new connection. */
        x->body_seen += n;
        if (x->body_seen > ABX__DRAIN_LIMIT)
            c->keep = false;
        return;
    }
    if (n > x->body_max - x->body_seen) {
        c->fail_status = 413;
        return;
    }
    x->body_seen += n;
    if (x->collect_cb) {
        if (abx_buf_add(&x->collected, bytes, n) < 0)
            c->fail_status = 413;
    } else if (x->on.on_body) {
        x->on.on_body(x, bytes, n, x->data);
    }
}

void abx__exchange_body_end(abx_exchange *x)
{
    if (x->end_told || x->ended || x->ws || x->raw)
        return;
    x->end_told = true;
    if (x->collect_cb)
        x->collect_cb(x, (const uint8_t *)abx_buf_cstr(&x->collected), x->collected.len,
                      x->collect_data);
    else if (x->on.on_body_end)
        x->on.on_body_end(x, x->data);
}
