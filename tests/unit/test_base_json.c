/* JSON helpers: limits of what is read, getters, building, errors as objects. */
#include "kit.h"

#include "base/json.h"
#include "base/json_names.h"

static yyjson_doc *parse(const char *text)
{
    abx_error *err = NULL;
    yyjson_doc *doc = abx_json_parse(text, strlen(text), ABX_ERR_USAGE, "the text", &err);
    if (!doc)
        fail_msg("'%s': %s", text, abx_error_text(err));
    return doc;
}

static char *nested(int levels, const char *open, const char *core, const char *close)
{
    abx_buf b = ABX_BUF(100000);
    for (int i = 0; i < levels; i++)
        assert_int_equal(abx_buf_add_str(&b, open), 0);
    assert_int_equal(abx_buf_add_str(&b, core), 0);
    for (int i = 0; i < levels; i++)
        assert_int_equal(abx_buf_add_str(&b, close), 0);
    return abx_buf_take(&b);
}

static void nesting_has_a_limit(void **state)
{
    static const struct {
        const char *open, *core, *close;
    } kinds[] = {
        {"[", "1", "]"}, {"{\"a\":", "1", "}"}, {"[{\"a\":[[]],\"b\":", "\"[[[{{{\"", "}]"}};
    for (size_t i = 0; i < ABX_COUNT(kinds); i++) {
        int most = i == 2 ? ABX_JSON_DEPTH / 2 : ABX_JSON_DEPTH;
        abx_error *err = NULL;
        /* the third kind opens two more levels inside its innermost */
        ABX_AUTO_FREE char *good =
            nested(i == 2 ? most - 1 : most, kinds[i].open, kinds[i].core, kinds[i].close);
        yyjson_doc_free(parse(good));
        ABX_AUTO_FREE char *deep = nested(most + 1, kinds[i].open, kinds[i].core, kinds[i].close);
        assert_null(abx_json_parse(deep, strlen(deep), ABX_ERR_USAGE, "it", &err));
        assert_non_null(strstr(abx_error_text(err), "deeper than 32"));
        assert_fails(err, USAGE);
    }
}

static void brackets_inside_of_texts_do_not_count(void **state)
{
    ABX_AUTO_FREE char *text = nested(100, "[\\\"", "", "{");
    ABX_AUTO_FREE char *quoted = abx_format("{\"a\":\"%s\\\\\",\"b\":1}", text);
    ABX_AUTO_JSON doc = parse(quoted);
    assert_int_equal(abx_json_int(yyjson_doc_get_root(doc), "b", 0), 1);
}

static void what_is_no_json_is_refused_with_its_place(void **state)
{
    static const char *const bad[] = {
        "",         " ",       "{",           "[1,]",     "{\"a\":1,}",
        "{a:1}",    "'a'",     "nul",         "NaN",      "01",
        "1.",       "+1",      "[1] x",       "\"\xff\"", "\"\xed\xa0\x80\"",
        "\"a\nb\"", "\"\\x\"", "\"\\ud800\"", "/* */1",   "]",
        "\"",       "\"\\",    "1e999",
    };
    for (size_t i = 0; i < ABX_COUNT(bad); i++) {
        abx_error *err = NULL;
        ABX_AUTO_JSON doc =
            abx_json_parse(bad[i], strlen(bad[i]), ABX_ERR_PROVIDER_PROTOCOL, "the answer", &err);
        if (doc)
            fail_msg("'%s' is taken", bad[i]);
        assert_non_null(strstr(abx_error_text(err), "the answer is no valid JSON: "));
        assert_non_null(strstr(abx_error_text(err), " at byte "));
        assert_fails(err, PROVIDER_PROTOCOL);
    }
    assert_null(abx_json_parse(NULL, 0, ABX_ERR_USAGE, "nothing", NULL));
}

static void each_truncation_is_refused(void **state)
{
    static const char text[] = "{\"a\":[1,2.5,true,null,\"x\\u00e4\\n\"],\"b\":{\"c\":-1}}";
    for (size_t n = 0; n < strlen(text); n++) {
        char *part = malloc(n ? n : 1); /* without a 0, so that reading on would be noticed */
        memcpy(part, text, n);
        ABX_AUTO_JSON doc = abx_json_parse(part, n, ABX_ERR_USAGE, "x", NULL);
        assert_null(doc);
        free(part);
    }
}

