/* The files of the configuration: modes and owners, named files, the project's file and trust in it. */
#include "config_setup.h"

static void modes_of_the_users_file(void **state)
{
    (void)state;
    static const mode_t wide[] = {0644, 0640, 0604, 0620, 0601};
    for (size_t i = 0; i < ABX_COUNT(wide); i++) {
        write_file(".abx/config.toml", "output = 'json'\n", wide[i]);
        MUST_FAIL("chmod 600 '", "config.toml", "others may read or write it");
    }
    write_file(".abx/config.toml", "output = 'json'\n", 0400);
    abx_config_free(must_open(NULL));
    assert_int_equal(chmod(home_dir, 0755), 0);
    MUST_FAIL("chmod 700 '", ".abx'");
    assert_int_equal(chmod(home_dir, 0700), 0);
}

static void the_users_file_is_an_ordinary_file_of_the_user(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_root(".abx/config.toml"), 0700), 0);
    MUST_FAIL(NULL, "config.toml", "no ordinary file");
    assert_int_equal(rmdir(in_root(".abx/config.toml")), 0);
    assert_int_equal(mkfifo(in_root(".abx/config.toml"), 0600), 0);
    MUST_FAIL(NULL, "config.toml", "no ordinary file"); /* and does not wait for a writer */
    assert_int_equal(unlink(in_root(".abx/config.toml")), 0);
    if (geteuid() == 0) {
        write_file(".abx/config.toml", "", 0600);
        assert_int_equal(chown(in_root(".abx/config.toml"), 12345, 0), 0);
        MUST_FAIL(NULL, "belongs to another user (uid 12345)");
    }
}

static void modes_of_the_system_file(void **state)
{
    (void)state;
    write_file("system.toml", "output = 'json'\n", 0666);
    MUST_FAIL("chmod go-w", "system.toml", "others may write it");
    write_file("system.toml", "[providers.a]\napi_key = \"0123456789\"\n", 0644);
    MUST_FAIL("chmod 600", "system.toml", "line 2", "is a secret");
    write_file("system.toml", "[providers.a]\napi_key = \"env:KEY\"\n", 0644);
    abx_config_free(must_open(NULL));
}

static int open_named(const char *file, const char *const *env, abx_config **c, abx_error **err)
{
    abx_config_options o = {
        .home = home_dir, .system_file = in_root("no"), .file = file, .env = env};
    return abx_config_open(&o, c, err);
}

static void a_named_file_must_exist(void **state)
{
    (void)state;
    abx_config *c = NULL;
    abx_error *err = NULL;
    assert_int_equal(open_named(in_root("named.toml"), NULL, &c, &err), -1);
    assert_int_equal(err->id, ABX_ERR_CONFIG);
    assert_non_null(strstr(err->message, "named.toml"));
    abx_error_free(ABX_TAKE(err));
    ABX_AUTO_FREE char *variable = abx_format("ABX_CONFIG=%s", in_root("named.toml"));
    assert_int_equal(open_named(NULL, ENV(variable), &c, &err), -1);
    abx_error_free(ABX_TAKE(err));
    write_file("named.toml", "output = 'name'\n", 0600);
    write_file(".abx/config.toml", "log = 'trace'\n", 0600);
    assert_int_equal(open_named(NULL, ENV(variable), &c, &err), 0);
    assert_string_equal(abx_config_get(c, "output", NULL, NULL), "name");
    assert_string_equal(abx_config_get(c, "log", NULL, NULL), "warn"); /* instead, not beside */
    assert_string_equal(abx_config_user_path(c), in_root("named.toml"));
    abx_config_free(c);
    write_file("named.toml", "output = 'name'\n", 0644);
    assert_int_equal(open_named(in_root("named.toml"), NULL, &c, &err), -1);
    assert_non_null(strstr(abx_error_hint(err), "chmod 600"));
    abx_error_free(err);
}

/* Opens with this working directory; the project's path, or NULL. */
static char *project_from(const char *cwd, const char *home)
{
    ABX_AUTO_FREE char *variable = abx_format("HOME=%s", home);
    const char *env[] = {variable, NULL};
    abx_config *c = NULL;
    abx_config_options o = {.home = home_dir, .cwd = cwd, .system_file = in_root("no"), .env = env};
    assert_int_equal(abx_config_open(&o, &c, NULL), 0);
    char *path = abx_strdup(abx_config_project_path(c, NULL));
    abx_config_free(c);
    return path;
}

static void the_projects_file_is_the_nearest_one(void **state)
{
    (void)state;
    mkdir(in_root("project/a"), 0700);
    mkdir(in_root("project/a/b"), 0700);
    ABX_AUTO_FREE char *none = project_from(in_root("project/a/b"), root_dir);
    assert_null(none);
    write_file("abx.toml", "", 0644); /* in the home folder itself */
    ABX_AUTO_FREE char *home = project_from(in_root("project/a/b"), root_dir);
    assert_string_equal(home, in_root("abx.toml"));
    write_file("project/abx.toml", "", 0644);
    ABX_AUTO_FREE char *parent = project_from(in_root("project/a/b"), root_dir);
    assert_string_equal(parent, in_root("project/abx.toml"));
    mkdir(in_root("project/a/.git"), 0700); /* the search ends at the repository's root */
    ABX_AUTO_FREE char *above = project_from(in_root("project/a/b"), root_dir);
    assert_null(above);
    write_file("project/a/abx.toml", "", 0644);
    ABX_AUTO_FREE char *at_root = project_from(in_root("project/a/b"), root_dir);
    assert_string_equal(at_root, in_root("project/a/abx.toml"));
}

