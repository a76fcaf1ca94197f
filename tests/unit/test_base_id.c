/* Random bytes, ids, hexadecimal digits, and the levels of the log. */
#include "kit.h"

#include "base/id.h"
#include "base/log.h"

static void ids_have_their_length_and_alphabet(void **state)
{
    for (size_t n = 1; n < 200; n++) {
        char id[201];
        memset(id, '#', sizeof id);
        abx_random_id(id, n);
        assert_int_equal(strlen(id), n);
        assert_int_equal(strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789"), n);
        assert_true(id[0] >= 'a' && id[0] <= 'z');
        assert_int_equal(abx_is_id(id), n >= 12 && n <= 32);
    }
}

static void ids_do_not_repeat(void **state)
{
    enum { N = 2000 };
    static char ids[N][ABX_ID_LEN + 1];
    for (int i = 0; i < N; i++)
        abx_random_id(ids[i], ABX_ID_LEN);
    for (int i = 0; i < N; i++)
        for (int j = i + 1; j < N; j++)
            assert_int_not_equal(memcmp(ids[i], ids[j], ABX_ID_LEN), 0);
}

/* 72,000 draws of 36 kinds: 2,000 each, standard deviation 44. Eight of them are never seen by chance. */
static void characters_have_equal_chances(void **state)
{
    static char id[72002];
    int seen[256] = {0};
    abx_random_id(id, 72001);
    for (int i = 1; i < 72001; i++)
        seen[(uint8_t)id[i]]++;
    for (const char *c = "abcdefghijklmnopqrstuvwxyz0123456789"; *c; c++)
        assert_in_range(seen[(uint8_t)*c], 2000 - 8 * 44, 2000 + 8 * 44);
}

static void first_letters_have_equal_chances(void **state)
{
    int seen[256] = {0};
    for (int i = 0; i < 26000; i++) {
        char id[2];
        abx_random_id(id, 1);
        seen[(uint8_t)id[0]]++;
    }
    for (char c = 'a'; c <= 'z'; c++)
        assert_in_range(seen[(uint8_t)c], 1000 - 8 * 31, 1000 + 8 * 31);
}

static void what_is_no_id_is_told(void **state)
{
    assert_false(abx_is_id(""));
    assert_false(abx_is_id("abcdefghijk"));
    assert_true(abx_is_id("abcdefghijkl"));
    assert_true(abx_is_id("0bcdefghijkl"));
    assert_true(abx_is_id("abcdefghijklmnopqrstuvwxyz012345"));
    assert_false(abx_is_id("abcdefghijklmnopqrstuvwxyz0123456"));
    assert_false(abx_is_id("Abcdefghijkl"));
    assert_false(abx_is_id("abcdef-hijkl"));
    assert_false(abx_is_id("abcdefghijk\n"));
}

static void hex_has_two_digits_a_byte(void **state)
{
    char out[11];
    abx_hex("\x00\x01\x9f\xa0\xff", 5, out);
    assert_string_equal(out, "00019fa0ff");
    abx_hex("", 0, out);
    assert_string_equal(out, "");
}

static void secrets_are_compared_whole(void **state)
{
    assert_true(abx_equal_secret("abc", 3, "abc", 3));
    assert_true(abx_equal_secret("", 0, "", 0));
    assert_false(abx_equal_secret("abc", 3, "abd", 3));
    assert_false(abx_equal_secret("xbc", 3, "abc", 3));
    assert_false(abx_equal_secret("abc", 3, "ab", 2));
}

static void log_levels_have_names(void **state)
{
    static const char *const names[] = {"off", "error", "warn", "info", "debug", "trace"};
    for (size_t i = 0; i < ABX_COUNT(names); i++) {
        abx_log_level level;
        assert_int_equal(abx_log_parse(names[i], &level), 0);
        assert_string_equal(abx_log_name(level), names[i]);
        assert_int_equal(level, i);
    }
    abx_log_level level;
    assert_int_equal(abx_log_parse("WARN", &level), -1);
    assert_int_equal(abx_log_parse("", &level), -1);
}

static void sink(abx_log_level level, const char *text, void *data)
{
    char *out = data;
    snprintf(out, 100, "%s: %s", abx_log_name(level), text);
}

static void log_drops_what_is_below_its_level(void **state)
{
    char out[100] = "";
    abx_log log = {ABX_LOG_WARN, sink, out};
    abx_logf(&log, ABX_LOG_INFO, "quiet");
    assert_string_equal(out, "");
    abx_logf(&log, ABX_LOG_WARN, "loud %d", 1);
    assert_string_equal(out, "warn: loud 1");
    abx_logf(NULL, ABX_LOG_ERROR, "nobody listens");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_have_their_length_and_alphabet),
        cmocka_unit_test(ids_do_not_repeat),
        cmocka_unit_test(characters_have_equal_chances),
        cmocka_unit_test(first_letters_have_equal_chances),
        cmocka_unit_test(what_is_no_id_is_told),
        cmocka_unit_test(hex_has_two_digits_a_byte),
        cmocka_unit_test(secrets_are_compared_whole),
        cmocka_unit_test(log_levels_have_names),
        cmocka_unit_test(log_drops_what_is_below_its_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
