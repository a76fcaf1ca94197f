/* Folders as tar streams: there and back, and what a hostile stream may not do. */
#include "kit.h"

#include <archive.h>
#include <archive_entry.h>

#include "doors/cli/tar_pack.h"
#include "doors/cli/tar_unpack.h"

static abx_cli quiet_cli(abx_args *args)
{
    abx_cli cli = {.args = args, .quiet = true};
    return cli;
}

static void make(const char *folder, const char *name, const char *text, mode_t mode)
{
    ABX_AUTO_FREE char *path = abx_path_join(folder, name);
    assert_int_equal(abx_write_atomic(path, text, strlen(text), mode, false, NULL), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static struct stat look(const char *folder, const char *name)
{
    ABX_AUTO_FREE char *path = abx_path_join(folder, name);
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st;
}

static void assert_text(const char *folder, const char *name, const char *want)
{
    ABX_AUTO_FREE char *path = abx_path_join(folder, name);
    ABX_AUTO_BUF text = ABX_BUF(1 << 20);
    assert_int_equal(abx_read_file(path, 1 << 20, &text, NULL), 0);
    assert_string_equal(abx_buf_cstr(&text), want);
}

static int to_buffer(const void *bytes, size_t n, void *data, abx_error **err)
{
    return abx_buf_add(data, bytes, n);
}

/* The stream in pieces of one size. */
typedef struct pieces {
    const abx_buf *all;
    size_t at, step;
} pieces;

static int from_buffer(const uint8_t **bytes, size_t *n, void *data, abx_error **err)
{
    pieces *p = data;
    size_t left = p->all->len - p->at;
    *n = left < p->step ? left : p->step;
    *bytes = p->all->data + p->at;
    p->at += *n;
    return *n > 0;
}

static int unpack(const char *folder, const abx_buf *stream, size_t step, abx_error **err)
{
    abx_args args = {0};
    abx_cli cli = quiet_cli(&args);
    int root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pieces p = {stream, 0, step};
    abx_tar_unpack_options options = {.cli = &cli,
                                      .root = root,
                                      .name = folder,
                                      .with_root = true,
                                      .read = from_buffer,
                                      .data = &p};
    int64_t files = 0, bytes = 0;
    int rc = abx_tar_unpack(&options, &files, &bytes, err);
    close(root);
    return rc;
}

static bool wants_a(const char *name, void *data)
{
    return strcmp(name, "a") == 0;
}

/* Only named files leave, and only files that were asked for come in, also by way of a hard link. */
static void names_that_were_not_asked_for(void **state)
{
    static const char *const streams[][2] = {{"a", "b"}, {"a", "gone"}};
    char *from = kit_folder();
    make(from, "a", "A", 0644);
    make(from, "b", "B", 0644);
    make(from, "c", "C", 0644);
    for (size_t i = 0; i < ABX_COUNT(streams); i++) {
        char *to = kit_folder();
        make(to, "b", "mine", 0600);
        abx_args args = {0};
        abx_cli cli = quiet_cli(&args);
        ABX_AUTO_BUF stream = ABX_BUF(1 << 20);
        int fd = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        abx_tar_pack_options pack = {.cli = &cli,
                                     .root = from,
                                     .names = streams[i],
                                     .name_count = 2,
                                     .write = to_buffer,
                                     .data = &stream};
        int64_t files = 0, bytes = 0;
        assert_int_equal(abx_tar_pack(fd, &pack, &files, &bytes, NULL), 0);
        close(fd);
        int root = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        pieces p = {&stream, 0, 100};
        abx_tar_unpack_options options = {.cli = &cli,
                                          .root = root,
                                          .name = to,
                                          .wants = wants_a,
                                          .read = from_buffer,
                                          .data = &p};
        abx_error *err = NULL;
        files = bytes = 0;
        int rc = abx_tar_unpack(&options, &files, &bytes, &err);
        close(root);
        assert_int_equal(rc, i == 0 ? -1 : 0);
        if (i == 0)
            assert_fails(err, FILE);
        assert_text(to, "a", "A");
        assert_text(to, "b", "mine");
        kit_drop(to);
    }
    kit_drop(from);
}

static void a_folder_there_and_back(void **state)
{
    ABX_AUTO_FREE char *folder = kit_folder();
    ABX_AUTO_FREE char *from = abx_path_join(folder, "from");
    assert_int_equal(mkdir(from, 0750), 0);
    make(from, "plain", "text\n", 0644);
    make(from, "exec", "#!", 0755);
    make(from, "empty", "", 0600);
    make(from, "n\xc3\xa4m\xff\n e", "odd", 0640);
    char longest[200];
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    make(from, longest, "long", 0644);
    ABX_AUTO_FREE char *sub = abx_path_join(from, "ro");
    assert_int_equal(mkdir(sub, 0755), 0);
    make(sub, "in", "inside", 0444);
    assert_int_equal(chmod(sub, 0555), 0);
    ABX_AUTO_FREE char *hard = abx_path_join(from, "hard");
    ABX_AUTO_FREE char *plain = abx_path_join(from, "plain");
    assert_int_equal(link(plain, hard), 0);
    ABX_AUTO_FREE char *soft = abx_path_join(from, "soft");
    assert_int_equal(symlink("../out/side", soft), 0);
    struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, plain, times, 0), 0);

    abx_args args = {0};
    abx_cli cli = quiet_cli(&args);
    ABX_AUTO_BUF stream = ABX_BUF(1 << 24);
    int fd = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    abx_tar_pack_options options = {
        .cli = &cli, .root = from, .with_root = true, .write = to_buffer, .data = &stream};
    int64_t files = 0, bytes = 0;
    assert_int_equal(abx_tar_pack(fd, &options, &files, &bytes, NULL), 0);
    close(fd);
    assert_int_equal(stream.len % 512, 0);

    static const size_t steps[] = {1, 511, 512, 513, 100000};
    for (size_t i = 0; i < ABX_COUNT(steps); i++) {
        ABX_AUTO_FREE char *to = abx_format("%s/to%zu", folder, i);
        assert_int_equal(mkdir(to, 0700), 0);
        abx_error *err = NULL;
        if (unpack(to, &stream, steps[i], &err) < 0)
            fail_msg("%s", err->message);
        assert_text(to, "plain", "text\n");
        assert_text(to, "hard", "text\n");
        assert_text(to, "n\xc3\xa4m\xff\n e", "odd");
        assert_text(to, longest, "long");
        assert_text(to, "ro/in", "inside");
        assert_int_equal(look(to, "plain").st_mtim.tv_sec, 1000000000);
        assert_int_equal(look(to, "plain").st_nlink, 2);
        assert_int_equal(look(to, "exec").st_mode & 07777, 0755);
        assert_int_equal(look(to, "empty").st_mode & 07777, 0600);
        assert_int_equal(look(to, "ro").st_mode & 07777, 0555);
        assert_int_equal(look(to, ".").st_mode & 07777, 0750);
        assert_true(S_ISLNK(look(to, "soft").st_mode));
    }
    assert_int_equal(abx_remove_tree_at(AT_FDCWD, folder, NULL), 0);
}

