/* The check of a call's parameters against the table. */
#include "kit.h"

#include "ops/ops.h"

/* Check this JSON text; NULL when it is accepted, else the error. */
static abx_error *check(const char *method, const char *text)
{
    abx_error *err = NULL;
    const abx_op_row *row = abx_op_find(method);
    assert_non_null(row);
    yyjson_doc *doc = abx_json_parse(text, strlen(text), ABX_ERR_USAGE, "test", &err);
    if (!doc)
        fail_msg("%s", abx_error_text(err));
    int rc = abx_op_check_params(row, yyjson_doc_get_root(doc), &err);
    yyjson_doc_free(doc);
    assert_int_equal(rc, err ? -1 : 0);
    return err;
}

static void accept(const char *method, const char *text)
{
    abx_error *err = check(method, text);
    if (err)
        fail_msg("%s %s: %s", method, text, err->message);
}

/* It is refused as USAGE with a message and a hint that hold these words (NULL: any). */
static void refuse(const char *method, const char *text, const char *words, const char *hint)
{
    abx_error *err = check(method, text);
    if (!err)
        fail_msg("%s %s is accepted", method, text);
    if (words && !strstr(err->message, words))
        fail_msg("'%s' is not in '%s'", words, err->message);
    if (hint && !strstr(abx_error_hint(err), hint))
        fail_msg("'%s' is not in '%s'", hint, abx_error_hint(err));
    assert_fails(err, USAGE);
}

static void unknown_parameter_names_the_nearest(void **state)
{
    refuse("sandbox.create", "{\"nmae\":\"x\"}", "sandbox.create has no parameter 'nmae'",
           "did you mean 'name'?");
    refuse("sandbox.create", "{\"timeoutms\":1}", "'timeoutms'", "'timeoutMs'");
    refuse("sandbox.info", "{\"sandboxId\":\"a\",\"banana\":1}", "'banana'", NULL);
    refuse("sandbox.info", "{\"sandboxId\":\"a\",\"banana\":null}", "'banana'", NULL);
    refuse("sandbox.info", "{\"sandboxId\":\"a\",\"\":1}", "''", NULL);
}

static void parameters_are_an_object(void **state)
{
    refuse("sandbox.list", "[]", "must be an object", NULL);
    refuse("sandbox.list", "null", "must be an object", NULL);
    refuse("sandbox.list", "\"x\"", "must be an object", NULL);
    accept("sandbox.list", "{}");
}

static void required_parameters_are_asked_for(void **state)
{
    refuse("sandbox.info", "{}", "sandbox.info needs the parameter 'sandboxId'", NULL);
    refuse("sandbox.info", "{\"sandboxId\":null}", "needs the parameter 'sandboxId'", NULL);
    refuse("sandbox.set_timeout", "{\"sandboxId\":\"a\"}", "'timeoutMs'", NULL);
    accept("sandbox.set_timeout", "{\"sandboxId\":\"a\",\"timeoutMs\":0}");
}

/* process.start with n entries in `env` (map) or in `cmd`. */
static char *many(bool map, size_t n)
{
    abx_buf b = ABX_BUF(64 << 20);
    int rc = abx_buf_add_str(&b, "{\"sandboxId\":\"a\",\"cmd\":[\"x\"");
    rc |= map ? abx_buf_add_str(&b, "],\"env\":{\"x\":\"\"") : 0;
    for (size_t i = 1; i < n; i++)
        rc |= map ? abx_buf_addf(&b, ",\"%zu\":\"\"", i) : abx_buf_add_str(&b, ",\"x\"");
    rc |= abx_buf_add_str(&b, map ? "}}" : "]}");
    assert_int_equal(rc, 0);
    return abx_buf_take(&b);
}

static void too_many_entries_are_refused(void **state)
{
    for (int map = 0; map <= 1; map++) {
        size_t most = map ? ABX_OP_MAP_MAX : ABX_OP_LIST_MAX;
        ABX_AUTO_FREE char *good = many(map, most), *bad = many(map, most + 1);
        accept("process.start", good);
        abx_error *err = check("process.start", bad);
        assert_non_null(err);
        assert_non_null(strstr(err->message, map ? "'env'" : "'cmd'"));
        assert_fails(err, TOO_LARGE);
    }
}

