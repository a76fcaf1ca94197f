/* Any bytes as what a peer sends to the HTTP server: requests, bodies, WebSocket frames. The first byte says in
 * what pieces they arrive. The server must answer, refuse or close, and forget the connection afterwards. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/http_server.h"

static uv_loop_t loop;
static abx_http_server *server;

static void on_message(abx_exchange *x, bool text, const uint8_t *bytes, size_t n, void *data)
{
    abx_ws_send(x, text, bytes, n);
}

static void on_collected(abx_exchange *x, const uint8_t *bytes, size_t n, void *data)
{
    ABX_CHECK(bytes[n] == 0);
    abx_exchange_reply(x, 200, "text/plain", bytes, n);
}

static void on_body(abx_exchange *x, const uint8_t *bytes, size_t n, void *data)
{
    abx_exchange_write(x, bytes, n);
    if (n % 3 == 0) {
        abx_exchange_pause(x);
        abx_exchange_resume(x);
    }
}

static void on_body_end(abx_exchange *x, void *data)
{
    abx_exchange_end(x);
}

static void on_request(abx_exchange *x, void *data)
{
    static const abx_ws_handlers ws = {.on_message = on_message};
    static const abx_exchange_handlers echo = {.on_body = on_body, .on_body_end = on_body_end};
    const abx_http_headers *h = abx_exchange_headers(x);
    size_t total = strlen(abx_exchange_method(x)) + strlen(abx_exchange_path(x));

    for (size_t i = 0; i < h->count; i++)
        total += strlen(h->items[i].name) + strlen(h->items[i].value);
    free(abx_exchange_query_get(x, "k"));
    if (abx_exchange_wants_ws(x)) {
        abx_exchange_upgrade(x, NULL, 1000, &ws, NULL);
        return;
    }
    switch (total % 4) {
    case 0: abx_exchange_reply(x, 200, "text/plain", "hello", 5); break;
    case 1: abx_exchange_collect(x, 1000, on_collected, NULL); break;
    case 2:
        abx_exchange_handle(x, &echo, NULL);
        abx_exchange_head(x, 200, NULL, 0, -1);
        break;
    default:
        abx_sse_start(x);
        abx_sse_send(x, "e", "1", "data", 4);
        abx_exchange_end(x);
    }
}

static void turn(int fd)
{
    char buf[4096];

    uv_run(&loop, UV_RUN_NOWAIT);
    while (recv(fd, buf, sizeof buf, MSG_DONTWAIT) > 0)
        ;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const abx_http_server_options options = {.max_head_bytes = 4096, .max_headers = 20};

    uv_loop_init(&loop);
    return abx_http_server_open(&loop, &options, on_request, NULL, &server, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int pair[2];

    if (size < 1 || size > 60000)
        return 0;
    size_t step = data[0] ? data[0] : size;
    ABX_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    ABX_CHECK(abx_http_server_adopt(server, pair[0], NULL, NULL, NULL) == 0);
    for (size_t at = 1; at < size; at += step) {
        size_t n = size - at < step ? size - at : step;
        if (send(pair[1], data + at, n, MSG_NOSIGNAL) != (ssize_t)n)
            break; /* closed by the server */
        turn(pair[1]);
    }
    if (size % 2) {
        shutdown(pair[1], SHUT_WR);
        turn(pair[1]);
    }
    close(pair[1]);
    for (int i = 0; i < 10 && abx_http_server_connections(server); i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    ABX_CHECK(abx_http_server_connections(server) == 0 && abx_http_server_exchanges(server) == 0);
    return 0;
}
