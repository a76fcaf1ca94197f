/* A call as server-sent events. */
#include "doors/engine/stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "wire/bytes_json.h"
#include "wire/chunk_json.h"

typedef struct stream {
    engine_beat beat;
    engine_request *request; /* its x is NULL when the client is gone */
    abx_call *call;          /* NULL: over */
    bool began;              /* the head is out */
    bool process;            /* ids count bytes; else they count events */
    bool background;         /* answered with the process alone */
    bool ended;              /* its last event is out */
    bool cut;                /* the engine ends: nothing of the call goes out any more */
    engine_place place;      /* what was delivered */
    uint64_t number;         /* events sent */
    abx_utf8_tail tails[ABX_CH_COUNT];
} stream;

static void stream_free(stream *s)
{
    engine_beat_stop(&s->beat);
    engine_request_end(s->request);
    free(s);
}

/* --- what goes out ------------------------------------------------------------------------------------------ */
static void begin(stream *s)
{
    if (s->began)
        return;
    s->began = true;
    s->request->status = 200;
    abx_sse_start(s->request->x);
}

static abx_buf *event_head(stream *s, const char *type)
{
    abx_buf *out = engine_streams_scratch(s->request->engine->streams);
    char text[48];
    const char *id = text;
    if (s->process)
        id = engine_place_text(&s->place, text);
    else
        snprintf(text, sizeof text, "%" PRIu64, ++s->number);
    ABX_CHECK(abx_buf_addf(out, "event: %s\n%s%s%sdata: ", type, id ? "id: " : "", id ? id : "",
                           id ? "\n" : "") == 0);
    return out;
}

static void put_out(stream *s, abx_buf *out)
{
    ABX_CHECK(abx_buf_add(out, "\n\n", 2) == 0);
    begin(s);
    engine_beat_sent(&s->beat);
    if (!abx_exchange_write(s->request->x, out->data, out->len) && s->call)
        abx_call_pause(s->call);
}

static void send_bytes(stream *s, abx_channel channel, const uint8_t *bytes, size_t n, bool text)
{
    const char *type = abx_channel_name(channel);
    s->place.at[channel] += n;
    abx_buf *out = event_head(s, type);
    ABX_CHECK(abx_chunk_json(out, type, bytes, n, text) == 0);
    put_out(s, out);
}

/* What stands at the end of a channel was no character after all. */
static void send_tails(stream *s)
{
    for (abx_channel c = 0; c < ABX_CH_COUNT; c++) {
        size_t n = s->tails[c].len;
        s->tails[c].len = 0;
        if (n > 0)
            send_bytes(s, c, s->tails[c].bytes, n, false);
    }
}

static void send_object(stream *s, const char *type, yyjson_mut_val *object)
{
    abx_buf *out = event_head(s, type);
    ABX_CHECK(abx_json_write_mut(object, out) == 0);
    put_out(s, out);
}

static void send_event(stream *s, const char *type, yyjson_val *event)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "type", type);
    yyjson_obj_iter members = yyjson_obj_iter_with(event);
    for (yyjson_val *k; (k = yyjson_obj_iter_next(&members));)
        if (strcmp(yyjson_get_str(k), "type") != 0)
            abx_mut_val(d, root, yyjson_get_str(k), yyjson_obj_iter_get_val(k));
    send_object(s, type, root);
}

static void send_error(stream *s, const abx_error *err)
{
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = engine_error_body(d, s->request->session, err);
    abx_mut_str(d, root, "type", "error");
    send_object(s, "error", root);
}

/* --- what comes from the call --------------------------------------------------------------------------------- */
static void count_gap(stream *s, yyjson_val *gap)
{
    const char *name = abx_json_str(gap, "stream", "");
    for (abx_channel c = ABX_CH_STDOUT; c <= ABX_CH_PTY; c++)
        if (strcmp(name, abx_channel_name(c)) == 0)
            s->place.at[c] += (uint64_t)abx_json_int(gap, "bytes", 0);
}

static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    (void)c;
    stream *s = data;
    if (!s->request->x || s->background || s->cut)
        return;
    if (s->process && strcmp(type, "started") == 0 && abx_json_get(event, "offsets"))
        engine_place_offsets(&s->place, abx_json_get(event, "offsets"));
    if (s->process && strcmp(type, "gap") == 0)
        count_gap(s, event);
    if (s->process && strcmp(type, "exit") == 0) {
        send_tails(s);
        s->ended = true;
    }
    send_event(s, type, event);
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    (void)c;
    stream *s = data;
    if (!s->request->x || s->background || s->cut || n == 0)
        return;
    s->place.tty = s->place.tty || channel == ABX_CH_PTY;
    abx_utf8_tail *tail = &s->tails[channel];
    ABX_AUTO_BUF joined = ABX_BUF(SIZE_MAX);
    if (tail->len > 0) {
        ABX_CHECK(abx_buf_add(&joined, tail->bytes, tail->len) == 0 &&
                  abx_buf_add(&joined, bytes, n) == 0);
        tail->len = 0;
        bytes = joined.data;
        n = joined.len;
    }
    size_t whole = abx_utf8_whole(bytes, n);
    if (!abx_utf8_valid(bytes, whole) || n - whole > sizeof tail->bytes) {
        send_bytes(s, channel, bytes, n, false);
        return;
    }
    tail->len = n - whole;
    memcpy(tail->bytes, bytes + whole, tail->len);
    if (whole > 0)
        send_bytes(s, channel, bytes, whole, true);
}

