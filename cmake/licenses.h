/* The licence texts of all that is linked into the program. */
#ifndef ABX_LICENSES_H
#define ABX_LICENSES_H

#include <stddef.h>

/*
 * All texts, one after the other, each under a heading line, as UTF-8 with a final NUL.
 * Returns heap memory that the caller frees, NULL when there is none; *size_bytes (may be NULL) gets the
 * length without the NUL. Safe on any thread.
 */
char *abx_licenses_text(size_t *size_bytes);

#endif
