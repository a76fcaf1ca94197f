/* logs --sandbox: what the service has noted about a sandbox. */
#ifndef ABX_CLI_SANDBOX_LOGS_H
#define ABX_CLI_SANDBOX_LOGS_H

#include "doors/cli/cli.h"

int abx_logs_of_sandbox(abx_cli *cli, abx_error **err);

#endif
