/* The server side of E2B's data plane: routes, Connect protocol (JSON and binary), token, Basic user, signed
 * URLs, CORS, /files in both directions. What the calls do is the filling's: real processes and files (local/envd),
 * or anything else that answers.
 *
 * A call is one request. It ends in exactly one of two ways: the filling finishes it (abx_e2b_answer,
 * abx_e2b_end, abx_e2b_fail), after which the call is gone for the filling; or on_close runs, because the
 * peer went away or the call's time limit passed, after which it is gone too.
 * Threads: all on the loop's thread. Functions of this header never run a handler of the same call, except where
 * said. */
#ifndef ABX_E2B_SERVER_H
#define ABX_E2B_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "e2b/message.h"
#include "e2b/sign.h"
#include "net/http_server.h"

/* --- routes ---------------------------------------------------------------------------------------- */
typedef enum abx_e2b_method {
#define ABX_E2B_ROUTE(id, verb, path, kind, in, out) ABX_E2B_M_##id,
#include "e2b/routes.def"
#undef ABX_E2B_ROUTE
    ABX_E2B_METHOD_COUNT
} abx_e2b_method;

/* Connect's error codes; the table of their names and HTTP statuses is in server_answer.c. */
typedef enum abx_e2b_code {
    ABX_E2B_CODE_CANCELED,
    ABX_E2B_CODE_UNKNOWN,
    ABX_E2B_CODE_INVALID_ARGUMENT,
    ABX_E2B_CODE_DEADLINE_EXCEEDED,
    ABX_E2B_CODE_NOT_FOUND,
    ABX_E2B_CODE_ALREADY_EXISTS,
    ABX_E2B_CODE_PERMISSION_DENIED,
    ABX_E2B_CODE_RESOURCE_EXHAUSTED,
    ABX_E2B_CODE_FAILED_PRECONDITION,
    ABX_E2B_CODE_ABORTED,
    ABX_E2B_CODE_OUT_OF_RANGE,
    ABX_E2B_CODE_UNIMPLEMENTED,
    ABX_E2B_CODE_INTERNAL,
    ABX_E2B_CODE_UNAVAILABLE,
    ABX_E2B_CODE_DATA_LOSS,
    ABX_E2B_CODE_UNAUTHENTICATED
} abx_e2b_code;

/* --- calls ----------------------------------------------------------------------------------------- */
typedef struct abx_e2b_call abx_e2b_call;

typedef struct abx_e2b_call_handlers {
    /* Client streams only: one message (borrowed); input bytes (a view); the client has sent all. */
    void (*on_message)(abx_e2b_call *c, yyjson_val *message, void *data);
    void (*on_input)(abx_e2b_call *c, abx_e2b_channel channel, const uint8_t *bytes, size_t n,
                     void *data);
    void (*on_half_close)(abx_e2b_call *c, void *data);
    /* A send answered 0 before: go on. */
    void (*on_writable)(abx_e2b_call *c, void *data);
    /* The peer went away, or the time limit passed (expired). Once; c is gone after this. */
    void (*on_close)(abx_e2b_call *c, bool expired, void *data);
} abx_e2b_call_handlers;

abx_e2b_method abx_e2b_call_method(const abx_e2b_call *c);
/* The user that was asked for by Basic auth (it exists), or NULL. */
const char *abx_e2b_call_user(const abx_e2b_call *c);
/* What stood for the * of the route's path, decoded; "" without one. */
const char *abx_e2b_call_segment(const abx_e2b_call *c);
/* Does the request speak our dialect (X-Abx: 1)? */
bool abx_e2b_call_is_abx(const abx_e2b_call *c);
/* Connect-Timeout-Ms of the request, ABX_FOREVER when absent. */
uint64_t abx_e2b_call_timeout_ms(const abx_e2b_call *c);
/* handlers must stay valid; members may be NULL. */
void abx_e2b_call_handle(abx_e2b_call *c, const abx_e2b_call_handlers *handlers, void *data);
/* Client streams: stop reading messages, and go on. */
void abx_e2b_call_pause(abx_e2b_call *c);
void abx_e2b_call_resume(abx_e2b_call *c);

/* Finish a unary, client-stream or plain call with this object (NULL: {}). */
void abx_e2b_answer(abx_e2b_call *c, yyjson_mut_val *tree);
/* Finish any call with an error; after the first message of a stream it is the error frame. */
void abx_e2b_fail(abx_e2b_call *c, abx_e2b_code code, const char *fmt, ...) ABX_PRINTF(3, 4);
/* Break the connection off (a reset). on_close of the call follows, later; nothing else may be called for it. */
void abx_e2b_break(abx_e2b_call *c);
/* Finish a plain call, or a LINES call before its first line, with this HTTP status and
 * {"code":status,"message":text}. */
