/* Layers: tar streams become folders, folders lie over one another, copies keep what files are. */
#include "kit.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/xattr.h>

#include "local/template/marks.h"
#include "local/template/layer_find.h"
#include "local/template/layer_unpack.h"
#include "local/template/tree_copy.h"

typedef struct row {
    const char *name;
    mode_t type, mode;
    const char *text; /* contents, or the target of a link */
    bool hard;
} row;

typedef struct memory {
    uint8_t bytes[65536];
    size_t len, at, piece;
} memory;

static void pack(memory *m, const row *rows, size_t n)
{
    struct archive *a = archive_write_new();
    archive_write_set_format_pax_restricted(a);
    archive_write_set_bytes_per_block(a, 512);
    archive_write_open_memory(a, m->bytes, sizeof(m->bytes), &m->len);
    for (size_t i = 0; i < n; i++) {
        struct archive_entry *e = archive_entry_new();
        const row *r = &rows[i];
        archive_entry_set_pathname(e, r->name);
        archive_entry_set_filetype(e, r->type);
        archive_entry_set_perm(e, r->mode);
        archive_entry_set_mtime(e, 1000000000, 0);
        size_t size = r->type == AE_IFREG && !r->hard && r->text ? strlen(r->text) : 0;
        archive_entry_set_size(e, (la_int64_t)size);
        if (r->type == AE_IFLNK)
            archive_entry_set_symlink(e, r->text);
        if (r->hard)
            archive_entry_set_hardlink(e, r->text);
        assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
        if (size)
            assert_int_equal(archive_write_data(a, r->text, size), size);
        archive_entry_free(e);
    }
    archive_write_close(a);
    archive_write_free(a);
    m->at = 0;
}

static ssize_t read_memory(void *data, const void **bytes, abx_error **err)
{
    memory *m = data;
    (void)err;
    size_t n = m->len - m->at;
    n = m->piece && n > m->piece ? m->piece : n;
    *bytes = m->bytes + m->at;
    m->at += n;
    return (ssize_t)n;
}

static int unpack_memory(memory *m, int fd, abx_unpack *u, abx_error **err)
{
    abx_blob blob = {read_memory, m};
    u->dirfd = fd;
    u->bytes = u->bytes ? u->bytes : 1 << 20;
    u->entries = u->entries ? u->entries : 100;
    abx_layer_stream *s = abx_layer_stream_open(&blob, 1 << 22, err);
    int rc = s ? abx_layer_unpack(s, u, err) : -1;
    abx_layer_stream_close(s);
    return rc;
}

/* Unpack rows in a new folder; *fd is it. */
static char *unpacked(const row *rows, size_t n, int *fd, abx_unpack *u, int *rc, abx_error **err)
{
    memory *m = ABX_NEW(memory);
    char *dir = kit_folder();
    *fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pack(m, rows, n);
    *rc = unpack_memory(m, *fd, u, err);
    free(m);
    return dir;
}

