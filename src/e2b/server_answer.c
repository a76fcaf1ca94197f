#include "e2b/server_inner.h"

#include <stdio.h>
#include <string.h>

#include "wire/envelope.h"

typedef struct code_row {
    const char *name;
    int status;
} code_row;

static const code_row CODES[] = {
    [ABX_E2B_CODE_CANCELED] = {"canceled", 499},
    [ABX_E2B_CODE_UNKNOWN] = {"unknown", 500},
    [ABX_E2B_CODE_INVALID_ARGUMENT] = {"invalid_argument", 400},
    [ABX_E2B_CODE_DEADLINE_EXCEEDED] = {"deadline_exceeded", 504},
    [ABX_E2B_CODE_NOT_FOUND] = {"not_found", 404},
    [ABX_E2B_CODE_ALREADY_EXISTS] = {"already_exists", 409},
    [ABX_E2B_CODE_PERMISSION_DENIED] = {"permission_denied", 403},
    [ABX_E2B_CODE_RESOURCE_EXHAUSTED] = {"resource_exhausted", 429},
    [ABX_E2B_CODE_FAILED_PRECONDITION] = {"failed_precondition", 400},
    [ABX_E2B_CODE_ABORTED] = {"aborted", 409},
    [ABX_E2B_CODE_OUT_OF_RANGE] = {"out_of_range", 400},
    [ABX_E2B_CODE_UNIMPLEMENTED] = {"unimplemented", 501},
    [ABX_E2B_CODE_INTERNAL] = {"internal", 500},
    [ABX_E2B_CODE_UNAVAILABLE] = {"unavailable", 503},
    [ABX_E2B_CODE_DATA_LOSS] = {"data_loss", 500},
    [ABX_E2B_CODE_UNAUTHENTICATED] = {"unauthenticated", 401},
};

int abx__code_status(abx_e2b_code code)
{
    return CODES[code].status;
}

const char *abx__code_name(abx_e2b_code code)
{
    return CODES[code].name;
}

void abx_e2b_fault_set(abx_e2b_fault *f, int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    f->status = status;
    (void)vsnprintf(f->text, sizeof(f->text), fmt, ap);
    va_end(ap);
    f->text[abx_utf8_whole(f->text, strlen(f->text))] = 0;
}

/* A text that holds what a client sent may be long; one that holds a path of the sandbox may be no UTF-8, and must not
 * break the JSON around it. */
enum { MAX_TEXT = 8 * 1024, MAX_ERROR = 512 * 1024 };

static void put_text(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key, const char *text)
{
    size_t n = strlen(text);
    if (n > MAX_TEXT)
        n = abx_utf8_whole(text, MAX_TEXT);
    ABX_AUTO_FREE char *cut = abx_strndup(text, n);
    ABX_AUTO_FREE char *printable = abx_utf8_valid(cut, n) ? NULL : abx_printable(cut);
    abx_mut_str(d, obj, key, printable ? printable : cut);
}

char *abx__shown(const char *text)
{
    return abx_utf8_valid(text, strlen(text)) ? abx_strdup(text) : abx_printable(text);
}

static void add_error(abx_buf *out, abx_e2b_code code, const char *text, bool framed)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *e = framed ? abx_mut_obj(d, root, "error") : root;
    abx_mut_str(d, e, "code", abx__code_name(code));
    put_text(d, e, "message", text);
    ABX_CHECK(abx_json_write_mut(root, out) == 0);
}

void abx__reply_status(abx_exchange *x, int status, const char *text)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_int(d, root, "code", status);
    put_text(d, root, "message", text);
    ABX_AUTO_BUF body = ABX_BUF(MAX_ERROR);
    ABX_CHECK(abx_json_write_mut(root, &body) == 0 && abx_buf_add_byte(&body, '\n') == 0);
    abx__lines l;
    abx__lines_init(&l, x, true);
    abx__lines_add(&l, "Content-Type: application/json; charset=utf-8");
    abx__lines_add(&l, "X-Content-Type-Options: nosniff");
    abx_exchange_reply_with(x, status, l.items, l.count, body.data, body.len);
}

void abx__reply_fault(abx_exchange *x, const abx_e2b_fault *f)
{
    abx__reply_status(x, f->status, f->text);
}

void abx__reply_unary_error(abx_exchange *x, abx_e2b_code code, const char *text)
{
    ABX_AUTO_BUF body = ABX_BUF(MAX_ERROR);
    add_error(&body, code, text, false);
    abx__lines l;
    abx__lines_init(&l, x, true);
    abx__lines_add(&l, "Content-Type: application/json");
    abx_exchange_reply_with(x, abx__code_status(code), l.items, l.count, body.data, body.len);
}

