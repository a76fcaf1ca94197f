/* A log file on standard output. */
#ifndef ABX_CLI_FOLLOW_FILE_H
#define ABX_CLI_FOLLOW_FILE_H

#include "doors/cli/cli.h"

/* Write older (or NULL) and then path to standard output; a file that is not there is empty. follow: then what is added, also when another
 * file takes its name, until a signal: CANCELLED. The loop is open. 0, or -1 and *err. */
int abx_follow_file(abx_cli *cli, const char *older, const char *path, bool follow,
                    abx_error **err);

#endif
