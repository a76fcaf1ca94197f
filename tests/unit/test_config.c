/* The settings: order of the sources, types, profiles, provider keys and options, what a listing shows. */
#include "config_setup.h"

#include "host/config_keys.h"

static void assert_setting(abx_config *c, const char *key, const char *value, abx_source source,
                           const char *where)
{
    abx_source s;
    const char *w, *v = abx_config_get(c, key, &s, &w);
    if (!value)
        assert_null(v);
    else if (!v)
        fail_msg("'%s' has no value", key);
    else
        assert_string_equal(v, value);
    assert_int_equal(s, source);
    if (where)
        assert_non_null(strstr(w, where));
}

static void defaults_without_any_file(void **state)
{
    (void)state;
    abx_config *c = must_open(NULL);
    assert_setting(c, "provider", "alicloud-express", ABX_SOURCE_DEFAULT, "default");
    assert_setting(c, "output", "table", ABX_SOURCE_DEFAULT, "default");
    assert_setting(c, "timeout", NULL, ABX_SOURCE_DEFAULT, NULL);
    assert_setting(c, "providers.local.ids", "single", ABX_SOURCE_DEFAULT, NULL);
    assert_setting(c, "providers.e2b.api_key", NULL, ABX_SOURCE_DEFAULT, NULL);
    assert_null(abx_config_get(c, "nonsense", NULL, NULL));
    assert_null(abx_config_project_path(c, NULL));
    assert_false(abx_config_holds_secret(c));
    abx_config_free(c);
}

static void each_source_beats_the_next(void **state)
{
    (void)state;
    write_file("system.toml", "provider = \"sys\"\n", 0644);
    abx_config *c = must_open(NULL);
    assert_setting(c, "provider", "sys", ABX_SOURCE_SYSTEM, "system.toml:1");
    abx_config_free(c);
    write_file(".abx/config.toml", "\nprovider = \"user\"\n[profiles.p]\nprovider = \"prof\"\n",
               0600);
    c = must_open(NULL);
    assert_setting(c, "provider", "user", ABX_SOURCE_USER, "config.toml:2");
    abx_config_free(c);
    write_file("project/abx.toml", "provider = \"proj\"\n", 0644);
    c = must_open(NULL);
    assert_setting(c, "provider", "proj", ABX_SOURCE_PROJECT, "abx.toml:1");
    abx_config_free(c);
    c = must_open(ENV("ABX_PROFILE=p"));
    assert_setting(c, "provider", "prof", ABX_SOURCE_PROFILE, "config.toml:4");
    assert_setting(c, "profile", "p", ABX_SOURCE_ENV, "ABX_PROFILE");
    abx_config_free(c);
    c = must_open(ENV("ABX_PROFILE=p", "ABX_PROVIDER=envp"));
    assert_setting(c, "provider", "envp", ABX_SOURCE_ENV, "ABX_PROVIDER");
    assert_int_equal(abx_config_set_flag(c, "provider", "first", NULL), 0);
    assert_int_equal(abx_config_set_flag(c, "provider", "flagp", NULL), 0);
    assert_setting(c, "provider", "flagp", ABX_SOURCE_FLAG, "flag --provider");
    abx_config_free(c);
}

static void an_empty_variable_is_none(void **state)
{
    (void)state;
    abx_config *c = must_open(ENV("ABX_PROVIDER=", "ABX_OUTPUT=json"));
    assert_setting(c, "provider", "alicloud-express", ABX_SOURCE_DEFAULT, NULL);
    assert_setting(c, "output", "json", ABX_SOURCE_ENV, "ABX_OUTPUT");
    abx_config_free(c);
}

static void variables_of_colour_and_ci(void **state)
{
    (void)state;
    static const struct {
        const char *env, *key, *value;
    } cases[] = {
        {"NO_COLOR=1", "color", "never"},          {"FORCE_COLOR=1", "color", "always"},
        {"FORCE_COLOR=0", "color", "never"},       {"TERM=dumb", "color", "never"},
        {"TERM=xterm", "color", "auto"},           {"CI=true", "no_input", "true"},
        {"CI=false", "no_input", "false"},         {"ABX_NO_INPUT=1", "no_input", "true"},
        {"ABX_NO_INPUT=off", "no_input", "false"},
    };
    for (size_t i = 0; i < ABX_COUNT(cases); i++) {
        abx_config *c = must_open(ENV(cases[i].env));
        assert_string_equal(abx_config_get(c, cases[i].key, NULL, NULL), cases[i].value);
        abx_config_free(c);
    }
}

