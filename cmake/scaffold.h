/* The plugin folders that `abx provider new` writes, as one text: for each file a line "LANG/FILE SIZE\n", then SIZE bytes. */
#ifndef ABX_SCAFFOLD_H
#define ABX_SCAFFOLD_H

#include <stddef.h>

/*
 * The text, with a final NUL. Returns heap memory that the caller frees, NULL when there is none; *size_bytes (may be NULL)
 * gets the length without the NUL. Safe on any thread.
 */
char *abx_scaffold_text(size_t *size_bytes);

#endif
