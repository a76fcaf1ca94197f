/* Names and numbers of signals. */
#ifndef ABX_CLI_SIGNALS_H
#define ABX_CLI_SIGNALS_H

/* "SIGKILL", "KILL" or "9" → 9; -1 when there is none. */
int abx_signal_number(const char *name);
/* 9 → "KILL"; NULL when it has no name here. */
const char *abx_signal_name(int number);

#endif
