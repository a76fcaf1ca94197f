/* Between the two: EPP/1 on one side, the module's objects on the other. Inside of jshost, shared between its files. */
#ifndef ABX_JSHOST_SESSION_H
#define ABX_JSHOST_SESSION_H

#include "epp/plugin_end.h"
#include "jshost/js.h"
#include "jshost/output.h"

/* A call of the host that has not been answered. */
typedef struct js_call {
    struct js_call *next;
    abx_epp_request *request;
    uint64_t id;
    abx_buf waiting
        [ABX_CH_COUNT]; /* bytes that the window did not let through, or that more is added to first */
    struct js_late *late, **late_end; /* events behind bytes that wait */
    bool ended;                       /* answered by the module: goes out when nothing waits */
    yyjson_mut_doc *result;
    abx_error *error;
    struct js_run *run; /* carries its bytes (kit_run.c), or NULL */
} js_call;

#define ABX_JS_WAITING_MAX ((size_t)64 << 20) /* bytes of a call */

typedef struct js_session {
    abx_js js; /* first */
    const abx_js_bundle *bundle;
    abx_epp_plugin *epp;
    js_call *calls;
    JSValue load, request, input, input_end, cancel, resume, describe; /* of js/core.js */
    uint64_t call_run_ms;  /* how long code may run once the module is loaded */
    bool greeted, loading; /* the module is being loaded: it has to settle */
    bool over;             /* the host is gone */
    uv_pipe_t in;
    js_output out;
    uv_timer_t timer; /* of JavaScript's timers */
    bool timer_armed;
    uv_timer_t quiet; /* runs while there is no call */
    uint8_t *read_buffer;
} js_session;

/* Make the runtime, its globals and natives; nothing of the module runs. 0, or -1 and *err. */
int js_session_open(js_session *s, uv_loop_t *loop, const abx_js_bundle *bundle, abx_error **err);
/* Take descriptors 0 and 1 and serve until the host goes. Then the process ends: nothing is kept that would have to be freed; it returns only
 * where somebody looks for leaks (ABX_JS_SANITIZED). */
void js_session_serve(js_session *s);
/* Free everything, which ends what is in flight; nothing is told to the host. Not from a callback. Runs the loop until it has
 * nothing left. */
void js_session_close(js_session *s);
/* All that waits fails with why it broke, and the process ends. */
_Noreturn void js_session_die(js_session *s);
void js_session_write(const void *bytes, size_t n, void *data);

js_call *js_session_find(js_session *s, uint64_t id);
/* Send what waits, as far as the window goes; answer it when it was ended and nothing waits any more (c is gone then). */
void js_call_push(js_session *s, js_call *c);
/* Tell an event, behind the bytes that came before it: while these wait, it does. event: taken over. */
void js_call_event(js_session *s, js_call *c, const char *type, yyjson_mut_doc *event);
/* Bytes of all channels. */
size_t js_call_waiting(const js_call *c);
extern const abx_epp_plugin_handlers js_session_handlers;

/* kit_run.c: a call that a class of the kit answers. Its bytes pass JavaScript by. */
/* Whether a service answers this call without JavaScript: then it does. params: borrowed. */
bool js_run_take(js_session *s, js_call *c, yyjson_val *params);
void js_run_input(struct js_run *run, const uint8_t *bytes, size_t n);
void js_run_input_end(struct js_run *run);
void js_run_cancel(struct js_run *run);
void js_run_resume(struct js_run *run);

/* Only in a program of the tests: a global function that tries what this process may not do. */
__attribute__((weak)) void abx_js_probe(JSContext *ctx);

/* natives.c: adds what js/core.js needs to js.internal. */
void js_natives(js_session *s);

#endif
