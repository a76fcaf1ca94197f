/* A plugin that does not answer a cancel gets no more calls; those that still run are left to their own end. */
#include "kit.h"

#include <poll.h>
#include <signal.h>

#include "epp/host_session.h"
#include "ops/call.h"

typedef struct outcome {
    bool ended;
    abx_err_id id; /* ABX_ERR_COUNT: a result */
} outcome;

static struct {
    uv_loop_t loop;
    abx_epp_session *session;
    int to, from; /* the plugin's ends */
    bool ready, faulted, closed;
} r;

static void on_ready(abx_epp_session *s, yyjson_val *result, const abx_error *err, void *data)
{
    r.ready = !err;
}

static void on_closed(void *data)
{
    r.closed = true;
}

/* As the adapter does. */
static void on_fault(abx_epp_session *s, const abx_error *why, void *data)
{
    r.faulted = true;
    abx_epp_session_close(s, on_closed, NULL);
}

static void on_log(abx_log_level level, const char *line, void *data)
{
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    *(outcome *)data = (outcome){true, err ? err->id : ABX_ERR_COUNT};
}

static void turn(void)
{
    char piece[4096];
    uv_run(&r.loop, UV_RUN_NOWAIT);
    struct pollfd p = {.fd = r.from, .events = POLLIN};
    if (poll(&p, 1, 5) > 0)
        (void)!read(r.from, piece, sizeof piece); /* what the host says is not looked at */
}

static void until(const bool *what)
{
    for (int i = 0; i < 20000 && !*what; i++)
        turn();
    assert_true(*what);
}

static void say(const char *line)
{
    assert_int_equal(write(r.to, line, strlen(line)), strlen(line));
}

static abx_call *start(outcome *o)
{
    static const abx_call_handlers handlers = {.on_end = on_end};
    static const char params[] = "{\"sandboxId\":\"aaaabbbbcccc1111\",\"cmd\":[\"x\"]}";
    abx_call *c = abx_call_new(
        &r.loop, ABX_OP_PROCESS_START,
        abx_json_parse(params, sizeof params - 1, ABX_ERR_USAGE, "params", NULL), &handlers, o);
    assert_int_equal(abx_epp_session_start(r.session, c, NULL), 0);
    return c;
}

static void open_session(void)
{
    int in[2], out[2];
    memset(&r, 0, sizeof r);
    assert_int_equal(uv_loop_init(&r.loop), 0);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    r.to = out[1];
    r.from = in[0];
    abx_epp_session_options o = {.loop = &r.loop,
                                 .name = "demo",
                                 .program_fd = -1,
                                 .read_fd = out[0],
                                 .write_fd = in[1],
                                 .host_version = "0.1.0",
                                 .on_ready = on_ready,
                                 .on_fault = on_fault,
                                 .on_log = on_log};
    r.session = abx_epp_session_open(&o);
    say("{\"id\":1,\"result\":{\"protocol\":\"epp/1\",\"features\":[]}}\n");
    until(&r.ready);
}

static void others_end_by_themselves(void **state)
{
    outcome given_up = {0}, other = {0};
    open_session();
    abx_call *first = start(&given_up);
    start(&other);
    say("{\"method\":\"process.started\",\"params\":{\"stream\":2,\"id\":\"a\"}}\n"
        "{\"method\":\"process.started\",\"params\":{\"stream\":3,\"id\":\"b\"}}\n");
    turn();
    abx_call_cancel(first);
    until(&r.faulted);
    until(&given_up.ended);
    assert_int_equal(given_up.id, ABX_ERR_CANCELLED);
    assert_false(other.ended);
    assert_false(r.closed);
    say("{\"method\":\"process.exit\",\"params\":{\"stream\":3,\"exitCode\":0}}\n"
        "{\"id\":3,\"result\":{\"exitCode\":0}}\n");
    until(&other.ended);
    assert_int_equal(other.id, ABX_ERR_COUNT);
    close(r.to);
    until(&r.closed);
    close(r.from);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&r.loop), 0);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {cmocka_unit_test(others_end_by_themselves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
