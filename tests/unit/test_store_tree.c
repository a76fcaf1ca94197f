/* tree_sha256 by the vectors of tests/data/store, and what the walk refuses. */
#include "store_kit.h"

#include <sys/stat.h>

#include "base/json.h"
#include "wire/base64.h"

/* The member `plain` as text, or `coded` in base64; in out. */
static void text_of(yyjson_val *o, const char *plain, const char *coded, abx_buf *out)
{
    const char *text = abx_json_str(o, plain, NULL), *code = abx_json_str(o, coded, NULL);
    if (code) {
        uint8_t *room = abx_buf_room(out, ABX_BASE64_BYTES(strlen(code)));
        ssize_t n = abx_base64_decode(code, strlen(code), room, ABX_BASE64_STANDARD);
        assert_true(n >= 0);
        abx_buf_grow(out, (size_t)n);
    } else if (text)
        assert_int_equal(abx_buf_add_str(out, text), 0);
}

static void make_entry(int dir, yyjson_val *o)
{
    ABX_AUTO_BUF path = ABX_BUF(4096);
    ABX_AUTO_BUF content = ABX_BUF(1 << 20);
    text_of(o, "path", "pathBase64", &path);
    text_of(o, "text", "base64", &content);
    const char *name = abx_buf_cstr(&path), *type = abx_json_str(o, "type", "");
    mode_t mode = (mode_t)strtoul(abx_json_str(o, "mode", "0"), NULL, 8);
    if (*type == 'l') {
        assert_int_equal(symlinkat(abx_json_str(o, "target", ""), dir, name), 0);
        return;
    }
    if (*type == 'd') {
        assert_int_equal(mkdirat(dir, name, 0700), 0);
    } else {
        int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
        assert_int_equal(
            abx_write_full(fd, content.len ? content.data : (const uint8_t *)"", content.len), 0);
        close(fd);
    }
    assert_int_equal(fchmodat(dir, name, mode, 0), 0);
}

static void the_vectors(void **state)
{
    ABX_AUTO_FREE char *text = kit_read(ABX_TESTS_DIR "/data/store/tree_sha256.json");
    ABX_AUTO_JSON doc = abx_json_parse(text, strlen(text), ABX_ERR_FILE, "vectors", NULL);
    yyjson_val *list = yyjson_obj_get(yyjson_doc_get_root(doc), "vectors"), *v, *e;
    size_t i, n, k, m;
    (void)state;
    assert_true(yyjson_arr_size(list) > 8);
    yyjson_arr_foreach(list, i, n, v)
    {
        char *dir = kit_folder(), hex[65];
        ABX_AUTO_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        abx_tree_walk walk = {0};
        yyjson_arr_foreach(yyjson_obj_get(v, "entries"), k, m, e)
        {
            make_entry(fd, e);
        }
        assert_int_equal(abx_tree_digest(fd, &walk, hex, NULL), 0);
        if (strcmp(hex, abx_json_str(v, "tree_sha256", "")) != 0)
            fail_msg("%s: %s", abx_json_str(v, "name", "?"), hex);
        kit_drop(dir);
    }
}

static void what_is_held_is_what_is_hashed(void **state)
{
    shop s = shop_open();
    char hex[65], again[65], swapped[65];
    (void)state;
    ABX_AUTO_FD dir = open(s.source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FD fd = openat(dir, "plugin", O_RDONLY | O_CLOEXEC);
    ABX_AUTO_FD other = openat(dir, "lib/part", O_RDONLY | O_CLOEXEC);
    abx_tree_held held[] = {{.fd = fd}, {.fd = other, .text = "a part\n", .len = 7}, {.fd = -1}};
    abx_tree_walk plain = {0}, walk = {.held = held, .held_count = 3};
    assert_int_equal(abx_tree_digest(dir, &plain, hex, NULL), 0);
    assert_int_equal(abx_tree_digest(dir, &walk, again, NULL), 0);
    assert_string_equal(hex, again);
    assert_true(held[0].met && held[1].met && !held[2].met);
    held[1].text = "b part\n"; /* what will be used is not what is there */
    assert_int_equal(abx_tree_digest(dir, &walk, again, NULL), 0);
    assert_string_not_equal(hex, again);
    /* Another file of the same name is not what is held. */
    held[1].text = NULL;
    assert_int_equal(unlinkat(dir, "plugin", 0), 0);
    shop_file(s.source, "plugin", "#!/bin/sh\nexit 0\n", 0755);
    assert_int_equal(abx_tree_digest(dir, &walk, swapped, NULL), 0);
    assert_false(held[0].met);
    shop_close(&s);
}

static int stop_at_once(void *data, uint64_t entries, uint64_t bytes, abx_error **err)
{
    (void)data, (void)entries, (void)bytes;
    return abx_fail(err, ABX_ERR_CANCELLED, "stopped");
}

static void the_task_stops_it(void **state)
{
    shop s = shop_open();
    abx_error *err = NULL;
    abx_store_task task = {stop_at_once, NULL};
    (void)state;
    for (int i = 0; i < 100; i++) {
        ABX_AUTO_FREE char *name = abx_format("lib/%d", i);
        shop_file(s.source, name, "x", 0644);
    }
    assert_null(abx_store_prepare(s.home, s.source, &task, &err));
    assert_fails(err, CANCELLED);
    ABX_AUTO_FREE char *place = abx_path_join(s.home, "providers");
    ABX_AUTO_FD dir = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char **names;
    size_t count;
    assert_int_equal(abx_tree_names(dir, &names, &count), 0);
    assert_int_equal(count, 1); /* the lock */
    abx_tree_names_free(names, count);
    shop_close(&s);
}

static char *difference(const char *a, size_t a_len, const char *b, size_t b_len)
{
    ABX_AUTO_BUF before = ABX_BUF(1000);
    ABX_AUTO_BUF now = ABX_BUF(1000);
    assert_int_equal(abx_buf_add(&before, a, a_len) | abx_buf_add(&now, b, b_len), 0);
    return abx_tree_difference(&before, &now);
}
#define DIFFERENCE(a, b) difference(a, sizeof(a) - 1, b, sizeof(b) - 1)

static void differences_are_named(void **state)
{
    (void)state;
    char *d = DIFFERENCE("f 0644 1 a\0", "f 0644 1 a\0");
    assert_null(d);
    d = DIFFERENCE("f 0644 1 a\0", "f 0644 2 a\0");
    assert_string_equal(d, "'a' was changed");
    free(d);
    d = DIFFERENCE("f 0644 1 a\0f 0644 1 b\0", "f 0644 1 b\0d 0755 - c\0");
    assert_string_equal(d, "'a' is gone, and 1 more");
    free(d);
    d = DIFFERENCE("", "l 0777 1 x y\0");
    assert_string_equal(d, "'x y' was added");
    free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors),
        cmocka_unit_test(what_is_held_is_what_is_hashed),
        cmocka_unit_test(the_task_stops_it),
        cmocka_unit_test(differences_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
