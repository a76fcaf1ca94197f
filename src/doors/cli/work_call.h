/* A call that works for a while and tells how far it is: a line with the bytes on a terminal. */
#ifndef ABX_CLI_WORK_CALL_H
#define ABX_CLI_WORK_CALL_H

#include "doors/cli/cli.h"

/* As abx_cli_call, for an operation with events "progress" {bytes}. label: static. */
int abx_work_call(abx_cli *cli, abx_op_id op, yyjson_mut_doc *params, const char *label,
                  yyjson_doc **result, abx_error **err);

#endif
