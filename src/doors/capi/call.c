/* Calls: started, pulled, given input, ended. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/capi/inner.h"

/* --- start ---------------------------------------------------------------------------------------------- */

static const abx_op_row *find_row(const char *method, abx_error **err)
{
    const abx_op_row *row = method ? abx_op_find(method) : NULL;
    if (row)
        return row;
    const char *names[ABX_OP_COUNT];
    for (int i = 0; i < ABX_OP_COUNT; i++)
        names[i] = abx_op_row_of((abx_op_id)i)->method;
    ABX_AUTO_FREE char *shown = abx_printable(method ? method : "");
    const char *near = method ? abx_nearest(method, names, ABX_OP_COUNT) : NULL;
    abx_fail(err, ABX_ERR_USAGE, "unknown operation '%s'", shown);
    if (near)
        abx_hint(err, "the nearest known one is '%s'", near);
    else
        abx_hint(err, "an operation is called as in 'process.start'");
    return NULL;
}

static int start_inner(capi_call *call, const char *id, const abx_op_row *row, yyjson_doc *params,
                       int64_t timeout_ms, abx_error **err)
{
    const capi_provider *p = call->provider;
    abx_call *inner = abx_call_new(&call->ctx->loop, row->id, params, &capi_call_handlers, call);
    if (timeout_ms > 0)
        abx_call_set_deadline(inner, (uint64_t)timeout_ms);
    int rc = id ? abx_host_start_at(p->host, id, inner, err) : abx_host_start(p->host, inner, err);
    if (rc < 0) {
        abx_call_discard(inner);
        return -1;
    }
    call->inner = inner;
    return 0;
}

static void link_call(capi_call *call)
{
    capi_context *ctx = call->ctx;
    call->next = ctx->calls;
    if (call->next)
        call->next->prev = call;
    ctx->calls = call;
}

capi_call *capi_call_start_at(capi_provider *p, const char *id, const char *method,
                              const char *params, int64_t timeout_ms, void (*on_event)(void),
                              void *user, abx_error **err)
{
    capi_section s;
    const abx_op_row *row = find_row(method, err);
    yyjson_doc *doc = row ? capi_object(params, "the parameters", NULL, err) : NULL;
    if (!doc)
        return NULL;
    if (capi_enter(&s, p->ctx, err) < 0) {
        yyjson_doc_free(doc);
        return NULL;
    }
    capi_call *call = ABX_NEW(capi_call);
    call->ctx = p->ctx;
    call->provider = p;
    call->on_event = on_event;
    call->user = user;
    int rc = -1;
    if (p->closing)
        yyjson_doc_free(doc);
    else
        rc = start_inner(call, id, row, doc, timeout_ms, err);
    if (p->closing)
        abx_fail(err, ABX_ERR_CANCELLED, "the provider is being closed");
    if (rc == 0)
        link_call(call);
    else
        free(ABX_TAKE(call));
    capi_poke(s.ctx); /* a call that was refused leaves something to clear, too */
    capi_leave(&s);
    return call;
}

capi_call *capi_call_start(capi_provider *p, const char *method, const char *params,
                           int64_t timeout_ms, void (*on_event)(void), void *user, abx_error **err)
{
    return capi_call_start_at(p, p->forced ? p->id : NULL, method, params, timeout_ms, on_event,
                              user, err);
}

/* --- events --------------------------------------------------------------------------------------------- */

static bool has_event(void *data)
{
    const capi_call *call = data;
    return call->head || call->end_given;
}

int capi_call_next(capi_call *call, capi_event *event, int timeout_ms)
{
    capi_section s;
    int rc = -1;
    if (capi_enter(&s, call->ctx, NULL) < 0)
        return -1;
    capi_item_free(ABX_TAKE(call->current));
    if (!call->end_given && !call->on_event) {
        rc = capi_wait(&s, has_event, call, call, false, timeout_ms);
        call->current = capi_queue_take(call);
        if (call->current)
            capi_item_show(call->current, event);
        rc = call->current ? 1 : 0;
        if (!call->head)
            capi_call_unlist(call);
    }
    capi_leave(&s);
    return rc;
}

