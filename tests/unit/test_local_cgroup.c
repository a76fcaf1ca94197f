/* Control groups: where they are found by the texts of each kind of machine, and what is made in them. The groups lie
 * in plain folders here: only the kernel gives such files a meaning. */
#include "kit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "local/cgroup.h"

#define MOUNT1 "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"

static void a_machine_of_version_2(void **state)
{
    abx_cgroup_map m;
    abx_cgroup_map_parse(
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/a b.scope\n",
        "29 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n", &m);
    const abx_cgroup_tree *t = &m.trees[ABX_CGROUP_UNIFIED];
    assert_int_equal(t->version, 2);
    assert_string_equal(t->top, "/sys/fs/cgroup");
    assert_string_equal(
        t->own, "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/a b.scope");
    for (int use = ABX_CGROUP_MEMORY; use < ABX_CGROUP_USES; use++)
        assert_int_equal(m.trees[use].version, 0);
    abx_cgroup_map_clear(&m);
}

static void a_machine_of_version_1(void **state)
{
    abx_cgroup_map m;
    abx_cgroup_map_parse(
        "9:name=systemd:/\n7:pids:/x\n4:memory:/jobs/7\n2:cpu,cpuacct:/\n6:freezer:/\n",
        MOUNT1
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
        "37 31 0:34 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n"
        "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n",
        &m);
    assert_int_equal(m.trees[ABX_CGROUP_UNIFIED].version, 0);
    assert_string_equal(m.trees[ABX_CGROUP_MEMORY].own, "/sys/fs/cgroup/memory/jobs/7");
    assert_string_equal(m.trees[ABX_CGROUP_CPU].own, "/sys/fs/cgroup/cpu,cpuacct");
    assert_string_equal(m.trees[ABX_CGROUP_CPUACCT].own, "/sys/fs/cgroup/cpu,cpuacct");
    assert_int_equal(m.trees[ABX_CGROUP_FREEZER].version, 1);
    assert_int_equal(m.trees[ABX_CGROUP_PIDS].version, 0); /* not mounted */
    abx_cgroup_map_clear(&m);
}

static void a_machine_of_both(void **state)
{
    abx_cgroup_map m;
    abx_cgroup_map_parse("8:pids:/\n4:memory:/\n0::/\n",
                         "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                         "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
                         &m);
    assert_string_equal(m.trees[ABX_CGROUP_UNIFIED].own, "/sys/fs/cgroup/unified");
    assert_string_equal(m.trees[ABX_CGROUP_MEMORY].own, "/sys/fs/cgroup/memory");
    abx_cgroup_map_clear(&m);
}

static void a_part_of_a_tree_is_mounted(void **state)
{
    abx_cgroup_map m;
    const char *mounts =
        "50 40 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
        "51 40 0:33 /docker/abc /sys/fs/cgroup/p\\040ids rw - cgroup cgroup rw,pids\n";
    abx_cgroup_map_parse("4:memory:/docker/abc/in\n5:pids:/docker/abcd\n", mounts, &m);
    assert_string_equal(m.trees[ABX_CGROUP_MEMORY].own, "/sys/fs/cgroup/memory/in");
    assert_string_equal(m.trees[ABX_CGROUP_PIDS].top, "/sys/fs/cgroup/p ids");
    assert_null(m.trees[ABX_CGROUP_PIDS].own);
    abx_cgroup_map_clear(&m);
    abx_cgroup_map_parse("0::/../../other\n", "41 31 0:38 / /c rw - cgroup2 cgroup2 rw\n", &m);
    assert_int_equal(m.trees[ABX_CGROUP_UNIFIED].version, 2);
    assert_null(m.trees[ABX_CGROUP_UNIFIED].own);
    abx_cgroup_map_clear(&m);
}

static void a_mount_that_shows_us_wins(void **state)
{
    abx_cgroup_map m;
    abx_cgroup_map_parse("0::/a/b\n",
                         "41 31 0:38 /x /c/x rw - cgroup2 cgroup2 rw\n"
                         "42 31 0:38 /a /c/a rw - cgroup2 cgroup2 rw\n"
                         "43 31 0:38 / /c/all rw - cgroup2 cgroup2 rw\n",
                         &m);
    assert_string_equal(m.trees[ABX_CGROUP_UNIFIED].own, "/c/a/b");
    abx_cgroup_map_clear(&m);
}

static void broken_texts_are_nothing(void **state)
{
    static const char *const texts[] = {
        "", "\n\n", "0:", "0::", "::", "4:memory", "0::/x (deleted)\n", "4:memory:relative\n"};
    static const char *const mounts[] = {"",
                                         "\n",
                                         " - cgroup",
                                         "1 2 3 - cgroup cgroup memory\n",
                                         "1 2 3:4 / /p rw - cgroup2\n",
                                         "1 2 3:4 / \\999 rw - cgroup2 c rw\n"};
    for (size_t i = 0; i < ABX_COUNT(texts); i++) {
        for (size_t k = 0; k < ABX_COUNT(mounts); k++) {
            abx_cgroup_map m;
            abx_cgroup_map_parse(texts[i], mounts[k], &m);
            for (int use = 0; use < ABX_CGROUP_USES; use++)
                assert_null(m.trees[use].own);
            abx_cgroup_map_clear(&m);
        }
    }
}

/* --- making, in plain folders ------------------------------------------------------------------------ */

