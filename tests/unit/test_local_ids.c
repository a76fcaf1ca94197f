/* Which ids a sandbox gets: texts of the maps, ranges from /etc/subuid, slots of a root caller. */
#include "kit.h"

#include "local/ids.h"
#include "local/slots.h"

static void map_texts_are_lines_of_three_numbers(void **state)
{
    const abx_id_line lines[] = {{0, 100000, 1000}, {1000, 1001, 1}};
    char text[64];
    int n = abx_id_map_text(lines, 2, text, sizeof(text));
    assert_string_equal(text, "0 100000 1000\n1000 1001 1\n");
    assert_int_equal(n, (int)strlen(text));
    assert_int_equal(abx_id_map_text(lines, 2, text, 10), -1);
}

static void a_range_puts_the_caller_at_1000(void **state)
{
    abx_id_line lines[3];
    assert_int_equal(abx_id_range_lines(1001, 100000, 65536, lines), 3);
    assert_memory_equal(&lines[0], (&(abx_id_line){0, 100000, 1000}), sizeof(abx_id_line));
    assert_memory_equal(&lines[1], (&(abx_id_line){1000, 1001, 1}), sizeof(abx_id_line));
    assert_memory_equal(&lines[2], (&(abx_id_line){1001, 101000, 64535}), sizeof(abx_id_line));
    assert_int_equal(abx_id_range_lines(1001, 100000, 1001, lines), 3);
    assert_int_equal(lines[2].count, 1);
    assert_int_equal(abx_id_range_lines(1001, 100000, 1000, lines), 0);
}

static void the_largest_line_of_the_caller_counts(void **state)
{
    uint32_t first, count;
    const char *text = "# comment\nother:1:99\nme:100000:1000\n1001:300000:65536\nme:1:2\nme:x:7\n"
                       "me:4294967295:9\nmenot:5:900000";
    assert_true(abx_subid_find(text, "me", 1001, &first, &count));
    assert_int_equal(first, 300000);
    assert_int_equal(count, 65536);
    assert_true(abx_subid_find(text, "me", 7, &first, &count));
    assert_int_equal(first, 100000);
    assert_false(abx_subid_find(text, NULL, 7, &first, &count));
    assert_false(abx_subid_find("", "me", 7, &first, &count));
}

static void ids_are_looked_up_in_a_map(void **state)
{
    const char *map = "         0     100000      65536\n    70000          5          1\n";
    assert_true(abx_ids_mapped(map, 0, 65536));
    assert_true(abx_ids_mapped(map, 70000, 1));
    assert_false(abx_ids_mapped(map, 65535, 2));
    assert_false(abx_ids_mapped("", 0, 1));
    assert_int_equal(abx_id_outside(map, 3), 100003);
    assert_int_equal(abx_id_outside(map, 70000), 5);
    assert_int_equal(abx_id_outside(map, 70001), UINT32_MAX);
}

static void slots_lie_between_other_registers(void **state)
{
    assert_int_equal(abx_slot_first(ABX_SLOT_BASE, 0), 0x70000000);
    assert_true((uint64_t)abx_slot_first(ABX_SLOT_BASE, ABX_SLOT_COUNT - 1) + 65536 <= 2147352576u);
}

static void slots_that_others_use_are_skipped(void **state)
{
    uint32_t base = ABX_SLOT_BASE;
    assert_false(abx_slot_overlaps(base, 3, "me:100000:65536\n", "root:x:0:0::/:\n"));
    assert_true(abx_slot_overlaps(base, 0, "me:1879048192:1\n", NULL));
    assert_true(abx_slot_overlaps(base, 1, "a:1:2\nme:1879000000:200000\n", NULL));
    assert_false(abx_slot_overlaps(base, 1, "me:1879048192:65536\n", NULL));
    assert_true(abx_slot_overlaps(base, 0, NULL, "dir:x:1879048200:100::/:\n"));
    assert_true(abx_slot_overlaps(base, 0, NULL, "dir:x:100:1879113727::/:\n"));
    assert_false(abx_slot_overlaps(base, 0, "broken\n:::\nme:x:y\n", "broken\n"));
}

static void a_slot_is_taken_once_and_freed_by_its_owner(void **state)
{
    char *dir = kit_folder(), *base = kit_folder();
    ABX_AUTO_FREE char *sandboxes = abx_format("%s/sandboxes/aaaaaaaaaaaaaaaa", base);
    ABX_AUTO_FREE char *slots = abx_path_join(dir, "slots");
    assert_int_equal(abx_make_dirs(sandboxes, 0700, NULL), 0);
    int a = abx_slot_take(slots, base, "aaaaaaaaaaaaaaaa", NULL);
    int b = abx_slot_take(slots, base, "aaaaaaaaaaaaaaaa", NULL);
    assert_true(a >= 0 && b >= 0 && a != b);
    ABX_AUTO_FREE char *link = abx_format("%s/%d", slots, a);
    struct stat st;
    abx_slot_free(slots, a, base, "bbbbbbbbbbbbbbbb");
    assert_int_equal(lstat(link, &st), 0);
    abx_slot_free(slots, a, base, "aaaaaaaaaaaaaaaa");
    assert_int_equal(lstat(link, &st), -1);
    assert_int_equal(abx_slot_sweep(slots), 0);
    kit_drop(dir);
    kit_drop(base);
}

static void a_slot_stays_until_the_last_file_of_its_owner_is_gone(void **state)
{
    char *dir = kit_folder(), *base = kit_folder();
    ABX_AUTO_FREE char *sandbox = abx_format("%s/sandboxes/aaaaaaaaaaaaaaaa", base);
    ABX_AUTO_FREE char *trash = abx_format("%s/trash", base);
    ABX_AUTO_FREE char *rest = abx_format("%s/trash/aaaaaaaaaaaaaaaa.xyz", base);
    assert_int_equal(abx_make_dirs(sandbox, 0700, NULL), 0);
    assert_int_equal(abx_make_dirs(trash, 0700, NULL), 0);
    assert_true(abx_slot_take(dir, base, "aaaaaaaaaaaaaaaa", NULL) >= 0);
    assert_int_equal(abx_slot_sweep(dir), 0);
    assert_int_equal(rename(sandbox, rest), 0);
    assert_int_equal(abx_slot_sweep(dir), 0);
    assert_int_equal(rmdir(rest), 0);
    assert_int_equal(abx_slot_sweep(dir), 1);
    kit_drop(dir);
    kit_drop(base);
}

static void a_register_that_others_can_write_is_refused(void **state)
{
    char *dir = kit_folder();
    abx_error *err = NULL;
    assert_int_equal(chmod(dir, 0777), 0);
    assert_int_equal(abx_slot_take(dir, "/x", "aaaaaaaaaaaaaaaa", &err), -1);
    assert_fails(err, LOCAL_STATE);
    kit_drop(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_texts_are_lines_of_three_numbers),
        cmocka_unit_test(a_range_puts_the_caller_at_1000),
        cmocka_unit_test(the_largest_line_of_the_caller_counts),
        cmocka_unit_test(ids_are_looked_up_in_a_map),
        cmocka_unit_test(slots_lie_between_other_registers),
        cmocka_unit_test(slots_that_others_use_are_skipped),
        cmocka_unit_test(a_slot_is_taken_once_and_freed_by_its_owner),
        cmocka_unit_test(a_slot_stays_until_the_last_file_of_its_owner_is_gone),
        cmocka_unit_test(a_register_that_others_can_write_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
