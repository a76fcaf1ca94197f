/* How a call is cancelled, passes its deadline, and ends although the adapter does not end it. */
#include "call_rig.h"

/* Like rig_full, but the adapter keeps its state until it ends the call. */
static const abx_call_backend no_release = {
    .on_cancel = rig_cancelled, .on_input = rig_input, .on_resume = rig_resumed};
static const abx_call_backend no_cancel = {.on_release = rig_released};

static void cancel_reaches_the_adapter_and_ends_the_call(void **state)
{
    rig r;
    rig_open(&r);
    r.end_on_cancel = true;
    rig_start(&r, &rig_full, NULL);
    rig_turn(&r);
    abx_call_cancel(r.call);
    assert_int_equal(r.cancels, 0); /* a wish: nothing happens inside */
    assert_true(abx_call_is_cancelled(r.call));
    rig_close(&r);
    assert_int_equal(r.cancels, 1);
    assert_string_equal(r.log, "end:CANCELLED");
    assert_int_equal(r.releases, 1);
}

static void second_cancel_does_nothing(void **state)
{
    rig r;
    rig_open(&r);
    rig_start(&r, &rig_full, NULL);
    abx_call_cancel(r.call);
    abx_call_cancel(r.call);
    rig_turn(&r);
    abx_call_cancel(r.call);
    rig_turn(&r);
    assert_int_equal(r.cancels, 1);
    abx_call_end(r.call, NULL);
    abx_call_cancel(r.call);
    rig_close(&r);
    assert_int_equal(r.cancels, 1);
    assert_string_equal(r.log, "end:CANCELLED");
}

static void cancel_before_the_start_waits_for_it(void **state)
{
    rig r;
    rig_open(&r);
    r.end_on_cancel = true;
    abx_call_cancel(r.call);
    rig_turn(&r);
    assert_string_equal(r.log, "");
    rig_start(&r, &rig_full, NULL);
    assert_string_equal(r.log, "");
    rig_close(&r);
    assert_int_equal(r.cancels, 1);
    assert_string_equal(r.log, "end:CANCELLED");
}

static void cancel_of_a_call_that_was_never_started_allows_discard(void **state)
{
    rig r;
    rig_open(&r);
    abx_call_cancel(r.call);
    rig_turn(&r);
    abx_call_discard(r.call);
    rig_close(&r);
    assert_string_equal(r.log, "");
}

static void cancel_inside_start_comes_later(void **state)
{
    rig r;
    rig_open(&r);
    r.end_on_cancel = true;
    abx_call_enter_start(r.call);
    abx_call_accept(r.call, &rig_full, &r);
    abx_call_cancel(r.call);
    abx_call_leave_start(r.call);
    assert_int_equal(r.cancels, 0);
    rig_close(&r);
    assert_string_equal(r.log, "end:CANCELLED");
}

static void adapter_without_cancel_ends_at_once(void **state)
{
    rig r;
    rig_open(&r);
    rig_start(&r, &no_cancel, NULL);
    abx_call_cancel(r.call);
    rig_close(&r);
    assert_string_equal(r.log, "end:CANCELLED");
    assert_int_equal(r.releases, 1);
}

static void cancel_inside_callbacks(void **state)
{
    for (int in_event = 0; in_event < 2; in_event++) {
        rig r;
        rig_open(&r);
        r.end_on_cancel = true;
        r.cancel_on_event = in_event;
        r.cancel_on_chunk = !in_event;
        rig_start(&r, &rig_full, NULL);
        abx_call_event(r.call, "started", NULL);
        abx_call_chunk(r.call, ABX_CH_STDOUT, "a", 1);
        assert_int_equal(r.cancels, 0);
        rig_close(&r);
        assert_int_equal(r.cancels, 1);
        assert_string_equal(r.log, "started stdout:a end:CANCELLED");
    }
}

static void cancel_inside_of_what_waited(void **state)
{
    rig r;
    rig_open(&r);
    r.end_on_cancel = true;
    r.cancel_on_chunk = true;
    rig_start(&r, &rig_full, NULL);
    abx_call_pause(r.call);
    abx_call_chunk(r.call, ABX_CH_STDOUT, "a", 1);
    abx_call_chunk(r.call, ABX_CH_STDOUT, "b", 1);
    abx_call_resume(r.call);
    rig_close(&r);
    assert_int_equal(r.cancels, 1);
    assert_int_equal(r.ends, 1);
    assert_int_equal(r.end_id, ABX_ERR_CANCELLED);
}

static void wish_for_much(rig *r, yyjson_val *result, const abx_error *err)
{
    abx_call_cancel(r->call);
    abx_call_pause(r->call);
    abx_call_resume(r->call);
    abx_call_write(r->call, "x", 1);
    abx_call_write_end(r->call);
    abx_call_set_deadline(r->call, 1);
}

