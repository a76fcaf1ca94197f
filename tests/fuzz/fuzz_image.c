/* A whole image in an archive, built from the input: layers with hostile names, links and marks, documents that lie. It is read,
 * its layers are unpacked, and the tree is copied as a snapshot is. Nothing outside of the folders is made or changed. */
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "local/template/image_source.h"
#include "local/template/layer_unpack.h"
#include "local/template/tree_copy.h"
#include "picks.h"

#define LAYERS   3
#define ENTRIES  12
#define TAR_SIZE 262144

static uint8_t image_bytes[4 * TAR_SIZE], layer_bytes[TAR_SIZE];

/* --- building ---------------------------------------------------------------------------------------------- */
static const char *const names[] = {"a",
                                    "a/",
                                    "a/b",
                                    "a/b/c",
                                    "l",
                                    "l/x",
                                    "../victim",
                                    "/victim",
                                    "a/../../v",
                                    ".wh.a",
                                    "a/.wh.b",
                                    ".wh.",
                                    ".wh..",
                                    "a/.wh..wh..opq",
                                    ".wh..wh..opq",
                                    "./a//b",
                                    "a/l/../x",
                                    "..",
                                    "",
                                    ".",
                                    "a/.wh..wh.plnk"};
static const char *const targets[] = {"../out", "/",   "a", "..", "../out/victim",
                                      "l",      "a/b", "",  "."};

static void add_entry(struct archive *a, picks *p)
{
    static const mode_t types[] = {AE_IFREG, AE_IFREG, AE_IFDIR, AE_IFLNK,
                                   AE_IFIFO, AE_IFCHR, AE_IFBLK, AE_IFSOCK};
    static const char *const attributes[] = {"user.x", "trusted.overlay.opaque",
                                             "user.overlay.opaque", "security.capability",
                                             "trusted.overlay.redirect"};
    struct archive_entry *e = archive_entry_new();
    ABX_AUTO_BUF name = ABX_BUF(4096);
    size_t n = 0;
    PICK_TEXT(p, names, &name);
    mode_t type = types[pick(p, ABX_COUNT(types))];
    archive_entry_copy_pathname(e, abx_buf_cstr(&name));
    archive_entry_set_filetype(e, type);
    archive_entry_set_perm(e, (mode_t)(pick_byte(p) << 4 | 0600));
    archive_entry_set_uid(e, pick_byte(p));
    archive_entry_set_mtime(e, pick_byte(p), 5);
    size_t extra = pick(p, 8);
    if (type == AE_IFLNK)
        archive_entry_copy_symlink(e, targets[pick(p, ABX_COUNT(targets))]);
    else if (extra == 0)
        archive_entry_copy_hardlink(e, targets[pick(p, ABX_COUNT(targets))]);
    else if (extra == 1)
        archive_entry_xattr_add_entry(e, attributes[pick(p, ABX_COUNT(attributes))], "y", 1);
    else if (extra == 2)
        archive_entry_set_rdevmajor(e, pick_byte(p));
    const uint8_t *bytes = type == AE_IFREG && extra != 0 ? pick_bytes(p, &n) : NULL;
    archive_entry_set_size(e, (la_int64_t)n);
    if (archive_write_header(a, e) >= ARCHIVE_WARN && n > 0)
        (void)archive_write_data(a, bytes, n);
    archive_entry_free(e);
}

static size_t build_layer(picks *p)
{
    struct archive *a = archive_write_new();
    size_t used = 0;
    ABX_CHECK(archive_write_set_format_pax_restricted(a) == ARCHIVE_OK);
    ABX_CHECK(archive_write_set_bytes_per_block(a, 512) == ARCHIVE_OK);
    if (pick(p, 4) == 0)
        ABX_CHECK(archive_write_add_filter_gzip(a) == ARCHIVE_OK);
    ABX_CHECK(archive_write_open_memory(a, layer_bytes, sizeof(layer_bytes), &used) == ARCHIVE_OK);
    for (size_t i = 0, n = 1 + pick(p, ENTRIES); i < n; i++)
        add_entry(a, p);
    (void)archive_write_close(a);
    archive_write_free(a);
    for (size_t i = pick(p, 4); i > 0 && used > 0; i--) /* and some broken bytes */
        layer_bytes[(size_t)pick_byte(p) * 37 % used] ^= pick_byte(p);
    return used;
}

static void add_file(struct archive *a, const char *name, const void *bytes, size_t n)
{
    struct archive_entry *e = archive_entry_new();
    archive_entry_set_pathname(e, name);
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, 0644);
    archive_entry_set_size(e, (la_int64_t)n);
    if (archive_write_header(a, e) >= ARCHIVE_WARN)
        (void)archive_write_data(a, bytes, n);
    archive_entry_free(e);
}

static void add_documents(struct archive *a, picks *p, size_t layers)
{
    static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";
    static const char *const users[] = {"", "root", "1:2", "-1", "99999999999", "u:g:h"};
    ABX_AUTO_BUF manifest = ABX_BUF(65536);
    ABX_AUTO_BUF config = ABX_BUF(65536);
    size_t told = pick(p, 4) ? layers : pick(p, 6);
    int rc = abx_buf_add_str(&manifest, "[{\"Config\":\"c.json\",\"Layers\":[");
    rc |= abx_buf_addf(&config, "{\"os\":\"linux\",\"architecture\":\"%s\",\"config\":{\"User\":\"",
                       abx_oci_architecture());
    pick_json_text(p, users, ABX_COUNT(users), &config);
    rc |= abx_buf_add_str(&config, "\",\"Env\":[\"A=b\",\"x\"],\"WorkingDir\":\"");
    pick_json_text(p, names, ABX_COUNT(names), &config);
    rc |= abx_buf_add_str(&config, "\"},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[");
    for (size_t i = 0; i < told; i++) {
        rc |= abx_buf_addf(&manifest, "%s\"%zu.tar\"", i ? "," : "", i);
        rc |= abx_buf_addf(&config, "%s\"sha256:%.63s%zu\"", i ? "," : "", zeros, i);
    }
    rc |= abx_buf_add_str(&manifest, "]}]") | abx_buf_add_str(&config, "]}}");
    ABX_CHECK(rc == 0);
    add_file(a, "manifest.json", manifest.data, manifest.len);
    add_file(a, "c.json", config.data, config.len);
}