static void values_have_types(void **state)
{
    (void)state;
    write_file(
        ".abx/config.toml",
        "timeout = 90\nno_input = true\nstdin = 'closed'\nlog = \"debug\"\ncolor = \"never\"\n"
        "[providers.e2b]\ntemplate = \"base\"\nretries = 3\nfast = true\nratio = 0.5\n",
        0600);
    abx_config *c = must_open(NULL);
    assert_setting(c, "timeout", "90", ABX_SOURCE_USER, ":1");
    assert_setting(c, "no_input", "true", ABX_SOURCE_USER, ":2");
    assert_setting(c, "color", "never", ABX_SOURCE_USER, ":5");
    yyjson_doc *options = abx_config_provider_options(c, "e2b", NULL);
    char *text = abx_json_text(yyjson_doc_get_root(options));
    assert_string_equal(text, "{\"template\":\"base\",\"retries\":3,\"fast\":true,\"ratio\":0.5}");
    free(text);
    yyjson_doc_free(options);
    abx_config_free(c);
}

static void wrong_values_say_what_is_expected(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words[3];
    } cases[] = {
        {"output = \"jsn\"",
         {"line 1, column 1", "one of table, wide, json, jsonl, name", "\"jsn\""}},
        {"\n  output = 3", {"line 2, column 3", "'output' must be one of", "a whole number"}},
        {"timeout = \"soon\"", {"'timeout' must be a duration", "\"soon\"", ""}},
        {"timeout = -5", {"'timeout' must be a duration", "", ""}},
        {"timeout = 1.5", {"'timeout' must be a duration", "a fraction", ""}},
        {"no_input = \"yes\"", {"'no_input' must be true or false", "\"yes\"", ""}},
        {"provider = \"Bad Id\"", {"'provider' must be a name", "\"Bad Id\"", ""}},
        {"provider = [\"a\"]", {"'provider' must be", "an array", ""}},
        {"providers = 1", {"'providers' must be a table", "a whole number", ""}},
        {"[providers]\ne2b = 1", {"'providers.e2b' must be a table", "line 2", ""}},
        {"profiles = 1", {"'profiles' must be a table", "", ""}},
        {"[profiles]\na = 1", {"'profiles.a' must be a table", "", ""}},
        {"[providers.e2b]\napi_url = \"ftp://x\"", {"must be an address", "ftp://x", ""}},
        {"[providers.e2b]\ndomain = \"a\\nb\"", {"must be one line", "", ""}},
        {"[providers.e2b]\nx = [1]", {"providers.e2b.x", "an array", ""}},
        {"[providers.local]\nids = \"many\"", {"one of single, range", "\"many\"", ""}},
        {"[profiles.a]\nprofile = \"b\"", {"may not stand inside a profile", "line 2", ""}},
        {"provider = \"a\\u0000b\"", {"'provider' must be", "", ""}},
    };
    for (size_t i = 0; i < ABX_COUNT(cases); i++) {
        write_file(".abx/config.toml", cases[i].text, 0600);
        MUST_FAIL(NULL, "config.toml", cases[i].words[0], cases[i].words[1], cases[i].words[2]);
    }
}

static void unknown_keys_name_the_nearest(void **state)
{
    (void)state;
    write_file(".abx/config.toml", "\noutptu = \"json\"\n", 0600);
    MUST_FAIL("'output'", "config.toml', line 2, column 1", "unknown key 'outptu'");
    write_file(".abx/config.toml", "[provider.e2b]\napi_key = 'x'\n", 0600);
    MUST_FAIL(NULL, "line 1", "'provider' must be", "a table");
    write_file(".abx/config.toml", "[providrs.e2b]\napi_key = 'x'\n", 0600);
    MUST_FAIL("'providers'", "line 1", "unknown key 'providrs'");
    write_file(".abx/config.toml", "[providers.local]\nidz = 'range'\n", 0600);
    MUST_FAIL("'providers.local.ids'", "line 2", "unknown key 'providers.local.idz'");
    write_file(".abx/config.toml", "[providers.\"Bad Id\"]\n", 0600);
    MUST_FAIL("lower-case", "line 1", "no provider id");
    write_file(".abx/config.toml", "[profiles.\"a b\"]\n", 0600);
    MUST_FAIL("letters", "line 1", "no name of a profile");
}

