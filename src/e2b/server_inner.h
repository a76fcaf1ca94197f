/* What the files of the data plane's server share; nobody else includes it.
 *
 *   server.c         open, close, what happens to each request before its route
 *   server_call.c    Connect requests: heads, bodies, messages in
 *   server_answer.c  answers, error tables, messages out
 *   server_clock.c   time limits, keepalives, and going on after a pause
 *   server_get.c     GET /files      server_put.c   POST /files
 *   server_tunnel.c  /abx/tunnel
 *   server_sign.c    signed URLs     server_gzip.c  gzip of requests
 *
 * A call's struct lives as long as its exchange; `live` tells whether the filling still has it. */
#ifndef ABX_E2B_SERVER_INNER_H
#define ABX_E2B_SERVER_INNER_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "e2b/server.h"
#include "net/http_server.h"

enum {
    ABX__MAX_MESSAGE = 24 * 1024 * 1024, /* one request message, also unpacked */
    ABX__KEEPALIVE_MS = 90 * 1000,
    ABX__LINES_ALIVE_MS = 5 * 1000 /* of a stream of lines without any */
};

typedef enum abx__kind {
    ABX__KIND_UNARY,
    ABX__KIND_SERVER,
    ABX__KIND_CLIENT,
    ABX__KIND_PLAIN,
    ABX__KIND_LINES,
    ABX__KIND_FILES,
    ABX__KIND_RAW
} abx__kind;

typedef struct abx__route {
    const char *verb;
    const char *path;
    abx__kind kind;
    int in, out; /* abx_e2b_msg, -1: none */
} abx__route;
extern const abx__route abx__routes[ABX_E2B_METHOD_COUNT];

/* A request that is in flight: its place in the list of the server. */
typedef struct abx__seat {
    struct abx__seat *prev, *next;
    abx_e2b_server *server;
    abx_exchange *x;
    bool answered; /* all of the answer was given */
} abx__seat;

struct abx_e2b_server {
    uv_loop_t *loop;
    abx_http_server *http; /* NULL: a guest */
    abx__seat seats;       /* all that are in flight */
    size_t held;           /* what still has to be told something, with its request or without */
    char *token;
    char *default_user;
    const abx_e2b_filling *filling;
    void *data;
    const abx_log *log;
    abx_buf out;      /* where one message is encoded */
    abx_buf scratch;  /* where input bytes are decoded */
    size_t handles;   /* timers that are not closed yet */
    size_t in_use;    /* requests in flight that count as use */
    uint64_t used_ms; /* loop time of the last end of one */
    bool http_gone;
    void (*closed)(void *data);
    void *closed_data;
};

struct abx_e2b_call {
    abx_e2b_server *server;
    abx_exchange *x; /* NULL once it is over */
    abx__seat seat;
    abx_e2b_plane plane;
    abx_e2b_method method;
    const abx__route *route;
    abx_e2b_codec codec;
    char *user;
    char *segment; /* NULL: none in the path */
    yyjson_doc *request;
    const abx_e2b_call_handlers *on;
    void *data;
    uint64_t timeout_ms;
    uint64_t deadline;     /* loop time, 0: none */
    uint64_t keepalive_ms; /* 0: none */
    uint64_t last_ms;      /* loop time of the last message or keepalive */
    uv_timer_t *timer;
    abx_buf in;    /* of a client stream: bytes that are no whole message yet */
    abx_buf parts; /* of an answer in parts */
    size_t part_count;
    bool live;      /* the filling may still finish it */
    bool is_stream; /* answered with envelopes */
    bool head_sent;
    bool in_line; /* the last byte of a stream of lines was no newline */
    bool charset; /* the request's content type names utf-8: so does ours */
    bool gzip_in;
    bool paused;
    bool all_in; /* the client stream's body has ended */
    bool half_told;
};

