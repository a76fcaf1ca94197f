/* One call: order, backpressure, input, interception, exactly one end. How it is cancelled: test_call_cancel.c */
#include "call_rig.h"

static void say(rig *r, abx_channel channel, const char *text)
{
    abx_call_chunk(r->call, channel, text, strlen(text));
}

static void answer_at_once(rig *r)
{
    abx_call_event(r->call, "started", NULL);
    say(r, ABX_CH_STDOUT, "a");
    say(r, ABX_CH_STDERR, "b");
    abx_call_event(r->call, "exit", NULL);
    say(r, ABX_CH_STDOUT, "c");
    abx_call_end(r->call, NULL);
}

static void what_is_sent_arrives_in_order(void **state)
{
    rig r;
    rig_open(&r);
    rig_start(&r, &rig_full, NULL);
    answer_at_once(&r);
    rig_close(&r);
    assert_string_equal(r.log, "started stdout:a stderr:b exit stdout:c end:ok");
    assert_int_equal(r.releases, 1);
}

static void nothing_arrives_inside_start(void **state)
{
    rig r;
    rig_open(&r);
    rig_start(&r, &rig_full, answer_at_once);
    assert_string_equal(r.log, "");
    rig_close(&r);
    assert_string_equal(r.log, "started stdout:a stderr:b exit stdout:c end:ok");
}

static void end_does_not_come_inside_the_adapters_call(void **state)
{
    rig r;
    rig_open(&r);
    rig_start(&r, &rig_full, NULL);
    abx_call_end(r.call, NULL);
    assert_int_equal(r.ends, 0);
    rig_close(&r);
    assert_int_equal(r.ends, 1);
}

static void call_without_accept_may_end_at_once(void **state)
{
    rig r;
    rig_open(&r);
    rig_start(&r, NULL, answer_at_once);
    rig_close(&r);
    assert_string_equal(r.log, "started stdout:a stderr:b exit stdout:c end:ok");
}

static void see_result(rig *r, yyjson_val *result, const abx_error *err)
{
    assert_int_equal(abx_json_int(result, "exitCode", -1), 7);
}

static void result_is_handed_over(void **state)
{
    rig r;
    rig_open(&r);
    r.on_end = see_result;
    rig_start(&r, &rig_full, NULL);
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_int(d, root, "exitCode", 7);
    abx_call_end(r.call, d);
    rig_close(&r);
    assert_string_equal(r.log, "end:ok");
}

static void failure_is_handed_over(void **state)
{
    rig r;
    rig_open(&r);
    rig_start(&r, &rig_full, NULL);
    abx_call_fail(r.call, abx_error_new(ABX_ERR_FILE, "x"));
    rig_close(&r);
    assert_string_equal(r.log, "end:FILE");
}

static void door_without_handlers_drops_all_but_the_end(void **state)
{
    static const abx_call_handlers deaf = {.on_end = rig_on_end};
    rig r;
    rig_open_with(&r, &deaf);
    rig_start(&r, &rig_full, answer_at_once);
    rig_close(&r);
    assert_string_equal(r.log, "end:ok");
}

static void events_may_have_names_that_are_gone(void **state)
{
    rig r;
    rig_open(&r);
    rig_start(&r, &rig_full, NULL);
    abx_call_pause(r.call);
    char *name = abx_strdup("passing");
    abx_call_event(r.call, name, NULL);
    memset(name, 'x', strlen(name));
    free(name);
    abx_call_resume(r.call);
    abx_call_end(r.call, NULL);
    rig_close(&r);
    assert_string_equal(r.log, "passing end:ok");
}

static void empty_chunks_are_no_chunks(void **state)
{
    rig r;
    rig_open(&r);
    rig_start(&r, &rig_full, NULL);
    assert_int_equal(abx_call_chunk(r.call, ABX_CH_BODY, "", 0), 1);
    abx_call_end(r.call, NULL);
    rig_close(&r);
    assert_string_equal(r.log, "end:ok");
}

