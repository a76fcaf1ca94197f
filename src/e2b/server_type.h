/* Content types of downloads: by the name's ending, else by the first bytes. */
#ifndef ABX_E2B_SERVER_TYPE_H
#define ABX_E2B_SERVER_TYPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* The type of a name's ending, or NULL when the ending tells nothing. */
const char *abx__type_of_name(const char *name);
/* A guess from the first bytes; never NULL. */
const char *abx__type_of_bytes(const uint8_t *bytes, size_t n);
/* "inline; filename=NAME" with NAME as token, quoted or encoded (RFC 2231), as it needs. Owned. */
char *abx__disposition(const char *name);

#endif
