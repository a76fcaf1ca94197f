/* An HTTP/1.1 server on a libuv loop: llhttp for the parsing, wslay for WebSocket frames. TCP, Unix
 * sockets and handed-in connections; keep-alive, pipelining (one exchange of a connection at a time, in
 * order), chunked both ways, Expect: 100-continue, limits on heads, bodies and connections, and a
 * defence against slow clients. It allocates nothing for an idle connection but its struct.
 * TLS (OpenSSL): 1.2 and 1.3, no renegotiation, session tickets, ALPN http/1.1 alone; the handshake must be over within
 * head_timeout_ms. Plain HTTP on a port for TLS is answered with 400 in the clear.
 *
 * Threads: everything on the loop's thread. An exchange is one request with its answer. It lives from
 * on_request until on_close, which comes exactly once, also when the peer goes away in the middle. */
#ifndef ABX_NET_HTTP_SERVER_H
#define ABX_NET_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/log.h"
#include "net/http_headers.h"

typedef struct abx_http_server abx_http_server;
typedef struct abx_exchange abx_exchange;
typedef struct abx_tls abx_tls;

typedef struct abx_http_server_options {
    size_t max_head_bytes;    /* request line and headers; 0: 64 KiB; longer: 431 */
    size_t max_headers;       /* 0: 128 */
    size_t max_connections;   /* 0: 4096; beyond: accepted and closed at once with 503 */
    uint64_t head_timeout_ms; /* from the first byte of a head to its end; 0: 30 s */
    uint64_t idle_timeout_ms; /* keep-alive without a request; 0: 640 s; ABX_FOREVER: never */
    uint64_t
        stall_timeout_ms; /* a peer that takes no byte of an answer, or sends none of a body that is
                                  read, for so long is cut off; 0: never */
    uint64_t
        gone_timeout_ms; /* TCP: a peer that has closed its sending side and takes nothing of what waits for
                                 it for so long is gone; 0: 10 s */
    const char *server_name; /* Server: header, or NULL for none */
    /* The body of an answer that the server gives by itself (400, 408, 413, 431, 501, 505) as JSON, written to out; its length. NULL: the
     * reason as plain text. */
    size_t (*refusal)(int status, const char *reason, char *out, size_t room);
    bool wipe;    /* heads hold secrets: they are overwritten when they are not needed any more */
    bool no_date; /* true: no Date header */
    /* Do not sleep between the requests of a client that asks again at once (http_awake.h); with one processor alone
     * it is the client's. */
    bool awake;
    const abx_log *log; /* borrowed, or NULL */
} abx_http_server_options;

/* Runs when the head of a request is complete. The handler answers now or later; it may first set
 * callbacks with abx_exchange_handle. What it does not read of the body is read and dropped. */
typedef void (*abx_on_request)(abx_exchange *x, void *data);

int abx_http_server_open(uv_loop_t *loop, const abx_http_server_options *options,
                         abx_on_request on_request, void *data, abx_http_server **out,
                         abx_error **err);
/* Listen on this address ("127.0.0.1", "::1"); port 0 picks one. *bound_port may be NULL. */
int abx_http_server_listen_tcp(abx_http_server *s, const char *ip, int port, int *bound_port,
                               abx_error **err);
/* The same with TLS. tls is borrowed and has a certificate; it may be freed once the server has closed. */
int abx_http_server_listen_tls(abx_http_server *s, const char *ip, int port, const abx_tls *tls,
                               int *bound_port, abx_error **err);
/* Take over a bound stream socket and listen on it; or a listening one. fd is taken also on failure. */
int abx_http_server_listen_fd(abx_http_server *s, int fd, int backlog, abx_error **err);
/* Take over one connected stream socket as if it had been accepted. on_gone (or NULL) runs once when this
 * connection has ended. */
int abx_http_server_adopt(abx_http_server *s, int fd, void (*on_gone)(void *data), void *data,
                          abx_error **err);
/* Stop listening; exchanges go on. */
void abx_http_server_stop(abx_http_server *s);
/* Cut off everything, then cb(data) once, on the loop; cb may be NULL. */
void abx_http_server_close(abx_http_server *s, void (*cb)(void *data), void *data);
size_t abx_http_server_connections(const abx_http_server *s);
size_t abx_http_server_exchanges(
    const abx_http_server *s); /* in flight now, upgraded ones included */

