#include "e2b/server_inner.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "wire/envelope.h"

abx_e2b_method abx_e2b_call_method(const abx_e2b_call *c)
{
    return c->method;
}

const char *abx_e2b_call_user(const abx_e2b_call *c)
{
    return c->user;
}

const char *abx_e2b_call_segment(const abx_e2b_call *c)
{
    return c->segment ? c->segment : "";
}

bool abx_e2b_call_is_abx(const abx_e2b_call *c)
{
    bool may = c->x && c->plane == ABX_E2B_PLANE_ALL;
    const char *ours = may ? abx_exchange_header(c->x, "X-Abx") : NULL;
    return ours && strcmp(ours, "1") == 0;
}

uint64_t abx_e2b_call_timeout_ms(const abx_e2b_call *c)
{
    return c->timeout_ms;
}

void abx_e2b_call_handle(abx_e2b_call *c, const abx_e2b_call_handlers *handlers, void *data)
{
    c->on = handlers;
    c->data = data;
}

void abx_e2b_call_pause(abx_e2b_call *c)
{
    c->paused = true;
    if (c->x)
        abx_exchange_pause(c->x);
}

void abx_e2b_call_resume(abx_e2b_call *c)
{
    c->paused = false;
    if (!c->x)
        return;
    abx_exchange_resume(c->x);
    abx__clock_kick(c);
}

/* --- content types ------------------------------------------------------------------------------------- */
static const char ACCEPT_UNARY[] =
    "Accept-Post: application/json, application/json; charset=utf-8, application/proto";
static const char ACCEPT_STREAM[] =
    "Accept-Post: application/connect+json, application/connect+json; "
    "charset=utf-8, application/connect+proto";

/* 0 and the codec; -1 when the type is none of ours for this kind of method. */
static int read_type(abx_e2b_call *c)
{
    const char *type = abx_exchange_header(c->x, "Content-Type");
    if (!type)
        return -1;
    size_t n = strcspn(type, ";");
    const char *rest = type + n;
    while (n > 0 && isspace((unsigned char)type[n - 1]))
        n--;
    if (*rest) {
        rest++;
        while (isspace((unsigned char)*rest))
            rest++;
        if (strcasecmp(rest, "charset=utf-8") != 0 && strcasecmp(rest, "charset=\"utf-8\"") != 0)
            return -1;
        c->charset = true;
    }
    const char *json = c->is_stream ? "application/connect+json" : "application/json";
    const char *proto = c->is_stream ? "application/connect+proto" : "application/proto";
    if (n == strlen(json) && strncasecmp(type, json, n) == 0)
        c->codec = ABX_E2B_JSON;
    else if (n == strlen(proto) && strncasecmp(type, proto, n) == 0 && !c->charset)
        c->codec = ABX_E2B_PROTO;
    else
        return -1;
    return 0;
}

/* 0, -1: an encoding that we do not know. */
static int read_encoding(abx_e2b_call *c)
{
    const char *v =
        abx_exchange_header(c->x, c->is_stream ? "Connect-Content-Encoding" : "Content-Encoding");
    if (!v || !*v || strcmp(v, "identity") == 0)
        return 0;
    if (strcmp(v, "gzip") == 0) {
        c->gzip_in = true;
        return 0;
    }
    abx_e2b_fail(c, ABX_E2B_CODE_UNIMPLEMENTED,
                 "unknown compression \"%s\": supported encodings are gzip", v);
    return -1;
}

/* --- one message ----------------------------------------------------------------------------------------- */
/* The server itself ends a call that the filling has: it is told first. */
static void let_go(abx_e2b_call *c)
{
    const abx_e2b_call_handlers *on = c->on;
    c->on = NULL;
    if (c->live && on && on->on_close)
        on->on_close(c, false, c->data);
}

