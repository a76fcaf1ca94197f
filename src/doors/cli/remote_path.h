/* Words that name a path in a sandbox: ID:PATH. */
#ifndef ABX_CLI_REMOTE_PATH_H
#define ABX_CLI_REMOTE_PATH_H

#include <stdbool.h>

#include "base/error.h"

typedef struct abx_remote_path {
    char *sandbox; /* NULL: a path of this machine */
    char *path;    /* never "": "." stands for it */
} abx_remote_path;

/* "ID:PATH" → both; what has no colon, or a slash before it, is a path of this machine. Clear it. */
void abx_remote_path_init(abx_remote_path *p, const char *word);
void abx_remote_path_clear(abx_remote_path *p);
/* The same where only a path in a sandbox is right: 0, or -1 and USAGE. bare_id: a word without a colon is a sandbox. */
int abx_remote_path_parse(abx_remote_path *p, const char *word, bool bare_id, abx_error **err);

static inline void abx_remote_path_auto_(abx_remote_path *p)
{
    abx_remote_path_clear(p);
}
#define ABX_AUTO_REMOTE __attribute__((cleanup(abx_remote_path_auto_))) abx_remote_path

#endif
