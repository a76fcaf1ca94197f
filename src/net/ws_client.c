#include "net/ws_client.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <wslay/wslay.h>

#include "base/id.h"
#include "base/openssl_tables.h"
#include "base/text.h"
#include "net/http_client_inner.h"
#include "wire/base64.h"
#include "wire/ws_guard.h"

/* curl carries the upgraded connection as raw bytes; the frames are wslay's, as on the server. */
struct abx_ws {
    abx_http *http;
    abx_http_transfer *t; /* NULL once it has ended */
    wslay_event_context_ptr frames;
    abx_ws_client_handlers on;
    void *data;
    char *protocol;    /* that the server chose, or NULL */
    char reason[124];  /* of the peer's close */
    char *server_key;  /* what Sec-WebSocket-Accept must say */
    const uint8_t *in; /* bytes that are being fed */
    size_t in_len;
    abx_ws_guard guard;
    abx_error *error;
    bool opened, close_asked, over_high;
};

/* --- wslay's callbacks -------------------------------------------------------------------------- */

static ssize_t take_input(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, int flags,
                          void *user)
{
    abx_ws *ws = user;
    size_t n = abx_ws_guard_next(&ws->guard, &ws->in, &ws->in_len, buf, len);

    (void)flags;
    if (n == 0) {
        wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    return (ssize_t)n;
}

static ssize_t give_output(wslay_event_context_ptr ctx, const uint8_t *bytes, size_t len, int flags,
                           void *user)
{
    abx_ws *ws = user;

    (void)ctx;
    (void)flags;
    if (ws->t && abx_http_write(ws->t, bytes, len) == 0)
        ws->over_high = true;
    return (ssize_t)len;
}

static int make_mask(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, void *user)
{
    (void)ctx;
    (void)user;
    abx_random_bytes(buf, len);
    return 0;
}

static void got_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *arg,
                        void *user)
{
    abx_ws *ws = user;

    (void)ctx;
    if (arg->opcode == WSLAY_CONNECTION_CLOSE && arg->msg_length > 2)
        snprintf(ws->reason, sizeof ws->reason, "%.*s", (int)(arg->msg_length - 2), arg->msg + 2);
    if (wslay_is_ctrl_frame(arg->opcode) || ws->close_asked || !ws->t)
        return;
    if (ws->on.on_message)
        ws->on.on_message(ws, arg->opcode == WSLAY_TEXT_FRAME,
                          arg->msg_length ? arg->msg : (const uint8_t *)"", arg->msg_length,
                          ws->data);
}

/* --- the transfer's callbacks ------------------------------------------------------------------- */

static void break_off(abx_ws *ws, abx_error *e)
{
    abx_error_take(&ws->error, e);
    if (ws->t)
        abx_http_cancel(ws->t);
}

static void push(abx_ws *ws)
{
    if (wslay_event_send(ws->frames) != 0)
        break_off(ws,
                  abx_error_new(ABX_ERR_BACKEND_ANSWER, "broken WebSocket of '%s'", ws->t->server));
    /* Both have said close, or we gave up on a broken peer: nothing more is to come from here. */
    if (wslay_event_get_close_sent(ws->frames) &&
        (wslay_event_get_close_received(ws->frames) || !wslay_event_get_read_enabled(ws->frames)) &&
        ws->t)
        abx_http_write_end(ws->t);
}

static void on_head(abx_http_transfer *t, int status, const abx_http_headers *headers, void *data)
{
    abx_ws *ws = data;
    const char *accept = abx_http_headers_get(headers, "Sec-WebSocket-Accept");

    if (status != 101) {
        break_off(ws, abx_error_new(ABX_ERR_BACKEND, "'%s' answered the WebSocket request with %d",
                                    t->server, status));
        return;
    }
    if (!accept || strcmp(accept, ws->server_key) != 0 ||
        !abx_http_headers_has(headers, "Upgrade", "websocket")) {
        break_off(
            ws, abx_error_new(ABX_ERR_BACKEND_ANSWER, "'%s' does not speak WebSocket", t->server));
        return;
    }
    ws->opened = true;
    ws->protocol = abx_strdup(abx_http_headers_get(headers, "Sec-WebSocket-Protocol"));
    if (ws->on.on_open)
        ws->on.on_open(ws, ws->data);
}

static void on_body(abx_http_transfer *t, const uint8_t *bytes, size_t n, void *data)
{
    abx_ws *ws = data;

    (void)t;
    if (!ws->opened || ws->error)
        return;
    ws->in = bytes;
    ws->in_len = n;
    while (ws->in_len && !ws->error && wslay_event_get_read_enabled(ws->frames)) {
        if (wslay_event_recv(ws->frames) != 0)
            break_off(ws,
                      abx_error_new(ABX_ERR_BACKEND_ANSWER, "broken WebSocket of '%s'", t->server));
        if (ws->guard.fault) { /* it hears why, and is not heard any more */
            wslay_event_shutdown_read(ws->frames);
            wslay_event_queue_close(ws->frames, (uint16_t)ws->guard.fault, NULL, 0);
        }
        push(ws);
    }
    ws->in_len = 0;
}

static void on_writable(abx_http_transfer *t, void *data)
{
    abx_ws *ws = data;

    (void)t;
    if (!ws->over_high)
        return;
    ws->over_high = false;
    if (ws->on.on_writable && !ws->close_asked)
        ws->on.on_writable(ws, ws->data);
}

