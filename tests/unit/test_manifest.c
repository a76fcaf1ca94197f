/* The manifest: what is accepted, and each mistake with its place, what was found and what is expected. */
#include "kit.h"

#include "host/plugin.h"

static const char good[] = "schema = 1\n"
                           "id = \"demo\"\n"
                           "name = \"Demo\"\n"
                           "version = \"0.1.0\"\n"
                           "[runtime]\n"
                           "kind = \"exec\"\n"
                           "protocol = \"epp/1\"\n"
                           "command = [\"./plugin\", \"--stdio\"]\n"
                           "features = [\"list\", \"process\", \"process.attach\"]\n";

/* One problem (or none) of a text, as "LINE:COLUMN: error: …"; all of them when there are several. */
static char *problems_of(const char *text)
{
    abx_problems problems = ABX_PROBLEMS;
    abx_manifest *m = abx_manifest_parse("m.toml", text, strlen(text), &problems);
    assert_true((m == NULL) == (problems.errors > 0));
    abx_manifest_free(m);
    abx_problems_sort(&problems);
    abx_buf out = ABX_BUF(65536);
    for (size_t i = 0; i < problems.count; i++) {
        char *line = abx_problem_line(&problems.items[i]);
        assert_int_equal(abx_buf_addf(&out, "%s%s", i ? "\n" : "", line + strlen("m.toml:")), 0);
        free(line);
    }
    abx_problems_clear(&problems);
    return abx_buf_take(&out);
}

static void check(const char *text, const char *want)
{
    char *got = problems_of(text);
    if (strcmp(got, want) != 0)
        fail_msg("for:\n%s\ngot:  %s\nwant: %s", text, got, want);
    free(got);
}

