/* The cases of the conformance suite, as one JSON document: {"suite": suite.json, "files": [each file of cases]}. */
#ifndef ABX_CONFORMANCE_H
#define ABX_CONFORMANCE_H

#include <stddef.h>

/*
 * The document's text, with a final NUL. Returns heap memory that the caller frees, NULL when there is none;
 * *size_bytes (may be NULL) gets the length without the NUL. Safe on any thread.
 */
char *abx_conformance_text(size_t *size_bytes);

#endif