static void getters_answer_the_default_for_other_types(void **state)
{
    ABX_AUTO_JSON doc =
        parse("{\"s\":\"x\",\"n\":null,\"i\":-5,\"u\":18446744073709551615,\"r\":1.0,"
              "\"b\":true,\"o\":{},\"big\":9223372036854775807}");
    yyjson_val *o = yyjson_doc_get_root(doc);
    assert_string_equal(abx_json_str(o, "s", "-"), "x");
    assert_string_equal(abx_json_str(o, "i", "-"), "-");
    assert_string_equal(abx_json_str(o, "n", "-"), "-");
    assert_null(abx_json_str(o, "absent", NULL));
    assert_int_equal(abx_json_int(o, "i", 7), -5);
    assert_true(abx_json_int(o, "big", 7) == INT64_MAX);
    assert_int_equal(abx_json_int(o, "u", 7), 7);
    assert_int_equal(abx_json_int(o, "r", 7), 7);
    assert_int_equal(abx_json_int(o, "s", 7), 7);
    assert_true(abx_json_bool(o, "b", false));
    assert_true(abx_json_bool(o, "i", true));
    assert_null(abx_json_get(o, "n"));
    assert_null(abx_json_get(o, "absent"));
    assert_non_null(abx_json_get(o, "o"));
    assert_null(abx_json_get(yyjson_obj_get(o, "s"), "x"));
    assert_null(abx_json_get(NULL, "x"));
    assert_int_equal(abx_json_int(NULL, "x", 3), 3);
}

static void objects_are_built_and_written(void **state)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    ABX_AUTO_JSON other = parse("{\"x\":[1,2]}");
    abx_mut_str(d, root, "s", "old");
    abx_mut_str(d, root, "s", "new");
    abx_mut_str(d, root, "none", NULL);
    abx_mut_strn(d, root, "n", "abc", 2);
    abx_mut_int(d, root, "i", INT64_MIN);
    abx_mut_bool(d, root, "b", false);
    abx_mut_val(d, root, "v", yyjson_doc_get_root(other));
    abx_mut_val(d, root, "nothing", NULL);
    abx_mut_int(d, abx_mut_obj(d, root, "o"), "k", 1);
    yyjson_mut_arr_add_int(d, abx_mut_arr(d, root, "a"), 2);
    ABX_AUTO_JSON frozen = abx_json_freeze(d);
    ABX_AUTO_FREE char *text = abx_json_text(yyjson_doc_get_root(frozen));
    assert_string_equal(text, "{\"s\":\"new\",\"n\":\"ab\",\"i\":-9223372036854775808,\"b\":false,"
                              "\"v\":{\"x\":[1,2]},\"o\":{\"k\":1},\"a\":[2]}");
    ABX_AUTO_BUF out = ABX_BUF(1000);
    assert_int_equal(abx_json_write_mut(root, &out), 0);
    assert_string_equal(abx_buf_cstr(&out), text);
    abx_buf_reset(&out);
    assert_int_equal(abx_json_write(yyjson_doc_get_root(frozen), &out), 0);
    assert_string_equal(abx_buf_cstr(&out), text);
}

static void writing_keeps_the_limit_of_the_buffer(void **state)
{
    ABX_AUTO_JSON doc = parse("{\"a\":\"0123456789\"}");
    ABX_AUTO_BUF out = ABX_BUF(17);
    assert_int_equal(abx_json_write(yyjson_doc_get_root(doc), &out), -1);
    assert_int_equal(out.len, 0);
    out.max = 18;
    assert_int_equal(abx_json_write(yyjson_doc_get_root(doc), &out), 0);
}

static void copies_stand_alone(void **state)
{
    yyjson_doc *doc = parse("{\"a\":{\"b\":\"x\"}}");
    ABX_AUTO_JSON copy = abx_json_copy(yyjson_obj_get(yyjson_doc_get_root(doc), "a"));
    yyjson_doc_free(doc);
    assert_string_equal(abx_json_str(yyjson_doc_get_root(copy), "b", ""), "x");
    ABX_AUTO_JSON empty = abx_json_copy(NULL);
    ABX_AUTO_FREE char *text = abx_json_text(yyjson_doc_get_root(empty));
    assert_string_equal(text, "{}");
    ABX_AUTO_FREE char *null = abx_json_text(NULL);
    assert_string_equal(null, "null");
}