/* --- backpressure ------------------------------------------------------------------------------------ */
static void paused_door_stops_the_adapter_until_it_resumes(void **state)
{
    rig r;
    rig_open(&r);
    rig_start(&r, &rig_full, NULL);
    assert_int_equal(abx_call_chunk(r.call, ABX_CH_STDOUT, "a", 1), 1);
    abx_call_pause(r.call);
    assert_int_equal(abx_call_chunk(r.call, ABX_CH_STDOUT, "b", 1), 0);
    rig_turn(&r);
    assert_int_equal(r.resumes, 0);
    assert_string_equal(r.log, "stdout:a ");
    abx_call_resume(r.call);
    assert_string_equal(r.log, "stdout:a "); /* not inside resume */
    rig_turn(&r);
    assert_int_equal(r.resumes, 1);
    assert_int_equal(abx_call_chunk(r.call, ABX_CH_STDOUT, "c", 1), 1);
    abx_call_end(r.call, NULL);
    rig_close(&r);
    assert_string_equal(r.log, "stdout:a stdout:b stdout:c end:ok");
    assert_int_equal(r.resumes, 1);
}

static void pause_inside_a_chunk_is_told_by_that_chunk(void **state)
{
    rig r;
    rig_open(&r);
    r.pause_on_chunk = true;
    rig_start(&r, &rig_full, NULL);
    assert_int_equal(abx_call_chunk(r.call, ABX_CH_STDOUT, "a", 1), 0);
    abx_call_resume(r.call);
    rig_turn(&r);
    assert_int_equal(r.resumes, 1);
    abx_call_end(r.call, NULL);
    rig_close(&r);
}

static void paused_door_gets_its_end_after_what_waits(void **state)
{
    rig r;
    rig_open(&r);
    rig_start(&r, &rig_full, NULL);
    abx_call_pause(r.call);
    say(&r, ABX_CH_STDOUT, "a");
    abx_call_end(r.call, NULL);
    rig_turn(&r);
    assert_string_equal(r.log, "");
    abx_call_resume(r.call);
    rig_close(&r);
    assert_string_equal(r.log, "stdout:a end:ok");
}

static void one_chunk_at_a_time_while_the_door_pauses_on_each(void **state)
{
    rig r;
    rig_open(&r);
    r.pause_on_chunk = true;
    rig_start(&r, &rig_full, NULL);
    say(&r, ABX_CH_STDOUT, "a");
    say(&r, ABX_CH_STDOUT, "b");
    say(&r, ABX_CH_STDOUT, "c");
    abx_call_end(r.call, NULL);
    for (int seen = 1; seen <= 3; seen++) {
        rig_turn(&r);
        assert_int_equal(r.chunks, seen);
        assert_int_equal(r.ends, 0);
        abx_call_resume(r.call);
    }
    rig_close(&r);
    assert_string_equal(r.log, "stdout:a stdout:b stdout:c end:ok");
}

static size_t delivered;
static void count_bytes(rig *r, abx_channel channel, const uint8_t *bytes, size_t n)
{
    delivered += n;
}

/* Send until told to stop; the bytes that then wait. */
static size_t fill(rig *r, size_t step)
{
    static uint8_t bytes[65536];
    size_t sent = 0;
    while (abx_call_chunk(r->call, ABX_CH_STDOUT, bytes, step)) {
        sent += step;
        assert_true(sent < 64 * ABX_CALL_WINDOW);
    }
    return sent + step - delivered;
}

static size_t waits_in_start;
static void fill_in_start(rig *r)
{
    waits_in_start = fill(r, 65536);
}

