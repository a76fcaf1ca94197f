/* A sandbox from its making to its last file, with the real set-up; also as an ordinary user, under a home of 3,000
 * characters, through the starter, and after kills at any moment. */
#include "kit.h"

#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/id.h"
#include "base/json.h"
#include "local/backend.h"
#include "local/local.h"
#include "local/starter.h"
#include "local/state.h"

typedef struct fixture {
    uv_loop_t loop;
    abx_local *local;
    char id[ABX_ID_LEN + 1];
    yyjson_doc *info;
    int first_fd;
    abx_error *error;
    bool done;
} fixture;

static void on_created(void *data, yyjson_val *info, int first_fd, const abx_error *err)
{
    fixture *f = (fixture *)data;
    f->done = true;
    f->info = info ? abx_json_copy(info) : NULL;
    f->first_fd = first_fd;
    f->error = abx_error_copy(err);
}

static void on_killed(void *data, const abx_error *err)
{
    fixture *f = (fixture *)data;
    f->done = true;
    f->error = abx_error_copy(err);
}

static int begin(fixture *f, const char *home, const char *starter)
{
    memset(f, 0, sizeof(*f));
    f->first_fd = -1;
    if (uv_loop_init(&f->loop) < 0)
        return -1;
    abx_local_options options = {
        .loop = &f->loop, .home = home, .may_fork = !starter, .starter = starter};
    return abx_local_open(&options, &f->local, NULL);
}

static int create(fixture *f, const abx_local_spec *extra)
{
    abx_local_spec spec = *extra;
    abx_random_id(f->id, ABX_ID_LEN);
    spec.id = f->id;
    f->done = false;
    if (abx_local_create(f->local, &spec, on_created, f, &f->error) < 0)
        return -1;
    uv_run(&f->loop, UV_RUN_DEFAULT);
    return f->done && f->info ? 0 : -1;
}

static int end(fixture *f)
{
    abx_error_free(f->error);
    yyjson_doc_free(f->info);
    abx_close_fd(&f->first_fd);
    abx_local_close(f->local);
    uv_run(&f->loop, UV_RUN_DEFAULT); /* a helper of the second way in may still be ending */
    return uv_loop_close(&f->loop);
}

static int kill_it(fixture *f)
{
    f->done = false;
    abx_error_free(ABX_TAKE(f->error));
    if (abx_local_kill(f->local, f->id, on_killed, f, NULL, &f->error) < 0)
        return -1;
    uv_run(&f->loop, UV_RUN_DEFAULT);
    return f->done && !f->error ? 0 : -1;
}

