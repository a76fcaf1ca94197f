/* One call made of several: the way of events, bytes, cancel and the end between them. */
#include <string.h>

#include "base/mem.h"
#include "host/emulate_inner.h"
#include "ops/call_host.h"

void abx__emulation_init(abx__emulation *e, abx_host *host, const char *provider, abx_call *outer)
{
    e->host = host;
    e->provider = abx_strdup(provider);
    e->outer = outer;
    abx_buf_init(&e->output, 0);
}

void abx__emulation_clear(abx__emulation *e)
{
    abx_buf_clear(&e->output);
    free(e->provider);
}

static void let_go(abx__emulation *e)
{
    if (!e->outer && e->pins == 0)
        e->release(e);
}

void abx__emulation_unpin(abx__emulation *e)
{
    e->pins--;
    let_go(e);
}

void abx__emulation_on_cancel(abx_call *c, void *state)
{
    abx__emulation *e = state;
    if (e->inner)
        abx_call_cancel(e->inner);
    else
        abx__emulation_fail(
            e, abx_error_new(ABX_ERR_CANCELLED, "%s: cancelled", abx_call_op(c)->method));
}

void abx__emulation_on_release(abx_call *c, void *state)
{
    abx__emulation *e = state;
    (void)c;
    e->outer = NULL;
    if (e->inner)
        abx_call_cancel(e->inner);
    let_go(e);
}

void abx__emulation_on_resume(abx_call *c, void *state)
{
    abx__emulation *e = state;
    (void)c;
    if (e->inner)
        abx_call_resume(e->inner);
    if (e->on_resume)
        e->on_resume(e);
}

void abx__emulation_accept(abx__emulation *e)
{
    static const abx_call_backend backend = {.on_cancel = abx__emulation_on_cancel,
                                             .on_resume = abx__emulation_on_resume,
                                             .on_release = abx__emulation_on_release};
    abx_call_accept(e->outer, &backend, e);
}

void abx__emulation_end(abx__emulation *e, yyjson_mut_doc *result)
{
    if (!e->outer || e->done) {
        yyjson_mut_doc_free(result);
        return;
    }
    e->done = true;
    abx_call_end(e->outer, result);
}

void abx__emulation_fail(abx__emulation *e, abx_error *err)
{
    if (!e->outer || e->done) {
        abx_error_free(err);
        return;
    }
    e->done = true;
    abx_call_fail(e->outer, err);
}

/* --- inner calls ------------------------------------------------------------------------------------- */

/* What is refused at once is answered as what fails later. */
static void run(abx__emulation *e, abx_call *call)
{
    static const abx_call_backend refused = {0};
    abx_error *why = NULL;
    e->inner = call;
    e->pins++;
    if (abx__host_dispatch(e->host, e->provider, call, &why) == 0)
        return;
    abx_call_refused(call, &why);
    abx_call_accept(call, &refused, NULL);
    abx_call_fail(call, why);
}

static abx_call *make(abx__emulation *e, abx_op_id op, yyjson_mut_doc *params,
                      const abx_call_handlers *handlers)
{
    abx_call *call = abx_call_new(e->host->loop, op, abx_json_freeze(params), handlers, e);
    yyjson_mut_doc_free(params);
    return call;
}

static void on_kept_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n,
                          void *data)
{
    abx__emulation *e = data;
    if (channel != ABX_CH_STDERR && abx_buf_add(&e->output, bytes, n) < 0)
        abx_call_cancel(c);
}

static void on_asked(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    abx__emulation *e = data;
    (void)c;
    e->inner = NULL;
    if (e->outer && !e->done) {
        if (err)
            abx__emulation_fail(e, abx_error_copy(err));
        else if (abx_call_is_cancelled(e->outer))
            abx__emulation_on_cancel(e->outer, e);
        else
            e->on_inner(e, result, &e->output);
    }
    abx__emulation_unpin(e);
}

void abx__emulation_ask(abx__emulation *e, abx_op_id op, yyjson_mut_doc *params, const void *body,
                        size_t n, size_t keep, abx__emulation_cb cb)
{
    static const abx_call_handlers handlers = {.on_chunk = on_kept_chunk, .on_end = on_asked};
    abx_buf_clear(&e->output);
    abx_buf_init(&e->output, keep);
    e->on_inner = cb;
    abx_call *call = make(e, op, params, &handlers);
    if (body)
        (void)abx_call_write(call, body, n); /* waits in the call until it is taken */
    if (abx_op_row_of(op)->style == ABX_STYLE_BODY_IN)
        abx_call_write_end(call);
    run(e, call);
}

/* --- relay --------------------------------------------------------------------------------------------- */
static void hold_if(abx__emulation *e, int goes_on)
{
    if (!goes_on && e->inner)
        abx_call_pause(e->inner);
}

static void on_relay_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    abx__emulation *e = data;
    (void)c;
    if (!e->outer || e->done)
        return;
    if (e->on_event)
        e->on_event(e, type, event);
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(d, yyjson_val_mut_copy(d, event));
    hold_if(e, abx_call_event(e->outer, type, d));
}

static void on_relay_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n,
                           void *data)
{
    abx__emulation *e = data;
    (void)c;
    if (e->outer && !e->done)
        hold_if(e, abx_call_chunk(e->outer, channel, bytes, n));
}

static void on_relay_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    abx__emulation *e = data;
    (void)c;
    e->inner = NULL;
    if (e->on_relay_end)
        e->on_relay_end(e, result);
    if (err) {
        abx__emulation_fail(e, abx_error_copy(err));
    } else {
        yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
        yyjson_mut_doc_set_root(d, yyjson_val_mut_copy(d, result));
        abx__emulation_end(e, d);
    }
    abx__emulation_unpin(e);
}

void abx__emulation_relay(abx__emulation *e, abx_op_id op, yyjson_mut_doc *params)
{
    static const abx_call_handlers handlers = {
        .on_event = on_relay_event, .on_chunk = on_relay_chunk, .on_end = on_relay_end};
    run(e, make(e, op, params, &handlers));
}

void abx__emulation_call(abx__emulation *e, abx_op_id op, yyjson_mut_doc *params,
                         const abx_call_handlers *handlers)
{
    run(e, make(e, op, params, handlers));
}

yyjson_mut_doc *abx__emulation_params(const abx__emulation *e, yyjson_mut_val **root,
                                      const char *const *names)
{
    yyjson_val *params = abx_call_params(e->outer);
    yyjson_mut_doc *d = abx_mut_new(root);
    for (; *names; names++) {
        yyjson_val *v = abx_json_get(params, *names);
        if (v)
            abx_mut_val(d, *root, *names, v);
    }
    return d;
}

char *abx__shell_word(const char *text)
{
    abx_buf out = ABX_BUF(SIZE_MAX / 2);
    ABX_CHECK(abx_buf_add_byte(&out, '\'') == 0);
    for (; *text; text++) {
        int rc =
            *text == '\'' ? abx_buf_add_str(&out, "'\\''") : abx_buf_add_byte(&out, (uint8_t)*text);
        ABX_CHECK(rc == 0);
    }
    ABX_CHECK(abx_buf_add_byte(&out, '\'') == 0);
    return abx_buf_take(&out);
}