/* Nothing is out yet: an answer as any other. */
static void answer(stream *s, yyjson_val *result, const abx_error *err)
{
    if (err) {
        engine_fail(s->request, err);
        return;
    }
    s->request->status = 201;
    engine_answer(s->request->x, 201, result);
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    stream *s = data;
    s->call = NULL;
    if (!s->request->x) {
        stream_free(s);
        return;
    }
    engine_beat_stop(&s->beat);
    if (s->cut)
        return; /* its exchange ends already */
    if (!s->began && (err || s->background)) {
        answer(s, result, err);
        return;
    }
    send_tails(s);
    if (err)
        send_error(s, err);
    else if (!s->ended)
        send_event(s, "end", result);
    abx_exchange_end(s->request->x);
}

/* The engine ends. The call goes on until the exchange closes. */
static void last_words(engine_request *r, const abx_error *why)
{
    stream *s = r->handler;
    if (s->ended || s->cut || !s->call)
        return;
    s->cut = true;
    engine_beat_stop(&s->beat);
    if (!s->began) {
        engine_fail(r, why);
        return;
    }
    send_tails(s);
    send_error(s, why);
    abx_exchange_end(r->x);
}

/* --- the client ------------------------------------------------------------------------------------------------- */
static void on_writable(abx_exchange *x, void *data)
{
    (void)x;
    const stream *s = data;
    if (s->call)
        abx_call_resume(s->call);
}

static void on_close(abx_exchange *x, bool complete, void *data)
{
    (void)x;
    (void)complete;
    stream *s = data;
    s->request->x = NULL;
    engine_beat_stop(&s->beat);
    if (s->call)
        abx_call_cancel(s->call);
    else
        stream_free(s);
}

static void comment(stream *s)
{
    if (!s->request->x || !s->call || s->background)
        return;
    begin(s);
    engine_beat_sent(&s->beat);
    if (abx_exchange_pending(s->request->x) == 0)
        (void)abx_sse_comment(s->request->x, "");
}

/* One that is gone answers bytes with a reset; for that the head is not held back. */
static void on_peer_eof(abx_exchange *x, void *data)
{
    (void)x;
    comment(data);
}

static void on_silence(engine_beat *beat)
{
    comment(ABX_OF(beat, stream, beat));
}

/* Where it follows from; -1: refused. */
static int read_place(stream *s, abx_op_id op, abx_error **err)
{
    engine_request *r = s->request;
    if (op == ABX_OP_PROCESS_START)
        s->place.known = true;
    if (op != ABX_OP_PROCESS_ATTACH)
        return 0;
    if (engine_place_read(r->x, &s->place, err) < 0)
        return -1;
    yyjson_mut_val *offset = yyjson_mut_obj_get(r->root, "fromOffset");
    ABX_AUTO_JSON given = offset ? yyjson_mut_val_imut_copy(offset, NULL) : NULL;
    if (given && s->place.known)
        return abx_fail(err, ABX_ERR_USAGE, "'fromOffset' and 'from' say the same twice");
    if (given)
        engine_place_offsets(&s->place, yyjson_doc_get_root(given));
    else if (s->place.known)
        engine_place_put(&s->place, r->params, r->root);
    return 0;
}

void engine_stream(engine_request *r)
{
    static const abx_call_handlers on = {
        .on_event = on_event, .on_chunk = on_chunk, .on_end = on_end};
    static const abx_exchange_handlers client = {
        .on_writable = on_writable, .on_close = on_close, .on_peer_eof = on_peer_eof};
    abx_op_id op = r->row->id;
    ABX_AUTO_ERROR err = NULL;
    stream *s = ABX_NEW(stream);
    s->request = r;
    r->handler = s;
    r->last_words = last_words;
    s->process = op == ABX_OP_PROCESS_START || op == ABX_OP_PROCESS_ATTACH;
    s->background = op == ABX_OP_PROCESS_START &&
                    yyjson_mut_get_bool(yyjson_mut_obj_get(r->root, "background"));
    abx_exchange_handle(r->x, &client, s);
    if (read_place(s, op, &err) < 0) {
        engine_fail(r, err);
        return;
    }
    s->call = engine_request_start(r, &on, s);
    if (s->call)
        engine_beat_start(r->engine->streams, &s->beat, on_silence);
}