static yyjson_doc *decode(abx_e2b_call *c, const uint8_t *bytes, size_t n)
{
    ABX_AUTO_ERROR err = NULL;
    if (c->codec == ABX_E2B_JSON && n == 0) {
        let_go(c);
        abx_e2b_fail(c, ABX_E2B_CODE_INVALID_ARGUMENT,
                     "unmarshal message: zero-length payload is not a valid JSON object");
        return NULL;
    }
    yyjson_doc *d = abx_e2b_decode((abx_e2b_msg)c->route->in, c->codec,
                                   bytes ? bytes : (const uint8_t *)"", n, &err);
    if (!d) {
        let_go(c);
        abx_e2b_fail(c, ABX_E2B_CODE_INVALID_ARGUMENT, "unmarshal message: %s",
                     abx_error_text(err));
    }
    return d;
}

/* Hand the request to the filling. */
static void run(abx_e2b_call *c, yyjson_doc *request)
{
    c->request = request;
    c->server->filling->call(c->server->data, c, request ? yyjson_doc_get_root(request) : NULL);
    if (c->live)
        abx__clock_arm(c);
}

static void run_message(abx_e2b_call *c, const uint8_t *bytes, size_t n, bool packed)
{
    ABX_AUTO_BUF plain = ABX_BUF(ABX__MAX_MESSAGE);
    if (packed) {
        if (abx__gunzip_all(bytes, n, &plain) < 0) {
            abx_e2b_fail(c, ABX_E2B_CODE_INVALID_ARGUMENT, "decompress: gzip: invalid data");
            return;
        }
        bytes = plain.data;
        n = plain.len;
    }
    yyjson_doc *d = decode(c, bytes, n);
    if (d)
        run(c, d);
}

/* The body of a server stream: exactly one message, and maybe an end-stream envelope. */
static void on_stream_body(abx_exchange *x, const uint8_t *bytes, size_t n, void *data)
{
    (void)x;
    abx_e2b_call *c = data;
    const uint8_t *message = NULL;
    size_t message_len = 0;
    bool packed = false;
    size_t at = 0;
    while (at < n) {
        size_t left = n - at;
        size_t len = left >= 5 ? abx_envelope_length(bytes + at) : 0;
        if (left < 5 || len > left - 5) {
            abx_e2b_fail(c, ABX_E2B_CODE_INVALID_ARGUMENT,
                         "protocol error: promised %zu bytes in enveloped message, got %zu bytes",
                         len, left >= 5 ? left - 5 : left);
            return;
        }
        uint8_t flags = bytes[at];
        if (!(flags & 2)) {
            if (message) {
                abx_e2b_fail(c, ABX_E2B_CODE_UNIMPLEMENTED, "unary request has multiple messages");
                return;
            }
            message = bytes + at + 5;
            message_len = len;
            packed = flags & 1;
        }
        at += 5 + len;
    }
    if (!message)
        abx_e2b_fail(c, ABX_E2B_CODE_UNIMPLEMENTED, "unary request has zero messages");
    else if (packed && !c->gzip_in)
        abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL,
                     "protocol error: sent compressed message without compression support");
    else
        run_message(c, message, message_len, packed);
}

static void on_unary_body(abx_exchange *x, const uint8_t *bytes, size_t n, void *data)
{
    (void)x;
    abx_e2b_call *c = data;
    run_message(c, bytes, n, c->gzip_in && n > 0);
}

static void on_plain_body(abx_exchange *x, const uint8_t *bytes, size_t n, void *data)
{
    (void)x;
    abx_e2b_call *c = data;
    ABX_AUTO_ERROR err = NULL;
    yyjson_doc *d = NULL;
    if (strcmp(c->route->verb, "POST") == 0 && (n > 0 || !strchr(c->route->path, '*'))) {
        if (n > 0)
            d = abx_json_parse(bytes, n, ABX_ERR_USAGE, "request body", &err);
        if (!d || !yyjson_is_obj(yyjson_doc_get_root(d))) {
            yyjson_doc_free(d);
            abx_e2b_refuse(c, 400, "invalid request body: %s",
                           n == 0 ? "EOF"
                           : err  ? abx_error_text(err)
                                  : "not an object");
            return;
        }
    }
    if (c->route->kind == ABX__KIND_LINES) {
        c->keepalive_ms = ABX__LINES_ALIVE_MS;
        c->last_ms = uv_now(c->server->loop);
    }
    run(c, d);
}

