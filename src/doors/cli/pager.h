/* The user's pager for long texts: help, and logs without -f. Only on a terminal, if PAGER is set, and if questions are
 * allowed. */
#ifndef ABX_CLI_PAGER_H
#define ABX_CLI_PAGER_H

#include "doors/cli/cli.h"

/* From now on standard output goes through the pager, where the rules allow one. 0 also without one; -1 and *err. */
int abx_pager_start(abx_cli *cli, abx_error **err);
/* End of output; wait until the reader has left. Nothing without a pager. */
void abx_pager_finish(abx_cli *cli);

#endif
