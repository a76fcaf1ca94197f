/* When is a piece of code, typed line by line, ready to run? Pure. */
#ifndef ABX_CLI_CODE_BLOCK_H
#define ABX_CLI_CODE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

/* The lines typed so far, each with its newline. True while more must come: open brackets or long texts, a line that
 * continues, a block (a first line that ends with ':', or of a shell: if without fi) until a blank line. A guess that a
 * blank line ends. */
bool abx_code_wants_more(const char *block, size_t n, bool shell);

#endif
