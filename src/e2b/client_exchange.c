#include "e2b/client_inner.h"

#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "e2b/again.h"
#include "wire/base64.h"

const char *abx__envd_unary_type(const abx_envd_client *c)
{
    return c->codec == ABX_E2B_PROTO ? "application/proto" : "application/json";
}

const char *abx__envd_stream_type(const abx_envd_client *c)
{
    return c->codec == ABX_E2B_PROTO ? "application/connect+proto" : "application/connect+json";
}

/* --- the request's head ---------------------------------------------------------------------------- */
typedef struct lines {
    char **items;
    size_t count, room;
} lines;

static void lines_clear(lines *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i]);
    free(l->items);
}

static void add(lines *l, char *line)
{
    if (l->count == l->room) {
        l->room = 2 * l->room + 16;
        l->items = abx_realloc(l->items, l->room * sizeof(char *));
    }
    l->items[l->count++] = line;
}

static char *basic_user(const char *user)
{
    ABX_AUTO_FREE char *pair = abx_format("%s:", user);
    ABX_AUTO_FREE char *text = abx_base64_text(pair, strlen(pair), ABX_BASE64_STANDARD, true);
    return abx_format("Authorization: Basic %s", text);
}

static void add_lines(const abx_envd_client *c, const abx__envd_request *r, lines *l)
{
    add(l, abx_format("E2b-Sandbox-Id: %s", c->sandbox_id));
    add(l, abx_format("E2b-Sandbox-Port: %d", r->code ? ABX_E2B_CODE_PORT : ABX_E2B_ENVD_PORT));
    add(l, abx_strdup("Accept-Encoding: identity"));
    if (c->token)
        add(l, abx_format("X-Access-Token: %s", c->token));
    if (c->traffic_token)
        add(l, abx_format("E2B-Traffic-Access-Token: %s", c->traffic_token));
    if (c->abx)
        add(l, abx_strdup("X-Abx: 1"));
    if (r->content_type)
        add(l, abx_format("Content-Type: %s", r->content_type));
    if (r->user)
        add(l, basic_user(r->user));
    if (r->connect)
        add(l, abx_strdup("Connect-Protocol-Version: 1"));
    if (r->keepalive)
        add(l, abx_strdup("Keepalive-Ping-Interval: " ABX__ENVD_PING_S));
    /* at most ten digits; what is longer than that is no limit anybody waits for */
    if (r->connect_timeout_ms > 0 && r->connect_timeout_ms <= 9999999999U)
        add(l, abx_format("Connect-Timeout-Ms: %llu", (unsigned long long)r->connect_timeout_ms));
    for (size_t i = 0; i < r->more_count; i++)
        add(l, abx_strdup(r->more[i]));
}

/* --- the answer ------------------------------------------------------------------------------------------ */
static char *copy_header(const abx_http_headers *headers, const char *name)
{
    return abx_strdup(abx_http_headers_get(headers, name));
}

/* "application/json; charset=utf-8" is "application/json". */
static bool has_type(const abx__envd_exchange *x)
{
    if (!x->answer_type)
        return true;
    size_t n = strlen(x->answer_type);
    const char *type = x->content_type ? x->content_type : "";
    return strncasecmp(type, x->answer_type, n) == 0 && strchr("; \t", type[n]);
}

/* A page in the place of a file: envd names the file that it sends, whatever its type. */
static bool is_page(const abx__envd_exchange *x, const abx_http_headers *headers)
{
    return !x->client->abx && x->content_type &&
           strncasecmp(x->content_type, "text/html", 9) == 0 &&
           !abx_http_headers_get(headers, "Content-Disposition");
}

/* 200, or exactly the part that was asked for. */
static bool is_wanted(const abx__envd_exchange *x, const abx_http_headers *headers)
{
    const char *range = x->part ? abx_http_headers_get(headers, "Content-Range") : NULL;
    return x->status == 200 || (x->status == 206 && range && abx_has_prefix(range, x->part));
}

