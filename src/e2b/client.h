/* The client of envd, the data plane of an E2B-shaped sandbox: one object a sandbox. It runs the operations
 * process.*, fs.*, pty.* and code.* of the op table. Used by every adapter whose sandboxes speak E2B.
 *
 * All answers are foreign: heads, messages, names and depth are limited and checked; no redirect is followed.
 * Threads: the loop's. */
#ifndef ABX_E2B_CLIENT_H
#define ABX_E2B_CLIENT_H

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "base/log.h"
#include "e2b/message.h"
#include "ops/call.h"

typedef struct abx_envd_client abx_envd_client;

typedef struct abx_envd_client_options {
    uv_loop_t *loop;
    const char *base_url; /* "https://49983-ID.DOMAIN", or "http://envd" with dial */
    const char *code_url; /* of the code interpreter, "https://49999-…"; NULL: the same server */
    const char *sandbox_id; /* E2b-Sandbox-Id; also names the sandbox in errors */
    const char *token;      /* X-Access-Token, or NULL */
    abx_e2b_codec codec;    /* binary where the server has it: bytes stay bytes */
    bool abx;               /* the server is our own envd: its additions are used (docs/envd.md) */
    /* Own way to connect (Unix socket), as in net/http_client.h; or NULL. */
    int (*dial)(void *data, abx_error **err);
    void *dial_data;
    /* Is the sandbox still alive? Asked when a connection broke, to tell SANDBOX_ENDED from NETWORK. NULL: GET
     * /health is asked. 1 alive, 0 gone. */
    int (*alive)(void *data);
    const abx_log *log;
} abx_envd_client_options;

int abx_envd_client_open(const abx_envd_client_options *options, abx_envd_client **out,
                         abx_error **err);
/* The sandbox is being ended by our own side: the calls that run end with SANDBOX_ENDED. */
void abx_envd_client_gone(abx_envd_client *client);
/* Cancel what runs, then cb(data) on the loop. cb may be NULL. */
void abx_envd_client_close(abx_envd_client *client, void (*cb)(void *data), void *data);
/* Run a process.*, fs.*, pty.* or code.* call. 0: the call will end; -1: *err, not started. */
int abx_envd_client_start(abx_envd_client *client, abx_call *call, abx_error **err);
/* Our envd only: a control request, POST PATH with a JSON object; cb once, on the loop, with the answer's
 * object or an error (both borrowed). Used for the time limit. */
int abx_envd_client_control(abx_envd_client *client, const char *path, yyjson_val *body,
                            void (*cb)(void *data, yyjson_val *answer, const abx_error *err),
                            void *data, abx_error **err);

#endif
