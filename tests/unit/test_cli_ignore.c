/* Patterns of .abxignore, row by row, as git reads them. */
#include "kit.h"

#include "doors/cli/ignore.h"

typedef struct row {
    const char *patterns; /* lines */
    const char *path;     /* with a slash at the end: a folder */
    bool ignored;
} row;

static const row rows[] = {
    {"*.o", "a.o", true},
    {"*.o", "d/e/a.o", true},
    {"*.o", "a.oo", false},
    {"# *.o\n\n   \n", "a.o", false},
    {"\\#x", "#x", true},
    {"\\!x", "!x", true},
    {"x  ", "x", true},
    {"x\\ ", "x ", true},
    {"x\r\ny\r", "y", true},
    {"build/", "build/", true},
    {"build/", "build", false},
    {"build/", "a/build/", true},
    {"/build", "build", true},
    {"/build", "a/build", false},
    {"a/b", "a/b", true},
    {"a/b", "x/a/b", false},
    {"a/b/", "a/b/", true},
    {"doc/*.txt", "doc/a.txt", true},
    {"doc/*.txt", "doc/x/a.txt", false},
    {"**/a", "a", true},
    {"**/a", "x/y/a", true},
    {"a/**", "a/x", true},
    {"a/**", "a/x/y", true},
    {"a/**", "a/", false},
    {"a/**/b", "a/b", true},
    {"a/**/b", "a/x/y/b", true},
    {"a/**/b", "x/a/b", false},
    {"a/**/b/**/c", "a/b/x/b/y/c", true},
    {"*.o\n!keep.o", "keep.o", false},
    {"!keep.o\n*.o", "keep.o", true},
    {"*\n!*.c", "a.c", false},
    {"*\n!*.c", "a.h", true},
    {"[ab].x", "a.x", true},
    {"[!ab].x", "a.x", false},
    {"a?c", "abc", true},
    {"a?c", "a/c", false},
    {"*", ".hidden", true},
    {"a*", "\xff", false},
    {"\xff*", "\xff\n", true},
    {"new*line", "new\nline", true},
    {"/", "a", false},
    {"!", "a", false},
};

static void rows_hold(void **state)
{
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        abx_ignore g = {0};
        abx_ignore_add_text(&g, rows[i].patterns);
        ABX_AUTO_FREE char *path = abx_strdup(rows[i].path);
        size_t n = strlen(path);
        bool is_dir = path[n - 1] == '/';
        if (is_dir)
            path[n - 1] = 0;
        if (abx_ignore_match(&g, path, is_dir) != rows[i].ignored)
            fail_msg("'%s' and '%s'", rows[i].patterns, rows[i].path);
        abx_ignore_clear(&g);
    }
}

static void flags_come_after_the_file(void **state)
{
    abx_ignore g = {0};
    abx_ignore_add_text(&g, "*.o");
    abx_ignore_add(&g, "a.o", true);
    abx_ignore_add(&g, "b.c", false);
    assert_false(abx_ignore_match(&g, "a.o", false));
    assert_true(abx_ignore_match(&g, "b.o", false));
    assert_true(abx_ignore_match(&g, "x/b.c", false));
    abx_ignore_clear(&g);
}

/* Many stars cost no more than their number times the length. */
static void stars_do_not_explode(void **state)
{
    abx_ignore g = {0};
    abx_ignore_add(&g, "**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/b", false);
    abx_ignore_add(&g, "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", false);
    ABX_AUTO_BUF path = ABX_BUF(4096);
    for (int i = 0; i < 250; i++)
        assert_int_equal(abx_buf_add_str(&path, "a/"), 0);
    for (int i = 0; i < 250; i++)
        assert_int_equal(abx_buf_add_str(&path, "a"), 0);
    assert_false(abx_ignore_match(&g, abx_buf_cstr(&path), false));
    abx_ignore_clear(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_hold),
        cmocka_unit_test(flags_come_after_the_file),
        cmocka_unit_test(stars_do_not_explode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
