/* A file object as text for people. */
#ifndef ABX_CLI_FILE_TEXT_H
#define ABX_CLI_FILE_TEXT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/json.h"

void abx_file_mode_text(yyjson_val *file, char out[11]); /* "drwxr-xr-x" */
void abx_file_time_text(yyjson_val *file, int64_t now_wall_ms, char out[32]);
/* Its name (or whole path) and " -> target" of a link. Caller frees. */
char *abx_file_name_text(yyjson_val *file, bool whole_path);
/* One line a member, the mode as text. */
void abx_file_details(yyjson_val *file, abx_buf *out);

#endif
