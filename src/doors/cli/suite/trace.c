#include "doors/cli/suite/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "doors/cli/suite/bytes.h"
#include "doors/cli/suite/match.h"

#define INPUT_BLOCK ((size_t)64 * 1024)
#define ORDER_MAX   (1024 * 1024)

static yyjson_mut_val *events_of(const abx_trace *t)
{
    return yyjson_mut_doc_get_root(t->_events);
}

/* A kind that is the same as the last one is not added again. */
static void note_order(abx_trace *t, const char *kind)
{
    const char *have = abx_buf_cstr(&t->_order), *last = strrchr(have, ' ');
    if (strcmp(last ? last + 1 : have, kind) == 0)
        return;
    if (abx_buf_addf(&t->_order, "%s%s", t->_order.len ? " " : "", kind) < 0)
        t->overflow = true;
}

static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    (void)c;
    abx_trace *t = data;
    yyjson_mut_val *copy = yyjson_val_mut_copy(t->_events, event);
    if (!yyjson_mut_obj_get(copy, "type"))
        abx_mut_str(t->_events, copy, "type", type);
    yyjson_mut_arr_append(events_of(t), copy);
    note_order(t, type);
    t->_changed(t->_data);
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    abx_trace *t = data;
    note_order(t, abx_channel_name(channel));
    if (abx_buf_add(&t->_out[channel], bytes, n) < 0) {
        t->overflow = true;
        abx_call_cancel(c);
    }
    t->_changed(t->_data);
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    abx_trace *t = data;
    t->_call = NULL;
    t->ended = true;
    if (err)
        t->err = abx_error_copy(err);
    else
        t->result = abx_json_copy(result);
    t->_changed(t->_data);
}

static void send_input(abx_trace *t)
{
    while (t->_call && !t->_held && t->_sent < t->_input.len) {
        size_t n = t->_input.len - t->_sent;
        n = n < INPUT_BLOCK ? n : INPUT_BLOCK;
        size_t at = t->_sent;
        t->_sent += n;
        t->_held = abx_call_write(t->_call, t->_input.data + at, n) == 0;
    }
    if (t->_call && t->_sent == t->_input.len) {
        abx_buf_reset(&t->_input);
        t->_sent = 0;
        if (t->_input_ends)
            abx_call_write_end(t->_call);
    }
}

static void on_writable(abx_call *c, void *data)
{
    (void)c;
    abx_trace *t = data;
    t->_held = false;
    send_input(t);
}

static abx_trace *new_trace(const abx_trace_options *options)
{
    abx_trace *t = ABX_NEW(abx_trace);
    t->name = abx_strdup(options->name);
    t->op = abx_op_find(options->method);
    t->_changed = options->changed;
    t->_data = options->data;
    t->_events = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(t->_events, yyjson_mut_arr(t->_events));
    abx_buf_init(&t->_order, ORDER_MAX);
    abx_buf_init(&t->_input, ABX_SUITE_BYTES_MAX);
    for (size_t i = 0; i < ABX_CH_COUNT; i++)
        abx_buf_init(&t->_out[i], ABX_SUITE_BYTES_MAX);
    return t;
}

abx_trace *abx_trace_start(abx_host *host, uv_loop_t *loop, const char *provider,
                           const abx_trace_options *options)
{
    static const abx_call_handlers handlers = {
        .on_event = on_event, .on_chunk = on_chunk, .on_writable = on_writable, .on_end = on_end};
    abx_trace *t = new_trace(options);
    if (!t->op) {
        t->ended = true;
        t->err = abx_error_new(ABX_ERR_USAGE, "there is no operation '%s'", options->method);
        return t;
    }
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT params = abx_mut_new(&root);
    if (options->params)
        yyjson_mut_doc_set_root(params, yyjson_mut_val_mut_copy(params, options->params));
    t->params = abx_json_freeze(params);
    t->_call = abx_call_new(loop, t->op->id, abx_json_freeze(params), &handlers, t);
    abx_call_set_deadline(t->_call, options->deadline_ms);
    if (options->paused)
        abx_call_pause(t->_call);
    if (abx_host_start_at(host, provider, t->_call, &t->err) < 0) {
        abx_call_discard(t->_call);
        t->_call = NULL;
        t->ended = true;
    }
    return t;
}

void abx_trace_free(abx_trace *t)
{
    if (!t)
        return;
    ABX_CHECK(t->_call == NULL);
    free(t->name);
    yyjson_doc_free(t->params);
    yyjson_doc_free(t->result);
    abx_error_free(t->err);
    yyjson_mut_doc_free(t->_events);
    abx_buf_clear(&t->_order);
    abx_buf_clear(&t->_input);
    for (size_t i = 0; i < ABX_CH_COUNT; i++)
        abx_buf_clear(&t->_out[i]);
    free(t);
}

void abx_trace_feed(abx_trace *t, const void *bytes, size_t n, bool ends)
{
    if (abx_buf_add(&t->_input, bytes, n) < 0)
        t->overflow = true;
    t->_input_ends = t->_input_ends || ends;
    send_input(t);
}

void abx_trace_cancel(abx_trace *t)
{
    if (t->_call)
        abx_call_cancel(t->_call);
}

void abx_trace_pause(abx_trace *t)
{
    if (t->_call)
        abx_call_pause(t->_call);
}