static size_t build_image(picks *p)
{
    struct archive *a = archive_write_new();
    size_t used = 0, layers = 1 + pick(p, LAYERS);
    char name[32];
    ABX_CHECK(archive_write_set_format_pax_restricted(a) == ARCHIVE_OK);
    ABX_CHECK(archive_write_open_memory(a, image_bytes, sizeof(image_bytes), &used) == ARCHIVE_OK);
    for (size_t i = 0; i < layers; i++) {
        size_t n = build_layer(p);
        (void)snprintf(name, sizeof(name), "%zu.tar", i);
        add_file(a, name, layer_bytes, n);
    }
    add_documents(a, p, layers);
    (void)archive_write_close(a);
    archive_write_free(a);
    return used;
}

/* --- reading ----------------------------------------------------------------------------------------------- */
typedef struct world {
    char dir[64];
    int top; /* holds in/, copy/, out/ with the file victim, and the archive */
    abx_oci_image *image;
} world;

static int on_layer(void *data, size_t layer, const abx_blob *blob, abx_error **err)
{
    world *w = data;
    char name[32], blob_hex[65], diff_hex[65];
    ABX_AUTO_BUF owners = ABX_BUF(1 << 16);
    (void)snprintf(name, sizeof(name), "in/%zu", layer);
    ABX_CHECK(mkdirat(w->top, name, 0700) == 0);
    ABX_AUTO_FD fd = openat(w->top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    abx_unpack u = {.dirfd = fd, .bytes = 1 << 20, .entries = 200, .owners = &owners};
    abx_layer_stream *s = abx_layer_stream_open(blob, 4 << 20, err);
    int rc = s ? abx_layer_unpack(s, &u, err) : -1;
    if (rc == 0)
        rc = abx_layer_stream_finish(s, blob_hex, diff_hex, err);
    abx_layer_stream_close(s);
    w->image->layers[layer].taken = true;
    return rc;
}

/* As abx_stack_copy does: one layer over the other, the last without marks. */
static void copy_layers(world *w, size_t count)
{
    char name[32];
    ABX_AUTO_FD to = openat(w->top, "copy", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(name, sizeof(name), "in/%zu", i);
        ABX_AUTO_FD from = openat(w->top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ABX_AUTO_ERROR err = NULL;
        abx_tree_copy c = {
            .from = from, .to = to, .onto = i > 0, .last = i + 1 == count, .most_entries = 500};
        if (from < 0 || abx_tree_copy_run(&c, &err) < 0)
            return;
    }
}

static void read_image(world *w, const char *path)
{
    abx_oci_image image = {0};
    ABX_AUTO_ERROR err = NULL;
    w->image = &image;
    abx_image_source *s = abx_image_open(path, &err);
    if (s && abx_image_read(s, &image, &err) == 0 &&
        abx_image_each_layer(s, &image, on_layer, w, &err) == 0)
        copy_layers(w, image.layer_count);
    abx_image_close(s);
    abx_oci_image_clear(&image);
}

static void open_world(world *w)
{
    (void)snprintf(w->dir, sizeof(w->dir), "/dev/shm/abx-fuzz-XXXXXX");
    ABX_CHECK(mkdtemp(w->dir) != NULL);
    w->top = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_CHECK(w->top >= 0 && mkdirat(w->top, "in", 0700) == 0 &&
              mkdirat(w->top, "copy", 0700) == 0 && mkdirat(w->top, "out", 0700) == 0);
    ABX_AUTO_FD fd = openat(w->top, "out/victim", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ABX_CHECK(fd >= 0 && write(fd, "v", 1) == 1);
}

static void close_world(world *w)
{
    struct stat st;
    ABX_CHECK(fstatat(w->top, "out/victim", &st, AT_SYMLINK_NOFOLLOW) == 0);
    ABX_CHECK(st.st_nlink == 1 && st.st_size == 1 && (st.st_mode & 07777) == 0600);
    ABX_CHECK(unlinkat(w->top, "out/victim", 0) == 0 && unlinkat(w->top, "image", 0) == 0);
    ABX_CHECK(unlinkat(w->top, "out", AT_REMOVEDIR) == 0);
    ABX_CHECK(abx_remove_tree_at(w->top, "in", NULL) == 0);
    ABX_CHECK(abx_remove_tree_at(w->top, "copy", NULL) == 0);
    close(w->top);
    ABX_CHECK(rmdir(w->dir) == 0); /* nothing else was made */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world w = {0};
    picks p = {data, size};
    char path[96];
    open_world(&w);
    size_t n = build_image(&p);
    (void)snprintf(path, sizeof(path), "%s/image", w.dir);
    ABX_AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ABX_CHECK(fd >= 0 && write(fd, image_bytes, n) == (ssize_t)n);
    read_image(&w, path);
    close_world(&w);
    return 0;
}
