/* EPP/1 against bare pipes: the round trip of a small call, and bytes of a process's output, plain and raw. Prints one JSON object a row, as
 * bench.py reads them. Usage: epp_bench [--quick]. With another word it is its own child. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "epp/epp.h"
#include "epp/host_session.h"
#include "epp/plugin_end.h"

#define PIECE ((size_t)256 * 1024)
#define MIB   ((size_t)1024 * 1024)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* --- the children --------------------------------------------------------------------------------------- */

typedef struct stream {
    abx_epp_request *request;
    size_t left;
} stream;

static char piece[PIECE];
static stream running;

static void on_write(const void *bytes, size_t n, void *data)
{
    (void)data;
    if (abx_write_full(1, bytes, n) < 0)
        _exit(1);
}

static int on_initialize(yyjson_val *params, yyjson_mut_doc *d, yyjson_mut_val *features,
                         void *data, abx_error **err)
{
    (void)params;
    (void)data;
    (void)err;
    yyjson_mut_arr_add_str(d, features, "process");
    return 0;
}

/* As much output as the window lets. */
static void go_on(abx_epp_request *r)
{
    while (running.left > 0) {
        size_t room = abx_epp_room(r), n = running.left < PIECE ? running.left : PIECE;
        if (room < n)
            n = room;
        running.left -= n;
        if (!abx_epp_bytes_send(r, ABX_CH_STDOUT, piece, n, false) && running.left > 0)
            return;
    }
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_int(d, root, "exitCode", 0);
    running.request = NULL;
    abx_epp_end(r, d);
}

static void on_request(abx_epp_request *r, yyjson_val *params, void *data)
{
    (void)data;
    if (abx_epp_request_op(r)->id != ABX_OP_PROCESS_START) {
        abx_epp_end(r, NULL);
        return;
    }
    running.request = r;
    running.left =
        (size_t)atoi(yyjson_get_str(yyjson_arr_get_first(yyjson_obj_get(params, "cmd")))) * MIB;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "id", "1");
    abx_epp_event_send(r, "started", d);
    go_on(r);
}

static void on_resume(abx_epp_request *r, void *data)
{
    (void)data;
    if (r == running.request)
        go_on(r);
}

static void on_shutdown(void *data)
{
    (void)data;
    _exit(0);
}

static int plugin(bool raw)
{
    static const abx_epp_plugin_handlers handlers = {.write = on_write,
                                                     .initialize = on_initialize,
                                                     .request = on_request,
                                                     .resume = on_resume,
                                                     .shutdown = on_shutdown};
    static char in[65536];
    memset(piece, 'x', sizeof piece);
    abx_epp_plugin *p = abx_epp_plugin_new(&handlers, NULL, raw, true);
    ssize_t n;
    while ((n = read(0, in, sizeof in)) > 0)
        if (abx_epp_plugin_feed(p, in, (size_t)n, NULL) < 0)
            return 1;
    return 0;
}

/* Answers each line with a line. */
static int ping(void)
{
    static char line[4096];
    static const char answer[] = "{\"jsonrpc\":\"2.0\",\"id\":100000,\"result\":{}}\n";
    while (read(0, line, sizeof line) > 0)
        if (abx_write_full(1, answer, sizeof answer - 1) < 0)
            return 1;
    return 0;
}

static int pour(size_t mib)
{
    memset(piece, 'x', sizeof piece);
    for (size_t left = mib * MIB; left > 0; left -= PIECE)
        if (abx_write_full(1, piece, PIECE) < 0)
            return 1;
    return 0;
}

/* --- references ----------------------------------------------------------------------------------------- */

