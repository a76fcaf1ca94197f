/* A verb that does one thing for each of its words. */
#ifndef ABX_CLI_EACH_H
#define ABX_CLI_EACH_H

#include "doors/cli/cli.h"

/* For one word: 0, or -1 and *err. */
typedef int (*abx_each_cb)(abx_cli *cli, const char *word, void *data, abx_error **err);

/* Each word of the command line is tried; a failure is told at once, and the code is that of the first. Returns the
 * verb's answer: a single word's failure and an interrupt are handed on, -1 and *err. done: the member that lists for
 * --json the words that it was done for; NULL prints nothing. */
int abx_each_word(abx_cli *cli, abx_each_cb one, void *data, const char *done, abx_error **err);
/* The same where an operation is called with each word as its parameter `param`. */
int abx_each_call(abx_cli *cli, abx_op_id op, const char *param, const char *done, abx_error **err);

#endif