static size_t count_in(const char *home, const char *what)
{
    ABX_AUTO_FREE char *path = abx_format("%s/local/%s", home, what);
    DIR *d = opendir(path);
    size_t n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

/* The remover works in the background. */
static bool is_empty_soon(const char *home)
{
    for (int i = 0; i < 2000; i++) {
        if (count_in(home, "sandboxes") == 0 && count_in(home, "trash") == 0)
            return true;
        poll(NULL, 0, 10);
    }
    return false;
}

static size_t count_listed(fixture *f)
{
    yyjson_doc *d = abx_local_list(f->local, NULL);
    size_t n = yyjson_arr_size(abx_json_get(yyjson_doc_get_root(d), "sandboxes"));
    yyjson_doc_free(d);
    return n;
}

/* --- the course of a life ---------------------------------------------------------------------------- */

/* Returns the number of the step that failed. */
static int life(const char *home)
{
    fixture f;
    if (begin(&f, home, NULL) < 0 || create(&f, &(abx_local_spec){.timeout_ms = 60000}) < 0) {
        fprintf(stderr, "%s\n", abx_error_text(f.error));
        return 1;
    }
    if (f.first_fd < 0 || !abx_json_str(yyjson_doc_get_root(f.info), "expiresAt", NULL))
        return 2;
    yyjson_doc *info = abx_local_info(f.local, f.id, NULL);
    if (!info || count_listed(&f) != 1)
        return 3;
    yyjson_doc_free(info);
    char *token = NULL;
    int fd = abx_local_dial(f.local, f.id, &token, NULL);
    if (fd < 0 || !token || strlen(token) != 64)
        return 4;
    free(token);
    close(fd);
    abx_close_fd(&f.first_fd); /* it is not tied: it lives on */
    if (count_listed(&f) != 1 || kill_it(&f) < 0 || count_listed(&f) != 0)
        return 7;
    if (abx_local_dial(f.local, f.id, NULL, &f.error) >= 0 ||
        f.error->id != ABX_ERR_SANDBOX_NOT_FOUND)
        return 8;
    if (!is_empty_soon(home))
        return 9;
    return end(&f) < 0 ? 10 : 0;
}

static void a_life_as_root_and_as_an_ordinary_user(void **state)
{
    char *a = kit_folder(), *b = kit_folder();
    assert_int_equal(kit_as_user(a, life, a), 0);
    assert_int_equal(life(b), 0);
    kit_drop(a);
    kit_drop(b);
}

static void a_home_of_3000_characters_works(void **state)
{
    char *top = kit_folder();
    ABX_AUTO_FREE char *home = abx_strdup(top);
    while (strlen(home) < 3000) {
        char part[202];
        memset(part, 'x', sizeof(part) - 1);
        part[100] = ' ';
        part[sizeof(part) - 1] = 0;
        char *longer = abx_path_join(home, part);
        free(home);
        home = longer;
    }
    assert_int_equal(abx_make_dirs(home, 0700, NULL), 0);
    assert_int_equal(life(home), 0);
    kit_drop(top);
}

static void a_sandbox_whose_state_is_broken_can_be_ended(void **state)
{
    static const char *const broken[] = {"", "{", "{}"};
    for (size_t i = 0; i < ABX_COUNT(broken); i++) {
        char *home = kit_folder();
        fixture f;
        assert_int_equal(begin(&f, home, NULL), 0);
        assert_int_equal(create(&f, &(abx_local_spec){.timeout_ms = 60000}), 0);
        ABX_AUTO_FREE char *path = abx_format("%s/local/sandboxes/%s/state.json", home, f.id);
        kit_write(path, broken[i]);
        assert_int_equal(kill_it(&f), 0);
        assert_int_equal(end(&f), 0);
        assert_true(is_empty_soon(home));
        kit_drop(home);
    }
}

/* --- isolation as seen from outside ------------------------------------------------------------------ */

static char *proc_text(int pid, const char *name)
{
    ABX_AUTO_FREE char *path = abx_format("/proc/%d/%s", pid, name);
    ABX_AUTO_BUF b = ABX_BUF(1 << 20);
    int rc = abx_read_file(path, b.max, &b, NULL);
    return rc == 0 ? abx_buf_take(&b) : NULL;
}

static void pid_1_holds_nothing_of_its_maker(void **state)
{
    char *home = kit_folder();
    fixture f;
    int secret[2];
    assert_int_equal(pipe(secret), 0); /* inheritable, as a caller's pipe is */
    setenv("ABX_TEST_SECRET", "hunter2", 1);
    assert_int_equal(begin(&f, home, NULL), 0);
    assert_int_equal(create(&f, &(abx_local_spec){.timeout_ms = 60000}), 0);
    int pid = (int)abx_json_int(yyjson_doc_get_root(f.info), "pid", 0);
    ABX_AUTO_FREE char *command = proc_text(pid, "cmdline");
    ABX_AUTO_FREE char *environment = proc_text(pid, "environ");
    ABX_AUTO_FREE char *status = proc_text(pid, "status");
    ABX_AUTO_FREE char *mounts = proc_text(pid, "mountinfo");
    assert_non_null(command);
    assert_string_equal(command, "abx");
    if (environment)
        assert_null(strstr(environment, "hunter2"));
    assert_non_null(strstr(status, "NoNewPrivs:\t1"));
    assert_non_null(strstr(status, "Seccomp:\t2"));
    if (mounts)
        assert_null(strstr(mounts, home));
    close(secret[1]);
    char byte;
    assert_int_equal(read(secret[0], &byte, 1), 0); /* nobody else holds the other end */
    close(secret[0]);
    unsetenv("ABX_TEST_SECRET");
    assert_int_equal(kill_it(&f), 0);
    assert_int_equal(end(&f), 0);
    assert_true(is_empty_soon(home));
    kit_drop(home);
}

static void a_tied_sandbox_ends_with_its_first_connection(void **state)
{
    char *home = kit_folder();
    fixture f;
    assert_int_equal(begin(&f, home, NULL), 0);
    assert_int_equal(create(&f, &(abx_local_spec){.timeout_ms = 60000, .tied = true}), 0);
    assert_int_equal(count_listed(&f), 1);
    abx_close_fd(&f.first_fd);
    for (int i = 0; i < 1000 && count_listed(&f) > 0; i++)
        poll(NULL, 0, 10);
    assert_int_equal(count_listed(&f), 0);
    yyjson_doc_free(abx_local_gc(f.local, false, NULL));
    assert_true(is_empty_soon(home));
    assert_int_equal(end(&f), 0);
    kit_drop(home);
}

/* --- wrong parameters and refused layers ------------------------------------------------------------- */

static void parameters_that_cannot_be_honoured_are_errors(void **state)
{
    char *home = kit_folder();
    fixture f;
    const char *unknown[] = {"everything"}, *firm[] = {"user"};
    assert_int_equal(begin(&f, home, NULL), 0);
    assert_int_equal(create(&f, &(abx_local_spec){.network = "allow:example.com"}), -1);
    assert_fails(f.error, FEATURE_MISSING);
    assert_int_equal(create(&f, &(abx_local_spec){.network = "everything"}), -1);
    assert_fails(f.error, USAGE);
    assert_int_equal(create(&f, &(abx_local_spec){.weaker = unknown, .weaker_count = 1}), -1);
    assert_fails(f.error, USAGE);
    assert_int_equal(create(&f, &(abx_local_spec){.weaker = firm, .weaker_count = 1}), -1);
    assert_fails(f.error, USAGE);
    assert_true(is_empty_soon(home));
    assert_int_equal(end(&f), 0);
    kit_drop(home);
}

/* In a user namespace that may have no others. Steps: 1 to 3 make it, the rest asks. */
static int without_namespaces(const char *home)
{
    char map[64];
    snprintf(map, sizeof(map), "1000 %u 1", (unsigned)geteuid());
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 || unshare(CLONE_NEWUSER) < 0)
        return 1;
    static const char *const files[] = {"/proc/self/setgroups", "/proc/self/uid_map",
                                        "/proc/sys/user/max_user_namespaces"};
    const char *const texts[] = {"deny", map, "0"};
    for (int i = 0; i < 3; i++) {
        int fd = open(files[i], O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, texts[i], strlen(texts[i])) < 0)
            return 2;
        close(fd);
    }
    fixture f;
    if (begin(&f, home, NULL) < 0 || create(&f, &(abx_local_spec){.timeout_ms = 60000}) == 0)
        return 3;
    if (!f.error || f.error->id != ABX_ERR_ISOLATION || !strstr(f.error->message, "layer 'user'") ||
        !f.error->hint || !strstr(f.error->hint, "user.max_user_namespaces"))
        return 4;
    abx_error_free(ABX_TAKE(f.error));
    ABX_AUTO_JSON doctor = abx_local_doctor(f.local, NULL);
    yyjson_val *first = yyjson_arr_get(abx_json_get(yyjson_doc_get_root(doctor), "layers"), 0);
    if (abx_json_bool(first, "ok", true) || !strstr(abx_json_str(first, "fix", ""), "sysctl"))
        return 5;
    if (!is_empty_soon(home))
        return 6;
    return end(&f) < 0 ? 7 : 0;
}

