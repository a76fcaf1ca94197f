/* --dry-run: operations that would change something are checked as far as the host can (parameters, sandbox, provider,
 * features), noted instead of started, and printed at the end. What only reads is done. */
#ifndef ABX_CLI_DRY_RUN_H
#define ABX_CLI_DRY_RUN_H

#include "doors/cli/cli.h"

/* True if a call of this operation has to be noted instead of started. */
bool abx_dry_run_holds(const abx_cli *cli, abx_op_id op);
/* Note an operation instead of starting the call (still the caller's). Always -1 and *err: what is wrong with it, or the
 * mark that it was noted. provider NULL: as the host chooses. */
int abx_dry_run_note(abx_cli *cli, const char *provider, abx_call *call, abx_error **err);
/* Note something that is no operation, or one on a sandbox that does not exist yet. what: "config.set"; params is taken
 * over, NULL: none. Returns -1 and *err: the mark. */
int abx_dry_run_add(abx_cli *cli, const char *what, const char *provider, yyjson_mut_doc *params,
                    abx_error **err);
/* True for the mark: nothing is wrong, it was noted. */
bool abx_is_dry_run(const abx_cli *cli, const abx_error *e);
/* Print what was noted, in the chosen format. 0, or -1 and *err. */
int abx_dry_run_print(abx_cli *cli, abx_error **err);

/* Blank what may be a secret in the parameters of a call: values of variables. */
void abx_params_blank(yyjson_mut_val *params);

#endif
