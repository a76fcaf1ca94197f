/* A small application on our HTTP server, and a loop to run it on: shared by the tests of server and
 * client. Each route shows one behaviour. */
#ifndef TESTS_NET_APP_H
#define TESTS_NET_APP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/mem.h"
#include "net/http_server.h"

typedef struct app {
    uv_loop_t loop;
    abx_http_server *server;
    int closed;   /* exchanges that ended */
    int complete; /* … with their whole answer */
    int peer_eofs;
    int gone; /* adopted connections that ended */
    int server_closed;
    uint64_t uploaded;           /* bytes that /upload saw */
    uint64_t streamed;           /* bytes that /stream wrote */
    size_t most_pending;         /* greatest backlog of an answer */
    void (*on_full)(void *data); /* may be NULL: a write of /stream was told to hold */
    void *full_data;
    abx_exchange *held; /* of /hold, /hold-body: waits for the test */
    int ws_code;
    int ws_messages;
    size_t ws_max;
    char log[4096]; /* methods and paths in order */
} app;

/* What the n-th byte of a stream is. */
static inline uint8_t app_byte(uint64_t at)
{
    return (uint8_t)(at * 31 + (at >> 8) * 7);
}

typedef struct app_stream {
    app *a;
    uint64_t left, at;
} app_stream;

static void app_stream_more(abx_exchange *x, void *data)
{
    app_stream *s = data;
    uint8_t chunk[16000];

    while (s->left) {
        size_t n = s->left < sizeof chunk ? (size_t)s->left : sizeof chunk;
        for (size_t i = 0; i < n; i++)
            chunk[i] = app_byte(s->at + i);
        s->at += n;
        s->left -= n;
        s->a->streamed += n;
        int go = abx_exchange_write(x, chunk, n);
        if (abx_exchange_pending(x) > s->a->most_pending)
            s->a->most_pending = abx_exchange_pending(x);
        if (!go) {
            if (s->a->on_full)
                s->a->on_full(s->a->full_data);
            return;
        }
    }
    abx_exchange_end(x);
}

static void app_note_close(app *a, bool complete)
{
    a->closed++;
    a->complete += complete;
}

static void app_stream_close(abx_exchange *x, bool complete, void *data)
{
    app_stream *s = data;

    (void)x;
    app_note_close(s->a, complete);
    free(s);
}

static void app_on_close(abx_exchange *x, bool complete, void *data)
{
    app *a = data;

    if (a->held == x)
        a->held = NULL;
    app_note_close(a, complete);
}

static void app_on_peer_eof(abx_exchange *x, void *data)
{
    (void)x;
    ((app *)data)->peer_eofs++;
}

static void app_upload_body(abx_exchange *x, const uint8_t *bytes, size_t n, void *data)
{
    app *a = data;

    (void)x;
    for (size_t i = 0; i < n; i++)
        assert_int_equal(bytes[i], app_byte(a->uploaded + i));
    a->uploaded += n;
}

static void app_upload_end(abx_exchange *x, void *data)
{
    app *a = data;
    char text[32];
    int n = snprintf(text, sizeof text, "%llu", (unsigned long long)a->uploaded);

    abx_exchange_reply(x, 200, "text/plain", text, (size_t)n);
}

static void app_collected(abx_exchange *x, const uint8_t *bytes, size_t n, void *data)
{
    (void)data;
    assert_int_equal(bytes[n], 0);
    abx_exchange_reply(x, 200, "application/octet-stream", bytes, n);
}

static void app_ws_message(abx_exchange *x, bool text, const uint8_t *bytes, size_t n, void *data)
{
    app *a = data;

    a->ws_messages++;
    if (text && n == 3 && memcmp(bytes, "bye", 3) == 0)
        abx_ws_close(x, 4001, "as you wish");
    else
        abx_ws_send(x, text, bytes, n);
}

static void app_ws_close(abx_exchange *x, int code, void *data)
{
    app *a = data;

    (void)x;
    a->closed++;
    a->ws_code = code;
}

