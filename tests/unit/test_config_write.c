/* Changing the user's file: comments and layout stay, nothing wrong is ever written. */
#include "config_setup.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>

static void set_gives(const char *before, const char *key, const char *value, const char *after)
{
    abx_error *err = NULL;
    write_file(".abx/config.toml", before, 0600);
    abx_config *c = must_open(NULL);
    if (abx_config_write(c, key, value, &err) < 0)
        fail_msg("%s", abx_error_text(err));
    ABX_AUTO_FREE char *text = read_back(".abx/config.toml");
    assert_string_equal(text, after);
    abx_config_free(c);
    abx_config_free(must_open(NULL));
}

static void unset_gives(const char *before, const char *key, const char *after)
{
    abx_error *err = NULL;
    write_file(".abx/config.toml", before, 0600);
    abx_config *c = must_open(NULL);
    if (abx_config_unset(c, key, &err) < 0)
        fail_msg("%s", abx_error_text(err));
    ABX_AUTO_FREE char *text = read_back(".abx/config.toml");
    assert_string_equal(text, after);
    abx_config_free(c);
    abx_config_free(must_open(NULL));
}

static void a_value_is_replaced_in_place(void **state)
{
    (void)state;
    set_gives("# mine\noutput = 'json'   # why\n\nlog = \"info\"", "output", "name",
              "# mine\noutput = \"name\"   # why\n\nlog = \"info\"");
    set_gives("timeout = 90\r\nlog = \"info\"\r\n", "timeout", "2h",
              "timeout = \"2h\"\r\nlog = \"info\"\r\n");
    set_gives("no_input=false", "no_input", "yes", "no_input=true");
    set_gives("providers.acme.note = \"\"\"\nab\"\"\"\nlog = 'info'\n", "providers.acme.note", "é",
              "providers.acme.note = \"é\"\nlog = 'info'\n");
    set_gives("providers.local.ids = \"single\" # é\n", "providers.local.ids", "range",
              "providers.local.ids = \"range\" # é\n");
    set_gives("[providers]\nlocal = { ids = 'single' } # x\n", "providers.local.ids", "range",
              "[providers]\nlocal = { ids = \"range\" } # x\n");
}

static void a_new_key_finds_its_table(void **state)
{
    (void)state;
    set_gives("", "output", "json", "output = \"json\"\n");
    set_gives("log = 'info'", "output", "json", "log = 'info'\noutput = \"json\"\n");
    set_gives("log = 'info' # a\n# b\n[providers.x]\na = 1\n", "output", "json",
              "log = 'info' # a\noutput = \"json\"\n# b\n[providers.x]\na = 1\n");
    set_gives("# my file\n\n[providers.x]\na = 1\n", "output", "json",
              "# my file\n\noutput = \"json\"\n\n[providers.x]\na = 1\n");
    set_gives("# of the table\n[providers.x]\na = 1\n", "output", "json",
              "output = \"json\"\n\n# of the table\n[providers.x]\na = 1\n");
    set_gives("[providers.x] # c\n  a = 1 # d\n\n[profiles.p]\n", "providers.x.b", "2",
              "[providers.x] # c\n  a = 1 # d\n  b = \"2\"\n\n[profiles.p]\n");
    set_gives("[providers.x] # c\n[profiles.p]\n", "providers.x.b", "2",
              "[providers.x] # c\nb = \"2\"\n[profiles.p]\n");
    set_gives("log = 'info'", "providers.x.api_key", "env:K",
              "log = 'info'\n\n[providers.x]\napi_key = \"env:K\"\n");
    set_gives("[providers.x]\na = 1\n", "profiles.work.provider", "x",
              "[providers.x]\na = 1\n\n[profiles.work]\nprovider = \"x\"\n");
    set_gives("[profiles.work.providers.x]\na = 1\n", "profiles.work.output", "json",
              "[profiles.work.providers.x]\na = 1\n\n[profiles.work]\noutput = \"json\"\n");
    set_gives("providers.x.a = 1\n", "providers.x.b", "2",
              "providers.x.a = 1\nproviders.x.b = \"2\"\n");
    set_gives("[providers]\nx.a = 1\n", "providers.x.b", "2",
              "[providers]\nx.a = 1\nx.b = \"2\"\n");
    set_gives("providers = { x = { a = 1 } }\n", "providers.x.b", "2",
              "providers = { x = { a = 1, b = \"2\" } }\n");
    set_gives("providers = { x = {} }\n", "providers.x.b", "2",
              "providers = { x = { b = \"2\" } }\n");
}

static void text_is_escaped(void **state)
{
    (void)state;
    set_gives("", "providers.x.a", "q\" b\\ \t\x01 é",
              "[providers.x]\na = \"q\\\" b\\\\ \\t\\u0001 é\"\n");
    abx_config *c = must_open(NULL);
    yyjson_doc *o = abx_config_provider_options(c, "x", NULL);
    assert_string_equal(abx_json_str(yyjson_doc_get_root(o), "a", ""), "q\" b\\ \t\x01 é");
    yyjson_doc_free(o);
    abx_error *err = NULL;
    assert_int_equal(abx_config_write(c, "providers.x.a", "\xff", &err), -1);
    assert_non_null(strstr(err->message, "UTF-8"));
    abx_error_free(err);
    abx_config_free(c);
}