void abx_trace_resume(abx_trace *t)
{
    if (t->_call)
        abx_call_resume(t->_call);
}

/* --- what came, against what is expected ------------------------------------------------------------------ */

static bool channel_fits(const abx_trace *t, abx_channel channel, yyjson_val *expect, char **why)
{
    yyjson_val *want = yyjson_obj_get(expect, abx_channel_name(channel));
    ABX_AUTO_FREE char *difference = NULL;
    if (!want ||
        abx_suite_bytes_fit(want, t->_out[channel].data, t->_out[channel].len, &difference))
        return true;
    *why = abx_format("%s: %s", abx_channel_name(channel), difference);
    return false;
}

/* The events that are expected, in their order, with others between them. */
static bool events_have(yyjson_val *wants, yyjson_val *events, char **why)
{
    size_t at = 0, i, n;
    yyjson_val *want;
    yyjson_arr_foreach(wants, i, n, want)
    {
        bool found = false;
        while (!found && at < yyjson_arr_size(events)) {
            ABX_AUTO_FREE char *not_this = NULL;
            found = abx_suite_fits(want, yyjson_arr_get(events, at++), "event", &not_this);
        }
        if (!found) {
            ABX_AUTO_FREE char *text = abx_json_text(want);
            ABX_AUTO_FREE char *all = abx_json_text(events);
            *why = abx_format("events: no %s where it should be in %.500s", text, all);
            return false;
        }
    }
    return true;
}

static bool order_fits(const abx_trace *t, yyjson_val *want, char **why)
{
    ABX_AUTO_BUF text = ABX_BUF(ORDER_MAX);
    size_t i, n;
    yyjson_val *kind;
    yyjson_arr_foreach(want, i, n, kind)
    {
        const char *word = yyjson_get_str(kind);
        ABX_CHECK(abx_buf_addf(&text, "%s%s", i ? " " : "", word ? word : "?") == 0);
    }
    if (strcmp(abx_buf_cstr(&text), abx_buf_cstr(&t->_order)) == 0)
        return true;
    *why =
        abx_format("order: wanted %s, got %.300s", abx_buf_cstr(&text), abx_buf_cstr(&t->_order));
    return false;
}

static bool end_fits(const abx_trace *t, yyjson_val *expect, char **why)
{
    yyjson_val *want = yyjson_obj_get(expect, "error");
    if (t->overflow) {
        *why = abx_strdup("more came than the suite keeps");
        return false;
    }
    if (t->err && !want) {
        *why = abx_format("failed: %s (%s)", abx_error_text(t->err), abx_error_code(t->err));
        return false;
    }
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    ABX_AUTO_JSON error = t->err ? yyjson_mut_val_imut_copy(abx_error_json(d, t->err), NULL) : NULL;
    if (want && !abx_suite_fits(want, yyjson_doc_get_root(error), "error", why))
        return false;
    want = yyjson_obj_get(expect, "result");
    return !want || abx_suite_fits(want, yyjson_doc_get_root(t->result), "result", why);
}

bool abx_trace_fits(const abx_trace *t, yyjson_val *expect, char **why)
{
    if (!end_fits(t, expect, why))
        return false;
    for (int c = 0; c < ABX_CH_COUNT; c++)
        if (!channel_fits(t, (abx_channel)c, expect, why))
            return false;
    ABX_AUTO_JSON events = yyjson_mut_val_imut_copy(events_of(t), NULL);
    yyjson_val *all = yyjson_doc_get_root(events), *want = yyjson_obj_get(expect, "events");
    if (want && !abx_suite_fits(want, all, "events", why))
        return false;
    want = yyjson_obj_get(expect, "eventsHave");
    if (want && !events_have(want, all, why))
        return false;
    want = yyjson_obj_get(expect, "order");
    return !want || order_fits(t, want, why);
}

bool abx_trace_has(const abx_trace *t, yyjson_val *expect, yyjson_doc **event, char **why)
{
    yyjson_val *want = yyjson_obj_get(expect, "event");
    for (int c = 0; c < ABX_CH_COUNT; c++)
        if (!channel_fits(t, (abx_channel)c, expect, why))
            return false;
    if (!want)
        return true;
    ABX_AUTO_JSON events = yyjson_mut_val_imut_copy(events_of(t), NULL);
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(yyjson_doc_get_root(events), i, n, item)
    {
        ABX_AUTO_FREE char *not_this = NULL;
        if (abx_suite_fits(want, item, "event", &not_this)) {
            *event = abx_json_copy(item);
            return true;
        }
    }
    ABX_AUTO_FREE char *text = abx_json_text(want);
    *why = abx_format("no event like %s came", text);
    return false;
}

yyjson_doc *abx_trace_json(const abx_trace *t)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (t->result)
        abx_mut_val(d, root, "result", yyjson_doc_get_root(t->result));
    if (t->err)
        abx_mut_put(d, root, "error", abx_error_json(d, t->err));
    abx_mut_put(d, root, "events", yyjson_mut_val_mut_copy(d, events_of(t)));
    for (int c = 0; c < ABX_CH_COUNT; c++)
        abx_mut_strn(d, root, abx_channel_name((abx_channel)c), abx_buf_cstr(&t->_out[c]),
                     t->_out[c].len);
    return abx_json_freeze(d);
}
