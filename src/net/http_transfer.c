#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "net/http_client_inner.h"

enum { SMALL_BUFFER = CURL_MAX_WRITE_SIZE }; /* the least that curl takes */

/* --- what curl calls ---------------------------------------------------------------------------- */

static void stop_with(abx_http_transfer *t, abx_error *e)
{
    abx_error_take(&t->error, e);
}

static void head_begin(abx_http_transfer *t, const char *line)
{
    const char *space = strchr(line, ' ');

    abx_http_headers_clear(&t->headers);
    t->status = space ? (int)strtol(space + 1, NULL, 10) : 0;
    const char *words = space ? strchr(space + 1, ' ') : NULL;
    free(t->reason);
    t->reason = abx_strdup(words ? words + 1 : "");
}

static void head_line(abx_http_transfer *t, const char *line, size_t n)
{
    const char *colon = memchr(line, ':', n);

    if (colon)
        abx_http_headers_add(&t->headers, line, (size_t)(colon - line), colon + 1,
                             n - (size_t)(colon + 1 - line));
}

/* One line of a head, whole. There may be several heads: interim answers come before the final one. */
static size_t on_header(char *line, size_t size, size_t count, void *data)
{
    abx_http_transfer *t = data;
    size_t n = size * count, text = n;

    t->active_at = uv_now(t->http->loop);
    if (t->cancelled)
        return n;
    t->head_bytes += n;
    if (t->head_bytes > t->http->options.max_head_bytes) {
        stop_with(t, abx_error_new(ABX_ERR_TOO_LARGE, "the %s of the answer of '%s' is too long",
                                   t->head_done ? "trailer" : "head", t->server));
        return 0;
    }
    if (t->head_done)
        return n; /* trailers are dropped */
    while (text && (line[text - 1] == '\n' || line[text - 1] == '\r'))
        text--;
    if (n >= 5 && strncmp(line, "HTTP/", 5) == 0 && !t->headers.count) {
        ABX_AUTO_FREE char *first = abx_strndup(line, text);
        head_begin(t, first);
    } else if (text) {
        head_line(t, line, text);
    } else if (t->status >= 200 || t->status == 101) {
        t->head_done = true;
        if (t->on.on_head)
            t->on.on_head(t, t->status, &t->headers, t->data);
        abx_http_headers_clear(&t->headers);
    } else {
        abx_http_headers_clear(&t->headers);
    }
    return n;
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *data)
{
    abx_http_transfer *t = data;
    size_t n = size * count;

    t->active_at = uv_now(t->http->loop);
    if (t->cancelled)
        return CURL_WRITEFUNC_ERROR;
    if (t->paused) {
        t->held = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    t->body_bytes += n;
    if (t->max_body_bytes && t->body_bytes > t->max_body_bytes) {
        stop_with(t,
                  abx_error_new(ABX_ERR_TOO_LARGE, "the answer of '%s' is longer than %llu bytes",
                                t->server, (unsigned long long)t->max_body_bytes));
        return CURL_WRITEFUNC_ERROR;
    }
    if (t->on.on_body && n)
        t->on.on_body(t, (const uint8_t *)bytes, n, t->data);
    return n;
}

static size_t on_want_bytes(char *to, size_t size, size_t count, void *data)
{
    abx_http_transfer *t = data;
    size_t room = size * count, waiting = t->out.len - t->out_at;
    size_t n = waiting < room ? waiting : room;

    t->active_at = uv_now(t->http->loop);
    if (t->cancelled)
        return CURL_READFUNC_ABORT;
    if (n == 0) {
        if (t->out_ended || t->out_left == 0)
            return 0;
        t->starved = true;
        return CURL_READFUNC_PAUSE;
    }
    memcpy(to, t->out.data + t->out_at, n);
    t->out_at += n;
    waiting -= n;
    if (waiting == 0) {
        abx_buf_reset(&t->out);
        t->out_at = 0;
    }
    if (t->over_high && waiting <= ABX__SEND_LOW) {
        t->over_high = false;
        t->writable_due = true;
        abx__multi_pend(t);
    }
    return n;
}

static curl_socket_t on_open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address)
{
    abx_http_transfer *t = data;
    abx_error *err = NULL;

    (void)purpose;
    (void)address;
    int fd = t->http->options.dial(t->http->options.dial_data, &err);
    if (fd >= 0) {
        /* What an earlier attempt of the same request met does not count any more. */
        abx_error_free(ABX_TAKE(t->error));
        return fd;
    }
    stop_with(t, err ? err : abx_error_new(ABX_ERR_NETWORK, "cannot reach '%s'", t->server));
    return CURL_SOCKET_BAD;
}