static void wishes_inside_the_end_do_nothing(void **state)
{
    rig r;
    rig_open(&r);
    r.on_end = wish_for_much;
    rig_start(&r, &rig_full, NULL);
    abx_call_end(r.call, NULL);
    rig_close(&r);
    assert_string_equal(r.log, "end:ok");
    assert_int_equal(r.cancels, 0);
}

static void paused_door_hears_of_its_cancel(void **state)
{
    rig r;
    rig_open(&r);
    r.end_on_cancel = true;
    rig_start(&r, &rig_full, NULL);
    abx_call_pause(r.call);
    abx_call_chunk(r.call, ABX_CH_STDOUT, "a", 1);
    abx_call_cancel(r.call);
    rig_close(&r);
    assert_string_equal(r.log, "end:CANCELLED");
}

static void cancel_after_the_adapters_end_keeps_that_end(void **state)
{
    rig r;
    rig_open(&r);
    rig_start(&r, &rig_full, NULL);
    abx_call_end(r.call, NULL);
    abx_call_cancel(r.call);
    rig_close(&r);
    assert_string_equal(r.log, "end:ok");
    assert_int_equal(r.cancels, 0);
}

static void paused_door_that_cancels_after_the_end_gets_it(void **state)
{
    rig r;
    rig_open(&r);
    rig_start(&r, &rig_full, NULL);
    abx_call_pause(r.call);
    abx_call_chunk(r.call, ABX_CH_STDOUT, "a", 1);
    abx_call_end(r.call, NULL);
    rig_turn(&r);
    assert_string_equal(r.log, "");
    abx_call_cancel(r.call);
    rig_close(&r);
    assert_string_equal(r.log, "end:ok");
}

static void cancelled_call_hears_cancelled_whatever_the_adapter_says(void **state)
{
    for (int failing = 0; failing < 2; failing++) {
        rig r;
        rig_open(&r);
        rig_start(&r, &rig_full, NULL);
        abx_call_cancel(r.call);
        rig_turn(&r);
        if (failing)
            abx_call_fail(r.call, abx_error_new(ABX_ERR_FILE, "x"));
        else
            abx_call_end(r.call, abx_mut_new(NULL));
        rig_close(&r);
        assert_string_equal(r.log, "end:CANCELLED");
    }
}

static void what_is_sent_after_the_cancel_is_dropped(void **state)
{
    rig r;
    rig_open(&r);
    rig_start(&r, &rig_full, NULL);
    abx_call_cancel(r.call);
    rig_turn(&r);
    assert_int_equal(abx_call_chunk(r.call, ABX_CH_STDOUT, "late", 4), 1);
    assert_int_equal(abx_call_event(r.call, "exit", abx_mut_new(NULL)), 1);
    assert_int_equal(abx_call_write(r.call, "late", 4), 1);
    abx_call_end(r.call, NULL);
    rig_close(&r);
    assert_string_equal(r.log, "end:CANCELLED");
    assert_int_equal(r.inputs, 0);
}

/* --- deadline ---------------------------------------------------------------------------------------- */
static void deadline_ends_the_call(void **state)
{
    rig r;
    rig_open(&r);
    r.end_on_cancel = true;
    assert_true(abx_call_time_left(r.call) == ABX_FOREVER);
    rig_start(&r, &rig_full, NULL);
    abx_call_set_deadline(r.call, 5);
    assert_true(abx_call_time_left(r.call) <= 5);
    rig_close(&r);
    assert_int_equal(r.cancels, 1);
    assert_string_equal(r.log, "end:TIMEOUT");
}

static void deadline_of_zero_ends_it_from_the_loop(void **state)
{
    rig r;
    rig_open(&r);
    r.end_on_cancel = true;
    abx_call_set_deadline(r.call, 0);
    rig_start(&r, &rig_full, NULL);
    assert_string_equal(r.log, "");
    assert_int_equal(abx_call_time_left(r.call), 0);
    rig_close(&r);
    assert_string_equal(r.log, "end:TIMEOUT");
}

static void deadline_that_passes_before_the_start_waits_for_it(void **state)
{
    rig r;
    rig_open(&r);
    r.end_on_cancel = true;
    abx_call_set_deadline(r.call, 1);
    usleep(3000);
    rig_turn(&r);
    assert_string_equal(r.log, "");
    rig_start(&r, &rig_full, NULL);
    rig_close(&r);
    assert_string_equal(r.log, "end:TIMEOUT");
}

static void deadline_can_be_moved_and_taken_away(void **state)
{
    rig r;
    rig_open(&r);
    rig_start(&r, &rig_full, NULL);
    abx_call_set_deadline(r.call, 1);
    abx_call_set_deadline(r.call, 1000000);
    assert_true(abx_call_time_left(r.call) > 900000);
    abx_call_set_deadline(r.call, UINT64_MAX - 1);
    assert_true(abx_call_time_left(r.call) > 1000000);
    abx_call_set_deadline(r.call, ABX_FOREVER);
    usleep(3000);
    rig_turn(&r);
    assert_true(abx_call_time_left(r.call) == ABX_FOREVER);
    abx_call_end(r.call, NULL);
    rig_close(&r);
    assert_string_equal(r.log, "end:ok");
}

