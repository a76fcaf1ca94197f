/* What the notebook takes for a whole piece of code, and what is shown and kept of a result. */
#include "kit.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"
#include "doors/cli/code_block.h"
#include "doors/cli/code_results.h"

static void a_block_ends_where_it_should(void **state)
{
    static const struct {
        const char *text;
        bool shell, more;
    } rows[] = {
        {"x = 1\n", false, false},
        {"for i in x:\n", false, true},
        {"for i in x:\n  print(i)\n", false, true},
        {"for i in x:\n  print(i)\n\n", false, false},
        {"f(1,\n", false, true},
        {"f(1,\n2)\n", false, false},
        {"f(')')\n", false, false},
        {"s = '''a\n", false, true},
        {"s = '''a\n\n", false, true},
        {"s = '''a\nb'''\n", false, false},
        {"x = 1 + \\\n", false, true},
        {"# don't (\n", false, false},
        {"@deco\n", false, true},
        {"@deco\ndef f():\n  pass\n\n", false, false},
        {"it's\n", false, false},
        {"function f() {\n", false, true},
        {"function f() {\n}\n", false, false},
        {"let s = `a\n", false, true},
        {"if true; then\n", true, true},
        {"if true; then\necho 1\nfi\n", true, false},
        {"while x; do\necho `a`\n", true, true},
        {"f() {\n", true, true},
        {"echo done:\n", true, false},
        {"(((\n\n", false, false},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++)
        if (abx_code_wants_more(rows[i].text, strlen(rows[i].text), rows[i].shell) != rows[i].more)
            fail_msg("'%s'", rows[i].text);
}

static void any_bytes_are_looked_at(void **state)
{
    static const char bytes[] = "\"'`\\#([{}])\n:aif \xff";
    char text[6];
    for (size_t i = 0; i < 20000; i++) {
        size_t n = i % sizeof text;
        for (size_t k = 0, x = i * 2654435761u; k < n; k++, x /= 17)
            text[k] = bytes[x % (sizeof bytes - 1)];
        (void)abx_code_wants_more(text, n, i & 1);
    }
}

static void show(const char *json, const char *dir, const char *out, const char *notes)
{
    abx_code_files files;
    abx_error *err = NULL;
    ABX_AUTO_BUF shown = ABX_BUF(100000);
    ABX_AUTO_BUF told = ABX_BUF(100000);
    ABX_AUTO_FREE char *saved = NULL;
    ABX_AUTO_JSON d = abx_json_parse(json, strlen(json), ABX_ERR_USAGE, "it", &err);
    assert_non_null(d);
    assert_int_equal(abx_code_files_open(&files, dir, &err), 0);
    assert_int_equal(abx_code_show(&files, yyjson_doc_get_root(d), &shown, &told, &saved, &err), 0);
    abx_code_files_close(&files);
    assert_string_equal(abx_buf_cstr(&shown), out);
    if (notes)
        assert_string_equal(abx_buf_cstr(&told), notes);
    assert_true((saved != NULL) == (dir && told.len > 0));
}

#define PNG "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAYAAAA"

static void one_text_is_shown(void **state)
{
    show("{\"text\":\"R\",\"html\":\"<b>\"}", NULL, "R\n", "");
    show("{\"html\":\"<b>\",\"markdown\":\"*\"}", NULL, "*\n", "");
    show("{\"json\":{\"a\":1},\"data\":{}}", NULL, "{\"a\":1}\n", "");
    show("{\"png\":\"" PNG "=\",\"text\":\"T\"}", NULL, "T\n", "[image/png 640x480, 29 bytes]\n");
    show("{\"jpeg\":\"/9j/wAARCAADAAQBAQ==\"}", NULL, "", "[image/jpeg 4x3, 13 bytes]\n");
    show("{\"png\":\"no base64!\",\"text\":5,\"extra\":{\"a/b\":\"c\"}}", NULL, "", "");
    show("{}", NULL, "", "");
}

static void files_have_names_of_ours(void **state)
{
    char dir[] = "/tmp/abx-code-XXXXXX";
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < 2; i++) /* the second time beside the first */
        show("{\"png\":\"AAAA\",\"html\":\"<b>\",\"../x\":\"y\",\"extra\":{\"../../"
             "z\":\"y\"},\"data\":{\"a\":[1]}}",
             dir, "<b>\n", NULL);
    DIR *d = opendir(dir);
    int count = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        count++;
        assert_true(abx_has_suffix(e->d_name, ".png") || abx_has_suffix(e->d_name, ".html") ||
                    abx_has_suffix(e->d_name, ".data.json"));
        assert_int_equal(unlinkat(dirfd(d), e->d_name, 0), 0);
    }
    closedir(d);
    assert_int_equal(count, 6);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_ends_where_it_should),
        cmocka_unit_test(any_bytes_are_looked_at),
        cmocka_unit_test(one_text_is_shown),
        cmocka_unit_test(files_have_names_of_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
