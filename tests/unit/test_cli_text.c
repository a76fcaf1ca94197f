/* What the command line prints: tables, event lines, errors, exit codes, names in sandboxes. */
#include "kit.h"

#include <limits.h>
#include <signal.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "doors/cli/jobs.h"
#include "doors/cli/cli.h"
#include "doors/cli/details.h"
#include "doors/cli/errors.h"
#include "doors/cli/event_lines.h"
#include "doors/cli/file_text.h"
#include "doors/cli/remote_path.h"
#include "doors/cli/safe_place.h"
#include "doors/cli/session.h"
#include "doors/cli/signals.h"
#include "doors/cli/table.h"

/* --- tables -------------------------------------------------------------------------------------------- */

static char *table(size_t width)
{
    static const char *const headers[] = {"ID", "NAME", "COMMAND", NULL};
    abx_table t;
    abx_table_init(&t, headers);
    abx_table_add(&t,
                  (const char *const[]){"abcdefghijkl", NULL,
                                        "sh -c 'a long command \xc3\xa4\xc3\xb6 of many words'"});
    abx_table_add(&t, (const char *const[]){"b", "na\x1b[31mme", "new\nline"});
    abx_buf out = ABX_BUF(100000);
    abx_table_write(&t, width, &out);
    abx_table_clear(&t);
    return abx_buf_take(&out);
}

static void columns_are_aligned_and_empty_is_a_dash(void **state)
{
    ABX_AUTO_FREE char *text = table(0);
    assert_string_equal(
        text, "ID            NAME          COMMAND\n"
              "abcdefghijkl  -             sh -c 'a long command \xc3\xa4\xc3\xb6 of many words'\n"
              "b             na\\x1b[31mme  new\\nline\n");
}

static void a_narrow_terminal_cuts_the_widest_but_never_the_first(void **state)
{
    for (size_t width = 36; width <= 70; width++) {
        ABX_AUTO_FREE char *text = table(width);
        assert_non_null(strstr(text, "abcdefghijkl"));
        assert_true(abx_utf8_valid(text, strlen(text)));
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
            assert_true(abx_utf8_columns(line) <= width);
    }
    ABX_AUTO_FREE char *tiny = table(10);
    assert_non_null(strstr(tiny, "abcdefghijkl"));
    ABX_AUTO_FREE char *wide = table(200), *whole = table(0);
    assert_string_equal(wide, whole);
}

static const char *last_of(const char *json)
{
    static char id[8];
    ABX_AUTO_JSON d = abx_json_parse(json, strlen(json), ABX_ERR_INTERNAL, "the list", NULL);
    yyjson_val *last = abx_jobs_last_background(yyjson_doc_get_root(d));
    snprintf(id, sizeof(id), "%s", abx_json_str(last, "id", "-"));
    return id;
}

static void last_job_is_found_by_order_and_time(void **state)
{
    /* in the order of starts, while the clock was set back */
    assert_string_equal(
        last_of("[{\"id\":\"a\",\"background\":true,\"startedAt\":\"2026-01-01T00:00:05Z\"},"
                "{\"id\":\"b\",\"background\":true,\"startedAt\":\"2026-01-01T00:00:04.990Z\"},"
                "{\"id\":\"c\",\"background\":false,\"startedAt\":\"2026-01-01T00:00:09Z\"}]"),
        "b");
    /* in no order */
    assert_string_equal(
        last_of("[{\"id\":\"a\",\"background\":true,\"startedAt\":\"2026-01-01T00:01:00Z\"},"
                "{\"id\":\"b\",\"background\":true,\"startedAt\":\"2026-01-01T00:00:30.5Z\"}]"),
        "a");
    assert_string_equal(last_of("[]"), "-");
}

static void small_questions_do_not_wait_for_ever(void **state)
{
    abx_cli cli = {.deadline = ABX_FOREVER};
    static const abx_op_id small[] = {ABX_OP_PROCESS_LIST,
                                      ABX_OP_PROCESS_SIGNAL,
                                      ABX_OP_FS_STAT,
                                      ABX_OP_FS_LIST,
                                      ABX_OP_FS_MAKE_DIR,
                                      ABX_OP_FS_RENAME,
                                      ABX_OP_SANDBOX_SET_TIMEOUT};
    static const abx_op_id large[] = {ABX_OP_PROCESS_START, ABX_OP_FS_READ,  ABX_OP_FS_WRITE,
                                      ABX_OP_FS_WATCH,      ABX_OP_PTY_OPEN, ABX_OP_SANDBOX_CREATE};
    for (size_t i = 0; i < ABX_COUNT(small); i++)
        assert_int_equal(abx_cli_time_for(&cli, small[i]), 60000);
    for (size_t i = 0; i < ABX_COUNT(large); i++)
        assert_true(abx_cli_time_for(&cli, large[i]) == ABX_FOREVER);
    cli.deadline = abx_now_mono_ms() + 3600000; /* --wait-timeout counts for all */
    assert_true(abx_cli_time_for(&cli, ABX_OP_FS_STAT) > 60000);
    assert_true(abx_cli_time_for(&cli, ABX_OP_FS_READ) <= 3600000);
    cli.deadline = 0; /* it has passed */
    assert_int_equal(abx_cli_time_for(&cli, ABX_OP_FS_STAT), 1);
}

