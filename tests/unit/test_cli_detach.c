/* Keys that leave a terminal: what is accepted, and what is passed on however the bytes are cut. */
#include "kit.h"

#include "doors/cli/detach_keys.h"

static void parsing(void **state)
{
    static const struct {
        const char *text, *keys; /* keys NULL: refused */
        size_t count;
    } rows[] = {
        {"", "", 0},
        {"ctrl-p,ctrl-q", "\x10\x11", 2},
        {"CTRL-P", NULL, 0},
        {"ctrl-P", "\x10", 1},
        {"a", "a", 1},
        {"a,b,c", "abc", 3},
        {"ctrl-@", "\0", 1},
        {"ctrl-[,ctrl-\\,ctrl-],ctrl-^,ctrl-_", "\x1b\x1c\x1d\x1e\x1f", 5},
        {"ctrl-1", NULL, 0},
        {"ctrl-", NULL, 0},
        {"ab", NULL, 0},
        {",", NULL, 0},
        {"a,", NULL, 0},
        {" ", NULL, 0},
        {"a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p", "abcdefghijklmnop", 16},
        {"a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", NULL, 0},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        abx_detach_keys k;
        abx_error *err = NULL;
        int rc = abx_detach_keys_parse(&k, rows[i].text, &err);
        if (!rows[i].keys) {
            assert_int_equal(rc, -1);
            assert_fails(err, USAGE);
            continue;
        }
        assert_int_equal(rc, 0);
        assert_int_equal(k.count, rows[i].count);
        assert_memory_equal(k.keys, rows[i].keys, k.count);
    }
}

typedef struct typed {
    const char *keys, *in, *out;
    bool left;
} typed;

static const typed rows[] = {
    {"a,b", "xyz", "xyz", false},
    {"a,b", "xab", "x", true},
    {"a,b", "ab rest", "", true},
    {"a,b", "aab", "a", true},
    {"a,b", "axb", "axb", false},
    {"a,b", "xa", "x", false},
    {"a,a,b", "aaab", "a", true},
    {"a,b,a,c", "abababac", "abab", true},
    {"a,b,a,b,c", "ababac", "ababac", false},
    {"", "ab", "ab", false},
};

/* The same bytes in one piece, cut at each place, and one by one. */
static void feeding(void **state)
{
    for (size_t r = 0; r < ABX_COUNT(rows); r++) {
        size_t n = strlen(rows[r].in);
        for (size_t cut = 0; cut <= n; cut++) {
            abx_detach_keys k;
            assert_int_equal(abx_detach_keys_parse(&k, rows[r].keys, NULL), 0);
            ABX_AUTO_BUF out = ABX_BUF(64);
            const uint8_t *in = (const uint8_t *)rows[r].in;
            bool left = abx_detach_keys_feed(&k, in, cut, &out);
            if (!left)
                left = abx_detach_keys_feed(&k, in + cut, n - cut, &out);
            assert_int_equal(left, rows[r].left);
            assert_string_equal(abx_buf_cstr(&out), rows[r].out);
        }
        abx_detach_keys k;
        assert_int_equal(abx_detach_keys_parse(&k, rows[r].keys, NULL), 0);
        ABX_AUTO_BUF out = ABX_BUF(64);
        bool left = false;
        for (size_t i = 0; i < n && !left; i++)
            left = abx_detach_keys_feed(&k, (const uint8_t *)rows[r].in + i, 1, &out);
        assert_int_equal(left, rows[r].left);
        assert_string_equal(abx_buf_cstr(&out), rows[r].out);
    }
}

static void what_was_held_back_goes_on_at_the_end(void **state)
{
    abx_detach_keys k;
    ABX_AUTO_BUF out = ABX_BUF(64);
    assert_int_equal(abx_detach_keys_parse(&k, "a,b,c", NULL), 0);
    assert_false(abx_detach_keys_feed(&k, (const uint8_t *)"xab", 3, &out));
    assert_string_equal(abx_buf_cstr(&out), "x");
    abx_detach_keys_flush(&k, &out);
    assert_string_equal(abx_buf_cstr(&out), "xab");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parsing),
        cmocka_unit_test(feeding),
        cmocka_unit_test(what_was_held_back_goes_on_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