/* Header lines of one answer; what varies is copied by the exchange. */
typedef struct abx__lines {
    const char *items[24];
    size_t count;
} abx__lines;
/* With the CORS lines when the request names an origin. vary: add "Vary: Origin". */
void abx__lines_init(abx__lines *l, abx_exchange *x, bool vary);
void abx__lines_add(abx__lines *l, const char *line);

/* server_answer.c */
int abx__code_status(abx_e2b_code code);
const char *abx__code_name(abx_e2b_code code);
void abx__fail_text(abx_e2b_call *c, abx_e2b_code code, const char *text);
/* {"code":status,"message":text} as the plain routes have it. */
void abx__reply_status(abx_exchange *x, int status, const char *text);
/* Text that is no UTF-8 escaped, else as it is. Owned. */
char *abx__shown(const char *text);
void abx__reply_fault(abx_exchange *x, const abx_e2b_fault *f);
/* A Connect error on a route that has no call (yet). */
void abx__reply_unary_error(abx_exchange *x, abx_e2b_code code, const char *text);
void abx__send_keepalive(abx_e2b_call *c);
/* The filling lets go: no more callbacks. */
void abx__call_done(abx_e2b_call *c);

/* server_call.c */
/* user and segment are taken over; both may be NULL. */
void abx__call_start(abx_e2b_server *s, abx_exchange *x, abx_e2b_plane plane, abx_e2b_method m,
                     char *user, char *segment);
void abx__call_feed(abx_e2b_call *c); /* hand on whole messages of a client stream */

/* server_clock.c */
void abx__clock_arm(abx_e2b_call *c);
void abx__clock_kick(abx_e2b_call *c); /* feed soon */
void abx__clock_stop(abx_e2b_call *c);
/* Connect-Timeout-Ms and Keepalive-Ping-Interval. 0, or -1: text says what is wrong. */
int abx__clock_read(abx_e2b_call *c, char text[160]);

/* server.c */
/* A request that counts as use begins, and ends. */
void abx__use_begin(abx_e2b_server *s);
void abx__use_end(abx_e2b_server *s);
void abx__server_released(abx_e2b_server *s);
/* A request takes its seat; it is over; nothing has to be told any more (leave comes first). */
void abx__seat_take(abx_e2b_server *s, abx__seat *seat, abx_exchange *x);
void abx__seat_leave(abx__seat *seat);
void abx__seat_free(abx__seat *seat);

/* server_get.c, server_put.c */
void abx__get_start(abx_e2b_server *s, abx_exchange *x);
void abx__put_start(abx_e2b_server *s, abx_exchange *x);

/* server_tunnel.c */
void abx__tunnel_start(abx_e2b_server *s, abx_exchange *x);

/* server_sign.c: may this request to /files go on? 0: yes; else it was answered. */
int abx__sign_check(abx_e2b_server *s, abx_exchange *x, const char *operation);

/* server_gzip.c */
typedef struct abx__gunzip abx__gunzip;
abx__gunzip *abx__gunzip_new(void);
void abx__gunzip_free(abx__gunzip *g);
/* Unpack these bytes; sink gets what comes out. 0; 1: the sink wants no more now, the rest is kept; -1: not gzip;
 * -2: the sink answered < 0. */
int abx__gunzip_feed(abx__gunzip *g, const uint8_t *bytes, size_t n,
                     int (*sink)(void *arg, const uint8_t *bytes, size_t n), void *arg);
/* The sink answered 1 (hold), and so did feed: go on with what is left. Returns as feed. */
int abx__gunzip_go_on(abx__gunzip *g, int (*sink)(void *arg, const uint8_t *bytes, size_t n),
                      void *arg);
bool abx__gunzip_whole(const abx__gunzip *g); /* the end of the gzip data was seen */
/* A whole message, at most ABX__MAX_MESSAGE unpacked, appended to out. 0 or -1. */
int abx__gunzip_all(const uint8_t *bytes, size_t n, abx_buf *out);

#endif