/* --- event lines --------------------------------------------------------------------------------------- */

static void text_is_never_split_inside_a_character(void **state)
{
    ABX_AUTO_BUF out = ABX_BUF(10000);
    abx_utf8_tail tail = {{0}, 0};
    abx_event_bytes(&out, "stdout", (const uint8_t *)"a\xe2", 2, &tail);
    abx_event_bytes(&out, "stdout", (const uint8_t *)"\x82", 1, &tail);
    abx_event_bytes(&out, "stdout",
                    (const uint8_t *)"\xac"
                                     "b",
                    2, &tail);
    abx_event_tail(&out, "stdout", &tail);
    assert_string_equal(abx_buf_cstr(&out), "{\"type\":\"stdout\",\"text\":\"a\"}\n"
                                            "{\"type\":\"stdout\",\"text\":\"\xe2\x82\xac"
                                            "b\"}\n");
}

static void other_bytes_are_base64(void **state)
{
    ABX_AUTO_BUF out = ABX_BUF(10000);
    abx_utf8_tail tail = {{0}, 0};
    abx_event_bytes(&out, "stderr", (const uint8_t *)"\xff\x00", 2, &tail);
    abx_event_bytes(&out, "stderr", (const uint8_t *)"\xe2\x82", 2, &tail);
    abx_event_tail(&out, "stderr", &tail);
    assert_string_equal(abx_buf_cstr(&out), "{\"type\":\"stderr\",\"base64\":\"/wA=\"}\n"
                                            "{\"type\":\"stderr\",\"base64\":\"4oI=\"}\n");
}

static void every_cut_of_a_text_gives_the_same_text(void **state)
{
    static const char text[] = "x\xc3\xa4y\xe2\x82\xacz\xf0\x9f\x98\x80.\"\\\n";
    size_t n = sizeof text - 1;
    for (size_t cut = 0; cut <= n; cut++) {
        ABX_AUTO_BUF out = ABX_BUF(10000);
        ABX_AUTO_BUF joined = ABX_BUF(10000);
        abx_utf8_tail tail = {{0}, 0};
        abx_event_bytes(&out, "stdout", (const uint8_t *)text, cut, &tail);
        abx_event_bytes(&out, "stdout", (const uint8_t *)text + cut, n - cut, &tail);
        assert_int_equal(tail.n, 0);
        char *save = NULL;
        for (char *line = strtok_r((char *)out.data, "\n", &save); line;
             line = strtok_r(NULL, "\n", &save)) {
            ABX_AUTO_JSON d = abx_json_parse(line, strlen(line), ABX_ERR_INTERNAL, "line", NULL);
            assert_non_null(d);
            assert_int_equal(
                abx_buf_add_str(&joined, abx_json_str(yyjson_doc_get_root(d), "text", "?")), 0);
        }
        assert_string_equal(abx_buf_cstr(&joined), text);
    }
}

/* --- errors -------------------------------------------------------------------------------------------- */

static char *shown(const abx_error *e, const abx_error_style *style)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    abx_error_print(out, e, style);
    fclose(out);
    return text;
}

static void an_error_is_one_block(void **state)
{
    ABX_AUTO_ERROR e = abx_error_new(ABX_ERR_SANDBOX_NOT_FOUND, "no sandbox '%s'", "a\x1b[2Jb\nc");
    ABX_AUTO_FREE char *text = shown(e, &(abx_error_style){.tell_code = true});
    assert_string_equal(text, "error: no sandbox 'a\\x1b[2Jb\\nc'\n"
                              "hint: 'abx ls' lists the sandboxes\n"
                              "code: E3001 (SandboxNotFoundError)\n"
                              "exitCode: 3\n");
    ABX_AUTO_FREE char *color = shown(e, &(abx_error_style){.color = true});
    assert_non_null(strstr(color, "\033[1;31merror:\033[0m no sandbox"));
}

