#include "doors/cli/copy.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

static yyjson_mut_doc *path_params(abx_copy *c, const char *sandbox, const char *path,
                                   yyjson_mut_val **root)
{
    yyjson_mut_doc *d = abx_cli_params(sandbox, root);
    abx_mut_str(d, *root, "path", path);
    abx_mut_str(d, *root, "user", c->user);
    return d;
}

static void fill_place(abx_copy_place *out, yyjson_val *file)
{
    out->kind = abx_str_eq(abx_json_str(file, "type", ""), "dir") ? ABX_COPY_DIR : ABX_COPY_FILE;
    out->special = abx_str_eq(abx_json_str(file, "type", ""), "other");
    out->size = abx_json_int(file, "size", 0);
    out->has_holes = out->size - abx_json_int(file, "allocated", out->size) >= ABX_COPY_HOLES_MIN;
    out->mode = (mode_t)(abx_json_int(file, "mode", 0644) & 0777);
    int64_t seconds = 0;
    long ns = 0;
    out->has_modified =
        abx_parse_rfc3339_ns(abx_json_str(file, "modifiedAt", ""), &seconds, &ns) == 0;
    out->modified = (struct timespec){(time_t)seconds, ns};
    const char *path = abx_json_str(file, "path", NULL);
    if (path) {
        free(out->path);
        out->path = abx_strdup(path);
    }
}

/* A link: a folder behind it answers at PATH/. ; everything else is read and written through it. */
static int look_behind(abx_copy *c, abx_copy_place *out, abx_error **err)
{
    ABX_AUTO_FREE char *inside = abx_path_join(out->path, ".");
    yyjson_mut_val *root = NULL;
    ABX_AUTO_JSON found = NULL;
    ABX_AUTO_ERROR failed = NULL;
    int rc = abx_cli_call(c->cli, ABX_OP_FS_STAT, path_params(c, out->sandbox, inside, &root),
                          &found, &failed);
    if (rc == 0)
        fill_place(out, yyjson_doc_get_root(found));
    else if (failed->id == ABX_ERR_CANCELLED)
        return abx_error_take(err, ABX_TAKE(failed));
    else
        out->mode = 0644; /* a link's own mode says nothing */
    return 0;
}

int abx_copy_look(abx_copy *c, const abx_remote_path *path, abx_copy_place *out, abx_error **err)
{
    *out = (abx_copy_place){.sandbox = path->sandbox, .path = abx_strdup(path->path)};
    yyjson_mut_val *root = NULL;
    ABX_AUTO_JSON found = NULL;
    ABX_AUTO_ERROR failed = NULL;
    if (abx_cli_call(c->cli, ABX_OP_FS_STAT, path_params(c, path->sandbox, path->path, &root),
                     &found, &failed) < 0) {
        if (failed->id == ABX_ERR_FILE_NOT_FOUND)
            return 0;
        return abx_error_take(err, ABX_TAKE(failed));
    }
    yyjson_val *file = yyjson_doc_get_root(found);
    fill_place(out, file);
    if (!abx_str_eq(abx_json_str(file, "type", ""), "symlink"))
        return 0;
    out->is_link = true;
    out->has_modified = out->has_holes = false; /* of the link, not of the file */
    return look_behind(c, out, err);
}

void abx_copy_place_clear(abx_copy_place *p)
{
    free(p->path);
    p->path = NULL;
}

bool abx_copy_is_contents(const char *word)
{
    return strcmp(word, ".") == 0 || abx_has_suffix(word, "/.");
}

char *abx_copy_base(const char *path)
{
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/')
        n--;
    size_t from = n;
    while (from > 0 && path[from - 1] != '/')
        from--;
    char *base = abx_strndup(path + from, n - from);
    if (base[0] && strcmp(base, ".") != 0 && strcmp(base, "..") != 0)
        return base;
    free(base);
    return NULL;
}

static int make_dir(abx_copy *c, const char *sandbox, const char *path, bool *created,
                    abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_JSON made = NULL;
    if (abx_cli_call(c->cli, ABX_OP_FS_MAKE_DIR, path_params(c, sandbox, path, &root), &made, err) <
        0)
        return -1;
    *created = abx_json_bool(yyjson_doc_get_root(made), "created", true);
    return 0;
}

int abx_copy_folder_target(abx_copy *c, const abx_copy_place *place, const char *base, char **path,
                           bool *created, abx_error **err)
{
    *created = false;
    if (place->kind == ABX_COPY_FILE) {
        abx_fail(err, ABX_ERR_CONFLICT, "cannot copy a folder onto '%s': it is a file",
                 place->path);
        return abx_hint(err, "name a folder, or a path that does not exist");
    }
    if (place->kind == ABX_COPY_DIR && !base) {
        *path = abx_strdup(place->path);
        return 0;
    }
    ABX_AUTO_FREE char *wanted =
        place->kind == ABX_COPY_DIR ? abx_path_join(place->path, base) : abx_strdup(place->path);
    if (make_dir(c, place->sandbox, wanted, created, err) < 0)
        return -1;
    /* Absolute, whatever the home of the user is: tar starts elsewhere. */
    abx_remote_path remote = {NULL, wanted};
    ABX_AUTO_FREE char *sandbox = abx_strdup(place->sandbox);
    remote.sandbox = sandbox;
    abx_copy_place made;
    if (abx_copy_look(c, &remote, &made, err) < 0) {
        abx_copy_place_clear(&made);
        return -1;
    }
    *path = made.path;
    return 0;
}

int abx_copy_file_target(const abx_copy_place *place, const char *word, const char *base,
                         char **path, abx_error **err)
{
    if (place->kind == ABX_COPY_DIR) {
        *path = abx_path_join(place->path, base);
        return 0;
    }
    if (place->kind == ABX_COPY_NONE && abx_has_suffix(word, "/")) {
        abx_fail(err, ABX_ERR_FILE_NOT_FOUND, "no such folder '%s'", word);
        return abx_hint(err, "make it first, or leave out the last slash");
    }
    *path = abx_strdup(place->path);
    return 0;
}

/* --- one file ------------------------------------------------------------------------------------------ */

int abx_copy_read_file(abx_copy *c, abx_stream *s, const abx_copy_place *from, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = path_params(c, from->sandbox, from->path, &root);
    return abx_stream_open(s, c->cli, ABX_OP_FS_READ, from->sandbox, d, false, err);
}

int abx_copy_write_file(abx_copy *c, abx_stream *s, const char *sandbox, const char *path,
                        int64_t size, mode_t mode, const struct timespec *modified, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = path_params(c, sandbox, path, &root);
    if (size >= 0)
        abx_mut_int(d, root, "size", size);
    abx_mut_int(d, root, "mode", mode & 0777);
    abx_mut_bool(d, root, "whole", true);
    if (modified) {
        char text[ABX_RFC3339_NS_SIZE];
        abx_format_rfc3339_ns(modified->tv_sec, modified->tv_nsec, text);
        abx_mut_str(d, root, "modifiedAt", text);
    }
    return abx_stream_open(s, c->cli, ABX_OP_FS_WRITE, sandbox, d, true, err);
}

int abx_copy_write_finish(abx_stream *s, const char *path, int64_t sent, abx_error **err)
{
    yyjson_val *result = NULL;
    abx_stream_write_end(s);
    if (abx_stream_finish(s, &result, err) < 0)
        return -1;
    int64_t written = abx_json_int(result, "size", sent);
    if (written == sent)
        return 0;
    return abx_fail(err, ABX_ERR_FILE, "only %lld of %lld bytes of '%s' were written",
                    (long long)written, (long long)sent, path);
}
