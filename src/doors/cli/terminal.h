/* Our own terminal: raw mode, given back on every way out, also on a crash. There is one terminal a process, so this
 * keeps its state in one place of the program's own. */
#ifndef ABX_CLI_TERMINAL_H
#define ABX_CLI_TERMINAL_H

#include "base/error.h"

/* Put the terminal at fd into raw mode. From then on exit, abort and fatal signals give it back. */
int abx_terminal_raw(int fd, abx_error **err);
void abx_terminal_restore(void); /* nothing when it is not raw; safe in a signal handler */
/* Columns and rows of the terminal at fd: 0, or -1 when it has none. */
int abx_terminal_size(int fd, int *cols, int *rows);

#endif
