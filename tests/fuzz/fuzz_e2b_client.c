/* The client of envd against a server that answers anything: each operation ends exactly once, with a result or an
 * error, and nothing stays behind. The first byte chooses the operation, codec and dialect; each connection gets
 * the rest, then its end. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "e2b/client.h"
#include "ops/call_host.h"

#define MAX_CONNS 8

typedef struct world {
    uv_loop_t loop;
    const uint8_t *answer;
    size_t n;
    int peers[MAX_CONNS];
    int count;
    int ends;
} world;

static const struct {
    const char *method, *params;
} calls[] = {
    {"process.start", "{\"cmd\":[\"x\"],\"timeoutMs\":5}"},
    {"process.start", "{\"cmd\":[\"x\"],\"input\":{\"text\":\"hello\"}}"},
    {"process.start", "{\"cmd\":[\"x\"],\"background\":true}"},
    {"process.attach", "{\"processId\":\"7\",\"follow\":false}"},
    {"process.attach", "{\"processId\":\"7\"}"},
    {"process.list", "{}"},
    {"process.signal", "{\"processId\":\"7\",\"signal\":\"9\"}"},
    {"process.stdin", "{\"processId\":\"7\",\"close\":true}"},
    {"pty.open", "{}"},
    {"fs.read", "{\"path\":\"x\"}"},
    {"fs.write", "{\"path\":\"x\"}"},
    {"fs.write", "{\"path\":\"x\",\"size\":5}"},
    {"fs.stat", "{\"path\":\"x\"}"},
    {"fs.list", "{\"path\":\"x\"}"},
    {"fs.make_dir", "{\"path\":\"x\"}"},
    {"fs.watch", "{\"path\":\"x\"}"},
    {"process.signal", "{\"processId\":\"7\",\"signal\":\"INT\"}"},
    {"sandbox.metrics", "{}"},
};

static int dial(void *data, abx_error **err)
{
    world *w = data;
    int pair[2];
    if (w->count == MAX_CONNS)
        return abx_fail(err, ABX_ERR_NETWORK, "no more connections");
    ABX_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    (void)!write(pair[0], w->answer, w->n);
    shutdown(pair[0], SHUT_WR);
    w->peers[w->count++] = pair[0];
    return pair[1];
}

static int alive(void *data)
{
    return 0;
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    ABX_CHECK((result != NULL) != (err != NULL));
    ((world *)data)->ends++;
}

static void run(world *w, abx_envd_client *client, const char *method, const char *params)
{
    static const abx_call_handlers handlers = {NULL, NULL, NULL, on_end};
    yyjson_doc *doc = yyjson_read(params, strlen(params), 0);
    abx_call *call = abx_call_new(&w->loop, abx_op_find(method)->id, doc, &handlers, w);
    abx_call_enter_start(call);
    ABX_AUTO_ERROR err = NULL;
    int rc = abx_envd_client_start(client, call, &err);
    abx_call_leave_start(call);
    if (rc < 0) {
        abx_call_discard(call);
        return;
    }
    if (abx_call_op(call)->style == ABX_STYLE_BODY_IN) {
        (void)abx_call_write(call, "hello", 5);
        abx_call_write_end(call);
    }
    while (w->ends == 0)
        uv_run(&w->loop, UV_RUN_ONCE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 1 || n > 65536)
        return 0;
    signal(SIGPIPE, SIG_IGN);
    world w = {.answer = data + 1, .n = n - 1};
    uv_loop_init(&w.loop);
    abx_envd_client_options o = {.loop = &w.loop,
                                 .base_url = "http://envd",
                                 .sandbox_id = "s",
                                 .codec = data[0] & 0x40 ? ABX_E2B_PROTO : ABX_E2B_JSON,
                                 .abx = (data[0] & 0x80) != 0,
                                 .dial = dial,
                                 .dial_data = &w,
                                 .alive = data[0] & 0x20 ? alive : NULL};
    abx_envd_client *client = NULL;
    ABX_CHECK(abx_envd_client_open(&o, &client, NULL) == 0);
    size_t which = (data[0] & 0x1f) % ABX_COUNT(calls);
    run(&w, client, calls[which].method, calls[which].params);
    abx_envd_client_close(client, NULL, NULL);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    ABX_CHECK(uv_loop_close(&w.loop) == 0);
    for (int i = 0; i < w.count; i++)
        close(w.peers[i]);
    return 0;
}