static void a_name_that_is_there_twice_is_refused(void **state)
{
    refuse("process.start",
           "{\"sandboxId\":\"a\",\"cmd\":[\"x\"],\"env\":{\"A\":\"1\",\"B\":\"\",\"A\":\"2\"}}",
           "parameter 'env' of process.start has 'A' twice", NULL);
    refuse("sandbox.create", "{\"metadata\":{\"k\":\"v\",\"k\":\"v\"}}", "'metadata'", NULL);
    refuse("sandbox.create", "{\"name\":\"a\",\"name\":\"a\"}",
           "parameter 'name' of sandbox.create is there twice", NULL);
    refuse("process.attach",
           "{\"sandboxId\":\"a\",\"processId\":\"1\",\"fromOffset\":{\"stdout\":1,\"stdout\":2}}",
           "'fromOffset' of process.attach has 'stdout' twice", NULL);
    ABX_AUTO_FREE char *text = many(true, ABX_OP_MAP_MAX - 1);
    text[strlen(text) - 2] = 0;
    ABX_AUTO_FREE char *more = abx_format("%s,\"17\":\"\"}}", text);
    refuse("process.start", more, "has '17' twice", NULL);
}

static void a_value_that_nobody_knows_is_refused(void **state)
{
    refuse("process.start", "{\"sandboxId\":\"a\",\"cmd\":[\"x\"],\"onDisconnect\":\"stay\"}",
           "'onDisconnect' of process.start must be kill or detach", NULL);
    refuse("process.start", "{\"sandboxId\":\"a\",\"cmd\":[\"x\"],\"stdin\":\"open\"}",
           "'stdin' of process.start must be closed or stream", NULL);
    accept("process.start",
           "{\"sandboxId\":\"a\",\"cmd\":[\"x\"],\"stdin\":\"closed\",\"onDisconnect\":\"kill\"}");
    refuse("pty.open", "{\"sandboxId\":\"a\",\"onDisconnect\":\"\"}", "kill or detach", NULL);
    refuse("pty.open", "{\"sandboxId\":\"a\",\"cols\":65536}",
           "'cols' of pty.open is more than 65535", NULL);
    accept("pty.open", "{\"sandboxId\":\"a\",\"cols\":65535,\"rows\":1}");
}

static void null_is_an_absent_optional(void **state)
{
    accept("sandbox.create", "{\"name\":null,\"timeoutMs\":null,\"metadata\":null}");
}

static void each_type_is_checked(void **state)
{
    static const char *const values[] = {
        "\"x\"", "true",      "1",  "[\"a\"]", "{\"k\":\"v\"}",        "{\"text\":\"x\"}",
        "[1]",   "{\"k\":1}", "-1", "1.5",     "18446744073709551615",
    };
    static const struct {
        const char *method, *param, *others;
        const char *good; /* which of the values, as a mask of + and - */
    } rows[] = {
        {"sandbox.create", "name", "", "+----------"},
        {"sandbox.create", "tied", "", "-+---------"},
        {"sandbox.create", "timeoutMs", "", "--+--------"},
        {"sandbox.create", "metadata", "", "----++-----"},
        {"sandbox.create", "allowWeaker", "", "---+--+----"},
        {"process.start", "input", ",\"sandboxId\":\"a\",\"cmd\":[\"x\"]", "-----+-----"},
        {"process.start", "cmd", ",\"sandboxId\":\"a\"", "---+-------"},
        {"process.attach", "fromOffset", ",\"sandboxId\":\"a\",\"processId\":\"1\"", "----++-+---"},
    };
    for (size_t r = 0; r < ABX_COUNT(rows); r++)
        for (size_t v = 0; v < ABX_COUNT(values); v++) {
            ABX_AUTO_FREE char *text =
                abx_format("{\"%s\":%s%s}", rows[r].param, values[v], rows[r].others);
            if (rows[r].good[v] == '+')
                accept(rows[r].method, text);
            else
                refuse(rows[r].method, text, "'", NULL);
        }
}

