/* The ledger: entries, names, finding, damage, full disks, and many processes at once. */
#include "config_setup.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>

#include "base/text.h"
#include "host/ledger.h"

static abx_ledger *open_ledger(void)
{
    abx_ledger *l = NULL;
    assert_int_equal(abx_ledger_open(home_dir, &l, NULL), 0);
    return l;
}

/* Texts are string literals of the test: an entry borrows them. */
static int begin(abx_ledger *l, const char *key, const char *id, const char *name, char **holder,
                 abx_error **err)
{
    ABX_AUTO_FREE char *k = abx_strdup(key), *i = abx_strdup(id), *n = abx_strdup(name);
    char provider[] = "local";
    abx_ledger_entry e = {
        .key = k, .id = i, .name = n, .provider = provider, .created_wall_ms = 1000};
    return abx_ledger_begin(l, &e, holder, err);
}

static void must_find(abx_ledger *l, const char *word, const char *key)
{
    abx_ledger_entry e;
    abx_error *err = NULL;
    if (abx_ledger_find(l, word, &e, &err) < 0)
        fail_msg("%s", abx_error_text(err));
    assert_string_equal(e.key, key);
    abx_ledger_entry_clear(&e);
}

static void must_not_find(abx_ledger *l, const char *word, abx_err_id id, const char *text)
{
    abx_ledger_entry e;
    abx_error *err = NULL;
    assert_int_equal(abx_ledger_find(l, word, &e, &err), -1);
    assert_int_equal(err->id, id);
    if (!strstr(err->message, text))
        fail_msg("'%s' is not in: %s", text, err->message);
    abx_error_free(err);
}

static void assert_count(abx_ledger *l, size_t good, size_t damaged)
{
    abx_ledger_entry *entries;
    char **bad;
    size_t count, bad_count;
    assert_int_equal(abx_ledger_read(l, &entries, &count, &bad, &bad_count, NULL), 0);
    assert_int_equal(count, good);
    assert_int_equal(bad_count, damaged);
    abx_ledger_entries_free(entries, count);
    for (size_t i = 0; i < bad_count; i++)
        free(bad[i]);
    free(bad);
}