static void syntax_errors_have_a_place(void **state)
{
    (void)state;
    write_file(".abx/config.toml", "output = \"json\"\noutput = \"name\"\n", 0600);
    MUST_FAIL("TOML", "line 2", "cannot redefine existing string 'output'");
    write_file(".abx/config.toml", "output \"json\"\n", 0600);
    MUST_FAIL("TOML", "line 1, column 8", "expected '='");
    write_file(".abx/config.toml", "[a\n", 0600);
    MUST_FAIL("TOML", "line 1");
    write_file(".abx/config.toml", "a = \"\xff\"\n", 0600);
    MUST_FAIL("TOML", "line 1", "utf-8");
    write_file(".abx/config.toml", "\xef\xbb\xbfoutput = \"json\"\n", 0600);
    MUST_FAIL("TOML", "byte order mark");
}

static void hostile_files_are_refused_quickly(void **state)
{
    (void)state;
    const size_t n = 250000;
    char *text = malloc(n + 8);
    for (size_t i = 0; i < n; i += 2)
        memcpy(text + i, "a.", 2);
    strcpy(text + n, "a=1\n");
    write_file(".abx/config.toml", text, 0600);
    MUST_FAIL(NULL, "more than 100 parts");
    memset(text, '[', n);
    memcpy(text, "a =", 3);
    text[n] = 0;
    write_file(".abx/config.toml", text, 0600);
    MUST_FAIL(NULL, "line 1", "nested");
    free(text);
    text = malloc(300 * 1024 + 1);
    memset(text, '#', 300 * 1024);
    text[300 * 1024] = 0;
    write_file(".abx/config.toml", text, 0600);
    MUST_FAIL(NULL, "over 256 KiB");
    free(text);
}

static void a_wrong_variable_or_flag_is_an_error(void **state)
{
    (void)state;
    abx_config *c = NULL;
    abx_error *err = NULL;
    assert_int_equal(open_with(&c, &err, ENV("ABX_OUTPUT=xml")), -1);
    assert_int_equal(err->id, ABX_ERR_CONFIG);
    assert_non_null(strstr(err->message, "ABX_OUTPUT must be one of table"));
    abx_error_free(ABX_TAKE(err));
    assert_int_equal(open_with(&c, &err, ENV("ABX_API_KEY=top\nsecret")), -1);
    assert_null(strstr(err->message, "secret"));
    abx_error_free(ABX_TAKE(err));
    c = must_open(NULL);
    assert_int_equal(abx_config_set_flag(c, "output", "xml", &err), -1);
    assert_int_equal(err->id, ABX_ERR_USAGE);
    assert_non_null(strstr(err->message, "--output must be one of"));
    abx_error_free(ABX_TAKE(err));
    assert_int_equal(abx_config_set_flag(c, "outptu", "json", &err), -1);
    assert_non_null(strstr(abx_error_hint(err), "'output'"));
    abx_error_free(ABX_TAKE(err));
    abx_config_free(c);
}

static void profiles_have_the_shape_of_the_top_level(void **state)
{
    (void)state;
    write_file(
        ".abx/config.toml",
        "profile = \"work\"\noutput = \"wide\"\n[providers.e2b]\napi_key = \"top-level-key\"\n"
        "template = \"a\"\n[profiles.work]\nprovider = \"e2b\"\n[profiles.work.providers.e2b]\n"
        "api_key = \"key-of-work\"\n[profiles.empty]\n",
        0600);
    abx_config *c = must_open(NULL);
    assert_setting(c, "profile", "work", ABX_SOURCE_USER, "config.toml:1");
    assert_setting(c, "provider", "e2b", ABX_SOURCE_PROFILE, ":7");
    assert_setting(c, "output", "wide", ABX_SOURCE_USER, ":2");
    char *key = abx_config_secret(c, "e2b", "api_key", NULL);
    assert_string_equal(key, "key-of-work");
    free(key);
    assert_int_equal(abx_config_set_flag(c, "profile", "empty", NULL), 0);
    key = abx_config_secret(c, "e2b", "api_key", NULL);
    assert_string_equal(key, "top-level-key");
    free(key);
    abx_error *err = NULL;
    assert_int_equal(abx_config_set_flag(c, "profile", "wrok", &err), -1);
    assert_non_null(strstr(err->message, "no profile 'wrok'"));
    assert_non_null(strstr(abx_error_hint(err), "'work'"));
    abx_error_free(err);
    abx_config_free(c);
}

static void an_unknown_profile_is_an_error(void **state)
{
    (void)state;
    abx_config *c = NULL;
    abx_error *err = NULL;
    assert_int_equal(open_with(&c, &err, ENV("ABX_PROFILE=nope")), -1);
    assert_non_null(strstr(err->message, "no profile 'nope' (chosen by ABX_PROFILE)"));
    abx_error_free(err);
}

