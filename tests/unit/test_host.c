/* The host: parameters, gate, names and prefixes, choice of the provider. Create, ledger and gc: test_host_ledger.c */
#include "host_rig.h"

#include "host/host_private.h"

#define OK ABX_ERR_COUNT

static void gate_refuses_before_the_adapter_sees_anything(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *id = host_make(&r, "{}");
    int starts = rig_fake.starts;
    assert_int_equal(host_on(&r, ABX_OP_PTY_OPEN, id), ABX_ERR_FEATURE_MISSING);
    assert_non_null(strstr(r.message, "'fake' has no 'pty'"));
    assert_int_equal(rig_fake.starts, starts);
    ABX_AUTO_FREE char *path = abx_format("{\"sandboxId\":\"%s\",\"path\":\"/\"}", id);
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_METRICS, id), ABX_ERR_FEATURE_MISSING); /* absent */
    assert_int_equal(rig_fake.starts, starts);
    assert_int_equal(host_call(&r, ABX_OP_FS_STAT, path), OK); /* emulated */
    host_rig_close(&r);
}

static void create_is_gated_before_the_ledger(void **state)
{
    host_rig r;
    host_rig_open(&r);
    rig_features(&rig_fake, "{\"sandbox.create\":\"unsupported\"}");
    assert_int_equal(host_call(&r, ABX_OP_SANDBOX_CREATE, "{}"), ABX_ERR_FEATURE_MISSING);
    assert_int_equal(ledger_size(r.home), 0);
    assert_int_equal(rig_fake.starts, 0);
    host_rig_close(&r);
}

static void operation_overrides_its_feature(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *id = host_make(&r, "{}");
    rig_features(&rig_fake, "{\"process\":\"native\",\"process.list\":\"unsupported\","
                            "\"list\":\"unsupported\",\"sandbox.list\":\"emulated\"}");
    assert_int_equal(host_on(&r, ABX_OP_PROCESS_LIST, id), ABX_ERR_FEATURE_MISSING);
    assert_int_equal(host_call(&r, ABX_OP_SANDBOX_LIST, "{}"), OK);
    host_rig_close(&r);
}

static void every_provider_has_the_sandbox_feature(void **state)
{
    host_rig r;
    host_rig_open(&r);
    rig_features(&rig_fake, "{}");
    ABX_AUTO_FREE char *id = host_make(&r, "{}");
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, id), OK);
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_CONNECT, id), ABX_ERR_FEATURE_MISSING);
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_KILL, id), OK);
    host_rig_close(&r);
}

static void wrong_parameters_reach_nobody(void **state)
{
    host_rig r;
    host_rig_open(&r);
    assert_int_equal(host_call(&r, ABX_OP_SANDBOX_CREATE, "{\"nmae\":\"x\"}"), ABX_ERR_USAGE);
    assert_string_equal(r.hint, "did you mean 'name'?");
    assert_int_equal(host_call(&r, ABX_OP_SANDBOX_INFO, "{}"), ABX_ERR_USAGE);
    assert_int_equal(host_call(&r, ABX_OP_SANDBOX_CREATE, "{\"name\":\"No Name\"}"), ABX_ERR_USAGE);
    assert_int_equal(rig_fake.opens, 0);
    assert_int_equal(ledger_size(r.home), 0);
    host_rig_close(&r);
}

static void sandbox_is_found_by_name_id_and_prefix(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *id = host_make(&r, "{\"name\":\"my-box\"}");
    ABX_AUTO_FREE char *prefix = abx_strndup(id, 4);
    ABX_AUTO_FREE char *most = abx_strndup(id, 15);
    const char *const words[] = {id, "my-box", prefix, most};
    for (size_t i = 0; i < ABX_COUNT(words); i++) {
        assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, words[i]), OK);
        assert_string_equal(host_result(&r, "id"), id);
        assert_string_equal(host_result(&r, "provider"), "fake");
    }
    prefix[3] = 0;
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, prefix), ABX_ERR_SANDBOX_NOT_FOUND);
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, "my-bo"), ABX_ERR_SANDBOX_NOT_FOUND);
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, ""), ABX_ERR_SANDBOX_NOT_FOUND);
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, "../../etc"), ABX_ERR_SANDBOX_NOT_FOUND);
    host_rig_close(&r);
}