static void integers_have_no_sign_and_no_fraction(void **state)
{
    accept("sandbox.create", "{\"timeoutMs\":9223372036854775807}");
    refuse("sandbox.create", "{\"timeoutMs\":9223372036854775808}", "must be an int", NULL);
    refuse("sandbox.create", "{\"timeoutMs\":1.0}", "must be an int", NULL);
    refuse("sandbox.create", "{\"timeoutMs\":1e3}", "must be an int", NULL);
    refuse("sandbox.create", "{\"timeoutMs\":\"1\"}", "must be an int", NULL);
}

static void bytes_are_text_or_base64_alone(void **state)
{
    accept("process.start",
           "{\"sandboxId\":\"a\",\"cmd\":[\"x\"],\"input\":{\"text\":\"a\\u0000b\"}}");
    accept("process.start",
           "{\"sandboxId\":\"a\",\"cmd\":[\"x\"],\"input\":{\"base64\":\"AAEC\"}}");
    static const char *const bad[] = {"{}", "{\"text\":1}", "{\"bytes\":\"x\"}", "\"x\"",
                                      "{\"text\":\"a\",\"base64\":\"\"}"};
    for (size_t i = 0; i < ABX_COUNT(bad); i++) {
        ABX_AUTO_FREE char *text =
            abx_format("{\"sandboxId\":\"a\",\"cmd\":[\"x\"],\"input\":%s}", bad[i]);
        refuse("process.start", text, "'input'", NULL);
    }
}

static void zero_bytes_are_refused(void **state)
{
    refuse("sandbox.create", "{\"name\":\"a\\u0000b\"}", "NUL", NULL);
    refuse("sandbox.create", "{\"env\":{\"A\":\"x\\u0000\"}}", "NUL", NULL);
    refuse("sandbox.create", "{\"env\":{\"A\\u0000\":\"x\"}}", "NUL", NULL);
    refuse("process.start", "{\"sandboxId\":\"a\",\"cmd\":[\"x\",\"y\\u0000z\"]}", "NUL", NULL);
    refuse("fs.read", "{\"sandboxId\":\"a\",\"path\":\"/etc\\u0000/x\"}", "NUL", NULL);
}

static void name_that_goes_on_behind_a_zero_byte_is_unknown(void **state)
{
    refuse("sandbox.create", "{\"name\\u0000x\":\"a\"}", "has no parameter", NULL);
    refuse("sandbox.info", "{\"sandboxId\\u0000\":\"a\",\"sandboxId\":\"b\"}", "has no parameter",
           NULL);
}

static void string_is_a_command_only_for_a_shell(void **state)
{
    refuse("process.start", "{\"sandboxId\":\"a\",\"cmd\":\"ls\"}", "one string", "shell: true");
    refuse("process.start", "{\"sandboxId\":\"a\",\"cmd\":\"ls\",\"shell\":false}", "one string",
           NULL);
    accept("process.start", "{\"sandboxId\":\"a\",\"cmd\":\"ls | wc\",\"shell\":true}");
    refuse("process.start", "{\"sandboxId\":\"a\",\"cmd\":[\"ls\"],\"shell\":true}", "one string",
           NULL);
    accept("process.start", "{\"sandboxId\":\"a\",\"cmd\":[\"ls\"],\"shell\":false}");
}

static void command_has_a_first_word(void **state)
{
    refuse("process.start", "{\"sandboxId\":\"a\",\"cmd\":[]}", "empty", NULL);
    refuse("process.start", "{\"sandboxId\":\"a\",\"cmd\":[\"\"]}", "empty", NULL);
    accept("process.start", "{\"sandboxId\":\"a\",\"cmd\":[\"x\",\"\"]}");
    refuse("process.start", "{\"sandboxId\":\"a\",\"cmd\":[\"x\",1]}", "argv", NULL);
    accept("pty.open", "{\"sandboxId\":\"a\"}");
    refuse("pty.open", "{\"sandboxId\":\"a\",\"cmd\":[]}", "empty", NULL);
    refuse("fs.remove", "{\"sandboxId\":\"a\",\"path\":\"\"}", "empty", NULL);
    refuse("fs.rename", "{\"sandboxId\":\"a\",\"from\":\"x\",\"to\":\"\"}", "empty", NULL);
}