static int on_socket_made(void *data, curl_socket_t fd, curlsocktype purpose)
{
    (void)data;
    (void)fd;
    (void)purpose;
    return CURL_SOCKOPT_ALREADY_CONNECTED;
}

/* --- setting up --------------------------------------------------------------------------------- */

static bool is_loopback(const char *host)
{
    size_t n = strlen(host);

    return strcasecmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "[::1]") == 0 || (n > 10 && strcasecmp(host + n - 10, ".localhost") == 0);
}

/* curl is about to shake hands: its context gets our authorities, and tells us what it thinks of the server's. */
static CURLcode on_context(CURL *easy, void *ctx, void *data)
{
    abx_http_transfer *t = data;

    (void)easy;
    if (!abx__trust_use(t->http->trust, ctx))
        return CURLE_OUT_OF_MEMORY;
    SSL_CTX_set_cert_verify_callback(ctx, abx__verify, &t->verdict);
    /* The connection may outlive t: nothing is verified again. */
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
    return CURLE_OK;
}

static int set_tls(abx_http_transfer *t, const char *host, abx_error **err)
{
    size_t n = strlen(host);

    if (!t->http->trust && abx__trust_open(&t->http->trust, err) < 0)
        return -1;
    t->host = host[0] == '[' ? abx_strndup(host + 1, n - 2) : abx_strdup(host);
    curl_easy_setopt(t->easy, CURLOPT_SSL_CTX_FUNCTION, on_context);
    curl_easy_setopt(t->easy, CURLOPT_SSL_CTX_DATA, t);
    return 0;
}

static int set_route(abx_http_transfer *t, const char *scheme, const char *host, abx_error **err)
{
    abx_http *http = t->http;
    CURL *easy = t->easy;

    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)http->options.connect_timeout_ms);
    if (http->options.dial) {
        /* A path stops curl from looking up the host; the socket itself comes from us. */
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, "dial");
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, t);
        curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_socket_made);
    } else if (http->connect_to) {
        curl_easy_setopt(easy, CURLOPT_CONNECT_TO, http->connect_to);
    }
    if (http->options.dial || http->options.no_proxy || is_loopback(host))
        curl_easy_setopt(easy, CURLOPT_PROXY, "");
    else
        curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    bool tls = strcasecmp(scheme, "https") == 0 || strcasecmp(scheme, "wss") == 0;
    return tls ? set_tls(t, host, err) : 0;
}

