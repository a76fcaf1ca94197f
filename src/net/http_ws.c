#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/openssl_tables.h"
#include "base/text.h"
#include "net/http_server_inner.h"
#include "wire/base64.h"
#include "wire/ws_guard.h"

struct abx__ws {
    wslay_event_context_ptr frames;
    abx_ws_handlers on;
    void *data;
    const uint8_t *in; /* bytes that are being fed */
    size_t in_len;
    abx_ws_guard guard;
    bool close_asked; /* we have queued a close frame */
    bool over_high;
};

void abx__ws_free(struct abx__ws *ws)
{
    wslay_event_context_free(ws->frames);
    free(ws);
}

/* --- wslay's callbacks -------------------------------------------------------------------------- */

static ssize_t take_input(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, int flags,
                          void *user)
{
    struct abx__ws *ws = ((abx_exchange *)user)->ws;
    size_t n = 0;

    (void)flags;
    if (ws->in_len && abx__ws_wants_read(((abx_exchange *)user)->conn))
        n = abx_ws_guard_next(&ws->guard, &ws->in, &ws->in_len, buf, len);
    if (n == 0) {
        wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    return (ssize_t)n;
}

static ssize_t give_output(wslay_event_context_ptr ctx, const uint8_t *bytes, size_t len, int flags,
                           void *user)
{
    (void)ctx;
    (void)flags;
    abx__conn_queue(((abx_exchange *)user)->conn, bytes, len);
    return (ssize_t)len;
}

static void got_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *arg,
                        void *user)
{
    abx_exchange *x = user;
    struct abx__ws *ws = x->ws;

    (void)ctx;
    if (wslay_is_ctrl_frame(arg->opcode) || ws->close_asked || x->conn->dead)
        return;
    if (ws->on.on_message)
        ws->on.on_message(x, arg->opcode == WSLAY_TEXT_FRAME,
                          arg->msg_length ? arg->msg : (const uint8_t *)"", arg->msg_length,
                          ws->data);
}

/* --- the upgrade -------------------------------------------------------------------------------- */

bool abx_exchange_wants_ws(const abx_exchange *x)
{
    const abx_http_headers *h = &x->headers;
    const char *key = abx_http_headers_get(h, "Sec-WebSocket-Key");
    const char *version = abx_http_headers_get(h, "Sec-WebSocket-Version");

    return x->conn->parser.method == HTTP_GET && x->conn->parser.http_minor == 1 &&
           x->content_length == 0 && abx_http_headers_has(h, "Connection", "upgrade") &&
           abx_http_headers_has(h, "Upgrade", "websocket") && key && strlen(key) == 24 && version &&
           strcmp(version, "13") == 0;
}