/* A length that nobody can count to says nothing, and a cut answer would pass for a whole one. */
static bool length_fits(const abx_http_headers *headers)
{
    const char *length = abx_http_headers_get(headers, "Content-Length");
    uint64_t n;
    return !length || abx_parse_uint(length, INT64_MAX, &n) == 0;
}

static void on_head(abx_http_transfer *t, int status, const abx_http_headers *headers, void *data)
{
    abx__envd_exchange *x = data;
    x->status = status;
    x->content_type = copy_header(headers, "Content-Type");
    x->encoding = copy_header(headers, "Content-Encoding");
    x->retry_after = copy_header(headers, "Retry-After");
    x->request_id = copy_header(headers, "X-Request-Id");
    if (!x->request_id)
        x->request_id = copy_header(headers, "X-Trace-Id");
    bool encoded = x->encoding && *x->encoding && strcasecmp(x->encoding, "identity") != 0;
    x->no_length = !length_fits(headers);
    x->is_page = is_page(x, headers);
    x->good = is_wanted(x, headers) && !encoded && has_type(x) && !x->no_length && !x->is_page;
    if (!x->good)
        x->body.max = ABX__ENVD_MAX_ERROR;
    if (x->no_length)
        abx_http_cancel(x->transfer);
    else if (x->hooks->head)
        x->hooks->head(x);
}

static void collect(abx__envd_exchange *x, const uint8_t *bytes, size_t n)
{
    if (abx_buf_add(&x->body, bytes, n) == 0)
        return;
    if (!x->good) {
        size_t room = x->body.max - x->body.len;
        if (room > 0 && abx_buf_add(&x->body, bytes, room < n ? room : n) < 0)
            return;
        if (!x->cut) { /* nothing of the rest is used, and it may never end */
            x->cut = true;
            abx_http_cancel(x->transfer);
        }
    } else if (!x->too_large) {
        x->too_large = true;
        abx_http_cancel(x->transfer);
    }
}

static void on_body(abx_http_transfer *t, const uint8_t *bytes, size_t n, void *data)
{
    abx__envd_exchange *x = data;
    if (x->good && x->hooks->body) {
        x->delivered = true;
        x->hooks->body(x, bytes, n);
    } else {
        collect(x, bytes, n);
    }
}

static void on_writable(abx_http_transfer *t, void *data)
{
    abx__envd_exchange *x = data;
    if (x->hooks->writable)
        x->hooks->writable(x);
}

/* A sandbox of this machine has no address that means anything to its user: the error names the sandbox. */
static void name_sandbox(const abx_envd_client *c, abx_error *err)
{
    ABX_AUTO_FREE char *address = abx_format("'%s'", c->base_url);
    const char *at = c->local ? strstr(err->message, address) : NULL;
    if (!at)
        return;
    char *named = abx_format("%.*ssandbox '%s'%s", (int)(at - err->message), err->message,
                             c->sandbox_id, at + strlen(address));
    free(err->message);
    err->message = named;
}

/* What the transport says, as an error of the exchange. Owned. */
static abx_error *end_error(const abx__envd_exchange *x, const abx_error *err)
{
    if (x->no_length)
        return abx_error_new(ABX_ERR_BACKEND_ANSWER, "the answer has a length that is no number");
    if (x->too_large)
        return abx_error_new(ABX_ERR_BACKEND_ANSWER, "the answer is larger than %zu bytes",
                             x->body.max);
    if (!err || x->cut)
        return NULL;
    abx_error *own = abx_error_copy(err);
    if (own->id == ABX_ERR_TOO_LARGE) /* the server broke the limit, not the caller */
        own->id = ABX_ERR_BACKEND_ANSWER;
    name_sandbox(x->client, own);
    return own;
}

/* --- once more --------------------------------------------------------------------------------------------------------- */
/* What another try needs, kept while one may come; and the wait before it. */
struct abx__envd_again {
    uv_timer_t timer;
    abx__envd_exchange *x;
    lines head;
    char *url, *method;
    uint8_t *body;
    size_t body_len, max_body;
    uint64_t timeout_ms, idle_ms;
    uint64_t until; /* on the loop's clock */
    unsigned tries;
    bool waiting;
};

