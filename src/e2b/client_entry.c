/* EntryInfo → file object. Names come from a server that may mean harm: one that could lead elsewhere is refused;
 * control characters stay, who prints them escapes them. */
#include "e2b/client_inner.h"

#include <string.h>

#include "base/text.h"

/* Is there a component ".." in a path? */
static bool climbs(const char *path)
{
    while (*path) {
        size_t n = strcspn(path, "/");
        if (n == 2 && path[0] == '.' && path[1] == '.')
            return true;
        path += n + (path[n] == '/');
    }
    return false;
}

bool abx__envd_is_inside(yyjson_val *text)
{
    const char *s = yyjson_get_str(text);
    return s && strlen(s) == yyjson_get_len(text) && *s && *s != '/' && !climbs(s);
}

static bool is_name(const char *s)
{
    return s && *s && !strchr(s, '/') && strcmp(s, ".") != 0 && strcmp(s, "..") != 0;
}

static const char *kind_of(const abx_envd_client *c, yyjson_val *entry)
{
    static const char *const kinds[] = {"file", "dir", "symlink", "other"};
    const char *own = c->abx ? abx_json_str(entry, "abxType", NULL) : NULL;
    for (size_t i = 0; own && i < 4; i++)
        if (strcmp(own, kinds[i]) == 0)
            return kinds[i];
    const char *type = abx_json_str(entry, "type", "");
    if (strcmp(type, "FILE_TYPE_SYMLINK") == 0 ||
        yyjson_is_str(yyjson_obj_get(entry, "symlinkTarget")))
        return "symlink";
    if (strcmp(type, "FILE_TYPE_FILE") == 0)
        return "file";
    return strcmp(type, "FILE_TYPE_DIRECTORY") == 0 ? "dir" : "other";
}

/* mode in E2B's answers has the permission bits alone; setuid and its kin stand in the text. */
static int64_t mode_of(const abx_envd_client *c, yyjson_val *entry)
{
    int64_t mode = abx_json_int(entry, "mode", 0) & 0777;
    if (c->abx)
        return abx_json_int(entry, "abxMode", mode) & 07777;
    const char *text = abx_json_str(entry, "permissions", "");
    size_t n = strlen(text);
    for (size_t i = 0; n > 9 && i < n - 9; i++)
        mode |= text[i] == 'u' ? 04000 : text[i] == 'g' ? 02000 : text[i] == 't' ? 01000 : 0;
    return mode;
}

/* Where a link leads, and what is there at the end of all links. */
static void put_link(const abx_envd_client *c, yyjson_mut_doc *d, yyjson_mut_val *obj,
                     yyjson_val *entry)
{
    const char *own = c->abx ? abx__envd_text(entry, "abxTarget") : NULL;
    const char *last = abx__envd_text(entry, "symlinkTarget");
    const char *type = abx_json_str(entry, "type", "FILE_TYPE_UNSPECIFIED");
    abx_mut_str(d, obj, "target", own ? own : last);
    if (!last || *last != '/' || strcmp(type, "FILE_TYPE_SYMLINK") == 0)
        return;
    bool nothing = abx_str_eq(last, abx__envd_text(entry, "path"));
    abx_mut_str(d, obj, "targetPath", last);
    abx_mut_str(d, obj, "targetType",
                strcmp(type, "FILE_TYPE_FILE") == 0        ? "file"
                : strcmp(type, "FILE_TYPE_DIRECTORY") == 0 ? "dir"
                : nothing                                  ? "none"
                                                           : "other");
    abx_mut_int(d, obj, "targetMode", abx_json_int(entry, "mode", 0) & 0777);
}

static bool path_ends_in(const char *path, const char *name)
{
    size_t n = strlen(path), k = strlen(name);
    return n > k && path[n - k - 1] == '/' && strcmp(path + n - k, name) == 0;
}

yyjson_mut_val *abx__envd_file(const abx_envd_client *c, yyjson_mut_doc *d, yyjson_val *entry,
                               bool listed, abx_error **err)
{
    const char *name = abx__envd_text(entry, "name"), *path = abx__envd_text(entry, "path");
    int64_t size = abx_json_int(entry, "size", 0);
    bool root = path && strcmp(path, "/") == 0;
    if (!path || *path != '/' || (!is_name(name) && listed) || (!listed && !name && !root)) {
        abx_fail(err, ABX_ERR_BACKEND_ANSWER, "a file has an unfit name");
        return NULL;
    }
    if (listed && !path_ends_in(path, name)) {
        abx_fail(err, ABX_ERR_BACKEND_ANSWER, "file '%s' does not lie at '%s'", name, path);
        return NULL;
    }
    if (size < 0) {
        abx_fail(err, ABX_ERR_BACKEND_ANSWER, "file '%s' has an unfit size", path);
        return NULL;
    }
    const char *kind = kind_of(c, entry);
    yyjson_mut_val *obj = yyjson_mut_obj(d);
    abx_mut_str(d, obj, "path", path);
    abx_mut_str(d, obj, "name", root ? "/" : name);
    abx_mut_str(d, obj, "type", kind);
    abx_mut_int(d, obj, "size", size);
    abx_mut_int(d, obj, "mode", mode_of(c, entry));
    if (c->abx && yyjson_is_int(yyjson_obj_get(entry, "abxAllocated")))
        abx_mut_int(d, obj, "allocated", abx_json_int(entry, "abxAllocated", size));
    if (c->abx && abx_json_bool(entry, "abxClosed", false))
        abx_mut_bool(d, obj, "closed", true);
    abx_mut_str(d, obj, "owner", abx__envd_text(entry, "owner"));
    abx_mut_str(d, obj, "group", abx__envd_text(entry, "group"));
    abx_mut_str(d, obj, "modifiedAt", abx__envd_text(entry, "modifiedTime"));
    if (strcmp(kind, "symlink") == 0)
        put_link(c, d, obj, entry);
    if (strcmp(kind, "symlink") == 0 || strcmp(kind, "other") == 0)
        abx_mut_str(d, obj, "permissions", abx__envd_text(entry, "permissions"));
    yyjson_val *metadata = yyjson_obj_get(entry, "metadata");
    if (yyjson_obj_size(metadata) > 0)
        abx_mut_val(d, obj, "metadata", metadata);
    return obj;
}
