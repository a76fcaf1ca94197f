/* Calls over the C API: pulled and by callback, input, output of any size, their ends, what is refused. */
#include "rig.h"

#include <poll.h>
#include <time.h>

static void output_and_exit_code(void **state)
{
    char out[64], end[512];
    abx_call *c = rig_shell(*state, "echo out; exit 3", "", NULL, NULL);
    assert_int_equal(rig_finish(c, out, sizeof(out), end), 4);
    assert_string_equal(out, "out\n");
    assert_non_null(strstr(end, "\"exitCode\":3"));
    abx_call_free(c);
}

static void a_slow_reader_loses_nothing(void **state)
{
    abx_event e = {.size = sizeof(e)};
    abx_call *c = rig_shell(*state, "head -c 8000000 /dev/zero | tr '\\\\000' x", "", NULL, NULL);
    assert_int_equal(abx_call_next(c, &e, RIG_LONG), 1);
    assert_string_equal(e.name, "started");
    assert_int_equal(abx_context_run(((rig *)*state)->ctx, 300),
                     1); /* let what wants to come, come */
    assert_int_equal(rig_finish(c, NULL, 0, NULL), 8000000);
    abx_call_free(c);
}

static void input_goes_in_and_comes_back(void **state)
{
    rig *r = *state;
    char params[256], end[512];
    abx_error *err = NULL;
    snprintf(params, sizeof(params), "{\"sandboxId\":\"%s\",\"path\":\"big\"}", r->sandbox);
    abx_call *c = abx_call_start(r->local, "fs.write", params, 0, NULL, NULL, &err);
    rig_must(c, err);
    char *block = malloc(1 << 20);
    memset(block, 'b', 1 << 20);
    for (int i = 0; i < 12; i++)
        assert_int_equal(abx_call_send(c, block, 1 << 20, RIG_LONG), 1);
    abx_call_send_end(c);
    rig_finish(c, NULL, 0, end);
    assert_non_null(strstr(end, "\"size\":12582912"));
    abx_call_free(c);
    c = abx_call_start(r->local, "fs.read", params, 0, NULL, NULL, &err);
    rig_must(c, err);
    assert_int_equal(rig_finish(c, block, 100, NULL), 12 << 20);
    assert_memory_equal(block, "bbbb", 4);
    free(block);
    abx_call_free(c);
}

typedef struct seen {
    int started, ends, exit_code;
    size_t bytes;
    abx_call *held;
} seen;

static void on_event(abx_call *call, const abx_event *e, void *user)
{
    seen *s = user;
    s->started += e->kind == ABX_KIND_EVENT && strcmp(e->name, "started") == 0;
    if (e->kind == ABX_KIND_CHUNK)
        s->bytes += e->length;
    if (e->kind != ABX_KIND_END)
        return;
    s->ends++;
    assert_null(e->error);
    sscanf(strstr(e->data, "\"exitCode\":"), "\"exitCode\":%d", &s->exit_code);
    abx_call_free(call);
}