static void an_error_is_one_json_object(void **state)
{
    ABX_AUTO_ERROR e = abx_error_new(ABX_ERR_TIMEOUT, "late");
    ABX_AUTO_FREE char *text = shown(e, &(abx_error_style){.json = true});
    ABX_AUTO_JSON d = abx_json_parse(text, strlen(text), ABX_ERR_INTERNAL, "error", NULL);
    yyjson_val *inner = abx_json_get(yyjson_doc_get_root(d), "error");
    assert_string_equal(abx_json_str(inner, "code", ""), "E5001");
    assert_string_equal(abx_json_str(inner, "message", ""), "late");
    assert_int_equal(abx_json_int(inner, "exitCode", 0), 9);
    assert_true(abx_json_bool(inner, "retryable", false));
    assert_int_equal(strchr(text, '\n') - text, (long)strlen(text) - 1);
}

static void exit_codes_of_failures(void **state)
{
    for (int i = 0; i < ABX_ERR_COUNT; i++) {
        abx_error e = {.id = (abx_err_id)i, .message = (char[]){"x"}};
        int row = abx_err_row_of(e.id)->exit_code;
        assert_int_equal(abx_exit_code_of(&e, false, true, 0), row);
        if (i != ABX_ERR_START_FAILED && i != ABX_ERR_CANCELLED)
            assert_int_equal(abx_exit_code_of(&e, true, true, 0), 125);
    }
    abx_error e = {.id = ABX_ERR_START_FAILED, .sys_errno = ENOENT, .message = (char[]){"x"}};
    assert_int_equal(abx_exit_code_of(&e, true, true, 0), 127);
    e.sys_errno = EACCES;
    assert_int_equal(abx_exit_code_of(&e, true, true, 0), 126);
    e.id = ABX_ERR_USAGE;
    assert_int_equal(abx_exit_code_of(&e, true, false, 0), 2);
    assert_int_equal(abx_exit_code_of(&e, true, true, 0), 125);
    e.id = ABX_ERR_CANCELLED;
    assert_int_equal(abx_exit_code_of(&e, true, true, SIGTERM), 143);
    assert_int_equal(abx_exit_code_of(&e, false, true, SIGHUP), 129);
}

static void codes_of_processes(void **state)
{
    static const struct {
        const char *json;
        int code;
    } rows[] = {{"{\"exitCode\":0}", 0},
                {"{\"exitCode\":255}", 255},
                {"{\"signal\":\"SIGKILL\"}", 137},
                {"{\"signal\":\"SIGTERM\"}", 143},
                {"{\"signal\":\"SIGKILL\",\"timedOut\":true}", 124},
                {"{}", -1}};
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        ABX_AUTO_JSON d =
            abx_json_parse(rows[i].json, strlen(rows[i].json), ABX_ERR_INTERNAL, "x", NULL);
        assert_int_equal(abx_process_code(yyjson_doc_get_root(d)), rows[i].code);
    }
}

static void names_of_signals(void **state)
{
    assert_int_equal(abx_signal_number("TERM"), SIGTERM);
    assert_int_equal(abx_signal_number("sigusr1"), SIGUSR1);
    assert_int_equal(abx_signal_number("9"), 9);
    assert_int_equal(abx_signal_number("RTMIN+3"), 37);
    assert_int_equal(abx_signal_number("NOSUCH"), -1);
    assert_int_equal(abx_signal_number("99"), -1);
    assert_int_equal(abx_signal_number("0"), -1);
    assert_int_equal(abx_signal_number(""), -1);
    assert_string_equal(abx_signal_name(SIGINT), "INT");
}

/* --- names --------------------------------------------------------------------------------------------- */

static void words_that_name_a_path_in_a_sandbox(void **state)
{
    static const struct {
        const char *word, *sandbox, *path;
    } rows[] = {{"box:/x", "box", "/x"},  {"box:", "box", "."},   {"box:a:b", "box", "a:b"},
                {"./a:b", NULL, "./a:b"}, {"/a:b", NULL, "/a:b"}, {"plain", NULL, "plain"},
                {":x", NULL, ":x"},       {"", NULL, ""}};
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        ABX_AUTO_REMOTE p;
        abx_remote_path_init(&p, rows[i].word);
        assert_string_equal(p.path, rows[i].path);
        if (rows[i].sandbox)
            assert_string_equal(p.sandbox, rows[i].sandbox);
        else
            assert_null(p.sandbox);
    }
    abx_error *err = NULL;
    ABX_AUTO_REMOTE bare;
    assert_int_equal(abx_remote_path_parse(&bare, "box", true, &err), 0);
    assert_string_equal(bare.sandbox, "box");
    ABX_AUTO_REMOTE local;
    assert_int_equal(abx_remote_path_parse(&local, "/tmp/x", false, &err), -1);
    assert_fails(err, USAGE);
}

