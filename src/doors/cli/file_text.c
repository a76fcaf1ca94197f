#include "doors/cli/file_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/details.h"

void abx_file_mode_text(yyjson_val *file, char out[11])
{
    static const char letters[] = "rwxrwxrwx";
    int64_t mode = abx_json_int(file, "mode", 0);
    const char *type = abx_json_str(file, "type", "file");
    out[0] = strcmp(type, "dir") == 0       ? 'd'
             : strcmp(type, "symlink") == 0 ? 'l'
             : strcmp(type, "other") == 0   ? '?'
                                            : '-';
    for (int i = 0; i < 9; i++)
        out[1 + i] = (char)(mode & (0400 >> i) ? letters[i] : '-');
    if (mode & 04000)
        out[3] = (char)(out[3] == 'x' ? 's' : 'S');
    if (mode & 02000)
        out[6] = (char)(out[6] == 'x' ? 's' : 'S');
    if (mode & 01000)
        out[9] = (char)(out[9] == 'x' ? 't' : 'T');
    out[10] = 0;
}

void abx_file_time_text(yyjson_val *file, int64_t now_wall_ms, char out[32])
{
    int64_t when;
    out[0] = 0;
    if (abx_parse_rfc3339(abx_json_str(file, "modifiedAt", ""), &when) == 0)
        abx_format_relative(when, now_wall_ms, out);
}

char *abx_file_name_text(yyjson_val *file, bool whole_path)
{
    const char *path = abx_json_str(file, "path", "-");
    const char *name = whole_path ? path : abx_json_str(file, "name", path);
    const char *target = abx_json_str(file, "target", NULL);
    return abx_format("%s%s%s", name, target ? " -> " : "", target ? target : "");
}

void abx_file_details(yyjson_val *file, abx_buf *out)
{
    char mode[11];
    abx_file_mode_text(file, mode);
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_val_mut_copy(d, file);
    yyjson_mut_doc_set_root(d, root);
    ABX_AUTO_FREE char *text =
        abx_format("%s (%04llo)", mode, (unsigned long long)abx_json_int(file, "mode", 0));
    yyjson_mut_obj_put(root, yyjson_mut_str(d, "mode"), yyjson_mut_strcpy(d, text));
    ABX_AUTO_JSON frozen = abx_json_freeze(d);
    yyjson_mut_doc_free(d);
    abx_details(yyjson_doc_get_root(frozen), out);
}
