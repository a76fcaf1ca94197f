#include <string.h>

#include "net/http_server_inner.h"

enum { MAX_HEADERS_IN_TRAILER_BYTES = 8 * 1024 };

/* --- what llhttp calls; it pauses at each step, so that handlers run outside of it ---------------- */

static int refuse(abx__conn *c, int status)
{
    c->fail_status = (uint16_t)status;
    return HPE_USER;
}

/* Never by realloc where the old place would keep what it held. */
static void grow(const abx_http_server *s, char **bytes, size_t len, size_t cap)
{
    if (!s->options.wipe) {
        *bytes = abx_realloc(*bytes, cap);
        return;
    }
    char *bigger = abx_alloc(cap);
    if (*bytes) {
        memcpy(bigger, *bytes, len);
        explicit_bzero(*bytes, len);
    }
    free(*bytes);
    *bytes = bigger;
}

static int head_add(abx__conn *c, const char *at, size_t n, size_t limit)
{
    abx_exchange *x = c->x;

    if (x->head_len + n > limit)
        return -1;
    if (x->head_len + n > x->head_cap) {
        size_t cap = x->head_cap ? x->head_cap : 512;
        while (cap < x->head_len + n)
            cap *= 2;
        grow(c->server, &x->head, x->head_len, cap);
        x->head_cap = cap;
    }
    memcpy(x->head + x->head_len, at, n);
    x->head_len += n;
    return 0;
}

/* Trailers come through the same callbacks as headers; they are counted and dropped. */
static int piece(llhttp_t *p, const char *at, size_t n)
{
    abx__conn *c = p->data;
    abx_exchange *x = c->x;

    if (x->dispatched) {
        x->trailer_bytes += n;
        return x->trailer_bytes > MAX_HEADERS_IN_TRAILER_BYTES ? refuse(c, 431) : 0;
    }
    return head_add(c, at, n, c->server->options.max_head_bytes) < 0 ? refuse(c, 431) : 0;
}

static int piece_end(llhttp_t *p)
{
    abx__conn *c = p->data;
    abx_exchange *x = c->x;

    if (x->dispatched)
        return 0;
    if (head_add(c, "", 1, c->server->options.max_head_bytes + 1) < 0)
        return refuse(c, 431);
    x->piece_at = x->head_len;
    return 0;
}

static int value_end(llhttp_t *p)
{
    abx__conn *c = p->data;
    abx_exchange *x = c->x;

    if (x->dispatched)
        return 0;
    while (x->head_len > x->piece_at &&
           (x->head[x->head_len - 1] == ' ' || x->head[x->head_len - 1] == '\t'))
        x->head_len--;
    if (++x->field_count > c->server->options.max_headers)
        return refuse(c, 431);
    return piece_end(p);
}

static int message_begin(llhttp_t *p)
{
    abx__conn *c = p->data;

    c->x = abx__exchange_new(c);
    return 0;
}

static int headers_complete(llhttp_t *p)
{
    abx__conn *c = p->data;

    /* Whether the protocol changes is the handler's choice, not the request's. */
    p->upgrade = 0;
    c->event = ABX__EVENT_HEAD;
    return HPE_PAUSED;
}

static int body(llhttp_t *p, const char *at, size_t n)
{
    abx__conn *c = p->data;

    if (n == 0)
        return 0;
    abx__exchange_body(c->x, (const uint8_t *)at, n);
    if (c->fail_status || c->dead)
        return HPE_USER;
    if (!c->x->paused)
        return 0;
    c->event = ABX__EVENT_BODY_HELD;
    return HPE_PAUSED;
}

static int message_complete(llhttp_t *p)
{
    abx__conn *c = p->data;

    c->event = ABX__EVENT_DONE;
    return HPE_PAUSED;
}

const llhttp_settings_t abx__parse_settings = {
    .on_message_begin = message_begin,
    .on_url = piece,
    .on_url_complete = piece_end,
    .on_header_field = piece,
    .on_header_field_complete = piece_end,
    .on_header_value = piece,
    .on_header_value_complete = value_end,
    .on_headers_complete = headers_complete,
    .on_body = body,
    .on_message_complete = message_complete,
};

/* --- the steps ---------------------------------------------------------------------------------- */

