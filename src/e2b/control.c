#include "e2b/control.h"

#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "e2b/again.h"
#include "e2b/foreign.h"
#include "e2b/service_inner.h"

struct abx__ctl {
    abx_e2b_service *service;
    abx__ctl *next, **at;
    char *method, *path, *subject;
    char *url; /* or NULL */
    char *headers[4];
    size_t header_count;
    abx_buf body;
    bool repeat, has_body, finished, stop_repeats;
    abx__about about;
    uint64_t deadline, timeout_ms;
    unsigned sent; /* times */
    abx__ctl_done done;
    void *data;
    uv_timer_t timer;
    abx_http_transfer *transfer;
    /* of the last answer */
    int status;
    char *type, *location, *request_id, *next_token;
    uint64_t after_ms;
    bool too_large;
    abx_buf answer;
};

static void forget_answer(abx__ctl *c)
{
    c->status = 0;
    free(ABX_TAKE(c->type));
    free(ABX_TAKE(c->location));
    free(ABX_TAKE(c->request_id));
    free(ABX_TAKE(c->next_token));
    c->after_ms = ABX_FOREVER;
    c->too_large = false;
    abx_buf_clear(&c->answer);
}

static void on_timer_closed(uv_handle_t *h)
{
    abx__ctl *c = h->data;
    abx_e2b_service *s = c->service;
    forget_answer(c);
    free(c->method);
    free(c->path);
    free(c->subject);
    free(c->url);
    for (size_t i = 0; i < c->header_count; i++)
        free(c->headers[i]);
    abx_buf_clear(&c->body);
    free(c);
    abx__svc_drop(s);
}

static void leave_list(abx__ctl *c)
{
    c->finished = true;
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
}