static void again_free(struct abx__envd_again *a)
{
    lines_clear(&a->head);
    free(a->url);
    free(a->method);
    free(a->body);
    free(a);
}

static void on_again_freed(uv_handle_t *h)
{
    again_free(h->data);
}

static void forget_answer(abx__envd_exchange *x)
{
    free(ABX_TAKE(x->content_type));
    free(ABX_TAKE(x->request_id));
    free(ABX_TAKE(x->encoding));
    free(ABX_TAKE(x->retry_after));
    x->status = 0;
    x->good = x->is_page = x->no_length = x->cut = false;
}

static void exchange_free(abx__envd_exchange *x)
{
    forget_answer(x);
    free(x->answer_type);
    free(x->part);
    abx_buf_clear(&x->body);
    if (x->again && x->again->tries > 0)
        uv_close((uv_handle_t *)&x->again->timer, on_again_freed);
    else if (x->again)
        again_free(x->again);
    free(x);
}

static void finish(abx__envd_exchange *x, const abx_error *err)
{
    x->transfer = NULL;
    x->hooks->end(x, err);
    exchange_free(x);
}

/* Words with which a server says that asking again is of no use. */
static bool is_final(const abx__envd_exchange *x)
{
    const char *text = abx_buf_cstr(&x->body);
    return strstr(text, "not found") || strstr(text, "port is not open");
}

/* Milliseconds until the next try, or -1: none. */
static int64_t wait_of(const abx__envd_exchange *x, const abx_http_transfer *t,
                       const abx_error *err)
{
    const struct abx__envd_again *a = x->again;
    if (!a || x->delivered || x->cancelled || x->too_large)
        return -1;
    uint64_t now = uv_now(x->client->loop), seconds = 0;
    abx__again_rule rule = {.sent = a->tries + 1,
                            .most = ABX__ENVD_TRIES,
                            .safe = x->safe,
                            .left_ms = a->until == UINT64_MAX ? ABX_FOREVER
                                       : a->until > now       ? a->until - now
                                                              : 0,
                            .patience_ms = ABX__ENVD_PATIENCE_MS};
    if (err)
        return abx__again_after_break(&rule, err, abx_http_was_sent(t));
    bool told = x->retry_after && abx_parse_uint(x->retry_after, 1000000, &seconds) == 0;
    if (x->status != 429 && is_final(x))
        return -1;
    return abx__again_after_status(&rule, x->status, told ? seconds * 1000 : ABX_FOREVER);
}

static int send_again(abx__envd_exchange *x, abx_error **err);

static void on_wait(uv_timer_t *timer)
{
    struct abx__envd_again *a = timer->data;
    abx__envd_exchange *x = a->x;
    ABX_AUTO_ERROR err = NULL;
    a->waiting = false;
    if (send_again(x, &err) < 0)
        finish(x, err);
}

static bool try_again(abx__envd_exchange *x, const abx_http_transfer *t, const abx_error *err)
{
    struct abx__envd_again *a = x->again;
    int64_t wait = wait_of(x, t, err);
    if (wait < 0)
        return false;
    if (a->tries++ == 0) {
        uv_timer_init(x->client->loop, &a->timer);
        a->timer.data = a;
    }
    x->transfer = NULL;
    forget_answer(x);
    abx_buf_reset(&x->body);
    a->waiting = true;
    uv_timer_start(&a->timer, on_wait, (uint64_t)wait, 0);
    return true;
}

static void on_cancelled(uv_handle_t *h)
{
    struct abx__envd_again *a = h->data;
    abx__envd_exchange *x = a->x;
    ABX_AUTO_ERROR err = abx_error_new(ABX_ERR_CANCELLED, "the request was cancelled");
    x->again = NULL;
    again_free(a);
    finish(x, err);
}

