/* One GET through the HTTP client, in a program that is linked as the released one is: OpenSSL's tables wait for
 * their first use (src/base/openssl_tables.h). Prints the status and the body. Usage: tls_get URL */
#include <stdio.h>
#include <uv.h>

#include "net/http_client.h"

static int rc = 1;

static void on_head(abx_http_transfer *t, int status, const abx_http_headers *headers, void *data)
{
    printf("%d\n", status);
}

static void on_body(abx_http_transfer *t, const uint8_t *bytes, size_t n, void *data)
{
    fwrite(bytes, 1, n, stdout);
}

static void on_end(abx_http_transfer *t, const abx_error *err, void *data)
{
    abx_http *http = *(abx_http **)data;
    rc = err ? 1 : 0;
    if (err)
        fprintf(stderr, "%s\n", err->message);
    abx_http_close(http, NULL, NULL);
}

int main(int argc, char **argv)
{
    uv_loop_t loop;
    abx_http *http = NULL;
    abx_http_transfer *t;
    abx_error *err = NULL;
    const abx_http_handlers handlers = {.on_head = on_head, .on_body = on_body, .on_end = on_end};
    const abx_http_options options = {.no_proxy = true};
    const abx_http_request request = {.method = "GET", .url = argv[argc - 1], .timeout_ms = 20000};
    if (uv_loop_init(&loop) != 0 || abx_http_open(&loop, &options, &http, &err) < 0 ||
        abx_http_start(http, &request, &handlers, &http, &t, &err) < 0) {
        fprintf(stderr, "%s\n", abx_error_text(err));
        return 2;
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    return rc;
}