static void add_entry(host_rig *r, const char *key, const char *name, const char *provider,
                      bool complete)
{
    abx_ledger *l;
    char k[50], p[50];
    snprintf(k, sizeof k, "%s", key);
    snprintf(p, sizeof p, "%s", provider);
    ABX_AUTO_FREE char *n = abx_strdup(name);
    abx_ledger_entry e = {.key = k, .name = n, .provider = p, .created_wall_ms = 1};
    assert_int_equal(abx_ledger_open(r->home, &l, NULL), 0);
    assert_int_equal(abx_ledger_begin(l, &e, NULL, NULL), 0);
    if (complete)
        assert_int_equal(abx_ledger_complete(l, key, key, NULL, NULL), 0);
    abx_ledger_free(l);
}

static void ambiguous_prefix_names_the_candidates(void **state)
{
    host_rig r;
    host_rig_open(&r);
    add_entry(&r, "aaaabbbbcccc1111", NULL, "fake", true);
    add_entry(&r, "aaaabbbbcccc2222", NULL, "fake", true);
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, "aaaab"), ABX_ERR_CONFLICT);
    assert_non_null(strstr(r.message, "aaaabbbbcccc1111"));
    assert_non_null(strstr(r.message, "aaaabbbbcccc2222"));
    assert_int_equal(rig_fake.starts, 0);
    put_box(&rig_fake, "aaaabbbbcccc2222");
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, "aaaabbbbcccc2"), OK);
    host_rig_close(&r);
}

static void name_comes_before_a_prefix(void **state)
{
    host_rig r;
    host_rig_open(&r);
    add_entry(&r, "aaaabbbbcccc1111", NULL, "fake", true);
    add_entry(&r, "ddddbbbbcccc2222", "aaaa", "fake", true);
    put_box(&rig_fake, "ddddbbbbcccc2222");
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, "aaaa"), OK);
    assert_string_equal(host_result(&r, "id"), "ddddbbbbcccc2222");
    host_rig_close(&r);
}

static void sandbox_is_asked_at_its_own_provider(void **state)
{
    host_rig r;
    host_rig_open(&r);
    add_entry(&r, "aaaabbbbcccc1111", "far", "other", true);
    put_box(&rig_other, "aaaabbbbcccc1111");
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, "far"), OK);
    assert_string_equal(host_result(&r, "provider"), "other");
    assert_int_equal(rig_fake.opens, 0);
    host_rig_close(&r);
}

static void whole_id_that_the_ledger_lost_is_tried_at_the_chosen_provider(void **state)
{
    host_rig r;
    host_rig_open(&r);
    put_box(&rig_fake, "aaaabbbbcccc1111");
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, "aaaabbbbcccc1111"), OK);
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, "aaaabbbbcccc2222"),
                     ABX_ERR_SANDBOX_NOT_FOUND);
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, "aaaa"), ABX_ERR_SANDBOX_NOT_FOUND);
    host_end_program(&r);
    host_start_program(&r, NULL); /* nobody chose a provider */
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, "aaaabbbbcccc1111"),
                     ABX_ERR_SANDBOX_NOT_FOUND);
    host_rig_close(&r);
}

static void sandbox_that_is_still_being_made_is_busy(void **state)
{
    host_rig r;
    host_rig_open(&r);
    char key[] = "aaaabbbbcccc1111", name[] = "new", provider[] = "fake";
    abx_ledger_entry e = {.key = key, .name = name, .provider = provider};
    abx_ledger *ledger = NULL;
    abx__host_self_identity(&e); /* its maker lives: it is us */
    assert_int_equal(abx_ledger_open(r.home, &ledger, NULL), 0);
    assert_int_equal(abx_ledger_begin(ledger, &e, NULL, NULL), 0);
    abx_ledger_free(ledger);
    assert_int_equal(host_on(&r, ABX_OP_SANDBOX_INFO, "new"), ABX_ERR_CONFLICT);
    host_rig_close(&r);
}