static void marks_become_whiteouts_and_opaque_folders(void **state)
{
    static const row rows[] = {
        {"d/", AE_IFDIR, 0755, NULL, false},           {"d/.wh.gone", AE_IFREG, 0644, "", false},
        {"d/.wh..wh..opq", AE_IFREG, 0644, "", false}, {"both", AE_IFREG, 0644, "x", false},
        {".wh.both", AE_IFREG, 0644, "", false},       {".wh.late", AE_IFREG, 0644, "", false},
        {"late/", AE_IFDIR, 0755, NULL, false},        {".wh..wh.plnk", AE_IFREG, 0644, "", false},
    };
    abx_unpack u = {0};
    struct stat st;
    ABX_AUTO_FD fd = -1;
    ABX_AUTO_ERROR err = NULL;
    int rc;
    (void)state;
    char *dir = unpacked(rows, ABX_COUNT(rows), &fd, &u, &rc, &err);
    assert_int_equal(rc, 0);
    assert_int_equal(fstatat(fd, "d/gone", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(abx_is_whiteout(&st));
    ABX_AUTO_FD d = openat(fd, "d", O_RDONLY | O_CLOEXEC),
                late = openat(fd, "late", O_RDONLY | O_CLOEXEC);
    assert_true(abx_is_opaque(d) && abx_is_opaque(late));
    assert_int_equal(fstatat(fd, "both", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(fstatat(fd, ".wh..wh.plnk", &st, AT_SYMLINK_NOFOLLOW), -1);
    kit_drop(dir);
}

static void the_later_of_two_entries_counts(void **state)
{
    static const row rows[] = {
        {"a", AE_IFREG, 0644, "first", false},
        {"a", AE_IFREG, 0600, "second", false},
        {"b", AE_IFREG, 0644, "x", false},
        {"b/c", AE_IFREG, 0644, "y", false},
    };
    abx_unpack u = {0};
    ABX_AUTO_FD fd = -1;
    ABX_AUTO_ERROR err = NULL;
    int rc;
    (void)state;
    char *dir = unpacked(rows, 2, &fd, &u, &rc, &err);
    assert_int_equal(rc, 0);
    ABX_AUTO_FREE char *path = abx_path_join(dir, "a");
    ABX_AUTO_FREE char *text = kit_read(path);
    assert_string_equal(text, "second");
    kit_drop(dir);
    abx_close_fd(&fd);
    dir = unpacked(rows, 4, &fd, &u, &rc, &err); /* below a file */
    assert_int_equal(rc, -1);
    assert_non_null(strstr(err->message, "b/c"));
    kit_drop(dir);
}

static void attacks_are_refused_with_the_entrys_name(void **state)
{
    static const row rows[][2] = {
        {{"l", AE_IFLNK, 0777, "/tmp", false}, {"l/evil", AE_IFREG, 0644, "x", false}},
        {{"l", AE_IFLNK, 0777, "..", false}, {"l/evil", AE_IFREG, 0644, "x", false}},
        {{"a", AE_IFREG, 0644, "x", false}, {"../evil", AE_IFREG, 0644, "x", false}},
        {{"a", AE_IFREG, 0644, "x", false}, {"evil", AE_IFREG, 0644, "/etc/passwd", true}},
        {{"l", AE_IFLNK, 0777, "/etc", false}, {"evil", AE_IFREG, 0644, "l/passwd", true}},
        {{"d/", AE_IFDIR, 0755, NULL, false}, {"evil", AE_IFREG, 0644, "d", true}},
        {{"a", AE_IFREG, 0644, "x", false}, {".wh.evil/x", AE_IFREG, 0644, "", false}},
    };
    (void)state;
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        abx_unpack u = {0};
        ABX_AUTO_FD fd = -1;
        ABX_AUTO_ERROR err = NULL;
        int rc;
        char *dir = unpacked(rows[i], 2, &fd, &u, &rc, &err);
        assert_int_equal(rc, -1);
        assert_non_null(strstr(err->message, "evil"));
        kit_drop(dir);
    }
    assert_int_equal(access("/tmp/evil", F_OK), -1);
}

static void limits_hold(void **state)
{
    static const row rows[] = {{"a", AE_IFREG, 0644, "123456", false},
                               {"b", AE_IFREG, 0644, "", false}};
    abx_unpack few = {.entries = 1}, small = {.bytes = 5};
    ABX_AUTO_FD fd = -1;
    ABX_AUTO_ERROR err = NULL;
    int rc;
    (void)state;
    char *dir = unpacked(rows, 2, &fd, &few, &rc, &err);
    assert_int_equal(rc, -1);
    assert_fails(err, TOO_LARGE);
    kit_drop(dir);
    abx_close_fd(&fd);
    dir = unpacked(rows, 2, &fd, &small, &rc, &err);
    assert_int_equal(rc, -1);
    assert_fails(err, TOO_LARGE);
    kit_drop(dir);
}

static void set_id_bits_and_devices_are_dropped(void **state)
{
    static const row rows[] = {{"s", AE_IFREG, 06755, "x", false},
                               {"dev", AE_IFBLK, 0644, NULL, false}};
    abx_unpack u = {0};
    struct stat st;
    ABX_AUTO_FD fd = -1;
    int rc;
    (void)state;
    char *dir = unpacked(rows, 2, &fd, &u, &rc, NULL);
    assert_int_equal(rc, 0);
    assert_int_equal(fstatat(fd, "s", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(fstatat(fd, "dev", &st, 0), -1);
    kit_drop(dir);
}

/* Every head of an archive, and each byte of it changed, is refused or unpacked, never worse. */
static void broken_archives_end_cleanly(void **state)
{
    static const row rows[] = {{"d/", AE_IFDIR, 0755, NULL, false},
                               {"d/f", AE_IFREG, 0644, "text", false},
                               {"l", AE_IFLNK, 0777, "d/f", false}};
    memory *m = ABX_NEW(memory), *copy = ABX_NEW(memory);
    (void)state;
    pack(m, rows, ABX_COUNT(rows));
    for (size_t cut = 0; cut < m->len; cut += 37) {
        char *dir = kit_folder();
        ABX_AUTO_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ABX_AUTO_ERROR err = NULL;
        abx_unpack u = {0};
        *copy = *m;
        copy->piece = 100;
        if (cut % 2)
            copy->len = cut;
        else
            copy->bytes[cut] ^= 0x41;
        (void)unpack_memory(copy, fd, &u, &err);
        kit_drop(dir);
    }
    free(m);
    free(copy);
}

/* --- merging ----------------------------------------------------------------------------------------- */

static void layers_are_seen_and_merged_alike(void **state)
{
    static const row low[] = {
        {"d/", AE_IFDIR, 0755, NULL, false}, {"d/a", AE_IFREG, 0644, "a", false},
        {"o/", AE_IFDIR, 0755, NULL, false}, {"o/old", AE_IFREG, 0644, "o", false},
        {"f", AE_IFREG, 0644, "low", false}, {"t/", AE_IFDIR, 0755, NULL, false},
        {"t/x", AE_IFREG, 0644, "x", false}};
    static const row high[] = {
        {"d/", AE_IFDIR, 0700, NULL, false},           {"d/.wh.a", AE_IFREG, 0644, "", false},
        {"d/b", AE_IFREG, 0644, "b", false},           {"o/", AE_IFDIR, 0755, NULL, false},
        {"o/.wh..wh..opq", AE_IFREG, 0644, "", false}, {"f", AE_IFREG, 0644, "high", false},
        {"t", AE_IFREG, 0644, "file", false}};
    static const struct {
        const char *path;
        bool there;
    } want[] = {{"d/a", false}, {"d/b", true}, {"o", true},   {"o/old", false},
                {"f", true},    {"t", true},   {"t/x", false}};
    abx_unpack u = {0}, v = {0};
    ABX_AUTO_FD a = -1, b = -1;
    int rc;
    (void)state;
    char *low_dir = unpacked(low, ABX_COUNT(low), &a, &u, &rc, NULL);
    assert_int_equal(rc, 0);
    char *high_dir = unpacked(high, ABX_COUNT(high), &b, &v, &rc, NULL);
    assert_int_equal(rc, 0);
    char *merged = kit_folder();
    ABX_AUTO_FD to = open(merged, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int fds[] = {b, a}, from[] = {a, b};
    for (size_t i = 0; i < 2; i++) {
        abx_tree_copy c = {.from = from[i], .to = to, .onto = true, .last = true};
        assert_int_equal(abx_tree_copy_run(&c, NULL), 0);
    }
    abx_layer_set both = {fds, 2};
    struct stat st;
    for (size_t i = 0; i < ABX_COUNT(want); i++) {
        assert_int_equal(abx_layers_find(&both, want[i].path, &st, NULL), want[i].there);
        assert_int_equal(fstatat(to, want[i].path, &st, AT_SYMLINK_NOFOLLOW) == 0, want[i].there);
    }
    ABX_AUTO_BUF text = ABX_BUF(100);
    assert_true(abx_layers_read(&both, "f", &text));
    assert_string_equal(abx_buf_cstr(&text), "high");
    kit_drop(low_dir);
    kit_drop(high_dir);
    kit_drop(merged);
}

static void a_copy_keeps_links_holes_and_times(void **state)
{
    char *dir = kit_folder(), *copy = kit_folder();
    ABX_AUTO_FD from = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FD to = open(copy, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct timespec times[2] = {{1, 2}, {3, 4}};
    struct stat a, b;
    (void)state;
    ABX_AUTO_FD f = openat(from, "sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    assert_int_equal(ftruncate(f, 10 << 20), 0);
    assert_int_equal(pwrite(f, "x", 1, 5 << 20), 1);
    assert_int_equal(linkat(from, "sparse", from, "twin", 0), 0);
    assert_int_equal(futimens(f, times), 0);
    assert_int_equal(symlinkat("/etc/passwd", from, "link"), 0);
    abx_tree_copy c = {.from = from, .to = to};
    assert_int_equal(abx_tree_copy_run(&c, NULL), 0);
    assert_int_equal(fstatat(to, "sparse", &a, 0), 0);
    assert_int_equal(fstatat(to, "twin", &b, 0), 0);
    assert_int_equal(a.st_ino, b.st_ino);
    assert_int_equal(a.st_size, 10 << 20);
    assert_true(a.st_blocks < 100);
    assert_int_equal(a.st_mtim.tv_nsec, 4);
    assert_int_equal(fstatat(to, "link", &a, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISLNK(a.st_mode));
    kit_drop(dir);
    kit_drop(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_become_whiteouts_and_opaque_folders),
        cmocka_unit_test(the_later_of_two_entries_counts),
        cmocka_unit_test(attacks_are_refused_with_the_entrys_name),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(set_id_bits_and_devices_are_dropped),
        cmocka_unit_test(broken_archives_end_cleanly),
        cmocka_unit_test(layers_are_seen_and_merged_alike),
        cmocka_unit_test(a_copy_keeps_links_holes_and_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