static void outside_home_and_repository_only_the_folder_itself_counts(void **state)
{
    (void)state;
    mkdir(in_root("project/a"), 0700);
    write_file("project/abx.toml", "", 0644);
    ABX_AUTO_FREE char *below = project_from(in_root("project/a"), "/nonexistent");
    assert_null(below);
    ABX_AUTO_FREE char *here = project_from(in_root("project"), "/nonexistent");
    assert_string_equal(here, in_root("project/abx.toml"));
    ABX_AUTO_FREE char *gone = project_from(in_root("gone"), root_dir);
    assert_null(gone);
}

static void an_untrusted_project_may_not_set_what_matters(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "[providers.e2b]\napi_key = 'x'",
        "[providers.e2b]\napi_url = 'https://evil.test'",
        "[providers.e2b]\ndomain = 'evil.test'",
        "[providers.e2b]\naccess_key_id = 'x'",
        "[providers.e2b]\ncommand = 'rm'",
        "[profiles.a.providers.e2b]\napi_url = 'https://e.test'",
        "\nprofile = 'a'",
        "\nno_input = true",
    };
    for (size_t i = 0; i < ABX_COUNT(refused); i++) {
        write_file("project/abx.toml", refused[i], 0644);
        MUST_FAIL("' && abx config trust", "abx.toml', line 2", "until you trust it");
    }
    write_file("project/abx.toml",
               "provider = 'e2b'\ntimeout = '5m'\n[providers.local]\nids = 'range'\n", 0644);
    abx_config *c = must_open(NULL);
    assert_string_equal(abx_config_get(c, "providers.local.ids", NULL, NULL), "range");
    abx_config_free(c);
}

/* Opens as `config trust` does, and trusts. */
static int trust(abx_error **err)
{
    abx_config *c = NULL;
    const char *env[] = {home_variable, NULL};
    abx_config_options o = {.home = home_dir,
                            .cwd = project_dir,
                            .system_file = in_root("no"),
                            .env = env,
                            .ignore_project = true};
    assert_int_equal(abx_config_open(&o, &c, NULL), 0);
    int rc = abx_config_trust(c, err);
    abx_config_free(c);
    return rc;
}

static void trust_holds_for_this_content_only(void **state)
{
    (void)state;
    bool trusted = true;
    write_file("project/abx.toml", "[providers.e2b]\napi_url = 'https://a.test'\n", 0644);
    MUST_FAIL("abx config trust", "until you trust it");
    assert_int_equal(trust(NULL), 0);
    abx_config *c = must_open(NULL);
    assert_string_equal(abx_config_get(c, "providers.e2b.api_url", NULL, NULL), "https://a.test");
    assert_non_null(abx_config_project_path(c, &trusted));
    assert_true(trusted);
    abx_config_free(c);
    write_file("project/abx.toml", "[providers.e2b]\napi_url = 'https://b.test'\n", 0644);
    MUST_FAIL("abx config trust", "until you trust it");
    assert_int_equal(trust(NULL), 0);
    abx_config_free(must_open(NULL));
    /* The same content in another folder is another file. */
    assert_int_equal(rename(project_dir, in_root("moved")), 0);
    assert_int_equal(mkdir(project_dir, 0700), 0);
    write_file("project/abx.toml", "[providers.e2b]\napi_url = 'https://b.test'\n", 0644);
    abx_config_free(must_open(NULL));
    write_file("moved/.git", "", 0600);
    strcpy(project_dir, in_root("moved"));
    MUST_FAIL("abx config trust", "moved/abx.toml", "until you trust it");
    struct stat st;
    assert_int_equal(stat(in_root(".abx/trust"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

static void only_a_sound_file_can_be_trusted(void **state)
{
    (void)state;
    abx_error *err = NULL;
    assert_int_equal(trust(&err), -1);
    assert_non_null(strstr(err->message, "no abx.toml"));
    abx_error_free(ABX_TAKE(err));
    write_file("project/abx.toml", "outptu = 1\n", 0644);
    assert_int_equal(trust(&err), -1);
    assert_non_null(strstr(err->message, "line 1"));
    abx_error_free(ABX_TAKE(err));
}

static void a_damaged_record_is_no_trust(void **state)
{
    (void)state;
    write_file("project/abx.toml", "profile = 'a'\n[profiles.a]\n", 0644);
    assert_int_equal(trust(NULL), 0);
    abx_config_free(must_open(NULL));
    ABX_AUTO_FREE char *command = abx_format("for f in %s/trust/*; do echo x > $f; done", home_dir);
    assert_int_equal(system(command), 0);
    MUST_FAIL("abx config trust", "until you trust it");
}

static void a_project_file_of_others_needs_trust(void **state)
{
    (void)state;
    write_file("project/abx.toml", "provider = 'e2b'\n", 0666);
    MUST_FAIL("abx config trust", "abx.toml", "another user owns it or may write it");
    if (geteuid() == 0) {
        write_file("project/abx.toml", "provider = 'e2b'\n", 0644);
        assert_int_equal(chown(in_root("project/abx.toml"), 12345, 0), 0);
        MUST_FAIL("abx config trust", "another user owns it");
        assert_int_equal(trust(NULL), 0);
        abx_config_free(must_open(NULL));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(modes_of_the_users_file),
        TEST(the_users_file_is_an_ordinary_file_of_the_user),
        TEST(modes_of_the_system_file),
        TEST(a_named_file_must_exist),
        TEST(the_projects_file_is_the_nearest_one),
        TEST(outside_home_and_repository_only_the_folder_itself_counts),
        TEST(an_untrusted_project_may_not_set_what_matters),
        TEST(trust_holds_for_this_content_only),
        TEST(only_a_sound_file_can_be_trusted),
        TEST(a_damaged_record_is_no_trust),
        TEST(a_project_file_of_others_needs_trust),
    };
    return cmocka_run_group_tests_name("config_files", tests, NULL, NULL);
}
