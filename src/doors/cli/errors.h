/* How the command line shows an error, and the exit code it gives. */
#ifndef ABX_CLI_ERRORS_H
#define ABX_CLI_ERRORS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "doors/cli/args.h"

typedef struct abx_error_style {
    bool json, color;
    bool tell_code; /* exitCode is told: the verb passes on a process's code */
} abx_error_style;

/* One block: error, hint, code (and request id, exitCode); or one JSON object in one line. */
void abx_error_print(FILE *out, const abx_error *e, const abx_error_style *style);
/* The exit code. passes_code: verbs that pass on a process's code (125, 126, 127; 2 for a wrong command line, when
 * nothing was started yet: remote false). interrupted: the signal that ended the run, or 0. */
int abx_exit_code_of(const abx_error *e, bool passes_code, bool remote, int interrupted);
/* Hints where the error has none: a wrong line is told which verb's help to read (verb NULL: nothing), a time limit by what it
 * is changed. */
void abx_error_name_verb(abx_error **err, const abx_verb *verb);
/* --color, then NO_COLOR, the setting (NULL: none), FORCE_COLOR, TERM=dumb, then whether fd is a terminal. */
bool abx_color_on(const abx_args *args, const char *setting, int fd);

#endif
