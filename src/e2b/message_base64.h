/* Base64 of message bytes: written in the standard alphabet with padding; read in both alphabets, with or without
 * padding, as the JSON form of protobuf asks. Any thread. */
#ifndef ABX_E2B_MESSAGE_BASE64_H
#define ABX_E2B_MESSAGE_BASE64_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Length of the text of n bytes. n is at most SIZE_MAX / 2. */
size_t abx_e2b_base64_size(size_t n);
/* Writes abx_e2b_base64_size(n) characters to out, no 0 behind them. */
void abx_e2b_base64_write(const void *bytes, size_t n, char *out);
/* Append the decoded bytes to out. 0; -1: not base64, or out is full (out->len is as before then). */
int abx_e2b_base64_read(const char *text, size_t n, abx_buf *out);

#endif
