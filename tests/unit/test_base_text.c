/* Questions about text. */
#include "kit.h"

#include "base/text.h"

static const struct {
    const char *bytes;
    bool valid;
} utf8[] = {
    {"", true},
    {"plain", true},
    {"\xc2\x80", true},
    {"\xdf\xbf", true},
    {"\xe0\xa0\x80", true},
    {"\xed\x9f\xbf", true},
    {"\xee\x80\x80", true},
    {"\xef\xbf\xbf", true},
    {"\xf0\x90\x80\x80", true},
    {"\xf4\x8f\xbf\xbf", true},
    {"a\xe4\xb8\xad z", true},
    {"\x80", false}, /* continuation alone */
    {"\xbf", false},
    {"\xc0\x80", false}, /* overlong */
    {"\xc1\xbf", false},
    {"\xe0\x80\x80", false},
    {"\xe0\x9f\xbf", false},
    {"\xf0\x80\x80\x80", false},
    {"\xf0\x8f\xbf\xbf", false},
    {"\xed\xa0\x80", false}, /* surrogates */
    {"\xed\xbf\xbf", false},
    {"\xf4\x90\x80\x80", false}, /* behind U+10FFFF */
    {"\xf5\x80\x80\x80", false},
    {"\xf8\x88\x80\x80\x80", false},
    {"\xfe", false},
    {"\xff", false},
    {"\xc3(", false},
    {"\xe2\x28\xa1", false},
    {"\xe2\x82(", false},
    {"\xf0\x90\x80(", false},
};

static void well_formed_utf8_is_told_from_broken(void **state)
{
    for (size_t i = 0; i < ABX_COUNT(utf8); i++)
        if (abx_utf8_valid(utf8[i].bytes, strlen(utf8[i].bytes)) != utf8[i].valid)
            fail_msg("row %zu", i);
    assert_true(abx_utf8_valid("a\0b", 3));
}

/* Length of the form that this lead byte promises. */
static size_t promised(uint8_t c)
{
    return c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
}

static void each_truncation_of_a_text_ends_before_the_cut_character(void **state)
{
    static const char text[] =
        "a\xc3\xa4\xe4\xb8\xad\xf0\x9f\x98\x80z\xf4\x8f\xbf\xbf\xed\x9f\xbf!";
    size_t total = strlen(text), start = 0;
    assert_true(abx_utf8_valid(text, total));
    for (size_t n = 0; n <= total; n++) {
        while (start < total && start + promised((uint8_t)text[start]) <= n)
            start += promised((uint8_t)text[start]);
        assert_int_equal(abx_utf8_whole(text, n), start);
        assert_true(abx_utf8_valid(text, abx_utf8_whole(text, n)));
    }
}

static void every_code_point_is_valid_and_its_truncations_are_held_back(void **state)
{
    for (uint32_t c = 0x80; c <= 0x10ffff; c++) {
        if (c >= 0xd800 && c <= 0xdfff)
            continue;
        uint8_t b[4];
        size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        for (size_t i = n; i-- > 1;)
            b[i] = (uint8_t)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3f));
        b[0] = (uint8_t)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c >> (6 * (n - 1)));
        if (!abx_utf8_valid(b, n) || abx_utf8_whole(b, n) != n)
            fail_msg("U+%04X", c);
        for (size_t cut = 1; cut < n; cut++)
            if (abx_utf8_whole(b, cut) != 0 || abx_utf8_valid(b, cut))
                fail_msg("U+%04X cut at %zu", c, cut);
    }
}

static void broken_text_is_not_held_back(void **state)
{
    assert_int_equal(abx_utf8_whole("ab\x80", 3), 3);
    assert_int_equal(abx_utf8_whole("ab\xff", 3), 3);
    assert_int_equal(abx_utf8_whole("\x80\x80\x80\x80", 4), 4);
    assert_int_equal(abx_utf8_whole("a\xed\xa0", 3), 3); /* can only become a surrogate */
    assert_int_equal(abx_utf8_whole("a\xe0\x80", 3), 3); /* overlong */
    assert_int_equal(abx_utf8_whole("\xc3\xa4\xa4", 3), 3);
}

static void columns_count_what_a_terminal_shows(void **state)
{
    assert_int_equal(abx_utf8_columns(""), 0);
    assert_int_equal(abx_utf8_columns("abc"), 3);
    assert_int_equal(abx_utf8_columns("\xc3\xa4"), 1);
    assert_int_equal(abx_utf8_columns("a\xcc\x88"), 1);    /* combining */
    assert_int_equal(abx_utf8_columns("\xe4\xb8\xad"), 2); /* wide */
    assert_int_equal(abx_utf8_columns("\xf0\x9f\x98\x80"), 2);
    assert_int_equal(abx_utf8_columns("\xff\xc3"), 2); /* broken: one each */
}

