/* Questions to a person. Nobody is asked unless standard input and standard error are terminals and neither --no-input nor CI
 * is set. */
#ifndef ABX_CLI_ASK_H
#define ABX_CLI_ASK_H

#include <sys/types.h>

#include "doors/cli/cli.h"

/* Ask on the terminal. 1 yes, 0 no, -1 and USAGE when nobody may be asked; flag names what answers the question. */
int abx_confirm(abx_cli *cli, const char *question, const char *flag, abx_error **err);
/* Wait until a descriptor can be read: 0; -1 and CANCELLED (a signal) or TIMEOUT (--wait-timeout). */
int abx_wait_readable(abx_cli *cli, int fd, abx_error **err);

#endif