void abx_e2b_refuse(abx_e2b_call *c, int status, const char *fmt, ...) ABX_PRINTF(3, 4);
/* Finish a plain call with this HTTP status and object. */
void abx_e2b_answer_status(abx_e2b_call *c, int status, yyjson_mut_val *tree);
/* Server streams: one message; one data event. 1: go on; 0: more than 256 KiB wait, hold until on_writable. */
int abx_e2b_send(abx_e2b_call *c, yyjson_mut_val *tree);
int abx_e2b_send_data(abx_e2b_call *c, abx_e2b_channel channel, const void *bytes, size_t n);
/* LINES: bytes of the answer as they are, whole lines or parts of them. Returns as abx_e2b_send. */
int abx_e2b_send_lines(abx_e2b_call *c, const void *bytes, size_t n);
/* A unary answer whose one list is long: each part is an answer with one item. Returns as abx_e2b_send; then
 * parts_end instead of abx_e2b_answer. After the first part an error breaks the connection off. */
int abx_e2b_part(abx_e2b_call *c, yyjson_mut_val *tree);
void abx_e2b_parts_end(abx_e2b_call *c);
/* Finish a server stream, or one of lines, well. */
void abx_e2b_end(abx_e2b_call *c);

/* --- files ----------------------------------------------------------------------------------------- */
/* Why something of /files did not work. */
typedef struct abx_e2b_fault {
    int status; /* 0: no fault */
    char text[1024];
} abx_e2b_fault;
void abx_e2b_fault_set(abx_e2b_fault *f, int status, const char *fmt, ...) ABX_PRINTF(3, 4);

typedef struct abx_e2b_meta {
    const char *key; /* lower case */
    const char *value;
} abx_e2b_meta;

typedef struct abx_e2b_put abx_e2b_put; /* one upload, made by the server */

typedef struct abx_e2b_put_options {
    abx_e2b_put *put; /* for abx_e2b_put_more */
    const char *user;
    int mode;          /* permission bits to set, -1: as umask and the old file have it */
    bool whole;        /* the old file stays until the new one is there with all its bytes */
    int64_t size;      /* bytes that must come, -1: not told */
    bool has_modified; /* set its time: */
    struct timespec modified;
    const abx_e2b_meta *meta;
    size_t meta_count;
} abx_e2b_put_options;

typedef struct abx_e2b_get abx_e2b_get; /* one download, made by the server */

typedef struct abx_e2b_file_info {
    int64_t size;       /* bytes that will come; -1: unknown, until the end */
    int64_t modified_s; /* Unix time, 0: unknown */
    const char *path;   /* absolute, for the file name */
} abx_e2b_file_info;

/* The file is open: its facts; the server then asks for a part by get_send. Or it is not: f. */
void abx_e2b_get_begin(abx_e2b_get *g, const abx_e2b_file_info *info, void *file);
/* Also after get_begin; once bytes were given it is as abx_e2b_get_break. */
void abx_e2b_get_fail(abx_e2b_get *g, const abx_e2b_fault *f);
/* Bytes of the part. 1: go on; 0: hold until get_more. */
int abx_e2b_get_bytes(abx_e2b_get *g, const void *bytes, size_t n);
/* All bytes of the part were given; or the rest will never come: the connection is broken off. */
void abx_e2b_get_end(abx_e2b_get *g);
void abx_e2b_get_break(abx_e2b_get *g);

typedef struct abx_e2b_put_info {
    int64_t size;
} abx_e2b_put_info;
typedef void (*abx_e2b_put_done)(void *arg, const abx_e2b_put_info *info, const abx_e2b_fault *f);
/* A put_write of the file that is open answered 0 before: go on. Runs put_write, if more bytes are here already. */
void abx_e2b_put_more(abx_e2b_put *p);

/* --- tunnels ----------------------------------------------------------------------------------------- */
/* One request for a connection to a port inside, made by the server. It ends by refuse, or by accept and then end; or
 * the client goes before either: on_gone, after which it is gone. */
typedef struct abx_e2b_tunnel abx_e2b_tunnel;
void abx_e2b_tunnel_watch(abx_e2b_tunnel *t, void (*on_gone)(void *data), void *data);
/* Say yes and take the client's socket over, non-blocking. -1 with errno: it cannot be had; still to be refused. */
int abx_e2b_tunnel_accept(abx_e2b_tunnel *t);
/* The accepted connection is over. */
void abx_e2b_tunnel_end(abx_e2b_tunnel *t);
void abx_e2b_tunnel_refuse(abx_e2b_tunnel *t, int status, const char *fmt, ...) ABX_PRINTF(3, 4);

