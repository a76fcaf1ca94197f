/* A process that is followed on our own standard streams: its output goes out as it comes, our input goes to it,
 * signals are passed on, a terminal is kept in step. Used by run, exec, shell, logs. */
#ifndef ABX_CLI_SESSION_H
#define ABX_CLI_SESSION_H

#include <stdbool.h>

#include "doors/cli/cli.h"
#include "doors/cli/stdin_rules.h"

typedef struct abx_session_options {
    const char *sandbox;    /* id */
    abx_op_id op;           /* PROCESS_START, PTY_OPEN or PROCESS_ATTACH */
    yyjson_mut_doc *params; /* taken over */
    abx_stdin_plan plan;
    bool watch_only; /* a signal leaves, the process is left alone (logs) */
} abx_session_options;

typedef struct abx_session_result {
    int code;     /* exit code of ours: the process's own, 128+n, 124, 141 */
    bool running; /* the call ended before the process did (logs without -f) */
    bool had_output;
    uint64_t took_ms;
} abx_session_result;

/* 0 and *out, or -1 and *err: the process could not be started or followed to its end. */
int abx_session_run(abx_cli *cli, const abx_session_options *options, abx_session_result *out,
                    abx_error **err);
/* The code for a result object {exitCode | signal, timedOut}; -1 when it has neither. */
int abx_process_code(yyjson_val *result);

#endif
