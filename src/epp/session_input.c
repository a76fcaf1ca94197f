/* Bytes that go in: stream.write and stream.end. */
#include <string.h>

#include "base/mem.h"
#include "epp/message.h"
#include "epp/session_inner.h"

#define PIECE_RAW  ((size_t)256 * 1024)
#define PIECE_TEXT ((size_t)64 * 1024)

static bool takes_input(const pending *p)
{
    abx_style style = p->row->style;
    return (style == ABX_STYLE_BODY_IN || style == ABX_STYLE_DUPLEX) && p->call && !p->cancelled &&
           !p->answered;
}

static void send_write(pending *p, const void *bytes, size_t n)
{
    abx_epp_session *s = p->s;
    pending *w = epp_pending_new(s, PENDING_WRITE);
    w->stream = p->id;
    w->bytes = n;
    p->unanswered += n;
    abx_epp_bytes m = {.id = w->id,
                       .stream = p->id,
                       .method = "stream.write",
                       .raw = s->raw,
                       .bytes = bytes,
                       .n = n};
    abx_epp_put_bytes(&m, &s->out);
    epp_flush(s);
}

/* A piece of the input; last: nothing follows it. */
static void send_piece(pending *p, const void *bytes, size_t n, bool last)
{
    if (p->s->raw) {
        if (n > 0)
            send_write(p, bytes, n);
        return;
    }
    ABX_AUTO_BUF whole = ABX_BUF(PIECE_TEXT + sizeof p->tail.bytes);
    if (abx_utf8_tail_join(&p->tail, bytes, n, last, &whole))
        send_write(p, whole.data, whole.len);
}

static void send_end(pending *p)
{
    abx_epp_session *s = p->s;
    send_piece(p, NULL, 0, true);
    p->end_sent = true;
    pending *w = epp_pending_new(s, PENDING_WRITE);
    w->stream = p->id;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_epp_message(w->id, "stream.end", &root);
    abx_mut_int(d, abx_mut_obj(d, root, "params"), "stream", (int64_t)p->id);
    ABX_CHECK(abx_epp_put(d, &s->out) == 0);
    epp_flush(s);
}

/* Send what the answers allow. */
static void pump(pending *p)
{
    size_t most = p->s->raw ? PIECE_RAW : PIECE_TEXT;
    while (p->input_at < p->input.len) {
        size_t left = p->input.len - p->input_at, n = left < most ? left : most;
        if (p->unanswered > 0 && p->unanswered + n > ABX_EPP_WINDOW)
            return;
        send_piece(p, p->input.data + p->input_at, n, false);
        p->input_at += n;
    }
    if (p->input.cap > ABX_EPP_WINDOW)
        abx_buf_clear(&p->input);
    else
        abx_buf_reset(&p->input);
    p->input_at = 0;
    if (p->input_over && !p->end_sent)
        send_end(p);
}

int epp_on_input(abx_call *c, const uint8_t *bytes, size_t n, void *state)
{
    (void)c;
    pending *p = state;
    if (!takes_input(p))
        return 1;
    ABX_CHECK(abx_buf_add(&p->input, bytes, n) == 0);
    pump(p);
    p->input_held = p->input.len > 0 || p->unanswered >= ABX_EPP_WINDOW;
    return !p->input_held;
}

void epp_on_input_end(abx_call *c, void *state)
{
    (void)c;
    pending *p = state;
    if (!takes_input(p))
        return;
    p->input_over = true;
    pump(p);
}

void epp_write_answered(abx_epp_session *s, const pending *write, yyjson_val *error)
{
    pending *p = epp_find(s, write->stream);
    if (!p || p->kind != PENDING_CALL)
        return;
    p->unanswered -= write->bytes;
    if (!takes_input(p))
        return;
    if (error) {
        epp_give_up(p, epp_read_error(s, error, p->row->method));
        return;
    }
    pump(p);
    if (p->input_held && p->input.len == 0 && p->unanswered < ABX_EPP_WINDOW) {
        p->input_held = false;
        abx_call_want_input(p->call);
    }
}