static void obedient_adapter_leaves_no_more_than_a_window_waiting(void **state)
{
    static const size_t steps[] = {1, 100, 4096, 65536};
    for (size_t i = 0; i < ABX_COUNT(steps); i++) {
        rig r;
        rig_open(&r);
        r.on_chunk = count_bytes;
        delivered = 0;
        rig_start(&r, &rig_full, NULL);
        abx_call_pause(r.call);
        assert_true(fill(&r, steps[i]) <= ABX_CALL_WINDOW);
        abx_call_resume(r.call);
        rig_turn(&r);
        assert_int_equal(r.resumes, 1);
        abx_call_end(r.call, NULL);
        rig_close(&r);
    }
}

static void adapter_that_sends_inside_start_is_stopped_too(void **state)
{
    rig r;
    rig_open(&r);
    r.on_chunk = count_bytes;
    delivered = 0;
    rig_start(&r, &rig_full, fill_in_start);
    assert_true(waits_in_start <= ABX_CALL_WINDOW);
    rig_turn(&r);
    assert_int_equal(r.resumes, 1);
    assert_int_equal(delivered, waits_in_start);
    abx_call_end(r.call, NULL);
    rig_close(&r);
}

static void events_count_as_waiting(void **state)
{
    rig r;
    int sent = 0;
    rig_open(&r);
    rig_start(&r, &rig_full, NULL);
    abx_call_pause(r.call);
    while (abx_call_event(r.call, "change", NULL) && sent < 1000000)
        sent++;
    assert_true(sent < (int)(ABX_CALL_WINDOW / 64));
    r.log[0] = 0;
    abx_call_resume(r.call);
    rig_turn(&r);
    assert_int_equal(r.events, sent + 1);
    assert_int_equal(r.resumes, 1);
    abx_call_end(r.call, NULL);
    rig_close(&r);
}

/* --- 100,000 chunks, a door that pauses at random ------------------------------------------------------- */
enum { CHUNKS = 100000 };
static struct {
    uint32_t seed;
    int sent;
    uint64_t out[2], in[2]; /* bytes sent and seen on stdout and stderr */
    uv_timer_t later, producer;
} storm;

static uint32_t dice(uint32_t n)
{
    storm.seed = storm.seed * 1664525U + 1013904223U;
    return (storm.seed >> 8) % n;
}

static uint8_t nth(int channel, uint64_t at)
{
    return (uint8_t)(at * 31 + (at >> 8) * 7 + (uint64_t)channel);
}

static void produce(rig *r)
{
    uint8_t bytes[300];
    int burst = (int)dice(50) + 1;
    while (storm.sent < CHUNKS && burst-- > 0) {
        int channel = (int)dice(2);
        size_t n = dice(sizeof bytes);
        for (size_t i = 0; i < n; i++)
            bytes[i] = nth(channel, storm.out[channel]++);
        storm.sent++;
        if (!abx_call_chunk(r->call, channel ? ABX_CH_STDERR : ABX_CH_STDOUT, bytes, n))
            return;
    }
    if (storm.sent == CHUNKS && !uv_is_closing((uv_handle_t *)&storm.producer)) {
        uv_close((uv_handle_t *)&storm.producer, NULL);
        abx_call_end(r->call, NULL);
    }
}

static void on_producer(uv_timer_t *t)
{
    produce(t->data);
}

static void on_later(uv_timer_t *t)
{
    abx_call_resume(((rig *)t->data)->call);
}

static void see(rig *r, abx_channel channel, const uint8_t *bytes, size_t n)
{
    int c = channel == ABX_CH_STDERR;
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != nth(c, storm.in[c]++))
            fail_msg("byte %llu of channel %d", (unsigned long long)storm.in[c], c);
    if (dice(7) == 0) {
        abx_call_pause(r->call);
        if (dice(3) == 0)
            abx_call_resume(r->call);
        else if (!uv_is_active((uv_handle_t *)&storm.later))
            uv_timer_start(&storm.later, on_later, 0, 0);
    }
}

