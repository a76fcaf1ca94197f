/* Several processes at one ledger, also killed at any moment. */
#include "config_setup.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "base/text.h"
#include "host/ledger.h"

#define PROCESSES 8
#define ROUNDS    60

static int begin_named(abx_ledger *l, const char *key, const char *name)
{
    ABX_AUTO_FREE char *k = abx_strdup(key), *n = abx_strdup(name);
    char provider[] = "local";
    abx_ledger_entry e = {.key = k, .id = k, .name = n, .provider = provider};
    return abx_ledger_begin(l, &e, NULL, NULL);
}

/* Each process tries to take the name of each round; it exits with the number that it got. */
static int racer(int me, int start)
{
    abx_ledger *l = NULL;
    int won = 0;
    char go;
    if (read(start, &go, 1) < 0 || abx_ledger_open(home_dir, &l, NULL) < 0)
        return 255;
    for (int round = 0; round < ROUNDS; round++) {
        char key[32], name[32];
        snprintf(key, sizeof key, "p%dr%d", me, round);
        snprintf(name, sizeof name, "name%d", round);
        if (begin_named(l, key, name) < 0)
            continue;
        won++;
        if (abx_ledger_complete(l, key, key, NULL, NULL) < 0)
            return 254;
    }
    abx_ledger_free(l);
    return won;
}

static void exactly_one_gets_each_name(void **state)
{
    (void)state;
    int start[2];
    pid_t pids[PROCESSES];
    assert_int_equal(pipe2(start, O_CLOEXEC), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            close(start[1]); /* so that the read ends when the parent lets go */
            _exit(racer(i, start[0]));
        }
    }
    close(start[0]);
    close(start[1]);
    int won = 0;
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        assert_in_range(WEXITSTATUS(status), 0, ROUNDS);
        won += WEXITSTATUS(status);
    }
    assert_int_equal(won, ROUNDS);
    abx_ledger *l = NULL;
    assert_int_equal(abx_ledger_open(home_dir, &l, NULL), 0);
    abx_ledger_entry *entries;
    char **bad;
    size_t count, bad_count;
    assert_int_equal(abx_ledger_read(l, &entries, &count, &bad, &bad_count, NULL), 0);
    assert_int_equal(count, ROUNDS);
    assert_int_equal(bad_count, 0);
    for (size_t i = 0; i < count; i++) {
        assert_true(entries[i].complete);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(entries[i].name, entries[k].name);
    }
    abx_ledger_entries_free(entries, count);
    abx_ledger_free(l);
}

/* Takes and gives back one name for ever. */
static void churn(void)
{
    abx_ledger *l = NULL;
    if (abx_ledger_open(home_dir, &l, NULL) < 0)
        _exit(1);
    for (int i = 0;; i++) {
        char key[48];
        snprintf(key, sizeof key, "c%dn%d", (int)getpid(), i);
        if (begin_named(l, key, "web") == 0 && abx_ledger_complete(l, key, key, NULL, NULL) == 0)
            abx_ledger_remove(l, key, NULL);
    }
}

/* After a kill at any moment: no half entry, and at most one entry holds the name; once that is removed (as gc
 * does) the name is free. */
static void killed_at_any_moment(void **state)
{
    (void)state;
    abx_ledger *l = NULL;
    assert_int_equal(abx_ledger_open(home_dir, &l, NULL), 0);
    for (int round = 0; round < 40; round++) {
        pid_t pid = fork();
        if (pid == 0)
            churn();
        nanosleep(&(struct timespec){0, 2000000L + round * 97003L}, NULL);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        abx_ledger_entry *entries;
        char **bad;
        size_t count, bad_count;
        assert_int_equal(abx_ledger_read(l, &entries, &count, &bad, &bad_count, NULL), 0);
        assert_int_equal(bad_count, 0);
        assert_in_range(count, 0, 1);
        if (count == 1)
            assert_int_equal(abx_ledger_remove(l, entries[0].key, NULL), 0);
        abx_ledger_entries_free(entries, count);
        assert_int_equal(begin_named(l, "mine", "web"), 0);
        assert_int_equal(abx_ledger_remove(l, "mine", NULL), 0);
    }
    abx_ledger_free(l);
}

/* Readers beside writers see whole entries only. */
static void readers_see_whole_entries(void **state)
{
    (void)state;
    abx_ledger *l = NULL;
    pid_t pids[3];
    assert_int_equal(abx_ledger_open(home_dir, &l, NULL), 0);
    for (size_t i = 0; i < ABX_COUNT(pids); i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            churn();
    }
    for (int i = 0; i < 200; i++) {
        abx_ledger_entry *entries;
        char **bad;
        size_t count, bad_count;
        assert_int_equal(abx_ledger_read(l, &entries, &count, &bad, &bad_count, NULL), 0);
        assert_int_equal(bad_count, 0);
        abx_ledger_entries_free(entries, count);
    }
    for (size_t i = 0; i < ABX_COUNT(pids); i++) {
        assert_int_equal(kill(pids[i], SIGKILL), 0);
        assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
    }
    abx_ledger_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(exactly_one_gets_each_name),
        TEST(killed_at_any_moment),
        TEST(readers_see_whole_entries),
    };
    return cmocka_run_group_tests_name("ledger_race", tests, NULL, NULL);
}