/* --- client streams ---------------------------------------------------------------------------------- */
static void feed_message(abx_e2b_call *c, uint8_t flags, const uint8_t *bytes, size_t n)
{
    if (flags & 2)
        return;
    ABX_AUTO_BUF plain = ABX_BUF(ABX__MAX_MESSAGE);
    if (flags & 1) {
        if (!c->gzip_in || abx__gunzip_all(bytes, n, &plain) < 0) {
            let_go(c);
            abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL,
                         "protocol error: sent compressed message without compression support");
            return;
        }
        bytes = plain.data;
        n = plain.len;
    }
    abx_e2b_channel channel = ABX_E2B_STDIN;
    const uint8_t *view = NULL;
    size_t len = 0;
    abx_buf *scratch = &c->server->scratch;
    abx_buf_reset(scratch);
    int rc =
        n > 0 ? abx_e2b_get_input_event(c->codec, bytes, n, &channel, &view, &len, scratch) : 0;
    if (rc == 1 && c->on && c->on->on_input) {
        c->on->on_input(c, channel, view, len, c->data);
    } else {
        yyjson_doc *d = decode(c, bytes, n); /* also says what is broken */
        if (d && c->on && c->on->on_message)
            c->on->on_message(c, yyjson_doc_get_root(d), c->data);
        yyjson_doc_free(d);
    }
    if (scratch->cap > (size_t)128 * 1024)
        abx_buf_clear(scratch);
}

void abx__call_feed(abx_e2b_call *c)
{
    size_t at = 0;
    while (c->live && !c->paused && c->in.len - at >= 5) {
        const uint8_t *head = c->in.data + at;
        size_t len = abx_envelope_length(head);
        if (len > ABX__MAX_MESSAGE) {
            let_go(c);
            abx_e2b_fail(c, ABX_E2B_CODE_RESOURCE_EXHAUSTED,
                         "message size %zu is larger than configured max %d", len,
                         ABX__MAX_MESSAGE);
            return;
        }
        if (len > c->in.len - at - 5)
            break;
        feed_message(c, head[0], head + 5, len);
        at += 5 + len;
    }
    abx_buf_drop(&c->in, at);
    if (c->in.len == 0 && c->in.cap > (size_t)128 * 1024)
        abx_buf_clear(&c->in);
    if (!c->live || c->paused || !c->all_in || c->half_told)
        return;
    if (c->in.len > 0) {
        size_t got = c->in.len >= 5 ? c->in.len - 5 : c->in.len;
        let_go(c);
        abx_e2b_fail(c, ABX_E2B_CODE_INVALID_ARGUMENT,
                     "protocol error: promised %zu bytes in enveloped message, got %zu bytes",
                     c->in.len >= 5 ? abx_envelope_length(c->in.data) : (size_t)0, got);
        return;
    }
    c->half_told = true;
    if (c->on && c->on->on_half_close)
        c->on->on_half_close(c, c->data);
}

static void on_client_bytes(abx_exchange *x, const uint8_t *bytes, size_t n, void *data)
{
    (void)x;
    abx_e2b_call *c = data;
    if (!c->live)
        return;
    if (abx_buf_add(&c->in, bytes, n) < 0) {
        let_go(c);
        abx_e2b_fail(c, ABX_E2B_CODE_RESOURCE_EXHAUSTED, "too many bytes wait");
        return;
    }
    abx__call_feed(c);
}

static void on_client_end(abx_exchange *x, void *data)
{
    (void)x;
    abx_e2b_call *c = data;
    c->all_in = true;
    if (c->live)
        abx__call_feed(c);
}

/* --- life -------------------------------------------------------------------------------------------- */
static void on_writable(abx_exchange *x, void *data)
{
    (void)x;
    abx_e2b_call *c = data;
    if (c->live && c->on && c->on->on_writable)
        c->on->on_writable(c, c->data);
}

/* Who only looks does not use the sandbox. */
static bool is_use(const abx_e2b_call *c)
{
    return c->method != ABX_E2B_M_HEALTH && c->method != ABX_E2B_M_METRICS &&
           c->method != ABX_E2B_M_ABX_INFO && c->method != ABX_E2B_M_ABX_METRICS;
}

