/* What a verb prints when it is done: to stdout, whole, also when the caller made it non-blocking. */
#ifndef ABX_CLI_PRINT_H
#define ABX_CLI_PRINT_H

#include "base/buf.h"
#include "doors/cli/cli.h"
#include "doors/cli/table.h"

/* 0, or -1 and *err (no space, an input or output error). When nobody reads any more cli->output_closed is set and the answer
 * is -1 too; the program then ends quietly with 141. */
int abx_print(abx_cli *cli, const void *text, size_t n, abx_error **err);
int abx_print_str(abx_cli *cli, const char *text, abx_error **err);
int abx_print_line(abx_cli *cli, const char *text, abx_error **err); /* and a newline */
int abx_print_buf(abx_cli *cli, const abx_buf *text, abx_error **err);
/* As wide as the terminal is; the table is cleared. */
int abx_print_table(abx_cli *cli, abx_table *table, abx_error **err);
/* A name and a newline; on a terminal its control characters are escaped, elsewhere it goes out as it is. */
int abx_print_name(abx_cli *cli, const char *name, abx_error **err);
/* One document and one newline. */
int abx_print_json(abx_cli *cli, yyjson_val *value, abx_error **err);
int abx_print_json_mut(abx_cli *cli, yyjson_mut_val *value, abx_error **err);

/* A list as the chosen format says, where a table is not asked for: json (one document {"NAME":[…]}), jsonl (one item a line),
 * name (the member `id` of each). Returns 1 when it has printed, 0 when a table is wanted, -1 and *err. */
int abx_print_list(abx_cli *cli, const char *name, yyjson_val *array, const char *id,
                   abx_error **err);
/* At most --limit items of an array, as a document {"NAME":[…]}; a note on stderr says when more were left. */
yyjson_doc *abx_limit_list(abx_cli *cli, const char *name, yyjson_val *array);

/* Columns of stdout if it is a terminal and the format is not wide, else 0: no limit. */
size_t abx_print_width(const abx_cli *cli);

#endif
