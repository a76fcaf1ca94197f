/* The table of operations: nothing forgotten, nothing twice. */
#include "kit.h"

#include "ops/ops.h"

static void methods_are_unique_and_well_formed(void **state)
{
    for (int i = 0; i < ABX_OP_COUNT; i++) {
        const abx_op_row *a = abx_op_row_of((abx_op_id)i);
        assert_int_equal(a->id, i);
        const char *dot = strchr(a->method, '.');
        assert_non_null(dot);
        assert_null(strchr(dot + 1, '.'));
        assert_int_equal(strspn(a->method, "abcdefghijklmnopqrstuvwxyz_."), strlen(a->method));
        for (int j = i + 1; j < ABX_OP_COUNT; j++)
            assert_string_not_equal(a->method, abx_op_row_of((abx_op_id)j)->method);
    }
}

static void methods_are_found(void **state)
{
    for (int i = 0; i < ABX_OP_COUNT; i++) {
        const abx_op_row *row = abx_op_row_of((abx_op_id)i);
        assert_ptr_equal(abx_op_find(row->method), row);
    }
    assert_null(abx_op_find("sandbox.nothing"));
    assert_null(abx_op_find(""));
}

static void routes_are_unique(void **state)
{
    for (int i = 0; i < ABX_OP_COUNT; i++) {
        const abx_op_row *a = abx_op_row_of((abx_op_id)i);
        assert_int_equal(a->http[0] == 0, a->route[0] == 0);
        if (!a->route[0])
            continue;
        assert_int_equal(strncmp(a->route, "/v1/", 4), 0);
        for (int j = i + 1; j < ABX_OP_COUNT; j++) {
            const abx_op_row *b = abx_op_row_of((abx_op_id)j);
            if (strcmp(a->http, b->http) == 0)
                assert_string_not_equal(a->route, b->route);
        }
    }
}

static void each_row_has_summary_verbs_and_feature(void **state)
{
    for (int i = 0; i < ABX_OP_COUNT; i++) {
        const abx_op_row *row = abx_op_row_of((abx_op_id)i);
        size_t n = strlen(row->summary);
        assert_true(n > 5 && n < 100);
        assert_true(row->summary[0] >= 'A' && row->summary[0] <= 'Z');
        assert_int_not_equal(row->summary[n - 1], '.');
        assert_true(strlen(row->cli) > 0);
        assert_true(strlen(abx_feature_name(row->feature)) > 0);
        assert_true(strlen(abx_style_name(row->style)) > 0);
    }
}

static void features_are_unique_explained_and_used(void **state)
{
    for (int i = 0; i < ABX_FEATURE_COUNT; i++) {
        bool used = i == ABX_FEATURE_FILESYSTEM_RANGE; /* of parameters */
        assert_true(strlen(abx_feature_text((abx_feature)i)) > 0);
        for (int j = i + 1; j < ABX_FEATURE_COUNT; j++)
            assert_string_not_equal(abx_feature_name((abx_feature)i),
                                    abx_feature_name((abx_feature)j));
        for (int op = 0; op < ABX_OP_COUNT; op++)
            used = used || abx_op_row_of((abx_op_id)op)->feature == (abx_feature)i;
        assert_true(used);
    }
}

typedef const abx_op_field *reader(size_t *count);

static void check_fields(reader *read)
{
    size_t n;
    const abx_op_field *f = read(&n);
    for (size_t i = 0; i < n; i++) {
        assert_in_range(f[i].op, 0, ABX_OP_COUNT - 1);
        assert_true(strlen(f[i].name) > 0);
        assert_true(strlen(f[i].text) > 0);
        assert_true(strlen(abx_type_name(f[i].type)) > 0);
        if (i > 0)
            assert_true(f[i].op >= f[i - 1].op); /* the rows of one operation are together */
        for (size_t j = i + 1; j < n; j++)
            if (f[j].op == f[i].op)
                assert_string_not_equal(f[j].name, f[i].name);
    }
}

static void fields_are_unique_explained_and_together(void **state)
{
    check_fields(abx_op_params);
    check_fields(abx_op_results);
    check_fields(abx_op_events);
}

static bool has_field(reader *read, abx_op_id op, const char *name)
{
    size_t n;
    const abx_op_field *f = read(&n);
    for (size_t i = 0; i < n; i++)
        if (f[i].op == op && (!name || strcmp(f[i].name, name) == 0))
            return true;
    return false;
}

static void every_route_with_an_id_takes_a_sandbox(void **state)
{
    for (int i = 0; i < ABX_OP_COUNT; i++) {
        const abx_op_row *row = abx_op_row_of((abx_op_id)i);
        if (strstr(row->route, "/sandboxes/:id"))
            assert_true(has_field(abx_op_params, row->id, "sandboxId"));
        if (strstr(row->route, "/:process"))
            assert_true(has_field(abx_op_params, row->id, "processId"));
    }
}

static void streams_have_events_and_others_have_none(void **state)
{
    for (int i = 0; i < ABX_OP_COUNT; i++) {
        const abx_op_row *row = abx_op_row_of((abx_op_id)i);
        if (row->style == ABX_STYLE_STREAM || row->style == ABX_STYLE_DUPLEX)
            assert_true(has_field(abx_op_events, row->id, NULL));
        else if (row->style == ABX_STYLE_BODY_OUT)
            assert_true(has_field(abx_op_events, row->id, "body"));
        else
            assert_false(has_field(abx_op_events, row->id, NULL));
    }
}

static void operations_of_the_design_are_there(void **state)
{
    static const char *const methods[] = {
        "sandbox.create",  "sandbox.info",   "sandbox.kill",
        "sandbox.connect", "sandbox.list",   "sandbox.set_timeout",
        "process.start",   "process.attach", "process.signal",
        "process.list",    "process.stdin",  "process.close_stdin",
        "fs.read",         "fs.write",       "fs.stat",
        "fs.list",         "fs.make_dir",    "fs.rename",
        "fs.remove",       "fs.watch",       "pty.open",
        "pty.write",       "pty.resize",     "pty.close",
    };
    for (size_t i = 0; i < ABX_COUNT(methods); i++)
        if (!abx_op_find(methods[i]))
            fail_msg("no row for %s", methods[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(methods_are_unique_and_well_formed),
        cmocka_unit_test(methods_are_found),
        cmocka_unit_test(routes_are_unique),
        cmocka_unit_test(each_row_has_summary_verbs_and_feature),
        cmocka_unit_test(features_are_unique_explained_and_used),
        cmocka_unit_test(fields_are_unique_explained_and_together),
        cmocka_unit_test(every_route_with_an_id_takes_a_sandbox),
        cmocka_unit_test(streams_have_events_and_others_have_none),
        cmocka_unit_test(operations_of_the_design_are_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