void abx__call_done(abx_e2b_call *c)
{
    c->live = false;
    c->on = NULL;
    c->seat.answered = true;
    abx__clock_stop(c);
}

/* --- heads ----------------------------------------------------------------------------------------- */
static void stream_head(abx_e2b_call *c)
{
    if (c->head_sent)
        return;
    c->head_sent = true;
    abx__lines l;
    abx__lines_init(&l, c->x, true);
    abx__lines_add(&l, c->codec == ABX_E2B_JSON ? "Content-Type: application/connect+json"
                                                : "Content-Type: application/connect+proto");
    abx__lines_add(&l, "Connect-Accept-Encoding: gzip");
    abx_exchange_head(c->x, 200, l.items, l.count, -1);
}

static void unary_lines(const abx_e2b_call *c, abx__lines *l)
{
    abx__lines_init(l, c->x, true);
    if (c->codec == ABX_E2B_PROTO)
        abx__lines_add(l, "Content-Type: application/proto");
    else if (c->charset)
        abx__lines_add(l, "Content-Type: application/json; charset=utf-8");
    else
        abx__lines_add(l, "Content-Type: application/json");
    abx__lines_add(l, "Accept-Encoding: gzip");
}

/* Memory of a huge message is not kept. */
static void out_reset(abx_e2b_server *s)
{
    size_t most = s->http ? (size_t)128 * 1024 : (size_t)16 * 1024; /* there may be many guests */
    if (s->out.cap > most)
        abx_buf_clear(&s->out);
    else
        abx_buf_reset(&s->out);
}

static int put_envelope(abx_e2b_call *c, uint8_t flags, const void *bytes, size_t n)
{
    uint8_t head[ABX_ENVELOPE_HEAD];
    abx_envelope_head(head, flags, (uint32_t)n);
    abx_buf *out = &c->server->out;
    out_reset(c->server);
    ABX_CHECK(abx_buf_add(out, head, sizeof(head)) == 0 && abx_buf_add(out, bytes, n) == 0);
    return abx_exchange_write(c->x, out->data, out->len);
}

static void put_stream_end(abx_e2b_call *c, const abx_buf *error)
{
    if (error)
        (void)put_envelope(c, 2, error->data, error->len);
    else
        (void)put_envelope(c, 2, "{}", 2);
    abx_exchange_end(c->x);
}

/* --- answers ----------------------------------------------------------------------------------------- */
void abx__fail_text(abx_e2b_call *c, abx_e2b_code code, const char *text)
{
    if (!c->live || !c->x)
        return;
    ABX_AUTO_BUF body = ABX_BUF(MAX_ERROR);
    if (c->is_stream) {
        add_error(&body, code, text, true);
        stream_head(c);
        put_stream_end(c, &body);
    } else if (!c->head_sent &&
               (c->route->kind == ABX__KIND_PLAIN || c->route->kind == ABX__KIND_LINES)) {
        abx__reply_status(c->x, abx__code_status(code), text);
    } else if (c->head_sent) { /* in the middle of an answer in parts */
        abx_exchange_abort(c->x);
    } else {
        add_error(&body, code, text, false);
        abx_e2b_codec codec = c->codec;
        c->codec = ABX_E2B_JSON;
        abx__lines l;
        unary_lines(c, &l);
        c->codec = codec;
        abx_exchange_reply_with(c->x, abx__code_status(code), l.items, l.count, body.data,
                                body.len);
    }
    abx__call_done(c);
}

void abx_e2b_fail(abx_e2b_call *c, abx_e2b_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char text[4096];
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    text[abx_utf8_whole(text, strlen(text))] = 0;
    abx__fail_text(c, code, text);
}

void abx_e2b_break(abx_e2b_call *c)
{
    if (c->live && c->x)
        abx_exchange_abort(c->x);
}

/* As E2B's code interpreter refuses: plain text, or a detail of what does not fit. */
static void refuse_code(abx_e2b_call *c, int status, const char *text)
{
    abx__lines l;
    abx__lines_init(&l, c->x, false);
    if (status != 422) {
        abx__lines_add(&l, "Content-Type: text/plain; charset=utf-8");
        abx_exchange_reply_with(c->x, status, l.items, l.count, text, strlen(text));
        return;
    }
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    put_text(d, root, "detail", text);
    ABX_AUTO_BUF body = ABX_BUF(MAX_ERROR);
    ABX_CHECK(abx_json_write_mut(root, &body) == 0);
    abx__lines_add(&l, "Content-Type: application/json");
    abx_exchange_reply_with(c->x, status, l.items, l.count, body.data, body.len);
}

