/* The parts of the conformance suite's interpreter: variables, bytes, values, the form of the cases. */
#include "kit.h"

#include "doors/cli/suite/bytes.h"
#include "doors/cli/suite/match.h"
#include "doors/cli/suite/suite.h"
#include "doors/cli/suite/vars.h"

static yyjson_doc *json(const char *text)
{
    yyjson_doc *d = abx_json_parse(text, strlen(text), ABX_ERR_USAGE, "test", NULL);
    assert_non_null(d);
    return d;
}

/* --- variables ----------------------------------------------------------------------------------------------- */

static void fills(const abx_vars *v, const char *text, const char *wanted)
{
    ABX_AUTO_JSON d = json(text);
    ABX_AUTO_MUT m = yyjson_mut_doc_new(NULL);
    ABX_AUTO_ERROR err = NULL;
    yyjson_mut_val *filled = abx_vars_fill(v, m, yyjson_doc_get_root(d), &err);
    if (!wanted) {
        assert_null(filled);
        assert_int_equal(err->id, ABX_ERR_USAGE);
        return;
    }
    assert_non_null(filled);
    ABX_AUTO_JSON out = yyjson_mut_val_imut_copy(filled, NULL);
    ABX_AUTO_FREE char *got = abx_json_text(yyjson_doc_get_root(out));
    assert_string_equal(got, wanted);
}

static void variables_keep_their_type_alone_and_are_text_in_text(void **state)
{
    (void)state;
    abx_vars outer, v;
    abx_vars_init(&outer, NULL);
    abx_vars_init(&v, &outer);
    abx_vars_set_int(&outer, "i", 7);
    abx_vars_set_str(&v, "s", "a b");
    fills(&v, "{\"x\":[\"{{i}}\",\"n{{i}}.{{s}}\",\"{{s}}\",3,null]}",
          "{\"x\":[7,\"n7.a b\",\"a b\",3,null]}");
    fills(&v, "\"${i} {i} }} {{\"", "\"${i} {i} }} {{\"");
    fills(&v, "\"{{nothing}}\"", NULL);
    fills(&v, "{\"a\":{\"b\":\"x{{nothing}}\"}}", NULL);
    abx_vars_set_int(&v, "i", 8);
    fills(&v, "\"{{i}}\"", "8");
    fills(&outer, "\"{{i}}\"", "7");
    abx_vars_clear(&v);
    abx_vars_clear(&outer);
}

/* --- bytes --------------------------------------------------------------------------------------------------- */

static void makes(const char *spec, const char *bytes, size_t n)
{
    ABX_AUTO_JSON d = json(spec);
    ABX_AUTO_BUF out = ABX_BUF(ABX_SUITE_BYTES_MAX);
    assert_int_equal(abx_suite_bytes(yyjson_doc_get_root(d), &out, NULL), bytes ? 0 : -1);
    if (!bytes)
        return;
    assert_int_equal(out.len, n);
    assert_memory_equal(out.data ? (const char *)out.data : "", bytes, n);
}

static void bytes_are_made(void **state)
{
    (void)state;
    makes("\"text\"", "text", 4);
    makes("{\"text\":\"\"}", "", 0);
    makes("{\"hex\":\"00ff7A\"}", "\0\xff\x7a", 3);
    makes("{\"base64\":\"AP8=\"}", "\0\xff", 2);
    makes("{\"repeat\":\"ab\",\"times\":3}", "ababab", 6);
    makes("{\"join\":[\"a\",{\"hex\":\"00\"},{\"repeat\":\"b\",\"times\":2}]}", "a\0bb", 4);
    makes("{\"pattern\":4,\"seed\":1}", "\xc6\x7e\x81k", 4);
    makes("{\"hex\":\"0\"}", NULL, 0);
    makes("{\"hex\":\"zz\"}", NULL, 0);
    makes("{\"base64\":\"?\"}", NULL, 0);
    makes("{\"repeat\":\"ab\",\"times\":999999999999}", NULL, 0);
    makes("{\"pattern\":99999999999}", NULL, 0);
    makes("7", NULL, 0);
}

static void a_pattern_repeats_its_block(void **state)
{
    (void)state;
    ABX_AUTO_JSON d = json("{\"pattern\":200000,\"seed\":3}");
    ABX_AUTO_BUF out = ABX_BUF(ABX_SUITE_BYTES_MAX);
    assert_int_equal(abx_suite_bytes(yyjson_doc_get_root(d), &out, NULL), 0);
    assert_int_equal(out.len, 200000);
    assert_memory_equal(out.data, out.data + ABX_SUITE_PATTERN, 200000 - ABX_SUITE_PATTERN);
    assert_memory_not_equal(out.data, out.data + 65536, 1000);
}