static void storm_is_over(rig *r, yyjson_val *result, const abx_error *err)
{
    uv_close((uv_handle_t *)&storm.later, NULL);
}

static void hundred_thousand_chunks_are_byte_exact(void **state)
{
    rig r;
    rig_open(&r);
    memset(&storm, 0, sizeof storm);
    storm.seed = 42;
    r.on_chunk = see;
    r.on_resume = produce;
    r.on_end = storm_is_over;
    uv_timer_init(&r.loop, &storm.later);
    uv_timer_init(&r.loop, &storm.producer);
    storm.later.data = storm.producer.data = &r;
    rig_start(&r, &rig_full, produce);
    uv_timer_start(&storm.producer, on_producer, 0, 1);
    rig_close(&r);
    assert_int_equal(r.ends, 1);
    assert_int_equal(storm.sent, CHUNKS);
    assert_true(storm.out[0] > 0 && storm.out[0] == storm.in[0]);
    assert_true(storm.out[1] > 0 && storm.out[1] == storm.in[1]);
}

/* --- input ---------------------------------------------------------------------------------------------- */
static void input_reaches_the_adapter_and_ends(void **state)
{
    rig r;
    rig_open(&r);
    r.end_on_input_end = true;
    rig_start(&r, &rig_full, NULL);
    assert_int_equal(abx_call_write(r.call, "abc", 3), 1);
    assert_int_equal(abx_call_write(r.call, "", 0), 1);
    assert_int_equal(abx_call_write(r.call, "de", 2), 1);
    abx_call_write_end(r.call);
    assert_int_equal(abx_call_write(r.call, "late", 4), 1);
    rig_turn(&r);
    assert_string_equal(abx_buf_cstr(&r.input), "abcde");
    rig_close(&r);
    assert_int_equal(r.input_ends, 1);
    assert_string_equal(r.log, "end:ok");
}

static void input_before_the_start_waits_for_it(void **state)
{
    rig r;
    rig_open(&r);
    r.end_on_input_end = true;
    assert_int_equal(abx_call_write(r.call, "early", 5), 1);
    abx_call_write_end(r.call);
    rig_turn(&r);
    assert_int_equal(r.inputs, 0);
    rig_start(&r, &rig_full, NULL);
    assert_int_equal(r.inputs, 0);
    rig_turn(&r);
    assert_string_equal(abx_buf_cstr(&r.input), "early");
    assert_int_equal(r.input_ends, 1);
    rig_close(&r);
}

static void full_adapter_holds_the_door_until_it_wants_more(void **state)
{
    rig r;
    rig_open(&r);
    r.input_answer = 0;
    rig_start(&r, &rig_full, NULL);
    assert_int_equal(abx_call_write(r.call, "a", 1), 0);
    assert_int_equal(abx_call_write(r.call, "b", 1), 0);
    abx_call_write_end(r.call);
    rig_turn(&r);
    assert_int_equal(r.inputs, 1);
    assert_int_equal(r.writables, 0);
    assert_int_equal(r.input_ends, 0);
    abx_call_want_input(r.call);
    rig_turn(&r);
    assert_string_equal(abx_buf_cstr(&r.input), "ab");
    assert_int_equal(r.writables, 0);
    assert_int_equal(r.input_ends, 0);
    r.input_answer = 1;
    abx_call_want_input(r.call);
    rig_turn(&r);
    assert_int_equal(r.writables, 1);
    assert_int_equal(r.input_ends, 1);
    abx_call_end(r.call, NULL);
    rig_close(&r);
}

static void door_is_held_when_much_waits_before_the_start(void **state)
{
    rig r;
    size_t sent = 0;
    static uint8_t bytes[10000];
    rig_open(&r);
    while (abx_call_write(r.call, bytes, sizeof bytes) && sent < 64 * ABX_CALL_WINDOW)
        sent += sizeof bytes;
    assert_true(sent <= ABX_CALL_WINDOW);
    rig_start(&r, &rig_full, NULL);
    rig_turn(&r);
    assert_int_equal(r.input.len, sent + sizeof bytes);
    assert_int_equal(r.writables, 1);
    abx_call_end(r.call, NULL);
    rig_close(&r);
}

