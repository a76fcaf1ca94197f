/* What a call has sent and nobody has taken yet: the inner call's callbacks put items in, on the loop, the caller takes them out. */
#include <string.h>

#include "base/mem.h"
#include "doors/capi/inner.h"

static capi_item *item_new(int kind, const char *name, const void *data, size_t n)
{
    size_t name_len = name ? strlen(name) + 1 : 0;
    capi_item *item = abx_alloc(sizeof(*item) + n + 1 + name_len);
    item->kind = kind;
    item->length = n;
    if (n > 0)
        memcpy(item->bytes, data, n);
    if (name)
        item->name = memcpy(item->bytes + n + 1, name, name_len);
    return item;
}

void capi_item_free(capi_item *item)
{
    if (!item)
        return;
    abx_error_free(item->error);
    free(item);
}

void capi_item_show(const capi_item *item, capi_event *out)
{
    *out = (capi_event){item->kind, item->name, item->bytes, item->length, item->error};
}

static void put(capi_call *call, capi_item *item)
{
    if (call->freed) {
        capi_item_free(item);
        return;
    }
    if (call->tail)
        call->tail->next = item;
    else
        call->head = item;
    call->tail = item;
    call->waiting += item->length;
    if (call->waiting >= CAPI_WAITING_MAX && !call->paused && call->inner) {
        call->paused = true;
        abx_call_pause(call->inner);
    }
    capi_announce(call);
}

static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    (void)c;
    ABX_AUTO_FREE char *text = abx_json_text(event);
    put(data, item_new(CAPI_EVENT, type, text, strlen(text)));
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    (void)c;
    put(data, item_new(CAPI_CHUNK, abx_channel_name(channel), bytes, n));
}

static void on_writable(abx_call *c, void *data)
{
    (void)c;
    capi_call *call = data;
    call->full = false;
    if (!call->wants_room)
        return;
    call->wants_room = false;
    put(call, item_new(CAPI_WRITABLE, NULL, NULL, 0));
}

static char *error_text(const abx_error *e)
{
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(d, abx_error_json(d, e));
    ABX_AUTO_JSON frozen = abx_json_freeze(d);
    return abx_json_text(yyjson_doc_get_root(frozen));
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    capi_call *call = data;
    ABX_AUTO_FREE char *text = err ? error_text(err) : abx_json_text(result);
    capi_item *item = item_new(CAPI_END, NULL, text, strlen(text));
    item->error = err ? abx_error_copy(err) : NULL;
    call->inner = NULL;
    call->ended = true;
    call->full = false;
    put(call, item);
    if (call->freed && !call->in_callback)
        capi_call_discard(call);
}

const abx_call_handlers capi_call_handlers = {
    .on_event = on_event,
    .on_chunk = on_chunk,
    .on_writable = on_writable,
    .on_end = on_end,
};

capi_item *capi_queue_take(capi_call *call)
{
    capi_item *item = call->head;
    if (!item)
        return NULL;
    call->head = item->next;
    if (!call->head)
        call->tail = NULL;
    call->waiting -= item->length;
    if (item->kind == CAPI_END)
        call->end_given = true;
    if (call->paused && call->inner && call->waiting < CAPI_WAITING_MAX / 2) {
        call->paused = false;
        abx_call_resume(call->inner);
        capi_poke(call->ctx);
    }
    return item;
}

static void unlist(capi_call **first, capi_call **last, capi_call *call)
{
    capi_call *before = NULL;
    for (capi_call *c = *first; c; before = c, c = c->list_next) {
        if (c != call)
            continue;
        if (before)
            before->list_next = c->list_next;
        else
            *first = c->list_next;
        if (*last == c)
            *last = before;
        return;
    }
}

void capi_call_unlist(capi_call *call)
{
    if (!call->listed)
        return;
    call->listed = false;
    if (call->on_event)
        unlist(&call->ctx->to_give, &call->ctx->to_give_last, call);
    else
        unlist(&call->ctx->ready, &call->ctx->ready_last, call);
}

/* The memory, once neither the caller nor the inner call knows it any more. */
void capi_call_discard(capi_call *call)
{
    if (call->inner || call->pins > 0)
        return; /* its end, or who has pinned it, will come here */
    if (call->prev)
        call->prev->next = call->next;
    else
        call->ctx->calls = call->next;
    if (call->next)
        call->next->prev = call->prev;
    free(call);
}
