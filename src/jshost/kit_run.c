/* One call at a service of the kit. Either it stands for a call of the host: then events and bytes go from the service to the host as they are,
 * and JavaScript sees the result only; or the module follows it by next(). */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "epp/epp.h"
#include "jshost/kit.h"
#include "jshost/session.h"
#include "ops/call_host.h"

enum { ITEMS_HIGH = 16 };
#define BYTES_HIGH ((size_t)1 << 20)
#define GATHER     ((size_t)256 * 1024) /* as much goes on at once */

typedef struct item {
    struct item *next;
    char *type; /* of an event, or the channel of bytes */
    yyjson_doc *event;
    uint8_t *bytes;
    size_t len;
} item;

typedef struct js_run {
    abx_js_due due; /* first */
    abx_js *js;
    abx_call *call; /* NULL: ended */
    bool owned;     /* its object lives */
    bool direct;    /* it has none: JavaScript does not know of the call */
    bool settled;   /* the end was seen */
    uint64_t id;    /* of the host's call that it stands for; 0: none */
    size_t untaken; /* bytes of input that the service holds up */
    bool writable;
    item *first, **last;
    unsigned items;
    size_t bytes;
    yyjson_doc *result;
    abx_error *error;
    JSValue service; /* kept while it runs */
    abx_js_waiter next, end, drain;
    abx_js_pin pin; /* while one of these waits */
} js_run;

static js_session *session_of(const js_run *r)
{
    return (js_session *)r->js;
}

static void free_item(item *i)
{
    free(i->type);
    yyjson_doc_free(i->event);
    free(i->bytes);
    free(i);
}

static void free_run(js_run *r)
{
    abx__js_due_drop(r->js, &r->due);
    for (item *i = r->first, *next; i; i = next) {
        next = i->next;
        free_item(i);
    }
    yyjson_doc_free(r->result);
    abx_error_free(r->error);
    free(r);
}

JSValue abx__js_kit_error(JSContext *ctx, const abx_error *err)
{
    abx_js *js = abx_js_of(ctx);
    JSValue make = JS_GetPropertyStr(ctx, js->internal, "kitError");
    JSValue argv[] = {JS_NewString(ctx, abx_err_row_of(err->id)->code),
                      abx_js_string(ctx, err->message, strlen(err->message)),
                      err->hint ? abx_js_string(ctx, err->hint, strlen(err->hint)) : JS_UNDEFINED,
                      err->retryable == ABX_RETRY_UNKNOWN
                          ? JS_UNDEFINED
                          : JS_NewBool(ctx, err->retryable == ABX_RETRY_YES)};
    JSValue e = JS_Call(ctx, make, JS_UNDEFINED, 4, (JSValueConst *)argv);
    for (size_t i = 0; i < ABX_COUNT(argv); i++)
        JS_FreeValue(ctx, argv[i]);
    JS_FreeValue(ctx, make);
    return JS_IsException(e) ? JS_GetException(ctx) : e;
}

/* --- what the service says ------------------------------------------------------------------------------- */

static js_call *target(const js_run *r)
{
    return r->id ? js_session_find(session_of(r), r->id) : NULL;
}

static void add_item(js_run *r, item *i)
{
    *r->last = i;
    r->last = &i->next;
    r->items++;
    r->bytes += i->len;
    if (r->items >= ITEMS_HIGH || r->bytes >= BYTES_HIGH)
        abx_call_pause(r->call);
    abx__js_due(r->js, &r->due);
}

/* What the window does not take waits, and the service with it. */
static void push(js_run *r, js_call *c)
{
    js_call_push(session_of(r), c);
    if (r->call && js_call_waiting(c) > 0)
        abx_call_pause(r->call);
}

static void on_event(abx_call *call, const char *type, yyjson_val *event, void *data)
{
    js_run *r = data;
    js_call *c = target(r);
    (void)call;
    if (c && !c->ended) {
        push(r, c);
        ABX_AUTO_JSON copy = abx_json_copy(event);
        js_call_event(session_of(r), c, type, yyjson_doc_mut_copy(copy, NULL));
    } else if (!r->id && r->owned) {
        item *i = ABX_NEW(item);
        i->type = abx_strdup(type);
        i->event = abx_json_copy(event);
        add_item(r, i);
    }
}

/* A client of HTTP has small pieces, one behind the other: what comes in one turn of the loop goes on as one. */
static void pass_on(js_run *r, js_call *c, abx_channel channel, const uint8_t *bytes, size_t n)
{
    if (js_call_waiting(c) > c->waiting[channel].len)
        push(r, c); /* in their order */
    ABX_CHECK(abx_buf_add(&c->waiting[channel], bytes, n) == 0);
    if (js_call_waiting(c) >= GATHER)
        push(r, c);
    else
        abx__js_due(r->js, &r->due);
}

