/* Runs during the build. abx_catalog_gen FOLDER OUT.c: packs each plugin folder in FOLDER (providers/) into a C file, with its
 * digest. A plugin with a broken manifest fails the build. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "host/store_inner.h"

#define ARCHIVE_MAX ((size_t)8 << 20)

static _Noreturn void die(const char *what, const abx_error *err)
{
    fprintf(stderr, "catalog: %s: %s\n", what, err ? err->message : strerror(errno));
    exit(1);
}

static void add_file(struct archive *a, struct archive_entry *e, int dir, const char *name,
                     off_t size)
{
    ABX_AUTO_FD fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    ABX_AUTO_FREE char *bytes = (char *)abx_alloc((size_t)size + 1);
    if (fd < 0 || abx_read_full(fd, bytes, (size_t)size) != size)
        die(name, NULL);
    archive_entry_set_size(e, size);
    if (archive_write_header(a, e) != ARCHIVE_OK ||
        archive_write_data(a, bytes, (size_t)size) != size)
        die(archive_error_string(a), NULL);
}

static void add_folder(struct archive *a, int dir, const char *path)
{
    char **names, target[4096];
    size_t count;
    struct stat st;
    if (abx_tree_names(dir, &names, &count) < 0)
        die(path, NULL);
    for (size_t i = 0; i < count; i++) {
        if (fstatat(dir, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
            die(names[i], NULL);
        ABX_AUTO_FREE char *full = abx_format("%s%s%s", path, *path ? "/" : "", names[i]);
        struct archive_entry *e = archive_entry_new();
        archive_entry_set_pathname(e, full);
        archive_entry_set_filetype(e, st.st_mode & S_IFMT);
        archive_entry_set_perm(e, st.st_mode & 07777);
        archive_entry_set_mtime(e, 0, 0);
        if (S_ISREG(st.st_mode)) {
            add_file(a, e, dir, names[i], st.st_size);
        } else {
            ssize_t n =
                S_ISLNK(st.st_mode) ? readlinkat(dir, names[i], target, sizeof(target) - 1) : 0;
            target[n > 0 ? n : 0] = 0;
            if (n > 0)
                archive_entry_set_symlink(e, target);
            if (archive_write_header(a, e) != ARCHIVE_OK)
                die(archive_error_string(a), NULL);
        }
        archive_entry_free(e);
        if (!S_ISDIR(st.st_mode))
            continue;
        ABX_AUTO_FD in = openat(dir, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        add_folder(a, in, full);
    }
    abx_tree_names_free(names, count);
}

static void write_archive(FILE *out, size_t number, int tree)
{
    size_t used = 0;
    ABX_AUTO_FREE unsigned char *bytes = (unsigned char *)abx_alloc(ARCHIVE_MAX);
    struct archive *a = archive_write_new();
    archive_write_add_filter_gzip(a);
    archive_write_set_format_pax_restricted(a);
    archive_write_set_options(a, "gzip:!timestamp");
    archive_write_set_bytes_per_block(a, 512);
    if (archive_write_open_memory(a, bytes, ARCHIVE_MAX, &used) != ARCHIVE_OK)
        die(archive_error_string(a), NULL);
    add_folder(a, tree, "");
    if (archive_write_close(a) != ARCHIVE_OK)
        die(archive_error_string(a), NULL);
    archive_write_free(a);
    fprintf(out, "static const unsigned char archive%zu[%zu] = {", number, used);
    for (size_t i = 0; i < used; i++)
        fprintf(out, "%s0x%02x,", i % 16 ? "" : "\n", bytes[i]);
    fprintf(out, "\n};\n");
}

/* The row of the table, into rows; the archive, into out. */
static void write_plugin(FILE *out, FILE *rows, size_t number, int folder, const char *path)
{
    char dir[] = "/tmp/abx-catalog-XXXXXX", hex[65];
    ABX_AUTO_PROBLEMS problems = ABX_PROBLEMS;
    ABX_AUTO_ERROR err = NULL;
    abx_tree_walk walk = {.strict = true};
    ABX_AUTO_FD tree = mkdtemp(dir) ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    ABX_AUTO(abx_manifest, abx_manifest_free) m = abx_manifest_read(folder, path, &problems);
    if (abx_problems_to_error(&problems, &err) < 0 || tree < 0 ||
        abx__store_copy(folder, tree, NULL, &err) < 0 ||
        abx_tree_digest(tree, &walk, hex, &err) < 0)
        die(path, err);
    if (strcmp(abx_path_base(path), m->id) != 0)
        die("the folder of a plugin has the plugin's id as its name", NULL);
    write_archive(out, number, tree);
    fprintf(rows, "    {\"%s\", \"%s\", \"%s\", archive%zu, sizeof(archive%zu)},\n", m->id,
            m->version, hex, number, number);
    if (abx_remove_tree_at(AT_FDCWD, dir, &err) < 0)
        die(dir, err);
}

int main(int argc, char **argv)
{
    char **names, *text = NULL;
    size_t count, size, number = 0;
    ABX_AUTO_FD dir = argc == 3 ? open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    FILE *out = argc == 3 ? fopen(argv[2], "we") : NULL, *rows = open_memstream(&text, &size);
    if (dir < 0 || !out || !rows || abx_tree_names(dir, &names, &count) < 0)
        die(argc == 3 ? argv[1] : "usage: abx_catalog_gen FOLDER OUT.c", NULL);
    fprintf(out, "/* Made by the build: the plugins that are inside the program. */\n"
                 "#include \"host/store_catalog.h\"\n\n");
    for (size_t i = 0; i < count; i++) {
        ABX_AUTO_FREE char *path = abx_path_join(argv[1], names[i]);
        ABX_AUTO_FD folder = openat(dir, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (folder >= 0)
            write_plugin(out, rows, number++, folder, path);
    }
    abx_tree_names_free(names, count);
    fclose(rows);
    fprintf(out, "\nconst abx_catalog_item abx_catalog_items[] = {\n%s    {0},\n};\n", text);
    free(text);
    return fclose(out) == 0 ? 0 : 1;
}