static void echo(rig *r, abx_channel channel, const uint8_t *bytes, size_t n)
{
    if (r->chunks < 50)
        abx_call_write(r->call, bytes, n);
    else
        abx_call_write_end(r->call);
}

static int input_back(abx_call *c, const uint8_t *bytes, size_t n, void *state)
{
    abx_call_chunk(c, ABX_CH_PTY, bytes, n);
    return 1;
}

static void input_and_output_may_answer_each_other(void **state)
{
    static const abx_call_backend mirror = {
        .on_input = input_back, .on_input_end = rig_input_end, .on_release = rig_released};
    rig r;
    rig_open(&r);
    r.on_chunk = echo;
    r.end_on_input_end = true;
    rig_start(&r, &mirror, NULL);
    abx_call_write(r.call, "ball", 4);
    rig_close(&r);
    assert_int_equal(r.chunks, 50);
    assert_string_equal(r.log, "end:ok");
}

static void adapter_without_input_drops_it(void **state)
{
    static const abx_call_backend deaf = {0};
    rig r;
    rig_open(&r);
    rig_start(&r, &deaf, NULL);
    static uint8_t bytes[65536];
    for (int i = 0; i < 20; i++)
        abx_call_write(r.call, bytes, sizeof bytes);
    abx_call_write_end(r.call);
    rig_turn(&r);
    assert_int_equal(r.writables, 1);
    abx_call_end(r.call, NULL);
    rig_close(&r);
    assert_string_equal(r.log, "end:ok");
}

static void adapter_may_end_in_the_middle_of_the_input(void **state)
{
    rig r;
    rig_open(&r);
    r.input_answer = 0;
    rig_start(&r, &rig_full, NULL);
    abx_call_write(r.call, "a", 1);
    abx_call_write(r.call, "b", 1);
    abx_call_end(r.call, NULL);
    assert_int_equal(abx_call_write(r.call, "c", 1), 1);
    rig_close(&r);
    assert_string_equal(r.log, "end:ok");
    assert_int_equal(r.inputs, 1);
}

/* --- discard, interception --------------------------------------------------------------------------- */
static void discarded_call_says_nothing(void **state)
{
    rig r;
    rig_open(&r);
    abx_call_intercept(r.call, NULL, NULL);
    abx_call_set_deadline(r.call, 1);
    abx_call_write(r.call, "x", 1);
    abx_call_write_end(r.call);
    abx_call_cancel(r.call);
    abx_call_pause(r.call);
    abx_call_discard(r.call);
    rig_close(&r);
    assert_string_equal(r.log, "");
}

static void refused_call_can_be_discarded_even_if_it_was_accepted(void **state)
{
    rig r;
    abx_error *err = abx_error_new(ABX_ERR_FILE, "x");
    rig_open(&r);
    abx_call_intercept(r.call, rig_intercept, &r);
    rig_start(&r, &rig_full, NULL);
    abx_call_refused(r.call, &err);
    assert_int_equal(r.intercepts, 1);
    assert_true(r.intercepted_error);
    abx_call_discard(r.call);
    rig_close(&r);
    assert_string_equal(r.log, "");
    assert_int_equal(r.intercepts, 1);
    assert_int_equal(r.releases, 0);
    assert_fails(err, FILE);
}

static void interception_sees_result_or_error_once(void **state)
{
    for (int failing = 0; failing < 2; failing++) {
        rig r;
        rig_open(&r);
        abx_call_intercept(r.call, rig_intercept, &r);
        rig_start(&r, &rig_full, NULL);
        if (failing)
            abx_call_fail(r.call, abx_error_new(ABX_ERR_FILE, "x"));
        else
            abx_call_end(r.call, abx_mut_new(NULL));
        rig_close(&r);
        assert_int_equal(r.intercepts, 1);
        assert_int_equal(r.intercepted_error, failing);
        assert_int_equal(r.intercepted_result, !failing);
    }
}