/* --- input ---------------------------------------------------------------------------------------------- */

static bool has_room(void *data)
{
    return !((const capi_call *)data)->full;
}

int capi_call_send(capi_call *call, const void *bytes, size_t length, int timeout_ms)
{
    capi_section s;
    if (length > CAPI_SEND_MAX || capi_enter(&s, call->ctx, NULL) < 0)
        return -1;
    call->pins++;
    int rc = has_room(call) ||
             (timeout_ms != 0 && capi_wait(&s, has_room, call, call, false, timeout_ms));
    if (!rc)
        call->wants_room = true;
    if (rc && call->inner && !call->freed) {
        call->full = abx_call_write(call->inner, bytes, length) == 0;
        capi_poke(s.ctx);
    }
    call->pins--;
    if (call->freed && !call->in_callback)
        capi_call_discard(call);
    capi_leave(&s);
    return rc;
}

void capi_call_send_end(capi_call *call)
{
    capi_section s;
    if (capi_enter(&s, call->ctx, NULL) < 0)
        return;
    if (call->inner)
        abx_call_write_end(call->inner);
    capi_poke(s.ctx);
    capi_leave(&s);
}

/* --- its end -------------------------------------------------------------------------------------------- */

void capi_call_stop(capi_call *call)
{
    capi_section s;
    if (capi_enter(&s, call->ctx, NULL) < 0)
        return;
    if (call->inner)
        abx_call_cancel(call->inner);
    capi_poke(s.ctx);
    capi_leave(&s);
}

void capi_call_flow(capi_call *call, bool on)
{
    capi_section s;
    if (capi_enter(&s, call->ctx, NULL) < 0)
        return;
    call->held_back = !on;
    if (!on && call->on_event)
        capi_call_unlist(call);
    if (on && call->head && call->on_event)
        capi_announce(call);
    capi_poke(s.ctx);
    capi_leave(&s);
}

void *capi_call_user(const capi_call *call)
{
    return call->user;
}

static void drop_items(capi_call *call)
{
    capi_item_free(ABX_TAKE(call->current));
    while (call->head) {
        capi_item *item = call->head;
        call->head = item->next;
        capi_item_free(item);
    }
    call->tail = NULL;
    call->waiting = 0;
}

void capi_call_free(capi_call *call)
{
    capi_section s;
    if (!call || capi_enter(&s, call->ctx, NULL) < 0)
        return;
    bool mine = call->in_callback && pthread_equal(call->giver, pthread_self());
    call->held_back = true; /* from now on no callback begins */
    while (call->in_callback && !mine)
        pthread_cond_wait(&s.ctx->delivered, &s.ctx->lock);
    capi_call_unlist(call);
    drop_items(call);
    call->freed = true;
    if (call->inner) {
        if (call->paused)
            abx_call_resume(call->inner);
        abx_call_cancel(call->inner);
    }
    capi_poke(s.ctx);
    if (!mine)
        capi_call_discard(call);
    capi_leave(&s);
}

/* --- all at once ---------------------------------------------------------------------------------------- */

char *capi_call_finish(capi_call *call, abx_error **err)
{
    char *result = NULL;
    capi_event event = {0};
    while (call && event.kind != CAPI_END && capi_call_next(call, &event, -1) >= 0)
        if (event.kind == CAPI_END && !event.error)
            result = abx_strndup(event.data, event.length);
    if (event.error)
        abx_error_take(err, abx_error_copy(event.error));
    capi_call_free(call);
    return result;
}

char *capi_provider_call(capi_provider *p, const char *method, const char *params,
                         int64_t timeout_ms, abx_error **err)
{
    return capi_call_finish(capi_call_start(p, method, params, timeout_ms, NULL, NULL, err), err);
}