/* --- the filling ------------------------------------------------------------------------------------- */
typedef struct abx_e2b_filling {
    /* Does this user exist? */
    bool (*has_user)(void *data, const char *name);
    /* A call with its request (borrowed until the call is gone). Finish it now or later. */
    void (*call)(void *data, abx_e2b_call *c, yyjson_val *request);
    /* PATH of USER as an absolute path; owned. NULL and f. */
    char *(*resolve)(void *data, const char *path, const char *user, abx_e2b_fault *f);
    /* Open an absolute path for reading and call abx_e2b_get_begin or _fail, now or later. live: give files of
     * /proc until their end although they say size 0. */
    void (*get_open)(void *data, abx_e2b_get *g, const char *path, const char *user, bool live);
    /* Give length bytes (-1: all there are) from offset; go on after a hold; the server needs it no more. */
    void (*get_send)(void *file, int64_t offset, int64_t length);
    void (*get_more)(void *file);
    void (*get_close)(void *file);
    /* Open an absolute path for writing, make its parents. NULL and f. */
    void *(*put_open)(void *data, const char *path, const abx_e2b_put_options *o, abx_e2b_fault *f);
    /* 1: go on; 0: hold until abx_e2b_put_more (up to 64 KiB still come before that works); -1: it failed, put_close
     * says why. All bytes are taken during the call. */
    int (*put_write)(void *file, const uint8_t *bytes, size_t n);
    /* Close; whole is false when the client broke off. done runs once, now or later. */
    void (*put_close)(void *file, bool whole, abx_e2b_put_done done, void *arg);
    /* Connect to a port (1 to 65535) of the loopback inside, then accept or refuse, now or later. NULL: there is no such
     * thing. */
    void (*tunnel)(void *data, abx_e2b_tunnel *t, int port);
} abx_e2b_filling;

/* --- the server ---------------------------------------------------------------------------------------- */
typedef struct abx_e2b_server abx_e2b_server;

/* Which routes a request can reach. */
typedef enum abx_e2b_plane {
    ABX_E2B_PLANE_ALL,  /* all of them, ours too */
    ABX_E2B_PLANE_ENVD, /* E2B's data plane, as on port 49983 */
    ABX_E2B_PLANE_CODE /* E2B's code interpreter, as on port 49999: asks for the token only to run code, as its
                            clients send it; refuses in plain text */
} abx_e2b_plane;

typedef struct abx_e2b_server_options {
    uv_loop_t *loop;
    const char *token;        /* every request must bear it; NULL: none is asked. Copied */
    const char *default_user; /* user of requests that name none. Copied */
    const abx_e2b_filling *filling;
    void *data;             /* the filling's */
    size_t max_connections; /* 0: 1024 */
    const abx_log *log;
    bool guest; /* no connections of its own: requests come by abx_e2b_server_handle */
} abx_e2b_server_options;

int abx_e2b_server_open(const abx_e2b_server_options *options, abx_e2b_server **out,
                        abx_error **err);
/* As abx_http_server_listen_fd and _adopt. */
int abx_e2b_server_listen_fd(abx_e2b_server *s, int fd, int backlog, abx_error **err);
int abx_e2b_server_listen_tcp(abx_e2b_server *s, const char *ip, int port, int *bound_port,
                              abx_error **err);
int abx_e2b_server_adopt(abx_e2b_server *s, int fd, void (*on_gone)(void *data), void *data,
                         abx_error **err);
/* Guests: take over a request that another HTTP server has accepted, of which nothing was answered. */
void abx_e2b_server_handle(abx_e2b_server *s, abx_exchange *x, abx_e2b_plane plane);
/* Guests: break off (by a reset) the connections of all requests that are in flight here; each call gets its
 * on_close, later. */
void abx_e2b_server_reset(abx_e2b_server *s);
/* The user of "Authorization: Basic", owned; NULL without one. "" is a name nobody has. */
char *abx_e2b_basic_user(const abx_exchange *x);
/* Milliseconds since the last request ended, or since the start; 0 while one is in flight. Who only looks (/health,
 * /metrics, /abx/info) does not count. */
uint64_t abx_e2b_server_idle_ms(const abx_e2b_server *s);
/* Break off everything (each call gets its on_close), then cb(data) once; cb may be NULL. Of a guest that has no request in
 * flight it runs before this returns. */
void abx_e2b_server_close(abx_e2b_server *s, void (*cb)(void *data), void *data);

#endif
