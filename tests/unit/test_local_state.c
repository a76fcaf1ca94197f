/* What is written down about a sandbox, and words of command lines. */
#include "kit.h"

#include <signal.h>

#include "local/ids.h"
#include "local/layers.h"
#include "local/starter.h"
#include "local/starter_message.h"
#include "local/state.h"

static int open_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void a_state_comes_back_as_it_was_written(void **state)
{
    char *dir = kit_folder();
    ABX_AUTO_FD fd = open_folder(dir);
    yyjson_mut_val *o;
    ABX_AUTO_MUT d = abx_mut_new(&o);
    abx_mut_str(d, o, "k", "v \"x\"");
    abx_state s = {.id = abx_strdup("aaaaaaaaaaaaaaaa"),
                   .name = abx_strdup("n"),
                   .pid = 77,
                   .start = 123456789012,
                   .boot_id = "b",
                   .pid_ns = 4026531836,
                   .ids = ABX_IDS_SLOT,
                   .uid = 0x70000000 + 1000,
                   .slot = 5,
                   .skeleton = "0123456789abcdef",
                   .token = abx_strdup("t"),
                   .created_wall_ms = 1,
                   .expires_wall_ms = 2,
                   .expires_boot_ms = 3,
                   .tied = true,
                   .plain_usr = true,
                   .weakened = ABX_LAYER_BIT(ABX_LAYER_NET),
                   .metadata = abx_json_freeze(d)};
    assert_int_equal(abx_state_write(fd, &s, NULL), 0);
    struct stat st;
    assert_int_equal(fstatat(fd, "state.json", &st, 0), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    ABX_AUTO_STATE back;
    assert_int_equal(abx_state_read(fd, &back, NULL), 0);
    assert_string_equal(back.id, s.id);
    assert_string_equal(back.name, "n");
    assert_null(back.idempotency_key);
    assert_int_equal(back.pid, 77);
    assert_true(back.start == s.start && back.pid_ns == s.pid_ns && back.uid == s.uid);
    assert_int_equal(back.ids, ABX_IDS_SLOT);
    assert_int_equal(back.slot, 5);
    assert_string_equal(back.token, "t");
    assert_int_equal(back.expires_wall_ms, 2);
    assert_int_equal(back.expires_boot_ms, 3);
    assert_true(back.tied && back.plain_usr && !back.copied_root);
    assert_int_equal(back.weakened, s.weakened);
    assert_string_equal(abx_json_str(yyjson_doc_get_root(back.metadata), "k", ""), "v \"x\"");
    abx_state_clear(&s);
    kit_drop(dir);
}

static void a_broken_state_is_an_error_and_none_is_not(void **state)
{
    char *dir = kit_folder();
    ABX_AUTO_FD fd = open_folder(dir);
    ABX_AUTO_FREE char *path = abx_path_join(dir, "state.json");
    static const char *const broken[] = {"{", "[]", "{\"id\":\"a\"}", "{\"id\":1,\"pid\":\"x\"}"};
    abx_error *err = NULL;
    abx_state s;
    assert_int_equal(abx_state_read(fd, &s, &err), 1);
    assert_null(err);
    kit_write(path, ""); /* it is just being written */
    assert_int_equal(abx_state_read(fd, &s, &err), 1);
    for (size_t i = 0; i < ABX_COUNT(broken); i++) {
        kit_write(path, broken[i]);
        assert_int_equal(abx_state_read(fd, &s, &err), -1);
        assert_fails(err, LOCAL_STATE);
    }
    kit_drop(dir);
}

static void a_process_is_known_by_its_start_and_boot(void **state)
{
    bool is_zombie = true;
    abx_state s = {.pid = getpid()};
    assert_int_equal(abx_process_start(getpid(), &s.start, &is_zombie), 0);
    assert_false(is_zombie);
    abx_boot_id(s.boot_id);
    assert_int_equal(strlen(s.boot_id), 36);
    int fd = abx_state_pidfd(&s);
    assert_true(fd >= 0);
    close(fd);
    s.start++;
    assert_int_equal(abx_state_pidfd(&s), -1);
    s.start--;
    s.boot_id[0] ^= 1;
    assert_int_equal(abx_state_pidfd(&s), -1);
}

static void a_zombie_is_told(void **state)
{
    uint64_t start;
    bool is_zombie = false;
    siginfo_t info;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(abx_process_start(pid, &start, &is_zombie), 0);
    assert_true(is_zombie);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(abx_process_start(pid, &start, &is_zombie), -1);
}

static void check_words(const char *line, const char *const *want)
{
    char **words = abx_words_split(line, NULL);
    assert_non_null(words);
    size_t i = 0;
    for (; want[i]; i++) {
        assert_non_null(words[i]);
        assert_string_equal(words[i], want[i]);
    }
    assert_null(words[i]);
    abx_words_free(words);
}

static void command_lines_are_split_as_a_shell_does(void **state)
{
    check_words(" a  b\tc\n", (const char *const[]){"a", "b", "c", NULL});
    check_words("'a b' \"c d\" e\\ f", (const char *const[]){"a b", "c d", "e f", NULL});
    check_words("a'b'\"c\"d ''", (const char *const[]){"abcd", "", NULL});
    check_words("'\\n' \"\\n\\\"\\$x\"", (const char *const[]){"\\n", "\\n\"$x", NULL});
    check_words("$HOME `x` ;", (const char *const[]){"$HOME", "`x`", ";", NULL});
    check_words("a\\\nb", (const char *const[]){"ab", NULL});
}

static void open_quotes_and_empty_lines_are_errors(void **state)
{
    static const char *const bad[] = {"'a", "\"a", "a\\", "", "  \t"};
    for (size_t i = 0; i < ABX_COUNT(bad); i++) {
        abx_error *err = NULL;
        assert_null(abx_words_split(bad[i], &err));
        assert_fails(err, CONFIG);
    }
}

static void a_request_to_the_starter_comes_through(void **state)
{
    const char *weaker[] = {"net", "seccomp"};
    abx_local_spec spec = {.id = "aaaaaaaaaaaaaaaa",
                           .name = "n",
                           .timeout_ms = UINT64_MAX,
                           .with_root = true,
                           .tied = true,
                           .weaker = weaker,
                           .weaker_count = 2};
    ABX_AUTO_BUF frame = ABX_BUF(ABX_STARTER_MAX);
    ABX_AUTO_BUF part = ABX_BUF(ABX_STARTER_MAX);
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    assert_int_equal(abx_starter_frame(abx_starter_spec(d, &spec), &frame), 0);
    yyjson_mut_doc_free(d);
    ABX_AUTO_JSON doc = NULL;
    for (size_t i = 0; i < frame.len; i++) { /* byte by byte: nothing before the last one */
        assert_int_equal(abx_starter_parse(&part, &doc, NULL), 0);
        assert_int_equal(abx_buf_add_byte(&part, frame.data[i]), 0);
    }
    assert_int_equal(abx_starter_parse(&part, &doc, NULL), 1);
    abx_local_spec back;
    ABX_AUTO_FREE const char **names = NULL;
    abx_starter_read_spec(yyjson_doc_get_root(doc), &back, &names);
    assert_string_equal(back.id, spec.id);
    assert_true(back.timeout_ms == UINT64_MAX && back.with_root && back.tied);
    assert_int_equal(back.weaker_count, 2);
    assert_string_equal(back.weaker[1], "seccomp");
}

static void a_frame_that_is_too_long_is_refused(void **state)
{
    abx_error *err = NULL;
    yyjson_doc *doc = NULL;
    ABX_AUTO_BUF b = ABX_BUF(64);
    assert_int_equal(abx_buf_add(&b, "\xff\xff\xff\xff{}", 6), 0);
    assert_int_equal(abx_starter_parse(&b, &doc, &err), -1);
    assert_fails(err, LOCAL_STATE);
}

static void layers_have_names_and_only_some_can_be_left_out(void **state)
{
    for (int i = 0; i < ABX_LAYER_COUNT; i++)
        assert_int_equal(abx_layer_find(abx_layer_row_of((abx_layer)i)->name), i);
    assert_int_equal(abx_layer_find("nothing"), -1);
    assert_false(abx_layer_row_of(ABX_LAYER_USER)->weaker);
    assert_false(abx_layer_row_of(ABX_LAYER_CAPS)->weaker);
    assert_true(abx_layer_row_of(ABX_LAYER_PROC)->weaker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_comes_back_as_it_was_written),
        cmocka_unit_test(a_broken_state_is_an_error_and_none_is_not),
        cmocka_unit_test(a_process_is_known_by_its_start_and_boot),
        cmocka_unit_test(a_zombie_is_told),
        cmocka_unit_test(command_lines_are_split_as_a_shell_does),
        cmocka_unit_test(open_quotes_and_empty_lines_are_errors),
        cmocka_unit_test(a_request_to_the_starter_comes_through),
        cmocka_unit_test(a_frame_that_is_too_long_is_refused),
        cmocka_unit_test(layers_have_names_and_only_some_can_be_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
