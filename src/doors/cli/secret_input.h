/* Lines that a person or a program gives on standard input: secrets without echo, answers with it. */
#ifndef ABX_CLI_SECRET_INPUT_H
#define ABX_CLI_SECRET_INPUT_H

#include "doors/cli/cli.h"

typedef struct abx_secret_ask {
    const char *what; /* asked on a terminal: "value" */
    const char
        *instead; /* the hint where nobody may be asked: "give it on standard input: INSTEAD" */
    bool silent;  /* a terminal is read from, too, where nobody may be asked */
} abx_secret_ask;

/* The next line of standard input, without its end; what comes behind it is left. On a terminal nothing is echoed; the terminal is as
 * before afterwards, also when a signal or the deadline ends the wait. From then on this process leaves no core file. "" for an empty
 * line and the end of the input. Owned by the caller, who overwrites it; NULL and *err: USAGE for a NUL byte, or a terminal where nobody
 * may be asked. */
char *abx_read_secret(abx_cli *cli, const abx_secret_ask *ask, abx_error **err);
/* Ask a question on the terminal; the answer, which may be empty. Only where abx_may_ask. Owned; NULL and *err. */
char *abx_ask_line(abx_cli *cli, const char *question, abx_error **err);
/* Whether there is somebody to ask: terminals, and neither --no-input nor CI. */
bool abx_may_ask(const abx_cli *cli);

#endif
