/* The command line: which word is what, and what is refused. */
#include "kit.h"

#include "base/clock.h"
#include "doors/cli/args.h"

#define LINE(...) ((char *[]){(char[]){"abx"}, __VA_ARGS__, NULL})

typedef struct parsed {
    abx_args args;
    abx_error *err;
    int rc;
} parsed;

static parsed parse(const char *const *line)
{
    parsed p = {.err = NULL};
    int argc = 0;
    while (line[argc])
        argc++;
    /* argv of main is not const either; nothing writes to it. */
    p.rc = abx_args_parse(argc, (char **)(uintptr_t)line, &p.args, &p.err);
    return p;
}

static void clear(parsed *p)
{
    abx_args_clear(&p->args);
    abx_error_free(p->err);
    p->err = NULL;
}

#define PARSE(...) parse((const char *const[]){"abx", __VA_ARGS__, NULL})

static void assert_command(const parsed *p, const char *const *want)
{
    size_t n = 0;
    for (; want[n]; n++) {
        assert_true(n < p->args.command_count);
        assert_string_equal(p->args.command[n], want[n]);
    }
    assert_int_equal(p->args.command_count, n);
    assert_null(p->args.command[n]);
}

#define assert_command_is(p, ...) assert_command(p, (const char *const[]){__VA_ARGS__, NULL})

static void the_first_word_begins_the_command_of_run(void **state)
{
    parsed p = PARSE("run", "-e", "A=1", "ls", "-l", "--json", "--");
    assert_int_equal(p.rc, 0);
    assert_command_is(&p, "ls", "-l", "--json", "--");
    assert_false(abx_has_flag(&p.args, ABX_FLAG_JSON));
    clear(&p);
}

static void two_dashes_begin_it_too_and_are_not_part_of_it(void **state)
{
    parsed p = PARSE("run", "--keep", "--", "--", "-x");
    assert_int_equal(p.rc, 0);
    assert_command_is(&p, "--", "-x");
    assert_true(abx_has_flag(&p.args, ABX_FLAG_KEEP));
    clear(&p);
}

static void flags_stand_before_and_after_the_sandbox(void **state)
{
    parsed p = PARSE("-q", "exec", "-i", "box", "-t", "-w", "/tmp", "cmd", "-t", "-q");
    assert_int_equal(p.rc, 0);
    assert_int_equal(p.args.word_count, 1);
    assert_string_equal(p.args.words[0], "box");
    assert_true(abx_has_flag(&p.args, ABX_FLAG_TTY));
    assert_true(abx_has_flag(&p.args, ABX_FLAG_INTERACTIVE));
    assert_true(abx_has_flag(&p.args, ABX_FLAG_QUIET));
    assert_string_equal(abx_flag_value(&p.args, ABX_FLAG_WORKDIR, ""), "/tmp");
    assert_command_is(&p, "cmd", "-t", "-q");
    clear(&p);
}

static void arguments_are_not_touched(void **state)
{
    parsed p =
        PARSE("exec", "box", "--", "a b", "", "'q' \"d\"", "new\nline", "$HOME", "*", "\xff\xfe");
    assert_int_equal(p.rc, 0);
    assert_command_is(&p, "a b", "", "'q' \"d\"", "new\nline", "$HOME", "*", "\xff\xfe");
    clear(&p);
}

static void an_empty_word_is_no_command(void **state)
{
    static const char *const lines[][6] = {
        {"abx", "run", ""}, {"abx", "run", "--", ""}, {"abx", "exec", "box", "", "x"}};
    for (size_t i = 0; i < ABX_COUNT(lines); i++) {
        parsed p = parse(lines[i]);
        assert_int_equal(p.rc, -1);
        assert_int_equal(p.err->id, ABX_ERR_USAGE);
        assert_non_null(strstr(p.err->message, "an empty word"));
        clear(&p);
    }
    parsed p = PARSE("run", "x", "");
    assert_int_equal(p.rc, 0);
    assert_command_is(&p, "x", "");
    clear(&p);
}