static void app_request(abx_exchange *x, void *data)
{
    app *a = data;
    const char *path = abx_exchange_path(x);
    abx_exchange_handlers on = {.on_close = app_on_close, .on_peer_eof = app_on_peer_eof};
    size_t used = strlen(a->log);

    snprintf(a->log + used, sizeof a->log - used, "%s %s;", abx_exchange_method(x), path);
    abx_exchange_handle(x, &on, a);
    if (strcmp(path, "/hello") == 0) {
        abx_exchange_reply(x, 200, "text/plain", "hello", 5);
    } else if (strcmp(path, "/echo") == 0) {
        abx_exchange_collect(x, 1 << 20, app_collected, a);
    } else if (strcmp(path, "/header") == 0) {
        const char *v = abx_exchange_header(x, "x-test");
        abx_exchange_reply(x, v ? 200 : 404, NULL, v ? v : "", v ? strlen(v) : 0);
    } else if (strcmp(path, "/query") == 0) {
        ABX_AUTO_FREE char *v = abx_exchange_query_get(x, "k");
        abx_exchange_reply(x, v ? 200 : 400, NULL, v ? v : "", v ? strlen(v) : 0);
    } else if (strcmp(path, "/empty") == 0) {
        abx_exchange_reply(x, 204, NULL, NULL, 0);
    } else if (strcmp(path, "/parts") == 0) {
        abx_exchange_head(x, 200, NULL, 0, 6);
        abx_exchange_write(x, "abc", 3);
        abx_exchange_write(x, "defghi", 6); /* three more than announced */
        abx_exchange_end(x);
    } else if (strcmp(path, "/short") == 0) {
        abx_exchange_head(x, 200, NULL, 0, 10);
        abx_exchange_write(x, "abc", 3);
        abx_exchange_end(x);
    } else if (strcmp(path, "/abort") == 0) {
        abx_exchange_head(x, 200, NULL, 0, -1);
        abx_exchange_write(x, "abc", 3);
        abx_exchange_abort(x);
    } else if (strcmp(path, "/hold") == 0) {
        a->held = x;
    } else if (strcmp(path, "/hold-body") == 0) {
        a->held = x;
        on.on_body = app_upload_body;
        on.on_body_end = app_upload_end;
        abx_exchange_handle(x, &on, a);
        abx_exchange_limit_body(x, UINT64_MAX);
        abx_exchange_pause(x);
    } else if (strcmp(path, "/upload") == 0) {
        on.on_body = app_upload_body;
        on.on_body_end = app_upload_end;
        abx_exchange_handle(x, &on, a);
        abx_exchange_limit_body(x, UINT64_MAX);
    } else if (strcmp(path, "/small") == 0) {
        on.on_body = app_upload_body;
        on.on_body_end = app_upload_end;
        abx_exchange_handle(x, &on, a);
        abx_exchange_limit_body(x, 10);
    } else if (strcmp(path, "/stream") == 0) {
        ABX_AUTO_FREE char *n = abx_exchange_query_get(x, "n");
        app_stream *s = ABX_NEW(app_stream);
        s->a = a;
        s->left = n ? strtoull(n, NULL, 10) : 0;
        abx_exchange_handlers stream = {.on_writable = app_stream_more,
                                        .on_close = app_stream_close};
        abx_exchange_handle(x, &stream, s);
        abx_exchange_head(x, 200, NULL, 0, -1);
        app_stream_more(x, s);
    } else if (strcmp(path, "/sse") == 0) {
        abx_sse_start(x);
        abx_sse_send(x, "one", "7", "first\nsecond", 12);
        abx_sse_comment(x, "still here");
        a->held = x;
    } else if (strcmp(path, "/ws") == 0) {
        abx_ws_handlers ws = {.on_message = app_ws_message, .on_close = app_ws_close};
        abx_exchange_upgrade(x, NULL, a->ws_max ? a->ws_max : 1 << 20, &ws, a);
    } else {
        abx_exchange_reply(x, 404, NULL, NULL, 0);
    }
}

static inline void app_gone(void *data)
{
    ((app *)data)->gone++;
}

static void app_open(app *a, const abx_http_server_options *options)
{
    ABX_AUTO_ERROR err = NULL;

    memset(a, 0, sizeof *a);
    assert_int_equal(uv_loop_init(&a->loop), 0);
    assert_int_equal(abx_http_server_open(&a->loop, options, app_request, a, &a->server, &err), 0);
}

static void app_closed(void *data)
{
    ((app *)data)->server_closed++;
}

/* Ends with the proof that nothing is left on the loop. */
static void app_close(app *a)
{
    if (a->server)
        abx_http_server_close(a->server, app_closed, a);
    uv_run(&a->loop, UV_RUN_DEFAULT);
    if (a->server)
        assert_int_equal(a->server_closed, 1);
    assert_int_equal(uv_loop_close(&a->loop), 0);
}

/* One turn that never waits longer than a millisecond. */
static inline void app_turn(app *a)
{
    uv_run(&a->loop, UV_RUN_NOWAIT);
}

#endif
