/* The client of envd, the data plane of an E2B-shaped sandbox: one object a sandbox. It runs the operations
 * process.*, fs.*, pty.* and code.* of the op table. Used by every adapter whose sandboxes speak E2B: our own envd over a
 * Unix socket, and strangers over HTTP.
 *
 * Of a stranger's envd only what E2B has is asked, and of that only what its version has: an operation or a parameter that
 * it lacks ends with FEATURE_MISSING before anything is sent, and the text says which version has it. What is made by
 * other means, and what differs, stands in docs/e2b-sandboxes.md.
 *
 * All answers are foreign: heads, messages, names and depth are limited and checked; no redirect is followed, so that no
 * token goes to another host.
 * Threads: the loop's. */
#ifndef ABX_E2B_CLIENT_H
#define ABX_E2B_CLIENT_H

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "base/log.h"
#include "e2b/message.h"
#include "ops/call.h"

/* Where the services of a sandbox listen in it. */
#define ABX_E2B_ENVD_PORT 49983
#define ABX_E2B_CODE_PORT 49999

typedef struct abx_envd_client abx_envd_client;

/* How the bytes of a file are sent. */
typedef enum abx_envd_upload {
    ABX_ENVD_UPLOAD_BY_VERSION, /* as they are from 0.5.7 on, else as a form */
    ABX_ENVD_UPLOAD_OCTETS,     /* always as they are: application/octet-stream */
    ABX_ENVD_UPLOAD_FORM        /* always as a form: multipart/form-data, one part "file" */
} abx_envd_upload;

/* All texts are copied. */
typedef struct abx_envd_client_options {
    uv_loop_t *loop;
    /* Where envd is: "https://49983-ID.DOMAIN", a fixed host that goes by the headers E2b-Sandbox-Id and -Port (they are
     * always sent), an address with a path ("http://proxy/sandbox/ID/49983"), or "http://envd" with dial. */
    const char *base_url;
    const char *code_url; /* of the code interpreter, "https://49999-…"; NULL: the same server */
    /* "HOST:PORT" that is connected to instead of the host of both URLs, which still names the server; or NULL. */
    const char *connect_to;
    const char *sandbox_id;    /* E2b-Sandbox-Id; also names the sandbox in errors */
    const char *token;         /* X-Access-Token, or NULL */
    const char *traffic_token; /* E2B-Traffic-Access-Token, on every request; or NULL */
    /* envdVersion as the service told it, "0.5.7". What a version lacks is not asked for. NULL, or a text that is no
     * version: all is there. */
    const char *version;
    /* Whose processes and files they are when a call names no user. NULL: none is sent, envd decides; but below 0.4.0 it
     * cannot, there it is "user". */
    const char *default_user;
    abx_envd_upload upload;
    bool stream_input; /* input by the StreamInput call; else by SendInput, piece by piece */
    bool
        poll_watch; /* changes of files by watchers that are asked again and again, not by a stream */
    abx_e2b_codec codec; /* binary where the server has it: bytes stay bytes */
    bool abx;            /* the server is our own envd: its additions are used (docs/envd.md) */
    /* Own way to connect (Unix socket), as in net/http_client.h; or NULL. */
    int (*dial)(void *data, abx_error **err);
    void *dial_data;
    /* Is the sandbox still alive? Asked when a connection broke, to tell SANDBOX_ENDED from NETWORK: 1 alive, 0 gone. One that seems
     * alive is asked for GET /health, and when that breaks, too, this is asked again. NULL: GET /health alone. */
    int (*alive)(void *data);
    /* Say more about a call that failed: change *err. May be NULL. */
    void (*explain)(void *data, abx_op_id op, abx_error *err);
    void *explain_data;
    /* A call is about to end because the sandbox seems to be gone (SANDBOX_ENDED, SANDBOX_NOT_FOUND): ask somebody who knows. He calls
     * abx_envd_client_told once, later or never; the client's close takes the question back. NULL: it is gone. */
    void (*look)(void *data, abx_envd_client *client);
    void *look_data;
    const abx_log *log;
} abx_envd_client_options;

int abx_envd_client_open(const abx_envd_client_options *options, abx_envd_client **out,
                         abx_error **err);
/* Other tokens from the next request on (copied; NULL: none). Each must be a line. */
void abx_envd_client_tokens(abx_envd_client *client, const char *token, const char *traffic_token);
/* The sandbox is being ended by our own side: the calls that run end with SANDBOX_ENDED. */
void abx_envd_client_gone(abx_envd_client *client);
/* The answer to look: the calls that wait for it end with `why` (copied); NULL: with what they were about to. */
void abx_envd_client_told(abx_envd_client *client, const abx_error *why);
/* Cancel what runs, then cb(data) on the loop. cb may be NULL. */
void abx_envd_client_close(abx_envd_client *client, void (*cb)(void *data), void *data);
/* Run a process.*, fs.*, pty.* or code.* call, or sandbox.metrics (what envd itself counts). 0: the call will end; -1: *err, not started. */
int abx_envd_client_start(abx_envd_client *client, abx_call *call, abx_error **err);
/* Our envd only: a control request, POST PATH with a JSON object; cb once, on the loop, with the answer's
 * object or an error (both borrowed). Used for the time limit. */
int abx_envd_client_control(abx_envd_client *client, const char *path, yyjson_val *body,
                            void (*cb)(void *data, yyjson_val *answer, const abx_error *err),
                            void *data, abx_error **err);

#endif