static void numbers_may_have_a_fraction(void **state)
{
    accept("sandbox.create", "{\"cpus\":0.5,\"memoryBytes\":1048576}");
    accept("sandbox.create", "{\"cpus\":2}");
    refuse("sandbox.create", "{\"cpus\":-0.5}", "number", NULL);
    refuse("sandbox.create", "{\"cpus\":\"2\"}", "number", NULL);
    refuse("sandbox.create", "{\"memoryBytes\":0.5}", "int", NULL);
}

static const char *sample(const char *name, abx_type type)
{
    switch (type) {
    case ABX_TYPE_STRING:
        return strcmp(name, "stdin") == 0          ? "\"stream\""
               : strcmp(name, "onDisconnect") == 0 ? "\"kill\""
                                                   : "\"x\"";
    case ABX_TYPE_BOOL: return "false";
    case ABX_TYPE_INT: return "1";
    case ABX_TYPE_ARGV: return "[\"x\"]";
    case ABX_TYPE_MAP: return "{\"A\":\"b\"}";
    case ABX_TYPE_BYTES: return "{\"text\":\"x\"}";
    case ABX_TYPE_LIST: return "[]";
    case ABX_TYPE_OBJECT: return "{}";
    case ABX_TYPE_NUMBER: return "0.5";
    }
    return NULL;
}

static void every_row_accepts_all_its_parameters(void **state)
{
    size_t n;
    const abx_op_field *f = abx_op_params(&n);
    for (int op = 0; op < ABX_OP_COUNT; op++) {
        ABX_AUTO_BUF text = ABX_BUF(10000);
        assert_int_equal(abx_buf_add_str(&text, "{"), 0);
        for (size_t i = 0; i < n; i++)
            if ((int)f[i].op == op)
                assert_int_equal(abx_buf_addf(&text, "%s\"%s\":%s", text.len > 1 ? "," : "",
                                              f[i].name, sample(f[i].name, f[i].type)),
                                 0);
        assert_int_equal(abx_buf_add_str(&text, "}"), 0);
        accept(abx_op_row_of((abx_op_id)op)->method, abx_buf_cstr(&text));
    }
}

static void every_required_parameter_is_missed(void **state)
{
    size_t n;
    const abx_op_field *f = abx_op_params(&n);
    for (size_t missing = 0; missing < n; missing++) {
        if (!f[missing].required)
            continue;
        ABX_AUTO_BUF text = ABX_BUF(10000);
        assert_int_equal(abx_buf_add_str(&text, "{"), 0);
        for (size_t i = 0; i < n; i++)
            if (f[i].op == f[missing].op && i != missing)
                assert_int_equal(abx_buf_addf(&text, "%s\"%s\":%s", text.len > 1 ? "," : "",
                                              f[i].name, sample(f[i].name, f[i].type)),
                                 0);
        assert_int_equal(abx_buf_add_str(&text, "}"), 0);
        refuse(abx_op_row_of(f[missing].op)->method, abx_buf_cstr(&text), f[missing].name, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_parameter_names_the_nearest),
        cmocka_unit_test(parameters_are_an_object),
        cmocka_unit_test(required_parameters_are_asked_for),
        cmocka_unit_test(too_many_entries_are_refused),
        cmocka_unit_test(a_name_that_is_there_twice_is_refused),
        cmocka_unit_test(a_value_that_nobody_knows_is_refused),
        cmocka_unit_test(null_is_an_absent_optional),
        cmocka_unit_test(each_type_is_checked),
        cmocka_unit_test(integers_have_no_sign_and_no_fraction),
        cmocka_unit_test(bytes_are_text_or_base64_alone),
        cmocka_unit_test(zero_bytes_are_refused),
        cmocka_unit_test(name_that_goes_on_behind_a_zero_byte_is_unknown),
        cmocka_unit_test(string_is_a_command_only_for_a_shell),
        cmocka_unit_test(command_has_a_first_word),
        cmocka_unit_test(numbers_may_have_a_fraction),
        cmocka_unit_test(every_row_accepts_all_its_parameters),
        cmocka_unit_test(every_required_parameter_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
