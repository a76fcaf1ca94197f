/* Shared between progress.c and progress_transfer.c. */
#ifndef ABX_CLI_PROGRESS_INNER_H
#define ABX_CLI_PROGRESS_INNER_H

#include "doors/cli/cli.h"

#define ABX__SHOW_AFTER_MS 300

/* May stderr show what comes and goes? */
bool abx__progress_wanted(const abx_cli *cli);

#endif