/* --- certificates of TLS ------------------------------------------------------------------------ */
/* Empty; holds any number of certificates. */
abx_tls *abx_tls_new(void);
void abx_tls_free(abx_tls *t); /* NULL allowed; not while a server listens with it */
/* Add a certificate, PEM: first the server's own, behind it those that lead to the authority; and its private key, PEM,
 * without a passphrase. A client gets the first one that fits the name it asks for (SNI), else the first of all. Returns
 * 0, or -1 and USAGE with what is wrong; the text never holds any of the key. */
int abx_tls_add(abx_tls *t, const void *chain, size_t chain_len, const void *key, size_t key_len,
                abx_error **err);
/* The same in the place of all that are there: for handshakes from now on, connections that are open go on. */
int abx_tls_replace(abx_tls *t, const void *chain, size_t chain_len, const void *key,
                    size_t key_len, abx_error **err);

/* --- the request -------------------------------------------------------------------------------- */
const char *abx_exchange_method(const abx_exchange *x);
const char *abx_exchange_target(const abx_exchange *x); /* as sent: path and query */
const char *abx_exchange_path(const abx_exchange *x); /* still percent-encoded, without the query */
/* Take n bytes off the head of the path and of the target; what is left must begin with '/'. */
void abx_exchange_strip(abx_exchange *x, size_t n);
const char *abx_exchange_query(const abx_exchange *x); /* without '?'; "" if there is none */
const abx_http_headers *abx_exchange_headers(const abx_exchange *x);
const char *abx_exchange_header(const abx_exchange *x, const char *name); /* or NULL */
int64_t abx_exchange_content_length(const abx_exchange *x); /* -1: chunked; 0: no body */
/* The decoded value of the first query parameter with this name, owned by the caller; NULL if absent or
 * broken. */
char *abx_exchange_query_get(const abx_exchange *x, const char *name);
/* Percent-decode n bytes ('+' stays '+'). Owned, 0-terminated, length in *out_len; NULL when broken. */
char *abx_percent_decode(const char *s, size_t n, size_t *out_len);
uv_loop_t *abx_exchange_loop(const abx_exchange *x);
bool abx_exchange_is_tls(const abx_exchange *x); /* it came over TLS */

typedef struct abx_exchange_handlers {
    /* Bytes of the body, valid during the call. NULL: dropped. */
    void (*on_body)(abx_exchange *x, const uint8_t *bytes, size_t n, void *data);
    /* The whole body was read. NULL allowed. */
    void (*on_body_end)(abx_exchange *x, void *data);
    /* The answer fell under its low mark: abx_exchange_write may go on. NULL allowed. */
    void (*on_writable)(abx_exchange *x, void *data);
    /* The exchange is over; x is gone after this. complete: the whole answer was handed to the kernel and
     * the peer was still there. NULL allowed. */
    void (*on_close)(abx_exchange *x, bool complete, void *data);
    /* The peer has closed its sending side after a whole request, once. It may wait for the answer with a
     * half-closed socket, or (over TCP, where the two look alike) be gone: writing tells. A Unix socket
     * whose peer is gone ends the exchange by itself. NULL allowed. */
    void (*on_peer_eof)(abx_exchange *x, void *data);
} abx_exchange_handlers;

void abx_exchange_handle(abx_exchange *x, const abx_exchange_handlers *handlers, void *data);
/* Stop reading the body (at most what is in the read buffer still waits); and go on. */
void abx_exchange_pause(abx_exchange *x);
void abx_exchange_resume(abx_exchange *x);
/* Longest body that is accepted for this request, beyond it: 413 and the connection ends. Default 64 KiB;
 * UINT64_MAX: no limit. */
void abx_exchange_limit_body(abx_exchange *x, uint64_t max_bytes);
/* Collect the whole body (at most max_bytes, else 413 is answered and cb never runs), then cb once. Instead
 * of on_body. bytes is 0-terminated and valid during cb; abx_exchange_drop_body frees it
 * before the exchange ends, which may be much later. */
