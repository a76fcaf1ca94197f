/* The store of providers, connections, configuration and ledger over the C API. */
#include "rig.h"

#include "plugin.h"

static void holds(char *answer, abx_error *err, const char *part)
{
    rig_must(answer, err);
    if (!strstr(answer, part))
        fail_msg("no %s in %s", part, answer);
    abx_free(answer);
}

static void a_plugin_comes_and_goes(void **state)
{
    rig *r = *state;
    char folder[128], path[160];
    abx_error *err = NULL;
    snprintf(folder, sizeof(folder), "%s/pid", r->home);
    plugin_write(folder, plugin_pid_program);
    holds(abx_provider_info(r->ctx, folder, &err), err, "\"id\":\"pid\"");
    holds(abx_provider_install(r->ctx, folder, NULL, &err), err, "\"step\":\"new\"");
    holds(abx_provider_list(r->ctx, &err), err, "\"id\":\"pid\"");
    holds(abx_provider_info(r->ctx, "pid", &err), err, "\"trust\":\"local\"");
    holds(abx_provider_caps(r->ctx, &err), err, "\"id\":\"pid\",\"features\"");
    holds(abx_provider_verify(r->ctx, NULL, &err), err, "\"ok\":true");
    abx_provider *p = rig_open(r->ctx, "{\"provider\":\"pid\"}");
    holds(abx_provider_call(p, "sandbox.info", "{\"sandboxId\":\"aaaaaaaaaaaaaaaa\"}", 0, &err),
          err, "\"name\":\"pid");
    holds(abx_provider_describe(p, &err), err, "\"kind\":\"exec\"");
    assert_string_equal(abx_provider_id(p), "pid");
    abx_provider_close(p);
    snprintf(path, sizeof(path), "%s/providers/pid", r->home);
    plugin_put(path, "plugin", "#!/bin/sh\n", 0755);
    holds(abx_provider_verify(r->ctx, "pid", &err), err, "\"code\":\"E8003\"");
    p = rig_open(r->ctx, "{\"provider\":\"pid\"}");
    assert_null(
        abx_provider_call(p, "sandbox.info", "{\"sandboxId\":\"aaaaaaaaaaaaaaaa\"}", 0, &err));
    rig_fails(&err, "E8003");
    abx_provider_close(p);
    assert_int_equal(abx_provider_remove(r->ctx, "pid", 0, &err), 0);
    assert_int_equal(abx_provider_remove(r->ctx, "pid", 0, &err), -1);
    rig_fails(&err, "E3004");
    assert_null(abx_provider_install(r->ctx, folder, "{\"inherit\":[\"nothing\"]}", &err));
    rig_fails(&err, "E1001");
}

static void a_feature_that_is_not_there_is_told(void **state)
{
    abx_error *err = NULL;
    char params[128];
    snprintf(params, sizeof(params), "{\"sandboxId\":\"%s\"}", ((rig *)*state)->sandbox);
    assert_null(
        abx_provider_call(((rig *)*state)->local, ABX_METHOD_SANDBOX_LOGS, params, 0, &err));
    assert_string_equal(abx_error_type(err), "ProviderFeatureNotSupportedError");
    assert_int_equal(abx_error_retryable(err), 0);
    rig_fails(&err, ABX_CODE_FEATURE_MISSING);
}

/* A connection's options are checked as flags are; without configuration nothing else counts. */
static void connections_are_checked(void **state)
{
    rig *r = *state;
    abx_error *err = NULL;
    assert_null(
        abx_provider_open(r->ctx, "{\"provider\":\"local\",\"options\":{\"ids\":\"many\"}}", &err));
    rig_fails(&err, "E1003");
    assert_null(abx_provider_open(r->ctx, "{\"options\":[]}", &err));
    rig_fails(&err, "E1001");
    assert_null(abx_provider_open(r->ctx, "{\"apiKey\":7}", &err));
    rig_fails(&err, "E1001");
    setenv("ABX_PROVIDER", "local", 1);
    abx_provider *p = rig_open(r->ctx, NULL);
    assert_string_equal(abx_provider_id(p), "alicloud-express");
    abx_provider_close(p);
    p = rig_open(r->ctx, "{\"config\":true}");
    assert_string_equal(abx_provider_id(p), "local");
    abx_provider_close(p);
    unsetenv("ABX_PROVIDER");
}

