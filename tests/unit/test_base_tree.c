/* Removing trees whose makers were hostile. */
#include "kit.h"

#include <sys/resource.h>

static bool is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static void missing_tree_is_success(void **state)
{
    ABX_AUTO_ERROR err = NULL;
    assert_int_equal(abx_remove_tree_at(AT_FDCWD, "/tmp/abx-no-such-tree", &err), 0);
    assert_null(err);
}

static void file_instead_of_a_tree_is_removed(void **state)
{
    char *dir = kit_folder();
    ABX_AUTO_FREE char *file = abx_path_join(dir, "f");
    kit_write(file, "x");
    assert_int_equal(abx_remove_tree_at(AT_FDCWD, file, NULL), 0);
    assert_false(is_there(file));
    kit_drop(dir);
}

static void links_are_removed_and_not_followed(void **state)
{
    char *outside = kit_folder(), *dir = kit_folder();
    ABX_AUTO_FREE char *precious = abx_path_join(outside, "precious");
    ABX_AUTO_FREE char *to_folder = abx_path_join(dir, "folder");
    ABX_AUTO_FREE char *to_file = abx_path_join(dir, "file");
    ABX_AUTO_FREE char *dangling = abx_path_join(dir, "dangling");
    ABX_AUTO_FREE char *circle = abx_path_join(dir, "circle");
    kit_write(precious, "x");
    assert_int_equal(chmod(outside, 0555), 0);
    assert_int_equal(symlink(outside, to_folder), 0);
    assert_int_equal(symlink(precious, to_file), 0);
    assert_int_equal(symlink("nowhere", dangling), 0);
    assert_int_equal(symlink("circle", circle), 0);
    kit_drop(dir);
    struct stat st;
    assert_int_equal(stat(outside, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0555);
    assert_true(is_there(precious));
    assert_int_equal(chmod(outside, 0700), 0);
    kit_drop(outside);
}

static void link_in_place_of_the_tree_is_removed_alone(void **state)
{
    char *outside = kit_folder(), *dir = kit_folder();
    ABX_AUTO_FREE char *precious = abx_path_join(outside, "precious");
    ABX_AUTO_FREE char *link = abx_path_join(dir, "link");
    kit_write(precious, "x");
    assert_int_equal(symlink(outside, link), 0);
    assert_int_equal(abx_remove_tree_at(AT_FDCWD, link, NULL), 0);
    assert_false(is_there(link));
    assert_true(is_there(precious));
    kit_drop(outside);
    kit_drop(dir);
}

static void ten_thousand_files_go(void **state)
{
    char *dir = kit_folder();
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 10000; i++) {
        char name[300];
        snprintf(name, sizeof name, "%0*d", i % 7 ? 8 : 255, i);
        int f = openat(fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(f >= 0);
        close(f);
    }
    close(fd);
    kit_drop(dir);
}

/* A folder in a folder in a folder …; names of `width` characters. mode: of each, once it is filled. */
static int make_deep(const char *path, int levels, int width, mode_t mode)
{
    char name[300];
    snprintf(name, sizeof name, "%0*d", width, 1);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < levels && fd >= 0; i++) {
        if (mkdirat(fd, name, 0700) < 0)
            return -1;
        int next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int f = openat(fd, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0);
        close(f);
        if (i > 0 && fchmod(fd, mode) < 0)
            return -1;
        close(fd);
        fd = next;
    }
    if (fd < 0 || fchmod(fd, mode) < 0)
        return -1;
    close(fd);
    return 0;
}

static void two_thousand_levels_go(void **state)
{
    char *dir = kit_folder();
    assert_int_equal(make_deep(dir, 2000, 255, 0700), 0);
    kit_drop(dir);
}

static int remove_deep_and_closed(const char *dir)
{
    static const mode_t modes[] = {0, 0500, 0400, 0100};
    for (size_t i = 0; i < ABX_COUNT(modes); i++) {
        abx_error *err = NULL;
        char *path = abx_path_join(dir, "tree");
        if (mkdir(path, 0700) < 0 || make_deep(path, 300, 20, modes[i]) < 0)
            return 100;
        if (chmod(path, modes[i]) < 0)
            return 101;
        if (abx_remove_tree_at(AT_FDCWD, path, &err) < 0) {
            fprintf(stderr, "mode %03o: %s\n", modes[i], abx_error_text(err));
            return (int)i + 1;
        }
        if (is_there(path))
            return (int)i + 11;
        free(path);
    }
    return 0;
}

