/* What the files of the HTTP server share; nobody else includes it.
 *
 *   http_server.c    listeners, connection limits, time limits, closing
 *   http_conn.c      one connection: its socket, its queue of bytes to send, when to read, its end
 *   http_awake.c     whether the loop waits for the next request without sleep
 *   http_parse.c     bytes in: llhttp and the steps of a request
 *   http_exchange.c  what a handler asks about a request
 *   http_answer.c    what a handler sends back
 *   http_tls.c       TLS of one connection: handshake, records
 *   http_tls_context.c  certificates and rules of TLS
 *   http_ws.c, http_sse.c
 *
 * Re-entrance: calls of the public interface never run a handler and never free anything. They change
 * state, try to send, and put the connection on the server's pending list. Handlers run, and memory goes,
 * only in abx__conn_settle, which is called at the end of each event of the connection and, for the
 * pending list, right before and after the loop waits. */
#ifndef ABX_NET_HTTP_SERVER_INNER_H
#define ABX_NET_HTTP_SERVER_INNER_H

#include <llhttp.h>
#include <openssl/ssl.h>
#include <stdint.h>
#include <sys/uio.h>
#include <uv.h>
#include <wslay/wslay.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "net/http_awake.h"
#include "net/http_server.h"

enum {
    ABX__SCRATCH_SIZE = 64 * 1024, /* one read */
    ABX__SMALL_WRITE = 2048, /* pieces of an answer below this are gathered until the loop waits */
    ABX__HIGH_MARK = 256 * 1024,  /* bytes that wait for a peer before the writer is told to hold */
    ABX__LOW_MARK = 64 * 1024,    /* and when it may go on */
    ABX__KEEP_OUT = 16 * 1024,    /* a larger queue is given back when it is empty */
    ABX__DRAIN_LIMIT = 64 * 1024, /* of an unwanted body; beyond, the connection ends */
    ABX__LINGER_MS = 2000         /* how long a refused sender may still push */
};

static inline struct iovec abx__piece(const void *bytes, size_t n)
{
    return (struct iovec){(void *)(uintptr_t)bytes, n}; /* only read */
}

/* A connection waits for at most one of these; each has one list in the order of the deadlines. */
typedef enum abx__wait {
    ABX__WAIT_NONE,
    ABX__WAIT_IDLE,
    ABX__WAIT_HEAD,
    ABX__WAIT_STALL,
    ABX__WAIT_LINGER,
    ABX__WAIT_COUNT
} abx__wait;

typedef struct abx__conn abx__conn;
typedef struct abx__listener abx__listener;

struct abx_http_server {
    uv_loop_t *loop;
    abx_http_server_options options;
    abx_on_request on_request;
    void *data;
    char *server_line; /* "Server: NAME\r\n" or "" */
    uint8_t *scratch;
    uint8_t *record; /* small pieces of one TLS record; made when needed */
    abx_link conns;
    abx_link pending;
    abx_link waits[ABX__WAIT_COUNT];
    abx__listener *listeners;
    abx_exchange *spare; /* one exchange kept for the next request */
    size_t conn_count;
    size_t exchange_count;
    uv_timer_t timer;
    uv_prepare_t prepare; /* these two run the pending list, */
    uv_check_t check;
    uv_idle_t turn;   /* keeps the loop from waiting: after the first, and if awake says so */
    abx__awake awake; /* if options.awake */
    int open_handles; /* our own four and the listeners */
    int64_t date_second;
    char date[48]; /* "Date: …\r\n" of date_second */
    bool closing;
    bool close_rest;  /* our own handles are being closed */
    bool accept_held; /* out of descriptors: listeners wait */
    void (*closed)(void *data);
    void *closed_data;
};

struct abx__conn {
    abx_http_server *server;
    abx_link link; /* server->conns */
    abx_link pending;
    abx_link wait_link;
    uint64_t deadline; /* of the wait, loop time in ms */
    uv_poll_t poll;
    llhttp_t parser;
    abx_exchange *x;
    uint8_t *out; /* bytes that the kernel did not take yet: [out_at, out_len) */
    size_t out_at, out_len, out_cap;
    uint8_t *carry; /* bytes that were read but not parsed yet */
    size_t carry_at, carry_len;
    struct abx__tls_conn *tls; /* NULL: plain */
    void (*on_gone)(void *data);
    void *gone_data;
    int fd;
    int mask; /* what poll watches; -1: not started */
    uint8_t wait;
    uint8_t event;        /* why llhttp paused: abx__event */
    bool eof;             /* everything was read and the peer sends no more */
    bool half;            /* the peer sends no more, perhaps with bytes still unread */
    bool dead;            /* cut it off */
    bool reset;           /* … by a reset */
    bool keep;            /* another request may follow this one */
    bool kick;            /* parse on, even without bytes */
    bool linger;          /* all is said: drop what comes until the peer closes */
    bool finished;        /* the handle is closing */
    bool sent, received;  /* bytes moved since the clock was last looked at */
    uint16_t fail_status; /* the request is refused with this */
};

typedef enum abx__event {
    ABX__EVENT_NONE,
    ABX__EVENT_HEAD,
    ABX__EVENT_BODY_HELD,
    ABX__EVENT_DONE
} abx__event;

