/* Options of plugins: where a value comes from, its check, secrets, what is missing; and what the verbs of the
 * configuration know of installed manifests. */
#include "config_setup.h"

#include "base/json.h"
#include "host/config_keys.h"
#include "host/manifest.h"

static const char text_of_manifest[] =
    "schema = 1\nid = \"demo\"\nname = \"Demo\"\nversion = \"1.0.0\"\n"
    "[runtime]\nkind = \"exec\"\nprotocol = \"epp/1\"\ncommand = [\"x\"]\nfeatures = []\n"
    "[[options]]\nname = \"region\"\ntype = \"enum\"\nchoices = [\"eu\", \"us\"]\ndefault = "
    "\"eu\"\n"
    "env = [\"DEMO_REGION\", \"REGION\"]\n"
    "[[options]]\nname = \"size\"\ntype = \"int\"\nmin = 1\nmax = 9\n"
    "[[options]]\nname = \"fast\"\ntype = \"bool\"\nenv = \"DEMO_FAST\"\n"
    "[[options]]\nname = \"site\"\ntype = \"url\"\n"
    "[[options]]\nname = \"pin\"\ntype = \"string\"\nsecret = true\nenv = \"DEMO_PIN\"\n";

static abx_manifest *demo;

static int setup(void **state)
{
    abx_problems problems = ABX_PROBLEMS;
    demo = abx_manifest_parse("m", text_of_manifest, strlen(text_of_manifest), &problems);
    abx_problems_clear(&problems);
    return setup_folder(state) || !demo;
}

static int teardown(void **state)
{
    abx_manifest_free(demo);
    return teardown_folder(state);
}

static void install(void)
{
    assert_int_equal(abx_make_dirs(in_root(".abx/providers/demo"), 0700, NULL), 0);
    write_file(".abx/providers/demo/abx-provider.toml", text_of_manifest, 0644);
}

static void assert_options(abx_config *c, const char *want)
{
    abx_error *err = NULL;
    yyjson_doc *doc = abx_config_plugin_options(c, demo, &err);
    if (!doc)
        fail_msg("%s", err->message);
    char *text = abx_json_text(yyjson_doc_get_root(doc));
    assert_string_equal(text, want);
    free(text);
    yyjson_doc_free(doc);
}

/* The options are refused with this error, whose text and hint hold these words. */
static void assert_refused(abx_config *c, abx_err_id id, const char *word, const char *hint)
{
    abx_error *err = NULL;
    assert_null(abx_config_plugin_options(c, demo, &err));
    assert_non_null(err);
    if (err->id != id || !strstr(err->message, word))
        fail_msg("%d %s", err->id, err->message);
    if (hint && !strstr(abx_error_hint(err), hint))
        fail_msg("hint: %s", abx_error_hint(err));
    abx_error_free(err);
}

static void flags_then_variables_then_files_then_defaults(void **state)
{
    (void)state;
    abx_config *c = must_open(NULL);
    assert_options(c, "{\"region\":\"eu\"}");
    abx_config_free(c);
    write_file(".abx/config.toml",
               "[providers.demo]\nregion = \"us\"\nsize = 3\nfast = true\n"
               "[profiles.p.providers.demo]\nsize = 4\n",
               0600);
    c = must_open(NULL);
    assert_options(c, "{\"region\":\"us\",\"size\":3,\"fast\":true}");
    abx_config_free(c);
    c = must_open(ENV("ABX_PROFILE=p", "REGION=eu", "DEMO_FAST=off", "DEMO_PIN="));
    assert_options(c, "{\"region\":\"eu\",\"size\":4,\"fast\":false}");
    assert_int_equal(abx_config_set_option(c, "size=5", NULL), 0);
    assert_int_equal(abx_config_set_option(c, "size=6", NULL), 0);
    assert_int_equal(abx_config_set_option(c, "fast=yes", NULL), 0);
    assert_int_equal(abx_config_set_option(c, "region=us", NULL), 0);
    assert_options(c, "{\"region\":\"us\",\"size\":6,\"fast\":true}");
    abx_config_free(c);
    c = must_open(ENV("DEMO_REGION=us", "REGION=eu"));
    assert_options(c, "{\"region\":\"us\",\"size\":3,\"fast\":true}");
    abx_config_free(c);
}