static void unset_takes_the_line_out(void **state)
{
    (void)state;
    unset_gives("# a\noutput = 'json' # b\n# c\n", "output", "# a\n# c\n");
    unset_gives("output = 'json'", "output", "");
    unset_gives("[providers.x]\n a = 1\n b = 2\n", "providers.x.a", "[providers.x]\n b = 2\n");
    unset_gives("providers = { x = { a = 1, b = 2 } }\n", "providers.x.a",
                "providers = { x = { b = 2 } }\n");
    unset_gives("providers = { x = { a = 1, b = 2 } }\n", "providers.x.b",
                "providers = { x = { a = 1 } }\n");
    unset_gives("providers = { x = { a = 1 } }\n", "providers.x.a", "providers = { x = { } }\n");
    unset_gives("providers.acme.note = '''\na'''\nlog = 'info'\n", "providers.acme.note",
                "log = 'info'\n");
    unset_gives("log = 'info'\n", "output", "log = 'info'\n");
}

static void the_new_value_counts_at_once(void **state)
{
    (void)state;
    abx_config *c = must_open(NULL);
    assert_int_equal(abx_config_unset(c, "output", NULL), 0);
    assert_int_equal(access(in_root(".abx/config.toml"), F_OK), -1);
    assert_int_equal(abx_config_write(c, "output", "json", NULL), 0);
    assert_string_equal(abx_config_get(c, "output", NULL, NULL), "json");
    struct stat st;
    assert_int_equal(stat(in_root(".abx/config.toml"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(abx_config_unset(c, "output", NULL), 0);
    assert_string_equal(abx_config_get(c, "output", NULL, NULL), "table");
    abx_config_free(c);
}

static void nothing_wrong_is_written(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *word;
    } cases[] = {
        {"output", "xml", "one of table"},    {"outptu", "json", "unknown key"},
        {"providers.local.idz", "x", "idz"},  {"providers.Bad.x", "x", "no provider id"},
        {"profiles.p", "x", "unknown key"},   {"profiles.p.profile", "x", "unknown key"},
        {"profiles.p.outptu", "x", "outptu"}, {"timeout", "soon", "duration"},
        {"providers.x.a b", "1", "unknown"},  {"", "1", "unknown"},
    };
    write_file(".abx/config.toml", "# untouched\n", 0600);
    abx_config *c = must_open(NULL);
    for (size_t i = 0; i < ABX_COUNT(cases); i++) {
        abx_error *err = NULL;
        assert_int_equal(abx_config_write(c, cases[i].key, cases[i].value, &err), -1);
        if (strcmp(cases[i].word, "one of table") != 0 && strcmp(cases[i].word, "duration") != 0)
            assert_int_equal(abx_config_check_key(c, cases[i].key, NULL), -1);
        if (err->id != ABX_ERR_USAGE || !strstr(err->message, cases[i].word))
            fail_msg("%s: %s", cases[i].key, err->message);
        abx_error_free(err);
    }
    assert_int_equal(abx_config_check_key(c, "profiles.p.providers.x.api_key", NULL), 0);
    assert_int_equal(abx_config_check_key(c, "output", NULL), 0);
    ABX_AUTO_FREE char *text = read_back(".abx/config.toml");
    assert_string_equal(text, "# untouched\n");
    abx_config_free(c);
}

static void a_linked_file_stays_a_link(void **state)
{
    (void)state;
    write_file("dotfiles.toml", "log = 'info'\n", 0600);
    assert_int_equal(symlink(in_root("dotfiles.toml"), in_root(".abx/config.toml")), 0);
    abx_config *c = must_open(NULL);
    assert_int_equal(abx_config_write(c, "output", "json", NULL), 0);
    struct stat st;
    assert_int_equal(lstat(in_root(".abx/config.toml"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    ABX_AUTO_FREE char *text = read_back("dotfiles.toml");
    assert_string_equal(text, "log = 'info'\noutput = \"json\"\n");
    abx_config_free(c);
}

/* Eight writers, each with keys of its own: no key is lost. */
static void writers_do_not_lose_each_others_keys(void **state)
{
    (void)state;
    pid_t pids[8];
    for (int i = 0; i < 8; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            abx_config *c = NULL;
            int rc = open_with(&c, NULL, NULL);
            for (int k = 0; k < 5 && rc == 0; k++) {
                char key[64];
                snprintf(key, sizeof key, "providers.p%d.k%d", i, k);
                rc = abx_config_write(c, key, "v", NULL);
            }
            _exit(rc ? 1 : 0);
        }
    }
    for (int i = 0; i < 8; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    abx_config *c = must_open(NULL);
    for (int i = 0; i < 40; i++) {
        char key[64];
        snprintf(key, sizeof key, "providers.p%d.k%d", i / 5, i % 5);
        assert_non_null(abx_config_get(c, key, NULL, NULL));
    }
    abx_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_value_is_replaced_in_place),
        TEST(a_new_key_finds_its_table),
        TEST(text_is_escaped),
        TEST(unset_takes_the_line_out),
        TEST(the_new_value_counts_at_once),
        TEST(nothing_wrong_is_written),
        TEST(a_linked_file_stays_a_link),
        TEST(writers_do_not_lose_each_others_keys),
    };
    return cmocka_run_group_tests_name("config_write", tests, NULL, NULL);
}