static void short_flags_go_together_and_carry_values(void **state)
{
    parsed p = PARSE("exec", "-itu", "root", "box", "x");
    assert_int_equal(p.rc, 0);
    assert_true(abx_has_flag(&p.args, ABX_FLAG_TTY));
    assert_string_equal(abx_flag_value(&p.args, ABX_FLAG_USER, ""), "root");
    clear(&p);
    p = PARSE("exec", "-uroot", "-w=/a=b", "box", "x");
    assert_int_equal(p.rc, 0);
    assert_string_equal(abx_flag_value(&p.args, ABX_FLAG_USER, ""), "root");
    assert_string_equal(abx_flag_value(&p.args, ABX_FLAG_WORKDIR, ""), "/a=b");
    clear(&p);
}

static void the_last_one_wins(void **state)
{
    parsed p = PARSE("run", "--workdir=/a", "--cwd", "/b", "-t", "-T", "-n", "-i", "--keep",
                     "--no-keep", "-o", "name", "--json", "x");
    assert_int_equal(p.rc, 0);
    assert_string_equal(abx_flag_value(&p.args, ABX_FLAG_WORKDIR, ""), "/b");
    assert_false(abx_has_flag(&p.args, ABX_FLAG_TTY));
    assert_true(abx_has_flag(&p.args, ABX_FLAG_NO_TTY));
    assert_true(abx_has_flag(&p.args, ABX_FLAG_INTERACTIVE));
    assert_false(abx_has_flag(&p.args, ABX_FLAG_NO_STDIN));
    assert_false(abx_has_flag(&p.args, ABX_FLAG_KEEP));
    assert_string_equal(abx_flag_value(&p.args, ABX_FLAG_OUTPUT, ""), "json");
    clear(&p);
}

static void repeated_ones_keep_their_order(void **state)
{
    parsed p =
        PARSE("run", "-e", "A=1", "--label", "k=v", "-eA=2", "--metadata=x=", "-e", "HOME", "x");
    assert_int_equal(p.rc, 0);
    assert_int_equal(p.args.item_count, 5);
    assert_string_equal(p.args.items[0].value, "A=1");
    assert_string_equal(p.args.items[2].value, "A=2");
    assert_string_equal(p.args.items[3].value, "x=");
    assert_int_equal(p.args.items[3].flag, ABX_FLAG_LABEL);
    assert_string_equal(p.args.items[4].value, "HOME");
    clear(&p);
}

static void durations_and_numbers(void **state)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {{"500ms", 500},     {"30s", 30000},        {"90", 90000},    {"1h30m", 5400000},
                {"0", ABX_FOREVER}, {"none", ABX_FOREVER}, {"2d", 172800000}};
    for (size_t i = 0; i < ABX_COUNT(good); i++) {
        parsed p = PARSE("create", "--timeout", good[i].text);
        assert_int_equal(p.rc, 0);
        assert_true(abx_flag_number(&p.args, ABX_FLAG_TIMEOUT, 1) == good[i].ms);
        clear(&p);
    }
    static const char *const bad[] = {"", "x", "5y", "-5", "1.5h", "5 m", "99999999999999999999"};
    for (size_t i = 0; i < ABX_COUNT(bad); i++) {
        parsed p = PARSE("create", "--timeout", bad[i]);
        assert_int_equal(p.rc, -1);
        assert_int_equal(p.err->id, ABX_ERR_USAGE);
        clear(&p);
    }
    parsed p = PARSE("ls", "--limit", "-1");
    assert_int_equal(p.rc, -1);
    clear(&p);
}

static void verbs_of_two_words_and_aliases(void **state)
{
    parsed p = PARSE("files", "--json", "read", "box:/x");
    assert_int_equal(p.rc, 0);
    assert_int_equal(p.args.verb->id, ABX_VERB_FILES_CAT);
    clear(&p);
    p = PARSE("ps");
    assert_int_equal(p.args.verb->id, ABX_VERB_LS);
    clear(&p);
    p = PARSE("read"); /* an alias only inside its group */
    assert_int_equal(p.rc, -1);
    clear(&p);
    p = PARSE("files", "--help");
    assert_int_equal(p.rc, 0);
    assert_string_equal(p.args.group, "files");
    clear(&p);
}

static void help_needs_no_other_words(void **state)
{
    parsed p = PARSE("exec", "--help");
    assert_int_equal(p.rc, 0);
    assert_true(abx_has_flag(&p.args, ABX_FLAG_HELP));
    clear(&p);
    p = PARSE("run", "x", "--help");
    assert_int_equal(p.rc, 0);
    assert_false(abx_has_flag(&p.args, ABX_FLAG_HELP));
    clear(&p);
}

