/* What the host writes into the ledger and when; names and idempotency keys; lists; gc. */
#include "host_rig.h"

#define OK ABX_ERR_COUNT

static abx_ledger_entry the_entry(host_rig *r)
{
    abx_ledger_entry *all, only;
    assert_int_equal(read_ledger(r->home, &all), 1);
    only = all[0];
    free(all);
    return only;
}

/* An entry whose maker is dead (pid) or lives (0: this process). */
static void add_unfinished(host_rig *r, const char *key, const char *name, int pid)
{
    abx_ledger *l;
    char k[50], p[] = "fake";
    snprintf(k, sizeof k, "%s", key);
    ABX_AUTO_FREE char *n = abx_strdup(name);
    abx_ledger_entry e = {.key = k, .name = n, .provider = p, .created_wall_ms = 1};
    e.creator_pid = pid;
    e.creator_start = pid ? 1 : 0;
    assert_int_equal(abx_ledger_open(r->home, &l, NULL), 0);
    assert_int_equal(abx_ledger_begin(l, &e, NULL, NULL), 0);
    abx_ledger_free(l);
}

static void entry_is_written_before_the_request_and_completed_after_it(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *id = host_make(&r, "{\"name\":\"n\",\"idempotencyKey\":\"k\"}");
    assert_true(rig_fake.ledger_had_entry);
    assert_false(rig_fake.ledger_entry_was_complete);
    assert_string_equal(host_result(&r, "provider"), "fake");
    abx_ledger_entry e = the_entry(&r);
    assert_true(e.complete);
    assert_string_equal(e.id, id);
    assert_string_equal(e.name, "n");
    assert_string_equal(e.provider, "fake");
    assert_string_equal(e.idempotency_key, "k");
    assert_int_equal(e.creator_pid, getpid());
    assert_true(abx_is_id(e.key));
    abx_ledger_entry_clear(&e);
    host_rig_close(&r);
}

static void entry_is_there_while_the_request_runs(void **state)
{
    host_rig r;
    host_rig_open(&r);
    rig_fake.hang = true;
    assert_non_null(host_begin(&r, NULL, ABX_OP_SANDBOX_CREATE, "{}"));
    abx_ledger_entry e = the_entry(&r);
    assert_false(e.complete);
    assert_true(e.creator_start > 0);
    abx_ledger_entry_clear(&e);
    rig_fake.hang = false;
    fake_answer(&rig_fake, rig_fake.hung);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    e = the_entry(&r);
    assert_true(e.complete);
    abx_ledger_entry_clear(&e);
    host_rig_close(&r);
}

static void failed_create_leaves_no_entry(void **state)
{
    static const abx_err_id ids[] = {ABX_ERR_BACKEND, ABX_ERR_QUOTA, ABX_ERR_ISOLATION};
    host_rig r;
    host_rig_open(&r);
    for (size_t i = 0; i < ABX_COUNT(ids); i++) {
        rig_fake.fail_with = ids[i];
        assert_int_equal(host_call(&r, ABX_OP_SANDBOX_CREATE, "{\"name\":\"n\"}"), ids[i]);
        assert_string_equal(r.provider, "fake");
        assert_int_equal(ledger_size(r.home), 0);
    }
    rig_fake.fail_with = 0;
    free(host_make(&r, "{\"name\":\"n\"}"));
    host_rig_close(&r);
}

static void create_whose_outcome_is_unknown_keeps_its_entry(void **state)
{
    static const abx_err_id ids[] = {ABX_ERR_TIMEOUT, ABX_ERR_NETWORK, ABX_ERR_PROVIDER_CRASHED};
    host_rig r;
    host_rig_open(&r);
    for (size_t i = 0; i < ABX_COUNT(ids); i++) {
        rig_fake.fail_with = ids[i];
        assert_int_equal(host_call(&r, ABX_OP_SANDBOX_CREATE, "{}"), ids[i]);
        assert_int_equal(ledger_size(r.home), i + 1);
    }
    host_rig_close(&r);
}

static void cancelled_create_ends_cancelled(void **state)
{
    host_rig r;
    host_rig_open(&r);
    rig_fake.hang = true;
    abx_call *call = host_begin(&r, NULL, ABX_OP_SANDBOX_CREATE, "{}");
    abx_call_cancel(call);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    assert_int_equal(r.end_id, ABX_ERR_CANCELLED);
    host_rig_close(&r);
}