static void foreign_names_stay_inside(void **state)
{
    static const char *const bad[] = {"/etc/passwd", "..", "../x", "a/../../x", "a/..", "/", "//x"};
    for (size_t i = 0; i < ABX_COUNT(bad); i++) {
        abx_error *err = NULL;
        assert_null(abx_safe_name(bad[i], &err));
        assert_fails(err, FILE);
    }
    char deep[PATH_MAX + 1];
    for (size_t i = 0; i < PATH_MAX; i++)
        deep[i] = i % 2 ? '/' : 'd';
    deep[PATH_MAX] = 0;
    abx_error *err = NULL;
    assert_null(abx_safe_name(deep, &err));
    assert_fails(err, FILE);
    deep[PATH_MAX - 1] = 0;
    ABX_AUTO_FREE char *longest = abx_safe_name(deep, NULL);
    assert_string_equal(longest, deep);
    static const char *const good[][2] = {
        {"./a//b/./c/", "a/b/c"}, {".", ""}, {"./", ""}, {"", ""}, {"...", "..."},
        {"..a/b..", "..a/b.."}};
    for (size_t i = 0; i < ABX_COUNT(good); i++) {
        ABX_AUTO_FREE char *name = abx_safe_name(good[i][0], NULL);
        assert_string_equal(name, good[i][1]);
    }
}

static void links_on_the_way_are_not_followed(void **state)
{
    ABX_AUTO_FREE char *folder = kit_folder();
    int root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(symlinkat("/tmp", root, "out"), 0);
    const char *base = NULL;
    assert_int_equal(abx_safe_parent(root, "out/x", true, &base), -1);
    int fd = abx_safe_parent(root, "a/b/x", true, &base);
    assert_true(fd >= 0);
    assert_string_equal(base, "x");
    close(fd);
    assert_int_equal(abx_safe_parent(root, "none/x", false, &base), -1);
    close(root);
    assert_int_equal(abx_remove_tree_at(AT_FDCWD, folder, NULL), 0);
}

static void a_file_as_text(void **state)
{
    static const char json[] =
        "{\"name\":\"l\",\"path\":\"/a/l\",\"type\":\"dir\",\"mode\":1005,\"target\":\"t\"}";
    ABX_AUTO_JSON d = abx_json_parse(json, strlen(json), ABX_ERR_INTERNAL, "x", NULL);
    char mode[11];
    abx_file_mode_text(yyjson_doc_get_root(d), mode);
    assert_string_equal(mode, "drwxr-xr-t");
    ABX_AUTO_FREE char *name = abx_file_name_text(yyjson_doc_get_root(d), false);
    assert_string_equal(name, "l -> t");
}

static void details_are_lines(void **state)
{
    static const char json[] = "{\"id\":\"x\",\"features\":{\"pty\":\"native\"},\"list\":[1,\"a\"],"
                               "\"none\":{},\"bad\":\"\\u001b\"}";
    ABX_AUTO_JSON d = abx_json_parse(json, strlen(json), ABX_ERR_INTERNAL, "x", NULL);
    ABX_AUTO_BUF out = ABX_BUF(10000);
    abx_details(yyjson_doc_get_root(d), &out);
    assert_string_equal(abx_buf_cstr(&out), "id:           x\n"
                                            "features.pty: native\n"
                                            "list:         1, a\n"
                                            "none:         -\n"
                                            "bad:          \\x1b\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_aligned_and_empty_is_a_dash),
        cmocka_unit_test(a_narrow_terminal_cuts_the_widest_but_never_the_first),
        cmocka_unit_test(last_job_is_found_by_order_and_time),
        cmocka_unit_test(small_questions_do_not_wait_for_ever),
        cmocka_unit_test(text_is_never_split_inside_a_character),
        cmocka_unit_test(other_bytes_are_base64),
        cmocka_unit_test(every_cut_of_a_text_gives_the_same_text),
        cmocka_unit_test(an_error_is_one_block),
        cmocka_unit_test(an_error_is_one_json_object),
        cmocka_unit_test(exit_codes_of_failures),
        cmocka_unit_test(codes_of_processes),
        cmocka_unit_test(names_of_signals),
        cmocka_unit_test(words_that_name_a_path_in_a_sandbox),
        cmocka_unit_test(foreign_names_stay_inside),
        cmocka_unit_test(links_on_the_way_are_not_followed),
        cmocka_unit_test(a_file_as_text),
        cmocka_unit_test(details_are_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
