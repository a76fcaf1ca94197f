/* File objects of the host as E2B's EntryInfo. Where a link's target is not told, it stays a link. */
#include "doors/e2b/data_inner.h"

#include <string.h>

static const char *type_of(const char *type)
{
    return abx_str_eq(type, "file")      ? "FILE_TYPE_FILE"
           : abx_str_eq(type, "dir")     ? "FILE_TYPE_DIRECTORY"
           : abx_str_eq(type, "symlink") ? "FILE_TYPE_SYMLINK"
                                         : NULL;
}

/* Go's text of a mode: "-rw-r--r--", "dtrwxrwxrwx". */
static void put_permissions(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *type, int64_t mode)
{
    char text[24], *at = text;
    if (abx_str_eq(type, "dir"))
        *at++ = 'd';
    else if (abx_str_eq(type, "symlink"))
        *at++ = 'L';
    else if (!abx_str_eq(type, "file"))
        *at++ = '?';
    if (mode & 04000)
        *at++ = 'u';
    if (mode & 02000)
        *at++ = 'g';
    if (mode & 01000)
        *at++ = 't';
    if (at == text)
        *at++ = '-';
    for (int bit = 8; bit >= 0; bit--)
        *at++ = mode & (1 << bit) ? "xwr"[bit % 3] : '-';
    *at = 0;
    abx_mut_str(d, obj, "permissions", text);
}

void e2b_entry_put(yyjson_mut_doc *d, yyjson_mut_val *obj, yyjson_val *file)
{
    const char *type = abx_json_str(file, "type", "");
    bool link = strcmp(type, "symlink") == 0;
    bool told = link && abx_json_get(file, "targetType");
    int64_t mode = abx_json_int(file, "mode", 0), size = abx_json_int(file, "size", 0);
    abx_mut_str(d, obj, "name", abx_json_str(file, "name", NULL));
    abx_mut_str(d, obj, "type", type_of(told ? abx_json_str(file, "targetType", "") : type));
    abx_mut_str(d, obj, "path", abx_json_str(file, "path", NULL));
    if (size > 0)
        abx_mut_int(d, obj, "size", size);
    int64_t shown = (told ? abx_json_int(file, "targetMode", 0) : mode) & 0777;
    if (shown > 0)
        abx_mut_int(d, obj, "mode", shown);
    if (abx_json_get(file, "permissions"))
        abx_mut_str(d, obj, "permissions", abx_json_str(file, "permissions", NULL));
    else
        put_permissions(d, obj, type, mode);
    abx_mut_str(d, obj, "owner", abx_json_str(file, "owner", NULL));
    abx_mut_str(d, obj, "group", abx_json_str(file, "group", NULL));
    abx_mut_str(d, obj, "modifiedTime", abx_json_str(file, "modifiedAt", NULL));
    if (link)
        abx_mut_str(d, obj, "symlinkTarget",
                    abx_json_str(file, "targetPath", abx_json_str(file, "target", NULL)));
    yyjson_val *metadata = abx_json_get(file, "metadata");
    if (yyjson_obj_size(metadata) > 0)
        abx_mut_val(d, obj, "metadata", metadata);
}