/* --- hostile streams ------------------------------------------------------------------------------------ */

typedef struct entry {
    const char *name;
    mode_t mode;
    const char *data,
        *link; /* link: of a symbolic link, or of a hard one when the mode is a file's */
} entry;

static la_ssize_t on_write(struct archive *a, void *data, const void *bytes, size_t n)
{
    return abx_buf_add(data, bytes, n) == 0 ? (la_ssize_t)n : -1;
}

static void build(abx_buf *out, const entry *entries)
{
    struct archive *a = archive_write_new();
    archive_write_set_format_gnutar(a);
    archive_write_set_bytes_per_block(a, 0);
    assert_int_equal(archive_write_open(a, out, NULL, on_write, NULL), ARCHIVE_OK);
    for (const entry *e = entries; e->name; e++) {
        struct archive_entry *h = archive_entry_new();
        archive_entry_copy_pathname(h, e->name);
        archive_entry_set_mode(h, e->mode);
        size_t n = e->data ? strlen(e->data) : 0;
        archive_entry_set_size(h, (la_int64_t)n);
        if (S_ISLNK(e->mode))
            archive_entry_copy_symlink(h, e->link);
        else if (e->link)
            archive_entry_copy_hardlink(h, e->link);
        assert_true(archive_write_header(a, h) >= ARCHIVE_WARN);
        if (n)
            archive_write_data(a, e->data, n);
        archive_entry_free(h);
    }
    archive_write_close(a);
    archive_write_free(a);
}

