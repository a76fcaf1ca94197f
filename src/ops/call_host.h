/* The side of whoever stands between door and adapter: the host, and a service whose sandbox is not known yet. Doors and adapters do not
 * include this. */
#ifndef ABX_OPS_CALL_HOST_H
#define ABX_OPS_CALL_HOST_H

#include "ops/call.h"

/* Around the adapter's start: what it sends meanwhile waits for the loop. */
void abx_call_enter_start(abx_call *c);
void abx_call_leave_start(abx_call *c);
/* Replace the parameters (names resolved to ids); params is taken over. Pointers into the old ones end. */
void abx_call_set_params(abx_call *c, yyjson_doc *params);
/* Make it a call of another row (a create that an idempotency key turns into an info). */
void abx_call_set_op(abx_call *c, abx_op_id op);
/* Runs when the adapter ends the call, before the door hears of it: may change *result (mutable, may be NULL) or
 * *err (owned), at most one of which is not NULL. It runs exactly once for a call that was started, also when the
 * call ends by the grace time. */
typedef void (*abx_call_intercept_cb)(abx_call *c, yyjson_mut_doc **result, abx_error **err,
                                      void *data);
void abx_call_intercept(abx_call *c, abx_call_intercept_cb cb, void *data);
/* The adapter refused to start the call: run the interception with this error, so that it lets go, and forget an
 * adapter's callbacks if it set some. The call can then be discarded, or ended by the host. */
void abx_call_refused(abx_call *c, abx_error **err);
/* No adapter has the call yet, but it has begun: cancel and deadline end it, its input waits. gone: that happened, the call is not the
 * caller's any more (on_end comes right after it). */
void abx_call_hold(abx_call *c, void (*gone)(abx_call *c, void *data), void *data);
/* No longer held; the caller gives it to an adapter now, or fails it. */
void abx_call_unhold(abx_call *c);

#endif