static void texts_with_zero_bytes_and_odd_characters_survive(void **state)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_strn(d, root, "s", "a\0b\x1f\"\\\xf0\x9f\x98\x80", 10);
    ABX_AUTO_BUF out = ABX_BUF(1000);
    assert_int_equal(abx_json_write_mut(root, &out), 0);
    ABX_AUTO_JSON back = parse(abx_buf_cstr(&out));
    yyjson_val *s = yyjson_obj_get(yyjson_doc_get_root(back), "s");
    assert_int_equal(yyjson_get_len(s), 10);
    assert_memory_equal(yyjson_get_str(s), "a\0b\x1f\"\\\xf0\x9f\x98\x80", 10);
}

static abx_error *round_trip(const abx_error *e)
{
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(d, abx_error_json(d, e));
    ABX_AUTO_JSON frozen = abx_json_freeze(d);
    yyjson_mut_doc_free(d);
    return abx_error_from_json(yyjson_doc_get_root(frozen));
}

static void every_error_round_trips(void **state)
{
    for (int i = 0; i < ABX_ERR_COUNT; i++) {
        ABX_AUTO_ERROR e = abx_error_new((abx_err_id)i, "cannot do '%d'", i);
        ABX_AUTO_ERROR back = round_trip(e);
        assert_int_equal(back->id, i);
        assert_string_equal(back->message, e->message);
        assert_int_equal(back->retryable, e->retryable);
        if (abx_error_hint(e))
            assert_string_equal(abx_error_hint(back), abx_error_hint(e));
        else
            assert_null(abx_error_hint(back));
    }
}

static void members_of_an_error_round_trip(void **state)
{
    ABX_AUTO_ERROR e = abx_error_new(ABX_ERR_BACKEND, "a");
    e->retryable = ABX_RETRY_YES;
    e->hint = abx_strdup("b");
    e->request_id = abx_strdup("c");
    e->provider = abx_strdup("d");
    e->sandbox = abx_strdup("e");
    ABX_AUTO_ERROR back = round_trip(e);
    assert_int_equal(back->retryable, ABX_RETRY_YES);
    assert_string_equal(back->hint, "b");
    assert_string_equal(back->request_id, "c");
    assert_string_equal(back->provider, "d");
    assert_string_equal(back->sandbox, "e");
}

static void unknown_retryable_is_absent(void **state)
{
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    ABX_AUTO_ERROR e = abx_error_new(ABX_ERR_BACKEND, "a");
    yyjson_mut_val *obj = abx_error_json(d, e);
    assert_null(yyjson_mut_obj_get(obj, "retryable"));
    assert_null(yyjson_mut_obj_get(obj, "hint"));
    e->retryable = ABX_RETRY_NO;
    obj = abx_error_json(d, e);
    assert_true(yyjson_mut_is_false(yyjson_mut_obj_get(obj, "retryable")));
    yyjson_mut_doc_free(d);
}

static void odd_objects_become_backend_errors(void **state)
{
    static const char *const odd[] = {
        "{}",
        "null",
        "[]",
        "\"text\"",
        "7",
        "{\"code\":\"E0000\"}",
        "{\"code\":7,\"message\":[]}",
        "{\"message\":null,\"hint\":{},\"retryable\":\"yes\",\"errno\":99999999999}",
    };
    for (size_t i = 0; i < ABX_COUNT(odd); i++) {
        ABX_AUTO_JSON doc = parse(odd[i]);
        ABX_AUTO_ERROR e = abx_error_from_json(yyjson_doc_get_root(doc));
        assert_int_equal(e->id, ABX_ERR_BACKEND);
        assert_true(strlen(e->message) > 0);
        assert_int_equal(e->retryable, ABX_RETRY_UNKNOWN);
    }
    ABX_AUTO_ERROR e = abx_error_from_json(NULL);
    assert_int_equal(e->id, ABX_ERR_BACKEND);
}

/* {"0":0,"1":1,…} with n members, behind them `more`. */
static char *many_members(size_t n, const char *more)
{
    abx_buf b = ABX_BUF(1 << 24);
    int rc = abx_buf_add_byte(&b, '{');
    for (size_t i = 0; i < n; i++)
        rc |= abx_buf_addf(&b, "%s\"%zu\":%zu", i ? "," : "", i, i);
    rc |= abx_buf_addf(&b, "%s}", more);
    assert_int_equal(rc, 0);
    return abx_buf_take(&b);
}