static void on_close(abx_exchange *x, bool complete, void *data)
{
    (void)x;
    (void)complete;
    abx_e2b_call *c = data;
    c->x = NULL;
    bool live = c->live;
    const abx_e2b_call_handlers *on = c->on;
    void *filling_data = c->data;
    abx__call_done(c);
    if (live && on && on->on_close)
        on->on_close(c, false, filling_data);
    abx__clock_stop(c);
    if (is_use(c))
        abx__use_end(c->server);
    abx__seat_leave(&c->seat);
    abx__seat_free(&c->seat);
    free(c->user);
    free(c->segment);
    yyjson_doc_free(c->request);
    abx_buf_clear(&c->in);
    abx_buf_clear(&c->parts);
    free(c);
}

/* Who closed the sending side of a running call waits for nothing any more. */
static void on_peer_eof(abx_exchange *x, void *data)
{
    abx_e2b_call *c = data;
    bool stream = c->route->kind == ABX__KIND_SERVER || c->route->kind == ABX__KIND_LINES;
    if (c->live && c->request && stream)
        abx_exchange_abort(x);
}

static int check_head(abx_e2b_call *c)
{
    const char *version = abx_exchange_header(c->x, "Connect-Protocol-Version");
    if (version && strcmp(version, "1") != 0) {
        abx_e2b_fail(c, ABX_E2B_CODE_INVALID_ARGUMENT,
                     "Connect-Protocol-Version must be \"1\": got \"%s\"", version);
        return -1;
    }
    char text[160];
    if (abx__clock_read(c, text) < 0) {
        abx_e2b_fail(c, ABX_E2B_CODE_INVALID_ARGUMENT, "%s", text);
        return -1;
    }
    if (read_encoding(c) < 0)
        return -1;
    if (c->timeout_ms == 0) {
        abx_e2b_fail(c, ABX_E2B_CODE_DEADLINE_EXCEEDED, "context deadline exceeded");
        return -1;
    }
    return 0;
}

void abx__call_start(abx_e2b_server *s, abx_exchange *x, abx_e2b_plane plane, abx_e2b_method m,
                     char *user, char *segment)
{
    abx_e2b_call *c = ABX_NEW(abx_e2b_call);
    c->server = s;
    c->x = x;
    c->plane = plane;
    c->method = m;
    c->route = &abx__routes[m];
    abx__seat_take(s, &c->seat, x);
    c->user = user;
    c->segment = segment;
    c->live = true;
    c->timeout_ms = ABX_FOREVER;
    if (is_use(c))
        abx__use_begin(s);
    c->is_stream = c->route->kind == ABX__KIND_SERVER || c->route->kind == ABX__KIND_CLIENT;
    abx_buf_init(&c->in, ABX__MAX_MESSAGE + (size_t)1024 * 1024);
    abx_buf_init(&c->parts, (size_t)8 * 1024 * 1024);
    bool client = c->route->kind == ABX__KIND_CLIENT;
    abx_exchange_handlers handlers = {.on_body = client ? on_client_bytes : NULL,
                                      .on_body_end = client ? on_client_end : NULL,
                                      .on_writable = on_writable,
                                      .on_close = on_close,
                                      .on_peer_eof = on_peer_eof};
    abx_exchange_handle(x, &handlers, c);
    if (c->route->kind == ABX__KIND_PLAIN) {
        abx_exchange_collect(x, (size_t)1024 * 1024, on_plain_body, c);
        return;
    }
    if (c->route->kind == ABX__KIND_LINES) {
        abx_exchange_collect(x, ABX__MAX_MESSAGE, on_plain_body, c);
        return;
    }
    if (read_type(c) < 0) {
        abx__lines l;
        abx__lines_init(&l, x, true);
        abx__lines_add(&l, c->is_stream ? ACCEPT_STREAM : ACCEPT_UNARY);
        abx_exchange_reply_with(x, 415, l.items, l.count, NULL, 0);
        abx__call_done(c);
        return;
    }
    if (check_head(c) < 0)
        return;
    if (client) {
        abx_exchange_limit_body(x, UINT64_MAX);
        run(c, NULL);
        return;
    }
    abx_exchange_collect(x, ABX__MAX_MESSAGE, c->is_stream ? on_stream_body : on_unary_body, c);
}
