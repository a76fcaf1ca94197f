/* Ports of users: one connection to the sandbox a request, by sandbox.tunnel, and HTTP/1.1 on it as the client speaks it here;
 * who asks for another protocol (a WebSocket) gets the bare connection. */
#include "doors/e2b/data_inner.h"

#include <stdio.h>
#include <string.h>

/* --- the end of it ------------------------------------------------------------------------------------------------ */
void e2b_link_close(e2b_link *l)
{
    e2b_data *d = l->data;
    if (l->call) {
        abx_call_cancel(l->call); /* its end closes */
        return;
    }
    if (l->transfer) {
        abx_http_cancel(l->transfer);
        return;
    }
    if (l->x) {
        abx_exchange_handlers none = {0};
        abx_exchange_handle(l->x, &none, NULL);
    }
    abx_link_remove(&l->node);
    e2b_answer_free(l->parser);
    free(l);
    e2b_plane_release(d);
}

static void answer_text(abx_exchange *x, const e2b_link *l, const char *text)
{
    e2b_data_refuse(x, 502, l->data->box->id, l->port, text);
}

static void on_looked(void *data, e2b_box *box, const abx_error *err)
{
    (void)err;
    e2b_link *l = data;
    abx_exchange *x = l->x;
    if (x && box->state != E2B_RUNNING)
        e2b_data_not_found(x, box->id);
    else if (x)
        answer_text(x, l, "E6001: the connection to the sandbox broke");
    e2b_link_close(l);
}

void e2b_link_refuse(e2b_link *l, const abx_error *err)
{
    if (!l->x) {
        e2b_link_close(l);
        return;
    }
    if (l->answered) {
        abx_exchange_abort(l->x);
        e2b_link_close(l);
        return;
    }
    if (e2b_is_gone(err) && !l->data->closing) {
        e2b_box_look(l->data->box, on_looked, l);
        return;
    }
    ABX_AUTO_FREE char *text = err ? e2b_text_of(err) : abx_strdup("the service gave no answer");
    if (err && err->id == ABX_ERR_PORT_NOT_FOUND)
        e2b_data_closed_port(l->x, l->data->box->id, l->port);
    else
        answer_text(l->x, l, text);
    e2b_link_close(l);
}

/* --- the answer ------------------------------------------------------------------------------------------------------ */
static void on_head(void *data, int status, const char *const *lines, size_t count, int64_t length)
{
    e2b_link *l = data;
    if (!l->x)
        return;
    if (status == 101 && !l->upgrade) { /* nobody asked for that */
        abx_call_cancel(l->call);
        return;
    }
    l->answered = true;
    l->raw = status == 101;
    if (l->raw)
        abx_exchange_switch(l->x, lines, count);
    else
        abx_exchange_head(l->x, status, lines, count, length);
}

static void on_body(void *data, const uint8_t *bytes, size_t n)
{
    const e2b_link *l = data;
    if (l->x && !abx_exchange_write(l->x, bytes, n) && l->call)
        abx_call_pause(l->call);
}

static void on_whole(void *data)
{
    e2b_link *l = data;
    if (l->x)
        abx_exchange_end(l->x);
}

static const e2b_answer_handlers ANSWER = {on_head, on_body, on_whole};

/* --- the connection to the sandbox --------------------------------------------------------------------------------- */
static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    (void)c;
    (void)channel;
    e2b_link *l = data;
    ssize_t taken = e2b_answer_feed(l->parser, bytes, n);
    if (taken < 0) {
        abx_call_cancel(l->call);
        return;
    }
    if (l->raw && (size_t)taken < n)
        on_body(l, bytes + taken, n - (size_t)taken);
}

static void on_writable(abx_call *c, void *data)
{
    (void)c;
    const e2b_link *l = data;
    if (l->x)
        abx_exchange_resume(l->x);
}

/* The service sends no more, and ours is one request: its end ends the answer and the connection. */
static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    (void)event;
    e2b_link *l = data;
    if (strcmp(type, "end") != 0 || !l->answered || !l->x)
        return;
    if (e2b_answer_eof(l->parser) < 0) {
        abx_exchange_abort(l->x);
        return;
    }
    if (l->raw)
        abx_exchange_end(l->x);
    abx_call_write_end(c);
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    e2b_link *l = data;
    l->call = NULL;
    if (!l->answered || !l->x) {
        e2b_link_refuse(l, err);
        return;
    }
    if (e2b_answer_eof(l->parser) < 0)
        abx_exchange_abort(l->x);
    else if (l->raw)
        abx_exchange_end(l->x);
    e2b_link_close(l);
}

