/* Our HTTP server with the smallest useful answer, for wrk. Prints its port, with a certificate and its key (PEM files) on a
 * second line that of TLS; ends when stdin closes. Usage: http_server_bench [CERTIFICATE KEY] */
#include <stdio.h>
#include <unistd.h>
#include <uv.h>

#include "base/file.h"
#include "net/http_server.h"

static void on_request(abx_exchange *x, void *data)
{
    static const char body[] = "{\"status\":\"ok\"}";

    (void)data;
    abx_exchange_reply(x, 200, "application/json", body, sizeof body - 1);
}

static void on_stdin(uv_poll_t *p, int status, int events)
{
    char byte;

    (void)status;
    (void)events;
    if (read(0, &byte, 1) > 0)
        return;
    uv_close((uv_handle_t *)p, NULL);
    abx_http_server_close(p->data, NULL, NULL);
}

static abx_tls *serve_tls(abx_http_server *server, const char *certificate, const char *key,
                          abx_error **err)
{
    ABX_AUTO_BUF cert = ABX_BUF(100000), secret = ABX_BUF(100000);
    abx_tls *tls = abx_tls_new();
    int port;

    if (abx_read_file(certificate, 100000, &cert, err) != 0 ||
        abx_read_file(key, 100000, &secret, err) != 0 ||
        abx_tls_add(tls, cert.data, cert.len, secret.data, secret.len, err) < 0 ||
        abx_http_server_listen_tls(server, "127.0.0.1", 0, tls, &port, err) < 0) {
        abx_tls_free(tls);
        return NULL;
    }
    printf("%d\n", port);
    return tls;
}

int main(int argc, char **argv)
{
    const abx_http_server_options options = {.awake = true}; /* as the engine has it */
    abx_tls *tls = NULL;
    uv_loop_t loop;
    abx_http_server *server;
    abx_error *err = NULL;
    uv_poll_t input;
    int port = 0;

    uv_loop_init(&loop);
    if (abx_http_server_open(&loop, &options, on_request, NULL, &server, &err) < 0 ||
        abx_http_server_listen_tcp(server, "127.0.0.1", 0, &port, &err) < 0) {
        fprintf(stderr, "%s\n", abx_error_text(err));
        return 1;
    }
    printf("%d\n", port);
    if (argc == 3 && !(tls = serve_tls(server, argv[1], argv[2], &err))) {
        fprintf(stderr, "%s\n", abx_error_text(err));
        return 1;
    }
    fflush(stdout);
    uv_poll_init(&loop, &input, 0);
    input.data = server;
    uv_poll_start(&input, UV_READABLE, on_stdin);
    uv_run(&loop, UV_RUN_DEFAULT);
    abx_tls_free(tls);
    return uv_loop_close(&loop) == 0 ? 0 : 1;
}