/* `good` with `from` replaced by `to`. */
static void check_changed(const char *from, const char *to, const char *want)
{
    const char *at = strstr(good, from);
    assert_non_null(at);
    char *text = abx_format("%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    check(text, want);
    free(text);
}

/* `good` with more behind it: an error in line 10 or below. */
static void check_more(const char *more, const char *want)
{
    char *text = abx_format("%s%s", good, more);
    check(text, want);
    free(text);
}

static abx_manifest *must_parse(const char *text)
{
    abx_problems problems = ABX_PROBLEMS;
    abx_manifest *m = abx_manifest_parse("m.toml", text, strlen(text), &problems);
    if (!m)
        fail_msg("%s", problems.items[0].text);
    abx_problems_clear(&problems);
    return m;
}

static void a_small_manifest_is_read(void **state)
{
    (void)state;
    abx_manifest *m = must_parse(good);
    assert_string_equal(m->id, "demo");
    assert_string_equal(m->name, "Demo");
    assert_string_equal(m->version, "0.1.0");
    assert_int_equal(m->kind, ABX_KIND_EXEC);
    assert_string_equal(m->protocol, "epp/1");
    assert_int_equal(m->command_count, 2);
    assert_string_equal(m->command[1], "--stdio");
    assert_null(m->command[2]);
    assert_true(m->features[ABX_FEATURE_SANDBOX] && m->features[ABX_FEATURE_LIST]);
    assert_false(m->features[ABX_FEATURE_PTY]);
    assert_true(abx_manifest_has_op(m, ABX_OP_PROCESS_START));
    assert_true(abx_manifest_has_op(m, ABX_OP_PROCESS_ATTACH));
    assert_false(abx_manifest_has_op(m, ABX_OP_PROCESS_STDIN));
    yyjson_doc *features = abx_manifest_features(m);
    yyjson_val *root = yyjson_doc_get_root(features);
    assert_string_equal(abx_json_str(root, "sandbox", ""), "native");
    assert_string_equal(abx_json_str(root, "pty", ""), "unsupported");
    assert_string_equal(abx_json_str(root, "process.attach", ""), "native");
    yyjson_doc_free(features);
    abx_manifest_free(m);
}

static void all_three_kinds_are_read_whole(void **state)
{
    (void)state;
    abx_manifest *m = must_parse(
        "schema = 1\nid = \"e\"\nname = \"E\"\nversion = \"1.0.0\"\ndescription = \"d\"\n"
        "[runtime]\nkind = \"rest\"\nprotocol = \"e2b-rest/1\"\nfeatures = []\n"
        "[connection]\ninherit = [\"apiKey\", \"accessKeySecret\"]\n"
        "[[options]]\nname = \"region\"\ntype = \"enum\"\nchoices = [\"eu\", \"us\"]\ndefault = "
        "\"eu\"\nenv = [\"E_REGION\", \"REGION\"]\ndescription = \"where\"\n"
        "[[options]]\nname = \"size\"\ntype = \"int\"\nmin = 1\nmax = 9\ndefault = 3\n"
        "[[options]]\nname = \"token\"\ntype = \"string\"\nsecret = true\nrequired = true\nenv = "
        "\"E_TOKEN\"\n"
        "[[options]]\nname = \"fast\"\ntype = \"bool\"\ndefault = false\n"
        "[rest]\napiUrl = \"https://api.x.y\"\ndomain = \"x.y\"\nauthHeader = \"X-Key\"\n"
        "defaultTemplate = \"base\"\ndataPlaneHost = \"{port}-{id}.{domain}\"\n"
        "[rest.routes]\n\"sandbox.create\" = \"/v2/sandboxes\"\n\"sandbox.list\" = \"POST /l\"\n"
        "[limits]\ncallTimeoutMs = 5000\n");
    assert_int_equal(m->kind, ABX_KIND_REST);
    assert_true(m->inherit[ABX_CORE_API_KEY] && m->inherit[ABX_CORE_ACCESS_KEY_SECRET]);
    assert_false(m->inherit[ABX_CORE_DOMAIN]);
    assert_int_equal(m->option_count, 4);
    assert_string_equal(m->options[0].choices[1], "us");
    assert_string_equal(m->options[0].env[1], "REGION");
    assert_string_equal(m->options[1].otherwise, "3");
    assert_true(m->options[2].secret && m->options[2].required);
    assert_string_equal(m->options[3].otherwise, "false");
    assert_ptr_equal(abx_manifest_option(m, "token"), &m->options[2]);
    assert_null(abx_manifest_option(m, "Token"));
    assert_int_equal(m->call_timeout_ms, 5000);
    yyjson_val *rest = yyjson_doc_get_root(m->rest);
    assert_string_equal(abx_json_str(rest, "dataPlaneHost", ""), "{port}-{id}.{domain}");
    assert_string_equal(abx_json_str(abx_json_get(rest, "routes"), "sandbox.create", ""),
                        "/v2/sandboxes");
    abx_manifest_free(m);
    m = must_parse("schema = 1\nid = \"n\"\nname = \"N\"\nversion = \"1.0.0\"\n[runtime]\nkind = "
                   "\"node\"\nprotocol = \"node/1\"\nfeatures = [\"process\"]\n");
    assert_string_equal(m->entry, "provider.mjs");
    abx_manifest_free(m);
}

static void top_level_mistakes(void **state)
{
    (void)state;
    check_changed("schema = 1", "schema = \"1\"", "1:1: error: 'schema' must be 1, found \"1\"");
    check_changed("schema = 1", "schema = 0", "1:1: error: 'schema' must be 1, found 0");
    check_changed("schema = 1\n", "", "1:1: error: 'schema' is missing: it must be 1");
    check_changed(
        "id = \"demo\"\n", "",
        "1:1: error: 'id' is missing: it must be an id: lower-case letters, digits and '-'");
    check_changed("\"demo\"", "\"De mo\"",
                  "2:1: error: 'id' must be an id: lower-case letters, digits and '-', at most 63, "
                  "a letter or digit first, found \"De mo\"");
    check_changed("\"demo\"", "\"local\"",
                  "2:1: error: 'id' is \"local\", which is the id of a provider inside abx");
    check_changed(
        "\"demo\"", "\"alicloud-express\"",
        "2:1: error: 'id' is \"alicloud-express\", which is the id of a provider inside abx");
    check_changed("\"Demo\"", "\"\"",
                  "3:1: error: 'name' must be text that is not empty, found \"\"");
    check_changed("\"Demo\"", "\"a\\u0007\"",
                  "3:1: error: 'name' must be text without control characters, found \"a\\x07\"");
    check_changed("\"Demo\"", "7", "3:1: error: 'name' must be text: a name for people, found 7");
    check_changed(
        "\"0.1.0\"", "\"1.0\"",
        "4:1: error: 'version' must be a version such as 1.2.3 or 1.2.3-beta.1, found \"1.0\"");
    check_changed("name = \"Demo\"", "nmae = \"Demo\"",
                  "1:1: error: 'name' is missing: it must be text: a name for people\n"
                  "3:1: error: unknown key 'nmae', the nearest known one is 'name'");
    check_changed("[runtime]", "[runtimes]",
                  "1:1: error: 'runtime' is missing: it must be a table [runtime] with kind, "
                  "protocol and features\n"
                  "5:2: error: unknown key 'runtimes', the nearest known one is 'runtime'");
    check_more("[whatever]\n",
               "10:2: error: unknown key 'whatever', expected one of schema, id, name, version, "
               "description, runtime, connection, options, rest, limits");
}

static void a_newer_schema_is_all_that_is_said(void **state)
{
    (void)state;
    abx_problems problems = ABX_PROBLEMS;
    static const char text[] = "schema = 2\nfuture = true\n";
    assert_null(abx_manifest_parse("m.toml", text, strlen(text), &problems));
    assert_int_equal(problems.count, 1);
    assert_string_equal(problems.items[0].found, "2");
    assert_non_null(strstr(problems.items[0].hint, "newer abx"));
    abx_problems_clear(&problems);
}

static void kinds_and_protocols(void **state)
{
    (void)state;
    check_changed("kind = \"exec\"", "kind = \"jar\"",
                  "6:1: error: 'runtime.kind' must be one of rest, exec, node, found \"jar\"");
    check_changed(
        "\"epp/1\"", "\"epp/2\"",
        "7:1: error: 'runtime.protocol' must be \"epp/1\" for kind = \"exec\", found \"epp/2\"");
    check_changed("command = [\"./plugin\", \"--stdio\"]\n", "",
                  "5:2: error: 'runtime.command' is missing: it must be a list of texts: the "
                  "program and its arguments");
    check_changed("[\"./plugin\", \"--stdio\"]", "[]",
                  "8:1: error: 'runtime.command' must be a list of texts: the program and its "
                  "arguments, found an empty list");
    check_changed("[\"./plugin\", \"--stdio\"]", "\"./plugin\"",
                  "8:1: error: 'runtime.command' must be a list of texts: the program and its "
                  "arguments, found \"./plugin\"");
    check_changed("\"--stdio\"", "5", "8:24: error: 'runtime.command[1]' must be text, found 5");
    check_changed(
        "features = [\"list\", \"process\", \"process.attach\"]\n", "",
        "5:2: error: 'runtime.features' is missing: it must be a list of names of features");
    check_more("entry = \"x.mjs\"\n", "10:1: error: 'runtime.entry' is only for kind = \"node\"");
    check_more("env = [\"A\", \"A\"]\n", "10:13: error: 'runtime.env[1]' repeats A");
    check_more("env = [\"ABX_API_KEY\"]\n",
               "10:8: error: 'runtime.env[0]' must be the name of a variable: letters, digits and "
               "'_', not ABX_…, which is abx's own, found \"ABX_API_KEY\"");
    check_more("[rest]\n", "10:2: error: 'rest' is only for kind = \"rest\"");
    check("schema = 1\nid = \"n\"\nname = \"N\"\nversion = \"1.0.0\"\n[runtime]\nkind = \"node\"\n"
          "protocol = \"node/1\"\nfeatures = []\ncommand = [\"x\"]\nenv = []\nentry = \"../x\"\n",
          "9:1: error: 'runtime.command' is only for kind = \"exec\"\n"
          "10:1: error: 'runtime.env' is only for kind = \"exec\"\n"
          "11:1: error: 'runtime.entry' must be the path of a file in the plugin's folder, found "
          "\"../x\"");
}

static void python_says_what_to_do_instead(void **state)
{
    (void)state;
    abx_problems problems = ABX_PROBLEMS;
    static const char text[] = "schema = 1\nid = \"p\"\nname = \"P\"\nversion = \"1.0.0\"\n"
                               "[runtime]\nkind = \"python\"\nprotocol = \"x\"\nfeatures = []\n";
    assert_null(abx_manifest_parse("m.toml", text, strlen(text), &problems));
    abx_error *err = NULL;
    assert_int_equal(abx_problems_to_error(&problems, &err), -1);
    assert_non_null(strstr(abx_error_hint(err), "command = [\"python3\", \"provider.py\"]"));
    assert_non_null(strstr(err->message, "line 6, column 1"));
    assert_fails(err, PROVIDER_KIND);
    abx_problems_clear(&problems);
}

static void an_unknown_feature_is_a_warning(void **state)
{
    (void)state;
    check_changed("\"list\"", "\"teleport\"",
                  "9:13: warning: 'runtime.features[0]' is \"teleport\", which this version does "
                  "not know: it is ignored");
}

static void mistakes_in_options(void **state)
{
    (void)state;
    check_more("[[options]]\n",
               "10:1: error: 'options[0].name' is missing: it must be text: the option's name\n"
               "10:1: error: 'options[0].type' is missing: it must be one of string, int, bool, "
               "url, enum");
    check_more("[[options]]\nname = \"1x\"\ntype = \"text\"\n",
               "11:1: error: 'options[0].name' must be a name: a letter, then letters, digits, "
               "'_' and '-', at most 63, found \"1x\"\n"
               "12:1: error: 'options[0].type' must be one of string, int, bool, url, enum, found "
               "\"text\"");
    check_more(
        "[[options]]\nname = \"domain\"\ntype = \"string\"\n",
        "11:1: error: 'options[0].name' is \"domain\", which is a common key of every provider");
    check_more("[[options]]\nname = \"a\"\ntype = \"enum\"\n",
               "10:1: error: 'options[0].choices' is missing: it must be a list of texts");
    check_more("[[options]]\nname = \"a\"\ntype = \"int\"\nchoices = [\"x\"]\nmin = 5\nmax = 4\n",
               "13:1: error: 'options[0].choices' is only for type = \"enum\"\n"
               "15:1: error: 'options[0].max' must be 5 (min) or more, found 4");
    check_more("[[options]]\nname = \"a\"\ntype = \"int\"\nmin = 5\ndefault = 4\n",
               "14:1: error: 'options[0].default' must be a whole number from 5, found 4");
    check_more("[[options]]\nname = \"a\"\ntype = \"bool\"\ndefault = \"true\"\n",
               "13:1: error: 'options[0].default' must be true or false, found \"true\"");
    check_more("[[options]]\nname = \"a\"\ntype = \"url\"\ndefault = \"x.y\"\n",
               "13:1: error: 'options[0].default' must be an address that begins with https:// or "
               "http://, found \"x.y\"");
    check_more(
        "[[options]]\nname = \"a\"\ntype = \"string\"\nsecret = true\ndefault = \"hush\"\n",
        "14:1: error: 'options[0].default' must be absent: a secret has no default, found a value");
    check_more("[[options]]\nname = \"a\"\ntype = \"int\"\nsecret = true\n",
               "13:1: error: 'options[0].secret' is only for type = \"string\"");
    check_more("[[options]]\nname = \"a\"\ntype = \"string\"\nenv = \"A B\"\n",
               "13:1: error: 'options[0].env' must be the name of a variable: letters, digits and "
               "'_', not ABX_…, which is abx's own, found \"A B\"");
    check_more(
        "[[options]]\nname = \"a\"\ntype = \"string\"\n[[options]]\nname = \"A\"\ntype = \"int\"\n",
        "14:1: error: 'options[1].name' is \"A\", and 'options[0]' is named \"a\"");
    check_more("[[options]]\nname = \"a\"\ntype = \"string\"\nrequired = true\ndefault = \"x\"\n",
               "14:1: warning: 'options[0].default' is there, so 'required' says nothing");
    check_more("[[options]]\nname = \"a\"\ntype = \"string\"\nsecert = true\n",
               "13:1: error: unknown key 'options[0].secert', the nearest known one is "
               "'options[0].secret'");
}

static void mistakes_in_the_other_tables(void **state)
{
    (void)state;
    check_more("[connection]\ninherit = [\"api_key\"]\n",
               "11:12: error: 'connection.inherit[0]' must be one of apiKey, apiUrl, domain, "
               "accessKeyId, accessKeySecret, found \"api_key\"");
    check_more(
        "[limits]\ncallTimeoutMs = 0\n",
        "11:1: error: 'limits.callTimeoutMs' must be milliseconds: 1 to 86400000 (a day), found 0");
    check_more("[limits]\ncallTimeout = 1\n",
               "11:1: error: unknown key 'limits.callTimeout', the nearest known one is "
               "'limits.callTimeoutMs'");
    check(
        "schema = 1\nid = \"e\"\nname = \"E\"\nversion = \"1.0.0\"\n[runtime]\nkind = \"rest\"\n"
        "protocol = \"e2b-rest/1\"\nfeatures = []\n[rest]\napiUrl = \"x\"\nauthHeader = \"a b\"\n"
        "dataPlaneHost = \"{port}.x\"\ndomain = \"a/b\"\n[rest.routes]\n\"sandbox.make\" = \"/x\"\n"
        "\"sandbox.list\" = \"x\"\n",
        "10:1: error: 'rest.apiUrl' must be an address that begins with https:// or http://, found "
        "\"x\"\n"
        "11:1: error: 'rest.authHeader' must be the name of a header such as X-API-Key, found \"a "
        "b\"\n"
        "12:1: error: 'rest.dataPlaneHost' must be a host with {id}, and {port} and {domain} "
        "where they belong, found \"{port}.x\"\n"
        "13:1: error: 'rest.domain' must be a domain such as example.com, found \"a/b\"\n"
        "15:1: error: 'rest.routes.\"sandbox.make\"' must be named by an operation, in quotes, "
        "such as \"sandbox.create\", found 'sandbox.make'\n"
        "16:1: error: 'rest.routes.\"sandbox.list\"' must be a path such as "
        "\"/v2/sandboxes/{id}\", or \"POST /path\", found \"x\"");
}

#define REST                                                                                       \
    "schema = 1\nid = \"e\"\nname = \"E\"\nversion = \"1.0.0\"\n[runtime]\nkind = \"rest\"\n"      \
    "protocol = \"e2b-rest/1\"\nfeatures = []\n"

static void rest_with_options_in_it(void **state)
{
    (void)state;
    abx_manifest *m = must_parse(
        REST "[[options]]\nname = \"region\"\ntype = \"string\"\n"
             "[[options]]\nname = \"key\"\ntype = \"string\"\nsecret = true\n"
             "[rest]\napiUrl = \"https://api.{region}.x.y\"\ndomain = \"{region}\"\n"
             "keyOption = \"key\"\nneedsKey = false\ncreateRoute = \"v1\"\n"
             "connectRoutes = [\"v1\", \"resume\"]\nconnectRetryMs = 2000\n"
             "dataPlaneUrl = \"{api}/sandbox/{id}/{port}\"\ncodec = \"json\"\nupload = \"form\"\n"
             "defaultTimeoutS = 60\n[rest.metadata]\n\"a/b\" = \"c\"\n");
    yyjson_val *rest = yyjson_doc_get_root(m->rest);
    assert_string_equal(abx_json_str(rest, "apiUrl", ""), "https://api.{region}.x.y");
    assert_false(abx_json_bool(rest, "needsKey", true));
    assert_int_equal(abx_json_int(rest, "connectRetryMs", 0), 2000);
    assert_int_equal(yyjson_arr_size(abx_json_get(rest, "connectRoutes")), 2);
    assert_string_equal(abx_json_str(abx_json_get(rest, "metadata"), "a/b", ""), "c");
    abx_manifest_free(m);
    check(REST "[rest]\napiUrl = \"https://{region}\"\nkeyOption = \"key\"\ncreateRoute = \"v3\"\n"
               "connectRoutes = [\"v9\"]\nconnectRetryMs = 0\ncodec = \"xml\"\n"
               "dataPlaneUrl = \"{id}\"\nmetadata = {a = 1}\ndomain = \"{port}\"\n",
          "10:1: error: 'rest.apiUrl' holds {region}, which is the name of no option\n"
          "11:1: error: 'rest.keyOption' must be the name of an option of type string, found "
          "\"key\"\n"
          "12:1: error: 'rest.createRoute' must be one of v2, v1, found \"v3\"\n"
          "13:18: error: 'rest.connectRoutes[0]' must be one of v2, v1, resume, found \"v9\"\n"
          "14:1: error: 'rest.connectRetryMs' must be milliseconds: 1 to 60000, found 0\n"
          "15:1: error: 'rest.codec' must be one of binary, json, found \"xml\"\n"
          "17:13: error: 'rest.metadata.\"a\"' must be text, found 1\n"
          "18:1: error: 'rest.domain' holds {port}, which is the name of no option");
    check(REST "[[options]]\nname = \"key\"\ntype = \"string\"\nsecret = true\n[rest]\n"
               "apiUrl = \"https://x/{key}\"\n",
          "14:1: error: 'rest.apiUrl' holds {key}, a secret: it would be seen in addresses");
}

static void text_that_is_no_toml(void **state)
{
    (void)state;
    char *got = problems_of("schema = \n");
    assert_non_null(strstr(got, "1:10: error: "));
    free(got);
    char *big = abx_alloc(ABX_MANIFEST_MAX + 2);
    memset(big, '#', ABX_MANIFEST_MAX + 1);
    check(big, "1:1: error: the file is over 64 KiB");
    free(big);
}

static void the_first_error_stands_for_all(void **state)
{
    (void)state;
    abx_problems problems = ABX_PROBLEMS;
    static const char text[] = "schema = 1\nx = 1\n";
    assert_null(abx_manifest_parse("d/m.toml", text, strlen(text), &problems));
    abx_error *err = NULL;
    assert_int_equal(abx_problems_to_error(&problems, &err), -1);
    assert_string_equal(
        err->message, "cannot use 'd/m.toml', line 1, column 1: 'id' is missing: it must be an id: "
                      "lower-case letters, digits and '-' (and 4 more)");
    assert_non_null(strstr(abx_error_hint(err), "provider validate"));
    assert_fails(err, PROVIDER_MANIFEST);
    abx_problems_clear(&problems);
}

static void versions_are_ordered(void **state)
{
    (void)state;
    static const char *const order[] = {"0.1.0",       "0.1.1-1",       "0.1.1-2",    "0.1.1-10",
                                        "0.1.1-alpha", "0.1.1-alpha.1", "0.1.1-beta", "0.1.1",
                                        "0.1.10",      "0.2.0",         "1.0.0",      "10.0.0"};
    for (size_t i = 0; i < ABX_COUNT(order); i++) {
        assert_true(abx_is_version(order[i]));
        for (size_t k = 0; k < ABX_COUNT(order); k++) {
            int rc = abx_version_compare(order[i], order[k]);
            if ((rc > 0) != (i > k) || (rc < 0) != (i < k))
                fail_msg("%s against %s: %d", order[i], order[k], rc);
        }
    }
    assert_int_equal(abx_version_compare("1.0.0+a", "1.0.0+b"), 0);
    static const char *const bad[] = {"",       "1",      "1.2",      "1.2.3.4",    "01.2.3",
                                      "1.2.x",  "1.2.3-", "1.2.3-01", "1.2.3-a..b", "1.2.3+",
                                      "v1.2.3", "1.2.3 ", "1..3"};
    for (size_t i = 0; i < ABX_COUNT(bad); i++)
        if (abx_is_version(bad[i]))
            fail_msg("'%s' is no version", bad[i]);
    assert_true(abx_is_version("1.2.3-rc.1+build.01"));
}

/* --- folders ---------------------------------------------------------------------------------------------- */

static void put(const char *folder, const char *name, const char *text, mode_t mode)
{
    char *path = abx_path_join(folder, name);
    assert_int_equal(abx_write_atomic(path, text, strlen(text), mode, false, NULL), 0);
    free(path);
}

static void a_folder_is_opened_with_its_program(void **state)
{
    (void)state;
    char *folder = kit_folder();
    abx_plugin *p = NULL;
    abx_error *err = NULL;
    assert_int_equal(abx_plugin_open_folder(folder, &p, &err), -1);
    assert_non_null(strstr(err->message, "there is no such file"));
    assert_fails(err, PROVIDER_MANIFEST);
    put(folder, ABX_MANIFEST_NAME, good, 0644);
    assert_int_equal(abx_plugin_open_folder(folder, &p, &err), -1);
    assert_non_null(
        strstr(err->message, "line 8, column 12: 'runtime.command[0]' is \"./plugin\""));
    assert_fails(err, PROVIDER_MANIFEST);
    put(folder, "plugin", "#!/bin/sh\n", 0644);
    assert_int_equal(abx_plugin_open_folder(folder, &p, &err), -1);
    assert_non_null(strstr(err->message, "cannot be executed"));
    assert_fails(err, PROVIDER_MANIFEST);
    put(folder, "plugin", "#!/bin/sh\n", 0755);
    assert_int_equal(abx_plugin_open_folder(folder, &p, &err), 0);
    assert_int_equal(p->trust, ABX_TRUST_FOLDER);
    assert_true(p->program_fd >= 0 && p->folder_fd >= 0);
    assert_string_equal(p->folder, folder);
    abx_plugin_free(p);
    assert_int_equal(abx_plugin_open_folder("/nowhere/at/all", &p, &err), -1);
    assert_fails(err, PROVIDER_NOT_FOUND);
    kit_drop(folder);
}

static void a_manifest_that_leaves_its_folder_is_refused(void **state)
{
    (void)state;
    char *folder = kit_folder();
    char *link = abx_path_join(folder, ABX_MANIFEST_NAME);
    assert_int_equal(symlink("/etc/passwd", link), 0);
    abx_plugin *p = NULL;
    abx_error *err = NULL;
    assert_int_equal(abx_plugin_open_folder(folder, &p, &err), -1);
    assert_non_null(strstr(err->message, "leaves the folder"));
    assert_fails(err, PROVIDER_MANIFEST);
    free(link);
    kit_drop(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_manifest_is_read),
        cmocka_unit_test(all_three_kinds_are_read_whole),
        cmocka_unit_test(top_level_mistakes),
        cmocka_unit_test(a_newer_schema_is_all_that_is_said),
        cmocka_unit_test(kinds_and_protocols),
        cmocka_unit_test(python_says_what_to_do_instead),
        cmocka_unit_test(an_unknown_feature_is_a_warning),
        cmocka_unit_test(mistakes_in_options),
        cmocka_unit_test(mistakes_in_the_other_tables),
        cmocka_unit_test(rest_with_options_in_it),
        cmocka_unit_test(text_that_is_no_toml),
        cmocka_unit_test(the_first_error_stands_for_all),
        cmocka_unit_test(versions_are_ordered),
        cmocka_unit_test(a_folder_is_opened_with_its_program),
        cmocka_unit_test(a_manifest_that_leaves_its_folder_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
