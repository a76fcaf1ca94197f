/* The keys that leave a terminal while what runs there goes on. Pure. */
#ifndef ABX_CLI_DETACH_KEYS_H
#define ABX_CLI_DETACH_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define ABX_DETACH_KEYS_MAX 16

typedef struct abx_detach_keys {
    uint8_t keys[ABX_DETACH_KEYS_MAX];
    size_t count;   /* 0: none */
    size_t matched; /* so many of them have come, and are held back */
} abx_detach_keys;

/* Keys separated by commas: a character, or ctrl- and one of a-z @ [ \\ ] ^ _. "" is none. 0, or -1 and USAGE. */
int abx_detach_keys_parse(abx_detach_keys *k, const char *text, abx_error **err);
/* Bytes that were typed: what is to be passed on is appended to out. True when the keys are complete; what follows them is
 * dropped. A beginning of the keys is held back until the next byte tells. */
bool abx_detach_keys_feed(abx_detach_keys *k, const uint8_t *bytes, size_t n, abx_buf *out);
/* No more comes: what was held back goes on. */
void abx_detach_keys_flush(abx_detach_keys *k, abx_buf *out);

#endif
