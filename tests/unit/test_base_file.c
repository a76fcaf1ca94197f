/* Paths, folders, whole reads with a limit, atomic writes. */
#include "kit.h"

#include <signal.h>
#include <dirent.h>
#include <sys/resource.h>

static void paths_are_joined_and_split(void **state)
{
    static const struct {
        const char *dir, *name, *whole;
    } joins[] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"/a/b", "c/d", "/a/b/c/d"}};
    for (size_t i = 0; i < ABX_COUNT(joins); i++) {
        ABX_AUTO_FREE char *whole = abx_path_join(joins[i].dir, joins[i].name);
        assert_string_equal(whole, joins[i].whole);
    }
    static const struct {
        const char *path, *dir, *base;
    } splits[] = {
        {"a", ".", "a"}, {"/a", "/", "a"}, {"/a/b", "/a", "b"}, {"a/", "a", ""}, {"", ".", ""}};
    for (size_t i = 0; i < ABX_COUNT(splits); i++) {
        ABX_AUTO_FREE char *dir = abx_path_dir(splits[i].path);
        assert_string_equal(dir, splits[i].dir);
        assert_string_equal(abx_path_base(splits[i].path), splits[i].base);
    }
}

static void folders_on_the_way_are_made(void **state)
{
    char *dir = kit_folder();
    ABX_AUTO_ERROR err = NULL;
    ABX_AUTO_FREE char *path = abx_format("%s/a b//c/d/", dir);
    struct stat st;
    assert_int_equal(abx_make_dirs(path, 0700, &err), 0);
    assert_int_equal(abx_make_dirs(path, 0700, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(abx_make_dirs("/", 0700, &err), 0);
    kit_drop(dir);
}

static void file_in_the_way_of_a_folder_is_an_error(void **state)
{
    char *dir = kit_folder();
    abx_error *err = NULL;
    ABX_AUTO_FREE char *file = abx_path_join(dir, "file");
    ABX_AUTO_FREE char *below = abx_path_join(file, "x");
    kit_write(file, "");
    assert_int_equal(abx_make_dirs(file, 0700, &err), -1);
    assert_fails(err, FILE);
    assert_int_equal(abx_make_dirs(below, 0700, &err), -1);
    assert_fails(err, FILE);
    assert_int_equal(abx_make_dirs("", 0700, &err), -1);
    assert_fails(err, FILE);
    kit_drop(dir);
}

static void reads_within_the_limit_are_whole(void **state)
{
    char *dir = kit_folder();
    ABX_AUTO_ERROR err = NULL;
    ABX_AUTO_FREE char *path = abx_path_join(dir, "f");
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 65536, 100000};
    for (size_t i = 0; i < ABX_COUNT(sizes); i++) {
        ABX_AUTO_FREE char *text = abx_alloc(sizes[i] + 1);
        memset(text, 'a' + (int)i, sizes[i]);
        kit_write(path, text);
        ABX_AUTO_BUF b = ABX_BUF(0);
        assert_int_equal(abx_read_file(path, sizes[i], &b, &err), 0);
        assert_int_equal(b.len, sizes[i]);
        assert_string_equal(abx_buf_cstr(&b), text);
        abx_buf_clear(&b);
        assert_int_equal(abx_read_file(path, sizes[i] + 5000, &b, &err), 0);
        assert_int_equal(b.len, sizes[i]);
    }
    kit_drop(dir);
}

static void longer_file_than_the_limit_is_an_error(void **state)
{
    char *dir = kit_folder();
    abx_error *err = NULL;
    ABX_AUTO_FREE char *path = abx_path_join(dir, "f");
    ABX_AUTO_BUF b = ABX_BUF(0);
    kit_write(path, "0123456789");
    assert_int_equal(abx_read_file(path, 9, &b, &err), -1);
    assert_fails(err, TOO_LARGE);
    assert_int_equal(abx_read_file(path, 0, &b, &err), -1);
    assert_fails(err, TOO_LARGE);
    assert_int_equal(abx_read_file("/dev/zero", 100000, &b, &err), -1);
    assert_fails(err, TOO_LARGE);
    assert_null(b.data);
    kit_drop(dir);
}

static void files_without_a_size_are_read(void **state)
{
    ABX_AUTO_ERROR err = NULL;
    ABX_AUTO_BUF b = ABX_BUF(0);
    assert_int_equal(abx_read_file("/proc/self/status", 1 << 20, &b, &err), 0);
    assert_non_null(strstr(abx_buf_cstr(&b), "Uid:"));
    abx_buf_clear(&b);
    assert_int_equal(abx_read_file("/dev/null", 0, &b, &err), 0);
    assert_string_equal(abx_buf_cstr(&b), "");
}

static void absent_file_is_no_error(void **state)
{
    char *dir = kit_folder();
    ABX_AUTO_ERROR err = NULL;
    ABX_AUTO_BUF b = ABX_BUF(0);
    ABX_AUTO_FREE char *path = abx_path_join(dir, "f");
    ABX_AUTO_FREE char *below = abx_path_join(path, "x");
    assert_int_equal(abx_read_file(path, 10, &b, &err), 1);
    kit_write(path, "");
    assert_int_equal(abx_read_file(below, 10, &b, &err), 1);
    assert_null(err);
    kit_drop(dir);
}

static void folder_instead_of_a_file_is_an_error(void **state)
{
    abx_error *err = NULL;
    ABX_AUTO_BUF b = ABX_BUF(0);
    assert_int_equal(abx_read_file("/tmp", 10, &b, &err), -1);
    assert_non_null(strstr(abx_error_text(err), "is a folder"));
    assert_fails(err, FILE);
}

static void pipe_without_a_writer_does_not_block(void **state)
{
    char *dir = kit_folder();
    ABX_AUTO_ERROR err = NULL;
    ABX_AUTO_BUF b = ABX_BUF(0);
    ABX_AUTO_FREE char *path = abx_path_join(dir, "pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(abx_read_file(path, 10, &b, &err), 0);
    assert_int_equal(b.len, 0);
    kit_drop(dir);
}

static size_t entries_of(const char *path)
{
    DIR *d = opendir(path);
    size_t n = 0;
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static void atomic_write_replaces_content_and_mode(void **state)
{
    char *dir = kit_folder();
    ABX_AUTO_ERROR err = NULL;
    ABX_AUTO_FREE char *path = abx_path_join(dir, "f");
    mode_t mask = umask(077);
    assert_int_equal(abx_write_atomic(path, "old", 3, 0600, false, &err), 0);
    assert_int_equal(abx_write_atomic(path, "new\0x", 5, 0644, true, &err), 0);
    umask(mask);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(st.st_size, 5);
    assert_int_equal(entries_of(dir), 1);
    kit_drop(dir);
}

static void atomic_write_at_a_descriptor(void **state)
{
    char *dir = kit_folder();
    ABX_AUTO_ERROR err = NULL;
    ABX_AUTO_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FREE char *sub = abx_path_join(dir, "sub");
    ABX_AUTO_FREE char *path = abx_path_join(sub, "f");
    assert_int_equal(mkdir(sub, 0700), 0);
    assert_int_equal(abx_write_atomic_at(fd, "sub/f", "hello", 5, 0600, true, &err), 0);
    ABX_AUTO_FREE char *text = kit_read(path);
    assert_string_equal(text, "hello");
    ABX_AUTO_BUF b = ABX_BUF(0);
    assert_int_equal(abx_read_file_at(fd, "sub/f", 5, &b, &err), 0);
    assert_string_equal(abx_buf_cstr(&b), "hello");
    kit_drop(dir);
}

static void link_is_replaced_and_its_target_left_alone(void **state)
{
    char *dir = kit_folder();
    ABX_AUTO_ERROR err = NULL;
    ABX_AUTO_FREE char *target = abx_path_join(dir, "target");
    ABX_AUTO_FREE char *path = abx_path_join(dir, "link");
    kit_write(target, "precious");
    assert_int_equal(symlink("target", path), 0);
    assert_int_equal(abx_write_atomic(path, "x", 1, 0600, false, &err), 0);
    ABX_AUTO_FREE char *text = kit_read(target);
    assert_string_equal(text, "precious");
    kit_drop(dir);
}

/* A limit on the size of files stops the write in its middle. */
static void failing_write_keeps_the_old_content(void **state)
{
    char *dir = kit_folder();
    ABX_AUTO_FREE char *path = abx_path_join(dir, "f");
    kit_write(path, "old");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit limit = {4096, 4096};
        static char big[100000];
        abx_error *err = NULL;
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        int rc = abx_write_atomic(path, big, sizeof big, 0600, true, &err);
        _exit(rc == -1 && err && err->sys_errno == EFBIG ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    ABX_AUTO_FREE char *text = kit_read(path);
    assert_string_equal(text, "old");
    assert_int_equal(entries_of(dir), 1);
    kit_drop(dir);
}

static void full_device_is_no_space(void **state)
{
    abx_error *err = NULL;
    ABX_AUTO_FD fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(abx_write_full(fd, "x", 1), -1);
    abx_fail_errno(&err, ABX_ERR_FILE, errno, "cannot write");
    assert_fails(err, NO_SPACE);
}

static void failing_rename_keeps_what_was_there(void **state)
{
    char *dir = kit_folder();
    abx_error *err = NULL;
    ABX_AUTO_FREE char *path = abx_path_join(dir, "folder");
    ABX_AUTO_FREE char *inside = abx_path_join(path, "f");
    assert_int_equal(mkdir(path, 0700), 0);
    kit_write(inside, "old");
    assert_int_equal(abx_write_atomic(path, "x", 1, 0600, false, &err), -1);
    assert_fails(err, FILE);
    assert_int_equal(entries_of(dir), 1);
    ABX_AUTO_FREE char *text = kit_read(inside);
    assert_string_equal(text, "old");
    kit_drop(dir);
}

static int write_in_read_only_folder(const char *path)
{
    abx_error *err = NULL;
    if (abx_write_atomic(path, "new", 3, 0600, true, &err) != -1)
        return 1;
    if (!err || err->id != ABX_ERR_FILE || err->sys_errno != EACCES)
        return 2;
    if (!strstr(err->message, path))
        return 3;
    return 0;
}

static void read_only_folder_keeps_the_old_content(void **state)
{
    char *dir = kit_folder();
    ABX_AUTO_FREE char *path = abx_path_join(dir, "f");
    kit_write(path, "old");
    assert_int_equal(chmod(dir, 0555), 0);
    assert_int_equal(kit_as_user(dir, write_in_read_only_folder, path), 0);
    ABX_AUTO_FREE char *text = kit_read(path);
    assert_string_equal(text, "old");
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(entries_of(dir), 1);
    kit_drop(dir);
}

static int read_forbidden(const char *path)
{
    abx_error *err = NULL;
    abx_buf b = ABX_BUF(0);
    return abx_read_file(path, 10, &b, &err) == -1 && err && err->sys_errno == EACCES ? 0 : 1;
}

static void unreadable_file_is_an_error_and_not_absent(void **state)
{
    char *dir = kit_folder();
    ABX_AUTO_FREE char *path = abx_path_join(dir, "f");
    kit_write(path, "x");
    assert_int_equal(chmod(path, 0), 0);
    assert_int_equal(kit_as_user(dir, read_forbidden, path), 0);
    kit_drop(dir);
}

static void missing_folder_is_an_error_of_writing(void **state)
{
    abx_error *err = NULL;
    assert_int_equal(abx_write_atomic("/nonexistent/x/f", "x", 1, 0600, false, &err), -1);
    assert_fails(err, FILE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_joined_and_split),
        cmocka_unit_test(folders_on_the_way_are_made),
        cmocka_unit_test(file_in_the_way_of_a_folder_is_an_error),
        cmocka_unit_test(reads_within_the_limit_are_whole),
        cmocka_unit_test(longer_file_than_the_limit_is_an_error),
        cmocka_unit_test(files_without_a_size_are_read),
        cmocka_unit_test(absent_file_is_no_error),
        cmocka_unit_test(folder_instead_of_a_file_is_an_error),
        cmocka_unit_test(pipe_without_a_writer_does_not_block),
        cmocka_unit_test(atomic_write_replaces_content_and_mode),
        cmocka_unit_test(atomic_write_at_a_descriptor),
        cmocka_unit_test(link_is_replaced_and_its_target_left_alone),
        cmocka_unit_test(failing_write_keeps_the_old_content),
        cmocka_unit_test(full_device_is_no_space),
        cmocka_unit_test(failing_rename_keeps_what_was_there),
        cmocka_unit_test(read_only_folder_keeps_the_old_content),
        cmocka_unit_test(unreadable_file_is_an_error_and_not_absent),
        cmocka_unit_test(missing_folder_is_an_error_of_writing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