static void accept_key(const char *key, char out[64])
{
    char text[128];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int n = 0;

    int len = snprintf(text, sizeof text, "%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    abx_openssl_ready();
    ABX_CHECK(EVP_Digest(text, (size_t)len, digest, &n, EVP_sha1(), NULL) == 1);
    abx_base64_encode(digest, n, out, ABX_BASE64_STANDARD, true);
}

int abx_exchange_upgrade(abx_exchange *x, const char *protocol, size_t max_message,
                         const abx_ws_handlers *handlers, void *data)
{
    static const struct wslay_event_callbacks callbacks = {.recv_callback = take_input,
                                                           .send_callback = give_output,
                                                           .on_msg_recv_callback = got_message};
    char key[64];

    if (x->head_sent)
        return -1;
    if (!abx_exchange_wants_ws(x)) {
        static const char *const headers[] = {"Content-Type: text/plain",
                                              "Sec-WebSocket-Version: 13"};
        abx_exchange_reply_with(x, 400, headers, 2, "not a websocket request\n", 24);
        return -1;
    }
    accept_key(abx_exchange_header(x, "Sec-WebSocket-Key"), key);
    ABX_AUTO_FREE char *head = abx_format(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: %s\r\n%s%s%s\r\n",
        key, protocol ? "Sec-WebSocket-Protocol: " : "", protocol ? protocol : "",
        protocol ? "\r\n" : "");
    struct abx__ws *ws = ABX_NEW(struct abx__ws);
    ABX_CHECK(wslay_event_context_server_init(&ws->frames, &callbacks, x) == 0);
    wslay_event_config_set_max_recv_msg_length(ws->frames, max_message);
    abx_ws_guard_init(&ws->guard, true, max_message);
    ws->on = *handlers;
    ws->data = data;
    x->ws = ws;
    x->head_sent = true;
    x->on = (abx_exchange_handlers){0};
    x->conn->keep = false;
    abx__conn_queue(x->conn, head, strlen(head));
    x->conn->kick = true;
    return 0;
}

/* --- frames ------------------------------------------------------------------------------------- */

bool abx__ws_wants_read(const abx__conn *c)
{
    const struct abx__ws *ws = c->x->ws;

    /* A peer that does not take our bytes gets no further answers to its pings either. */
    return !c->x->paused && abx__conn_backlog(c) <= ABX__HIGH_MARK &&
           wslay_event_get_read_enabled(ws->frames);
}

bool abx__ws_may_push(const abx_exchange *x)
{
    return !wslay_event_get_close_received(x->ws->frames);
}

static void push(abx_exchange *x)
{
    if (wslay_event_send(x->ws->frames) != 0)
        abx__conn_kill(x->conn, false);
}

void abx__ws_feed(abx__conn *c, const uint8_t *bytes, size_t n)
{
    abx_exchange *x = c->x;
    struct abx__ws *ws = x->ws;

    ws->in = bytes;
    ws->in_len = n;
    while (ws->in_len && !c->dead && abx__ws_wants_read(c)) {
        if (wslay_event_recv(ws->frames) != 0) {
            abx__conn_kill(c, false);
            break;
        }
        if (ws->guard
                .fault) { /* the peer broke the protocol: it hears why, and is not heard any more */
            wslay_event_shutdown_read(ws->frames);
            wslay_event_queue_close(ws->frames, (uint16_t)ws->guard.fault, NULL, 0);
        }
        push(x);
    }
    if (ws->in_len && wslay_event_get_read_enabled(ws->frames) && !c->dead) {
        c->carry = abx_realloc(c->carry, ws->in_len);
        memcpy(c->carry, ws->in, ws->in_len);
        c->carry_at = 0;
        c->carry_len = ws->in_len;
    }
    ws->in_len = 0;
}

bool abx__ws_is_held(const abx__conn *c)
{
    return c->x->ws->over_high;
}

/* Over when both close frames went, or when ours answers a broken peer and is out. */
void abx__ws_settle(abx__conn *c)
{
    abx_exchange *x = c->x;
    struct abx__ws *ws = x->ws;

    if (ws->over_high && abx__conn_backlog(c) <= ABX__LOW_MARK) {
        ws->over_high = false;
        if (!ws->close_asked && ws->on.on_writable)
            ws->on.on_writable(x, ws->data);
    }
    if (!wslay_event_get_close_sent(ws->frames) || c->linger || c->dead)
        return;
    if (wslay_event_get_close_received(ws->frames) || !wslay_event_get_read_enabled(ws->frames)) {
        x->ended = true;
        x->body_done = true;
    }
}

void abx__ws_closed(abx_exchange *x)
{
    struct abx__ws *ws = x->ws;
    int code = 1006;

    if (wslay_event_get_close_received(ws->frames))
        code = wslay_event_get_status_code_received(ws->frames);
    if (ws->on.on_close)
        ws->on.on_close(x, code, ws->data);
}

int abx_ws_send(abx_exchange *x, bool text, const void *bytes, size_t n)
{
    struct abx__ws *ws = x->ws;
    struct wslay_event_msg message = {
        .opcode = text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME, .msg = bytes, .msg_length = n};

    if (!ws || ws->close_asked || x->conn->dead)
        return 1;
    if (wslay_event_queue_msg(ws->frames, &message) != 0)
        return 1; /* the peer has closed already */
    push(x);
    if (abx__conn_backlog(x->conn) <= ABX__HIGH_MARK)
        return 1;
    ws->over_high = true;
    return 0;
}

void abx_ws_close(abx_exchange *x, int code, const char *reason)
{
    struct abx__ws *ws = x->ws;
    size_t n = reason ? strlen(reason) : 0;

    if (!ws || ws->close_asked)
        return;
    ws->close_asked = true;
    if (n > 123)
        n = abx_utf8_whole(reason, 123);
    if (wslay_event_queue_close(ws->frames, (uint16_t)code, (const uint8_t *)reason, n) == 0)
        push(x);
    x->paused = false;
    x->conn->kick = true;
    abx__conn_pend(x->conn);
}
