/* One recorded exchange with a real envd (tests/data/recordings/envd), to be played again: its request as a call of ours,
 * its answer as bytes. */
#ifndef TESTS_RECORDED_H
#define TESTS_RECORDED_H

#include "kit.h"

#include "base/buf.h"
#include "base/json.h"
#include "e2b/message.h"
#include "ops/call.h"

/* A path of envd that a call of ours asks for. */
typedef struct play_route {
    const char *path;
    abx_e2b_msg msg;
    const char *method, *path_param;
    bool stream;
} play_route;

/* What the recording says must come out. */
typedef struct want {
    bool fails;
    const char *message; /* part of the error's text, or NULL */
    bool open_end;       /* the client hung up: cancel when all has arrived */
    int64_t pid;
    bool started, ended, timed_out;
    yyjson_val *end; /* the end event */
    abx_buf out[ABX_CH_COUNT];
    size_t changes;
} want;

typedef struct play {
    const char *file;
    size_t line;
    yyjson_doc *const *lines; /* of the whole file */
    yyjson_val *record, *request, *response;
    const char *path; /* of the request, with query */
    abx_e2b_codec codec;
    const char *method;
    char *params;
    bool abx, stream;
    const play_route *route; /* NULL: /files */
    yyjson_doc *sent;        /* the recorded request's message, or NULL */
    abx_buf answer;
    char *message; /* of an error's body */
    want w;
} play;

/* A text of a recording, "" when it is not there. */
const char *recorded_text(yyjson_val *obj, const char *key);
/* A header of a message, "" when it has none; a request may name another line that has the same ones. */
const char *recorded_header(const play *p, yyjson_val *message, const char *name);
/* The bytes of a text in base64, at the end of out. */
bool recorded_base64(abx_buf *out, yyjson_val *text);
/* The bytes of the body; false: the recording does not hold all of them. */
bool recorded_body(yyjson_val *message, abx_buf *out);

/* Head and body of p->answer as they go over the wire: unpacked, with a framing of our own. False: they are not whole. */
bool play_answer(play *p);
/* The operation that makes this request: method, params and what belongs to them. False: none of ours does, or the
 * recording lacks parts of it. */
bool play_call(play *p);

#endif
