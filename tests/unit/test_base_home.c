/* The home of all state. */
#include "kit.h"

static char *dir;

static int set_up(void **state)
{
    dir = kit_folder();
    return 0;
}

static int tear_down(void **state)
{
    unsetenv("ABX_HOME");
    if (chdir("/") < 0)
        return -1;
    kit_drop(dir);
    return 0;
}

static char *home_at(const char *name)
{
    char *path = abx_path_join(dir, name);
    setenv("ABX_HOME", path, 1);
    return path;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static void new_home_is_for_its_owner_only(void **state)
{
    ABX_AUTO_ERROR err = NULL;
    ABX_AUTO_FREE char *path = home_at("a/b with spaces/c");
    bool tightened = true;
    ABX_AUTO_FREE char *home = abx_home_open(&tightened, &err);
    assert_string_equal(home, path);
    assert_false(tightened);
    assert_int_equal(mode_of(path), 0700);
}

static void umask_does_not_widen_or_break_it(void **state)
{
    static const mode_t masks[] = {0, 077, 0777};
    for (size_t i = 0; i < ABX_COUNT(masks); i++) {
        ABX_AUTO_FREE char *name = abx_format("h%zu/of/home", i);
        ABX_AUTO_FREE char *path = home_at(name);
        mode_t mask = umask(masks[i]);
        ABX_AUTO_FREE char *home = abx_home_open(NULL, NULL);
        umask(mask);
        assert_non_null(home);
        assert_int_equal(mode_of(path), 0700);
    }
}

static void relative_home_is_below_the_working_folder(void **state)
{
    ABX_AUTO_ERROR err = NULL;
    assert_int_equal(chdir(dir), 0);
    setenv("ABX_HOME", "rel/home", 1);
    ABX_AUTO_FREE char *home = abx_home_open(NULL, &err);
    ABX_AUTO_FREE char *want = abx_path_join(dir, "rel/home");
    assert_string_equal(home, want);
    assert_int_equal(mode_of(want), 0700);
}

static void slashes_at_the_end_are_left_out(void **state)
{
    free(home_at("h///"));
    ABX_AUTO_FREE char *home = abx_home_open(NULL, NULL);
    ABX_AUTO_FREE char *want = abx_path_join(dir, "h");
    assert_string_equal(home, want);
}

/* 3,000 characters in names of 99: longer than many a buffer, but a path that Linux takes. */
static void home_of_3000_characters(void **state)
{
    ABX_AUTO_ERROR err = NULL;
    ABX_AUTO_BUF path = ABX_BUF(5000);
    assert_int_equal(abx_buf_add_str(&path, dir), 0);
    while (path.len < 3000)
        assert_int_equal(
            abx_buf_addf(&path, "/%0*d", path.len > 2900 ? (int)(2999 - path.len) : 99, 7), 0);
    assert_int_equal(path.len, 3000);
    setenv("ABX_HOME", abx_buf_cstr(&path), 1);
    ABX_AUTO_FREE char *home = abx_home_open(NULL, &err);
    assert_string_equal(home, abx_buf_cstr(&path));
    assert_int_equal(mode_of(home), 0700);
}

static void home_that_is_too_long_is_refused(void **state)
{
    abx_error *err = NULL;
    ABX_AUTO_BUF path = ABX_BUF(10000);
    assert_int_equal(abx_buf_addf(&path, "%s/%0300d", dir, 7), 0);
    setenv("ABX_HOME", abx_buf_cstr(&path), 1);
    assert_null(abx_home_open(NULL, &err));
    assert_int_equal(err->sys_errno, ENAMETOOLONG);
    assert_fails(err, HOME);
    abx_buf_reset(&path);
    while (path.len < 6000)
        assert_int_equal(abx_buf_addf(&path, "/%099d", 7), 0);
    setenv("ABX_HOME", abx_buf_cstr(&path), 1);
    assert_null(abx_home_open(NULL, &err));
    assert_fails(err, HOME);
}

static void file_is_no_home(void **state)
{
    abx_error *err = NULL;
    ABX_AUTO_FREE char *path = home_at("f");
    kit_write(path, "");
    assert_null(abx_home_open(NULL, &err));
    assert_fails(err, HOME);
}

static void home_that_others_can_write_is_refused(void **state)
{
    static const mode_t modes[] = {0720, 0770, 0702, 0777, 01777, 0730};
    ABX_AUTO_FREE char *path = home_at("h");
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < ABX_COUNT(modes); i++) {
        abx_error *err = NULL;
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_null(abx_home_open(NULL, &err));
        assert_non_null(strstr(abx_error_hint(err), "chmod 700"));
        assert_fails(err, HOME);
        assert_int_equal(mode_of(path), modes[i]);
    }
}