static void nothing_is_no_error(void **state)
{
    parsed p = parse((const char *const[]){"abx", NULL});
    assert_int_equal(p.rc, 0);
    assert_null(p.args.verb);
    clear(&p);
}

static void wrong_lines_name_what_is_near(void **state)
{
    static const struct {
        const char *words[4];
        const char *hint;
    } lines[] = {
        {{"rnu"}, "'abx run'"},
        {{"crate"}, "'abx create'"},
        {{"stop", "box"}, "'abx kill'"},
        {{"start", "box"}, "'abx create'"},
        {{"pull", "x"}, "'abx create'"},
        {{"images"}, "'abx ls'"},
        {{"cat", "x"}, "'abx files cat'"},
        {{"files", "lss"}, "'abx files ls'"},
        {{"config", "gett", "x"}, "'abx config get'"},
        {{"create", "--nmae", "x"}, "'--name'"},
        {{"ls", "--jsno"}, "'--json'"},
        {{"--name", "x", "create"}, "behind the verb"},
        {{"create", "-o", "xml"}, "table|wide|json|jsonl|name"},
        {{"exec", "--", "x"}, "usage: abx exec"},
        {{"cp", "a"}, "usage: abx cp"},
        {{"create", "extra"}, "usage: abx create"},
        {{"run"}, "usage: abx run"},
        {{"create", "--name"}, "usage: abx create"},
    };
    for (size_t i = 0; i < ABX_COUNT(lines); i++) {
        const char *line[6] = {"abx"};
        memcpy(line + 1, lines[i].words, sizeof lines[i].words);
        parsed p = parse(line);
        assert_int_equal(p.rc, -1);
        assert_int_equal(p.err->id, ABX_ERR_USAGE);
        assert_non_null(abx_error_hint(p.err));
        if (!strstr(abx_error_hint(p.err), lines[i].hint))
            fail_msg("'%s' has no '%s'", abx_error_hint(p.err), lines[i].hint);
        clear(&p);
    }
}

static void what_a_flag_does_not_take(void **state)
{
    static const char *const lines[][4] = {
        {"run", "--keep=maybe", "x"}, {"run", "-l", "novalue", "x"}, {"run", "-l", "=v", "x"},
        {"run", "-e", "=v", "x"},     {"run", "-e", "", "x"},        {"create", "--keep", NULL},
        {"ls", "-f", NULL},           {"ls", "--no-provider", NULL}, {"ls", "--no-json", NULL},
    };
    for (size_t i = 0; i < ABX_COUNT(lines); i++) {
        const char *line[6] = {"abx"};
        memcpy(line + 1, lines[i], sizeof lines[i]);
        parsed p = parse(line);
        assert_int_equal(p.rc, -1);
        clear(&p);
    }
    parsed p = PARSE("run", "--keep=false", "x");
    assert_int_equal(p.rc, 0);
    assert_false(abx_has_flag(&p.args, ABX_FLAG_KEEP));
    clear(&p);
}

static void json_errors_are_known_before_the_line_is(void **state)
{
    assert_true(abx_args_want_json(3, LINE((char[]){"rnu"}, (char[]){"--json"})));
    assert_true(abx_args_want_json(4, LINE((char[]){"rnu"}, (char[]){"-o"}, (char[]){"json"})));
    assert_false(abx_args_want_json(4, LINE((char[]){"rnu"}, (char[]){"--"}, (char[]){"--json"})));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_word_begins_the_command_of_run),
        cmocka_unit_test(two_dashes_begin_it_too_and_are_not_part_of_it),
        cmocka_unit_test(flags_stand_before_and_after_the_sandbox),
        cmocka_unit_test(arguments_are_not_touched),
        cmocka_unit_test(an_empty_word_is_no_command),
        cmocka_unit_test(short_flags_go_together_and_carry_values),
        cmocka_unit_test(the_last_one_wins),
        cmocka_unit_test(repeated_ones_keep_their_order),
        cmocka_unit_test(durations_and_numbers),
        cmocka_unit_test(verbs_of_two_words_and_aliases),
        cmocka_unit_test(help_needs_no_other_words),
        cmocka_unit_test(nothing_is_no_error),
        cmocka_unit_test(wrong_lines_name_what_is_near),
        cmocka_unit_test(what_a_flag_does_not_take),
        cmocka_unit_test(json_errors_are_known_before_the_line_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