static int set_url(abx_http_transfer *t, const char *url, abx_error **err)
{
    static const char *const schemes[2][2] = {{"http", "https"}, {"ws", "wss"}};
    char *scheme = NULL, *host = NULL, *port = NULL;
    CURLU *u = curl_url();
    CURLUcode rc;
    int result = 0;

    ABX_CHECK(u);
    rc = curl_url_set(u, CURLUPART_URL, url, CURLU_PATH_AS_IS);
    if (rc == CURLUE_OK)
        rc = curl_url_get(u, CURLUPART_SCHEME, &scheme, 0);
    if (rc == CURLUE_OK)
        rc = curl_url_get(u, CURLUPART_HOST, &host, 0);
    curl_url_get(u, CURLUPART_PORT, &port, 0);
    int known = rc                                                                   ? -1
                : strcasecmp(scheme, "http") == 0 || strcasecmp(scheme, "ws") == 0   ? 0
                : strcasecmp(scheme, "https") == 0 || strcasecmp(scheme, "wss") == 0 ? 1
                                                                                     : -1;
    if (known < 0) {
        result = abx_fail(err, ABX_ERR_USAGE, "not a usable URL: %s",
                          rc ? curl_url_strerror(rc) : "neither http nor https");
    } else {
        t->server = abx_format("%s://%s%s%s", scheme, host, port ? ":" : "", port ? port : "");
        curl_url_set(u, CURLUPART_SCHEME, schemes[t->upgrade][known], 0);
        result = set_route(t, schemes[t->upgrade][known], host, err);
        /* curl keeps the handle's address, not a copy, so it gets text. */
        char *text = NULL;
        curl_url_get(u, CURLUPART_URL, &text, 0);
        curl_easy_setopt(t->easy, CURLOPT_URL, text);
        curl_free(text);
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(u);
    return result;
}

static void add_line(abx_http_transfer *t, const char *line)
{
    struct curl_slist *more = curl_slist_append(t->header_lines, line);

    ABX_CHECK(more);
    t->header_lines = more;
}

static bool is_named(const char *line, const char *name)
{
    size_t n = strlen(name);

    return strncasecmp(line, name, n) == 0 && line[n] == ':';
}

static int set_headers(abx_http_transfer *t, const abx_http_request *r, abx_error **err)
{
    bool type = false;

    for (size_t i = 0; i < r->header_count; i++) {
        const char *line = r->headers[i];
        const char *colon = strchr(line, ':');
        if (!colon || colon == line || strpbrk(line, "\r\n"))
            return abx_fail(err, ABX_ERR_USAGE, "a header of the request is malformed");
        if (is_named(line, "Host") || is_named(line, "Content-Length") ||
            is_named(line, "Transfer-Encoding"))
            continue;
        type = type || is_named(line, "Content-Type");
        if (colon[1 + strspn(colon + 1, " \t")]) {
            add_line(t, line);
        } else {
            /* curl spells an empty value with a semicolon */
            ABX_AUTO_FREE char *empty = abx_format("%.*s;", (int)(colon - line), line);
            add_line(t, empty);
        }
    }
    if (!type)
        add_line(t, "Content-Type:");
    add_line(t, "Expect:"); /* waiting for a 100 costs a second with servers that send none */
    curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->header_lines);
    return 0;
}

static void set_reader(abx_http_transfer *t, const abx_http_request *r, int64_t size)
{
    curl_easy_setopt(t->easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(t->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)size);
    curl_easy_setopt(t->easy, CURLOPT_READFUNCTION, on_want_bytes);
    curl_easy_setopt(t->easy, CURLOPT_READDATA, t);
    curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, r->method ? r->method : "GET");
}

static void set_body(abx_http_transfer *t, const abx_http_request *r)
{
    CURL *easy = t->easy;
    const char *method = r->method ? r->method : "GET";

    t->out_left = -1;
    abx_buf_init(&t->out, SIZE_MAX);
    if (r->body_len < SMALL_BUFFER && !r->body_stream) /* kept for as long as the answer takes */
        curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)SMALL_BUFFER);
    if (r->body_stream) {
        set_reader(t, r, r->body_size);
        t->out_left = r->body_size;
        return;
    }
    t->out_ended = true;
    if (r->once && !r->own_connection && r->body_len > 0) { /* curl cannot wind that back */
        ABX_CHECK(abx_buf_add(&t->out, r->body, r->body_len) == 0);
        set_reader(t, r, (int64_t)r->body_len);
        return;
    }
    bool plain = strcmp(method, "GET") == 0 || strcmp(method, "DELETE") == 0;
    if (strcmp(method, "HEAD") == 0) {
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
        return;
    }
    if (r->body_len || !plain) {
        t->body = abx_alloc(r->body_len + 1);
        if (r->body_len)
            memcpy(t->body, r->body, r->body_len);
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, t->body);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body_len);
    }
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
}

static void set_common(abx_http_transfer *t, const abx_http_request *r)
{
    CURL *easy = t->easy;

    curl_easy_setopt(easy, CURLOPT_PRIVATE, t);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t->error_text);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, t->upgrade ? "ws,wss" : "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, t->http->user_agent);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 64L * 1024);
    if (t->upgrade)
        curl_easy_setopt(easy, CURLOPT_WS_OPTIONS, CURLWS_RAW_MODE);
    if (r->timeout_ms)
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)r->timeout_ms);
    bool own = r->own_connection || r->body_stream;
    /* Without a body nothing but a new connection keeps curl from sending it again. */
    if (own || (r->once && r->body_len == 0))
        curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    if (own) /* else each would leave one more that is kept */
        curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
}