static void options_of_flags_come_over_files(void **state)
{
    (void)state;
    write_file(".abx/config.toml",
               "[providers.local]\nids = \"single\"\n[providers.x]\na = 1\nb = 2\n", 0600);
    abx_config *c = must_open(NULL);
    abx_error *err = NULL;
    assert_int_equal(abx_config_set_option(c, "ids=range", NULL), 0);
    yyjson_doc *o = abx_config_provider_options(c, "local", NULL);
    assert_string_equal(abx_json_str(yyjson_doc_get_root(o), "ids", ""), "range");
    yyjson_doc_free(o);
    assert_int_equal(abx_config_set_option(c, "b=two=2", NULL), 0);
    o = abx_config_provider_options(c, "x", NULL);
    char *text = abx_json_text(yyjson_doc_get_root(o));
    assert_string_equal(text, "{\"a\":1,\"ids\":\"range\",\"b\":\"two=2\"}");
    free(text);
    yyjson_doc_free(o);
    assert_null(abx_config_provider_options(c, "local", &err)); /* b is none of local's */
    assert_int_equal(err->id, ABX_ERR_USAGE);
    abx_error_free(ABX_TAKE(err));
    assert_int_equal(abx_config_set_option(c, "nonsense", &err), -1);
    assert_non_null(strstr(err->message, "KEY=VALUE"));
    abx_error_free(ABX_TAKE(err));
    assert_int_equal(abx_config_set_option(c, "api_key=abcdefgh", &err), -1);
    assert_null(strstr(err->message, "abcdefgh"));
    assert_non_null(strstr(abx_error_hint(err), "ABX_API_KEY"));
    abx_error_free(ABX_TAKE(err));
    abx_config_free(c);
}

static void references_are_resolved_for_the_provider_only(void **state)
{
    (void)state;
    write_file("secret", "from-a-file\n", 0600);
    write_file(".abx/near", "from-beside\n", 0600);
    ABX_AUTO_FREE char *text = abx_format(
        "[providers.a]\napi_key = \"env:MY_KEY\"\n[providers.b]\napi_key = \"file:%s\"\n"
        "[providers.c]\napi_key = \"file:~/secret\"\n[providers.d]\napi_key = \"file:near\"\n"
        "[providers.e]\napi_key = \"env:ABSENT\"\n[providers.f]\napi_key = \"file:gone\"\n",
        in_root("secret"));
    write_file(".abx/config.toml", text, 0600);
    abx_config *c = must_open(ENV("MY_KEY=from-env"));
    static const struct {
        const char *provider, *value;
    } good[] = {
        {"a", "from-env"}, {"b", "from-a-file"}, {"c", "from-a-file"}, {"d", "from-beside"}};
    for (size_t i = 0; i < ABX_COUNT(good); i++) {
        ABX_AUTO_FREE char *value = abx_config_secret(c, good[i].provider, "api_key", NULL);
        assert_string_equal(value, good[i].value);
    }
    assert_setting(c, "providers.a.api_key", "env:MY_KEY", ABX_SOURCE_USER, ":2");
    assert_false(abx_config_holds_secret(c));
    abx_error *err = NULL;
    assert_null(abx_config_secret(c, "e", "api_key", &err));
    assert_int_equal(err->id, ABX_ERR_PROVIDER_CONFIG);
    assert_non_null(strstr(err->message, "'ABSENT', which is not set"));
    abx_error_free(ABX_TAKE(err));
    assert_null(abx_config_secret(c, "f", "api_key", &err));
    assert_non_null(strstr(err->message, ".abx/gone"));
    abx_error_free(ABX_TAKE(err));
    assert_null(abx_config_secret(c, "none", "api_key", &err));
    assert_null(err);
    abx_config_free(c);
}

static void a_secret_file_must_be_private_and_one_line(void **state)
{
    (void)state;
    write_file("open", "x\n", 0644);
    write_file("empty", "\n", 0600);
    write_file("two", "a\nb\n", 0600);
    static const char *const files[] = {"open", "empty", "two", "."};
    static const char *const words[] = {"others may read", "one line", "one line",
                                        "no ordinary file"};
    for (size_t i = 0; i < ABX_COUNT(files); i++) {
        ABX_AUTO_FREE char *text =
            abx_format("[providers.a]\napi_key = \"file:%s\"\n", in_root(files[i]));
        write_file(".abx/config.toml", text, 0600);
        abx_config *c = must_open(NULL);
        abx_error *err = NULL;
        assert_null(abx_config_secret(c, "a", "api_key", &err));
        if (!strstr(err->message, words[i]))
            fail_msg("%s", err->message);
        if (i == 0)
            assert_non_null(strstr(abx_error_hint(err), "chmod 600"));
        abx_error_free(err);
        abx_config_free(c);
    }
}