static void closed_folders_are_opened_by_their_owner(void **state)
{
    char *dir = kit_folder();
    assert_int_equal(kit_as_user(dir, remove_deep_and_closed, dir), 0);
    kit_drop(dir);
}

static void levels_need_no_descriptor_each(void **state)
{
    char *dir = kit_folder();
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    struct rlimit few = {256, old.rlim_max};
    assert_int_equal(make_deep(dir, 600, 10, 0700), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    kit_drop(dir);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* A tree that prepares the names under which deep folders might be moved up, at every level. */
static void names_that_stand_in_the_way_do_not_stop_it(void **state)
{
    char *dir = kit_folder();
    for (int i = 0; i < 3; i++) {
        struct stat st;
        ABX_AUTO_FREE char *branch = abx_format("%s/branch%d", dir, i);
        assert_int_equal(mkdir(branch, 0700), 0);
        assert_int_equal(make_deep(branch, 250, 30, 0700), 0);
        assert_int_equal(stat(branch, &st), 0);
        for (unsigned long long n = 0; n < 100; n++) {
            ABX_AUTO_FREE char *trap = abx_format("%s/.deep%llx", dir, st.st_ino + n);
            ABX_AUTO_FREE char *inside = abx_path_join(trap, "full");
            if (mkdir(trap, 0700) == 0)
                kit_write(inside, "");
        }
    }
    kit_drop(dir);
}

static int remove_foreign(const char *dir)
{
    abx_error *err = NULL;
    char *tree = abx_path_join(dir, "tree");
    if (abx_remove_tree_at(AT_FDCWD, tree, &err) != -1 || !err || err->sys_errno != EACCES)
        return 1;
    char *mine = abx_path_join(tree, "mine");
    char *foreign = abx_path_join(tree, "foreign/file");
    if (is_there(mine))
        return 2; /* it should have gone on */
    return is_there(foreign) ? 0 : 3;
}

static void error_is_told_and_the_rest_is_removed(void **state)
{
    char *dir = kit_folder();
    ABX_AUTO_FREE char *tree = abx_path_join(dir, "tree");
    ABX_AUTO_FREE char *foreign = abx_path_join(tree, "foreign");
    ABX_AUTO_FREE char *file = abx_path_join(foreign, "file");
    ABX_AUTO_FREE char *mine = abx_path_join(tree, "mine");
    assert_int_equal(mkdir(tree, 0755), 0);
    assert_int_equal(mkdir(foreign, 0755), 0);
    kit_write(file, "");
    kit_write(mine, "");
    if (geteuid() == 0) {
        assert_int_equal(chown(tree, KIT_USER, KIT_USER), 0);
        assert_int_equal(kit_as_user(dir, remove_foreign, dir), 0);
    } /* an ordinary user cannot make a folder of somebody else's */
    kit_drop(dir);
}

static void time_that_is_over_leaves_the_rest(void **state)
{
    char *dir = kit_folder();
    ABX_AUTO_FREE char *tree = abx_path_join(dir, "tree");
    int calls = 1, rc;
    assert_int_equal(mkdir(tree, 0755), 0);
    for (int i = 0; i < 1000; i++) {
        ABX_AUTO_FREE char *file = abx_format("%s/%d", tree, i);
        kit_write(file, "");
    }
    while ((rc = abx_remove_tree_until(AT_FDCWD, tree, 0, NULL)) == 1 && calls < 1000) {
        assert_true(is_there(tree));
        calls++;
    }
    assert_int_equal(rc, 0);
    assert_true(calls > 5);
    assert_false(is_there(tree));
    kit_drop(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_tree_is_success),
        cmocka_unit_test(file_instead_of_a_tree_is_removed),
        cmocka_unit_test(links_are_removed_and_not_followed),
        cmocka_unit_test(link_in_place_of_the_tree_is_removed_alone),
        cmocka_unit_test(ten_thousand_files_go),
        cmocka_unit_test(two_thousand_levels_go),
        cmocka_unit_test(closed_folders_are_opened_by_their_owner),
        cmocka_unit_test(levels_need_no_descriptor_each),
        cmocka_unit_test(names_that_stand_in_the_way_do_not_stop_it),
        cmocka_unit_test(error_is_told_and_the_rest_is_removed),
        cmocka_unit_test(time_that_is_over_leaves_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
