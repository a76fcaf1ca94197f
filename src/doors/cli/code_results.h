/* Rich results of code: what is shown of one, and as which files it is kept. */
#ifndef ABX_CLI_CODE_RESULTS_H
#define ABX_CLI_CODE_RESULTS_H

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"

typedef struct abx_code_files {
    const char *dir; /* NULL: nothing is written */
    int _dir_fd;
    char _run[24]; /* begins the names of this run */
    unsigned _count;
} abx_code_files;

/* The folder is made if it is not there. 0, or -1 and *err. Close it in both cases. */
int abx_code_files_open(abx_code_files *f, const char *dir, abx_error **err);
void abx_code_files_close(abx_code_files *f);

/* What goes to stdout for a result (a text with a newline; nothing for formats that are no text), and lines of notes
 * for stderr: "[image/png 640x480, 12 kB] FILE". Files are written if f has a folder; new names only, nothing is
 * overwritten. *saved: the last of them, owned, NULL if none; may be NULL. 0, or -1 and *err (FILE, NO_SPACE). */
int abx_code_show(abx_code_files *f, yyjson_val *result, abx_buf *out, abx_buf *notes, char **saved,
                  abx_error **err);

#endif