static void printable_shows_what_would_move_the_cursor(void **state)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"plain \xc3\xa4 \xe4\xb8\xad", "plain \xc3\xa4 \xe4\xb8\xad"},
        {"a\nb\tc\rd", "a\\nb\\tc\\rd"},
        {"\x1b[31m", "\\x1b[31m"},
        {"\x7f\x01", "\\x7f\\x01"},
        {"\xc2\x9b", "\\xc2\\x9b"},
        {"\xc2\xa0", "\xc2\xa0"},
        {"\xff\xc3", "\\xff\\xc3"},
        {"\xe4\xb8", "\\xe4\\xb8"},
        {"a\xe2\x80\xae"
         "b",
         "a\\u202eb"},
        {"\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f", "\\u061c\\u200e\\u200f"},
        {"\xe2\x80\xaa\xe2\x81\xa6\xe2\x81\xa9", "\\u202a\\u2066\\u2069"},
        {"\xe2\x80\x8d\xe2\x80\xaf\xe2\x81\xaa", "\xe2\x80\x8d\xe2\x80\xaf\xe2\x81\xaa"},
        {"", ""},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        ABX_AUTO_FREE char *shown = abx_printable(rows[i].in);
        assert_string_equal(shown, rows[i].out);
    }
}

static void nearest_finds_slips_of_the_finger(void **state)
{
    static const char *const words[] = {"create", "exec", "files", "info", "kill", "ls", "local"};
    const struct {
        const char *word, *near;
    } rows[] = {
        {"create", "create"}, {"craete", "create"}, {"creat", "create"}, {"creates", "create"},
        {"exce", "exec"},     {"flies", "files"},   {"lcoal", "local"},  {"kil", "kill"},
        {"l", "ls"},          {"banana", NULL},     {"xxxx", NULL},      {"", NULL},
        {"destroy", NULL},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        const char *near = abx_nearest(rows[i].word, words, ABX_COUNT(words));
        if (rows[i].near ? !near || strcmp(near, rows[i].near) != 0 : near != NULL)
            fail_msg("'%s' gives '%s'", rows[i].word, near ? near : "nothing");
    }
    assert_null(abx_nearest("x", words, 0));
}

static void nearest_takes_words_of_any_length(void **state)
{
    char a[200], b[64];
    memset(a, 'x', sizeof a);
    a[199] = 0;
    memset(b, 'x', sizeof b);
    b[63] = 0;
    const char *const words[] = {b, a};
    assert_null(abx_nearest(a, words, 1));
    assert_ptr_equal(abx_nearest(b, words, 2), b);
    b[62] = 0;
    assert_ptr_equal(abx_nearest(b, words, 1), b);
}

static void sizes_are_binary(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"1048576", 1048576},
        {"1k", 1024},
        {"1K", 1024},
        {"512m", 512 << 20},
        {"2g", 2ULL << 30},
        {"64KiB", 64 << 10},
        {"64kb", 64 << 10},
        {"1.5g", 3ULL << 29},
        {"0.5k", 512},
        {"1t", 1ULL << 40},
        {"3MiB", 3 << 20},
    };
    for (size_t i = 0; i < ABX_COUNT(good); i++) {
        uint64_t bytes = 1;
        if (abx_parse_size(good[i].text, &bytes) < 0 || bytes != good[i].bytes)
            fail_msg("'%s' gives %llu", good[i].text, (unsigned long long)bytes);
    }
    static const char *const bad[] = {
        "",
        "k",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1 k",
        "1x",
        "1kk",
        "1kibi",
        "1.",
        "1.k",
        ".5k",
        "0x10",
        "1e3",
        "1e3k",
        "1.5e3k",
        "inf",
        "nan",
        "9999999999999999",
        "999999999999999t",
        "1,5k",
        "1k ",
    };
    for (size_t i = 0; i < ABX_COUNT(bad); i++) {
        uint64_t bytes = 77;
        if (abx_parse_size(bad[i], &bytes) == 0 || bytes != 77)
            fail_msg("'%s' is taken as %llu", bad[i], (unsigned long long)bytes);
    }
}

static void sizes_are_shown_for_people(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.0 KiB"},
        {1536, "1.5 KiB"},
        {100 << 10, "100 KiB"},
        {(1 << 20) - 1, "1.0 MiB"},
        {3ULL << 29, "1.5 GiB"},
        {UINT64_MAX, "16384 PiB"},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        char out[32];
        abx_format_size(rows[i].bytes, out);
        assert_string_equal(out, rows[i].text);
    }
}