static void each_value_is_checked(void **state)
{
    (void)state;
    static const struct {
        const char *flag, *word;
    } flags[] = {
        {"size=0", "--option size must be a whole number from 1 up to 9, found '0'"},
        {"size=10", "found '10'"},
        {"size=1.5", "found '1.5'"},
        {"size=", "found ''"},
        {"size=99999999999999999999", "whole number"},
        {"fast=perhaps", "--option fast must be true or false, found 'perhaps'"},
        {"region=asia", "--option region must be one of eu, us, found 'asia'"},
        {"site=ftp://x", "--option site must be an address"},
        {"sizes=1", "provider 'demo' has no option 'sizes'"},
        {"pin=hushhush", "'pin' is a secret: it does not belong on a command line"},
    };
    for (size_t i = 0; i < ABX_COUNT(flags); i++) {
        abx_config *c = must_open(NULL);
        assert_int_equal(abx_config_set_option(c, flags[i].flag, NULL), 0);
        assert_refused(c, ABX_ERR_USAGE, flags[i].word, NULL);
        abx_config_free(c);
    }
    abx_config *c = must_open(ENV("DEMO_REGION=asia"));
    assert_refused(c, ABX_ERR_PROVIDER_CONFIG, "DEMO_REGION must be one of eu, us, found 'asia'",
                   "export DEMO_REGION=…");
    abx_config_free(c);
    static const struct {
        const char *line, *word;
    } lines[] = {
        {"size = 12", "'providers.demo.size' ("},
        {"size = \"x\"", "found 'x'"},
        {"size = 1.0", "must be a whole number"},
        {"fast = 1", "must be true or false"},
        {"region = 5", "must be one of eu, us"},
        {"site = true", "must be an address"},
        {"regoin = \"eu\"", "unknown key 'providers.demo.regoin' ("},
    };
    for (size_t i = 0; i < ABX_COUNT(lines); i++) {
        ABX_AUTO_FREE char *text = abx_format("[providers.demo]\n%s\n", lines[i].line);
        write_file(".abx/config.toml", text, 0600);
        c = must_open(NULL);
        assert_refused(c, ABX_ERR_PROVIDER_CONFIG, lines[i].word, NULL);
        assert_refused(c, ABX_ERR_PROVIDER_CONFIG, "config.toml:2", NULL);
        abx_config_free(c);
    }
}

static void references_are_for_secrets(void **state)
{
    (void)state;
    write_file(".abx/config.toml",
               "[providers.demo]\npin = \"env:MINE\"\nsite = \"https://x/env:y\"\n", 0600);
    abx_config *c = must_open(ENV("MINE=four"));
    assert_options(c, "{\"region\":\"eu\",\"site\":\"https://x/env:y\",\"pin\":\"four\"}");
    abx_config_free(c);
    c = must_open(NULL);
    assert_refused(c, ABX_ERR_PROVIDER_CONFIG, "'MINE', which is not set", "export MINE");
    abx_config_free(c);
    write_file("pin", "from a file\n", 0600);
    write_file(".abx/config.toml", "[providers.demo]\npin = \"file:../pin\"\n", 0600);
    c = must_open(NULL);
    assert_options(c, "{\"region\":\"eu\",\"pin\":\"from a file\"}");
    assert_int_equal(abx_config_set_option(c, "pin=env:HOME", NULL), 0);
    yyjson_doc *o = abx_config_plugin_options(c, demo, NULL);
    assert_string_equal(abx_json_str(yyjson_doc_get_root(o), "pin", ""), root_dir);
    yyjson_doc_free(o);
    abx_config_free(c);
    c = must_open(ENV("DEMO_PIN=env:literally"));
    assert_options(c, "{\"region\":\"eu\",\"pin\":\"env:literally\"}");
    abx_config_free(c);
}

