/* The tables of the command line agree with the help, the manual, the schema and the operations. */
#include "kit.h"

#include "base/json.h"
#include "base/text.h"
#include "doors/cli/help.h"
#include "doors/cli/man.h"
#include "doors/cli/schema.h"
#include "ops/ops.h"

static const abx_verb *verb(int i)
{
    return abx_verb_row((abx_verb_id)i);
}

static void each_name_and_alias_finds_its_verb(void **state)
{
    for (int i = 0; i < ABX_VERB_COUNT; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s", verb(i)->name);
        char *second = strchr(name, ' ');
        if (second)
            *second++ = 0;
        int words = 0;
        assert_ptr_equal(abx_verb_find(name, second, &words), verb(i));
        assert_int_equal(words, second ? 2 : 1);
    }
    int words;
    assert_null(abx_verb_find("nosuch", NULL, &words));
    assert_null(abx_verb_find("files", NULL, &words));
}

static void no_flag_is_there_twice(void **state)
{
    for (int v = 0; v < ABX_VERB_COUNT; v++) {
        for (int i = 0; i < ABX_FLAG_COUNT; i++) {
            const abx_flag *a = abx_flag_row((abx_flag_id)i);
            if (!abx_verb_has_flag(verb(v), a))
                continue;
            for (int j = i + 1; j < ABX_FLAG_COUNT; j++) {
                const abx_flag *b = abx_flag_row((abx_flag_id)j);
                if (!abx_verb_has_flag(verb(v), b))
                    continue;
                assert_string_not_equal(a->name, b->name);
                if (a->letter && a->letter == b->letter)
                    fail_msg("-%c of '%s' is --%s and --%s", a->letter, verb(v)->name, a->name,
                             b->name);
            }
        }
    }
}

static void flags_name_verbs_that_exist(void **state)
{
    for (int i = 0; i < ABX_FLAG_COUNT; i++) {
        const abx_flag *f = abx_flag_row((abx_flag_id)i);
        assert_true(f->text[0] != 0);
        char list[256];
        snprintf(list, sizeof list, "%s", f->verbs);
        for (char *word = strtok(list, ","); word && word[0] != '*'; word = strtok(NULL, ",")) {
            bool found = false;
            for (int v = 0; v < ABX_VERB_COUNT; v++)
                found |= strcmp(verb(v)->name, word) == 0;
            if (!found)
                fail_msg("--%s names the verb '%s'", f->name, word);
        }
    }
}

static void each_verb_has_an_example_that_begins_with_it(void **state)
{
    size_t n;
    const abx_verb_line *examples = abx_verb_examples(&n);
    for (int v = 0; v < ABX_VERB_COUNT; v++) {
        ABX_AUTO_FREE char *head = abx_format("abx %s", verb(v)->name);
        bool found = false;
        for (size_t i = 0; i < n; i++)
            found |= (int)examples[i].verb == v && strstr(examples[i].command, head);
        if (!found)
            fail_msg("'%s' has no example", verb(v)->name);
        assert_true(abx_has_prefix(verb(v)->usage, verb(v)->name));
    }
}

static void each_output_is_explained(void **state)
{
    size_t n, m;
    const abx_verb_output *outputs = abx_verb_outputs(&n);
    const abx_object_row *objects = abx_object_rows(&m);
    for (size_t i = 0; i < n; i++) {
        bool found = false;
        for (size_t k = 0; k < m; k++)
            found |= !objects[k].name && strcmp(objects[k].object, outputs[i].object) == 0;
        if (!found)
            fail_msg("no object '%s'", outputs[i].object);
    }
}

