/* The host's end of EPP/1: a session with one child process. It is started, greeted (initialize), takes many calls at once, and
 * ends once: by its closing, or by a fault of the child (docs/providers/epp.md, "Life and death of the plugin").
 *
 * Every call that was given to it ends, whatever the child does. Memory: at most ABX_CALL_WINDOW waits for a call; a line is at most
 * ABX_EPP_LINE_MAX. Threads: the loop's. */
#ifndef ABX_EPP_HOST_SESSION_H
#define ABX_EPP_HOST_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "net/child.h"
#include "ops/call.h"

typedef struct abx_epp_session abx_epp_session;

typedef struct abx_epp_session_options {
    uv_loop_t *loop;
    const char *name; /* of the provider, for errors */

    /* What is started. path, argv, envp, cwd as in net/child.h; the rest is the session's. path NULL: nothing is started, the streams
     * are the descriptors below (taken over): a peer in this process, for tests. */
    const char *path;
    char *const *argv, *const *envp;
    const char *cwd;
    struct abx_keeper *keeper; /* whose thread starts it; or NULL */
    int program_fd;            /* run this instead of path; borrowed; -1: none */
    bool is_script;            /* it begins with "#!" */
    int extra_fd;              /* becomes its descriptor 3; borrowed; 0: none */
    bool alone;                /* it cannot start others: none are looked for when it has ended */
    int read_fd, write_fd;

    /* initialize: an object with id, options, core, secretKeys. The session adds the rest. */
    yyjson_val *greeting;
    const char *const *secrets; /* values that may not be shown, NULL at the end; or NULL */
    const char *host_version;
    uint64_t start_ms, call_ms; /* time for initialize, callTimeoutMs; 0: the protocol's own */
    bool strict;                /* a single stray line, an unknown notification is a fault */

    /* Once, on the loop, never inside of start: the child has answered (its result, borrowed), or it could not be started or
     * greeted. In the latter case on_fault does not come. */
    void (*on_ready)(abx_epp_session *s, yyjson_val *result, const abx_error *err, void *data);
    /* A ready session takes no more calls: the child has died, broken the protocol or does not answer. Calls that still run end by
     * themselves. At most once. */
    void (*on_fault)(abx_epp_session *s, const abx_error *why, void *data);
    /* A line for the log: of standard error, of a `log` notification, or of the session about the child. No secret is in it. */
    void (*on_log)(abx_log_level level, const char *line, void *data);
    void *data;
} abx_epp_session_options;

/* All of options is copied but data and callbacks' targets. Always succeeds: what fails comes by on_ready. */
abx_epp_session *abx_epp_session_open(const abx_epp_session_options *options);
/* Give it a call. Only after on_ready without an error, and before on_fault. 0; -1 and *err: not taken. */
int abx_epp_session_start(abx_epp_session *s, abx_call *call, abx_error **err);
/* Whether both sides agreed to flow. */
bool abx_epp_session_has_flow(const abx_epp_session *s);
/* End it: calls that run fail, the child is asked to end, then made to. Where the child does not answer (on_fault) calls that still
 * run are left to their own end first. cb once, later, when all is gone; neither on_ready nor on_fault comes after this call. */
void abx_epp_session_close(abx_epp_session *s, void (*cb)(void *data), void *data);

#endif