void abx_exchange_collect(abx_exchange *x, size_t max_bytes,
                          void (*cb)(abx_exchange *x, const uint8_t *bytes, size_t n, void *data),
                          void *data);

void abx_exchange_drop_body(abx_exchange *x);

/* --- the answer --------------------------------------------------------------------------------- */
/* Status line and headers ("Name: value" each, copied). length >= 0: that many bytes follow; -1: chunked
 * (each abx_exchange_write is one chunk, flushed at once). Connection, Content-Length, Transfer-Encoding and
 * Date are the server's own. Once an exchange. */
void abx_exchange_head(abx_exchange *x, int status, const char *const *headers, size_t count,
                       int64_t length);
/* Bytes of the body (copied). Returns 1: go on; 0: over 256 KiB wait, hold until on_writable; or the peer is gone, and
 * on_close comes. */
int abx_exchange_write(abx_exchange *x, const void *bytes, size_t n);
size_t abx_exchange_pending(const abx_exchange *x); /* bytes that wait for the peer */
void abx_exchange_end(abx_exchange *x);
/* Head with Content-Length, body, end, in one write. type: Content-Type or NULL. */
void abx_exchange_reply(abx_exchange *x, int status, const char *type, const void *body, size_t n);
/* The same with more headers. */
void abx_exchange_reply_with(abx_exchange *x, int status, const char *const *headers, size_t count,
                             const void *body, size_t n);
/* Before the answer: no further request on this connection, which ends behind it also if the body has not come yet. */
void abx_exchange_last(abx_exchange *x);
/* Break the connection in the middle (reset). */
void abx_exchange_abort(abx_exchange *x);

/* Leave HTTP, before anything was answered: the connection's socket (non-blocking, O_CLOEXEC), owned by the caller, who
 * writes the answer himself. x ends without on_close. For requests whose sender waits for the answer: what he sent
 * behind the head may be lost. -1 with errno: EBUSY, the server needs this connection itself. */
int abx_exchange_detach(abx_exchange *x);

/* Leave HTTP on this connection: 101 with these lines ("Name: value"; Connection is the server's own), then bytes both ways:
 * on_body gets what the peer sends, abx_exchange_write sends as it is, abx_exchange_end closes; on_peer_eof tells that the
 * peer sends no more. Handlers are kept. Nothing was answered before, and the request has no body. */
void abx_exchange_switch(abx_exchange *x, const char *const *headers, size_t count);

/* --- WebSocket ---------------------------------------------------------------------------------- */
typedef struct abx_ws_handlers {
    /* One whole message (at most max_message bytes, else the peer gets close 1009). */
    void (*on_message)(abx_exchange *x, bool text, const uint8_t *bytes, size_t n, void *data);
    void (*on_writable)(abx_exchange *x, void *data);
    /* The end, once; x is gone after this. code: the peer's close code, 1006 without one. */
    void (*on_close)(abx_exchange *x, int code, void *data);
} abx_ws_handlers;

/* True if the request asks for a WebSocket (RFC 6455, version 13). */
bool abx_exchange_wants_ws(const abx_exchange *x);
/* Answer 101 and go on with frames. protocol: Sec-WebSocket-Protocol or NULL. Replaces the exchange's
 * handlers. Returns 0, or -1 when it is no such request (400 was answered). */
int abx_exchange_upgrade(abx_exchange *x, const char *protocol, size_t max_message,
                         const abx_ws_handlers *handlers, void *data);
/* Returns 1: go on; 0: over 256 KiB wait, hold until on_writable. */
int abx_ws_send(abx_exchange *x, bool text, const void *bytes, size_t n);
void abx_ws_close(abx_exchange *x, int code, const char *reason);

/* --- Server-sent events --------------------------------------------------------------------------- */
/* Answer 200 text/event-stream; then abx_sse_send for each event, abx_exchange_end at the end. */
void abx_sse_start(abx_exchange *x);
/* event and id may be NULL; data is one line or more. Returns as abx_exchange_write. */
int abx_sse_send(abx_exchange *x, const char *event, const char *id, const char *data, size_t n);
int abx_sse_comment(abx_exchange *x, const char *text);

#endif