static void uints_are_digits_within_a_limit(void **state)
{
    uint64_t v = 7;
    assert_int_equal(abx_parse_uint("0", 10, &v), 0);
    assert_int_equal(v, 0);
    assert_int_equal(abx_parse_uint("18446744073709551615", UINT64_MAX, &v), 0);
    assert_true(v == UINT64_MAX);
    assert_int_equal(abx_parse_uint("0010", 10, &v), 0);
    assert_int_equal(v, 10);
    static const char *const bad[] = {"",
                                      "11",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1x",
                                      "x",
                                      "18446744073709551616",
                                      "99999999999999999999999"};
    for (size_t i = 0; i < ABX_COUNT(bad); i++)
        assert_int_equal(abx_parse_uint(bad[i], 10, &v), -1);
    assert_int_equal(v, 10);
}

static void names_of_sandboxes(void **state)
{
    char name[80];
    memset(name, 'a', sizeof name);
    name[63] = 0;
    assert_true(abx_is_name(name));
    name[63] = 'a';
    name[64] = 0;
    assert_false(abx_is_name(name));
    static const char *const good[] = {"a", "0", "my-box", "a-", "x--y", "2026"};
    static const char *const bad[] = {"", "-a", "A", "a_b", "a.b", "a b", "a/b", "\xc3\xa4", "a\n"};
    for (size_t i = 0; i < ABX_COUNT(good); i++)
        assert_true(abx_is_name(good[i]));
    for (size_t i = 0; i < ABX_COUNT(bad); i++)
        assert_false(abx_is_name(bad[i]));
}

static void prefixes_and_suffixes(void **state)
{
    assert_true(abx_has_prefix("abc", ""));
    assert_true(abx_has_prefix("abc", "abc"));
    assert_false(abx_has_prefix("ab", "abc"));
    assert_true(abx_has_suffix("abc", ""));
    assert_true(abx_has_suffix("abc", "bc"));
    assert_false(abx_has_suffix("c", "bc"));
    assert_false(abx_str_eq(NULL, NULL));
    assert_false(abx_str_eq("a", NULL));
    assert_true(abx_str_eq("a", "a"));
}

static void thousandths_are_read(void **state)
{
    uint64_t n = 77;
    static const struct {
        const char *text;
        uint64_t millis;
    } good[] = {{"0", 0},       {"2", 2000},   {"0.5", 500},
                {"1.25", 1250}, {"0.0019", 1}, {"12.3456", 12345}};
    for (size_t i = 0; i < ABX_COUNT(good); i++) {
        assert_int_equal(abx_parse_millis(good[i].text, 100000, &n), 0);
        assert_int_equal(n, good[i].millis);
    }
    static const char *const bad[] = {"",   ".5",  "1.",    "-1",  "1e3",          " 1",
                                      "1 ", "0x1", "1.5.5", "101", "9999999999999"};
    for (size_t i = 0; i < ABX_COUNT(bad); i++)
        assert_int_equal(abx_parse_millis(bad[i], 100000, &n), -1);
    assert_int_equal(n, 12345);
}

/* Eight bytes at a time or one by one: the same. */
static void plain_runs_end_at_the_first_other_byte(void **state)
{
    (void)state;
    static const char others[] = "\"\\\n\x1f";
    for (size_t n = 0; n < 40; n++) {
        for (size_t at = 0; at <= n; at++) {
            char text[40];
            for (size_t i = 0; i < n; i++)
                text[i] = (char)(i % 3 ? 'a' : 0xc3);  /* not ASCII is plain */
            for (size_t k = 0; at < n && k < 5; k++) { /* the last one is the NUL */
                text[at] = others[k];
                assert_int_equal(abx_json_plain(text, n), at);
            }
            if (at == n)
                assert_int_equal(abx_json_plain(text, n), n);
        }
    }
    for (size_t n = 0; n < 40; n++) {
        char text[40];
        memset(text, 'a', sizeof text);
        assert_true(abx_utf8_valid(text, n));
        for (size_t at = 0; at < n; at++) {
            text[at] = (char)0x80;
            assert_false(abx_utf8_valid(text, n));
            text[at] = 'a';
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_runs_end_at_the_first_other_byte),
        cmocka_unit_test(well_formed_utf8_is_told_from_broken),
        cmocka_unit_test(each_truncation_of_a_text_ends_before_the_cut_character),
        cmocka_unit_test(every_code_point_is_valid_and_its_truncations_are_held_back),
        cmocka_unit_test(broken_text_is_not_held_back),
        cmocka_unit_test(columns_count_what_a_terminal_shows),
        cmocka_unit_test(printable_shows_what_would_move_the_cursor),
        cmocka_unit_test(nearest_finds_slips_of_the_finger),
        cmocka_unit_test(nearest_takes_words_of_any_length),
        cmocka_unit_test(sizes_are_binary),
        cmocka_unit_test(sizes_are_shown_for_people),
        cmocka_unit_test(uints_are_digits_within_a_limit),
        cmocka_unit_test(names_of_sandboxes),
        cmocka_unit_test(prefixes_and_suffixes),
        cmocka_unit_test(thousandths_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
