/* Any bytes from a plugin, to the host's end: two calls run, one of them takes bytes. Whole and in pieces; nothing may be left. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "epp/host_session.h"

static uv_loop_t loop;
static int ended, closed;

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)data;
    ABX_CHECK(!result != !err);
    ended++;
}

static void on_closed(void *data)
{
    (void)data;
    closed++;
}

static bool ready;
static void on_ready(abx_epp_session *s, yyjson_val *result, const abx_error *err, void *data)
{
    (void)s;
    (void)result;
    (void)data;
    ready = !err;
}

static void on_fault(abx_epp_session *s, const abx_error *why, void *data)
{
    (void)s;
    (void)why;
    (void)data;
    ready = false;
}

static int start(abx_epp_session *s, abx_op_id op)
{
    static const abx_call_handlers handlers = {.on_end = on_end};
    abx_call *c = abx_call_new(&loop, op, abx_json_copy(NULL), &handlers, NULL);
    if (!ready || abx_epp_session_start(s, c, NULL) < 0) {
        abx_call_discard(c);
        return 0;
    }
    if (op == ABX_OP_FS_WRITE) {
        abx_call_write(c, "some bytes", 10);
        abx_call_write_end(c);
    }
    return 1;
}

static void feed(int fd, const uint8_t *data, size_t size, size_t step)
{
    for (size_t at = 0; at < size; at += step) {
        size_t n = size - at < step ? size - at : step;
        if (write(fd, data + at, n) < 0)
            return;
        uv_run(&loop, UV_RUN_NOWAIT);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char hello[] = "{\"id\":1,\"result\":{\"protocol\":\"epp/"
                                "1\",\"features\":[],\"raw\":true,\"flow\":true}}\n";
    int in[2], out[2], calls = 0;
    if (size < 2 || size > 60000)
        return 0;
    signal(SIGPIPE, SIG_IGN);
    ended = closed = 0;
    ready = false;
    ABX_CHECK(uv_loop_init(&loop) == 0 && pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    abx_epp_session_options o = {.loop = &loop,
                                 .name = "fuzz",
                                 .program_fd = -1,
                                 .read_fd = out[0],
                                 .write_fd = in[1],
                                 .strict = data[0] & 1,
                                 .on_ready = on_ready,
                                 .on_fault = on_fault};
    abx_epp_session *s = abx_epp_session_open(&o);
    if (data[0] & 2)
        feed(out[1], (const uint8_t *)hello, sizeof hello - 1, sizeof hello);
    for (int i = 0; i < 3; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    calls += start(s, ABX_OP_PROCESS_START);
    calls += start(s, ABX_OP_FS_WRITE);
    calls += start(s, ABX_OP_CODE_RUN);
    feed(out[1], data + 2, size - 2, 1 + (size_t)data[1] * 16);
    close(out[1]);
    uv_run(&loop, UV_RUN_NOWAIT);
    abx_epp_session_close(s, on_closed, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    ABX_CHECK(closed == 1 && ended == calls && uv_loop_close(&loop) == 0);
    close(in[0]);
    return 0;
}