static void kill_forgets_the_sandbox(void **state)
{
    for (int own = 0; own < 2; own++) {
        host_rig r;
        host_rig_open(&r);
        rig_fake.own_ids = own;
        ABX_AUTO_FREE char *id = host_make(&r, "{\"name\":\"n\"}");
        assert_int_equal(ledger_size(r.home), 1);
        assert_int_equal(host_on(&r, ABX_OP_SANDBOX_KILL, own ? id : "n"), OK);
        assert_int_equal(ledger_size(r.home), 0);
        assert_int_equal(host_on(&r, ABX_OP_SANDBOX_KILL, "n"), ABX_ERR_SANDBOX_NOT_FOUND);
        host_rig_close(&r);
    }
}

static void id_that_the_provider_chose_is_found(void **state)
{
    host_rig r;
    host_rig_open(&r);
    rig_fake.own_ids = true;
    ABX_AUTO_FREE char *id = host_make(&r, "{\"name\":\"n\"}");
    ABX_AUTO_FREE char *prefix = abx_strndup(id, 6);
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, id), OK);
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, prefix), OK);
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, "n"), OK);
    assert_string_equal(host_result(&r, "id"), id);
    host_rig_close(&r);
}

static void sandbox_that_is_gone_is_forgotten_when_asked_for(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *id = host_make(&r, "{}");
    box_of(&rig_fake, id)[0] = 0;
    assert_int_equal(host_on(&r, ABX_OP_PROCESS_LIST, id), ABX_ERR_SANDBOX_NOT_FOUND);
    assert_int_equal(ledger_size(r.home), 0);
    host_rig_close(&r);
}

static void failing_call_forgets_nothing(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *id = host_make(&r, "{}");
    rig_fake.fail_with = ABX_ERR_NETWORK;
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_KILL, id), ABX_ERR_NETWORK);
    assert_int_equal(ledger_size(r.home), 1);
    host_rig_close(&r);
}

/* --- names and idempotency keys ------------------------------------------------------------------------ */
static void living_name_is_a_conflict(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *id = host_make(&r, "{\"name\":\"n\"}");
    assert_int_equal(host_call(&r, ABX_OP_SANDBOX_CREATE, "{\"name\":\"n\"}"), ABX_ERR_CONFLICT);
    assert_non_null(strstr(r.message, id));
    assert_string_equal(r.sandbox, id);
    assert_non_null(strstr(r.hint, "kill"));
    assert_int_equal(ledger_size(r.home), 1);
    host_rig_close(&r);
}

static void name_of_a_dead_sandbox_is_free_again(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *first = host_make(&r, "{\"name\":\"n\"}");
    box_of(&rig_fake, first)[0] = 0;
    ABX_AUTO_FREE char *second = host_make(&r, "{\"name\":\"n\"}");
    assert_string_not_equal(first, second);
    abx_ledger_entry e = the_entry(&r);
    assert_string_equal(e.id, second);
    abx_ledger_entry_clear(&e);
    host_rig_close(&r);
}

/* Its maker was killed: nobody knows whether it came to life after the question. */
static void one_that_may_be_born_yet_is_ended_first(void **state)
{
    host_rig r;
    host_rig_open(&r);
    add_unfinished(&r, "aaaaaaaaaaaaaaaa", "n", 4194304);
    ABX_AUTO_FREE char *id = host_make(&r, "{\"name\":\"n\"}");
    assert_non_null(strstr(rig_fake.log, "sandbox.kill"));
    abx_ledger_entry e = the_entry(&r);
    assert_string_equal(e.id, id);
    abx_ledger_entry_clear(&e);
    host_rig_close(&r);
}

static void create_after_a_dead_name_may_fail(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *first = host_make(&r, "{\"name\":\"n\"}");
    box_of(&rig_fake, first)[0] = 0;
    rig_fake.hang = true;
    assert_non_null(host_begin(&r, NULL, ABX_OP_SANDBOX_CREATE, "{\"name\":\"n\"}"));
    rig_fake.hang = false;
    rig_fake.refuse_start = true; /* the info answers, then the create is refused */
    fake_answer(&rig_fake, rig_fake.hung);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    assert_int_equal(r.ends, 1);
    assert_int_equal(r.end_id, ABX_ERR_QUOTA);
    assert_int_equal(ledger_size(r.home), 0);
    host_rig_close(&r);
}

