/* Starting a process for run, exec and shell: what becomes of stdin and the terminal, the parameters, the session, the
 * hints at the end. */
#ifndef ABX_CLI_START_H
#define ABX_CLI_START_H

#include "doors/cli/cli.h"
#include "doors/cli/stdin_rules.h"

/* The plan for the flags and our own descriptors. 0, or -1 and USAGE. */
int abx_start_plan(abx_cli *cli, abx_stdin_plan *plan, abx_error **err);
/* Run the command in the foreground. Returns its exit code, or -1 and *err. with_env: pass --env on. */
int abx_start_foreground(abx_cli *cli, const char *sandbox, const abx_stdin_plan *plan,
                         bool with_env, abx_error **err);
/* Start it in the background: 0 and *result (owned, {id, pid}), or -1 and *err. */
int abx_start_background(abx_cli *cli, const char *sandbox, bool with_env, yyjson_doc **result,
                         abx_error **err);

/* Go back to a terminal that runs. The code of its process, or -1 and *err. */
int abx_start_attach(abx_cli *cli, const char *sandbox, const char *job, const abx_stdin_plan *plan,
                     abx_error **err);

#endif