static void no_user_namespaces_is_named_with_the_fix(void **state)
{
    char *home = kit_folder();
    assert_int_equal(kit_as_user(home, without_namespaces, home), 0);
    kit_drop(home);
}

static int doctor_is_well(const char *home)
{
    fixture f;
    if (begin(&f, home, NULL) < 0)
        return 1;
    ABX_AUTO_JSON d = abx_local_doctor(f.local, NULL);
    yyjson_val *layers = abx_json_get(yyjson_doc_get_root(d), "layers"), *layer;
    size_t i, max;
    if (yyjson_arr_size(layers) < 15)
        return 2;
    yyjson_arr_foreach(layers, i, max, layer)
    {
        if (!abx_json_bool(layer, "ok", false) && !abx_json_bool(layer, "optional", false))
            return 3;
    }
    if (!is_empty_soon(home))
        return 4;
    return end(&f) < 0 ? 5 : 0;
}

static void doctor_finds_every_layer_here(void **state)
{
    char *a = kit_folder(), *b = kit_folder();
    assert_int_equal(kit_as_user(a, doctor_is_well, a), 0);
    assert_int_equal(doctor_is_well(b), 0);
    kit_drop(a);
    kit_drop(b);
}

static void a_home_that_cannot_be_written_is_named(void **state)
{
    abx_error *err = NULL;
    fixture f;
    assert_int_equal(begin(&f, "/proc/no-such-folder", NULL), 0);
    assert_int_equal(count_listed(&f), 0);
    assert_int_equal(create(&f, &(abx_local_spec){.timeout_ms = 1}), -1);
    assert_fails(f.error, HOME);
    assert_int_equal(abx_local_dial(f.local, "aaaaaaaaaaaaaaaa", NULL, &err), -1);
    assert_fails(err, SANDBOX_NOT_FOUND);
    assert_int_equal(end(&f), 0);
}