/* Freed as soon as nothing calls back any more. */
static void let_go(abx__ctl *c)
{
    if (c->transfer)
        abx_http_cancel(c->transfer); /* on_end comes back here */
    else
        uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

void abx__ctl_cancel(abx__ctl *c)
{
    if (!c)
        return;
    leave_list(c);
    let_go(c);
}

static void deliver(abx__ctl *c, const abx__ctl_answer *answer, abx_error *err)
{
    abx__ctl_done done = c->done;
    void *data = c->data;
    leave_list(c);
    done(data, answer, err); /* answer lives in c */
    let_go(c);
}

/* --- repeats ------------------------------------------------------------------------------------------------ */
static void send_now(uv_timer_t *timer);

static abx__again_rule rule_of(const abx__ctl *c)
{
    uint64_t now = abx_now_mono_ms();
    return (abx__again_rule){.sent = c->sent,
                             .most = c->stop_repeats ? 0 : ABX__CTL_REPEATS + 1,
                             .safe = c->repeat,
                             .left_ms = c->deadline == ABX_FOREVER ? ABX_FOREVER
                                        : c->deadline > now        ? c->deadline - now
                                                                   : 0,
                             .patience_ms = ABX__CTL_WAIT_MS};
}

/* Send it again after this time; -1: no. */
static bool again(abx__ctl *c, int64_t wait_ms)
{
    if (wait_ms < 0)
        return false;
    forget_answer(c);
    uv_timer_start(&c->timer, send_now, (uint64_t)wait_ms, 0);
    return true;
}

static bool repeat_after_answer(abx__ctl *c)
{
    abx__again_rule rule = rule_of(c);
    return again(c, abx__again_after_status(&rule, c->status, c->after_ms));
}

static bool repeat_after_break(abx__ctl *c, const abx_http_transfer *t, const abx_error *err)
{
    abx__again_rule rule = rule_of(c);
    return again(c, abx__again_after_break(&rule, err, abx_http_was_sent(t)));
}

/* --- the answer ------------------------------------------------------------------------------------------------ */
static char *copy_header(const abx_http_headers *headers, const char *name)
{
    return abx_strdup(abx_http_headers_get(headers, name));
}

/* Seconds in digits; a date is left aside. */
static uint64_t retry_after(const abx_http_headers *headers)
{
    const char *text = abx_http_headers_get(headers, "Retry-After");
    uint64_t seconds;
    if (!text || abx_parse_uint(text, 1000000, &seconds) < 0)
        return ABX_FOREVER;
    return seconds * 1000;
}

static void on_head(abx_http_transfer *t, int status, const abx_http_headers *headers, void *data)
{
    abx__ctl *c = data;
    (void)t;
    c->status = status;
    c->type = copy_header(headers, "Content-Type");
    c->location = copy_header(headers, "Location");
    c->request_id = copy_header(headers, "X-Request-Id");
    if (!c->request_id)
        c->request_id = copy_header(headers, "X-E2B-Trace-ID");
    c->next_token = copy_header(headers, "X-Next-Token");
    c->after_ms = retry_after(headers);
    const char *should = abx_http_headers_get(headers, "Should-Retry");
    if (should && strcasecmp(should, "false") == 0)
        c->stop_repeats = true;
    abx_buf_init(&c->answer,
                 status >= 200 && status < 300 ? ABX__CTL_MAX_BODY : ABX__CTL_MAX_ERROR);
}

static void on_body(abx_http_transfer *t, const uint8_t *bytes, size_t n, void *data)
{
    abx__ctl *c = data;
    (void)t;
    if (c->too_large || abx_buf_add(&c->answer, bytes, n) == 0)
        return;
    c->too_large = true; /* of an explanation its beginning is enough */
    abx_http_cancel(c->transfer);
}

static abx_error *judge(abx__ctl *c, yyjson_doc *doc, bool *no_route)
{
    bool good = c->status >= 200 && c->status < 300;
    yyjson_val *root = yyjson_doc_get_root(doc);
    abx__ctl_reply reply = {.method = c->method,
                            .path = c->path,
                            .about = c->about,
                            .subject = c->subject,
                            .status = c->status,
                            .type = c->type,
                            .location = c->location,
                            .request_id = c->request_id,
                            .after_ms = c->after_ms,
                            .body = &c->answer,
                            .root = root};
    ABX_AUTO_FREE char *path = abx_strndup(c->path, strcspn(c->path, "?"));
    reply.path = path;
    if (!good) {
        *no_route = abx__ctl_no_route(&reply);
        return abx__ctl_error(&reply);
    }
    if (root || c->answer.len == 0)
        return NULL;
    if (abx__foreign_is_page(c->type, &c->answer))
        return abx__ctl_error(&reply);
    ABX_AUTO_FREE char *route = abx_format("%s %s", c->method, path);
    return abx__ctl_misfit(route, "it is not JSON");
}

static void finish(abx__ctl *c)
{
    ABX_AUTO_JSON doc = c->answer.len > 0
                            ? abx_json_parse(c->answer.data, c->answer.len, ABX_ERR_BACKEND_ANSWER,
                                             "the answer", NULL)
                            : NULL;
    abx__ctl_answer answer = {.status = c->status,
                              .root = yyjson_doc_get_root(doc),
                              .next = c->next_token,
                              .again = c->sent > 1,
                              .after_ms = c->after_ms};
    abx_error *err = judge(c, doc, &answer.no_route);
    if (err) {
        abx__foreign_hide(err->message, c->service->key);
        abx__foreign_hide(err->hint, c->service->key);
        abx__foreign_hide(err->request_id, c->service->key);
    }
    deliver(c, &answer, err);
}

/* What the transport says, in words that name the route. */
static abx_error *broken_error(const abx__ctl *c, const abx_error *err)
{
    ABX_AUTO_FREE char *path = abx_strndup(c->path, strcspn(c->path, "?"));
    abx_error *own = abx_error_copy(err);
    (void)abx_wrap(&own, "%s %s", c->method, path);
    return own;
}

static void on_end(abx_http_transfer *t, const abx_error *err, void *data)
{
    abx__ctl *c = data;
    c->transfer = NULL;
    if (c->finished) {
        let_go(c);
        return;
    }
    bool good = c->status >= 200 && c->status < 300;
    if (c->too_large && good) {
        ABX_AUTO_FREE char *path = abx_strndup(c->path, strcspn(c->path, "?"));
        ABX_AUTO_FREE char *route = abx_format("%s %s", c->method, path);
        deliver(c, NULL, abx__ctl_misfit(route, "it is larger than %zu bytes", ABX__CTL_MAX_BODY));
    } else if (err && !c->too_large) {
        if (!repeat_after_break(c, t, err))
            deliver(c, NULL, broken_error(c, err));
    } else if (!repeat_after_answer(c)) {
        finish(c);
    }
}

/* --- sending --------------------------------------------------------------------------------------------------- */
static uint64_t time_for(const abx__ctl *c)
{
    if (c->deadline == ABX_FOREVER)
        return c->timeout_ms;
    uint64_t now = abx_now_mono_ms();
    uint64_t left = c->deadline > now ? c->deadline - now : 1;
    return left < c->timeout_ms ? left : c->timeout_ms;
}

static int start_transfer(abx__ctl *c, abx_error **err)
{
    static const abx_http_handlers handlers = {on_head, on_body, NULL, on_end};
    static const abx_http_options options = {.max_head_bytes = ABX__CTL_MAX_HEAD};
    abx_e2b_service *s = c->service;
    if (!s->http) {
        abx_http_options own = options;
        own.log = s->log;
        if (abx_http_open(s->loop, &own, &s->http, err) < 0)
            return -1;
    }
    ABX_AUTO_FREE char *url = c->url ? abx_strdup(c->url) : abx_format("%s%s", s->api_url, c->path);
    const char *headers[4 + ABX_COUNT(c->headers)] = {"Accept: application/json",
                                                      "Accept-Encoding: identity"};
    size_t count = 2;
    for (size_t i = 0; i < c->header_count; i++)
        headers[count++] = c->headers[i];
    if (s->auth && !c->url)
        headers[count++] = s->auth;
    if (c->has_body)
        headers[count++] = "Content-Type: application/json";
    abx_http_request request = {.method = c->method,
                                .url = url,
                                .headers = headers,
                                .header_count = count,
                                .body = c->has_body ? c->body.data : NULL,
                                .body_len = c->has_body ? c->body.len : 0,
                                .timeout_ms = time_for(c),
                                .own_connection = !c->repeat && strcmp(c->method, "GET") != 0};
    return abx_http_start(s->http, &request, &handlers, c, &c->transfer, err);
}

static void send_now(uv_timer_t *timer)
{
    abx__ctl *c = timer->data;
    abx_error *err = NULL;
    c->sent++;
    if (start_transfer(c, &err) < 0)
        deliver(c, NULL, err);
}

abx__ctl *abx__ctl_start(abx_e2b_service *s, const abx__ctl_request *r, abx__ctl_done done,
                         void *data)
{
    abx__ctl *c = ABX_NEW(abx__ctl);
    c->service = s;
    c->method = abx_strdup(r->method);
    c->path = abx_strdup(r->path);
    c->subject = abx_strdup(r->subject);
    c->url = abx_strdup(r->url);
    for (const char *const *h = r->headers; h && *h && c->header_count < ABX_COUNT(c->headers); h++)
        c->headers[c->header_count++] = abx_strdup(*h);
    c->repeat = r->repeat;
    c->about = r->about;
    c->deadline = r->deadline;
    c->timeout_ms = r->timeout_ms;
    c->done = done;
    c->data = data;
    c->after_ms = ABX_FOREVER;
    abx_buf_init(&c->body, SIZE_MAX); /* parameters were bounded by who gave them */
    abx_buf_init(&c->answer, ABX__CTL_MAX_ERROR);
    c->has_body = r->body != NULL;
    if (r->body)
        ABX_CHECK(abx_json_write_mut(yyjson_mut_doc_get_root(r->body), &c->body) == 0);
    c->next = s->questions;
    if (c->next)
        c->next->at = &c->next;
    c->at = &s->questions;
    s->questions = c;
    abx__svc_hold(s);
    uv_timer_init(s->loop, &c->timer);
    c->timer.data = c;
    uv_timer_start(&c->timer, send_now, r->delay_ms, 0);
    return c;
}
