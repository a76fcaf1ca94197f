/* A table for people: upper-case headers, two blanks between columns, one line a row, "-" for empty. */
#ifndef ABX_CLI_TABLE_H
#define ABX_CLI_TABLE_H

#include <stddef.h>

#include "base/buf.h"

#define ABX_TABLE_COLUMNS 66

typedef struct abx_table {
    size_t _columns, _rows, _cap;
    const char *_headers[ABX_TABLE_COLUMNS];
    char **_cells;
} abx_table;

/* headers: static texts, NULL at the end, at most ABX_TABLE_COLUMNS. */
void abx_table_init(abx_table *t, const char *const *headers);
/* One text a column, copied; NULL and "" show as "-". Control characters are escaped. */
void abx_table_add(abx_table *t, const char *const *cells);
/* Append the table. width: columns of the terminal, 0 for no limit; wider ones are cut with an ellipsis, the widest first and
 * never the first column; what still does not fit is cut at the right end. */
void abx_table_write(const abx_table *t, size_t width, abx_buf *out);
void abx_table_clear(abx_table *t);

#endif