void abx__envd_exchange_cancel(abx__envd_exchange *x)
{
    bool first = !x->cancelled;
    x->cancelled = true;
    if (x->transfer)
        abx_http_cancel(x->transfer);
    else if (first && x->again && x->again->waiting)
        uv_close((uv_handle_t *)&x->again->timer, on_cancelled);
}

/* --- start ---------------------------------------------------------------------------------------------------------------- */
static void on_end(abx_http_transfer *t, const abx_error *err, void *data)
{
    abx__envd_exchange *x = data;
    if (try_again(x, t, err))
        return;
    ABX_AUTO_ERROR own = end_error(x, err);
    finish(x, own);
}

/* What must not be done twice goes out once: what starts something, on a connection of its own (a kept one that turns out to be
 * closed would lose it); small questions on a kept one, where that loses them. */
static int start(abx__envd_exchange *x, abx_http_request *request, abx_error **err)
{
    static const abx_http_handlers handlers = {on_head, on_body, on_writable, on_end};
    request->once = !x->safe;
    request->own_connection = x->lasts;
    return abx_http_start(x->client->http, request, &handlers, x, &x->transfer, err);
}

static int send_again(abx__envd_exchange *x, abx_error **err)
{
    const struct abx__envd_again *a = x->again;
    abx_http_request request = {.method = a->method,
                                .url = a->url,
                                .headers = (const char *const *)a->head.items,
                                .header_count = a->head.count,
                                .body = a->body,
                                .body_len = a->body_len,
                                .timeout_ms = a->timeout_ms,
                                .idle_timeout_ms = a->idle_ms};
    x->body.max = a->max_body;
    return start(x, &request, err);
}

/* Keep what another try needs; takes head and url over. */
static void keep(abx__envd_exchange *x, const abx__envd_request *r, lines *head, char *url)
{
    struct abx__envd_again *a = ABX_NEW(struct abx__envd_again);
    uint64_t now = uv_now(x->client->loop);
    a->x = x;
    a->head = *head;
    a->url = url;
    a->method = abx_strdup(r->method);
    a->body_len = r->body_len;
    if (r->body_len > 0)
        a->body = memcpy(abx_alloc(r->body_len), r->body, r->body_len);
    a->max_body = x->body.max;
    a->timeout_ms = r->timeout_ms;
    a->idle_ms = r->idle_ms;
    a->until = r->left_ms >= UINT64_MAX - now ? UINT64_MAX : now + r->left_ms;
    x->again = a;
}

abx__envd_exchange *abx__envd_exchange_start(abx_envd_client *c, const abx__envd_request *r,
                                             const abx__envd_hooks *hooks, void *data,
                                             abx_error **err)
{
    lines head = {.count = 0};
    add_lines(c, r, &head);
    char *url = abx_format("%s%s", r->code ? c->code_url : c->base_url, r->path);
    abx_http_request request = {
        .method = r->method,
        .url = url,
        .headers = (const char *const *)head.items,
        .header_count = head.count,
        .body = r->body,
        .body_len = r->body_len,
        .body_stream = r->body_stream,
        .body_size = r->body_size,
        .timeout_ms = r->timeout_ms,
        .idle_timeout_ms = r->idle_ms,
    };
    abx__envd_exchange *x = ABX_NEW(abx__envd_exchange);
    x->client = c;
    x->hooks = hooks;
    x->data = data;
    x->safe = r->safe;
    x->lasts = r->lasts;
    x->answer_type = abx_strdup(r->answer_type);
    x->part = abx_strdup(r->part);
    abx_buf_init(&x->body, r->max_body ? r->max_body : ABX__ENVD_MAX_ERROR);
    int rc = start(x, &request, err);
    if (rc == 0 && !c->local && !r->single && !r->body_stream) {
        keep(x, r, &head, url);
        return x;
    }
    lines_clear(&head);
    free(url);
    if (rc == 0)
        return x;
    exchange_free(x);
    return NULL;
}