/* --- kills ------------------------------------------------------------------------------------------- */

/* A maker that is killed after about `us` microseconds. */
static void make_and_be_killed(const char *home, unsigned us)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        fixture f;
        if (begin(&f, home, NULL) == 0)
            create(&f, &(abx_local_spec){.timeout_ms = 60000, .tied = true});
        pause();
        _exit(0);
    }
    usleep(us);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void a_killed_maker_leaves_nothing_that_tidy_does_not_clear(void **state)
{
    char *home = kit_folder();
    fixture f;
    for (unsigned i = 0; i < 40; i++)
        make_and_be_killed(home, i * 700);
    assert_int_equal(begin(&f, home, NULL), 0);
    for (int i = 0; i < 1000 && !(count_in(home, "sandboxes") == 0 && count_in(home, "trash") == 0);
         i++) {
        abx_local_tidy(f.local);
        poll(NULL, 0, 10);
    }
    assert_int_equal(count_in(home, "sandboxes"), 0);
    assert_int_equal(count_in(home, "trash"), 0);
    assert_int_equal(end(&f), 0);
    kit_drop(home);
}

static void a_folder_half_made_is_cleared_and_one_being_made_is_not(void **state)
{
    char *home = kit_folder();
    fixture f;
    assert_int_equal(begin(&f, home, NULL), 0);
    assert_int_equal(create(&f, &(abx_local_spec){.timeout_ms = 60000}), 0);
    ABX_AUTO_FREE char *half = abx_format("%s/local/sandboxes/aaaaaaaaaaaaaaaa", home);
    assert_int_equal(mkdir(half, 0700), 0);
    yyjson_doc *dry = abx_local_gc(f.local, true, NULL);
    assert_int_equal(yyjson_arr_size(abx_json_get(yyjson_doc_get_root(dry), "removed")), 1);
    yyjson_doc_free(dry);
    assert_int_equal(count_in(home, "sandboxes"), 2);
    abx_local_tidy(f.local);
    assert_int_equal(count_in(home, "sandboxes"), 1);
    assert_int_equal(count_listed(&f), 1);
    assert_int_equal(kill_it(&f), 0);
    assert_int_equal(end(&f), 0);
    assert_true(is_empty_soon(home));
    kit_drop(home);
}

/* --- hostile leftovers ------------------------------------------------------------------------------- */

static int make_hostile(const char *home)
{
    ABX_AUTO_FREE char *up = abx_format("%s/local/sandboxes/aaaaaaaaaaaaaaaa/up/deep", home);
    char name[256];
    memset(name, 'n', 255);
    name[255] = 0;
    if (abx_make_dirs(up, 0700, NULL) < 0 || chdir(up) < 0)
        return 1;
    for (int i = 0; i < 300; i++)
        if (mkdir(name, 0700) < 0 || chdir(name) < 0)
            return 2;
    if (symlink("/etc", "out") < 0 || mkdir("closed", 0700) < 0 || mkdir("closed/x", 0) < 0 ||
        chmod("closed", 0) < 0 || mkfifo("\n\033[2J", 0) < 0)
        return 3;
    if (chdir(home) < 0)
        return 4;
    fixture f;
    if (begin(&f, home, NULL) < 0)
        return 5;
    yyjson_doc_free(abx_local_gc(f.local, false, NULL));
    if (!is_empty_soon(home))
        return 6;
    return end(&f) < 0 ? 7 : 0;
}