#define FILE_MODE (S_IFREG | 0644)
#define DIR_MODE  (S_IFDIR | 0755)
#define LINK_MODE (S_IFLNK | 0777)

static const entry hostile[][5] = {
    {{"/tmp/abx-evil", FILE_MODE, "x"}},
    {{"../evil", FILE_MODE, "x"}},
    {{"a/../../evil", FILE_MODE, "x"}},
    {{"l", LINK_MODE, NULL, "../out"}, {"l/evil", FILE_MODE, "x"}},
    {{"l", LINK_MODE, NULL, "../out/victim"}, {"h", FILE_MODE, NULL, "l"}},
    {{"h", FILE_MODE, NULL, "../out/victim"}},
    {{"d", DIR_MODE}, {"d", LINK_MODE, NULL, "../out"}, {"d/evil", FILE_MODE, "x"}},
    {{"l", LINK_MODE, NULL, "../out"}, {"l", DIR_MODE}, {"l/evil", FILE_MODE, "x"}},
};

static void hostile_streams_are_refused_and_write_nothing_outside(void **state)
{
    for (size_t i = 0; i < ABX_COUNT(hostile); i++) {
        ABX_AUTO_FREE char *folder = kit_folder();
        ABX_AUTO_FREE char *to = abx_path_join(folder, "to");
        ABX_AUTO_FREE char *out = abx_path_join(folder, "out");
        assert_int_equal(mkdir(to, 0700), 0);
        assert_int_equal(mkdir(out, 0700), 0);
        make(out, "victim", "untouched", 0600);
        ABX_AUTO_BUF stream = ABX_BUF(1 << 20);
        build(&stream, hostile[i]);
        abx_error *err = NULL;
        if (unpack(to, &stream, 4096, &err) == 0)
            fail_msg("stream %zu was taken", i);
        assert_fails(err, FILE);
        assert_text(out, "victim", "untouched");
        assert_int_equal(look(out, "victim").st_nlink, 1);
        ABX_AUTO_FREE char *evil = abx_path_join(folder, "out/evil");
        ABX_AUTO_FREE char *above = abx_path_join(folder, "evil");
        assert_int_equal(access(evil, F_OK), -1);
        assert_int_equal(access(above, F_OK), -1);
        assert_int_equal(access("/tmp/abx-evil", F_OK), -1);
        assert_int_equal(abx_remove_tree_at(AT_FDCWD, folder, NULL), 0);
    }
}

static void a_file_replaces_a_link_and_is_not_written_through_it(void **state)
{
    ABX_AUTO_FREE char *folder = kit_folder();
    ABX_AUTO_FREE char *to = abx_path_join(folder, "to");
    assert_int_equal(mkdir(to, 0700), 0);
    make(folder, "victim", "untouched", 0600);
    ABX_AUTO_BUF stream = ABX_BUF(1 << 20);
    build(&stream,
          (const entry[]){{"f", LINK_MODE, NULL, "../victim"}, {"f", FILE_MODE, "new"}, {NULL}});
    assert_int_equal(unpack(to, &stream, 4096, NULL), 0);
    assert_text(folder, "victim", "untouched");
    assert_text(to, "f", "new");
    assert_true(S_ISREG(look(to, "f").st_mode));
    assert_int_equal(abx_remove_tree_at(AT_FDCWD, folder, NULL), 0);
}

