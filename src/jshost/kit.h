/* The classes of the kit over src/e2b: a service that a module described, and its runs. js/kit.js makes the classes of these. Inside of
 * jshost. */
#ifndef ABX_JSHOST_KIT_H
#define ABX_JSHOST_KIT_H

#include "e2b/service.h"
#include "jshost/turn.h"

/* Start a call at a service. self: the service's object, kept while the call runs. argv: method, parameters, the host's call whose events and
 * bytes it carries (its number), or undefined: they come by next(). A Run, or an exception. */
JSValue abx__js_run_start(JSContext *ctx, JSValueConst self, abx_e2b_service *service,
                          JSValueConst *argv);
void abx__js_run_init(abx_js *js);
/* Calls of the host with this row are the service's own affair from now on: nothing of JavaScript runs for them. self: kept. */
void abx__js_run_direct(abx_js *js, const abx_op_row *row, JSValueConst self,
                        abx_e2b_service *service);
/* They are no longer. */
void abx__js_run_release(abx_js *js);
/* An error of ours as one of the kit's. */
JSValue abx__js_kit_error(JSContext *ctx, const abx_error *err);

#endif
