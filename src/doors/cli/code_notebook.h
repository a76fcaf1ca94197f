/* Code on a terminal: a prompt, pieces of one or more lines, each run when it is whole. */
#ifndef ABX_CLI_CODE_NOTEBOOK_H
#define ABX_CLI_CODE_NOTEBOOK_H

#include "doors/cli/code_run.h"

/* Until the end of standard input (Ctrl-D) or an end of the sandbox. Ctrl-C at the prompt forgets the lines typed so
 * far. 0, or -1 and *err. */
int abx_code_notebook(abx_cli *cli, const abx_code_options *options, abx_error **err);

#endif