static void set_ids_are_dropped_and_devices_left_out(void **state)
{
    ABX_AUTO_FREE char *folder = kit_folder();
    ABX_AUTO_BUF stream = ABX_BUF(1 << 20);
    build(&stream, (const entry[]){{"d", S_IFDIR | 07755},
                                   {"d/sid", S_IFREG | 06755, "x"},
                                   {"fifo", S_IFIFO | 0644},
                                   {"null", S_IFCHR | 0666},
                                   {NULL}});
    assert_int_equal(unpack(folder, &stream, 4096, NULL), 0);
    assert_int_equal(look(folder, "d").st_mode & 07777, 0755);
    assert_int_equal(look(folder, "d/sid").st_mode & 07777, 0755);
    ABX_AUTO_FREE char *fifo = abx_path_join(folder, "fifo");
    ABX_AUTO_FREE char *null = abx_path_join(folder, "null");
    assert_int_equal(access(fifo, F_OK), -1);
    assert_int_equal(access(null, F_OK), -1);
    assert_int_equal(abx_remove_tree_at(AT_FDCWD, folder, NULL), 0);
}

/* Counted: what is made, also by a long name alone. */
static void so_many_names_and_no_more(void **state)
{
    static const entry plain[] = {{"d", DIR_MODE, NULL, NULL},
                                  {"d/a", FILE_MODE, "a", NULL},
                                  {"d/b", FILE_MODE, "b", NULL},
                                  {"d/c", FILE_MODE, "c", NULL},
                                  {NULL, 0, NULL, NULL}};
    static const entry deep[] = {{"1/2/3/4/5/6/7/8", FILE_MODE, "x", NULL}, {NULL, 0, NULL, NULL}};
    static const struct {
        const entry *entries;
        int64_t most;
        bool good;
    } rows[] = {{plain, 4, true}, {plain, 3, false}, {deep, 8, true}, {deep, 7, false}};
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        char *to = kit_folder();
        abx_args args = {0};
        abx_cli cli = quiet_cli(&args);
        ABX_AUTO_BUF stream = ABX_BUF(1 << 20);
        build(&stream, rows[i].entries);
        int root = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        pieces p = {&stream, 0, 100};
        abx_tar_unpack_options options = {.cli = &cli,
                                          .root = root,
                                          .name = to,
                                          .most_entries = rows[i].most,
                                          .read = from_buffer,
                                          .data = &p};
        abx_error *err = NULL;
        int64_t files = 0, bytes = 0;
        assert_int_equal(abx_tar_unpack(&options, &files, &bytes, &err), rows[i].good ? 0 : -1);
        close(root);
        if (!rows[i].good)
            assert_fails(err, TOO_LARGE);
        kit_drop(to);
    }
}

static void a_cut_stream_is_an_error(void **state)
{
    ABX_AUTO_BUF stream = ABX_BUF(1 << 20);
    build(&stream, (const entry[]){{"f", FILE_MODE, "some text"}, {NULL}});
    static const size_t cuts[] = {100, 511, 515};
    for (size_t i = 0; i < ABX_COUNT(cuts); i++) {
        ABX_AUTO_FREE char *folder = kit_folder();
        abx_buf cut = {stream.data, cuts[i], stream.cap, stream.max};
        abx_error *err = NULL;
        assert_int_equal(unpack(folder, &cut, 4096, &err), -1);
        assert_fails(err, FILE);
        assert_int_equal(abx_remove_tree_at(AT_FDCWD, folder, NULL), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_there_and_back),
        cmocka_unit_test(hostile_streams_are_refused_and_write_nothing_outside),
        cmocka_unit_test(a_file_replaces_a_link_and_is_not_written_through_it),
        cmocka_unit_test(set_ids_are_dropped_and_devices_left_out),
        cmocka_unit_test(names_that_were_not_asked_for),
        cmocka_unit_test(a_cut_stream_is_an_error),
        cmocka_unit_test(so_many_names_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
