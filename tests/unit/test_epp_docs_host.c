/* Every exchange of docs/providers/epp.md, played to the host's end: the test is the plugin. */
#include "epp_player.h"

#include <poll.h>
#include <signal.h>

#include "base/text.h"
#include "epp/epp.h"
#include "epp/host_session.h"
#include "wire/bytes_json.h"

enum { CALLS = 16 };

typedef struct played {
    uint64_t id;
    abx_call *call;
    bool ended, failed;
    yyjson_doc *result;
    char code[16];
} played;

typedef struct rig {
    uv_loop_t loop;
    abx_epp_session *session;
    int to, from; /* our ends */
    abx_buf got;
    played calls[CALLS];
    size_t count;
    bool ready, refused, closing, closed;
    abx_buf log;
} rig;

static rig r;

static void turn(void)
{
    uv_run(&r.loop, UV_RUN_NOWAIT);
    struct pollfd p = {.fd = r.from, .events = POLLIN};
    char piece[65536];
    if (poll(&p, 1, 1) > 0 && p.revents) {
        ssize_t n = read(r.from, piece, sizeof piece);
        if (n > 0)
            assert_int_equal(abx_buf_add(&r.got, piece, (size_t)n), 0);
    }
}

static void turns(int n)
{
    while (n-- > 0)
        turn();
}

/* The next line that the session sends, parsed. */
static yyjson_doc *take(int number)
{
    for (int i = 0; i < 20000; i++) {
        uint8_t *end = r.got.len ? memchr(r.got.data, '\n', r.got.len) : NULL;
        if (end) {
            size_t n = (size_t)(end - r.got.data);
            yyjson_doc *d = abx_json_parse(r.got.data, n, ABX_ERR_USAGE, "a line", NULL);
            assert_non_null(d);
            abx_buf_drop(&r.got, n + 1);
            return d;
        }
        turn();
    }
    fail_msg("line %d: nothing came", number);
    return NULL;
}

static void give(const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        struct pollfd p = {.fd = r.to, .events = POLLOUT};
        ssize_t done = poll(&p, 1, 0) > 0 ? write(r.to, at, n < 4096 ? n : 4096) : 0;
        assert_true(done >= 0);
        at += done;
        n -= (size_t)done;
        turn();
    }
}

static void on_ready(abx_epp_session *s, yyjson_val *result, const abx_error *err, void *data)
{
    (void)s;
    (void)data;
    (void)result;
    r.ready = !err;
    r.refused = err != NULL;
}

static void on_fault(abx_epp_session *s, const abx_error *why, void *data)
{
    (void)s;
    (void)data;
    fail_msg("a fault: %s", abx_error_text(why));
}

static void on_log(abx_log_level level, const char *line, void *data)
{
    (void)level;
    (void)data;
    assert_int_equal(abx_buf_add_str(&r.log, line), 0);
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    played *p = data;
    p->ended = true;
    p->call = NULL;
    p->failed = err != NULL;
    if (err)
        snprintf(p->code, sizeof p->code, "%s", abx_error_code(err));
    else
        p->result = abx_json_copy(result);
}

static void on_closed(void *data)
{
    *(bool *)data = true;
}

static void open_rig(yyjson_val *greeting)
{
    int in[2], out[2];
    memset(&r, 0, sizeof r);
    abx_buf_init(&r.got, (size_t)1 << 24);
    abx_buf_init(&r.log, (size_t)1 << 20);
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
                                 .greeting = greeting,
                                 .host_version = "0.1.0",
                                 .strict = true,
                                 .on_ready = on_ready,
                                 .on_fault = on_fault,
                                 .on_log = on_log};
    r.session = abx_epp_session_open(&o);
}

static played *find_call(uint64_t id)
{
    for (size_t i = 0; i < r.count; i++)
        if (r.calls[i].id == id)
            return &r.calls[i];
    fail_msg("no call %d", (int)id);
    return NULL;
}