static pid_t spawn(const char *mode, const char *arg, int *to, int *from)
{
    int in[2], out[2];
    ABX_CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl("/proc/self/exe", "epp_bench", mode, arg, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    *to = in[1];
    *from = out[0];
    return pid;
}

static double bare_round_trip(int rounds)
{
    static const char line[] = "{\"jsonrpc\":\"2.0\",\"id\":100000,\"method\":\"process.signal\","
                               "\"params\":{\"sandboxId\":\"abcdefghijklmnop\","
                               "\"processId\":\"1\",\"signal\":\"TERM\"}}\n";
    char answer[4096];
    int to, from;
    pid_t pid = spawn("ping", "", &to, &from);
    double begin = 0;
    for (int i = -100; i < rounds; i++) {
        if (i == 0)
            begin = now();
        ABX_CHECK(abx_write_full(to, line, sizeof line - 1) == 0 &&
                  read(from, answer, sizeof answer) > 0);
    }
    double took = now() - begin;
    close(to);
    close(from);
    waitpid(pid, NULL, 0);
    return took / rounds * 1e6;
}

static double bare_bytes(const char *mib)
{
    int to, from;
    size_t all = 0;
    double begin = now();
    pid_t pid = spawn("pour", mib, &to, &from);
    ssize_t n;
    while ((n = read(from, piece, PIECE)) > 0)
        all += (size_t)n;
    double took = now() - begin;
    close(to);
    close(from);
    waitpid(pid, NULL, 0);
    return (double)(all / MIB) / took;
}

/* --- ours ----------------------------------------------------------------------------------------------- */

static uv_loop_t loop;
static bool ready, closed, ended;
static size_t received;

static void on_ready(abx_epp_session *s, yyjson_val *result, const abx_error *err, void *data)
{
    (void)s;
    (void)result;
    (void)data;
    ABX_CHECK(!err);
    ready = true;
}

static void on_fault(abx_epp_session *s, const abx_error *why, void *data)
{
    (void)s;
    (void)data;
    fprintf(stderr, "%s\n", why->message);
}

static void on_closed(void *data)
{
    (void)data;
    closed = true;
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    (void)c;
    (void)channel;
    (void)bytes;
    (void)data;
    received += n;
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    (void)data;
    if (err)
        fprintf(stderr, "%s\n", err->message);
    ABX_CHECK(!err);
    ended = true;
}

static abx_epp_session *open_session(const char *mode)
{
    char *argv[] = {(char *)(uintptr_t) "epp_bench", (char *)(uintptr_t)mode, NULL},
         *envp[] = {NULL};
    abx_epp_session_options o = {.loop = &loop,
                                 .name = "bench",
                                 .path = "/proc/self/exe",
                                 .argv = argv,
                                 .envp = envp,
                                 .program_fd = -1,
                                 .read_fd = -1,
                                 .write_fd = -1,
                                 .on_ready = on_ready,
                                 .on_fault = on_fault};
    ready = closed = false;
    ABX_CHECK(uv_loop_init(&loop) == 0);
    abx_epp_session *s = abx_epp_session_open(&o);
    while (!ready)
        uv_run(&loop, UV_RUN_ONCE);
    return s;
}

static void close_session(abx_epp_session *s)
{
    abx_epp_session_close(s, on_closed, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    ABX_CHECK(closed && uv_loop_close(&loop) == 0);
}

static void call(abx_epp_session *s, abx_op_id op, const char *cmd)
{
    static const abx_call_handlers handlers = {.on_chunk = on_chunk, .on_end = on_end};
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "sandboxId", "abcdefghijklmnop");
    if (cmd) {
        yyjson_mut_arr_add_strcpy(d, abx_mut_arr(d, root, "cmd"), cmd);
    } else {
        abx_mut_str(d, root, "processId", "1");
        abx_mut_str(d, root, "signal", "TERM");
    }
    abx_call *c = abx_call_new(&loop, op, abx_json_freeze(d), &handlers, NULL);
    yyjson_mut_doc_free(d);
    ended = false;
    ABX_CHECK(abx_epp_session_start(s, c, NULL) == 0);
    while (!ended)
        uv_run(&loop, UV_RUN_ONCE);
}

static double round_trip(int rounds)
{
    abx_epp_session *s = open_session("raw");
    double begin = 0;
    for (int i = -100; i < rounds; i++) {
        if (i == 0)
            begin = now();
        call(s, ABX_OP_PROCESS_SIGNAL, NULL);
    }
    double took = now() - begin;
    close_session(s);
    return took / rounds * 1e6;
}

static double bytes(const char *mode, const char *mib)
{
    abx_epp_session *s = open_session(mode);
    received = 0;
    double begin = now();
    call(s, ABX_OP_PROCESS_START, mib);
    double took = now() - begin;
    close_session(s);
    ABX_CHECK(received == (size_t)atoi(mib) * MIB);
    return (double)(received / MIB) / took;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

static void tell_bytes(const char *what, double ours, double bare, double goal)
{
    printf("{\"what\":\"%s\",\"ours\":\"%.0f MiB/s\",\"reference\":\"pipe %.0f "
           "MiB/s\",\"ratio\":\"%.2f\",\"goal\":",
           what, ours, bare, ours / bare);
    if (goal > 0)
        printf("\">= %.1f\",\"reached\":%s}\n", goal, ours / bare >= goal ? "true" : "false");
    else
        printf("\"-\",\"reached\":true}\n");
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "raw") == 0 || strcmp(mode, "plain") == 0)
        return plugin(mode[0] == 'r');
    if (strcmp(mode, "ping") == 0)
        return ping();
    if (strcmp(mode, "pour") == 0)
        return pour((size_t)atoi(argv[2]));
    bool quick = strcmp(mode, "--quick") == 0;
    int rounds = quick ? 2000 : 20000, turns = quick ? 3 : 7;
    const char *mib = quick ? "128" : "512";
    double t[2][7], b[3][7];
    for (int i = 0; i < turns; i++) {
        t[0][i] = round_trip(rounds);
        t[1][i] = bare_round_trip(rounds);
        b[0][i] = bytes("raw", mib);
        b[1][i] = bytes("plain", mib);
        b[2][i] = bare_bytes(mib);
    }
    double ours = median(t[0], turns), bare = median(t[1], turns), pipe = median(b[2], turns);
    printf("{\"what\":\"EPP round trip\",\"ours\":\"%.1f us\",\"reference\":\"pipe %.1f "
           "us\",\"ratio\":\"%.2f\",\"goal\":"
           "\"<= 3 and 200 us\",\"reached\":%s}\n",
           ours, bare, ours / bare, ours <= 3 * bare && ours <= 200 ? "true" : "false");
    tell_bytes("EPP output, raw chunks", median(b[0], turns), pipe, 0.5);
    tell_bytes("EPP output, text", median(b[1], turns), pipe, 0);
    return 0;
}