static void on_chunk(abx_call *call, abx_channel channel, const uint8_t *bytes, size_t n,
                     void *data)
{
    js_run *r = data;
    js_call *c = target(r);
    (void)call;
    if (c && !c->ended) {
        pass_on(r, c, channel, bytes, n);
    } else if (!r->id && r->owned) {
        item *i = ABX_NEW(item);
        i->type = abx_strdup(abx_channel_name(channel));
        i->bytes = abx_alloc(n + 1);
        memcpy(i->bytes, bytes, n);
        i->len = n;
        add_item(r, i);
    }
}

static void on_writable(abx_call *call, void *data)
{
    js_run *r = data;
    const js_call *c = target(r);
    (void)call;
    r->writable = true;
    if (c)
        abx_epp_taken(c->request, r->untaken);
    r->untaken = 0;
    if (!r->direct)
        abx__js_due(r->js, &r->due);
}

static yyjson_mut_doc *thaw(yyjson_val *v)
{
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(d, yyjson_val_mut_copy(d, v));
    return d;
}

static void on_end(abx_call *call, yyjson_val *result, const abx_error *err, void *data)
{
    js_run *r = data;
    js_call *c = target(r);
    (void)call;
    if (c && c->run == r)
        c->run = NULL;
    r->call = NULL;
    if (r->direct && c) {
        c->ended = true;
        c->result = result ? thaw(result) : NULL;
        c->error = err ? abx_error_copy(err) : NULL;
        js_call_push(session_of(r), c);
    }
    if (!r->owned) {
        r->js->open--;
        free_run(r);
        return;
    }
    r->result = result ? abx_json_copy(result) : NULL;
    r->error = err ? abx_error_copy(err) : NULL;
    abx__js_due(r->js, &r->due);
}

/* --- the host's side of a call that it stands for ------------------------------------------------------------ */

void js_run_input(js_run *r, const uint8_t *bytes, size_t n)
{
    const js_call *c = target(r);
    if (r->call && abx_call_write(r->call, bytes, n) == 0)
        r->untaken += n;
    else if (c)
        abx_epp_taken(c->request, n);
}

void js_run_input_end(js_run *r)
{
    if (r->call)
        abx_call_write_end(r->call);
}

void js_run_cancel(js_run *r)
{
    if (r->call)
        abx_call_cancel(r->call);
}

void js_run_resume(js_run *r)
{
    if (r->call)
        abx_call_resume(r->call);
}

/* --- to JavaScript ------------------------------------------------------------------------------------------- */

/* {type, data} or {type, event} */
static JSValue item_value(js_run *r)
{
    JSContext *ctx = r->js->ctx;
    item *i = r->first;
    JSValue o = JS_NewObject(ctx);
    JS_SetPropertyStr(ctx, o, "type", JS_NewString(ctx, i->type));
    if (i->event)
        JS_SetPropertyStr(ctx, o, "event", abx_js_from_json(ctx, yyjson_doc_get_root(i->event)));
    else
        JS_SetPropertyStr(ctx, o, "data", abx_js_adopt(ctx, ABX_TAKE(i->bytes), i->len));
    r->first = i->next;
    if (!r->first)
        r->last = &r->first;
    r->items--;
    r->bytes -= i->len;
    free_item(i);
    if (r->call && r->items < ITEMS_HIGH / 2 && r->bytes < BYTES_HIGH / 2)
        abx_call_resume(r->call);
    return o;
}

static void answer(js_run *r)
{
    JSContext *ctx = r->js->ctx;
    if (r->next.waiting && r->first)
        abx__js_resolve(ctx, &r->next, item_value(r));
    else if (r->next.waiting && !r->call)
        abx__js_resolve(ctx, &r->next, JS_UNDEFINED);
    if (r->drain.waiting && (!r->call || r->writable))
        abx__js_resolve(ctx, &r->drain, JS_NewBool(ctx, r->call != NULL));
    if (!r->end.waiting || r->call)
        return;
    if (r->error)
        abx__js_reject(ctx, &r->end, abx__js_kit_error(ctx, r->error));
    else
        abx__js_resolve(ctx, &r->end, abx_js_from_json(ctx, yyjson_doc_get_root(r->result)));
}

/* r may be gone afterwards. */
static void settle(js_run *r)
{
    answer(r);
    if (!r->next.waiting && !r->end.waiting && !r->drain.waiting)
        abx__js_unpin(r->js, &r->pin);
}

static void run_due(abx_js_due *due)
{
    js_run *r = (js_run *)due;
    js_call *c = target(r);
    JSContext *ctx = r->js->ctx;
    JSValue service = JS_UNDEFINED;
    if (c && !c->ended)
        push(r, c);
    if (!r->call && !r->settled) {
        r->settled = true;
        r->js->open--;
        service = r->service;
        r->service = JS_UNDEFINED;
    }
    settle(r);
    JS_FreeValue(ctx, service);
}