static void same_key_gives_the_same_sandbox(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *first = host_make(&r, "{\"idempotencyKey\":\"k 1\"}");
    ABX_AUTO_FREE char *second = host_make(&r, "{\"idempotencyKey\":\"k 1\"}");
    assert_string_equal(first, second);
    assert_string_equal(host_result(&r, "provider"), "fake");
    ABX_AUTO_FREE char *third = host_make(&r, "{\"idempotencyKey\":\"k 2\"}");
    assert_string_not_equal(first, third);
    assert_int_equal(ledger_size(r.home), 2);
    host_rig_close(&r);
}

static void same_key_of_a_dead_sandbox_makes_a_new_one(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *first = host_make(&r, "{\"idempotencyKey\":\"k\",\"name\":\"n\"}");
    box_of(&rig_fake, first)[0] = 0;
    ABX_AUTO_FREE char *second = host_make(&r, "{\"idempotencyKey\":\"k\",\"name\":\"n\"}");
    assert_string_not_equal(first, second);
    host_rig_close(&r);
}

static void same_key_with_a_name_of_another_is_a_conflict(void **state)
{
    host_rig r;
    host_rig_open(&r);
    free(host_make(&r, "{\"name\":\"n\"}"));
    assert_int_equal(
        host_call(&r, ABX_OP_SANDBOX_CREATE, "{\"name\":\"n\",\"idempotencyKey\":\"k\"}"),
        ABX_ERR_CONFLICT);
    host_rig_close(&r);
}

static void key_of_a_sandbox_elsewhere_answers_with_its_provider(void **state)
{
    host_rig r;
    host_rig_open(&r);
    assert_non_null(host_begin(&r, "other", ABX_OP_SANDBOX_CREATE, "{\"idempotencyKey\":\"k\"}"));
    uv_run(&r.loop, UV_RUN_DEFAULT);
    ABX_AUTO_FREE char *first = abx_strdup(host_result(&r, "id"));
    ABX_AUTO_FREE char *second = host_make(&r, "{\"idempotencyKey\":\"k\"}");
    assert_string_equal(first, second);
    assert_string_equal(host_result(&r, "provider"), "other");
    host_rig_close(&r);
}

static void name_that_may_be_reused_gives_its_sandbox(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *first = host_make(&r, "{\"name\":\"n\",\"reuse\":true}");
    ABX_AUTO_FREE char *second = host_make(&r, "{\"name\":\"n\",\"reuse\":true}");
    assert_string_equal(first, second);
    assert_string_equal(host_result(&r, "provider"), "fake");
    box_of(&rig_fake, first)[0] = 0;
    ABX_AUTO_FREE char *third = host_make(&r, "{\"name\":\"n\",\"reuse\":true}");
    assert_string_not_equal(first, third);
    assert_int_equal(host_call(&r, ABX_OP_SANDBOX_CREATE, "{\"reuse\":true}"), ABX_ERR_USAGE);
    host_rig_close(&r);
}

static void paused_sandbox_that_is_reused_is_resumed(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *first = host_make(&r, "{\"name\":\"n\"}");
    rig_fake.paused = true;
    ABX_AUTO_FREE char *second = host_make(&r, "{\"name\":\"n\",\"reuse\":true}");
    assert_string_equal(first, second);
    assert_false(rig_fake.paused);
    assert_string_equal(host_result(&r, "state"), "running");
    host_rig_close(&r);
}

static void name_of_another_provider_is_not_reused(void **state)
{
    host_rig r;
    host_rig_open(&r);
    assert_non_null(host_begin(&r, "other", ABX_OP_SANDBOX_CREATE, "{\"name\":\"n\"}"));
    uv_run(&r.loop, UV_RUN_DEFAULT);
    assert_int_equal(host_call(&r, ABX_OP_SANDBOX_CREATE, "{\"name\":\"n\",\"reuse\":true}"),
                     ABX_ERR_CONFLICT);
    assert_non_null(strstr(r.message, "other"));
    host_rig_close(&r);
}

