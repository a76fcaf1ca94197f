#include <stdlib.h>
#include <string.h>

#include "abx_build.h"
#include "net/http_client_inner.h"

int abx_http_open(uv_loop_t *loop, const abx_http_options *options, abx_http **out, abx_error **err)
{
    if (abx__http_init(err) < 0)
        return -1;
    abx_http *http = ABX_NEW(abx_http);
    http->loop = loop;
    if (options)
        http->options = *options;
    if (!http->options.max_head_bytes)
        http->options.max_head_bytes = 64 * 1024;
    if (!http->options.connect_timeout_ms)
        http->options.connect_timeout_ms = 30 * 1000;
    http->user_agent =
        abx_strdup(http->options.user_agent ? http->options.user_agent : "abx/" ABX_VERSION);
    http->options.user_agent = NULL;
    if (http->options.connect_to) {
        ABX_AUTO_FREE char *line = abx_format("::%s", http->options.connect_to);
        http->connect_to = curl_slist_append(NULL, line);
        ABX_CHECK(http->connect_to);
        http->options.connect_to = NULL;
    }
    if (abx__multi_open(http, err) < 0) {
        free(http->user_agent);
        curl_slist_free_all(http->connect_to);
        free(http);
        curl_global_cleanup();
        return -1;
    }
    *out = http;
    return 0;
}

void abx_http_close(abx_http *http, void (*cb)(void *data), void *data)
{
    ABX_CHECK(!http->closing);
    http->closing = true;
    abx__multi_want_turn(http);
    http->closed = cb;
    http->closed_data = data;
    for (abx_http_transfer *t = http->transfers; t; t = t->next)
        abx_http_cancel(t);
    /* The rest is done right before the loop waits, so that no handler runs inside this call. */
    uv_ref((uv_handle_t *)&http->prepare);
}

int abx__http_start(abx_http *http, const abx_http_request *request, bool upgrade,
                    const abx_http_handlers *handlers, void *data, abx_http_transfer **out,
                    abx_error **err)
{
    abx_http_transfer *t;

    if (http->closing)
        return abx_fail(err, ABX_ERR_CANCELLED, "the HTTP client is closing");
    if (abx__transfer_new(http, request, upgrade, &t, err) < 0)
        return -1;
    t->on = *handlers;
    t->data = data;
    t->next = http->transfers;
    if (t->next)
        t->next->prev = t;
    http->transfers = t;
    uv_ref((uv_handle_t *)&http->prepare);
    abx__transfer_start_clock(t, request->idle_timeout_ms);
    abx__multi_pend(t);
    if (out)
        *out = t;
    return 0;
}

int abx_http_start(abx_http *http, const abx_http_request *request,
                   const abx_http_handlers *handlers, void *data, abx_http_transfer **out,
                   abx_error **err)
{
    return abx__http_start(http, request, false, handlers, data, out, err);
}

void abx_http_cancel(abx_http_transfer *t)
{
    t->cancelled = true;
    abx__multi_pend(t);
}

bool abx_http_was_sent(const abx_http_transfer *t)
{
    return t->sent;
}

void abx_http_pause(abx_http_transfer *t)
{
    /* The next bytes that curl wants to hand over are refused, and then stay in curl and the socket. */
    t->paused = true;
}

void abx_http_resume(abx_http_transfer *t)
{
    if (!t->paused)
        return;
    t->paused = false;
    t->active_at = uv_now(t->http->loop);
    if (t->held) {
        t->resume_due = true;
        abx__multi_pend(t);
    }
}

int abx_http_write(abx_http_transfer *t, const void *bytes, size_t n)
{
    if (t->out_ended || t->cancelled)
        return 1;
    if (t->out_left >= 0) {
        /* More than was announced would be taken for the next request. */
        if (n > (uint64_t)t->out_left)
            n = (size_t)t->out_left;
        t->out_left -= (int64_t)n;
    }
    if (t->out_at && t->out_at >= t->out.len / 2) {
        abx_buf_drop(&t->out, t->out_at);
        t->out_at = 0;
    }
    ABX_CHECK(abx_buf_add(&t->out, bytes, n) == 0);
    if (t->starved && n) {
        t->resume_due = true;
        abx__multi_pend(t);
    }
    if (t->out.len - t->out_at <= ABX__SEND_HIGH)
        return 1;
    t->over_high = true;
    return 0;
}

void abx_http_write_end(abx_http_transfer *t)
{
    if (t->out_ended)
        return;
    t->out_ended = true;
    if (t->starved) {
        t->resume_due = true;
        abx__multi_pend(t);
    }
}