static js_run *of(JSContext *ctx, JSValueConst self)
{
    return JS_GetOpaque2(ctx, self, abx_js_of(ctx)->net->run_class);
}

/* next(): a promise of an item, or of undefined; end(): a promise of the result */
static JSValue run_wait(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv, int end)
{
    js_run *r = of(ctx, self);
    (void)argc;
    (void)argv;
    if (!r)
        return JS_EXCEPTION;
    JSValue promise = abx__js_wait(ctx, end ? &r->end : &r->next);
    if (JS_IsException(promise))
        return promise;
    abx__js_pin(r->js, &r->pin, self);
    settle(r);
    return promise;
}

/* write(bytes): a promise of whether it goes on */
static JSValue run_write(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    js_run *r = of(ctx, self);
    const uint8_t *bytes;
    size_t n;
    (void)argc;
    if (!r)
        return JS_EXCEPTION;
    if (abx_js_bytes(ctx, argv[0], &bytes, &n) < 0)
        return JS_EXCEPTION;
    JSValue promise = abx__js_wait(ctx, &r->drain);
    if (JS_IsException(promise))
        return promise;
    abx__js_pin(r->js, &r->pin, self);
    r->writable = !r->call || abx_call_write(r->call, bytes, n) == 1;
    settle(r);
    return promise;
}

static JSValue run_write_end(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    js_run *r = of(ctx, self);
    (void)argc;
    (void)argv;
    if (!r)
        return JS_EXCEPTION;
    js_run_input_end(r);
    return JS_UNDEFINED;
}

static JSValue run_cancel(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    js_run *r = of(ctx, self);
    (void)argc;
    (void)argv;
    if (!r)
        return JS_EXCEPTION;
    js_run_cancel(r);
    return JS_UNDEFINED;
}

static void run_finalize(JSRuntime *rt, JSValueConst v)
{
    const abx_js *js = JS_GetRuntimeOpaque(rt);
    js_run *r = JS_GetOpaque(v, js->net->run_class);
    if (!r)
        return;
    abx__js_waiter_clear(rt, &r->next);
    abx__js_waiter_clear(rt, &r->end);
    abx__js_waiter_clear(rt, &r->drain);
    JS_FreeValueRT(rt, r->service);
    r->service = JS_UNDEFINED;
    r->owned = false;
    if (r->call) {
        abx_call_resume(r->call);
        abx_call_cancel(r->call); /* frees it at its end */
        return;
    }
    r->js->open -= !r->settled;
    free_run(r);
}

static void run_mark(JSRuntime *rt, JSValueConst v, JS_MarkFunc *mark)
{
    const abx_js *js = JS_GetRuntimeOpaque(rt);
    const js_run *r = JS_GetOpaque(v, js->net->run_class);
    if (!r)
        return;
    JS_MarkValue(rt, r->service, mark);
    abx__js_waiter_mark(rt, &r->next, mark);
    abx__js_waiter_mark(rt, &r->end, mark);
    abx__js_waiter_mark(rt, &r->drain, mark);
}

/* --- the start ------------------------------------------------------------------------------------------------ */

/* As the table has them; the host proposes an id besides (docs/providers/epp.md). */
static int check(const abx_op_row *row, yyjson_doc *params, abx_error **err)
{
    if (row->id != ABX_OP_SANDBOX_CREATE && row->id != ABX_OP_SANDBOX_FORK)
        return abx_op_check_params(row, yyjson_doc_get_root(params), err);
    ABX_AUTO_MUT d = yyjson_doc_mut_copy(params, NULL);
    yyjson_mut_obj_remove_key(yyjson_mut_doc_get_root(d), "id");
    ABX_AUTO_JSON rest = abx_json_freeze(d);
    return abx_op_check_params(row, yyjson_doc_get_root(rest), err);
}

static int begin(js_run *r, abx_e2b_service *service, const abx_op_row *row, yyjson_doc *params,
                 abx_error **err)
{
    static const abx_call_handlers handlers = {on_event, on_chunk, on_writable, on_end};
    if (check(row, params, err) < 0) {
        yyjson_doc_free(params);
        return -1;
    }
    r->call = abx_call_new(r->js->loop, row->id, params, &handlers, r);
    abx_call_enter_start(r->call);
    int rc = abx_e2b_service_start(service, r->call, err);
    abx_call_leave_start(r->call);
    if (rc < 0) {
        abx_call_discard(r->call);
        r->call = NULL;
        return -1;
    }
    r->js->open++;
    return 0;
}

static int take_target(JSContext *ctx, js_run *r, JSValueConst id)
{
    int64_t n = 0;
    if (JS_IsUndefined(id))
        return 0;
    if (JS_ToInt64(ctx, &n, id) < 0)
        return -1;
    r->id = (uint64_t)n;
    js_call *c = target(r);
    if (!c || c->run || c->ended) {
        JS_ThrowTypeError(ctx, "the call has ended, or something answers it already");
        return -1;
    }
    c->run = r;
    return 0;
}