static void unknown_provider_names_the_nearest(void **state)
{
    host_rig r;
    host_rig_open(&r);
    assert_null(host_begin(&r, "fakee", ABX_OP_SANDBOX_LIST, "{}"));
    assert_int_equal(r.end_id, ABX_ERR_PROVIDER_NOT_FOUND);
    assert_string_equal(r.hint, "did you mean 'fake'?");
    assert_null(host_begin(&r, "zzzzzz", ABX_OP_SANDBOX_CREATE, "{}"));
    assert_int_equal(r.end_id, ABX_ERR_PROVIDER_NOT_FOUND);
    assert_string_equal(r.hint, "known providers: fake, other");
    assert_int_equal(ledger_size(r.home), 0);
    host_rig_close(&r);
}

static void provider_without_credentials_says_what_needs_none(void **state)
{
    host_rig r;
    host_rig_open(&r);
    rig_fake.refuse_open = true;
    assert_int_equal(host_call(&r, ABX_OP_SANDBOX_CREATE, "{}"), ABX_ERR_API_KEY);
    assert_non_null(strstr(r.hint, "--provider local"));
    assert_string_equal(r.provider, "fake");
    assert_int_equal(ledger_size(r.home), 0);
    host_rig_close(&r);
}

static void default_provider_is_the_one_of_the_design(void **state)
{
    host_rig r;
    const char *source = NULL;
    host_rig_open(&r);
    assert_string_equal(abx_host_provider(r.host, NULL), "fake");
    host_end_program(&r);
    host_start_program(&r, NULL);
    assert_string_equal(abx_host_provider(r.host, &source), "alicloud-express");
    assert_non_null(source);
    assert_int_equal(host_call(&r, ABX_OP_SANDBOX_CREATE, "{}"), ABX_ERR_PROVIDER_NOT_FOUND);
    host_rig_close(&r);
}

static void provider_is_opened_once(void **state)
{
    host_rig r;
    host_rig_open(&r);
    for (int i = 0; i < 3; i++)
        assert_int_equal(host_call(&r, ABX_OP_SANDBOX_LIST, "{}"), OK);
    assert_int_equal(rig_fake.opens, 1);
    assert_int_equal(rig_other.opens, 0);
    host_rig_close(&r);
    assert_int_equal(rig_fake.closes, 1);
}

static void refused_start_leaves_the_call_to_the_door(void **state)
{
    host_rig r;
    host_rig_open(&r);
    for (int accepted = 0; accepted < 2; accepted++) {
        rig_fake.refuse_start = true;
        rig_fake.accept_first = accepted;
        assert_int_equal(host_call(&r, ABX_OP_SANDBOX_LIST, "{}"), ABX_ERR_QUOTA);
        assert_string_equal(r.provider, "fake");
        assert_int_equal(host_call(&r, ABX_OP_SANDBOX_CREATE, "{}"), ABX_ERR_QUOTA);
        assert_int_equal(ledger_size(r.home), 0);
    }
    host_rig_close(&r);
}

static void failure_names_provider_and_sandbox(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *id = host_make(&r, "{}");
    rig_fake.fail_with = ABX_ERR_BACKEND;
    assert_int_equal(host_on(&r, ABX_OP_PROCESS_LIST, id), ABX_ERR_BACKEND);
    assert_string_equal(r.provider, "fake");
    assert_string_equal(r.sandbox, id);
    host_rig_close(&r);
}

static void cancel_reaches_the_adapter(void **state)
{
    host_rig r;
    host_rig_open(&r);
    ABX_AUTO_FREE char *id = host_make(&r, "{}");
    rig_fake.hang = true;
    ABX_AUTO_FREE char *params = abx_format("{\"sandboxId\":\"%s\"}", id);
    abx_call *call = host_begin(&r, NULL, ABX_OP_PROCESS_LIST, params);
    assert_non_null(call);
    abx_call_cancel(call);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    assert_int_equal(r.end_id, ABX_ERR_CANCELLED);
    assert_null(rig_fake.hung);
    host_rig_close(&r);
}