static void hostile_trees_are_removed(void **state)
{
    char *home = kit_folder();
    assert_int_equal(kit_as_user(home, make_hostile, home), 0);
    kit_drop(home);
}

/* --- the second way in ------------------------------------------------------------------------------- */

static char self[4096];

static void the_starter_makes_a_sandbox(void **state)
{
    char *home = kit_folder();
    ABX_AUTO_FREE char *line = abx_format("'%s' --quoted\\ word", self);
    fixture f;
    assert_int_equal(begin(&f, home, line), 0);
    assert_int_equal(create(&f, &(abx_local_spec){.timeout_ms = 60000, .name = "n"}), 0);
    assert_int_equal(f.first_fd, -1);
    assert_string_equal(abx_json_str(yyjson_doc_get_root(f.info), "name", ""), "n");
    int fd = abx_local_dial(f.local, f.id, NULL, NULL);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(kill_it(&f), 0);
    assert_int_equal(end(&f), 0);
    assert_true(is_empty_soon(home));
    kit_drop(home);
}

static void a_tied_sandbox_of_the_starter_is_tied_to_us(void **state)
{
    char *home = kit_folder();
    ABX_AUTO_FREE char *line = abx_format("'%s'", self);
    fixture f;
    assert_int_equal(begin(&f, home, line), 0);
    assert_int_equal(create(&f, &(abx_local_spec){.timeout_ms = 60000, .tied = true}), 0);
    assert_true(f.first_fd >= 0);
    assert_int_equal(count_listed(&f), 1);
    abx_close_fd(&f.first_fd);
    for (int i = 0; i < 1000 && count_listed(&f) > 0; i++)
        poll(NULL, 0, 10);
    assert_int_equal(count_listed(&f), 0);
    yyjson_doc_free(abx_local_gc(f.local, false, NULL));
    assert_true(is_empty_soon(home));
    assert_int_equal(end(&f), 0);
    kit_drop(home);
}

static void the_starters_errors_come_through(void **state)
{
    char *home = kit_folder();
    ABX_AUTO_FREE char *line = abx_format("'%s'", self);
    fixture f;
    assert_int_equal(begin(&f, home, line), 0);
    assert_int_equal(create(&f, &(abx_local_spec){.network = "allow:example.com"}), -1);
    assert_fails(f.error, FEATURE_MISSING);
    assert_int_equal(end(&f), 0);
    assert_int_equal(begin(&f, home, "/bin/true"), 0);
    assert_int_equal(create(&f, &(abx_local_spec){.timeout_ms = 1}), -1);
    assert_fails(f.error, LOCAL_STATE);
    assert_int_equal(end(&f), 0);
    kit_drop(home);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[argc - 1], ABX_STARTER_VERB) == 0)
        return abx_local_starter_main();
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_life_as_root_and_as_an_ordinary_user),
        cmocka_unit_test(a_home_of_3000_characters_works),
        cmocka_unit_test(a_sandbox_whose_state_is_broken_can_be_ended),
        cmocka_unit_test(pid_1_holds_nothing_of_its_maker),
        cmocka_unit_test(a_tied_sandbox_ends_with_its_first_connection),
        cmocka_unit_test(parameters_that_cannot_be_honoured_are_errors),
        cmocka_unit_test(no_user_namespaces_is_named_with_the_fix),
        cmocka_unit_test(doctor_finds_every_layer_here),
        cmocka_unit_test(a_home_that_cannot_be_written_is_named),
        cmocka_unit_test(a_killed_maker_leaves_nothing_that_tidy_does_not_clear),
        cmocka_unit_test(a_folder_half_made_is_cleared_and_one_being_made_is_not),
        cmocka_unit_test(hostile_trees_are_removed),
        cmocka_unit_test(the_starter_makes_a_sandbox),
        cmocka_unit_test(a_tied_sandbox_of_the_starter_is_tied_to_us),
        cmocka_unit_test(the_starters_errors_come_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
