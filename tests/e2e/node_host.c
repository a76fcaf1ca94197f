/* A long-lived program with the house inside, as libabx will be. It reads one call a line, "NUMBER PROVIDER METHOD PARAMS", starts it at
 * once, and answers each, in whatever order they end, with one line of JSON: {"n", "result" | "error": {"code", "message"}, "stdout": bytes,
 * "head": the first of them}. Usage: node_host PATH_OF_ABX */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "adapters/registry.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "host/config.h"
#include "host/host.h"
#include "wire/lines.h"

typedef struct rig {
    uv_loop_t loop;
    abx_host *host;
    abx_lines lines;
    uv_pipe_t in;
    bool over, closed;
    unsigned open;
    char buffer[65536];
} rig;

typedef struct asked {
    rig *rig;
    long n;
    size_t bytes;
    char head[64];
} asked;

static void answer(asked *a, yyjson_val *result, const abx_error *err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_obj_add_int(d, root, "n", a->n);
    if (err) {
        yyjson_mut_val *e = yyjson_mut_obj_add_obj(d, root, "error");
        abx_mut_str(d, e, "code", abx_error_code(err));
        abx_mut_str(d, e, "message", abx_error_text(err));
    } else {
        abx_mut_val(d, root, "result", result);
    }
    yyjson_mut_obj_add_uint(d, root, "stdout", a->bytes);
    abx_mut_str(d, root, "head", a->head);
    char *text = yyjson_mut_write(d, 0, NULL);
    ABX_CHECK(text != NULL);
    puts(text);
    free(text);
    fflush(stdout);
    a->rig->open--;
    free(a);
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    asked *a = data;
    size_t at = strlen(a->head), room = sizeof(a->head) - 1 - at;
    (void)c;
    if (channel != ABX_CH_STDOUT)
        return;
    memcpy(a->head + at, bytes, n < room ? n : room);
    a->bytes += n;
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    answer(data, result, err);
}

static int on_line(const char *line, size_t n, void *user)
{
    rig *r = user;
    char provider[64], method[64];
    int at = 0;
    ABX_AUTO_ERROR err = NULL;
    ABX_AUTO_FREE char *text = abx_strndup(line, n);
    asked *a = ABX_NEW(asked);
    a->rig = r;
    if (sscanf(text, "%ld %63s %63s %n", &a->n, provider, method, &at) < 3 || at == 0)
        exit(2);
    const abx_op_row *op = abx_op_find(method);
    yyjson_doc *params = yyjson_read(text + at, strlen(text + at), 0);
    if (!op || !params)
        exit(2);
    abx_call_handlers handlers = {.on_chunk = on_chunk, .on_end = on_end};
    abx_call *c = abx_call_new(&r->loop, op->id, params, &handlers, a);
    r->open++;
    if (abx_host_start_at(r->host, provider, c, &err) < 0) {
        abx_call_discard(c);
        answer(a, NULL, err);
    }
    return 0;
}

static void on_buffer(uv_handle_t *h, size_t wanted, uv_buf_t *buf)
{
    rig *r = h->data;
    (void)wanted;
    *buf = uv_buf_init(r->buffer, sizeof r->buffer);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    rig *r = s->data;
    ABX_AUTO_ERROR err = NULL;
    if (n > 0 && abx_lines_feed(&r->lines, buf->base, (size_t)n, NULL, &err) == 0)
        return;
    if (n != 0) {
        r->over = true;
        uv_close((uv_handle_t *)s, NULL);
    }
}

static void on_closed(void *data)
{
    *(bool *)data = true;
}

int main(int argc, char **argv)
{
    static rig r;
    abx_error *err = NULL;
    abx_config *config = NULL;
    char *home = abx_home_open(NULL, &err);
    abx_log log = {0};
    const char *const env[] = {NULL};
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&r.loop);
    if (argc != 2 || !home ||
        abx_config_open(&(abx_config_options){.home = home, .env = env}, &config, &err) < 0 ||
        abx_host_open(&(abx_host_options){.loop = &r.loop,
                                          .home = home,
                                          .config = config,
                                          .adapters = abx_adapters,
                                          .self = argv[1],
                                          .exact_ids = true,
                                          .log = &log},
                      &r.host, &err) < 0) {
        fprintf(stderr, "%s\n", abx_error_text(err));
        return 2;
    }
    abx_lines_init(&r.lines, 1 << 20, on_line, &r);
    uv_pipe_init(&r.loop, &r.in, 0);
    r.in.data = &r;
    if (uv_pipe_open(&r.in, 0) != 0 || uv_read_start((uv_stream_t *)&r.in, on_buffer, on_read) != 0)
        return 2;
    while (!r.over || r.open > 0)
        uv_run(&r.loop, UV_RUN_ONCE);
    abx_host_close(r.host, on_closed, &r.closed);
    while (!r.closed || uv_run(&r.loop, UV_RUN_NOWAIT))
        uv_run(&r.loop, UV_RUN_ONCE);
    abx_config_free(config);
    abx_lines_clear(&r.lines);
    free(home);
    return uv_loop_close(&r.loop) == 0 ? 0 : 3;
}
