/* What is asked for, what it becomes, and how it is told. */
#include "kit.h"

#include "base/text.h"
#include "local/backend.h"
#include "local/limits.h"

static void refuse(abx_local_sizes asked, abx_err_id id)
{
    abx_limits l;
    ABX_AUTO_ERROR err = NULL;
    assert_int_equal(abx_limits_choose(&asked, &l, &err), -1);
    assert_int_equal(err->id, id);
}

static void what_no_sandbox_could_live_with_is_refused(void **state)
{
    refuse((abx_local_sizes){.memory_bytes = 1 << 20}, ABX_ERR_USAGE);
    refuse((abx_local_sizes){.disk_bytes = 1000}, ABX_ERR_USAGE);
    refuse((abx_local_sizes){.cpu_millis = 9}, ABX_ERR_USAGE);
    refuse((abx_local_sizes){.cpu_millis = UINT32_MAX}, ABX_ERR_USAGE);
    refuse((abx_local_sizes){.processes = 3}, ABX_ERR_USAGE);
    refuse((abx_local_sizes){.processes = UINT32_MAX}, ABX_ERR_USAGE);
    refuse((abx_local_sizes){.open_files = 3}, ABX_ERR_USAGE);
    refuse((abx_local_sizes){.open_files = UINT32_MAX}, ABX_ERR_QUOTA);
    refuse((abx_local_sizes){.disk_in_memory = true}, ABX_ERR_USAGE);
}

static void nothing_asked_is_the_default(void **state)
{
    abx_limits l;
    abx_local_sizes none = {0};
    assert_int_equal(abx_limits_choose(&none, &l, NULL), 0);
    assert_false(l.chosen);
    assert_int_equal(l.asked.processes, ABX_MAX_PROCESSES);
    assert_int_equal(l.asked.open_files, ABX_HARD_FILES);
    assert_int_equal(l.shm_bytes, ABX_SHM_BYTES);
    assert_int_equal(l.memory, ABX_HOLD_NONE);
    assert_false(abx_limits_want_cgroup(&l, true));
    assert_false(abx_limits_want_cgroup(&l, false));
}

static void groups_are_wanted_where_rlimits_do_not_hold(void **state)
{
    abx_limits l;
    abx_local_sizes few = {.processes = 50};
    assert_int_equal(abx_limits_choose(&few, &l, NULL), 0);
    assert_false(abx_limits_want_cgroup(&l, true));
    assert_true(abx_limits_want_cgroup(&l, false)); /* counted by id, and there are many */
    abx_local_sizes small = {.memory_bytes = 64 << 20};
    assert_int_equal(abx_limits_choose(&small, &l, NULL), 0);
    assert_true(abx_limits_want_cgroup(&l, true));
    assert_int_equal(l.shm_bytes, 32 << 20);
    assert_int_equal(l.memory, ABX_HOLD_WATCH);
    abx_cgroups g;
    abx_cgroups_init(&g);
    g.memory = 1;
    abx_limits_use_cgroups(&l, &g);
    assert_int_equal(l.memory, ABX_HOLD_CGROUP1);
    assert_int_equal(l.processes, ABX_HOLD_RLIMIT);
}

static void a_state_gives_back_what_was_written(void **state)
{
    abx_limits l, back;
    abx_local_sizes all = {.memory_bytes = 1ULL << 40,
                           .disk_bytes = 2ULL << 30,
                           .cpu_millis = 1500,
                           .processes = 9,
                           .open_files = 99};
    assert_int_equal(abx_limits_choose(&all, &l, NULL), 0);
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_limits_write(d, root, &l);
    ABX_AUTO_JSON doc = abx_json_freeze(d);
    abx_limits_read(abx_json_get(yyjson_doc_get_root(doc), "limits"), &back);
    assert_memory_equal(&l, &back, sizeof(l));
    abx_limits_read(NULL, &back);
    assert_false(back.chosen);
    yyjson_mut_val *shown;
    ABX_AUTO_MUT s = abx_mut_new(&shown);
    abx_limits_show(s, shown, &l);
    ABX_AUTO_JSON text = abx_json_freeze(s);
    yyjson_val *o = yyjson_doc_get_root(text);
    assert_true(yyjson_get_real(abx_json_get(o, "cpus")) == 1.5);
    assert_int_equal(abx_json_int(o, "memoryBytes", 0), 1LL << 40);
    assert_string_equal(abx_json_str(abx_json_get(o, "enforcedBy"), "memory", ""), "watch");
    assert_string_equal(abx_json_str(abx_json_get(o, "enforcedBy"), "openFiles", ""), "rlimit");
    assert_int_equal(yyjson_arr_size(abx_json_get(o, "watched")), 3);
}

/* Numbers of a state that somebody changed. */
static void a_broken_state_is_no_limit(void **state)
{
    const char *text = "{\"by\":{\"memory\":99,\"disk\":-1,\"cpus\":\"x\"},\"memory\":\"y\"}";
    ABX_AUTO_JSON doc = abx_json_parse(text, strlen(text), ABX_ERR_LOCAL_STATE, "state", NULL);
    abx_limits l;
    abx_limits_read(yyjson_doc_get_root(doc), &l);
    assert_int_equal(l.memory, ABX_HOLD_NONE);
    assert_int_equal(l.disk, ABX_HOLD_NONE);
    assert_int_equal(l.asked.memory_bytes, 0);
    assert_int_equal(l.asked.processes, ABX_MAX_PROCESSES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_no_sandbox_could_live_with_is_refused),
        cmocka_unit_test(nothing_asked_is_the_default),
        cmocka_unit_test(groups_are_wanted_where_rlimits_do_not_hold),
        cmocka_unit_test(a_state_gives_back_what_was_written),
        cmocka_unit_test(a_broken_state_is_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
