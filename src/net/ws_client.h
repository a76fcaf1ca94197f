/* A WebSocket client on a libuv loop, over libcurl. One connection each; threads as http_client.h. */
#ifndef ABX_NET_WS_CLIENT_H
#define ABX_NET_WS_CLIENT_H

#include "net/http_client.h"

typedef struct abx_ws abx_ws;

typedef struct abx_ws_client_handlers {
    void (*on_open)(abx_ws *ws, void *data);
    void (*on_message)(abx_ws *ws, bool text, const uint8_t *bytes, size_t n, void *data);
    void (*on_writable)(abx_ws *ws, void *data);
    /* The end, once; ws is gone after this. err is NULL after a proper close; code is the peer's. A failed
     * upgrade is BACKEND with the HTTP status in the text. */
    void (*on_close)(abx_ws *ws, int code, const abx_error *err, void *data);
} abx_ws_client_handlers;

/* url: ws, wss, http or https. max_message: a longer message ends the connection. http: options and pool
 * settings (dial too) are taken from it; it must stay open until on_close. */
int abx_ws_open(abx_http *http, const char *url, const char *const *headers, size_t header_count,
                size_t max_message, const abx_ws_client_handlers *handlers, void *data,
                abx_ws **out, abx_error **err);
int abx_ws_client_send(abx_ws *ws, bool text, const void *bytes, size_t n); /* 1: go on, 0: hold */
void abx_ws_client_pause(abx_ws *ws);
void abx_ws_client_resume(abx_ws *ws);
void abx_ws_client_close(abx_ws *ws, int code, const char *reason);
/* End it without a word; on_close comes later. */
void abx_ws_client_break(abx_ws *ws);
/* Bytes that were sent and have not left this process. */
size_t abx_ws_client_waiting(const abx_ws *ws);
/* From on_open on: the subprotocol that the server chose, or NULL. */
const char *abx_ws_client_protocol(const abx_ws *ws);
/* In on_close: the peer's words to its code, maybe "". */
const char *abx_ws_client_reason(const abx_ws *ws);

#endif
