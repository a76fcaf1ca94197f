/* A process that is followed on our own standard streams: its output goes out as it comes, our input goes to it,
 * signals are passed on, a terminal is kept in step. Used by run, exec and shell. */
#ifndef ABX_CLI_SESSION_H
#define ABX_CLI_SESSION_H

#include <stdbool.h>

#include "doors/cli/cli.h"
#include "doors/cli/detach_keys.h"
#include "doors/cli/stdin_rules.h"

typedef struct abx_session_options {
    const char *sandbox;    /* id */
    abx_op_id op;           /* PROCESS_START, PTY_OPEN or PROCESS_ATTACH */
    yyjson_mut_doc *params; /* taken over */
    abx_stdin_plan plan;
    abx_detach_keys detach_keys; /* typed on our terminal they end the session, not the process */
    bool leave;                  /* a signal ends the session and leaves the process alone */
} abx_session_options;

typedef struct abx_session_result {
    int code; /* exit code of ours: the process's own, 128+n, 124, 141 */
    bool had_output;
    char *detached; /* id of the process that was left running by its keys; owned by the caller */
    uint64_t took_ms;
} abx_session_result;

/* 0 and *out, or -1 and *err: the process could not be started or followed to its end. */
int abx_session_run(abx_cli *cli, const abx_session_options *options, abx_session_result *out,
                    abx_error **err);
/* The members of the last line of a process, {"type":"exit"…}, for abx_event_object; data: the result (yyjson_val). */
void abx_add_exit(yyjson_mut_doc *d, yyjson_mut_val *o, void *data);
/* The code for a result object {exitCode | signal, timedOut}; -1 when it has neither. */
int abx_process_code(yyjson_val *result);

#endif
