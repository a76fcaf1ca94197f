/* One call: a row of the op table, parameters, an input byte stream where the style has one, a deadline, a
 * cancel; it answers with events, chunks of bytes on a channel, and exactly one end. A door stands on one side, an
 * adapter on the other; the host introduces them.
 *
 * Order: what the adapter sends arrives in that order (events, chunks, end). Nothing arrives inside
 * abx_host_start: the first callback comes later, from the loop. After on_end the call is gone for the door;
 * the adapter's side lets go when it has ended the call.
 *
 * Backpressure: a door that cannot take more calls abx_call_pause; chunks and events then wait here. An
 * adapter's abx_call_chunk answers 0 when it should stop until on_resume (at most ABX_CALL_WINDOW waits here if it
 * obeys). The other way round abx_call_write answers 0 until on_writable.
 *
 * Deadline and cancel: the adapter's on_cancel runs once; it ends the call soon. If it does not within
 * ABX_CALL_GRACE_MS the call ends without it, and what it sends later is dropped. The error is TIMEOUT or CANCELLED
 * whatever the adapter says then, unless it had already ended the call.
 *
 * Threads: all on the loop's thread. */
#ifndef ABX_OPS_CALL_H
#define ABX_OPS_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/json.h"
#include "ops/ops.h"

#define ABX_CALL_WINDOW   ((size_t)1024 * 1024)
#define ABX_CALL_GRACE_MS 3000

typedef struct abx_call abx_call;

typedef enum abx_channel {
    ABX_CH_STDOUT,
    ABX_CH_STDERR,
    ABX_CH_PTY,
    ABX_CH_BODY,
    ABX_CH_COUNT
} abx_channel;
const char *abx_channel_name(abx_channel c); /* "stdout", "stderr", "pty", "body" */

/* --- the door's side --------------------------------------------------------------------------------- */
typedef struct abx_call_handlers {
    /* type: "started", "exit", "gap", "change"; event: an object, borrowed. NULL allowed: dropped. */
    void (*on_event)(abx_call *c, const char *type, yyjson_val *event, void *data);
    /* Bytes, valid during the call. NULL allowed: dropped. */
    void (*on_chunk)(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data);
    /* Input may go on. NULL allowed. */
    void (*on_writable)(abx_call *c, void *data);
    /* The end, once. Exactly one of result (an object, maybe empty) and err is not NULL; both borrowed. */
    void (*on_end)(abx_call *c, yyjson_val *result, const abx_error *err, void *data);
} abx_call_handlers;

/* params is taken over (an object). handlers is copied. Ends by abx_host_start + on_end, or by
 * abx_call_discard if it was never started. */
abx_call *abx_call_new(uv_loop_t *loop, abx_op_id op, yyjson_doc *params,
                       const abx_call_handlers *handlers, void *data);
void abx_call_discard(abx_call *c);
/* Milliseconds from now for the whole call; ABX_FOREVER: none (the default). Before or after the start. */
void abx_call_set_deadline(abx_call *c, uint64_t timeout_ms);
/* A wish; on_end comes later, also while paused. Again: nothing more. After the adapter's end that end stands, and
 * what still waits is dropped. */
void abx_call_cancel(abx_call *c);
void abx_call_pause(abx_call *c);
void abx_call_resume(abx_call *c);
/* Bytes of the input (copied). 1: go on; 0: hold until on_writable. After write_end or the end: dropped, 1. */
int abx_call_write(abx_call *c, const void *bytes, size_t n);
void abx_call_write_end(abx_call *c);
void *abx_call_data(const abx_call *c);

/* --- both sides ---------------------------------------------------------------------------------------- */
const abx_op_row *abx_call_op(const abx_call *c);
yyjson_val *abx_call_params(const abx_call *c);
uv_loop_t *abx_call_loop(const abx_call *c);
/* Milliseconds left, ABX_FOREVER without a deadline, 0 when it has passed. */
uint64_t abx_call_time_left(const abx_call *c);

/* --- the adapter's side -------------------------------------------------------------------------------- */
typedef struct abx_call_backend {
    /* Cancel or deadline: end soon. NULL: the call ends at once. */
    void (*on_cancel)(abx_call *c, void *state);
    /* Input bytes (valid during the call); answer 1: go on, 0: hold until abx_call_want_input. NULL: dropped. */
    int (*on_input)(abx_call *c, const uint8_t *bytes, size_t n, void *state);
    void (*on_input_end)(abx_call *c, void *state);
    /* The door takes again, after abx_call_chunk or _event answered 0. NULL allowed. */
    void (*on_resume)(abx_call *c, void *state);
    /* The call let go of the adapter's state: no callback comes after it. NULL allowed. Runs once, after
     * abx_call_end / _fail was delivered, or after the grace time. */
    void (*on_release)(abx_call *c, void *state);
} abx_call_backend;

/* Set by the adapter in its start function. backend is borrowed (static). Input that came before is then
 * delivered from the loop. */
void abx_call_accept(abx_call *c, const abx_call_backend *backend, void *state);
/* Send an event; doc (root: an object) is taken over, NULL: {}. 1: go on, 0: hold until on_resume. */
int abx_call_event(abx_call *c, const char *type, yyjson_mut_doc *doc);
/* Send bytes (copied only when they must wait). 1: go on, 0: hold until on_resume. */
int abx_call_chunk(abx_call *c, abx_channel channel, const void *bytes, size_t n);
/* The adapter takes input again. */
void abx_call_want_input(abx_call *c);
/* The end. Exactly one of these, once; the adapter must not touch the call afterwards. result is taken over, NULL: {}. */
void abx_call_end(abx_call *c, yyjson_mut_doc *result);
void abx_call_fail(abx_call *c, abx_error *err);
/* True once the door or the deadline asked to end it. */
bool abx_call_is_cancelled(const abx_call *c);

#endif