static void check_asks_without_starting(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *id = host_make(&r, "{\"name\":\"n\"}");
    int starts = rig_fake.starts;
    char *provider = NULL, *sandbox = NULL;
    abx_error *err = NULL;
    abx_call_handlers handlers = {0};
    ABX_AUTO_JSON params =
        abx_json_parse("{\"sandboxId\":\"n\"}", 17, ABX_ERR_USAGE, "params", NULL);
    abx_call *c = abx_call_new(&r.loop, ABX_OP_SANDBOX_KILL,
                               abx_json_copy(yyjson_doc_get_root(params)), &handlers, NULL);
    assert_int_equal(abx_host_check(r.host, NULL, c, &provider, &sandbox, &err), 0);
    assert_string_equal(provider, "fake");
    assert_string_equal(sandbox, id);
    abx_call_discard(c);
    free(provider);
    free(sandbox);
    ABX_AUTO_JSON wrong =
        abx_json_parse("{\"name\":\"no name\"}", 18, ABX_ERR_USAGE, "params", NULL);
    c = abx_call_new(&r.loop, ABX_OP_SANDBOX_CREATE, abx_json_copy(yyjson_doc_get_root(wrong)),
                     &handlers, NULL);
    assert_int_equal(abx_host_check(r.host, NULL, c, &provider, &sandbox, &err), -1);
    assert_int_equal(err->id, ABX_ERR_USAGE);
    abx_error_free(err);
    abx_call_discard(c);
    assert_int_equal(rig_fake.starts, starts);
    assert_int_equal(ledger_size(r.home), 1);
    host_rig_close(&r);
}

static void holder_whose_provider_cannot_be_reached_is_an_error(void **state)
{
    host_rig r;
    host_rig_open(&r);
    assert_non_null(host_begin(&r, "other", ABX_OP_SANDBOX_CREATE, "{\"name\":\"n\"}"));
    uv_run(&r.loop, UV_RUN_DEFAULT);
    rig_other.refuse_start = true;
    assert_int_equal(host_call(&r, ABX_OP_SANDBOX_CREATE, "{\"name\":\"n\"}"), ABX_ERR_QUOTA);
    rig_other.refuse_start = false;
    rig_other.fail_with = ABX_ERR_NETWORK;
    assert_int_equal(host_call(&r, ABX_OP_SANDBOX_CREATE, "{\"name\":\"n\"}"), ABX_ERR_NETWORK);
    assert_int_equal(ledger_size(r.home), 1);
    host_rig_close(&r);
}

static void name_that_is_being_taken_right_now_is_a_conflict(void **state)
{
    host_rig r;
    host_rig_open(&r);
    rig_fake.hang = true;
    assert_non_null(host_begin(&r, NULL, ABX_OP_SANDBOX_CREATE, "{\"name\":\"n\"}"));
    abx_call *first = rig_fake.hung;
    assert_null(host_begin(&r, NULL, ABX_OP_SANDBOX_CREATE, "{\"name\":\"n\"}"));
    assert_int_equal(r.end_id, ABX_ERR_CONFLICT);
    assert_non_null(strstr(r.message, "right now"));
    fake_answer(&rig_fake, first);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    assert_int_equal(r.end_id, OK);
    host_rig_close(&r);
}

static void name_that_a_dead_maker_left_is_free(void **state)
{
    host_rig r;
    host_rig_open(&r);
    add_unfinished(&r, "aaaabbbbcccc1111", "n", 1);
    free(host_make(&r, "{\"name\":\"n\"}"));
    assert_non_null(strstr(rig_fake.log, "sandbox.info(aaaabbbbcccc1111)"));
    assert_int_equal(ledger_size(r.home), 1);
    host_rig_close(&r);
}

static void sandbox_that_a_dead_maker_left_can_be_named(void **state)
{
    host_rig r;
    host_rig_open(&r);
    add_unfinished(&r, "aaaabbbbcccc1111", "n", 1);
    put_box(&rig_fake, "aaaabbbbcccc1111");
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_KILL, "n"), OK);
    assert_null(box_of(&rig_fake, "aaaabbbbcccc1111"));
    assert_int_equal(ledger_size(r.home), 0);
    host_rig_close(&r);
}

