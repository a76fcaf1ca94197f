/* The processes of a sandbox, found by their JOB word. */
#ifndef ABX_CLI_JOBS_H
#define ABX_CLI_JOBS_H

#include "doors/cli/cli.h"

/* The list {"processes":[…]} of a sandbox, owned by the caller. */
int abx_jobs_list(abx_cli *cli, const char *sandbox, yyjson_doc **out, abx_error **err);
/* The background process that was started last, borrowed from the list; NULL when there is none. */
yyjson_val *abx_jobs_last_background(yyjson_val *list);

#endif