static void help_and_manual_hold_each_flag(void **state)
{
    for (int v = 0; v < ABX_VERB_COUNT; v++) {
        ABX_AUTO_BUF help = ABX_BUF(1 << 20), man = ABX_BUF(1 << 20);
        abx_help_verb(verb(v), &help);
        abx_man_verb(verb(v), &man);
        for (int i = 0; i < ABX_FLAG_COUNT; i++) {
            const abx_flag *f = abx_flag_row((abx_flag_id)i);
            ABX_AUTO_FREE char *plain = abx_format("--%s", f->name);
            bool shown = strstr(abx_buf_cstr(&help), plain) != NULL;
            if (abx_verb_has_flag(verb(v), f))
                assert_true(shown);
        }
        assert_non_null(strstr(abx_buf_cstr(&man), ".SH OPTIONS"));
        assert_non_null(strstr(abx_buf_cstr(&man), ".SH EXIT STATUS"));
        char *save = NULL;
        for (char *line = strtok_r((char *)help.data, "\n", &save); line;
             line = strtok_r(NULL, "\n", &save))
            if (strchr(line, ' ') && abx_utf8_columns(line) > ABX_HELP_WIDTH &&
                !strstr(line, "abx "))
                fail_msg("too wide: '%s'", line);
    }
}

static void the_short_help_is_short(void **state)
{
    ABX_AUTO_BUF out = ABX_BUF(1 << 20);
    abx_help_short(&out);
    int lines = 0;
    for (size_t i = 0; i < out.len; i++)
        lines += out.data[i] == '\n';
    assert_in_range(lines, 15, 22);
    for (int v = 0; v < ABX_VERB_COUNT; v++) {
        char first[64];
        snprintf(first, sizeof first, "%s", verb(v)->name);
        first[strcspn(first, " ")] = 0;
        assert_non_null(strstr(abx_buf_cstr(&out), first));
    }
}

static void the_schema_has_each_verb_and_flag(void **state)
{
    ABX_AUTO_MUT built = abx_schema();
    ABX_AUTO_JSON d = abx_json_freeze(built);
    yyjson_val *root = yyjson_doc_get_root(d);
    yyjson_val *list = abx_json_get(root, "verbs");
    assert_int_equal(yyjson_arr_size(list), ABX_VERB_COUNT);
    for (int v = 0; v < ABX_VERB_COUNT; v++) {
        yyjson_val *o = yyjson_arr_get(list, (size_t)v);
        assert_string_equal(abx_json_str(o, "name", ""), verb(v)->name);
        size_t want = 0;
        for (int i = 0; i < ABX_FLAG_COUNT; i++)
            want += abx_verb_has_flag(verb(v), abx_flag_row((abx_flag_id)i)) &&
                    !abx_flag_is_global(abx_flag_row((abx_flag_id)i));
        assert_int_equal(yyjson_arr_size(abx_json_get(o, "flags")), want);
        yyjson_val *codes =
            abx_json_get(abx_json_get(root, "exitCodes"), abx_json_str(o, "exitCodes", ""));
        assert_true(yyjson_arr_size(codes) > 0);
        yyjson_val *output = abx_json_get(o, "output");
        if (output)
            assert_non_null(
                abx_json_get(abx_json_get(root, "objects"), abx_json_str(output, "object", "")));
    }
}

static void each_operation_is_reached_by_verbs_that_exist(void **state)
{
    for (int i = 0; i < ABX_OP_COUNT; i++) {
        char list[128];
        snprintf(list, sizeof list, "%s", abx_op_row_of((abx_op_id)i)->cli);
        int count = 0;
        for (char *word = strtok(list, " "); word; word = strtok(NULL, " "), count++) {
            int words;
            if (!abx_is_verb_group(word) && !abx_verb_find(word, NULL, &words))
                fail_msg("operation %s names the verb '%s'", abx_op_row_of((abx_op_id)i)->method,
                         word);
        }
        assert_true(count > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_name_and_alias_finds_its_verb),
        cmocka_unit_test(no_flag_is_there_twice),
        cmocka_unit_test(flags_name_verbs_that_exist),
        cmocka_unit_test(each_verb_has_an_example_that_begins_with_it),
        cmocka_unit_test(each_output_is_explained),
        cmocka_unit_test(help_and_manual_hold_each_flag),
        cmocka_unit_test(the_short_help_is_short),
        cmocka_unit_test(the_schema_has_each_verb_and_flag),
        cmocka_unit_test(each_operation_is_reached_by_verbs_that_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
