/* One call of a conformance case and all that came of it: events, bytes by channel, their order, the end. */
#ifndef ABX_SUITE_TRACE_H
#define ABX_SUITE_TRACE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/json.h"
#include "host/host.h"

typedef struct abx_trace {
    char *name; /* what the case calls it, or NULL */
    const abx_op_row *op;
    bool ended;
    bool overflow;      /* more output than is kept: the call was cancelled */
    yyjson_doc *params; /* as they were given */
    yyjson_doc *result; /* when it ended well */
    abx_error *err;     /* when it did not */
    struct abx_trace *next;
    const char *
        may_refuse; /* its caller's: a parameter that a provider is free not to have, or NULL; borrowed */

    /* private from here */
    abx_call *_call; /* NULL: not started, or ended */
    yyjson_mut_doc *_events;
    abx_buf _order; /* kinds of what came, without repetitions */
    abx_buf _out[ABX_CH_COUNT];
    abx_buf _input;
    size_t _sent;
    bool _input_ends, _held;
    void (*_changed)(void *data);
    void *_data;
} abx_trace;

/* How a call is made. */
typedef struct abx_trace_options {
    const char *method, *name;
    yyjson_mut_val *params;  /* an object, copied; or NULL */
    uint64_t deadline_ms;    /* ABX_FOREVER: none */
    bool paused;             /* nobody reads until abx_trace_resume */
    void (*changed)(void *); /* something came; called from the loop */
    void *data;
} abx_trace_options;

/* Make and start a call at this provider. Never NULL: what is refused at once has ended with that error. An unknown
 * method ends with USAGE. */
abx_trace *abx_trace_start(abx_host *host, uv_loop_t *loop, const char *provider,
                           const abx_trace_options *options);
/* Only when it has ended. */
void abx_trace_free(abx_trace *t);
/* Bytes of the input (copied); ends: the last ones. */
void abx_trace_feed(abx_trace *t, const void *bytes, size_t n, bool ends);
void abx_trace_cancel(abx_trace *t);
void abx_trace_pause(abx_trace *t);
void abx_trace_resume(abx_trace *t);

/* True when what came is as `expect` (an object, or NULL) says; ended calls only. A call that failed though no error is
 * expected does not fit. *why (owned) tells. */
bool abx_trace_fits(const abx_trace *t, yyjson_val *expect, char **why);
/* True when one of the channels named in `expect` fits what came so far, or an event its member "event" (then copied
 * to *event, owned). */
bool abx_trace_has(const abx_trace *t, yyjson_val *expect, yyjson_doc **event, char **why);
/* {"result", "error", "events", "stdout", …} of what came, for save. */
yyjson_doc *abx_trace_json(const abx_trace *t);

#endif