static void home_that_others_can_read_is_tightened(void **state)
{
    static const mode_t modes[] = {0750, 0755, 0744, 0711, 0701};
    ABX_AUTO_FREE char *path = home_at("h");
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < ABX_COUNT(modes); i++) {
        bool tightened = false;
        assert_int_equal(chmod(path, modes[i]), 0);
        ABX_AUTO_FREE char *home = abx_home_open(&tightened, NULL);
        assert_non_null(home);
        assert_true(tightened);
        assert_int_equal(mode_of(path), 0700);
    }
    bool tightened = true;
    ABX_AUTO_FREE char *again = abx_home_open(&tightened, NULL);
    assert_non_null(again);
    assert_false(tightened);
}

/* ABX_HOME=/etc, or a project: neither its mode is changed nor does a hint say so. */
static void folder_of_other_things_keeps_its_mode(void **state)
{
    static const mode_t modes[] = {0755, 0555, 0711, 01777, 0775};
    ABX_AUTO_FREE char *path = home_at("etc");
    ABX_AUTO_FREE char *passwd = home_at("etc/passwd");
    ABX_AUTO_FREE char *config = home_at("etc/config.toml");
    assert_int_equal(mkdir(path, 0700), 0);
    kit_write(passwd, "");
    setenv("ABX_HOME", path, 1);
    for (size_t i = 0; i < ABX_COUNT(modes); i++) {
        abx_error *err = NULL;
        bool tightened = false;
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_null(abx_home_open(&tightened, &err));
        assert_string_equal(abx_error_hint(err), "set ABX_HOME to a new folder");
        assert_fails(err, HOME);
        assert_false(tightened);
        assert_int_equal(mode_of(path), modes[i]);
    }
    assert_int_equal(chmod(path, 0755), 0);
    kit_write(config, "");
    ABX_AUTO_FREE char *home = abx_home_open(NULL, NULL);
    assert_non_null(home);
    assert_int_equal(mode_of(path), 0700);
}

static int open_home(const char *arg)
{
    abx_error *err = NULL;
    if (abx_home_open(NULL, &err))
        return 1;
    if (err->id != ABX_ERR_HOME)
        return 2;
    return strstr(err->message, arg) ? 0 : 3;
}

/* Another owner: for a root user a folder of the ordinary user, for an ordinary one a folder of root. */
static void home_of_another_user_is_refused(void **state)
{
    if (geteuid() == 0) {
        abx_error *err = NULL;
        ABX_AUTO_FREE char *path = home_at("h");
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(chown(path, KIT_USER, KIT_USER), 0);
        assert_null(abx_home_open(NULL, &err));
        assert_non_null(strstr(abx_error_text(err), "another user"));
        assert_fails(err, HOME);
    }
    setenv("ABX_HOME", "/usr", 1);
    assert_int_equal(kit_as_user(NULL, open_home, "another user"), 0);
}

static void home_that_cannot_be_made_is_refused(void **state)
{
    free(home_at("closed/h"));
    ABX_AUTO_FREE char *closed = abx_path_join(dir, "closed");
    assert_int_equal(mkdir(closed, 0755), 0);
    assert_int_equal(chmod(dir, 0755), 0);
    if (geteuid() != 0)
        assert_int_equal(chmod(closed, 0555), 0);
    assert_int_equal(kit_as_user(NULL, open_home, "Permission denied"), 0);
}

static int open_default(const char *arg)
{
    unsetenv("ABX_HOME");
    setenv("HOME", arg, 1);
    char *home = abx_home_open(NULL, NULL);
    char *want = abx_path_join(arg, ".abx");
    return home && strcmp(home, want) == 0 ? 0 : 1;
}

static void without_a_choice_it_is_below_the_users_home(void **state)
{
    setenv("ABX_HOME", "", 1);
    assert_int_equal(kit_as_user(dir, open_default, dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(new_home_is_for_its_owner_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(umask_does_not_widen_or_break_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(relative_home_is_below_the_working_folder, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(slashes_at_the_end_are_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(home_of_3000_characters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(home_that_is_too_long_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(file_is_no_home, set_up, tear_down),
        cmocka_unit_test_setup_teardown(home_that_others_can_write_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(home_that_others_can_read_is_tightened, set_up, tear_down),
        cmocka_unit_test_setup_teardown(folder_of_other_things_keeps_its_mode, set_up, tear_down),
        cmocka_unit_test_setup_teardown(home_of_another_user_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(home_that_cannot_be_made_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_choice_it_is_below_the_users_home, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