static bool bytes_fit(const char *spec, const char *have, size_t n)
{
    ABX_AUTO_JSON d = json(spec);
    ABX_AUTO_FREE char *why = NULL;
    bool fits = abx_suite_bytes_fit(yyjson_doc_get_root(d), have, n, &why);
    assert_true(fits == (why == NULL));
    return fits;
}

static void bytes_are_compared(void **state)
{
    (void)state;
    assert_true(bytes_fit("\"ab\"", "ab", 2));
    assert_false(bytes_fit("\"ab\"", "abc", 3));
    assert_false(bytes_fit("\"ab\"", "a", 1));
    assert_false(bytes_fit("\"ab\"", "ac", 2));
    assert_true(bytes_fit("\"\"", NULL, 0));
    assert_false(bytes_fit("\"\"", "\0", 1));
    assert_true(bytes_fit(
        "{\"contains\":\"b\",\"length\":3,\"startsWith\":\"a\",\"endsWith\":\"c\",\"lacks\":\"d\"}",
        "abc", 3));
    assert_false(bytes_fit("{\"contains\":\"b\",\"length\":4}", "abc", 3));
    assert_true(bytes_fit("{\"length\":{\"$min\":1,\"$max\":3}}", "abc", 3));
    assert_false(bytes_fit("{\"startsWith\":\"abcd\"}", "abc", 3));
    assert_false(bytes_fit("{\"endsWith\":\"b\"}", "abc", 3));
    assert_false(bytes_fit("{\"lacks\":\"b\"}", "abc", 3));
    assert_true(bytes_fit("{\"oneOf\":[\"x\",{\"contains\":\"b\"}]}", "abc", 3));
    assert_false(bytes_fit("{\"oneOf\":[\"x\",\"y\"]}", "abc", 3));
    assert_true(bytes_fit(
        "{\"sha256\":\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}", "abc",
        3));
    assert_false(bytes_fit(
        "{\"sha256\":\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}", "abd",
        3));
}

/* --- values -------------------------------------------------------------------------------------------------- */

static bool fits(const char *want, const char *have)
{
    ABX_AUTO_JSON w = json(want);
    ABX_AUTO_JSON h = have ? json(have) : NULL;
    ABX_AUTO_FREE char *why = NULL;
    bool yes = abx_suite_fits(yyjson_doc_get_root(w), yyjson_doc_get_root(h), "value", &why);
    assert_true(yes || (why && strncmp(why, "value", 5) == 0));
    return yes;
}

static void values_are_compared(void **state)
{
    (void)state;
    assert_true(fits("1", "1.0"));
    assert_false(fits("1", "\"1\""));
    assert_false(fits("null", NULL));
    assert_true(fits("{\"a\":1}", "{\"b\":2,\"a\":1}"));
    assert_false(fits("{\"a\":1}", "{\"b\":2}"));
    assert_false(fits("{}", "[]"));
    assert_false(fits("{}", NULL));
    assert_true(fits("[1,{\"a\":2}]", "[1,{\"a\":2,\"c\":3}]"));
    assert_false(fits("[1]", "[1,2]"));
    assert_false(fits("[1,2]", "[2,1]"));
}

static void rules_ask_for_less(void **state)
{
    (void)state;
    assert_true(fits("{\"a\":{\"$absent\":true}}", "{}"));
    assert_false(fits("{\"a\":{\"$absent\":true}}", "{\"a\":null}"));
    assert_true(fits("{\"$type\":\"integer\",\"$min\":2,\"$max\":4}", "3"));
    assert_false(fits("{\"$type\":\"integer\"}", "3.5"));
    assert_true(fits("{\"$type\":\"number\"}", "3"));
    assert_false(fits("{\"$min\":4}", "3"));
    assert_false(fits("{\"$max\":4}", "\"3\""));
    assert_true(fits("{\"$oneOf\":[1,\"x\"]}", "\"x\""));
    assert_false(fits("{\"$oneOf\":[1,\"x\"]}", NULL));
    assert_true(fits("{\"$not\":true}", NULL));
    assert_false(fits("{\"$not\":{\"a\":1}}", "{\"a\":1,\"b\":2}"));
    assert_true(fits("{\"$prefix\":\"ab\",\"$suffix\":\"cd\",\"$contains\":\"bc\",\"$length\":4}",
                     "\"abcd\""));
    assert_false(fits("{\"$contains\":\"x\"}", "\"abcd\""));
    assert_false(fits("{\"$contains\":\"x\"}", "7"));
    assert_true(fits("{\"$has\":[{\"a\":1},2]}", "[2,{\"a\":1,\"b\":0}]"));
    assert_false(fits("{\"$has\":[3]}", "[2]"));
    assert_true(fits("{\"$lacks\":[3],\"$length\":1}", "[2]"));
    assert_false(fits("{\"$lacks\":[2]}", "[2]"));
    assert_false(fits("{\"$lacks\":[2]}", NULL));
    assert_false(fits("{\"$length\":{\"$min\":2}}", "[2]"));
    assert_true(fits("{\"$fromNowMs\":[-99999999999999,0]}", "\"2020-01-01T00:00:00Z\""));
    assert_false(fits("{\"$fromNowMs\":[0,1000]}", "\"2020-01-01T00:00:00Z\""));
    assert_false(fits("{\"$fromNowMs\":[0,1000]}", "\"soon\""));
}