static void missing_ones_are_all_named_with_each_way(void **state)
{
    (void)state;
    demo->options[1].required = demo->options[4].required = true;
    abx_config *c = must_open(NULL);
    assert_refused(c, ABX_ERR_PROVIDER_CONFIG,
                   "provider 'demo' needs the options 'size', 'pin', which are not set",
                   "-O size=…, or abx config set providers.demo.size …; export DEMO_PIN=…, or abx "
                   "config set providers.demo.pin -");
    assert_int_equal(abx_config_set_option(c, "size=1", NULL), 0);
    assert_refused(c, ABX_ERR_PROVIDER_CONFIG, "needs the option 'pin', which is not set",
                   "export DEMO_PIN");
    abx_config_free(c);
}

static void an_error_does_not_show_a_secret(void **state)
{
    (void)state;
    abx_config *c = must_open(ENV("DEMO_PIN=se\x01"
                                  "cret"));
    abx_error *err = NULL;
    assert_null(abx_config_plugin_options(c, demo, &err));
    assert_null(strstr(err->message, "se"));
    abx_error_free(err);
    abx_config_free(c);
}

static void the_verbs_know_installed_manifests(void **state)
{
    (void)state;
    install();
    write_file(
        ".abx/config.toml",
        "provider = \"demo\"\n[providers.demo]\npin = \"1234567890\"\n[providers.gone]\nx = 1\n",
        0600);
    abx_config *c = must_open(ENV("DEMO_REGION=us"));
    assert_true(abx_config_holds_secret(c)); /* by the manifest: "pin" does not sound so */
    yyjson_doc *list = abx_config_list(c);
    char *text = abx_json_text(yyjson_doc_get_root(list));
    assert_null(strstr(text, "123456"));
    assert_non_null(strstr(text, "{\"key\":\"providers.demo.pin\",\"value\":\"****7890\""));
    assert_non_null(strstr(text, "{\"key\":\"providers.demo.region\",\"value\":\"us\",\"source\":"
                                 "\"env\",\"where\":\"DEMO_REGION\"}"));
    assert_non_null(strstr(text, "providers.gone.x"));
    free(text);
    yyjson_doc_free(list);
    abx_error *err = NULL;
    assert_int_equal(abx_config_write(c, "providers.demo.sise", "1", &err), -1);
    assert_non_null(strstr(abx_error_hint(err), "'providers.demo.size'"));
    abx_error_free(err);
    err = NULL;
    assert_int_equal(abx_config_write(c, "providers.demo.size", "0", &err), -1);
    assert_non_null(strstr(err->message, "from 1 up to 9"));
    abx_error_free(err);
    assert_int_equal(abx_config_write(c, "providers.demo.size", "7", NULL), 0);
    assert_int_equal(abx_config_write(c, "profiles.p.providers.demo.fast", "on", NULL), 0);
    assert_true(abx_config_is_secret(c, "profiles.p.providers.demo.pin"));
    assert_false(abx_config_is_secret(c, "providers.demo.site"));
    char *file = read_back(".abx/config.toml");
    assert_non_null(strstr(file, "size = 7\n"));
    assert_non_null(strstr(file, "fast = true\n"));
    free(file);
    abx_config_free(c);
}

#define MANIFEST_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MANIFEST_TEST(flags_then_variables_then_files_then_defaults),
        MANIFEST_TEST(each_value_is_checked),
        MANIFEST_TEST(references_are_for_secrets),
        MANIFEST_TEST(missing_ones_are_all_named_with_each_way),
        MANIFEST_TEST(an_error_does_not_show_a_secret),
        MANIFEST_TEST(the_verbs_know_installed_manifests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
