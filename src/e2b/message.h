/* The messages of E2B's Connect services (process.Process, filesystem.Filesystem), both codecs, both ways.
 *
 * One table (messages.def) describes every message: field name, JSON name, number, type. In memory a message
 * is JSON in proto3's canonical mapping: lowerCamelCase names, int64 as number or decimal string (both read,
 * string written), enums by name, bytes as standard base64 text, Timestamps as RFC 3339. The binary codec
 * translates between that tree and protobuf. Output and input bytes of processes do not take that way: they
 * have their own functions, which never make text of them in the binary codec.
 *
 * Source: specification of envd 0.6; fields of ours have numbers from 1000 and JSON names that begin with
 * "abx": other servers and clients ignore them. */
#ifndef ABX_E2B_MESSAGE_H
#define ABX_E2B_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"

typedef enum abx_e2b_msg {
#define ABX_E2B_MSG(id, name) ABX_E2B_##id,
#define ABX_E2B_FIELD(...)
#include "e2b/messages.def"
#undef ABX_E2B_MSG
#undef ABX_E2B_FIELD
    ABX_E2B_MSG_COUNT
} abx_e2b_msg;

typedef enum abx_e2b_codec { ABX_E2B_JSON, ABX_E2B_PROTO } abx_e2b_codec;

/* Bytes of the wire → a checked, normalised tree: known fields only, right types, JSON names (snake_case names
 * are accepted), enums by name, numbers as numbers. Returns NULL and *err (BACKEND_ANSWER, naming message and field)
 * when it does not fit. Absent fields stay absent. */
yyjson_doc *abx_e2b_decode(abx_e2b_msg msg, abx_e2b_codec codec, const void *bytes, size_t n,
                           abx_error **err);
/* A tree → bytes of the wire, appended to out. Fields the table does not know, or of a wrong type: E9001. */
int abx_e2b_encode(abx_e2b_msg msg, abx_e2b_codec codec, yyjson_val *tree, abx_buf *out,
                   abx_error **err);
int abx_e2b_encode_mut(abx_e2b_msg msg, abx_e2b_codec codec, yyjson_mut_val *tree, abx_buf *out,
                       abx_error **err);

/* --- the hot path -------------------------------------------------------------------------------- */
typedef enum abx_e2b_channel {
    ABX_E2B_STDOUT,
    ABX_E2B_STDERR,
    ABX_E2B_PTY,
    ABX_E2B_STDIN
} abx_e2b_channel;

/* Append a whole Connect envelope (5-byte head too) with a StartResponse/ConnectResponse data event. */
int abx_e2b_put_data_event(abx_e2b_codec codec, abx_e2b_channel channel, const void *bytes,
                           size_t n, abx_buf *out);
/* Is this message (without its envelope head) a data event? 1: *channel and *bytes, *len are set: a view into
 * msg (binary codec), or into `scratch`, which then holds the decoded bytes (JSON). 0: no, use decode. -1: broken. */
int abx_e2b_get_data_event(abx_e2b_codec codec, const void *msg, size_t n, abx_e2b_channel *channel,
                           const uint8_t **bytes, size_t *len, abx_buf *scratch);
/* The same for StreamInputRequest {data:{input:{stdin|pty}}}; channel is ABX_E2B_STDIN or ABX_E2B_PTY. */
int abx_e2b_put_input_event(abx_e2b_codec codec, abx_e2b_channel channel, const void *bytes,
                            size_t n, abx_buf *out);
int abx_e2b_get_input_event(abx_e2b_codec codec, const void *msg, size_t n,
                            abx_e2b_channel *channel, const uint8_t **bytes, size_t *len,
                            abx_buf *scratch);

#endif
