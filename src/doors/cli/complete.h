/* What may stand next in a command line, by the tables of the verbs and flags. The scripts of `abx completion` ask for
 * it with `abx __complete WORD...`; nothing is connected to, made or changed for an answer. */
#ifndef ABX_CLI_COMPLETE_H
#define ABX_CLI_COMPLETE_H

#include "base/buf.h"
#include "host/adapter.h"

/* words: behind the program's name, the last one is being typed and may be empty. Appends a line a candidate: the word, a
 * tab and what it means (no tab without one). A last line ":files" or ":folders" asks the shell for its own files or
 * folders too. home: folder of all state, for names of sandboxes; NULL: none are known. */
void abx_complete(char *const *words, size_t count, const char *home,
                  const abx_adapter *const *adapters, abx_buf *out);
/* The same for argv of `abx __complete`, to standard output. Returns the exit code, 0 in every case. */
int abx_complete_main(int argc, char **argv, const abx_adapter *const *adapters);

/* The script for a shell ("bash", "zsh", "fish"), or NULL. */
const char *abx_completion_script(const char *shell);

#endif
