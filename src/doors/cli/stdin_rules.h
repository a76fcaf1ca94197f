/* What becomes of standard input and the terminal: the whole table of it, in one pure function. */
#ifndef ABX_CLI_STDIN_RULES_H
#define ABX_CLI_STDIN_RULES_H

#include <stdbool.h>

#include "base/error.h"
#include "doors/cli/fd_kind.h"

typedef struct abx_stdin_facts {
    bool shell;                 /* the verb shell; else run or exec */
    abx_fd_kind in;             /* what stdin is */
    bool out_is_tty;            /* stdout is a terminal */
    bool detach;                /* -d */
    bool interactive, no_stdin; /* -i, -n */
    bool tty, no_tty;           /* -t, -T */
    bool off;                   /* ABX_STDIN=closed */
} abx_stdin_facts;

typedef struct abx_stdin_plan {
    bool forward; /* pass stdin on, and its end; else it is closed there from the start */
    bool pty;     /* run on a terminal */
    bool raw;     /* put ours into raw mode */
} abx_stdin_plan;

/* 0 and *plan, or -1 and USAGE (-t without a terminal; -d with -i or -t). */
int abx_stdin_decide(const abx_stdin_facts *facts, abx_stdin_plan *plan, abx_error **err);
/* True if the command is a bare shell or interpreter, which ends at once without input. */
bool abx_wants_input(char *const *command);

#endif