static void transfer_free(abx_http_transfer *t)
{
    abx_http_headers_clear(&t->headers);
    abx_buf_clear(&t->out);
    abx_error_free(t->error);
    free(t->server);
    free(t->reason);
    free(t->host);
    abx__verdict_clear(&t->verdict);
    free(t->body);
    free(t);
}

static void drop_handle(abx_http_transfer *t)
{
    if (t->added)
        curl_multi_remove_handle(t->http->multi, t->easy);
    curl_easy_cleanup(t->easy);
    curl_slist_free_all(t->header_lines);
    t->easy = NULL;
    t->header_lines = NULL;
    t->added = false;
}

int abx__transfer_new(abx_http *http, const abx_http_request *request, bool upgrade,
                      abx_http_transfer **out, abx_error **err)
{
    abx_http_transfer *t = ABX_NEW(abx_http_transfer);

    t->http = http;
    t->upgrade = upgrade;
    t->max_body_bytes = request->max_body_bytes;
    t->easy = curl_easy_init();
    ABX_CHECK(t->easy);
    set_common(t, request);
    set_body(t, request);
    if (set_url(t, request->url, err) < 0 || set_headers(t, request, err) < 0) {
        drop_handle(t);
        transfer_free(t);
        return -1;
    }
    *out = t;
    return 0;
}

/* --- the idle clock ----------------------------------------------------------------------------- */

static void on_idle(uv_timer_t *timer)
{
    abx_http_transfer *t = timer->data;
    uint64_t quiet = uv_now(t->http->loop) - t->active_at;

    if (t->paused || quiet < t->idle_ms) {
        uv_timer_start(timer, on_idle, t->paused ? t->idle_ms : t->idle_ms - quiet, 0);
        return;
    }
    stop_with(t, abx_error_new(ABX_ERR_TIMEOUT, "'%s' sent nothing for %llu ms", t->server,
                               (unsigned long long)t->idle_ms));
    t->cancelled = true;
    abx__multi_pend(t);
}

void abx__transfer_start_clock(abx_http_transfer *t, uint64_t idle_ms)
{
    t->active_at = uv_now(t->http->loop);
    if (!idle_ms)
        return;
    t->idle_ms = idle_ms;
    t->idle_open = true;
    t->http->open_handles++;
    uv_timer_init(t->http->loop, &t->idle);
    t->idle.data = t;
    uv_timer_start(&t->idle, on_idle, idle_ms, 0);
}

static void on_idle_closed(uv_handle_t *h)
{
    abx_http_transfer *t = h->data;
    abx_http *http = t->http;

    transfer_free(t);
    abx__multi_handle_closed(http);
}

/* --- the end ------------------------------------------------------------------------------------ */

static abx_err_id id_of(CURLcode code)
{
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT: return ABX_ERR_TIMEOUT;
    case CURLE_PARTIAL_FILE:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_HTTP_RETURNED_ERROR:
    case CURLE_TOO_MANY_REDIRECTS: return ABX_ERR_BACKEND_ANSWER;
    default: return ABX_ERR_NETWORK;
    }
}

static abx_error *no_tls(const abx_http_transfer *t)
{
    abx_error *e =
        abx_error_new(ABX_ERR_NETWORK, "cannot reach '%s': it does not speak TLS", t->server);

    e->retryable = ABX_RETRY_NO;
    abx_hint(&e, "look whether the URL should begin with http:// instead");
    return e;
}

