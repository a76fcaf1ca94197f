/* What the files of the HTTP client share; nobody else includes it.
 *
 *   http_client.c    the public calls
 *   http_multi.c     curl's multi socket interface on the loop
 *   http_transfer.c  one transfer: its curl handle, curl's callbacks, its end
 *   http_fault.c     what broke a transfer, as a word
 *   http_ssl_init.c  setting up curl without setting up OpenSSL in advance
 *   http_trust.c     the authorities of a client; http_verify.c why a server is not trusted
 *   ws_client.c      frames (wslay) over an upgraded transfer
 *
 * curl forbids most calls inside its callbacks, and users' handlers run inside them. So public calls only
 * mark the transfer and put it on the pending list; right before the loop waits, the marks are acted on. */
#ifndef ABX_NET_HTTP_CLIENT_INNER_H
#define ABX_NET_HTTP_CLIENT_INNER_H

#include <curl/curl.h>

#include "base/buf.h"
#include "base/mem.h"
#include "net/http_client.h"
#include "net/http_trust.h"

enum {
    ABX__SEND_HIGH =
        256 * 1024, /* bytes of a body stream that wait before the writer is told to hold */
    ABX__SEND_LOW = 64 * 1024 /* and when it may go on */
};

struct abx_http {
    uv_loop_t *loop;
    abx_http_options options;
    char *user_agent;
    struct curl_slist *connect_to; /* one line, or NULL */
    CURLM *multi;
    uv_timer_t timer;
    uv_prepare_t prepare; /* these two run the pending list, */
    uv_check_t check;
    uv_idle_t turn;               /* and this keeps the loop from waiting right after the first */
    abx_http_transfer *transfers; /* all that have not ended */
    abx_http_transfer *pending;   /* with marks to act on */
    abx__trust *trust;            /* opened at the first https request */
    bool started;                 /* new transfers were given to curl in this turn */
    bool closing, closed_multi;
    int open_handles; /* our own four, sockets, idle clocks */
    void (*closed)(void *data);
    void *closed_data;
};

struct abx_http_transfer {
    abx_http *http;
    abx_http_transfer *next, *prev;
    abx_http_transfer *next_pending;
    CURL *easy;
    struct curl_slist *header_lines;
    abx_http_handlers on;
    void *data;
    char *server;         /* scheme and host, for messages */
    char *host;           /* of an https server, without brackets; else NULL */
    abx__verdict verdict; /* about its certificate */
    char error_text[CURL_ERROR_SIZE];

    abx_http_headers headers; /* of the answer, while its head comes in */
    size_t head_bytes;
    int status;
    char *reason;
    CURLcode code; /* at its end, with the system's number */
    int system;
    bool connected;
    uint64_t body_bytes, max_body_bytes;

    char *body; /* the request's, whole */
    abx_buf out;
    size_t out_at;    /* of `out`, what curl has taken already */
    int64_t out_left; /* of an announced size, else -1 */

    abx_error *error; /* why we stopped it ourselves */
    uv_timer_t idle;
    uint64_t idle_ms, active_at;

    bool is_pending;
    bool added; /* to the multi handle */
    bool sent;  /* set at its end: something of the request went out */
    bool head_done;
    bool paused;     /* by the user */
    bool held;       /* curl keeps back bytes of the answer */
    bool starved;    /* curl waits for bytes of the request */
    bool resume_due; /* tell curl to go on */
    bool out_ended;
    bool over_high, writable_due;
    bool cancelled;
    bool idle_open;
    bool upgrade; /* a WebSocket: the answer's head is a 101 */
};

/* http_multi.c */
int abx__multi_open(abx_http *http, abx_error **err);
void abx__multi_pend(abx_http_transfer *t);
void abx__multi_want_turn(abx_http *http);
void abx__multi_close(abx_http *http); /* once the last transfer has ended */
void abx__multi_handle_closed(abx_http *http);

/* http_transfer.c */
int abx__transfer_new(abx_http *http, const abx_http_request *request, bool upgrade,
                      abx_http_transfer **out, abx_error **err);
/* Take it off curl, run on_end, free it. code: curl's result. */
void abx__transfer_finish(abx_http_transfer *t, CURLcode code);
void abx__transfer_settle(abx_http_transfer *t); /* act on the marks; t may be gone afterwards */
void abx__transfer_start_clock(abx_http_transfer *t, uint64_t idle_ms);

/* http_ssl_init.c: of the libraries; undone by curl_global_cleanup. */
int abx__http_init(abx_error **err);

/* ws_client.c, http_client.c: as abx_http_start, for an upgrade to a WebSocket. After on_head with 101,
 * on_body and abx_http_write carry the raw frames. */
int abx__http_start(abx_http *http, const abx_http_request *request, bool upgrade,
                    const abx_http_handlers *handlers, void *data, abx_http_transfer **out,
                    abx_error **err);

#endif
