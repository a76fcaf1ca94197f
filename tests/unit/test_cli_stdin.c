/* The table of standard input and terminals, row by row. */
#include "kit.h"

#include "doors/cli/stdin_rules.h"

#define RUN   false
#define SHELL true

typedef struct row {
    const char *what;
    bool shell;
    abx_fd_kind in;
    bool out_tty;
    const char *flags; /* letters of -d -i -n -t -T, o for ABX_STDIN=closed */
    const char *want;  /* f forwarded, p terminal, r raw, - nothing, ! refused */
} row;

static const row rows[] = {
    {"run on a terminal takes nothing", RUN, ABX_FD_TTY, true, "", "-"},
    {"run on a terminal with -i", RUN, ABX_FD_TTY, true, "i", "f"},
    {"run -it", RUN, ABX_FD_TTY, true, "it", "fpr"},
    {"run -t alone has no input", RUN, ABX_FD_TTY, true, "t", "p"},
    {"run -itn", RUN, ABX_FD_TTY, true, "tn", "p"},
    {"a file is passed on", RUN, ABX_FD_FILE, true, "", "f"},
    {"a pipe is passed on", RUN, ABX_FD_PIPE, false, "", "f"},
    {"a socket is passed on", RUN, ABX_FD_SOCKET, false, "", "f"},
    {"/dev/null is closed", RUN, ABX_FD_NULL, false, "", "-"},
    {"another device is closed", RUN, ABX_FD_OTHER, false, "", "-"},
    {"another device with -i", RUN, ABX_FD_OTHER, false, "i", "f"},
    {"closed stays closed", RUN, ABX_FD_CLOSED, false, "", "-"},
    {"closed stays closed with -i", RUN, ABX_FD_CLOSED, false, "i", "-"},
    {"-n closes a pipe", RUN, ABX_FD_PIPE, false, "n", "-"},
    {"the setting closes a pipe", RUN, ABX_FD_PIPE, false, "o", "-"},
    {"-i beats the setting", RUN, ABX_FD_PIPE, false, "oi", "f"},
    {"-d closes a pipe", RUN, ABX_FD_PIPE, false, "d", "-"},
    {"-d with -i", RUN, ABX_FD_PIPE, false, "di", "!"},
    {"-d with -t", RUN, ABX_FD_TTY, true, "dt", "!"},
    {"-t with a pipe", RUN, ABX_FD_PIPE, true, "t", "!"},
    {"-t with output to a file", RUN, ABX_FD_TTY, false, "t", "!"},
    {"-it from cron", RUN, ABX_FD_NULL, false, "it", "!"},
    {"shell on a terminal", SHELL, ABX_FD_TTY, true, "", "fpr"},
    {"shell on a terminal with the setting", SHELL, ABX_FD_TTY, true, "o", "fpr"},
    {"shell -T on a terminal", SHELL, ABX_FD_TTY, true, "T", "f"},
    {"shell with output to a file", SHELL, ABX_FD_TTY, false, "", "f"},
    {"shell reads a script", SHELL, ABX_FD_PIPE, false, "", "f"},
    {"shell reads a script, output on a terminal", SHELL, ABX_FD_FILE, true, "", "f"},
    {"shell from /dev/null", SHELL, ABX_FD_NULL, false, "", "-"},
    {"shell -t with a pipe", SHELL, ABX_FD_PIPE, true, "t", "!"},
};

static void every_row_of_the_table(void **state)
{
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        const row *r = &rows[i];
        abx_stdin_facts facts = {
            .shell = r->shell,
            .in = r->in,
            .out_is_tty = r->out_tty,
            .detach = strchr(r->flags, 'd') != NULL,
            .interactive = strchr(r->flags, 'i') != NULL,
            .no_stdin = strchr(r->flags, 'n') != NULL,
            .tty = strchr(r->flags, 't') != NULL,
            .no_tty = strchr(r->flags, 'T') != NULL,
            .off = strchr(r->flags, 'o') != NULL,
        };
        abx_stdin_plan plan;
        abx_error *err = NULL;
        int rc = abx_stdin_decide(&facts, &plan, &err);
        bool refused = r->want[0] == '!';
        if (rc != (refused ? -1 : 0) || plan.forward != (strchr(r->want, 'f') != NULL) ||
            plan.pty != (strchr(r->want, 'p') != NULL) ||
            plan.raw != (strchr(r->want, 'r') != NULL))
            fail_msg("%s: rc %d forward %d pty %d raw %d", r->what, rc, plan.forward, plan.pty,
                     plan.raw);
        if (refused)
            assert_fails(err, USAGE);
    }
}

static void kinds_of_descriptors(void **state)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(abx_fd_kind_of(pipes[0]), ABX_FD_PIPE);
    close(pipes[0]);
    close(pipes[1]);
    assert_int_equal(abx_fd_kind_of(pipes[0]), ABX_FD_CLOSED);
    static const struct {
        const char *path;
        abx_fd_kind kind;
    } files[] = {{"/dev/null", ABX_FD_NULL},
                 {"/dev/zero", ABX_FD_OTHER},
                 {"/proc/self/exe", ABX_FD_FILE},
                 {"/", ABX_FD_OTHER}};
    for (size_t i = 0; i < ABX_COUNT(files); i++) {
        int fd = open(files[i].path, O_RDONLY | O_CLOEXEC);
        assert_int_equal(abx_fd_kind_of(fd), files[i].kind);
        close(fd);
    }
}

static void bare_interpreters_want_input(void **state)
{
    char sh[] = "/bin/sh", python[] = "python3", dash_c[] = "-c", make[] = "make";
    assert_true(abx_wants_input((char *[]){sh, NULL}));
    assert_true(abx_wants_input((char *[]){python, NULL}));
    assert_false(abx_wants_input((char *[]){sh, dash_c, NULL}));
    assert_false(abx_wants_input((char *[]){make, NULL}));
    assert_false(abx_wants_input(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_of_the_table),
        cmocka_unit_test(kinds_of_descriptors),
        cmocka_unit_test(bare_interpreters_want_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
