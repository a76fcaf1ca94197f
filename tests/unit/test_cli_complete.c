/* What may stand next in a half-typed line, whatever was typed. */
#include "kit.h"

#include <string.h>

#include "base/mem.h"
#include "doors/cli/complete.h"
#include "doors/cli/spec.h"

static const char *const local_ids[] = {"local", NULL};
static const abx_adapter local_adapter = {.builtin_ids = local_ids};
static const abx_adapter *const adapters[] = {&local_adapter, NULL};

static char *offered(size_t count, const char *const *words)
{
    abx_buf out = ABX_BUF(SIZE_MAX / 2);
    char *copy[64] = {NULL};
    for (size_t i = 0; i < count; i++)
        copy[i] = abx_strdup(words[i]);
    abx_complete(copy, count, NULL, adapters, &out);
    for (size_t i = 0; i < count; i++)
        free(copy[i]);
    return abx_buf_take(&out);
}

static void value_of_a_flag(void **state)
{
    ABX_AUTO_FREE char *a = offered(3, (const char *const[]){"run", "--output", "jsonl"});
    assert_string_equal(a, "jsonl\n");
    ABX_AUTO_FREE char *b = offered(2, (const char *const[]){"run", "--output=jsonl"});
    assert_string_equal(b, "--output=jsonl\n");
    ABX_AUTO_FREE char *c = offered(3, (const char *const[]){"run", "-P", ""});
    assert_string_equal(c, "local\n");
}

static void command_is_not_ours(void **state)
{
    ABX_AUTO_FREE char *a = offered(4, (const char *const[]){"run", "--", "make", "--outp"});
    assert_string_equal(a, ":files\n");
    ABX_AUTO_FREE char *b = offered(4, (const char *const[]){"exec", "box", "make", "-"});
    assert_string_equal(b, ":files\n");
}

static void nothing_for_what_is_unknown(void **state)
{
    ABX_AUTO_FREE char *a = offered(2, (const char *const[]){"nosuch", ""});
    assert_string_equal(a, "");
    ABX_AUTO_FREE char *b = offered(0, NULL);
    assert_string_equal(b, "");
    ABX_AUTO_FREE char *c = offered(2, (const char *const[]){"run", "--nosuch="});
    assert_string_equal(c, "");
}

/* Lines of words from the tables and of garbage: no crash, and only whole lines come back. */
static void any_line_is_survived(void **state)
{
    static const char *const pieces[] = {"",      "-",     "--",        "=",     ":",
                                         "--=",   "-=",    "--output=", "-o",    "-it",
                                         "-",     "--no-", "\xff\xfe",  "a:b",   "\t\n",
                                         "--env", "box",   "help",      "files", "config",
                                         "%s%n",  "../..", "--man",     "-\xc3"};
    uint64_t seed = 7;
    for (int round = 0; round < 20000; round++) {
        const char *words[12];
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t count = (seed >> 33) % 12;
        for (size_t i = 0; i < count; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            size_t pick = (size_t)(seed >> 33);
            words[i] = pick % 3 == 0   ? abx_verb_row((abx_verb_id)(pick % ABX_VERB_COUNT))->name
                       : pick % 3 == 1 ? abx_flag_row((abx_flag_id)(pick % ABX_FLAG_COUNT))->name
                                       : pieces[pick % ABX_COUNT(pieces)];
        }
        ABX_AUTO_FREE char *out = offered(count, words);
        size_t n = strlen(out);
        assert_true(n == 0 || out[n - 1] == '\n');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(value_of_a_flag),
        cmocka_unit_test(command_is_not_ours),
        cmocka_unit_test(nothing_for_what_is_unknown),
        cmocka_unit_test(any_line_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
