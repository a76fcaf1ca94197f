/* Any bytes as what a client sends to the data plane's server, over a filling that has no files and no processes. The
 * first byte says in what pieces they arrive. Every call must end in one way: finished, or told closed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "e2b/server.h"

static uv_loop_t loop;
static abx_e2b_server *server;
static size_t live_calls;

static bool has_user(void *data, const char *name)
{
    return strcmp(name, "user") == 0;
}

static void on_message(abx_e2b_call *c, yyjson_val *message, void *data)
{
    ABX_CHECK(yyjson_is_obj(message));
}

static void on_input(abx_e2b_call *c, abx_e2b_channel channel, const uint8_t *bytes, size_t n,
                     void *data)
{
    if (n % 5 == 1) {
        abx_e2b_call_pause(c);
        abx_e2b_call_resume(c);
    }
}

static void on_half_close(abx_e2b_call *c, void *data)
{
    live_calls--;
    abx_e2b_answer(c, NULL);
}

static void on_close(abx_e2b_call *c, bool expired, void *data)
{
    ABX_CHECK(live_calls > 0);
    live_calls--;
}

static const abx_e2b_call_handlers handlers = {.on_message = on_message,
                                               .on_input = on_input,
                                               .on_half_close = on_half_close,
                                               .on_close = on_close};

/* Streams stay open, every second unary call is refused. */
static void on_call(void *data, abx_e2b_call *c, yyjson_val *request)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    switch (abx_e2b_call_method(c)) {
    case ABX_E2B_M_STREAM_INPUT:
    case ABX_E2B_M_CONNECT:
        live_calls++;
        abx_e2b_call_handle(c, &handlers, NULL);
        break;
    case ABX_E2B_M_START:
        abx_mut_int(d, abx_mut_obj(d, abx_mut_obj(d, root, "event"), "start"), "pid", 7);
        (void)abx_e2b_send(c, root);
        (void)abx_e2b_send_data(c, ABX_E2B_STDOUT, "x", 1);
        abx_e2b_end(c);
        break;
    case ABX_E2B_M_LIST_DIR: abx_e2b_parts_end(c); break;
    case ABX_E2B_M_COMPOSE: abx_e2b_refuse(c, 404, "source file not found: %s", "x"); break;
    case ABX_E2B_M_STAT: abx_e2b_fail(c, ABX_E2B_CODE_NOT_FOUND, "%s", "no"); break;
    default: abx_e2b_answer(c, root); break;
    }
}

static char *resolve(void *data, const char *path, const char *user, abx_e2b_fault *f)
{
    if (*path == '~') {
        abx_e2b_fault_set(f, 400, "no");
        return NULL;
    }
    return abx_format("/%s", path);
}

typedef struct reading {
    abx_e2b_get *get;
} reading;

static void get_open(void *data, abx_e2b_get *g, const char *path, const char *user, bool live)
{
    abx_e2b_fault f = {0};
    if (strlen(path) % 3 == 0) {
        abx_e2b_fault_set(&f, 404, "path '%s' does not exist", path);
        abx_e2b_get_fail(g, &f);
        return;
    }
    reading *r = ABX_NEW(reading);
    r->get = g;
    abx_e2b_get_begin(g, &(abx_e2b_file_info){.size = 10, .modified_s = 1000, .path = path}, r);
}

static void get_send(void *file, int64_t offset, int64_t length)
{
    ABX_CHECK(offset >= 0 && length >= 0 && offset + length <= 10);
    reading *r = file;
    (void)abx_e2b_get_bytes(r->get, &"0123456789"[offset], (size_t)length);
    abx_e2b_get_end(r->get);
}

static void get_more(void *file)
{
}

static void get_close(void *file)
{
    free(file);
}

static void *put_open(void *data, const char *path, const abx_e2b_put_options *o, abx_e2b_fault *f)
{
    int64_t *size = abx_alloc(sizeof(*size));
    return size;
}

static int put_write(void *file, const uint8_t *bytes, size_t n)
{
    *(int64_t *)file += (int64_t)n;
    return n % 7 == 6 ? -1 : 1;
}

static void put_close(void *file, bool whole, abx_e2b_put_done done, void *arg)
{
    abx_e2b_put_info info = {.size = *(int64_t *)file};
    abx_e2b_fault f = {0};
    if (!whole)
        abx_e2b_fault_set(&f, 500, "error writing file");
    free(file);
    done(arg, &info, &f);
}

static const abx_e2b_filling filling = {.has_user = has_user,
                                        .call = on_call,
                                        .resolve = resolve,
                                        .get_open = get_open,
                                        .get_send = get_send,
                                        .get_more = get_more,
                                        .get_close = get_close,
                                        .put_open = put_open,
                                        .put_write = put_write,
                                        .put_close = put_close};

static void turn(int fd)
{
    char bytes[4096];
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const abx_e2b_server_options options = {.loop = &loop, .filling = &filling};
    ABX_CHECK(uv_loop_init(&loop) == 0);
    ABX_CHECK(abx_e2b_server_open(&options, &server, NULL) == 0);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fds[2];
    if (size < 1 || size > (size_t)64 * 1024)
        return 0;
    size_t piece = data[0] == 0 ? size : data[0];
    ABX_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    ABX_CHECK(abx_e2b_server_adopt(server, fds[1], NULL, NULL, NULL) == 0);
    for (size_t at = 1; at < size;) {
        size_t n = size - at < piece ? size - at : piece;
        ssize_t put = send(fds[0], data + at, n, MSG_NOSIGNAL);
        if (put <= 0)
            break;
        at += (size_t)put;
        turn(fds[0]);
    }
    turn(fds[0]);
    close(fds[0]);
    for (int i = 0; i < 100 && live_calls > 0; i++)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    for (int i = 0; i < 3; i++)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    ABX_CHECK(live_calls == 0);
    return 0;
}
