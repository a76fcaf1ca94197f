/* The second way in: a program that must not fork itself (threads, secrets in memory) starts `abx` for it.
 * Descriptor 3 of the helper is a socket pair with one request and one answer, each 4 bytes of length (big
 * end first) and JSON. */
#ifndef ABX_LOCAL_STARTER_H
#define ABX_LOCAL_STARTER_H

#include "local/backend.h"
#include "net/child.h"

#define ABX_STARTER_VERB "__local-start"

/* abx_local_create by a started program. */
int abx_starter_create(abx_local *local, const abx_local_spec *spec, abx_local_created_cb cb,
                       void *data, abx_error **err);

/* Start abx with `theirs` as its descriptor 3 (stays the caller's) and nothing else of this process but what finding files needs.
 * on_exit as in net/child.h. 0 and *child; -1 and *err. */
int abx_starter_spawn(abx_local *local, int theirs,
                      void (*on_exit)(abx_child *child, int status, void *data), void *data,
                      abx_child **child, abx_error **err);

/* Split a command line into words as a POSIX shell does (quotes and backslashes; no expansion of any kind).
 * NULL at the end; freed by abx_words_free. NULL and *err: an open quote, or no word. */
char **abx_words_split(const char *line, abx_error **err);
void abx_words_free(char **words);
/* The words that start abx: `line` if given; else the abx beside this library or program; else ABX_BIN (a
 * command line); else abx on PATH. NULL and *err when there is none. */
char **abx_starter_words(const char *line, abx_error **err);

#endif