static void swap_error(abx_call *c, yyjson_mut_doc **result, abx_error **err, void *data)
{
    if (*err) {
        abx_error_free(*err);
        *err = NULL;
        *result = abx_mut_new(NULL);
    } else {
        yyjson_mut_doc_free(*result);
        *result = NULL;
        *err = abx_error_new(ABX_ERR_QUOTA, "x");
    }
}

static void interception_may_change_the_end(void **state)
{
    for (int failing = 0; failing < 2; failing++) {
        rig r;
        rig_open(&r);
        abx_call_intercept(r.call, swap_error, &r);
        rig_start(&r, &rig_full, NULL);
        if (failing)
            abx_call_fail(r.call, abx_error_new(ABX_ERR_FILE, "x"));
        else
            abx_call_end(r.call, abx_mut_new(NULL));
        rig_close(&r);
        assert_string_equal(r.log, failing ? "end:ok" : "end:QUOTA");
    }
}

static void host_may_change_parameters_and_operation(void **state)
{
    rig r;
    rig_open(&r);
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "sandboxId", "full");
    abx_call_set_params(r.call, abx_json_freeze(d));
    abx_call_set_op(r.call, ABX_OP_SANDBOX_INFO);
    assert_string_equal(abx_json_str(abx_call_params(r.call), "sandboxId", ""), "full");
    assert_string_equal(abx_call_op(r.call)->method, "sandbox.info");
    assert_ptr_equal(abx_call_loop(r.call), &r.loop);
    abx_call_discard(r.call);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sent_arrives_in_order),
        cmocka_unit_test(nothing_arrives_inside_start),
        cmocka_unit_test(end_does_not_come_inside_the_adapters_call),
        cmocka_unit_test(call_without_accept_may_end_at_once),
        cmocka_unit_test(result_is_handed_over),
        cmocka_unit_test(failure_is_handed_over),
        cmocka_unit_test(door_without_handlers_drops_all_but_the_end),
        cmocka_unit_test(events_may_have_names_that_are_gone),
        cmocka_unit_test(empty_chunks_are_no_chunks),
        cmocka_unit_test(paused_door_stops_the_adapter_until_it_resumes),
        cmocka_unit_test(pause_inside_a_chunk_is_told_by_that_chunk),
        cmocka_unit_test(paused_door_gets_its_end_after_what_waits),
        cmocka_unit_test(one_chunk_at_a_time_while_the_door_pauses_on_each),
        cmocka_unit_test(obedient_adapter_leaves_no_more_than_a_window_waiting),
        cmocka_unit_test(adapter_that_sends_inside_start_is_stopped_too),
        cmocka_unit_test(events_count_as_waiting),
        cmocka_unit_test(hundred_thousand_chunks_are_byte_exact),
        cmocka_unit_test(input_reaches_the_adapter_and_ends),
        cmocka_unit_test(input_before_the_start_waits_for_it),
        cmocka_unit_test(full_adapter_holds_the_door_until_it_wants_more),
        cmocka_unit_test(door_is_held_when_much_waits_before_the_start),
        cmocka_unit_test(input_and_output_may_answer_each_other),
        cmocka_unit_test(adapter_without_input_drops_it),
        cmocka_unit_test(adapter_may_end_in_the_middle_of_the_input),
        cmocka_unit_test(discarded_call_says_nothing),
        cmocka_unit_test(refused_call_can_be_discarded_even_if_it_was_accepted),
        cmocka_unit_test(interception_sees_result_or_error_once),
        cmocka_unit_test(interception_may_change_the_end),
        cmocka_unit_test(host_may_change_parameters_and_operation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
