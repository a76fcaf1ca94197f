/* Messages of EPP/1 being written, and errors on the wire. Pure; any thread. */
#ifndef ABX_EPP_MESSAGE_H
#define ABX_EPP_MESSAGE_H

#include <stdint.h>

#include "base/json.h"
#include "ops/ops.h"

/* A message that is being built. jsonrpc, id (0: none) and method (NULL: none) are there; params or result are the caller's. */
yyjson_mut_doc *abx_epp_message(uint64_t id, const char *method, yyjson_mut_val **root);
/* Append the message as a line; it is freed. 0, or -1: longer than a line may be. */
int abx_epp_put(yyjson_mut_doc *message, abx_buf *out);
/* Append the line of a message that bears bytes: {"jsonrpc","id"?,"method","params":{"stream":stream, key: value, bytes}}. raw: the
 * line announces them and they follow; else they are text or base64. id 0: a notification; key NULL: no further member. n is at most
 * ABX_EPP_CHUNK_MAX. */
typedef struct abx_epp_bytes {
    uint64_t id, stream;
    const char *method, *key, *value; /* plain words: written as they are */
    bool raw;
    const void *bytes;
    size_t n;
} abx_epp_bytes;
void abx_epp_put_bytes(const abx_epp_bytes *m, abx_buf *out);
/* The same of raw bytes (n > 0), but for them and the end of a line behind them. */
void abx_epp_put_raw_head(const abx_epp_bytes *m, abx_buf *out);

/* An `error` member of an answer to a call of this method as an error. Owned. */
abx_error *abx_epp_error_read(yyjson_val *error, const char *method);
/* Put an error into an answer. */
void abx_epp_error_put(yyjson_mut_doc *d, yyjson_mut_val *message, const abx_error *e);

#endif