/* curl's words in the form of ours: small first letter, no full stop. */
static abx_error *error_of(abx_http_transfer *t, CURLcode code)
{
    abx_err_id id = id_of(code);
    abx_error *untrusted = code == CURLE_PEER_FAILED_VERIFICATION && t->host
                               ? abx__verify_error(&t->verdict, t->http->trust, t->server, t->host)
                               : NULL;
    if (untrusted)
        return untrusted;
    char *why = t->error_text[0] ? t->error_text : NULL;
    char text[CURL_ERROR_SIZE];

    snprintf(text, sizeof text, "%s", why ? why : curl_easy_strerror(code));
    if (isupper((unsigned char)text[0]) && islower((unsigned char)text[1]))
        text[0] = (char)tolower((unsigned char)text[0]);
    size_t n = strlen(text);
    while (n && (text[n - 1] == '.' || text[n - 1] == '\n'))
        text[--n] = 0;
    if (code == CURLE_SSL_CONNECT_ERROR &&
        (strstr(text, "wrong version number") || strstr(text, "packet length too long")))
        return no_tls(t);
    if (code == CURLE_SEND_FAIL_REWIND) /* curl would have sent it again */
        return abx_error_new(id, "'%s' closed the connection before it answered", t->server);
    if (code == CURLE_TOO_LARGE && !t->head_done) /* a single line, over a limit of curl's */
        return abx_error_new(ABX_ERR_TOO_LARGE, "the head of the answer of '%s' is too long",
                             t->server);
    if (id == ABX_ERR_BACKEND_ANSWER)
        return abx_error_new(id, "unusable answer of '%s': %s", t->server, text);
    if (id == ABX_ERR_TIMEOUT)
        return abx_error_new(id, "no answer of '%s' in time: %s", t->server, text);
    bool reached = t->head_done || code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR ||
                   code == CURLE_SEND_ERROR;
    return abx_error_new(id, reached ? "connection to '%s' broke: %s" : "cannot reach '%s': %s",
                         t->server, text);
}

static void unlink_transfer(abx_http_transfer *t)
{
    abx_http *http = t->http;

    if (t->prev)
        t->prev->next = t->next;
    else
        http->transfers = t->next;
    if (t->next)
        t->next->prev = t->prev;
    for (abx_http_transfer **p = &http->pending; t->is_pending && *p; p = &(*p)->next_pending) {
        if (*p == t) {
            *p = t->next_pending;
            break;
        }
    }
    if (!http->transfers && !http->closing)
        uv_unref((uv_handle_t *)&http->prepare);
}

void abx__transfer_finish(abx_http_transfer *t, CURLcode code)
{
    ABX_AUTO_ERROR error = NULL;
    long sent = 0, system = 0;
    curl_off_t connected = 0;

    curl_easy_getinfo(t->easy, CURLINFO_REQUEST_SIZE, &sent);
    curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &system);
    curl_easy_getinfo(t->easy, CURLINFO_CONNECT_TIME_T, &connected);
    t->sent = sent > 0;
    t->code = code;
    t->system = (int)system;
    t->connected = connected > 0;
    drop_handle(t);
    unlink_transfer(t);
    if (t->error)
        error = ABX_TAKE(t->error);
    else if (t->cancelled)
        error = abx_error_new(ABX_ERR_CANCELLED, "the request to '%s' was cancelled", t->server);
    else if (code != CURLE_OK)
        error = error_of(t, code);
    else if (!t->head_done)
        error = abx_error_new(ABX_ERR_BACKEND_ANSWER,
                              "the answer of '%s' ended before its head did", t->server);
    if (t->on.on_end)
        t->on.on_end(t, error, t->data);
    if (t->idle_open)
        uv_close((uv_handle_t *)&t->idle, on_idle_closed);
    else
        transfer_free(t);
}

void abx__transfer_settle(abx_http_transfer *t)
{
    if (t->cancelled) {
        abx__transfer_finish(t, CURLE_ABORTED_BY_CALLBACK);
        return;
    }
    if (!t->added) {
        t->added = true;
        if (curl_multi_add_handle(t->http->multi, t->easy) != CURLM_OK) {
            t->added = false;
            abx__transfer_finish(t, CURLE_FAILED_INIT);
            return;
        }
        t->http->started = true;
    }
    if (t->writable_due) {
        t->writable_due = false;
        if (!t->out_ended && t->on.on_writable)
            t->on.on_writable(t, t->data);
    }
    if (t->resume_due && !t->cancelled) {
        int keep = 0;
        t->resume_due = false;
        if (t->held && t->paused)
            keep |= CURLPAUSE_RECV;
        else
            t->held = false;
        if (t->starved && t->out.len == t->out_at && !t->out_ended)
            keep |= CURLPAUSE_SEND;
        else
            t->starved = false;
        curl_easy_pause(t->easy, keep);
    }
}