/* What is given, what the environment adds, and nothing of what this provider does not take. */
static void a_connection_is_told_whole(void **state)
{
    rig *r = *state;
    abx_error *err = NULL;
    setenv("ABX_API_KEY", "e2b_0123456789", 1);
    abx_provider *p =
        rig_open(r->ctx, "{\"provider\":\"alicloud-express\",\"config\":true,"
                         "\"domain\":\"d.example\",\"options\":{\"region\":\"cn-shanghai\"}}");
    char *told = abx_provider_connection(p, &err);
    rig_must(told, err);
    assert_non_null(strstr(told, "\"provider\":\"alicloud-express\""));
    assert_non_null(strstr(told, "\"apiKey\":\"e2b_0123456789\""));
    assert_non_null(strstr(told, "\"domain\":\"d.example\""));
    assert_non_null(strstr(told, "\"region\":\"cn-shanghai\""));
    abx_free(told);
    abx_provider_close(p);
    p = rig_open(r->ctx, "{\"provider\":\"local\",\"config\":true}");
    told = abx_provider_connection(p, &err);
    rig_must(told, err);
    assert_null(strstr(told, "e2b_0123456789"));
    abx_free(told);
    abx_provider_close(p);
    unsetenv("ABX_API_KEY");
}

static void a_sandbox_is_found(void **state)
{
    rig *r = *state;
    char options[192];
    abx_error *err = NULL;
    snprintf(options, sizeof(options), "{\"home\":\"%s\"}", r->home);
    abx_context *ctx = abx_context_new(options, &err);
    rig_must(ctx, err);
    abx_provider *p = rig_open(ctx, NULL);
    char beginning[8];
    snprintf(beginning, sizeof(beginning), "%.6s", r->sandbox);
    holds(abx_sandbox_find(p, beginning, &err), err, r->sandbox);
    holds(abx_sandbox_find(p, r->sandbox, &err), err, "\"provider\":\"local\"");
    assert_null(abx_sandbox_find(p, "zzzzzzzzzzzz0000", &err)); /* nobody named a provider */
    rig_fails(&err, "E3001");
    abx_provider_close(p);
    p = rig_open(ctx, "{\"provider\":\"alicloud-express\"}");
    holds(abx_sandbox_find(p, "zzzzzzzzzzzz0000", &err), err, "\"provider\":\"alicloud-express\"");
    abx_context_free(ctx);
}

static void the_configuration_is_read_as_the_command_line_does(void **state)
{
    rig *r = *state;
    char options[192];
    abx_error *err = NULL;
    plugin_put(r->home, "config.toml",
               "provider = \"local\"\n[profiles.other]\nprovider = \"e2b\"\n", 0600);
    snprintf(options, sizeof(options), "{\"home\":\"%s\"}", r->home);
    abx_context *ctx = abx_context_new(options, &err);
    rig_must(ctx, err);
    assert_string_equal(abx_context_home(ctx), r->home);
    abx_provider *p = rig_open(ctx, NULL);
    assert_string_equal(abx_provider_id(p), "local");
    assert_null(abx_provider_open(ctx, "{\"profile\":\"nobody\"}", &err));
    rig_fails(&err, "E1002");
    holds(abx_settings_list(ctx, &err), err, "\"key\":\"provider\",\"value\":\"local\"");
    holds(abx_ledger_list(ctx, &err), err, r->sandbox);
    holds(abx_gc(ctx, 1, &err), err, "\"removed\":[");
    /* The ledger knows names and beginnings of ids. */
    char params[64];
    snprintf(params, sizeof(params), "{\"sandboxId\":\"%.6s\"}", r->sandbox);
    holds(abx_provider_call(p, "sandbox.info", params, 0, &err), err, r->sandbox);
    abx_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plugin_comes_and_goes),
        cmocka_unit_test(a_feature_that_is_not_there_is_told),
        cmocka_unit_test(connections_are_checked),
        cmocka_unit_test(a_connection_is_told_whole),
        cmocka_unit_test(a_sandbox_is_found),
        cmocka_unit_test(the_configuration_is_read_as_the_command_line_does),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