static void create_that_waits_for_an_answer_can_be_cancelled(void **state)
{
    host_rig r;
    host_rig_open(&r);
    free(host_make(&r, "{\"name\":\"n\"}"));
    rig_fake.hang = true;
    abx_call *call = host_begin(&r, NULL, ABX_OP_SANDBOX_CREATE, "{\"name\":\"n\"}");
    assert_non_null(call);
    abx_call *info = rig_fake.hung;
    abx_call_cancel(call);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    assert_int_equal(r.end_id, ABX_ERR_CANCELLED);
    fake_answer(&rig_fake, info); /* the answer comes when nobody waits any more */
    uv_run(&r.loop, UV_RUN_DEFAULT);
    assert_int_equal(r.ends, 1);
    host_rig_close(&r);
}

/* --- lists ------------------------------------------------------------------------------------------------ */
static void list_forgets_what_is_gone(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *lives = host_make(&r, "{}");
    ABX_AUTO_FREE char *gone = host_make(&r, "{}");
    box_of(&rig_fake, gone)[0] = 0;
    add_unfinished(&r, "aaaabbbbcccc1111", NULL, 1); /* never made, its maker is dead */
    usleep(2000); /* what is made in the same millisecond as the list is left alone */
    assert_int_equal(host_call(&r, ABX_OP_SANDBOX_LIST, "{}"), OK);
    yyjson_val *list = abx_json_get(yyjson_doc_get_root(r.result), "sandboxes");
    assert_int_equal(yyjson_arr_size(list), 1);
    assert_string_equal(abx_json_str(yyjson_arr_get_first(list), "provider", ""), "fake");
    abx_ledger_entry e = the_entry(&r);
    assert_string_equal(e.id, lives);
    abx_ledger_entry_clear(&e);
    host_rig_close(&r);
}

static void list_with_a_filter_forgets_nothing(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *gone = host_make(&r, "{}");
    box_of(&rig_fake, gone)[0] = 0;
    usleep(2000);
    assert_int_equal(host_call(&r, ABX_OP_SANDBOX_LIST, "{\"metadata\":{\"a\":\"b\"}}"), OK);
    assert_int_equal(ledger_size(r.home), 1);
    host_rig_close(&r);
}

static void list_of_one_provider_leaves_the_others_alone(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *gone = host_make(&r, "{}");
    box_of(&rig_fake, gone)[0] = 0;
    usleep(2000);
    assert_non_null(host_begin(&r, "other", ABX_OP_SANDBOX_LIST, "{}"));
    uv_run(&r.loop, UV_RUN_DEFAULT);
    assert_int_equal(r.end_id, OK);
    assert_int_equal(ledger_size(r.home), 1);
    host_rig_close(&r);
}

/* --- gc --------------------------------------------------------------------------------------------------- */
static size_t removed(host_rig *r)
{
    yyjson_val *list = abx_json_get(yyjson_doc_get_root(r->result), "removed");
    assert_true(yyjson_is_arr(list));
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(list, i, n, item)
        assert_string_equal(abx_json_str(item, "provider", ""), "fake");
    return yyjson_arr_size(list);
}

static void gc_ends_what_nobody_knows_of(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *id = host_make(&r, "{}");
    add_unfinished(&r, "aaaabbbbcccc1111", NULL, 1); /* was made */
    add_unfinished(&r, "aaaabbbbcccc2222", NULL, 1); /* was never made */
    put_box(&rig_fake, "aaaabbbbcccc1111");
    assert_int_equal(host_call(&r, ABX_OP_PROVIDER_GC, "{}"), OK);
    assert_null(box_of(&rig_fake, "aaaabbbbcccc1111"));
    assert_non_null(box_of(&rig_fake, id));
    assert_int_equal(removed(&r), 2); /* a sandbox, and an entry without one */
    abx_ledger_entry e = the_entry(&r);
    assert_string_equal(e.id, id);
    abx_ledger_entry_clear(&e);
    assert_non_null(strstr(rig_fake.log, "provider.gc()"));
    host_rig_close(&r);
}

static void gc_forgets_what_is_gone(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *gone = host_make(&r, "{}");
    ABX_AUTO_FREE char *lives = host_make(&r, "{}");
    box_of(&rig_fake, gone)[0] = '!';
    assert_int_equal(host_call(&r, ABX_OP_PROVIDER_GC, "{\"dryRun\":true}"), OK);
    assert_int_equal(removed(&r), 1);
    assert_int_equal(ledger_size(r.home), 2);
    assert_int_equal(host_call(&r, ABX_OP_PROVIDER_GC, "{}"), OK);
    assert_int_equal(removed(&r), 1);
    abx_ledger_entry e = the_entry(&r);
    assert_string_equal(e.id, lives);
    abx_ledger_entry_clear(&e);
    assert_null(strstr(rig_fake.log, "sandbox.kill"));
    host_rig_close(&r);
}