static void a_name_that_stands_twice_is_found(void **state)
{
    static const char *const once[] = {"{}", "[1,1]", "1",
                                       "{\"a\":1,\"A\":1,\"\":1,\"a\\u0000\":1,\"a\\u0000b\":1}"};
    static const char *const twice[] = {"{\"a\":1,\"b\":1,\"a\":2}", "{\"\":1,\"\":1}",
                                        "{\"\\u0061\":1,\"a\":1}"};
    for (size_t i = 0; i < ABX_COUNT(once); i++) {
        ABX_AUTO_JSON doc = parse(once[i]);
        assert_null(abx_json_twice_within(yyjson_doc_get_root(doc)));
    }
    for (size_t i = 0; i < ABX_COUNT(twice); i++) {
        ABX_AUTO_JSON doc = parse(twice[i]);
        assert_non_null(abx_json_twice(yyjson_doc_get_root(doc)));
        ABX_AUTO_FREE char *inner = abx_format("[0,{\"x\":[%s]}]", twice[i]);
        ABX_AUTO_JSON deep = parse(inner);
        assert_null(abx_json_twice(yyjson_doc_get_root(deep)));
        assert_non_null(abx_json_twice_within(yyjson_doc_get_root(deep)));
    }
    for (size_t n = 1; n < 20000; n = n < 20 ? n + 1 : n * 3) {
        ABX_AUTO_FREE char *good = many_members(n, ",\"x\":0"), *bad = many_members(n, ",\"0\":0");
        ABX_AUTO_JSON fine = parse(good);
        ABX_AUTO_JSON broken = parse(bad);
        assert_null(abx_json_twice(yyjson_doc_get_root(fine)));
        assert_string_equal(yyjson_get_str(abx_json_twice(yyjson_doc_get_root(broken))), "0");
    }
}

static void the_last_of_a_name_is_kept(void **state)
{
    static const char *const pairs[][2] = {
        {"{}", "{}"},
        {"{\"a\":1}", "{\"a\":1}"},
        {"{\"a\":1,\"a\":2}", "{\"a\":2}"},
        {"{\"a\":1,\"b\":2,\"a\":3,\"c\":4,\"b\":5,\"a\":6}", "{\"c\":4,\"b\":5,\"a\":6}"},
        {"{\"b\":1,\"a\":2,\"a\":3}", "{\"b\":1,\"a\":3}"},
    };
    for (size_t i = 0; i < ABX_COUNT(pairs); i++) {
        ABX_AUTO_JSON doc = parse(pairs[i][0]);
        ABX_AUTO_MUT d = yyjson_doc_mut_copy(doc, NULL);
        yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
        abx_mut_keep_last(root);
        ABX_AUTO_BUF text = ABX_BUF(1000);
        assert_int_equal(abx_json_write_mut(root, &text), 0);
        assert_string_equal(abx_buf_cstr(&text), pairs[i][1]);
        abx_mut_str(d, root, "z", "still an object");
        assert_string_equal(yyjson_mut_get_str(yyjson_mut_obj_get(root, "z")), "still an object");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nesting_has_a_limit),
        cmocka_unit_test(brackets_inside_of_texts_do_not_count),
        cmocka_unit_test(what_is_no_json_is_refused_with_its_place),
        cmocka_unit_test(each_truncation_is_refused),
        cmocka_unit_test(getters_answer_the_default_for_other_types),
        cmocka_unit_test(objects_are_built_and_written),
        cmocka_unit_test(writing_keeps_the_limit_of_the_buffer),
        cmocka_unit_test(copies_stand_alone),
        cmocka_unit_test(texts_with_zero_bytes_and_odd_characters_survive),
        cmocka_unit_test(every_error_round_trips),
        cmocka_unit_test(members_of_an_error_round_trip),
        cmocka_unit_test(unknown_retryable_is_absent),
        cmocka_unit_test(odd_objects_become_backend_errors),
        cmocka_unit_test(a_name_that_stands_twice_is_found),
        cmocka_unit_test(the_last_of_a_name_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