static abx_error *ws_end_error(abx_ws *ws, const abx_http_transfer *t, const abx_error *err)
{
    if (ws->error)
        return ABX_TAKE(ws->error);
    if (wslay_event_get_close_received(ws->frames))
        return NULL;
    if (wslay_event_get_close_sent(ws->frames) && !ws->close_asked) {
        uint16_t code = wslay_event_get_status_code_sent(ws->frames);
        return code == WSLAY_CODE_MESSAGE_TOO_BIG
                   ? abx_error_new(ABX_ERR_TOO_LARGE, "a message of '%s' is over its limit",
                                   t->server)
                   : abx_error_new(ABX_ERR_BACKEND_ANSWER, "broken WebSocket of '%s'", t->server);
    }
    if (err)
        return abx_error_copy(err);
    return abx_error_new(ABX_ERR_NETWORK, "'%s' closed the WebSocket without a word", t->server);
}

static void on_end(abx_http_transfer *t, const abx_error *err, void *data)
{
    abx_ws *ws = data;
    int code = wslay_event_get_close_received(ws->frames)
                   ? wslay_event_get_status_code_received(ws->frames)
                   : 1006;
    ABX_AUTO_ERROR error = ws_end_error(ws, t, err);

    ws->t = NULL;
    if (ws->on.on_close)
        ws->on.on_close(ws, code, error, ws->data);
    wslay_event_context_free(ws->frames);
    free(ws->protocol);
    free(ws->server_key);
    free(ws);
}

/* --- the public side ---------------------------------------------------------------------------- */

static char *make_key(char **expected)
{
    uint8_t nonce[16];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int n = 0;

    abx_random_bytes(nonce, sizeof nonce);
    char *key = abx_base64_text(nonce, sizeof nonce, ABX_BASE64_STANDARD, true);
    ABX_AUTO_FREE char *text = abx_format("%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    abx_openssl_ready();
    ABX_CHECK(EVP_Digest(text, strlen(text), digest, &n, EVP_sha1(), NULL) == 1);
    *expected = abx_base64_text(digest, n, ABX_BASE64_STANDARD, true);
    return key;
}

int abx_ws_open(abx_http *http, const char *url, const char *const *headers, size_t header_count,
                size_t max_message, const abx_ws_client_handlers *handlers, void *data,
                abx_ws **out, abx_error **err)
{
    static const struct wslay_event_callbacks callbacks = {.recv_callback = take_input,
                                                           .send_callback = give_output,
                                                           .genmask_callback = make_mask,
                                                           .on_msg_recv_callback = got_message};
    static const abx_http_handlers of_transfer = {on_head, on_body, on_writable, on_end};
    abx_ws *ws = ABX_NEW(abx_ws);
    const char **all = abx_alloc_array(header_count + 1, sizeof *all);
    ABX_AUTO_FREE char *key = make_key(&ws->server_key);
    ABX_AUTO_FREE char *key_line = abx_format("Sec-WebSocket-Key: %s", key);

    for (size_t i = 0; i < header_count; i++)
        all[i] = headers[i];
    all[header_count] = key_line;
    ws->http = http;
    ws->on = *handlers;
    ws->data = data;
    ABX_CHECK(wslay_event_context_client_init(&ws->frames, &callbacks, ws) == 0);
    wslay_event_config_set_max_recv_msg_length(ws->frames, max_message);
    abx_ws_guard_init(&ws->guard, false, max_message);
    abx_http_request r = {.method = "GET",
                          .url = url,
                          .headers = all,
                          .header_count = header_count + 1,
                          .body_stream = true,
                          .body_size = -1};
    int rc = abx__http_start(http, &r, true, &of_transfer, ws, &ws->t, err);
    free(all);
    if (rc < 0) {
        wslay_event_context_free(ws->frames);
        free(ws->server_key);
        free(ws);
        return -1;
    }
    *out = ws;
    return 0;
}

int abx_ws_client_send(abx_ws *ws, bool text, const void *bytes, size_t n)
{
    struct wslay_event_msg message = {
        .opcode = text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME, .msg = bytes, .msg_length = n};

    if (!ws->t || ws->error || ws->close_asked || wslay_event_queue_msg(ws->frames, &message) != 0)
        return 1;
    push(ws);
    return !ws->over_high;
}

void abx_ws_client_pause(abx_ws *ws)
{
    if (ws->t)
        abx_http_pause(ws->t);
}

void abx_ws_client_resume(abx_ws *ws)
{
    if (ws->t)
        abx_http_resume(ws->t);
}

void abx_ws_client_close(abx_ws *ws, int code, const char *reason)
{
    size_t n = reason ? strlen(reason) : 0;

    if (ws->close_asked || !ws->t)
        return;
    ws->close_asked = true;
    if (!ws->opened) {
        abx_http_cancel(ws->t);
        return;
    }
    if (n > 123)
        n = abx_utf8_whole(reason, 123);
    if (wslay_event_queue_close(ws->frames, (uint16_t)code, (const uint8_t *)reason, n) == 0)
        push(ws);
    abx_http_resume(ws->t); /* the peer's answer must be seen */
}

void abx_ws_client_break(abx_ws *ws)
{
    if (ws->t)
        abx_http_cancel(ws->t);
}

size_t abx_ws_client_waiting(const abx_ws *ws)
{
    return ws->t ? ws->t->out.len - ws->t->out_at : 0;
}

const char *abx_ws_client_protocol(const abx_ws *ws)
{
    return ws->protocol;
}

const char *abx_ws_client_reason(const abx_ws *ws)
{
    return ws->reason;
}