/* The exchange of a refused request ends first, so that its handler cannot answer as well. */
static void refuse_now(abx__conn *c, int status)
{
    abx_exchange *x = c->x;

    c->keep = false;
    if (x && x->dispatched) {
        bool begun = x->head_sent;
        abx__exchange_close(x, false);
        if (begun) {
            abx__conn_kill(c, true);
            return;
        }
    }
    abx__answer_refuse(c, status);
}

static void dispatch(abx__conn *c)
{
    abx_http_server *s = c->server;
    abx_exchange *x = c->x;
    int status = abx__exchange_read_head(x);

    if (status) {
        refuse_now(c, status);
        return;
    }
    if (s->options.awake)
        abx__awake_asked(&s->awake, c, abx__awake_knows(&s->awake, c) ? uv_hrtime() : 0);
    x->dispatched = true;
    s->exchange_count++;
    s->on_request(x, s->data);
    if (c->dead || x->ws)
        return;
    if (x->ended) {
        /* An unread long body, or one that a 100 was never sent for, is not worth reading. */
        if (x->expects_100 || x->content_length > ABX__DRAIN_LIMIT)
            c->keep = false;
        return;
    }
    /* Whoever has put its body off will say how long it may be. */
    if (!x->paused && x->content_length > 0 && (uint64_t)x->content_length > x->body_max) {
        refuse_now(c, 413);
        return;
    }
    if (x->expects_100 && !x->head_sent) {
        static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
        x->expects_100 = false;
        abx__conn_queue(c, text, sizeof text - 1);
    }
}

static void message_done(abx__conn *c)
{
    abx_exchange *x = c->x;

    x->body_done = true;
    if (!llhttp_should_keep_alive(&c->parser))
        c->keep = false;
    if (!x->paused)
        abx__exchange_body_end(x);
    if (x->ended && c->x == x && abx__conn_backlog(c) == 0 && !x->ws && c->keep && !c->dead)
        abx__exchange_close(x, true);
}

bool abx__conn_can_parse(const abx__conn *c)
{
    const abx_exchange *x = c->x;

    if (c->dead || c->linger || c->fail_status)
        return false;
    if (x && x->ws && x->body_done)
        return abx__ws_wants_read(c);
    if (x && x->raw && x->body_done)
        return !x->paused && !x->ended;
    if (!x)
        return c->keep;
    return !x->dispatched || (!x->body_done && !x->paused);
}

/* Runs the parser once; returns the count of bytes that it took. */
static size_t parse_step(abx__conn *c, const uint8_t *bytes, size_t n)
{
    c->event = ABX__EVENT_NONE;
    llhttp_errno_t e = llhttp_execute(&c->parser, (const char *)bytes, n);
    if (e == HPE_OK)
        return n;
    if (e != HPE_PAUSED) {
        if (!c->dead)
            refuse_now(c, c->fail_status ? c->fail_status : 400);
        return n;
    }
    size_t taken = (size_t)(llhttp_get_error_pos(&c->parser) - (const char *)bytes);
    llhttp_resume(&c->parser);
    if (c->event == ABX__EVENT_HEAD)
        dispatch(c);
    else if (c->event == ABX__EVENT_DONE)
        message_done(c);
    return taken;
}

static void carry(abx__conn *c, const uint8_t *bytes, size_t n)
{
    if (n == 0 || c->dead || c->linger || c->fail_status)
        return;
    grow(c->server, (char **)&c->carry, c->carry_len, c->carry_len + n);
    memcpy(c->carry + c->carry_len, bytes, n);
    c->carry_len += n;
}

void abx__conn_feed(abx__conn *c, const uint8_t *bytes, size_t n)
{
    bool again = true;

    while ((n || again) && c->carry_len == 0 && abx__conn_can_parse(c)) {
        if (c->x && c->x->ws && c->x->body_done) {
            abx__ws_feed(c, bytes, n);
            return;
        }
        if (c->x && c->x->raw && c->x->body_done) {
            if (n > 0 && c->x->on.on_body)
                c->x->on.on_body(c->x, bytes, n, c->x->data);
            return;
        }
        size_t taken = parse_step(c, bytes, n);
        bytes += taken;
        n -= taken;
        /* A request without a body is complete only when the parser is asked once more. */
        again = c->event == ABX__EVENT_HEAD;
    }
    carry(c, bytes, n);
}