static void gc_that_only_looks_changes_nothing(void **state)
{
    host_rig r;
    host_rig_open(&r);
    add_unfinished(&r, "aaaabbbbcccc1111", NULL, 1);
    put_box(&rig_fake, "aaaabbbbcccc1111");
    assert_int_equal(host_call(&r, ABX_OP_PROVIDER_GC, "{\"dryRun\":true}"), OK);
    assert_int_equal(removed(&r), 1);
    assert_non_null(box_of(&rig_fake, "aaaabbbbcccc1111"));
    assert_int_equal(ledger_size(r.home), 1);
    assert_null(strstr(rig_fake.log, "sandbox.kill"));
    host_rig_close(&r);
}

static void gc_leaves_what_is_being_made(void **state)
{
    host_rig r;
    host_rig_open(&r);
    rig_fake.hang = true;
    assert_non_null(host_begin(&r, NULL, ABX_OP_SANDBOX_CREATE, "{}"));
    abx_call *create = rig_fake.hung;
    rig_fake.hang = false;
    assert_int_equal(host_call(&r, ABX_OP_PROVIDER_GC, "{}"), OK);
    assert_int_equal(removed(&r), 0);
    assert_int_equal(ledger_size(r.home), 1);
    r.ends = 0;
    yyjson_doc_free(r.result);
    r.result = NULL;
    fake_answer(&rig_fake, create);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    assert_int_equal(r.end_id, OK);
    host_rig_close(&r);
}

static void gc_keeps_what_it_could_not_end(void **state)
{
    host_rig r;
    host_rig_open(&r);
    add_unfinished(&r, "aaaabbbbcccc1111", NULL, 1);
    put_box(&rig_fake, "aaaabbbbcccc1111");
    rig_fake.hang = true;
    assert_non_null(host_begin(&r, NULL, ABX_OP_PROVIDER_GC, "{}"));
    rig_fake.hang = false;
    rig_fake.fail_with = ABX_ERR_NETWORK;
    fake_answer(&rig_fake, rig_fake.hung);
    rig_fake.fail_with = 0;
    uv_run(&r.loop, UV_RUN_DEFAULT);
    assert_int_equal(r.end_id, OK);
    assert_int_equal(removed(&r), 0);
    assert_int_equal(ledger_size(r.home), 1);
    host_rig_close(&r);
}

static void gc_whose_backend_refuses_fails(void **state)
{
    host_rig r;
    host_rig_open(&r);
    rig_fake.refuse_start = true;
    assert_int_equal(host_call(&r, ABX_OP_PROVIDER_GC, "{}"), ABX_ERR_QUOTA);
    assert_int_equal(r.ends, 1);
    host_rig_close(&r);
}

static void gc_can_be_cancelled_in_its_middle(void **state)
{
    host_rig r;
    host_rig_open(&r);
    add_unfinished(&r, "aaaabbbbcccc1111", NULL, 1);
    put_box(&rig_fake, "aaaabbbbcccc1111");
    rig_fake.hang = true;
    abx_call *call = host_begin(&r, NULL, ABX_OP_PROVIDER_GC, "{}");
    abx_call *kill_call = rig_fake.hung;
    abx_call_cancel(call);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    assert_int_equal(r.end_id, ABX_ERR_CANCELLED);
    fake_answer(&rig_fake, kill_call);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    assert_int_equal(r.ends, 1);
    host_rig_close(&r);
}

static void gc_needs_its_feature(void **state)
{
    host_rig r;
    host_rig_open(&r);
    rig_features(&rig_fake, "{}");
    add_unfinished(&r, "aaaabbbbcccc1111", NULL, 1);
    assert_int_equal(host_call(&r, ABX_OP_PROVIDER_GC, "{}"), ABX_ERR_FEATURE_MISSING);
    assert_int_equal(rig_fake.starts, 0);
    host_rig_close(&r);
}