void abx_e2b_refuse(abx_e2b_call *c, int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char text[4096];
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (!c->live || !c->x)
        return;
    if (c->plane == ABX_E2B_PLANE_CODE)
        refuse_code(c, status, text);
    else
        abx__reply_status(c->x, status, text);
    abx__call_done(c);
}

static void answer_plain(abx_e2b_call *c, yyjson_mut_val *tree)
{
    abx__lines l;
    abx__lines_init(&l, c->x, true);
    if (c->method == ABX_E2B_M_HEALTH && c->plane == ABX_E2B_PLANE_CODE) {
        abx__lines_add(&l, "Content-Type: application/json");
        abx_exchange_reply_with(c->x, 200, l.items, l.count, "\"OK\"", 4);
        return;
    }
    if (c->method == ABX_E2B_M_HEALTH) {
        abx__lines_add(&l, "Cache-Control: no-store");
        abx__lines_add(&l, "Content-Type: ");
        abx_exchange_reply_with(c->x, 204, l.items, l.count, NULL, 0);
        return;
    }
    abx_buf *out = &c->server->out;
    out_reset(c->server);
    if (abx_json_write_mut(tree, out) < 0 || abx_buf_add_byte(out, '\n') < 0) {
        abx__reply_status(c->x, 500, "the answer is no text");
        return;
    }
    if (c->method != ABX_E2B_M_COMPOSE)
        abx__lines_add(&l, "Cache-Control: no-store");
    abx__lines_add(&l, "Content-Type: application/json");
    abx_exchange_reply_with(c->x, 200, l.items, l.count, out->data, out->len);
}

void abx_e2b_answer_status(abx_e2b_call *c, int status, yyjson_mut_val *tree)
{
    if (!c->live || !c->x)
        return;
    ABX_AUTO_BUF body = ABX_BUF(MAX_ERROR);
    ABX_CHECK(abx_json_write_mut(tree, &body) == 0);
    abx__lines l;
    abx__lines_init(&l, c->x, true);
    abx__lines_add(&l, "Content-Type: application/json; charset=utf-8");
    abx_exchange_reply_with(c->x, status, l.items, l.count, body.data, body.len);
    abx__call_done(c);
}

/* Encode into the server's buffer behind `skip` free bytes. */
static int encode(abx_e2b_call *c, yyjson_mut_val *tree, size_t skip, abx_error **err)
{
    abx_buf *out = &c->server->out;
    out_reset(c->server);
    if (skip > 0 && abx_buf_add(out, "\0\0\0\0\0", skip) < 0)
        return -1;
    return abx_e2b_encode_mut((abx_e2b_msg)c->route->out, c->codec, tree, out, err);
}

void abx_e2b_answer(abx_e2b_call *c, yyjson_mut_val *tree)
{
    if (!c->live || !c->x)
        return;
    ABX_AUTO_MUT empty = NULL;
    if (!tree)
        empty = abx_mut_new(&tree);
    if (c->route->kind == ABX__KIND_PLAIN) {
        answer_plain(c, tree);
        abx__call_done(c);
        return;
    }
    ABX_AUTO_ERROR err = NULL;
    abx_buf *out = &c->server->out;
    if (encode(c, tree, c->is_stream ? 5 : 0, &err) < 0) {
        abx__fail_text(c, ABX_E2B_CODE_INTERNAL, abx_error_text(err));
        return;
    }
    if (c->is_stream) {
        abx_envelope_head(out->data, 0, (uint32_t)(out->len - ABX_ENVELOPE_HEAD));
        stream_head(c);
        (void)abx_exchange_write(c->x, out->data, out->len);
        put_stream_end(c, NULL);
    } else {
        abx__lines l;
        unary_lines(c, &l);
        abx_exchange_reply_with(c->x, 200, l.items, l.count, out->data, out->len);
    }
    abx__call_done(c);
}

/* --- answers in parts ---------------------------------------------------------------------------------- */
static int flush_parts(abx_e2b_call *c)
{
    if (!c->head_sent) {
        abx__lines l;
        unary_lines(c, &l);
        abx_exchange_head(c->x, 200, l.items, l.count, -1);
        c->head_sent = true;
    }
    int rc = abx_exchange_write(c->x, c->parts.data, c->parts.len);
    abx_buf_reset(&c->parts);
    return rc;
}