struct abx_exchange {
    abx__conn *conn;
    abx_exchange_handlers on;
    void *data;
    /* Text of the head: target, name, value, name, value, … each with a 0. */
    char *head;
    size_t head_len, head_cap, piece_at;
    size_t field_count;
    abx_http_headers headers; /* items point into head */
    const char *target;
    const char *path;
    char *path_copy; /* made when a query follows */
    const char *query;
    int64_t content_length;
    uint64_t body_seen, body_max;
    size_t collect_max;
    void (*collect_cb)(abx_exchange *x, const uint8_t *bytes, size_t n, void *data);
    void *collect_data;
    abx_buf collected;
    int64_t out_left; /* of the announced length; -1: chunked or until the end */
    size_t trailer_bytes;
    struct abx__ws *ws;
    bool raw;        /* the connection has left HTTP */
    bool dispatched; /* on_request ran */
    bool body_done;
    bool end_told; /* on_body_end or the collector ran */
    bool paused;
    bool head_sent;
    bool chunked;
    bool no_body; /* HEAD, 204, 304 */
    bool ended;
    bool over_high; /* a write returned 0, on_writable is owed */
    bool expects_100;
    bool eof_told;
    bool is_sse;
};

/* http_conn.c */
/* tls: NULL for a plain connection. */
int abx__conn_open(abx_http_server *s, int fd, const abx_tls *tls, void (*on_gone)(void *data),
                   void *data, abx_error **err);
void abx__conn_kill(abx__conn *c, bool reset); /* marks only */
void abx__conn_pend(abx__conn *c);             /* settle before the loop waits */
void abx__conn_settle(abx__conn *c);           /* c may be gone afterwards */
void abx__conn_turn(abx__conn *c);             /* the same, after reading what TLS holds already */
/* Send these pieces, or keep what the kernel does not take. */
void abx__conn_send(abx__conn *c, const struct iovec *pieces, int count);
void abx__conn_send_soon(abx__conn *c, const struct iovec *pieces, int count);
void abx__conn_flush(abx__conn *c);
void abx__conn_queue(abx__conn *c, const void *bytes, size_t n); /* keep for the next send */
static inline size_t abx__conn_backlog(const abx__conn *c)
{
    return c->out_len - c->out_at;
}

/* http_server.c */
void abx__wait_set(abx__conn *c, abx__wait wait); /* (re)start this clock */
void abx__server_conn_gone(abx_http_server *s);
const char *abx__server_date(abx_http_server *s);

/* http_parse.c */
extern const llhttp_settings_t abx__parse_settings;
/* Take these bytes through parser, handlers or frames; what must wait is carried by the connection. */
void abx__conn_feed(abx__conn *c, const uint8_t *bytes, size_t n);
bool abx__conn_can_parse(const abx__conn *c);

/* http_exchange.c */
abx_exchange *abx__exchange_new(abx__conn *c);
void abx__exchange_recycle(abx_exchange *x);
void abx__exchange_free(abx_exchange *x);                 /* of a recycled one */
void abx__exchange_close(abx_exchange *x, bool complete); /* runs on_close, x is gone */
int abx__exchange_read_head(abx_exchange *x);             /* 0, or the status that refuses it */
void abx__exchange_body(abx_exchange *x, const uint8_t *bytes, size_t n);
void abx__exchange_body_end(abx_exchange *x);

/* http_answer.c */
void abx__answer_refuse(abx__conn *c,
                        int status); /* a plain answer by the server itself, then the end */
void abx__answer_refuse_with(abx__conn *c, int status, const char *text); /* with this body */
const char *abx__status_text(int status);

/* http_ws.c */
void abx__ws_feed(abx__conn *c, const uint8_t *bytes, size_t n);
void abx__ws_settle(abx__conn *c);
/* A send returned 0 and on_writable is owed. */
bool abx__ws_is_held(const abx__conn *c);
bool abx__ws_wants_read(const abx__conn *c);
bool abx__ws_may_push(const abx_exchange *x); /* the peer has not said close yet */
void abx__ws_free(struct abx__ws *ws);
void abx__ws_closed(abx_exchange *x);

/* http_tls.c. Those with a bool work on plain connections, too. */
void abx__tls_begin(abx__conn *c, const abx_tls *tls);
void abx__tls_end(abx__conn *c); /* free; the connection is plain afterwards */
bool abx__tls_is_shaking(const abx__conn *c);
bool abx__tls_wants_room(const abx__conn *c); /* reading waits until the socket takes bytes */
bool abx__tls_has_more(
    const abx__conn *c); /* bytes are here that no event of the socket will tell of */
/* Go on with the handshake. True: it is over. False: it waits, or c was refused or killed. */
bool abx__tls_shake(abx__conn *c);
/* As recv and sendmsg: the count, 0 at the end, -1 and errno; the count that went out. */
ssize_t abx__tls_recv(abx__conn *c, uint8_t *to, size_t room);
size_t abx__tls_send(abx__conn *c, const struct iovec *pieces, int count);
void abx__tls_bye(abx__conn *c);   /* tell the peer that no more comes */
BIO_METHOD *abx__tls_socket(void); /* connections as OpenSSL sees them */

/* http_tls_context.c */
BIO_METHOD *abx__tls_method(const abx_tls *t);
SSL_CTX *abx__tls_context(const abx_tls *t);

/* http_sse.c */
void abx__sse_peer_eof(abx_exchange *x);

#endif
