/* The plugin's end of EPP/1: a dispatcher without I/O. Bytes from the host are fed in; requests come out as callbacks, answers and events
 * go in and come out as bytes. Used by programs of ours that are started as plugins.
 *
 * Rules of the protocol that it keeps by itself: one answer a request, nothing after it, raw and flow only where both sides agreed,
 * bytes as text only in whole characters. Not shared between threads. */
#ifndef ABX_EPP_PLUGIN_END_H
#define ABX_EPP_PLUGIN_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"
#include "ops/call.h"

typedef struct abx_epp_plugin abx_epp_plugin;
/* One request of the host that has not been answered. */
typedef struct abx_epp_request abx_epp_request;

typedef struct abx_epp_piece {
    const void *bytes;
    size_t n;
} abx_epp_piece;

typedef struct abx_epp_plugin_handlers {
    /* Bytes for the host, valid during the call; in order, all of them. */
    void (*write)(const void *bytes, size_t n, void *data);
    /* The same of bytes that lie in several places. NULL: they are joined for `write`. */
    void (*write_pieces)(const abx_epp_piece *pieces, size_t count, void *data);
    /* initialize: fill `features` (an array of names in document d), or return -1 and *err to refuse; or 1: abx_epp_greeted
     * answers it later. params are valid during the call. */
    int (*initialize)(yyjson_val *params, yyjson_mut_doc *d, yyjson_mut_val *features, void *data,
                      abx_error **err);
    /* A call. It is answered by abx_epp_end or abx_epp_fail, at once or later. params: borrowed until then. */
    void (*request)(abx_epp_request *r, yyjson_val *params, void *data);
    /* Bytes for a call; taken: abx_epp_taken(r, n) says so, at once or later. NULL: taken and dropped. */
    void (*input)(abx_epp_request *r, const uint8_t *bytes, size_t n, void *data);
    void (*input_end)(abx_epp_request *r, void *data);
    /* End the call soon; it is still to be answered. NULL: nothing. */
    void (*cancel)(abx_epp_request *r, void *data);
    /* It may send bytes again, after abx_epp_bytes answered 0. NULL: nothing. */
    void (*resume)(abx_epp_request *r, void *data);
    /* The session is over; answered already. Ends when this returns, or later. */
    void (*shutdown)(void *data);
} abx_epp_plugin_handlers;

/* handlers: borrowed (static). want_raw, want_flow: what it offers. */
abx_epp_plugin *abx_epp_plugin_new(const abx_epp_plugin_handlers *handlers, void *data,
                                   bool want_raw, bool want_flow);
void abx_epp_plugin_free(abx_epp_plugin *p); /* not from a handler */
/* Bytes from the host. 0, or -1 and *err: the host broke the protocol, the session is over. */
int abx_epp_plugin_feed(abx_epp_plugin *p, const void *bytes, size_t n, abx_error **err);

/* Answer initialize, once. features: an array of names or an object name → state, taken over; NULL: err says why not. */
void abx_epp_greeted(abx_epp_plugin *p, yyjson_mut_doc *features, const abx_error *err);

/* This program will end once its calls are answered: the host sends no others. reason: for people. */
void abx_epp_retire(abx_epp_plugin *p, const char *reason);

const abx_op_row *abx_epp_request_op(const abx_epp_request *r);
uint64_t abx_epp_request_id(const abx_epp_request *r); /* also its stream */
void abx_epp_request_set_data(abx_epp_request *r, void *data);
void *abx_epp_request_data(const abx_epp_request *r);

/* An event of the table ("started", "exit"); doc (an object) is taken over, NULL: {}. */
void abx_epp_event_send(abx_epp_request *r, const char *type, yyjson_mut_doc *doc);
/* Bytes on a channel, at most ABX_EPP_CHUNK_MAX. last: no more bytes come on it, an unfinished character goes out too. 1: go on; 0: the
 * window is used up, hold until `resume` (with flow a chunk must fit: abx_epp_room). */
int abx_epp_bytes_send(abx_epp_request *r, abx_channel channel, const void *bytes, size_t n,
                       bool last);
/* How many bytes may be sent now: SIZE_MAX without flow. */
size_t abx_epp_room(const abx_epp_request *r);
/* n bytes of the input were taken (of those that `input` gave). */
void abx_epp_taken(abx_epp_request *r, size_t n);
/* The answer. The request is gone afterwards. result (an object) is taken over, NULL: {}; err is not. */
void abx_epp_end(abx_epp_request *r, yyjson_mut_doc *result);
void abx_epp_fail(abx_epp_request *r, const abx_error *err);
/* A line for the log: level "error", "warn", "info", "debug". */
void abx_epp_log(abx_epp_plugin *p, const char *level, const char *message);

#endif
