#include <stdlib.h>

#include "net/http_client_inner.h"

/* One socket that curl wants watched. */
typedef struct watch {
    uv_poll_t poll;
    abx_http *http;
    curl_socket_t fd;
} watch;

void abx__multi_handle_closed(abx_http *http)
{
    if (--http->open_handles > 0)
        return;
    void (*closed)(void *) = http->closed;
    void *data = http->closed_data;
    free(http->user_agent);
    curl_slist_free_all(http->connect_to);
    abx__trust_free(http->trust);
    free(http);
    curl_global_cleanup();
    if (closed)
        closed(data);
}

/* Hand out the ends that curl has noted. on_end may start and cancel transfers, so nothing is kept
 * across it. */
static void reap(abx_http *http)
{
    CURLMsg *m;
    int left;

    while (!http->closed_multi && (m = curl_multi_info_read(http->multi, &left))) {
        abx_http_transfer *t = NULL;
        if (m->msg != CURLMSG_DONE)
            continue;
        CURLcode code = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&t);
        abx__transfer_finish(t, code);
    }
}

static void on_socket(uv_poll_t *p, int status, int events)
{
    watch *w = p->data;
    abx_http *http = w->http;
    int flags = 0, running;

    if (status < 0)
        flags = CURL_CSELECT_ERR;
    if (events & UV_READABLE)
        flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    curl_multi_socket_action(http->multi, w->fd, flags, &running);
    reap(http);
}

static void on_timer(uv_timer_t *timer)
{
    abx_http *http = timer->data;
    int running;

    curl_multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    reap(http);
}

static int set_timer(CURLM *multi, long timeout_ms, void *data)
{
    abx_http *http = data;

    (void)multi;
    if (timeout_ms < 0 || http->closed_multi)
        uv_timer_stop(&http->timer);
    else
        uv_timer_start(&http->timer, on_timer, (uint64_t)timeout_ms, 0);
    return 0;
}

static void on_watch_closed(uv_handle_t *h)
{
    watch *w = h->data;
    abx_http *http = w->http;

    free(w);
    abx__multi_handle_closed(http);
}

static watch *watch_open(abx_http *http, curl_socket_t fd)
{
    watch *w = ABX_NEW(watch);

    if (uv_poll_init(http->loop, &w->poll, fd) < 0) {
        free(w);
        return NULL;
    }
    w->http = http;
    w->fd = fd;
    w->poll.data = w;
    http->open_handles++;
    curl_multi_assign(http->multi, fd, w);
    return w;
}

static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *data, void *of_socket)
{
    abx_http *http = data;
    watch *w = of_socket;
    int mask = 0;

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (w) {
            curl_multi_assign(http->multi, fd, NULL);
            uv_poll_stop(&w->poll);
            uv_close((uv_handle_t *)&w->poll, on_watch_closed);
        }
        return 0;
    }
    if (!w && !(w = watch_open(http, fd)))
        return -1;
    if (what & CURL_POLL_IN)
        mask |= UV_READABLE;
    if (what & CURL_POLL_OUT)
        mask |= UV_WRITABLE;
    uv_poll_start(&w->poll, mask, on_socket);
    return 0;
}

/* --- the pending list --------------------------------------------------------------------------- */

static void on_turn(uv_idle_t *turn)
{
    uv_idle_stop(turn);
}

/* Whoever asks the loop how long it may sleep must hear that it may not: the list is run in the next turn. */
void abx__multi_want_turn(abx_http *http)
{
    if (!http->closed_multi)
        uv_idle_start(&http->turn, on_turn);
}

void abx__multi_pend(abx_http_transfer *t)
{
    if (t->is_pending)
        return;
    t->is_pending = true;
    t->next_pending = t->http->pending;
    t->http->pending = t;
    abx__multi_want_turn(t->http);
}

static abx_http_transfer *take_reversed(abx_http *http)
{
    abx_http_transfer *list = NULL, *each = ABX_TAKE(http->pending);

    while (each) {
        abx_http_transfer *next = each->next_pending;
        each->next_pending = list;
        list = each;
        each = next;
    }
    return list;
}

/* A handler may pend any transfer again, but none of this list ends before its turn: ends come from curl,
 * which is not running here, or from the marks. */
static void settle_all(abx_http *http)
{
    abx_http_transfer *t = take_reversed(http);

    while (t) {
        abx_http_transfer *next = t->next_pending;
        t->is_pending = false;
        t->next_pending = NULL;
        abx__transfer_settle(t);
        t = next;
    }
}

static void run_pending(abx_http *http)
{
    while (http->pending) {
        settle_all(http);
        if (http->started) {
            /* Begin now instead of after one more turn of the loop. */
            http->started = false;
            int running;
            curl_multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        }
        reap(http);
    }
    if (http->closing && !http->transfers)
        abx__multi_close(http);
}

static void on_prepare(uv_prepare_t *prepare)
{
    abx_http *http = prepare->data;

    if (!http->pending && !http->closing)
        return;
    /* Whoever turns the loop until a handler has run must not be caught in a wait. */
    uv_idle_start(&http->turn, on_turn);
    run_pending(http);
}

static void on_check(uv_check_t *check)
{
    abx_http *http = check->data;

    run_pending(http);
    if (!http->pending)
        uv_idle_stop(&http->turn);
}

int abx__multi_open(abx_http *http, abx_error **err)
{
    http->multi = curl_multi_init();
    if (!http->multi)
        return abx_fail(err, ABX_ERR_INTERNAL, "cannot set up the HTTP client");
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
    if (http->options.max_connections)
        curl_multi_setopt(http->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS,
                          (long)http->options.max_connections);
    uv_timer_init(http->loop, &http->timer);
    uv_prepare_init(http->loop, &http->prepare);
    uv_check_init(http->loop, &http->check);
    uv_idle_init(http->loop, &http->turn);
    http->timer.data = http->prepare.data = http->check.data = http->turn.data = http;
    uv_prepare_start(&http->prepare, on_prepare);
    uv_check_start(&http->check, on_check);
    uv_unref((uv_handle_t *)&http->check);
    /* Counts for the loop's life only while there are transfers: abx__http_start, abx__transfer_finish. */
    uv_unref((uv_handle_t *)&http->prepare);
    http->open_handles = 4;
    return 0;
}

static void on_rest_closed(uv_handle_t *h)
{
    abx__multi_handle_closed(h->data);
}

void abx__multi_close(abx_http *http)
{
    if (http->closed_multi)
        return;
    http->closed_multi = true;
    curl_multi_cleanup(http->multi);
    uv_close((uv_handle_t *)&http->timer, on_rest_closed);
    uv_close((uv_handle_t *)&http->prepare, on_rest_closed);
    uv_close((uv_handle_t *)&http->check, on_rest_closed);
    uv_close((uv_handle_t *)&http->turn, on_rest_closed);
}