JSValue abx__js_run_start(JSContext *ctx, JSValueConst self, abx_e2b_service *service,
                          JSValueConst *argv)
{
    ABX_AUTO_ERROR err = NULL;
    abx_js *js = abx_js_of(ctx);
    ABX_AUTO_FREE char *method = abx_js_text(ctx, argv[0]);
    const abx_op_row *row = method ? abx_op_find(method) : NULL;
    yyjson_doc *params = row ? abx_js_to_json(ctx, argv[1]) : NULL;
    if (!params)
        return row || !method ? JS_EXCEPTION : JS_ThrowTypeError(ctx, "no such operation");
    JSValue object = JS_NewObjectClass(ctx, js->net->run_class);
    if (JS_IsException(object)) {
        yyjson_doc_free(params);
        return object;
    }
    js_run *r = ABX_NEW(js_run);
    r->js = js;
    r->due.run = run_due;
    r->last = &r->first;
    r->owned = true;
    r->service = JS_UNDEFINED;
    int rc = take_target(ctx, r, argv[2]);
    if (rc == 0)
        rc = check(row, params, &err);
    if (rc == 0)
        rc = begin(r, service, row, params, &err);
    else
        yyjson_doc_free(params);
    if (rc < 0) {
        js_call *c = target(r);
        if (c && c->run == r)
            c->run = NULL;
        free_run(r);
        JS_FreeValue(ctx, object);
        return err ? JS_Throw(ctx, abx__js_kit_error(ctx, err)) : JS_EXCEPTION;
    }
    r->service = JS_DupValue(ctx, self);
    JS_SetOpaque(object, r);
    return object;
}

/* --- calls that JavaScript has no part in ------------------------------------------------------------------------ */

typedef struct js_direct {
    abx_e2b_service *services[ABX_OP_COUNT]; /* or NULL */
    JSValue kept[ABX_OP_COUNT];
} js_direct;

void abx__js_run_direct(abx_js *js, const abx_op_row *row, JSValueConst self,
                        abx_e2b_service *service)
{
    if (!js->net->direct) {
        js->net->direct = ABX_NEW(js_direct);
        for (size_t i = 0; i < ABX_OP_COUNT; i++)
            js->net->direct->kept[i] = JS_UNDEFINED;
    }
    js_direct *d = js->net->direct;
    JS_FreeValue(js->ctx, d->kept[row->id]);
    d->kept[row->id] = JS_DupValue(js->ctx, self);
    d->services[row->id] = service;
}

void abx__js_run_release(abx_js *js)
{
    js_direct *d = ABX_TAKE(js->net->direct);
    for (size_t i = 0; d && i < ABX_COUNT(d->kept); i++)
        JS_FreeValue(js->ctx, d->kept[i]);
    free(d);
}

bool js_run_take(js_session *s, js_call *c, yyjson_val *params)
{
    const js_direct *d = s->js.net ? s->js.net->direct : NULL;
    const abx_op_row *row = abx_epp_request_op(c->request);
    ABX_AUTO_ERROR err = NULL;
    if (!d || !d->services[row->id])
        return false;
    js_run *r = ABX_NEW(js_run);
    r->js = &s->js;
    r->due.run = run_due;
    r->last = &r->first;
    r->direct = true;
    r->service = JS_UNDEFINED;
    r->id = c->id;
    c->run = r;
    if (begin(r, d->services[row->id], row, abx_json_copy(params), &err) < 0) {
        free_run(r);
        c->run = NULL;
        c->ended = true;
        c->error = ABX_TAKE(err);
        js_call_push(s, c);
    }
    return true;
}

void abx__js_run_init(abx_js *js)
{
    static const JSClassDef class = {"Run", .finalizer = run_finalize, .gc_mark = run_mark};
    static const JSCFunctionListEntry methods[] = {
        JS_CFUNC_MAGIC_DEF("next", 0, run_wait, 0), JS_CFUNC_MAGIC_DEF("end", 0, run_wait, 1),
        JS_CFUNC_DEF("write", 1, run_write),        JS_CFUNC_DEF("writeEnd", 0, run_write_end),
        JS_CFUNC_DEF("cancel", 0, run_cancel),
    };
    JS_NewClassID(js->rt, &js->net->run_class);
    ABX_CHECK(JS_NewClass(js->rt, js->net->run_class, &class) == 0);
    JSValue proto = JS_NewObject(js->ctx);
    JS_SetPropertyFunctionList(js->ctx, proto, methods, (int)ABX_COUNT(methods));
    JS_SetClassProto(js->ctx, js->net->run_class, proto);
}