/* --- the client --------------------------------------------------------------------------------------------------------- */
static void give(e2b_link *l, const void *bytes, size_t n)
{
    if (l->call && !abx_call_write(l->call, bytes, n) && l->x)
        abx_exchange_pause(l->x);
}

static void client_bytes(abx_exchange *x, const uint8_t *bytes, size_t n, void *data)
{
    e2b_link *l = data;
    if (l->raw || abx_exchange_content_length(x) >= 0) {
        give(l, bytes, n);
        return;
    }
    char size[24];
    give(l, size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", n));
    give(l, bytes, n);
    give(l, "\r\n", 2);
}

static void client_end(abx_exchange *x, void *data)
{
    if (abx_exchange_content_length(x) < 0)
        give(data, "0\r\n\r\n", 5);
}

static void client_writable(abx_exchange *x, void *data)
{
    (void)x;
    const e2b_link *l = data;
    if (l->call)
        abx_call_resume(l->call);
}

/* In another protocol each side may end by itself. */
static void client_eof(abx_exchange *x, void *data)
{
    (void)x;
    const e2b_link *l = data;
    if (l->call && l->raw)
        abx_call_write_end(l->call);
}

static void client_gone(abx_exchange *x, bool complete, void *data)
{
    (void)x;
    (void)complete;
    e2b_link *l = data;
    l->x = NULL;
    if (l->call)
        abx_call_cancel(l->call);
}

static const abx_exchange_handlers CLIENT = {.on_body = client_bytes,
                                             .on_body_end = client_end,
                                             .on_writable = client_writable,
                                             .on_close = client_gone,
                                             .on_peer_eof = client_eof};

/* The Host that services in this sandbox see, where its creator chose one: "${PORT}-x.example.com". Owned, or NULL. */
static char *mask_of(const e2b_box *box, int port)
{
    yyjson_val *network = abx_json_get(yyjson_doc_get_root(box->notes), "network");
    const char *mask = abx_json_str(network, "maskRequestHost", NULL);
    const char *at = mask ? strstr(mask, "${PORT}") : NULL;
    if (!at)
        return abx_strdup(mask);
    return abx_format("%.*s%d%s", (int)(at - mask), mask, port, at + strlen("${PORT}"));
}

static void refused_at_once(e2b_link *l, const abx_error *err)
{
    if (err->id == ABX_ERR_FEATURE_MISSING)
        e2b_port_by_url(l);
    else
        e2b_link_refuse(l, err);
}

/* --- both --------------------------------------------------------------------------------------------------------------- */
void e2b_port_handle(e2b_data *d, int port, abx_exchange *x)
{
    static const abx_call_handlers on = {
        .on_event = on_event, .on_chunk = on_chunk, .on_writable = on_writable, .on_end = on_end};
    size_t len = 0;
    ABX_AUTO_FREE char *host = mask_of(d->box, port);
    ABX_AUTO_FREE char *head = e2b_port_head(d->box, x, host, &len);
    if (!head) {
        e2b_refuse(x, 431, "the head of the request is too long");
        return;
    }
    e2b_link *l = ABX_NEW(e2b_link);
    l->data = d;
    l->x = x;
    l->port = port;
    l->upgrade = abx_exchange_header(x, "Upgrade") &&
                 abx_http_headers_has(abx_exchange_headers(x), "Connection", "upgrade");
    l->head_only = strcmp(abx_exchange_method(x), "HEAD") == 0;
    l->parser = e2b_answer_new(&ANSWER, l, l->head_only);
    abx_link_append(&d->ports, &l->node);
    e2b_plane_hold(d);
    abx_exchange_handle(x, &CLIENT, l);
    abx_exchange_limit_body(x, UINT64_MAX);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = e2b_params(d, NULL, &root);
    abx_mut_int(params, root, "port", port);
    ABX_AUTO_ERROR err = NULL;
    if (e2b_launch(d, ABX_OP_SANDBOX_TUNNEL, params, &on, l, &l->call, &err) < 0)
        refused_at_once(l, err);
    else
        give(l, head, len);
}

void e2b_ports_reset(e2b_data *d)
{
    for (abx_link *n = d->ports.next; n != &d->ports; n = n->next) {
        e2b_link *l = ABX_OF(n, e2b_link, node);
        if (l->x)
            abx_exchange_abort(l->x);
        if (l->call)
            abx_call_cancel(l->call);
        if (l->transfer)
            abx_http_cancel(l->transfer);
    }
}