static void an_entry_comes_back_as_it_was(void **state)
{
    (void)state;
    abx_ledger *l = open_ledger();
    char key[] = "k1", name[] = "my-name", provider[] = "e2b", profile[] = "work",
         token[] = "a/b \"c\"\n";
    abx_ledger_entry in = {.key = key,
                           .name = name,
                           .provider = provider,
                           .profile = profile,
                           .idempotency_key = token,
                           .created_wall_ms = 1764462493123,
                           .creator_pid = 77,
                           .creator_start = 123456789012345};
    assert_int_equal(abx_ledger_begin(l, &in, NULL, NULL), 0);
    abx_ledger_entry e;
    assert_int_equal(abx_ledger_find(l, "k1", &e, NULL), 0);
    assert_null(e.id);
    assert_false(e.complete);
    abx_ledger_entry_clear(&e);
    assert_int_equal(abx_ledger_complete(l, "k1", "sbx.A-1/ü", "https://x.test", NULL), 0);
    assert_int_equal(abx_ledger_find(l, "sbx.A-1/ü", &e, NULL), 0);
    assert_string_equal(e.key, "k1");
    assert_string_equal(e.id, "sbx.A-1/ü");
    assert_string_equal(e.name, "my-name");
    assert_string_equal(e.provider, "e2b");
    assert_string_equal(e.profile, "work");
    assert_string_equal(e.url, "https://x.test");
    assert_string_equal(e.idempotency_key, "a/b \"c\"\n");
    assert_true(e.complete);
    assert_int_equal(e.created_wall_ms, 1764462493123);
    assert_int_equal(e.creator_pid, 77);
    abx_ledger_entry given_up;
    assert_int_equal(abx_ledger_give_up(l, e.key, NULL), 0);
    assert_int_equal(abx_ledger_give_up(l, "nosuchkey", NULL), 0);
    assert_int_equal(abx_ledger_find(l, e.key, &given_up, NULL), 0);
    assert_int_equal(given_up.creator_pid, 0);
    assert_string_equal(given_up.name, e.name);
    abx_ledger_entry_clear(&given_up);
    assert_true(e.creator_start == 123456789012345);
    abx_ledger_entry_clear(&e);
    struct stat st;
    assert_int_equal(stat(in_root(".abx/ledger/k1.json"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(in_root(".abx/ledger"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    abx_ledger_free(l);
}

static void an_empty_home_has_an_empty_ledger(void **state)
{
    (void)state;
    abx_ledger *l = open_ledger();
    assert_count(l, 0, 0);
    must_not_find(l, "abcdefgh", ABX_ERR_SANDBOX_NOT_FOUND, "/.abx/ledger'");
    assert_int_equal(abx_ledger_remove(l, "abcdefgh", NULL), 0);
    assert_int_equal(access(in_root(".abx/ledger"), F_OK), -1);
    abx_ledger_free(l);
}

static void finding_by_id_name_and_prefix(void **state)
{
    (void)state;
    abx_ledger *l = open_ledger();
    assert_int_equal(begin(l, "abcdefgh0001", "abcdefgh0001", NULL, NULL, NULL), 0);
    assert_int_equal(begin(l, "abcdefgh0002", "abcdefgh0002", "abcd", NULL, NULL), 0);
    assert_int_equal(begin(l, "abcdef", "abcdef", NULL, NULL, NULL), 0);
    assert_int_equal(begin(l, "zkey", NULL, NULL, NULL, NULL), 0);
    assert_int_equal(abx_ledger_complete(l, "zkey", "sbx_remote.1", NULL, NULL), 0);
    must_find(l, "abcdefgh0001", "abcdefgh0001");
    must_find(l, "abcdef", "abcdef");     /* a whole id, though others begin with it */
    must_find(l, "abcd", "abcdefgh0002"); /* a name goes before a prefix */
    must_find(l, "abcdefgh0002", "abcdefgh0002");
    must_find(l, "sbx_", "zkey");
    must_find(l, "sbx_remote.1", "zkey");
    must_not_find(l, "abcdefgh", ABX_ERR_CONFLICT, "2 ids: abcdefgh0001, abcdefgh0002");
    must_not_find(l, "abcde", ABX_ERR_CONFLICT, "3 ids");
    must_not_find(l, "abc", ABX_ERR_SANDBOX_NOT_FOUND, "'abc'");
    must_not_find(l, "zke", ABX_ERR_SANDBOX_NOT_FOUND, "'zke'");
    must_not_find(l, "", ABX_ERR_SANDBOX_NOT_FOUND, "''");
    must_not_find(l, "../config", ABX_ERR_SANDBOX_NOT_FOUND, "../config");
    must_not_find(l, "a\nb\x1b", ABX_ERR_SANDBOX_NOT_FOUND, "\\n");
    assert_count(l, 4, 0);
    abx_ledger_free(l);
}

static void a_name_has_one_holder(void **state)
{
    (void)state;
    abx_ledger *l = open_ledger();
    char *holder = NULL;
    abx_error *err = NULL;
    assert_int_equal(begin(l, "key1", "key1", "web", NULL, NULL), 0);
    assert_int_equal(begin(l, "key2", "key2", "web", &holder, &err), -1);
    assert_int_equal(err->id, ABX_ERR_CONFLICT);
    assert_string_equal(holder, "key1");
    assert_non_null(strstr(err->message, "the name 'web' is taken by sandbox 'key1'"));
    free(holder);
    abx_error_free(ABX_TAKE(err));
    assert_int_equal(begin(l, "key1", "key1", NULL, &holder, &err), -1);
    assert_int_equal(err->id, ABX_ERR_CONFLICT);
    assert_string_equal(holder, "key1");
    free(holder);
    abx_error_free(ABX_TAKE(err));
    assert_count(l, 1, 0);
    assert_int_equal(abx_ledger_remove(l, "key1", NULL), 0);
    assert_int_equal(abx_ledger_remove(l, "key1", NULL), 0);
    must_not_find(l, "web", ABX_ERR_SANDBOX_NOT_FOUND, "'web'");
    assert_int_equal(begin(l, "key2", "key2", "web", &holder, NULL), 0);
    assert_null(holder);
    must_find(l, "web", "key2");
    assert_int_equal(abx_ledger_remove(l, "key1", NULL), 0); /* late: must not take the name away */
    must_find(l, "web", "key2");
    abx_ledger_free(l);
}

static void an_idempotency_key_has_one_holder(void **state)
{
    (void)state;
    abx_ledger *l = open_ledger();
    char token[700], provider[] = "e2b", k1[] = "key1", k2[] = "key2";
    memset(token, '/', sizeof token - 1);
    token[sizeof token - 1] = 0;
    abx_ledger_entry e = {.key = k1, .provider = provider, .idempotency_key = token};
    char *holder = NULL;
    abx_error *err = NULL;
    assert_int_equal(abx_ledger_begin(l, &e, NULL, NULL), 0);
    e.key = k2;
    assert_int_equal(abx_ledger_begin(l, &e, &holder, &err), -1);
    assert_int_equal(err->id, ABX_ERR_CONFLICT);
    assert_string_equal(holder, "key1");
    free(holder);
    abx_error_free(err);
    assert_int_equal(abx_ledger_remove(l, "key1", NULL), 0);
    assert_int_equal(abx_ledger_begin(l, &e, NULL, NULL), 0);
    abx_ledger_free(l);
}

static void a_stale_link_is_no_holder(void **state)
{
    (void)state;
    abx_ledger *l = open_ledger();
    assert_int_equal(begin(l, "key1", "key1", "web", NULL, NULL), 0);
    assert_int_equal(unlink(in_root(".abx/ledger/key1.json")), 0);
    must_not_find(l, "web", ABX_ERR_SANDBOX_NOT_FOUND, "'web'");
    assert_int_equal(begin(l, "key2", "key2", "web", NULL, NULL), 0);
    must_find(l, "web", "key2");
    /* A link to an entry that has another name, or none: nor is that. */
    assert_int_equal(begin(l, "key3", "key3", NULL, NULL, NULL), 0);
    assert_int_equal(symlink("key3", in_root(".abx/ledger/names/other")), 0);
    must_not_find(l, "other", ABX_ERR_SANDBOX_NOT_FOUND, "'other'");
    assert_int_equal(begin(l, "key4", "key4", "other", NULL, NULL), 0);
    must_find(l, "other", "key4");
    /* A link that leads out of the ledger. */
    assert_int_equal(symlink("../../config", in_root(".abx/ledger/names/evil")), 0);
    must_not_find(l, "evil", ABX_ERR_SANDBOX_NOT_FOUND, "'evil'");
    abx_ledger_free(l);
}

static void damage_is_named_and_hurts_nobody_else(void **state)
{
    (void)state;
    static const char *const damaged[] = {
        "",
        "{",
        "[]",
        "\xff\xfe",
        "{\"key\":\"other\",\"provider\":\"x\",\"complete\":true}",
        "{\"key\":\"bad0\",\"complete\":true}",
        "{\"key\":\"bad0\",\"provider\":\"local\"}",
        "{\"key\":\"bad0\",\"provider\":\"local\",\"complete\":true,\"name\":7}",
    };
    abx_ledger *l = open_ledger();
    assert_int_equal(begin(l, "good0001", "good0001", "fine", NULL, NULL), 0);
    for (size_t i = 0; i < ABX_COUNT(damaged); i++) {
        write_file(".abx/ledger/bad0.json", damaged[i], 0600);
        assert_count(l, 1, 1);
        must_find(l, "good", "good0001");
        must_find(l, "fine", "good0001");
        must_not_find(l, "bad0", ABX_ERR_LOCAL_STATE, "/.abx/ledger/bad0.json' is corrupt");
    }
    write_file(".abx/ledger/bad0.json", "{", 0600);
    write_file(".abx/ledger/odd name.json", "{}", 0600);
    write_file(".abx/ledger/note.txt", "not ours", 0600);
    assert_count(l, 1, 2);
    assert_int_equal(mkdir(in_root(".abx/ledger/dir0.json"), 0700), 0);
    must_not_find(l, "dir0", ABX_ERR_LOCAL_STATE, "dir0.json");
    assert_int_equal(rmdir(in_root(".abx/ledger/dir0.json")), 0);
    assert_int_equal(abx_ledger_remove(l, "bad0", NULL), 0);
    must_not_find(l, "bad0", ABX_ERR_SANDBOX_NOT_FOUND, "bad0");
    abx_ledger_free(l);
}

static void entries_come_sorted_by_age(void **state)
{
    (void)state;
    abx_ledger *l = open_ledger();
    char provider[] = "local";
    for (int i = 0; i < 20; i++) {
        char key[16];
        snprintf(key, sizeof key, "key%02d", i);
        abx_ledger_entry e = {.key = key, .provider = provider, .created_wall_ms = 1000 - i};
        assert_int_equal(abx_ledger_begin(l, &e, NULL, NULL), 0);
    }
    abx_ledger_entry *entries;
    char **bad;
    size_t count, bad_count;
    assert_int_equal(abx_ledger_read(l, &entries, &count, &bad, &bad_count, NULL), 0);
    assert_int_equal(count, 20);
    assert_string_equal(entries[0].key, "key19");
    assert_string_equal(entries[19].key, "key00");
    abx_ledger_entries_free(entries, count);
    abx_ledger_free(l);
}

static void ten_thousand_entries(void **state)
{
    (void)state;
    abx_ledger *l = open_ledger();
    for (int i = 0; i < 10000; i++) {
        char key[32];
        snprintf(key, sizeof key, "id%08d", i);
        assert_int_equal(begin(l, key, key, NULL, NULL, NULL), 0);
    }
    assert_count(l, 10000, 0);
    must_find(l, "id00001234", "id00001234");
    must_not_find(l, "id0000", ABX_ERR_CONFLICT, "10000 ids: id00000000, id00000001");
    must_not_find(l, "id00001", ABX_ERR_CONFLICT, "1000 ids");
    abx_ledger_free(l);
}

static void what_a_killed_writer_left_is_cleared(void **state)
{
    (void)state;
    abx_ledger *l = open_ledger();
    assert_int_equal(begin(l, "key1", "key1", NULL, NULL, NULL), 0);
    write_file(".abx/ledger/.old.tmp", "half", 0600);
    write_file(".abx/ledger/.new.tmp", "half", 0600);
    struct timespec old[2] = {{time(NULL) - 7200, 0}, {time(NULL) - 7200, 0}};
    assert_int_equal(utimensat(AT_FDCWD, in_root(".abx/ledger/.old.tmp"), old, 0), 0);
    assert_count(l, 1, 0);
    assert_int_equal(access(in_root(".abx/ledger/.old.tmp"), F_OK), -1);
    assert_int_equal(access(in_root(".abx/ledger/.new.tmp"), F_OK), 0);
    abx_ledger_free(l);
}

static void a_ledger_that_cannot_be_written(void **state)
{
    (void)state;
    abx_error *err = NULL;
    write_file(".abx/ledger", "a file", 0600);
    abx_ledger *l = open_ledger();
    assert_int_equal(begin(l, "key1", "key1", NULL, NULL, &err), -1);
    assert_int_equal(err->id, ABX_ERR_HOME);
    assert_non_null(strstr(err->message, "ledger"));
    abx_error_free(ABX_TAKE(err));
    must_not_find(l, "key1", ABX_ERR_HOME, "ledger");
    abx_ledger_free(l);
}

/* A mount namespace of its own (with a user namespace where we are not root), so that a small file system can be
 * mounted. False where the machine does not allow it. */
static bool enter_namespace(void)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    char map[64];
    if (uid == 0)
        return unshare(CLONE_NEWNS) == 0 &&
               mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return false;
    snprintf(map, sizeof map, "0 %u 1", uid);
    ABX_AUTO_FD u = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    bool ok = u >= 0 && write(u, map, strlen(map)) > 0;
    ABX_AUTO_FD s = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
    ok = ok && s >= 0 && write(s, "deny", 4) == 4;
    snprintf(map, sizeof map, "0 %u 1", gid);
    ABX_AUTO_FD g = open("/proc/self/gid_map", O_WRONLY | O_CLOEXEC);
    return ok && g >= 0 && write(g, map, strlen(map)) > 0;
}

static void on_a_full_disk(void)
{
    abx_ledger *l = open_ledger();
    abx_error *err = NULL;
    assert_int_equal(begin(l, "before", "before", "first", NULL, NULL), 0);
    int fd = open(in_root(".abx/filler"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    static char block[4096];
    while (write(fd, block, sizeof block) > 0) {}
    close(fd);
    assert_int_equal(begin(l, "after", "after", "second", NULL, &err), -1);
    assert_int_equal(err->id, ABX_ERR_NO_SPACE);
    abx_error_free(ABX_TAKE(err));
    assert_int_equal(abx_ledger_complete(l, "before", "before", "https://x.test", &err), -1);
    assert_int_equal(err->id, ABX_ERR_NO_SPACE);
    abx_error_free(ABX_TAKE(err));
    assert_count(l, 1, 0);
    must_find(l, "first", "before");
    must_not_find(l, "second", ABX_ERR_SANDBOX_NOT_FOUND, "second");
    unlink(in_root(".abx/filler"));
    assert_int_equal(begin(l, "after", "after", "second", NULL, NULL), 0);
    abx_ledger_free(l);
}

static void a_full_disk(void **state)
{
    (void)state;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (enter_namespace() && mount("none", home_dir, "tmpfs", 0, "size=64k,mode=700") == 0)
            on_a_full_disk();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_entry_comes_back_as_it_was),
        TEST(an_empty_home_has_an_empty_ledger),
        TEST(finding_by_id_name_and_prefix),
        TEST(a_name_has_one_holder),
        TEST(an_idempotency_key_has_one_holder),
        TEST(a_stale_link_is_no_holder),
        TEST(damage_is_named_and_hurts_nobody_else),
        TEST(entries_come_sorted_by_age),
        TEST(ten_thousand_entries),
        TEST(what_a_killed_writer_left_is_cleared),
        TEST(a_ledger_that_cannot_be_written),
        TEST(a_full_disk),
    };
    return cmocka_run_group_tests_name("ledger", tests, NULL, NULL);
}
