/* What the streaming routes share: handlers of requests (engine.h), the other calls that they need, and the comments that keep a
 * quiet stream alive.
 *
 *   stream.c    a call as server-sent events: process.start, process.attach, code.run, fs.watch
 *   place.c     where a client is in the output of a process: ?from=, Last-Event-ID
 *   download.c  GET files     upload.c  a request's body into a call
 *   socket.c    terminals and tunnels: WebSocket
 *   beat.c      keep-alive comments
 *
 * Backpressure: what a client does not take waits in its connection (256 KiB, then the call is paused: up to ABX_CALL_WINDOW wait there,
 * then the provider stops); what a call does not take waits in the socket of the client that sends it. */
#ifndef ABX_DOORS_ENGINE_STREAM_H
#define ABX_DOORS_ENGINE_STREAM_H

#include "base/list.h"
#include "doors/engine/engine.h"

#define ENGINE_BEAT_MS 14000 /* a stream is not silent for 15 s */

/* Handlers: see engine.h. */
void engine_stream(engine_request *r);
void engine_download(engine_request *r);
void engine_upload(engine_request *r);
void engine_socket(engine_request *r);

/* Another call for this request, in its session; params is taken over. NULL and *err: it was refused. */
abx_call *engine_request_call(engine_request *r, abx_op_id op, yyjson_mut_doc *params,
                              const abx_call_handlers *on, void *data, abx_error **err);
/* {"error": …} as text, without the secrets of the session. Owned. */
char *engine_request_error(engine_request *r, const abx_error *err);

/* --- where a client is (place.c) --------------------------------------------------------------------------------- */
typedef struct engine_place {
    bool known, tty;
    uint64_t at[ABX_CH_COUNT]; /* bytes that it has of each channel */
} engine_place;

/* Read Last-Event-ID, else ?from=: "STDOUT.STDERR", or one number for a terminal. 0 (known: it said something), or -1 and USAGE. */
int engine_place_read(const abx_exchange *x, engine_place *out, abx_error **err);
/* {stdout, stderr, pty} in bytes, as the started event and fromOffset have it: what it names is known then. */
void engine_place_offsets(engine_place *p, yyjson_val *offsets);
/* As fromOffset of process.attach. */
void engine_place_put(const engine_place *p, yyjson_mut_doc *d, yyjson_mut_val *root);
/* As the id of an event; NULL: not known. */
const char *engine_place_text(const engine_place *p, char out[48]);

/* --- keep-alive (beat.c) ------------------------------------------------------------------------------------------- */
typedef struct engine_streams engine_streams;

typedef struct engine_beat {
    abx_link node;
    uint64_t sent_ms;
    void (*on_silence)(struct engine_beat *beat);
} engine_beat;

/* One for an engine. */
engine_streams *engine_streams_new(void);
void engine_streams_free(engine_streams *s); /* NULL allowed; no stream is open */
/* To be called some times a second. */
void engine_streams_tick(engine_streams *s, uint64_t now_ms);
/* A buffer for what is being made and sent at once. */
abx_buf *engine_streams_scratch(engine_streams *s);
/* on_silence runs when nothing was sent for ENGINE_BEAT_MS, until the stop. */
void engine_beat_start(engine_streams *s, engine_beat *beat, void (*on_silence)(engine_beat *beat));
void engine_beat_sent(engine_beat *beat);
void engine_beat_stop(engine_beat *beat); /* again: nothing more */

#endif
