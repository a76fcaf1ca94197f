/* A process that a call follows, shared by client_process.c and client_process_side.c only. */
#ifndef ABX_E2B_CLIENT_PROCESS_H
#define ABX_E2B_CLIENT_PROCESS_H

#include "e2b/client_inner.h"

typedef struct abx__follow {
    bool attach, background, no_follow, kill; /* kill: the process ends with the call */
    uint64_t timeout_ms;
    bool started, has_exit;
    char *id;
    int64_t pid;
    yyjson_mut_doc *exit; /* {id, pid, exitCode…}, once has_exit */
    uint8_t *input;       /* what still is to be sent to a server without abxInput */
    size_t input_len, input_sent;
    bool no_close; /* the input ends by itself */
    bool stopping;
    abx_error *why; /* its input was lost: the failure, while it is killed */
    bool overdue;   /* its time is up, and the server let it run */
} abx__follow;

/* client_process.c: the exit event and the result; end may be NULL when it timed out. */
void abx__follow_exit(abx__envd_job *job, yyjson_val *end, bool timed_out);
/* The call ends here, the process goes on. */
void abx__follow_let_go(abx__envd_job *job);

/* client_process_side.c: send the next piece of the input. */
void abx__follow_feed(abx__envd_job *job);
/* End the process if it is tied to the call, and then the call. */
void abx__follow_kill(abx__envd_job *job);
/* The time limit has passed, and some seconds more: a server that does not keep limits, or a proxy that hides their
 * end. */
void abx__follow_overdue(abx__envd_job *job);
void abx__follow_cancel(abx__envd_job *job);

#endif