static void a_path_goes_into_objects_and_lists(void **state)
{
    (void)state;
    ABX_AUTO_JSON d = json("{\"a\":[{\"b\":5}]}");
    yyjson_val *root = yyjson_doc_get_root(d);
    assert_int_equal(yyjson_get_int(abx_suite_at(root, "a.0.b")), 5);
    assert_ptr_equal(abx_suite_at(root, ""), root);
    assert_null(abx_suite_at(root, "a.1.b"));
    assert_null(abx_suite_at(root, "a.x"));
    assert_null(abx_suite_at(root, "a.0.b.c"));
}

/* --- the form of the cases ----------------------------------------------------------------------------------- */

static void reads(const char *item, const char *complaint)
{
    ABX_AUTO_FREE char *text =
        abx_format("{\"suite\":{\"version\":1,\"groups\":[{\"name\":\"g\"}],\"withoutSandbox\":[]},"
                   "\"files\":[{\"group\":\"g\",\"cases\":[%s]}]}",
                   item);
    abx_suite s;
    ABX_AUTO_ERROR err = NULL;
    int rc = abx_suite_read(text, strlen(text), &s, &err);
    if (!complaint) {
        assert_int_equal(rc, 0);
        abx_suite_clear(&s);
        return;
    }
    assert_int_equal(rc, -1);
    assert_int_equal(err->id, ABX_ERR_USAGE);
    assert_non_null(strstr(err->message, complaint));
}

#define STEP(text) "{\"name\":\"g.a\",\"title\":\"t\",\"steps\":[" text "]}"

static void an_unknown_member_is_an_error(void **state)
{
    (void)state;
    reads(STEP("{\"call\":\"x.y\",\"note\":\"fine\"}"), NULL);
    reads("{\"name\":\"g.a\",\"title\":\"t\",\"steps\":[],\"extra\":1}", "'extra'");
    reads("{\"name\":\"h.a\",\"title\":\"t\",\"steps\":[]}", "name");
    reads("{\"name\":\"g.a\",\"steps\":[]}", "title");
    reads(STEP("{\"call\":\"x.y\",\"as\":\"p\"}"), "'as'");
    reads(STEP("{\"jump\":\"x\"}"), "nothing that is known");
    reads(STEP("{\"call\":\"x.y\",\"expect\":{\"exit\":0}}"), "'exit'");
    reads(STEP("{\"call\":\"x.y\",\"expect\":{\"stdout\":{\"contain\":\"x\"}}}"), "'contain'");
    reads(STEP("{\"call\":\"x.y\",\"expect\":{\"result\":{\"a\":[{\"$many\":1}]}}}"), "'$many'");
    reads(STEP("{\"await\":\"p\",\"event\":{\"$near\":1}}"), "'$near'");
    reads(STEP("{\"repeat\":2,\"steps\":[{\"call\":\"x.y\",\"bad\":1}]}"), "'bad'");
    reads(STEP("{\"parallel\":[[{\"call\":\"x.y\",\"bad\":1}]]}"), "'bad'");
    reads(STEP("{\"call\":\"x.y\"}") "," STEP("{\"call\":\"x.y\"}"), "two cases");
}

static void the_built_in_cases_are_well_formed(void **state)
{
    (void)state;
    abx_suite s;
    ABX_AUTO_ERROR err = NULL;
    int rc = abx_suite_open(&s, &err);
    assert_int_equal(rc, 0);
    assert_true(s.count >= 80);
    abx_suite_clear(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_keep_their_type_alone_and_are_text_in_text),
        cmocka_unit_test(bytes_are_made),
        cmocka_unit_test(a_pattern_repeats_its_block),
        cmocka_unit_test(bytes_are_compared),
        cmocka_unit_test(values_are_compared),
        cmocka_unit_test(rules_ask_for_less),
        cmocka_unit_test(a_path_goes_into_objects_and_lists),
        cmocka_unit_test(an_unknown_member_is_an_error),
        cmocka_unit_test(the_built_in_cases_are_well_formed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
