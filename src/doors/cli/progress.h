/* What a terminal shows while something takes longer than a moment: a word while a call runs (abx_progress), a line with
 * bytes, rate and files while much is transferred (abx_transfer). Both come after 300 ms, are written to stderr only when
 * that is a terminal, and go away when the work is done. Never with --quiet, --verbose, --json, CI or TERM=dumb. */
#ifndef ABX_CLI_PROGRESS_H
#define ABX_CLI_PROGRESS_H

#include "doors/cli/cli.h"

typedef struct abx_progress {
    uv_timer_t _timer;
    const char *_text;
    bool _open, _closed, _shown;
} abx_progress;

/* Only for operations that take long. Lives until end. */
void abx_progress_begin(abx_progress *p, abx_cli *cli, abx_op_id op);
void abx_progress_end(abx_progress *p);

/* --- transfers ------------------------------------------------------------------------------------------
 * abx_transfer t;
 * abx_transfer_begin(&t, cli, "copying");
 * … abx_transfer_add(&t, n, 1) for each piece, from anywhere on the main thread …
 * abx_transfer_end(&t);
 * Notes of abx_cli_note and abx_cli_warn take the line away first; it comes back with the next piece. */
typedef struct abx_transfer_state {
    const char *label;          /* "copying"; static */
    int64_t bytes, total_bytes; /* total -1: unknown */
    int64_t files, total_files; /* total -1: unknown; 0 of -1 is not shown */
    uint64_t elapsed_ms;        /* since the first byte could come */
} abx_transfer_state;

typedef struct abx_transfer {
    abx_transfer_state state; /* totals may be set at any time */
    abx_cli *_cli;
    uv_timer_t _timer;
    uint64_t _begin_ms, _drawn_ms;
    bool _open, _closed, _shown;
} abx_transfer;

/* t must stay where it is until end. One at a time; a second one shows nothing. */
void abx_transfer_begin(abx_transfer *t, abx_cli *cli, const char *label);
/* Count what was done; draws when it is time. t may be NULL. */
void abx_transfer_add(abx_transfer *t, int64_t bytes, int64_t files);
/* Take the line away for something else that is printed. t may be NULL. */
void abx_transfer_hide(abx_transfer *t);
/* Also on every way out with an error. Again: nothing more. */
void abx_transfer_end(abx_transfer *t);
/* The line, at most `width` - 1 columns: what does not fit is left out, least important first. Pure. */
void abx_transfer_text(const abx_transfer_state *s, size_t width, abx_buf *out);

#endif