static void used_providers_are_the_chosen_and_those_of_the_ledger(void **state)
{
    host_rig r;
    const char *const *ids;
    host_rig_open(&r);
    add_entry(&r, "aaaabbbbcccc1111", NULL, "other", true);
    add_entry(&r, "aaaabbbbcccc2222", NULL, "other", true);
    assert_int_equal(abx_host_used_providers(r.host, &ids, NULL), 0);
    assert_string_equal(ids[0], "fake");
    assert_string_equal(ids[1], "other");
    assert_null(ids[2]);
    host_end_program(&r);
    host_start_program(&r, NULL);
    assert_int_equal(abx_host_used_providers(r.host, &ids, NULL), 0);
    assert_string_equal(ids[0], "other");
    assert_null(ids[1]);
    const char *const *known = abx_host_providers(r.host);
    assert_string_equal(known[0], "fake");
    assert_string_equal(known[1], "other");
    assert_null(known[2]);
    host_rig_close(&r);
}

static void provider_is_described_with_its_features(void **state)
{
    host_rig r;
    abx_error *err = NULL;
    host_rig_open(&r);
    ABX_AUTO_JSON doc = abx_host_describe(r.host, "fake", NULL);
    yyjson_val *root = yyjson_doc_get_root(doc);
    assert_string_equal(abx_json_str(root, "id", ""), "fake");
    assert_string_equal(abx_json_str(abx_json_get(root, "features"), "list", ""), "native");
    assert_null(abx_host_describe(r.host, "nobody", &err));
    assert_fails(err, PROVIDER_NOT_FOUND);
    host_rig_close(&r);
}

static void two_hosts_live_in_one_process(void **state)
{
    host_rig a, b;
    host_rig_open(&a);
    ABX_AUTO_FREE char *id = host_make(&a, "{\"name\":\"x\"}");
    memset(&b, 0, sizeof b);
    b.home = kit_folder();
    assert_int_equal(uv_loop_init(&b.loop), 0);
    host_start_program(&b, "other");
    assert_int_equal(host_on(&b, ABX_OP_SANDBOX_INFO, "x"), ABX_ERR_SANDBOX_NOT_FOUND);
    free(host_make(&b, "{\"name\":\"x\"}"));
    assert_int_equal(host_on(&a, ABX_OP_SANDBOX_INFO, "x"), OK);
    assert_string_equal(host_result(&a, "id"), id);
    host_end_program(&b);
    assert_int_equal(uv_loop_close(&b.loop), 0);
    yyjson_doc_free(b.result);
    kit_drop(b.home);
    host_rig_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gate_refuses_before_the_adapter_sees_anything),
        cmocka_unit_test(create_is_gated_before_the_ledger),
        cmocka_unit_test(operation_overrides_its_feature),
        cmocka_unit_test(every_provider_has_the_sandbox_feature),
        cmocka_unit_test(wrong_parameters_reach_nobody),
        cmocka_unit_test(sandbox_is_found_by_name_id_and_prefix),
        cmocka_unit_test(ambiguous_prefix_names_the_candidates),
        cmocka_unit_test(name_comes_before_a_prefix),
        cmocka_unit_test(sandbox_is_asked_at_its_own_provider),
        cmocka_unit_test(whole_id_that_the_ledger_lost_is_tried_at_the_chosen_provider),
        cmocka_unit_test(sandbox_that_is_still_being_made_is_busy),
        cmocka_unit_test(unknown_provider_names_the_nearest),
        cmocka_unit_test(provider_without_credentials_says_what_needs_none),
        cmocka_unit_test(default_provider_is_the_one_of_the_design),
        cmocka_unit_test(provider_is_opened_once),
        cmocka_unit_test(refused_start_leaves_the_call_to_the_door),
        cmocka_unit_test(failure_names_provider_and_sandbox),
        cmocka_unit_test(cancel_reaches_the_adapter),
        cmocka_unit_test(used_providers_are_the_chosen_and_those_of_the_ledger),
        cmocka_unit_test(provider_is_described_with_its_features),
        cmocka_unit_test(two_hosts_live_in_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
