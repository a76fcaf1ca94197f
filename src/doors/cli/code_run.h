/* One run of code: started, its output and results shown as they come, its end as an exit code. */
#ifndef ABX_CLI_CODE_RUN_H
#define ABX_CLI_CODE_RUN_H

#include "doors/cli/cli.h"
#include "doors/cli/code_results.h"

typedef struct abx_code_options {
    const char *sandbox, *language, *context; /* language and context may be NULL */
    uint64_t timeout_ms;                      /* ABX_FOREVER: none */
    bool with_env;                            /* the variables of the flags are this run's */
    bool notebook;                            /* errors of the code are no failure of the command */
    abx_code_files *files;
} abx_code_options;

/* Run n bytes of code, which are UTF-8, and wait for the end. The first INT interrupts the code, a second one ends the
 * kernel, a third (or TERM, HUP) leaves. *code: 0, what the code chose, 1 when it raised, 124 after the time limit,
 * 130 when it was interrupted. 0, or -1 and *err. */
int abx_code_run(abx_cli *cli, const abx_code_options *options, const char *text, size_t n,
                 int *code, abx_error **err);

#endif