int abx_e2b_part(abx_e2b_call *c, yyjson_mut_val *tree)
{
    if (!c->live || !c->x)
        return 1;
    ABX_AUTO_ERROR err = NULL;
    if (encode(c, tree, 0, &err) < 0) {
        abx_exchange_abort(c->x); /* on_close will tell the filling */
        return 1;
    }
    const abx_buf *out = &c->server->out;
    const uint8_t *from = out->data;
    size_t n = out->len;
    if (c->codec == ABX_E2B_JSON) { /* {"name":[ITEM]}: the first part opens, the others go on */
        const uint8_t *bracket = memchr(from, '[', n);
        if (!bracket)
            return 1;
        if (c->part_count > 0) {
            n -= (size_t)(bracket + 1 - from);
            from = bracket + 1;
            ABX_CHECK(abx_buf_add_byte(&c->parts, ',') == 0);
        }
        n -= 2;
    }
    c->part_count++;
    ABX_CHECK(abx_buf_add(&c->parts, from, n) == 0);
    return c->parts.len < (size_t)32 * 1024 ? 1 : flush_parts(c);
}

void abx_e2b_parts_end(abx_e2b_call *c)
{
    if (!c->live || !c->x)
        return;
    if (c->part_count == 0) {
        abx_e2b_answer(c, NULL);
        return;
    }
    if (c->codec == ABX_E2B_JSON)
        ABX_CHECK(abx_buf_add(&c->parts, "]}", 2) == 0);
    if (c->head_sent) {
        (void)flush_parts(c);
        abx_exchange_end(c->x);
    } else {
        abx__lines l;
        unary_lines(c, &l);
        abx_exchange_reply_with(c->x, 200, l.items, l.count, c->parts.data, c->parts.len);
    }
    abx__call_done(c);
}

/* --- streams ------------------------------------------------------------------------------------------ */
int abx_e2b_send(abx_e2b_call *c, yyjson_mut_val *tree)
{
    if (!c->live || !c->x)
        return 1;
    ABX_AUTO_ERROR err = NULL;
    if (encode(c, tree, 5, &err) < 0) {
        abx_exchange_abort(c->x); /* on_close will tell the filling */
        return 1;
    }
    abx_buf *out = &c->server->out;
    abx_envelope_head(out->data, 0, (uint32_t)(out->len - ABX_ENVELOPE_HEAD));
    stream_head(c);
    c->last_ms = uv_now(c->server->loop);
    return abx_exchange_write(c->x, out->data, out->len);
}

int abx_e2b_send_data(abx_e2b_call *c, abx_e2b_channel channel, const void *bytes, size_t n)
{
    if (!c->live || !c->x)
        return 1;
    abx_buf *out = &c->server->out;
    out_reset(c->server);
    ABX_CHECK(abx_e2b_put_data_event(c->codec, channel, bytes, n, out) == 0);
    stream_head(c);
    c->last_ms = uv_now(c->server->loop);
    return abx_exchange_write(c->x, out->data, out->len);
}

static void lines_head(abx_e2b_call *c)
{
    if (c->head_sent)
        return;
    c->head_sent = true;
    abx__lines l;
    abx__lines_init(&l, c->x, true);
    abx__lines_add(&l, "Content-Type: application/x-ndjson");
    abx__lines_add(&l, "Cache-Control: no-store");
    abx_exchange_head(c->x, 200, l.items, l.count, -1);
}

int abx_e2b_send_lines(abx_e2b_call *c, const void *bytes, size_t n)
{
    if (!c->live || !c->x || n == 0)
        return 1;
    lines_head(c);
    c->last_ms = uv_now(c->server->loop);
    c->in_line = ((const char *)bytes)[n - 1] != '\n';
    return abx_exchange_write(c->x, bytes, n);
}

void abx__send_keepalive(abx_e2b_call *c)
{
    static const char line[] = "{\"type\":\"keepalive\"}\n";
    if (c->route->kind == ABX__KIND_LINES) {
        if (!c->in_line)
            (void)abx_e2b_send_lines(c, line, sizeof(line) - 1);
        return;
    }
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *at = c->method == ABX_E2B_M_WATCH_DIR ? root : abx_mut_obj(d, root, "event");
    (void)abx_mut_obj(d, at, "keepalive");
    (void)abx_e2b_send(c, root);
}

void abx_e2b_end(abx_e2b_call *c)
{
    if (!c->live || !c->x)
        return;
    if (c->route->kind == ABX__KIND_LINES) {
        lines_head(c);
        abx_exchange_end(c->x);
    } else {
        stream_head(c);
        put_stream_end(c, NULL);
    }
    abx__call_done(c);
}