static void put(const char *dir, const char *name, const char *text)
{
    ABX_AUTO_FREE char *path = abx_path_join(dir, name);
    ABX_AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(abx_write_full(fd, text, strlen(text)), 0);
}

static char *get(const char *dir, const char *name)
{
    ABX_AUTO_FREE char *path = abx_path_join(dir, name);
    abx_buf b = ABX_BUF(4096);
    assert_int_equal(abx_read_file(path, b.max, &b, NULL), 0);
    return abx_buf_take(&b);
}

static void make_dir(const char *path)
{
    assert_int_equal(mkdir(path, 0755), 0);
}

/* Without the kernel behind it, a new folder has no files: nothing can be entered, and all is taken back. */
static void what_cannot_be_entered_is_taken_back(void **state)
{
    char top[] = "/tmp/abx-cgroup.XXXXXX";
    assert_non_null(mkdtemp(top));
    put(top, "cgroup.procs", "");
    put(top, "cgroup.controllers", "cpuset cpu memory pids");
    put(top, "cgroup.subtree_control", "");
    ABX_AUTO_FREE char *box = abx_path_join(top, "box");
    make_dir(box);
    ABX_AUTO_FD note = open(box, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FREE char *mounts = abx_format("1 2 3:4 / %s rw - cgroup2 cgroup2 rw\n", top);
    abx_cgroup_map m;
    abx_cgroup_map_parse("0::/\n", mounts, &m);
    abx_cgroups g;
    abx_cgroups_init(&g);
    abx_cgroup_want want = {.memory_bytes = 64u << 20};
    assert_int_equal(abx_cgroups_make(&g, &m, "abcdefgh12345678", note, &want, NULL), 0);
    assert_int_equal(g.memory, 0);
    assert_int_equal(g.count, 0);
    assert_true(g.why[0] != 0);
    ABX_AUTO_FREE char *asked = get(top, "cgroup.subtree_control");
    assert_string_equal(asked, "+memory");
    assert_int_equal(faccessat(note, "cgroup", F_OK, 0), -1); /* no note of nothing */
    abx_cgroups_clear(&g);
    abx_cgroup_map_clear(&m);
    assert_int_equal(abx_remove_tree_at(AT_FDCWD, top, NULL), 0);
}

static void a_note_is_only_believed_about_groups(void **state)
{
    char top[] = "/tmp/abx-cgroup.XXXXXX";
    assert_non_null(mkdtemp(top));
    ABX_AUTO_FREE char *abx = abx_path_join(top, "abx");
    ABX_AUTO_FREE char *victim = abx_path_join(abx, "abcdefgh12345678");
    make_dir(abx);
    make_dir(victim);
    ABX_AUTO_FREE char *text = abx_format("%s\n../../x\n/\n", victim);
    put(top, "cgroup", text);
    ABX_AUTO_FD fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(abx_cgroup_remove(fd), 0);
    struct stat st;
    assert_int_equal(stat(victim, &st), 0); /* a plain folder is not a group */
    abx_cgroup_usage u;
    assert_int_equal(abx_cgroup_usage_read(fd, &u), 0);
    assert_true(u.memory_bytes < 0 && u.cpu_usec < 0 && u.processes < 0);
    assert_int_equal(abx_remove_tree_at(AT_FDCWD, top, NULL), 0);
}

static void both_ways_to_freeze(void **state)
{
    char top[] = "/tmp/abx-cgroup.XXXXXX";
    assert_non_null(mkdtemp(top));
    assert_int_equal(abx_cgroup_is_frozen(top), -1);
    ABX_AUTO_ERROR err = NULL;
    assert_int_equal(abx_cgroup_freeze(top, true, &err), -1);
    put(top, "freezer.state", "FREEZING\n");
    assert_int_equal(abx_cgroup_is_frozen(top), 0);
    put(top, "freezer.state", "");
    assert_int_equal(abx_cgroup_freeze(top, true, NULL), 0);
    assert_int_equal(abx_cgroup_is_frozen(top), 1);
    put(top, "cgroup.freeze", "");
    put(top, "cgroup.events", "populated 1\nfrozen 0\n");
    assert_int_equal(abx_cgroup_freeze(top, true, NULL), 0);
    assert_int_equal(abx_cgroup_is_frozen(top), 0);
    ABX_AUTO_FREE char *wrote = get(top, "cgroup.freeze");
    assert_string_equal(wrote, "1");
    put(top, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 17\n");
    ABX_AUTO_FREE char *events = abx_path_join(top, "memory.oom_control");
    ABX_AUTO_FD fd = open(events, O_RDONLY | O_CLOEXEC);
    assert_int_equal(abx_cgroup_kills(fd), 17);
    assert_int_equal(abx_cgroup_kills(-1), -1);
    assert_int_equal(abx_remove_tree_at(AT_FDCWD, top, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_of_version_2),
        cmocka_unit_test(a_machine_of_version_1),
        cmocka_unit_test(a_machine_of_both),
        cmocka_unit_test(a_part_of_a_tree_is_mounted),
        cmocka_unit_test(a_mount_that_shows_us_wins),
        cmocka_unit_test(broken_texts_are_nothing),
        cmocka_unit_test(what_cannot_be_entered_is_taken_back),
        cmocka_unit_test(a_note_is_only_believed_about_groups),
        cmocka_unit_test(both_ways_to_freeze),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
