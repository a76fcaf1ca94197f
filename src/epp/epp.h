/* EPP/1, the protocol of provider programs (docs/providers/epp.md): its numbers, shared by both ends. */
#ifndef ABX_EPP_EPP_H
#define ABX_EPP_EPP_H

#include <stddef.h>

#include "ops/call.h"

#define ABX_EPP_PROTOCOL  "epp/1"
#define ABX_EPP_LINE_MAX  ((size_t)8 * 1024 * 1024) /* bytes of a line without its end */
#define ABX_EPP_CHUNK_MAX ((size_t)1024 * 1024)     /* bytes of one chunk */
#define ABX_EPP_WINDOW    ABX_CALL_WINDOW /* what a stream may send before the first grant */
#define ABX_EPP_STRAY_MAX 20              /* lines of a session that are no messages */
#define ABX_EPP_START_MS  10000           /* for initialize */
#define ABX_EPP_CALL_MS   60000           /* callTimeoutMs where the manifest says none */
#define ABX_EPP_CANCEL_MS 2000            /* between a cancel and the answer */
#define ABX_EPP_END_MS    2000            /* between shutdown and TERM, TERM and KILL */

/* JSON-RPC's codes of errors, and the one that bears ours in its data. */
enum {
    ABX_EPP_PARSE_ERROR = -32700,
    ABX_EPP_INVALID_REQUEST = -32600,
    ABX_EPP_NO_METHOD = -32601,
    ABX_EPP_INVALID_PARAMS = -32602,
    ABX_EPP_ERROR = -32000
};

#endif
