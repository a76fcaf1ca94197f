/* A word on a terminal while a call takes longer than a moment; it goes away when the call ends. */
#ifndef ABX_CLI_PROGRESS_H
#define ABX_CLI_PROGRESS_H

#include "doors/cli/cli.h"

typedef struct abx_progress {
    uv_timer_t _timer;
    const char *_text;
    bool _open, _closed, _shown;
} abx_progress;

/* Only when stderr is a terminal, not quiet, not verbose, no CI, and only for operations that take long. Lives until end. */
void abx_progress_begin(abx_progress *p, abx_cli *cli, abx_op_id op);
void abx_progress_end(abx_progress *p);

#endif