/* Make the session send what the line shows. */
static void cause(const epp_line *l)
{
    static const abx_call_handlers handlers = {.on_end = on_end};
    const char *method = epp_method(l);
    yyjson_val *params = yyjson_obj_get(l->message, "params");
    uint64_t stream = epp_number(params, "stream");
    const abx_op_row *row = abx_op_find(method);
    if (row) {
        played *p = &r.calls[r.count++];
        p->id = epp_number(l->message, "id");
        p->call = abx_call_new(&r.loop, row->id, abx_json_copy(params), &handlers, p);
        abx_error *err = NULL;
        if (abx_epp_session_start(r.session, p->call, &err) < 0)
            fail_msg("line %d: %s", l->number, abx_error_text(err));
    } else if (strcmp(method, "stream.write") == 0) {
        abx_buf bytes = ABX_BUF(1 << 20);
        assert_int_equal(abx_bytes_json_get(params, ABX_ERR_USAGE, &bytes, NULL), 1);
        abx_call_write(find_call(stream)->call, bytes.data, bytes.len);
        abx_buf_clear(&bytes);
    } else if (strcmp(method, "stream.end") == 0) {
        abx_call_write_end(find_call(stream)->call);
    } else if (strcmp(method, "cancel") == 0) {
        abx_call_cancel(find_call(stream)->call);
    } else if (strcmp(method, "shutdown") == 0) {
        r.closing = true;
        abx_epp_session_close(r.session, on_closed, &r.closed);
    }
}

static void hello(void)
{
    static const char answer[] = "{\"id\":1,\"result\":{\"protocol\":\"epp/1\",\"features\":[]}}\n";
    yyjson_doc_free(take(0));
    give(answer, sizeof answer - 1);
    while (!r.ready)
        turn();
}

/* What the answer that the plugin sent has become. */
static void check_end(const epp_line *l)
{
    uint64_t id = epp_number(l->message, "id");
    yyjson_val *result = yyjson_obj_get(l->message, "result"),
               *error = yyjson_obj_get(l->message, "error");
    for (size_t i = 0; i < r.count; i++) {
        played *p = &r.calls[i];
        if (p->id != id)
            continue;
        for (int n = 0; n < 5000 && !p->ended; n++)
            turn();
        assert_true(p->ended);
        assert_int_equal(p->failed, error != NULL);
        if (error)
            assert_string_equal(p->code, abx_json_str(yyjson_obj_get(error, "data"), "code", ""));
        size_t k, count;
        yyjson_val *key, *value;
        yyjson_obj_foreach(result, k, count, key, value) assert_true(yyjson_equals(
            value, yyjson_obj_get(yyjson_doc_get_root(p->result), yyjson_get_str(key))));
    }
}

static void play(epp_block *b)
{
    yyjson_val *greeting = yyjson_obj_get(b->lines[0].message, "params");
    open_rig(b->greets ? greeting : NULL);
    if (!b->greets)
        hello();
    for (size_t i = 0; i < b->count; i++) {
        epp_line *l = &b->lines[i];
        if (l->by_host) {
            cause(l);
            yyjson_doc *got = take(l->number);
            epp_assert_equal(l, yyjson_doc_get_root(got));
            yyjson_doc_free(got);
        } else if (l->doc) {
            ABX_AUTO_FREE char *text = abx_json_text(l->message);
            give(text, strlen(text));
            give("\n", 1);
            turns(3);
            check_end(l);
        } else {
            give(l->raw.data, l->raw.len);
            give("\n", 1);
            turns(3);
        }
        if (b->greets && i == 1)
            while (!r.ready && !r.refused)
                turn();
    }
    if (!r.closing)
        abx_epp_session_close(r.session, on_closed, &r.closed);
    close(r.to); /* the plugin ends */
    while (!r.closed)
        turn();
    close(r.from);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&r.loop), 0);
    for (size_t i = 0; i < r.count; i++)
        yyjson_doc_free(r.calls[i].result);
    abx_buf_clear(&r.got);
    abx_buf_clear(&r.log);
}

static void test_every_exchange(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    assert_true(epp_each_block(play) >= ABX_OP_COUNT + 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_exchange)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