/* As a loop of the caller's own does it: wait for the descriptor, then run without waiting. */
static void callbacks_by_the_descriptor(void **state)
{
    rig *r = *state;
    seen s[3] = {{0}};
    for (int i = 0; i < 3; i++)
        rig_shell(r, "head -c 3000000 /dev/zero; sleep 0.2; exit 5", "", on_event, &s[i]);
    int fd = abx_context_fd(r->ctx, NULL);
    assert_true(fd >= 0);
    while (!s[0].ends || !s[1].ends || !s[2].ends) {
        struct pollfd p = {fd, POLLIN, 0};
        assert_int_equal(poll(&p, 1, RIG_LONG), 1);
        assert_true(abx_context_run(r->ctx, 0) >= 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(s[i].started, 1);
        assert_int_equal(s[i].bytes, 3000000);
        assert_int_equal(s[i].exit_code, 5);
    }
}

/* With nothing to do the descriptor is silent, and a wait costs no processor time. */
static void an_idle_context_sleeps(void **state)
{
    rig *r = *state;
    struct pollfd p = {abx_context_fd(r->ctx, NULL), POLLIN, 0};
    struct timespec before, after;
    int quiet = 0;
    for (int i = 0; i < 1000 && !quiet; i++) {
        quiet = poll(&p, 1, 100) == 0;
        abx_context_run(r->ctx, 0);
    }
    assert_true(quiet);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    assert_int_equal(abx_context_run(r->ctx, 1000), 0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    assert_true((after.tv_sec - before.tv_sec) * 1000000000L + after.tv_nsec - before.tv_nsec <
                500000000L); /* it would be all of the second */
}

static void ready_names_the_calls_that_have_something(void **state)
{
    rig *r = *state;
    int ended[2] = {0}, which[2] = {0, 1};
    for (int i = 0; i < 2; i++)
        rig_shell(r, "echo x; sleep 0.1; echo y", "", NULL, &which[i]);
    while (!ended[0] || !ended[1]) {
        assert_true(abx_context_run(r->ctx, RIG_LONG) >= 0);
        for (abx_call *c; (c = abx_context_ready(r->ctx)) != NULL;) {
            abx_event e = {.size = sizeof(e)};
            while (abx_call_next(c, &e, 0) == 1)
                if (e.kind == ABX_KIND_END)
                    ended[*(int *)abx_call_user(c)] = 1;
            if (ended[*(int *)abx_call_user(c)])
                abx_call_free(c);
        }
    }
}

static void on_end_free(abx_call *call, const abx_event *e, void *user)
{
    if (e->kind != ABX_KIND_END)
        return;
    *(int *)user = 1;
    abx_call_free(call);
}

/* The id of the process that runs, once it does; the caller frees it. */
static char *running_process(const rig *r)
{
    char params[128], at[64];
    snprintf(params, sizeof(params), "{\"sandboxId\":\"%s\"}", r->sandbox);
    for (;;) {
        abx_error *err = NULL;
        char *list = abx_provider_call(r->local, "process.list", params, 0, &err), *id = NULL;
        rig_must(list, err);
        for (int i = 0; !id; i++) {
            snprintf(at, sizeof(at), "processes.%d.state", i);
            char *state = abx_json_member(list, at);
            snprintf(at, sizeof(at), "processes.%d.id", i);
            if (!state || strcmp(state, "running") == 0)
                id = abx_json_member(list, at);
            int last = !state;
            abx_free(state);
            if (last)
                break;
        }
        abx_free(list);
        if (id)
            return id;
        usleep(1000);
    }
}

/* The process ends while its input is waited for: the callback frees the call under the waiting function. */
static void a_call_may_be_freed_while_input_waits(void **state)
{
    rig *r = *state;
    char params[256];
    int process_ended = 0, ended = 0;
    abx_error *err = NULL;
    rig_shell(r, "head -c 3000000 >/dev/null", ",\"stdin\":\"stream\"", on_end_free,
              &process_ended);
    char *id = running_process(r);
    snprintf(params, sizeof(params), "{\"sandboxId\":\"%s\",\"processId\":\"%s\"}", r->sandbox, id);
    abx_call *input =
        abx_call_start(r->local, "process.stdin", params, 0, on_end_free, &ended, &err);
    rig_must(input, err);
    char *block = calloc(1, 1 << 20);
    for (int i = 0; i < 1000 && !ended; i++) /* soon nobody reads, and one of these waits */
        assert_int_equal(abx_call_send(input, block, 1 << 20, RIG_LONG), 1);
    assert_true(ended);
    free(block);
    abx_free(id);
    while (!process_ended)
        assert_true(abx_context_run(r->ctx, RIG_LONG) >= 0);
}

static void a_stopped_call_says_so(void **state)
{
    char end[512];
    abx_call *c = rig_shell(*state, "sleep 1000", "", NULL, NULL);
    abx_event e = {.size = sizeof(e)};
    assert_int_equal(abx_call_next(c, &e, RIG_LONG), 1);
    abx_call_stop(c);
    rig_finish(c, NULL, 0, end);
    assert_non_null(strstr(end, "\"type\":\"CancelledError\""));
    assert_int_equal(abx_call_next(c, &e, 0), -1);
    abx_call_free(c);
    c = rig_shell(*state, "sleep 1000", "", NULL, NULL);
    abx_call_free(c); /* at once, while it runs */
}

static void what_is_wrong_is_refused(void **state)
{
    rig *r = *state;
    abx_error *err = NULL;
    assert_null(abx_call_start(r->local, "process.stat", NULL, 0, NULL, NULL, &err));
    assert_string_equal(abx_error_hint(err), "the nearest known one is 'process.start'");
    rig_fails(&err, "E1001");
    assert_null(abx_call_start(r->local, "sandbox.info", "{", 0, NULL, NULL, &err));
    rig_fails(&err, "E1001");
    assert_null(abx_call_start(r->local, "sandbox.info", "[]", 0, NULL, NULL, &err));
    rig_fails(&err, "E1001");
    assert_null(abx_call_start(r->local, "sandbox.info", NULL, 0, NULL, NULL, &err));
    rig_fails(&err, "E1001");
    assert_null(abx_provider_open(r->ctx, "{\"provider\":\"nobody\"}", &err));
    rig_fails(&err, "E3004");
    assert_null(abx_provider_open(r->ctx, "{\"provide\":\"local\"}", &err));
    rig_fails(&err, "E1001");
    assert_null(abx_context_new("{\"home\":\"relative\"}", &err));
    rig_fails(&err, "E1001");
    assert_null(abx_provider_call(r->local, "sandbox.info", "{\"sandboxId\":\"aaaaaaaaaaaaaaaa\"}",
                                  0, &err));
    char *text = abx_error_to_json(err);
    assert_non_null(strstr(text, "\"type\":\"SandboxNotFoundError\""));
    abx_free(text);
    rig_fails(&err, "E3001");
}

static void the_operations_are_told(void **state)
{
    (void)state;
    char *text = abx_operations();
    assert_non_null(strstr(text, "\"method\":\"process.start\""));
    abx_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_and_exit_code),
        cmocka_unit_test(a_slow_reader_loses_nothing),
        cmocka_unit_test(input_goes_in_and_comes_back),
        cmocka_unit_test(callbacks_by_the_descriptor),
        cmocka_unit_test(an_idle_context_sleeps),
        cmocka_unit_test(ready_names_the_calls_that_have_something),
        cmocka_unit_test(a_call_may_be_freed_while_input_waits),
        cmocka_unit_test(a_stopped_call_says_so),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(the_operations_are_told),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
