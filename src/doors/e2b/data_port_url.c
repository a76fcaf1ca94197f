/* Ports of users at a provider without tunnels: the request goes on to the URL that it gives for the port (sandbox.host). */
#include "doors/e2b/data_inner.h"

#include <string.h>

/* --- the answer -------------------------------------------------------------------------------------------------- */
static void on_head(abx_http_transfer *t, int status, const abx_http_headers *headers, void *data)
{
    (void)t;
    e2b_link *l = data;
    uint64_t length = 0;
    const char *told = abx_http_headers_get(headers, "Content-Length");
    bool known = told && abx_parse_uint(told, INT64_MAX, &length) == 0;
    if (!l->x)
        return;
    l->answered = true;
    e2b_lines lines = {0};
    for (size_t i = 0; i < headers->count; i++)
        e2b_lines_add(&lines, headers->items[i].name, headers->items[i].value);
    abx_exchange_head(l->x, status, (const char *const *)lines.items, lines.count,
                      known ? (int64_t)length : -1);
    e2b_lines_clear(&lines);
}

static void on_body(abx_http_transfer *t, const uint8_t *bytes, size_t n, void *data)
{
    const e2b_link *l = data;
    if (l->x && !abx_exchange_write(l->x, bytes, n))
        abx_http_pause(t);
}

static void on_writable(abx_http_transfer *t, void *data)
{
    (void)t;
    const e2b_link *l = data;
    if (l->x)
        abx_exchange_resume(l->x);
}

static void on_end(abx_http_transfer *t, const abx_error *err, void *data)
{
    (void)t;
    e2b_link *l = data;
    l->transfer = NULL;
    if (err || !l->x || !l->answered) {
        e2b_link_refuse(l, err);
        return;
    }
    abx_exchange_end(l->x);
    e2b_link_close(l);
}

/* --- the client ---------------------------------------------------------------------------------------------------- */
static void client_bytes(abx_exchange *x, const uint8_t *bytes, size_t n, void *data)
{
    const e2b_link *l = data;
    if (l->transfer && !abx_http_write(l->transfer, bytes, n))
        abx_exchange_pause(x);
}

static void client_end(abx_exchange *x, void *data)
{
    (void)x;
    const e2b_link *l = data;
    if (l->transfer)
        abx_http_write_end(l->transfer);
}

static void client_writable(abx_exchange *x, void *data)
{
    (void)x;
    const e2b_link *l = data;
    if (l->transfer)
        abx_http_resume(l->transfer);
}

static void client_gone(abx_exchange *x, bool complete, void *data)
{
    (void)x;
    (void)complete;
    e2b_link *l = data;
    l->x = NULL;
    if (l->transfer)
        abx_http_cancel(l->transfer);
}

/* --- the request ---------------------------------------------------------------------------------------------------- */
/* Does the provider give a header of this name itself? */
static bool gives(yyjson_val *own, const char *name)
{
    yyjson_obj_iter it = yyjson_obj_iter_with(own);
    for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
        if (strcasecmp(yyjson_get_str(k), name) == 0)
            return true;
    return false;
}

static int send_on(e2b_link *l, const char *base, yyjson_val *own, abx_error **err)
{
    static const abx_http_handlers on = {on_head, on_body, on_writable, on_end};
    if (!l->data->http &&
        abx_http_open(l->data->door->loop, &(abx_http_options){.log = l->data->door->log},
                      &l->data->http, err) < 0)
        return -1;
    ABX_AUTO_FREE char *url = abx_format("%s%s", base, abx_exchange_target(l->x));
    e2b_lines lines = {0};
    const abx_http_headers *given = abx_exchange_headers(l->x);
    for (size_t i = 0; i < given->count; i++)
        if (strcasecmp(given->items[i].name, "Host") != 0 && !gives(own, given->items[i].name) &&
            e2b_port_passes(l->data->box, given->items[i].name, given->items[i].value))
            e2b_lines_add(&lines, given->items[i].name, given->items[i].value);
    yyjson_obj_iter it = yyjson_obj_iter_with(own);
    for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
        e2b_lines_add(&lines, yyjson_get_str(k), yyjson_get_str(yyjson_obj_iter_get_val(k)));
    int64_t length = abx_exchange_content_length(l->x);
    abx_http_request request = {.method = abx_exchange_method(l->x),
                                .url = url,
                                .headers = (const char *const *)lines.items,
                                .header_count = lines.count,
                                .body_stream = length != 0,
                                .body_size = length};
    int rc = abx_http_start(l->data->http, &request, &on, l, &l->transfer, err);
    e2b_lines_clear(&lines);
    return rc;
}

static void on_url(void *arg, yyjson_val *host, const abx_error *err)
{
    static const abx_exchange_handlers client = {.on_body = client_bytes,
                                                 .on_body_end = client_end,
                                                 .on_writable = client_writable,
                                                 .on_close = client_gone};
    e2b_link *l = arg;
    ABX_AUTO_ERROR why = NULL;
    const char *url = abx_json_str(host, "url", NULL);
    if (!err && !url)
        why = abx_error_new(ABX_ERR_BACKEND_ANSWER, "the provider gave no URL for the port");
    else if (!err && l->upgrade)
        why =
            abx_error_new(ABX_ERR_FEATURE_MISSING,
                          "the provider has no tunnels: a WebSocket or another protocol than HTTP "
                          "cannot pass; its own URL for the port may take it");
    if (!err && !why && l->x && send_on(l, url, abx_json_get(host, "headers"), &why) == 0) {
        abx_exchange_handle(l->x, &client, l);
        abx_exchange_resume(l->x);
        return;
    }
    if (l->x)
        abx_exchange_resume(l->x);
    e2b_link_refuse(l, err ? err : why);
}

void e2b_port_by_url(e2b_link *l)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = e2b_params(l->data, NULL, &root);
    abx_mut_int(params, root, "port", l->port);
    abx_exchange_pause(l->x);
    e2b_run(l->data, ABX_OP_SANDBOX_HOST, params, on_url, l);
}
