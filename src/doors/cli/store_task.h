/* Work on the store of providers that takes a while: a line with the bytes on a terminal; a signal or --wait-timeout ends it, and
 * nothing of it is left. */
#ifndef ABX_CLI_STORE_TASK_H
#define ABX_CLI_STORE_TASK_H

#include "doors/cli/cli.h"
#include "doors/cli/progress.h"
#include "host/store.h"

typedef struct abx_cli_task {
    abx_store_task task; /* give this to the store */
    abx_cli *_cli;
    abx_transfer _line;
    uint64_t _bytes, _entries; /* told so far */
} abx_cli_task;

/* Opens home and loop. *home is owned by the caller. label: static. 0, or -1 and *err (then end is not called). */
int abx_cli_task_begin(abx_cli_task *t, abx_cli *cli, const char *label, char **home,
                       abx_error **err);
void abx_cli_task_end(abx_cli_task *t);

#endif