static void keys_of_the_environment_are_for_the_provider(void **state)
{
    (void)state;
    write_file(".abx/config.toml", "[providers.a]\napi_key = \"in-the-file\"\n", 0600);
    abx_config *c = must_open(ENV("ABX_API_KEY=in-the-env", "ABX_API_URL=https://x.test"));
    ABX_AUTO_FREE char *key = abx_config_secret(c, "a", "api_key", NULL);
    ABX_AUTO_FREE char *url = abx_config_secret(c, "a", "api_url", NULL);
    assert_string_equal(key, "in-the-env");
    assert_string_equal(url, "https://x.test");
    assert_true(abx_config_holds_secret(c));
    abx_config_free(c);
}

static void the_list_shows_sources_and_no_secret(void **state)
{
    (void)state;
    write_file(".abx/config.toml",
               "provider = \"a\"\n[providers.a]\napi_key = "
               "\"sk-0123456789abcd\"\naccess_key_secret = \"short\"\n"
               "access_key_id = \"env:ID\"\napi_url = \"https://me:pass@x.test/\"\ntoken = "
               "\"tok-99887766\"\n"
               "template = \"base\"\n[profiles.p]\noutput = \"name\"\n",
               0600);
    abx_config *c = must_open(ENV("ABX_DOMAIN=d.test"));
    yyjson_doc *list = abx_config_list(c);
    ABX_AUTO_FREE char *text = abx_json_text(yyjson_doc_get_root(list));
    static const char *const absent[] = {"sk-0", "9abcd", "short", "pass", "9988", "\"p\""};
    static const char *const present[] = {
        "{\"key\":\"provider\",\"value\":\"a\",\"source\":\"user\",\"where\":\"",
        "\"key\":\"providers.a.api_key\",\"value\":\"****abcd\"",
        "\"key\":\"providers.a.access_key_secret\",\"value\":\"****\"",
        "\"value\":\"env:ID\"",
        "https://****@x.test/",
        "\"value\":\"d.test\",\"source\":\"env\",\"where\":\"ABX_DOMAIN\"",
        "\"key\":\"providers.a.token\",\"value\":\"****7766\"",
        "\"key\":\"providers.a.template\",\"value\":\"base\"",
        "{\"key\":\"timeout\",\"value\":null,\"source\":\"default\",\"where\":\"default\"}",
        "\"key\":\"output\",\"value\":\"table\",\"source\":\"default\"",
    };
    for (size_t i = 0; i < ABX_COUNT(absent); i++)
        if (strstr(text, absent[i]))
            fail_msg("'%s' is in: %s", absent[i], text);
    for (size_t i = 0; i < ABX_COUNT(present); i++)
        if (!strstr(text, present[i]))
            fail_msg("'%s' is not in: %s", present[i], text);
    yyjson_doc_free(list);
    abx_config_free(c);
}

static void the_table_is_sound(void **state)
{
    (void)state;
    size_t n;
    const abx_setting_row *rows = abx_settings(&n);
    for (size_t i = 0; i < n; i++) {
        char expected[160];
        if (rows[i].otherwise)
            assert_true(abx_setting_accepts(&rows[i], rows[i].otherwise, expected));
        assert_true(!rows[i].secret || !rows[i].project);
        for (size_t k = 0; k < i; k++)
            assert_false(strcmp(rows[i].key, rows[k].key) == 0 &&
                         (rows[i].provider
                              ? rows[k].provider && strcmp(rows[i].provider, rows[k].provider) == 0
                              : !rows[k].provider));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(defaults_without_any_file),
        TEST(each_source_beats_the_next),
        TEST(an_empty_variable_is_none),
        TEST(variables_of_colour_and_ci),
        TEST(values_have_types),
        TEST(wrong_values_say_what_is_expected),
        TEST(unknown_keys_name_the_nearest),
        TEST(syntax_errors_have_a_place),
        TEST(hostile_files_are_refused_quickly),
        TEST(a_wrong_variable_or_flag_is_an_error),
        TEST(profiles_have_the_shape_of_the_top_level),
        TEST(an_unknown_profile_is_an_error),
        TEST(options_of_flags_come_over_files),
        TEST(references_are_resolved_for_the_provider_only),
        TEST(a_secret_file_must_be_private_and_one_line),
        TEST(keys_of_the_environment_are_for_the_provider),
        TEST(the_list_shows_sources_and_no_secret),
        TEST(the_table_is_sound),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