static void corrupt_entry_stops_neither_list_nor_gc(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *id = host_make(&r, "{}");
    ABX_AUTO_FREE char *path = abx_format("%s/ledger/broken.json", r.home);
    kit_write(path, "{\"id\": ");
    assert_int_equal(host_call(&r, ABX_OP_SANDBOX_LIST, "{}"), OK);
    assert_int_equal(host_call(&r, ABX_OP_PROVIDER_GC, "{}"), OK);
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, id), OK);
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, "broken"), ABX_ERR_LOCAL_STATE);
    assert_non_null(strstr(r.message, "broken.json"));
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_KILL, id), OK);
    host_rig_close(&r);
}

/* A link that leads nowhere we know: a prefix search meets it. */
static void odd_link_in_the_ledger_does_no_harm(void **state)
{
    host_rig r;
    host_rig_open(&r);
    rig_fake.own_ids = true;
    ABX_AUTO_FREE char *id = host_make(&r, "{}");
    ABX_AUTO_FREE char *odd = abx_format("%s/ledger/ids/aaaabbbbcccc1111", r.home);
    ABX_AUTO_FREE char *gone = abx_format("%s/ledger/ids/aaaabbbbcccc2222", r.home);
    assert_int_equal(symlink("../../../etc/passwd", odd), 0);
    assert_int_equal(symlink("nobody", gone), 0);
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, "aaaab"), ABX_ERR_SANDBOX_NOT_FOUND);
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, id), OK);
    host_rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entry_is_written_before_the_request_and_completed_after_it),
        cmocka_unit_test(entry_is_there_while_the_request_runs),
        cmocka_unit_test(failed_create_leaves_no_entry),
        cmocka_unit_test(create_whose_outcome_is_unknown_keeps_its_entry),
        cmocka_unit_test(cancelled_create_ends_cancelled),
        cmocka_unit_test(kill_forgets_the_sandbox),
        cmocka_unit_test(id_that_the_provider_chose_is_found),
        cmocka_unit_test(sandbox_that_is_gone_is_forgotten_when_asked_for),
        cmocka_unit_test(failing_call_forgets_nothing),
        cmocka_unit_test(living_name_is_a_conflict),
        cmocka_unit_test(name_of_a_dead_sandbox_is_free_again),
        cmocka_unit_test(one_that_may_be_born_yet_is_ended_first),
        cmocka_unit_test(create_after_a_dead_name_may_fail),
        cmocka_unit_test(same_key_gives_the_same_sandbox),
        cmocka_unit_test(same_key_of_a_dead_sandbox_makes_a_new_one),
        cmocka_unit_test(same_key_with_a_name_of_another_is_a_conflict),
        cmocka_unit_test(key_of_a_sandbox_elsewhere_answers_with_its_provider),
        cmocka_unit_test(name_that_may_be_reused_gives_its_sandbox),
        cmocka_unit_test(paused_sandbox_that_is_reused_is_resumed),
        cmocka_unit_test(name_of_another_provider_is_not_reused),
        cmocka_unit_test(check_asks_without_starting),
        cmocka_unit_test(holder_whose_provider_cannot_be_reached_is_an_error),
        cmocka_unit_test(name_that_is_being_taken_right_now_is_a_conflict),
        cmocka_unit_test(name_that_a_dead_maker_left_is_free),
        cmocka_unit_test(sandbox_that_a_dead_maker_left_can_be_named),
        cmocka_unit_test(create_that_waits_for_an_answer_can_be_cancelled),
        cmocka_unit_test(list_forgets_what_is_gone),
        cmocka_unit_test(list_with_a_filter_forgets_nothing),
        cmocka_unit_test(list_of_one_provider_leaves_the_others_alone),
        cmocka_unit_test(gc_ends_what_nobody_knows_of),
        cmocka_unit_test(gc_forgets_what_is_gone),
        cmocka_unit_test(gc_that_only_looks_changes_nothing),
        cmocka_unit_test(gc_leaves_what_is_being_made),
        cmocka_unit_test(gc_keeps_what_it_could_not_end),
        cmocka_unit_test(gc_whose_backend_refuses_fails),
        cmocka_unit_test(gc_can_be_cancelled_in_its_middle),
        cmocka_unit_test(gc_needs_its_feature),
        cmocka_unit_test(corrupt_entry_stops_neither_list_nor_gc),
        cmocka_unit_test(odd_link_in_the_ledger_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