static void deadline_after_a_cancel_changes_nothing(void **state)
{
    rig r;
    rig_open(&r);
    rig_start(&r, &rig_full, NULL);
    abx_call_cancel(r.call);
    rig_turn(&r);
    abx_call_set_deadline(r.call, 0);
    rig_turn(&r);
    abx_call_end(r.call, NULL);
    rig_close(&r);
    assert_string_equal(r.log, "end:CANCELLED");
    assert_int_equal(r.cancels, 1);
}

/* --- an adapter that never ends ------------------------------------------------------------------------ */
static void adapter_that_lets_go_is_released_after_the_grace_time(void **state)
{
    rig r;
    rig_open(&r);
    abx_call_intercept(r.call, rig_intercept, &r);
    rig_start(&r, &rig_full, NULL);
    abx_call_pause(r.call);
    abx_call_chunk(r.call, ABX_CH_STDOUT, "a", 1);
    abx_call_cancel(r.call);
    rig_close(&r); /* turns the loop until the grace time is over */
    assert_string_equal(r.log, "end:CANCELLED");
    assert_int_equal(r.releases, 1);
    assert_int_equal(r.intercepts, 1);
    assert_true(r.intercepted_error);
}

static void adapter_that_keeps_its_state_may_end_after_the_grace_time(void **state)
{
    rig r;
    rig_open(&r);
    abx_call_intercept(r.call, rig_intercept, &r);
    rig_start(&r, &no_release, NULL);
    abx_call_set_deadline(r.call, 1);
    rig_run(&r);
    assert_string_equal(r.log, "end:TIMEOUT");
    assert_int_equal(r.intercepts, 1);
    assert_int_equal(abx_call_chunk(r.call, ABX_CH_STDOUT, "late", 4), 1);
    assert_int_equal(abx_call_event(r.call, "exit", NULL), 1);
    rig_turn(&r);
    abx_call_end(r.call, abx_mut_new(NULL));
    rig_close(&r);
    assert_string_equal(r.log, "end:TIMEOUT");
    assert_int_equal(r.ends, 1);
    assert_int_equal(r.intercepts, 1);
}

static void adapter_without_cancel_that_keeps_its_state_may_fail_later(void **state)
{
    static const abx_call_backend bare = {0};
    rig r;
    rig_open(&r);
    abx_call_intercept(r.call, rig_intercept, &r);
    rig_start(&r, &bare, NULL);
    abx_call_cancel(r.call);
    rig_turn(&r);
    assert_string_equal(r.log, "end:CANCELLED");
    abx_call_fail(r.call, abx_error_new(ABX_ERR_FILE, "x"));
    rig_close(&r);
    assert_int_equal(r.ends, 1);
    assert_int_equal(r.intercepts, 1);
}

static void interception_runs_once_when_cancelled(void **state)
{
    rig r;
    rig_open(&r);
    r.end_on_cancel = true;
    abx_call_intercept(r.call, rig_intercept, &r);
    rig_start(&r, &rig_full, NULL);
    abx_call_cancel(r.call);
    rig_close(&r);
    assert_int_equal(r.intercepts, 1);
    assert_string_equal(r.log, "end:CANCELLED");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_reaches_the_adapter_and_ends_the_call),
        cmocka_unit_test(second_cancel_does_nothing),
        cmocka_unit_test(cancel_before_the_start_waits_for_it),
        cmocka_unit_test(cancel_of_a_call_that_was_never_started_allows_discard),
        cmocka_unit_test(cancel_inside_start_comes_later),
        cmocka_unit_test(adapter_without_cancel_ends_at_once),
        cmocka_unit_test(cancel_inside_callbacks),
        cmocka_unit_test(cancel_inside_of_what_waited),
        cmocka_unit_test(wishes_inside_the_end_do_nothing),
        cmocka_unit_test(paused_door_hears_of_its_cancel),
        cmocka_unit_test(cancel_after_the_adapters_end_keeps_that_end),
        cmocka_unit_test(paused_door_that_cancels_after_the_end_gets_it),
        cmocka_unit_test(cancelled_call_hears_cancelled_whatever_the_adapter_says),
        cmocka_unit_test(what_is_sent_after_the_cancel_is_dropped),
        cmocka_unit_test(deadline_ends_the_call),
        cmocka_unit_test(deadline_of_zero_ends_it_from_the_loop),
        cmocka_unit_test(deadline_that_passes_before_the_start_waits_for_it),
        cmocka_unit_test(deadline_can_be_moved_and_taken_away),
        cmocka_unit_test(deadline_after_a_cancel_changes_nothing),
        cmocka_unit_test(adapter_that_lets_go_is_released_after_the_grace_time),
        cmocka_unit_test(adapter_that_keeps_its_state_may_end_after_the_grace_time),
        cmocka_unit_test(adapter_without_cancel_that_keeps_its_state_may_fail_later),
        cmocka_unit_test(interception_runs_once_when_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
