/* An HTTP/1.1 client on a libuv loop, over libcurl: TCP, TLS and Unix sockets, streaming both ways with
 * backpressure. One abx_http is one connection pool with one set of options; a transfer is one request.
 *
 * Threads: everything on the loop's thread. curl and OpenSSL are initialised at the first abx_http_open.
 * Callbacks run from the loop, never inside the call that starts a transfer. Every transfer that was
 * started ends in exactly one on_end; after it the transfer is gone. */
#ifndef ABX_NET_HTTP_CLIENT_H
#define ABX_NET_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/log.h"
#include "net/http_headers.h"

typedef struct abx_http abx_http;
typedef struct abx_http_transfer abx_http_transfer;

typedef struct abx_http_options {
    /* How to reach the server instead of by the URL's host: returns a connected stream socket that the
     * client takes over, or -1 and *err. Called whenever the pool needs a connection. NULL: by the URL.
     * With dial no proxy and no TLS is used. */
    int (*dial)(void *data, abx_error **err);
    void *dial_data;
    /* "HOST:PORT": every connection goes there, whatever the URL's host; that one still names the server in Host and
     * in the check of its certificate. Copied; NULL: by the URL. */
    const char *connect_to;
    size_t max_head_bytes;       /* answers with a longer head fail; 0: 64 KiB */
    uint64_t connect_timeout_ms; /* 0: 30 s */
    const char *user_agent;      /* NULL: "abx/VERSION" */
    unsigned max_connections;    /* requests over it wait; 0: no limit */
    bool no_proxy;               /* true: the proxy variables of the environment are ignored */
    const abx_log *log;          /* borrowed, or NULL */
} abx_http_options;

typedef struct abx_http_request {
    const char *method;         /* "GET", "POST", … */
    const char *url;            /* absolute, http or https */
    const char *const *headers; /* "Name: value", copied; Host, Content-Length and
                                       Transfer-Encoding are the client's own */
    size_t header_count;
    const void *body; /* copied; NULL with body_len 0: none */
    size_t body_len;
    bool body_stream;         /* true: the body comes by abx_http_write, body is NULL */
    int64_t body_size;        /* of a stream, -1: unknown (chunked) */
    uint64_t timeout_ms;      /* of the whole transfer, 0: none */
    uint64_t idle_timeout_ms; /* no byte in either direction for so long while we wait; 0: none */
    uint64_t max_body_bytes;  /* answers with a longer body fail; 0: no limit */
    /* Never sent twice. A request on a connection that was kept is else sent again when that turns out to be closed; this one fails
     * then (NETWORK), and abx_http_was_sent says that it may have arrived. */
    bool once;
    /* A new connection, closed afterwards: nothing can be lost on a kept one. It is once, too. A body stream always has it. */
    bool own_connection;
} abx_http_request;

typedef struct abx_http_handlers {
    /* The final head (not 1xx). headers is valid during the call. */
    void (*on_head)(abx_http_transfer *t, int status, const abx_http_headers *headers, void *data);
    /* Bytes of the answer's body; valid during the call. Not called while paused. */
    void (*on_body)(abx_http_transfer *t, const uint8_t *bytes, size_t n, void *data);
    /* A body stream fell under its low mark: abx_http_write may go on. NULL allowed. */
    void (*on_writable)(abx_http_transfer *t, void *data);
    /* The end, once. err is NULL when the exchange was complete, whatever the status; else NETWORK,
     * TIMEOUT, CANCELLED, BACKEND_ANSWER (not HTTP, body cut short), TOO_LARGE. err is borrowed. */
    void (*on_end)(abx_http_transfer *t, const abx_error *err, void *data);
} abx_http_handlers;

/* Returns 0 and *out, or -1 and *err. options is copied. */
int abx_http_open(uv_loop_t *loop, const abx_http_options *options, abx_http **out,
                  abx_error **err);
/* Cancel all transfers (their on_end comes before cb), close the connections, then cb(data) once, on the
 * loop; cb may be NULL. */
void abx_http_close(abx_http *http, void (*cb)(void *data), void *data);

/* Start one request. handlers is copied. Returns 0 and *out (valid until on_end), or -1 and *err. */
int abx_http_start(abx_http *http, const abx_http_request *request,
                   const abx_http_handlers *handlers, void *data, abx_http_transfer **out,
                   abx_error **err);
/* A wish: on_end comes later, with CANCELLED or with what won the race. */
void abx_http_cancel(abx_http_transfer *t);
/* In on_end: whether a byte of the request left for the server. */
bool abx_http_was_sent(const abx_http_transfer *t);
/* In on_head: the words behind the status ("Not Found"), maybe "". */
const char *abx_http_reason(const abx_http_transfer *t);

/* What broke an exchange, for those who decide by it; the error has the words. */
typedef enum abx_http_fault {
    ABX_HTTP_FAULT_NONE,
    ABX_HTTP_FAULT_NAME,         /* the host's name leads nowhere */
    ABX_HTTP_FAULT_CONNECT,      /* refused, unreachable */
    ABX_HTTP_FAULT_CONNECT_TIME, /* nobody answered in time */
    ABX_HTTP_FAULT_TRUST,        /* its certificate */
    ABX_HTTP_FAULT_TLS,
    ABX_HTTP_FAULT_CLOSED, /* the connection broke */
    ABX_HTTP_FAULT_ANSWER, /* no HTTP, or over a limit */
    ABX_HTTP_FAULT_OTHER
} abx_http_fault;
/* In on_end. number: errno of the system where it said something, else 0. */
abx_http_fault abx_http_fault_of(const abx_http_transfer *t, int *number);
/* Stop and go on with on_body: while paused at most 1 MiB is held back, the rest waits in the socket. */
void abx_http_pause(abx_http_transfer *t);
void abx_http_resume(abx_http_transfer *t);

/* Give bytes of a body stream (copied, all of them). Returns 1: go on; 0: over 256 KiB wait, hold until
 * on_writable. After abx_http_write_end, or after the end, bytes are dropped and 1 is returned. */
int abx_http_write(abx_http_transfer *t, const void *bytes, size_t n);
void abx_http_write_end(abx_http_transfer *t);

#endif
